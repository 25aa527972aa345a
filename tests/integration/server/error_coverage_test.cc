// How often the answers to "how far off" of the real server are wrong, with SIGKILLs and
// acknowledgements on the way. The true probabilities are known. Seeds and the places of kills and
// acknowledgements are fixed.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "calibd/core/binned_error.h"
#include "integration/server/service_client.h"
#include "statistical/error_streams.h"
#include "support/server_process.h"
#include "support/temporary_folder.h"

namespace calibd::testing {
namespace {

constexpr double kAlpha = 0.05;
constexpr int kStreams = 50;
constexpr int kPieces = 6;

// After these pieces, counted from 0, active alarms OVER_LIMIT are acknowledged, or the server is
// killed: as soon as the last batch is acknowledged, or after the alarms are.
constexpr bool IsAcknowledgedAfter(int piece) { return piece == 2 || piece == 4; }
constexpr bool IsKilledBeforeAnswers(int piece) { return piece == 1 || piece == 4; }
constexpr bool IsKilledAfterAnswers(int piece) { return piece == 2; }

// The true error of the series that the server watches, and whether an answer was ever wrong.
class ErrorTruth {
 public:
  // excess: how much too high the probability of the predicted class is.
  void Add(const PredictionBatch& batch, std::size_t row, std::size_t predicted, double excess) {
    const auto bin = [&](std::size_t k) {
      return UniformBinIndex(batch.row(row)[k], kReliabilityBinCount) - 1;
    };
    top_label_.Add(bin(predicted), excess);
    class_1_.Add(bin(1), predicted == 1 ? excess : -excess);
  }
  [[nodiscard]] bool IsIn(const v1::ErrorMeasurement& measured) const {
    const bool holds = top_label_.IsIn(FromProto(measured.top_label()));
    return holds && (!measured.has_class_1() || class_1_.IsIn(FromProto(measured.class_1())));
  }

 private:
  static ErrorInterval FromProto(const v1::ErrorInterval& proto) {
    return {.estimate = proto.estimate(),
            .lower = proto.lower(),
            .upper = proto.upper(),
            .gap = proto.gap(),
            .gap_lower = proto.gap_lower(),
            .gap_upper = proto.gap_upper()};
  }

  TrueError top_label_;
  TrueError class_1_;
};

// A model with its stream.
class ErrorModel {
 public:
  ErrorModel(ErrorKind kind, std::size_t m, int number, int rows_per_piece, double limit)
      : name_("models/stream-" + std::to_string(number)),
        m_(m),
        rows_(rows_per_piece),
        limit_(limit),
        stream_(kind, static_cast<double>(m), static_cast<std::uint64_t>(number) + 1,
                kPieces * rows_per_piece),
        rng_(static_cast<std::uint64_t>(number) + 1001) {}

  void Create(ServiceClient& client) const {
    v1::Model model;
    model.set_name(name_);
    model.mutable_classes()->set_count(static_cast<std::int32_t>(m_));
    model.mutable_classes()->mutable_bandwidth()->set_fixed(0.5);
    // Many models with 1000 classes then fit the server's memory limit.
    model.set_window(2);
    model.mutable_monitoring()->set_error_limit(limit_);
    const grpc::Status status = client.Create(model);
    EXPECT_TRUE(status.ok()) << status.error_message();
  }
  void Delete(ServiceClient& client) const { EXPECT_TRUE(client.Delete(name_).ok()); }

  // Draws the next piece and adds it to the truth.
  v1::ObserveRequest Next() {
    std::uniform_int_distribution<std::size_t> any_class(0, m_ - 1);
    std::uniform_int_distribution<std::size_t> other_class(1, m_ - 1);
    PredictionSet set;
    set.class_count = m_;
    for (int i = 0; i < rows_; ++i) {
      const std::size_t predicted = any_class(rng_);
      const ErrorStream::Prediction prediction = stream_.Next();
      const double rest = (1 - prediction.stated) / static_cast<double>(m_ - 1);
      set.probabilities.insert(set.probabilities.end(), m_, rest);
      set.probabilities[static_cast<std::size_t>(i) * m_ + predicted] = prediction.stated;
      const std::size_t label =
          prediction.happened ? predicted : (predicted + other_class(rng_)) % m_;
      set.labels.push_back(static_cast<std::int32_t>(label));
      const auto row = static_cast<std::size_t>(i);
      since_start_.Add(set.view(), row, predicted, prediction.excess);
      since_acknowledgement_.Add(set.view(), row, predicted, prediction.excess);
    }
    v1::ObserveRequest request;
    request.set_model(name_);
    *request.mutable_observations() = ToProto(set.view());
    return request;
  }

  // Compares the answer with the truth.
  void Check(const v1::GetCalibrationResponse& answer) {
    const v1::CalibrationError& error = answer.error();
    held_ &= since_start_.IsIn(error.since_start());
    if (error.has_since_acknowledgement()) {
      held_ &= since_acknowledgement_.IsIn(error.since_acknowledgement());
    }
    ever_over_ |= error.status() == v1::CalibrationError::OVER_LIMIT;
    ever_within_ |= error.status() == v1::CalibrationError::WITHIN_LIMIT;
  }

  // Acknowledges the alarm OVER_LIMIT, if it is active.
  void Acknowledge(ServiceClient& client) {
    const v1::GetCalibrationResponse answer = client.GetCalibration(name_);
    for (const v1::Alarm& alarm : answer.alarms()) {
      if (alarm.kind() != v1::Alarm::OVER_LIMIT || alarm.has_acknowledge_time()) continue;
      v1::AcknowledgeAlarmRequest request;
      request.set_model(name_);
      request.set_alarm_id(alarm.id());
      v1::AcknowledgeAlarmResponse response;
      CallContext context;
      EXPECT_TRUE(client.calibration->AcknowledgeAlarm(&context, request, &response).ok());
      since_acknowledgement_ = {};
      ++acknowledged_;
    }
  }

  [[nodiscard]] const std::string& name() const { return name_; }
  // True if all intervals held the truth.
  [[nodiscard]] bool held() const { return held_; }
  [[nodiscard]] bool ever_over() const { return ever_over_; }
  [[nodiscard]] bool ever_within() const { return ever_within_; }
  [[nodiscard]] int acknowledged() const { return acknowledged_; }

 private:
  const std::string name_;
  const std::size_t m_;
  const int rows_;
  const double limit_;
  ErrorStream stream_;
  std::mt19937_64 rng_;
  ErrorTruth since_start_;
  ErrorTruth since_acknowledgement_;
  bool held_ = true;
  bool ever_over_ = false;
  bool ever_within_ = false;
  int acknowledged_ = 0;
};

// The models of some streams on a server of their own.
class ErrorFleet {
 public:
  ErrorFleet() { Start(); }

  // Sends all pieces, and compares the answers with the truth after each.
  void Run(std::deque<ErrorModel>& models, bool with_kills) {
    ForEach(models, [this](ErrorModel& model) { model.Create(*client_); });
    for (int piece = 0; piece < kPieces; ++piece) {
      ForEach(models, [this](ErrorModel& model) {
        const grpc::Status status = client_->Observe(model.Next());
        EXPECT_TRUE(status.ok()) << status.error_message();
      });
      if (with_kills && IsKilledBeforeAnswers(piece)) Restart();
      ForEach(models, [this, piece](ErrorModel& model) {
        model.Check(client_->GetCalibration(model.name()));
        if (IsAcknowledgedAfter(piece)) model.Acknowledge(*client_);
      });
      if (with_kills && IsKilledAfterAnswers(piece)) Restart();
    }
  }
  void Delete(std::deque<ErrorModel>& models) {
    ForEach(models, [this](ErrorModel& model) { model.Delete(*client_); });
  }
  [[nodiscard]] ServiceClient& client() { return *client_; }

 private:
  void Start() {
    server_ = ServerProcess::Start({"--data-dir", (folder_.path() / "data").string()});
    ASSERT_NE(server_, nullptr);
    client_.emplace(server_->grpc_address());
  }
  void Restart() {
    server_->Kill();
    Start();
  }
  // Models are independent of each other, so four are served at a time.
  template <typename Body>
  static void ForEach(std::deque<ErrorModel>& models, const Body& body) {
    constexpr std::size_t kThreads = 4;
    std::vector<std::jthread> threads;
    for (std::size_t t = 0; t < kThreads; ++t) {
      threads.emplace_back([&models, &body, t] {
        for (std::size_t i = t; i < models.size(); i += kThreads) body(models[i]);
      });
    }
  }

  const TemporaryFolder folder_;
  std::unique_ptr<ServerProcess> server_;
  std::optional<ServiceClient> client_;
};

int RowsPerPiece(std::size_t m) { return m == 1000 ? 40 : 400; }

std::deque<ErrorModel> Models(ErrorKind kind, std::size_t m, int streams, double limit = 0.02) {
  std::deque<ErrorModel> models;
  for (int i = 0; i < streams; ++i) models.emplace_back(kind, m, i, RowsPerPiece(m), limit);
  return models;
}

template <typename Predicate>
double Share(const std::deque<ErrorModel>& models, const Predicate& predicate) {
  return static_cast<double>(std::count_if(models.begin(), models.end(), predicate)) /
         static_cast<double>(models.size());
}

class ServedErrorCoverageTest : public ::testing::TestWithParam<std::size_t> {};

TEST_P(ServedErrorCoverageTest, IntervalsHoldTheTruthAcrossKillsAndAcknowledgements) {
  const std::size_t m = GetParam();
  ErrorFleet fleet;
  int acknowledged = 0;
  for (const ErrorKind kind : kErrorKinds) {
    SCOPED_TRACE(static_cast<int>(kind));
    std::deque<ErrorModel> models = Models(kind, m, kStreams);
    fleet.Run(models, true);
    fleet.Delete(models);
    const double bound = ErrorBound(kAlpha, kStreams);
    EXPECT_LE(Share(models, [](const ErrorModel& model) { return !model.held(); }), bound);
    for (const ErrorModel& model : models) acknowledged += model.acknowledged();
    if (kind == ErrorKind::kCalibrated) {
      EXPECT_LE(Share(models, [](const ErrorModel& model) { return model.ever_over(); }), bound);
    }
  }
  // Without acknowledgements the test would say nothing about them.
  EXPECT_GE(acknowledged, kStreams / 2);
}
INSTANTIATE_TEST_SUITE_P(Classes, ServedErrorCoverageTest, ::testing::Values(2, 10, 1000),
                         ::testing::PrintToStringParamName());

// The truth is 20 points.
TEST(ServedErrorAnswerTest, AModelTwoPointsOverItsLimitIsRarelyWithinIt) {
  ErrorFleet fleet;
  std::deque<ErrorModel> models = Models(ErrorKind::kOverConfident, 10, kStreams, 0.18);
  fleet.Run(models, false);
  EXPECT_LE(Share(models, [](const ErrorModel& model) { return model.ever_within(); }),
            ErrorBound(kAlpha, kStreams));
}

// The parts of an answer that do not depend on the time of day.
std::string Timeless(v1::GetCalibrationResponse answer) {
  v1::CalibrationError& error = *answer.mutable_error();
  error.mutable_since_start()->clear_start_time();
  if (error.has_since_acknowledgement()) error.mutable_since_acknowledgement()->clear_start_time();
  if (error.has_newest()) error.mutable_newest()->clear_start_time();
  std::string text = error.SerializeAsString();
  for (v1::Alarm& alarm : *answer.mutable_alarms()) {
    alarm.clear_raise_time();
    alarm.clear_acknowledge_time();
    text += alarm.SerializeAsString();
  }
  return text;
}

TEST(ServedErrorStateTest, EqualsThatOfAServerThatWasNotKilled) {
  ErrorFleet killed;
  ErrorFleet undisturbed;
  for (const ErrorKind kind : kErrorKinds) {
    SCOPED_TRACE(static_cast<int>(kind));
    for (const std::size_t m : {std::size_t{2}, std::size_t{10}}) {
      std::deque<ErrorModel> models = Models(kind, m, 4);
      std::deque<ErrorModel> same = Models(kind, m, 4);
      killed.Run(models, true);
      undisturbed.Run(same, false);
      for (const ErrorModel& model : models) {
        EXPECT_EQ(Timeless(killed.client().GetCalibration(model.name())),
                  Timeless(undisturbed.client().GetCalibration(model.name())));
      }
      killed.Delete(models);
      undisturbed.Delete(same);
    }
  }
}

}  // namespace
}  // namespace calibd::testing
