// What the caller of a stream uses.
#include "stream_impl.h"

#include <algorithm>
#include <iostream>
#include <random>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "row_check.h"
#include "status_conversion.h"

namespace calibd::client {
namespace {

constexpr std::int64_t kMaxReportedRows = 5;
constexpr std::chrono::seconds kClosingTime{1};

std::string RandomProducerId() {
  std::random_device random;
  return absl::StrCat("client-", absl::Hex(random(), absl::kZeroPad8),
                      absl::Hex(random(), absl::kZeroPad8));
}

// The invalid rows of one call.
struct InvalidSet {
  std::vector<bool> flags;
  std::int64_t count = 0;
  // InvalidArgument naming the first invalid rows; OK if all rows are valid.
  absl::Status status;
};

// check(i) returns the violation of row i of n, if any. Errors number the row as first + i.
template <typename Check>
InvalidSet FindInvalid(std::int64_t first, std::size_t n, const Check& check) {
  InvalidSet invalid;
  invalid.flags.resize(n);
  std::vector<Violation> violations;
  for (std::size_t i = 0; i < n; ++i) {
    std::optional<Violation> violation = check(i);
    if (!violation.has_value()) continue;
    invalid.flags[i] = true;
    if (++invalid.count > kMaxReportedRows) continue;
    violation->row = static_cast<std::size_t>(first) + i;
    violations.push_back(*std::move(violation));
  }
  const std::int64_t more = invalid.count - kMaxReportedRows;
  if (invalid.count > 0) invalid.status = InvalidRowsError(violations, more);
  return invalid;
}

// The producer of a stream with an idempotency key.
constexpr char kKeyPrefix[] = "idempotency-key:";

absl::Status CheckOptions(const StreamOptions& options) {
  if (!options.idempotency_key.empty() && !options.producer_id.empty()) {
    return absl::InvalidArgumentError(
        "idempotency_key and producer_id are set, expected at most one of them");
  }
  if (options.epoch < 0) {
    return absl::InvalidArgumentError(absl::StrCat("epoch = ", options.epoch, ", expected >= 0"));
  }
  if (options.max_rows_per_batch < 0 || options.max_unacknowledged_batches < 0) {
    return absl::InvalidArgumentError(
        "max_rows_per_batch and max_unacknowledged_batches must not be negative");
  }
  if (options.positive_class.value_or(0) != 0 && options.positive_class != 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("positive_class = ", *options.positive_class, ", expected 0 or 1"));
  }
  if (options.stall_timeout.count() <= 0) {
    return absl::InvalidArgumentError("stall_timeout must be positive");
  }
  return absl::OkStatus();
}

}  // namespace

StreamImpl::StreamImpl(StubSource stubs, std::string model, StreamOptions options,
                       std::shared_ptr<StreamLock> lock, bool retries_refusals)
    : stubs_(std::move(stubs)),
      model_(std::move(model)),
      options_(std::move(options)),
      retries_refusals_(retries_refusals),
      lock_(std::move(lock)),
      mutex_(lock_->mutex),
      changed_(lock_->changed),
      last_progress_(Clock::now()),
      replaced_(last_progress_),
      connects_from_(last_progress_) {}

absl::StatusOr<std::unique_ptr<StreamImpl>> StreamImpl::Start(StubSource stubs, std::string model,
                                                              StreamOptions options,
                                                              std::shared_ptr<StreamLock> lock,
                                                              bool retries_refusals) {
  if (absl::Status status = CheckOptions(options); !status.ok()) return status;
  if (options.producer_id.empty()) {
    options.ends_producer = true;
    options.producer_id = options.idempotency_key.empty()
                              ? RandomProducerId()
                              : absl::StrCat(kKeyPrefix, options.idempotency_key);
  }
  std::unique_ptr<StreamImpl> impl(new StreamImpl(
      std::move(stubs), std::move(model), std::move(options), std::move(lock), retries_refusals));
  auto thread = TryStartThread([raw = impl.get()] { raw->RunConnections(); });
  if (!thread.has_value()) return absl::UnavailableError("no thread can be started");
  impl->connection_thread_ = *std::move(thread);
  return impl;
}

absl::StatusOr<std::unique_ptr<ObservationStream>> StreamImpl::Open(
    StubSource stubs, std::string model, StreamOptions options,
    std::chrono::milliseconds open_timeout, const std::stop_token& stop) {
  auto started = Start(std::move(stubs), std::move(model), std::move(options),
                       std::make_shared<StreamLock>(), /*retries_refusals=*/false);
  if (!started.ok()) return started.status();
  std::unique_ptr<StreamImpl> impl = *std::move(started);
  const std::stop_callback cancel(stop, [raw = impl.get()] { raw->Cancel(); });

  Lock lock(impl->mutex_);
  const bool answered = impl->changed_.wait_for(
      lock, open_timeout, [&] { return impl->opened_.has_value() || !impl->failure_.ok(); });
  if (!impl->failure_.ok()) return impl->failure_;
  if (!answered) {
    return absl::DeadlineExceededError(
        absl::StrCat("the server did not open the stream within ", open_timeout.count(), " ms"));
  }
  lock.unlock();
  if (absl::Status status = impl->Prepare(); !status.ok()) return status;
  return impl;
}

absl::Status StreamImpl::Prepare() {
  auto builder = BatchBuilder::Create(*opened_, options_.max_rows_per_batch);
  if (!builder.ok()) return builder.status();
  class_count_ = static_cast<std::size_t>(opened_->classes().count());
  if (options_.positive_class.has_value() && class_count_ != 2) {
    return absl::FailedPreconditionError(absl::StrCat(
        "positive_class needs a model of two classes, and this one has ", class_count_));
  }
  row_width_ = options_.positive_class.has_value() ? 1 : class_count_;
  if (opened_->has_forecast()) row_width_ = WidthOf(opened_->forecast());
  row_sum_tolerance_ = opened_->classes().row_sum_tolerance();
  if (opened_->has_labels()) {
    row_width_ = static_cast<std::size_t>(opened_->labels().names_size());
    label_width_ = row_width_;
    row_sum_tolerance_ = kNoRowSum;
  }
  if (options_.with_baseline) row_width_ *= 2;
  builder_ = *std::move(builder);
  return absl::OkStatus();
}

StreamImpl::~StreamImpl() {
  {
    // There may be no memory for a text.
    const Lock lock(mutex_);
    if (!finished_ && failure_.ok()) Fail(absl::Status(absl::StatusCode::kCancelled, ""));
  }
  if (connection_thread_.joinable()) connection_thread_.join();
}

void StreamImpl::Cancel() {
  const Lock lock(mutex_);
  if (!finished_) Fail(absl::CancelledError("the stream was cancelled"));
}

void StreamImpl::NoteProgress() {
  last_progress_ = Clock::now();
  connection_error_ = absl::OkStatus();
}

void StreamImpl::Fail(absl::Status status) {
  if (failure_.ok()) failure_ = std::move(status);
  if (context_ != nullptr) context_->TryCancel();
  changed_.notify_all();
}

absl::Status StreamImpl::CheckKind(bool forecasts) const {
  if (opened_->has_forecast() == forecasts) return absl::OkStatus();
  return absl::FailedPreconditionError(
      forecasts ? "the model predicts classes or labels: send probabilities or logits with labels"
                : "the model forecasts a number: send forecasts with outcomes");
}

std::optional<Violation> StreamImpl::FindFaultOfLabels(std::span<const std::int32_t> labels) const {
  return opened_->has_labels() ? FindTruthFault(opened_->labels(), labels)
                               : FindLabelFault(labels.front(), class_count_);
}

absl::StatusOr<std::vector<double>> StreamImpl::TakeFeatures(std::size_t n) {
  std::vector<double> features = std::exchange(features_, {});
  if (features.size() == n * feature_count()) return features;
  return absl::InvalidArgumentError(
      absl::StrCat(features.size(), " features, expected ", feature_count(), " for each of ", n,
                   n == 1 ? " row" : " rows",
                   feature_count() == 0 ? " because the model has no feature_names"
                                        : ": call SetFeatures before the rows are sent"));
}

template <typename T>
absl::Status StreamImpl::SendLabelled(PredictionKind kind, std::span<const T> values,
                                      std::span<const std::int32_t> labels) {
  if (absl::Status status = CheckKind(/*forecasts=*/false); !status.ok()) return status;
  if (values.size() % row_width_ != 0 ||
      values.size() / row_width_ * label_width_ != labels.size()) {
    return absl::InvalidArgumentError(
        opened_->has_labels()
            ? absl::StrCat(values.size(), " values and ", labels.size(), " truths, expected ",
                           row_width_, " values and truths for each row")
            : absl::StrCat(values.size(), " values and ", labels.size(), " labels, expected ",
                           row_width_, " values for each label"));
  }
  return SendRows(kind, values, {}, labels);
}

template <typename T>
absl::Status StreamImpl::SendNamed(PredictionKind kind, std::span<const T> values,
                                   std::span<const std::string> ids,
                                   std::span<const std::int32_t> labels) {
  if (absl::Status status = CheckKind(/*forecasts=*/false); !status.ok()) return status;
  if (values.size() % row_width_ != 0 || values.size() / row_width_ != ids.size() ||
      (!labels.empty() && labels.size() != ids.size() * label_width_)) {
    return absl::InvalidArgumentError(absl::StrCat(
        values.size(), " values, ", ids.size(), " ids and ", labels.size(), " labels, expected ",
        row_width_, " values and a label, or no labels, for each id"));
  }
  return SendRows(kind, values, ids, labels);
}

template <typename T>
void StreamImpl::WarnOfClasses(PredictionKind kind, std::span<const T> values, std::size_t width) {
  // So many rows of 0 and 1 are no chance.
  constexpr std::size_t kManyRows = 20;
  if (!whole_rows_.has_value()) return;
  const auto is_whole = [](T value) { return value == 0 || value == 1; };
  for (auto rest = values; whole_rows_.has_value() && !rest.empty();
       rest = rest.subspan(row_width_)) {
    if (kind == PredictionKind::kProbabilities &&
        std::ranges::all_of(rest.first(width), is_whole)) {
      ++*whole_rows_;
    } else {
      whole_rows_.reset();
    }
  }
  if (whole_rows_.value_or(0) < kManyRows) return;
  whole_rows_.reset();
  const std::string warning =
      absl::StrCat(model_, ": all probabilities of the first ", kManyRows,
                   " rows or more are 0 or 1. If these are predicted classes, the answers are "
                   "wrong: send the probabilities of the model");
  if (options_.on_warning) {
    options_.on_warning(warning);
  } else {
    std::cerr << "calibd: " << warning << std::endl;
  }
}

template <typename T>
absl::Status StreamImpl::SendRows(PredictionKind kind, std::span<const T> values,
                                  std::span<const std::string> ids,
                                  std::span<const std::int32_t> labels) {
  if (absl::Status status = CheckOpen(); !status.ok()) return status;
  const std::size_t n = values.size() / row_width_;
  const auto features = TakeFeatures(n);
  if (!features.ok()) return features.status();
  const std::size_t width = options_.with_baseline ? row_width_ / 2 : row_width_;
  const auto row = [&](std::size_t i) {
    const std::span<const T> all = values.subspan(i * row_width_, row_width_);
    PredictionRow<T> result{kind, all.first(width), {}, group_, {}, time_, all.subspan(width)};
    if (!ids.empty()) result.id = ids[i];
    if (!labels.empty()) result.labels = labels.subspan(i * label_width_, label_width_);
    result.features = std::span(*features).subspan(i * feature_count(), feature_count());
    return result;
  };
  const bool skip = options_.invalid_rows == InvalidRows::kSkip;
  const auto check = [&](std::size_t i) {
    std::optional<Violation> fault;
    // With kSkip the server finds these. An id must be valid nevertheless, as invalid UTF-8 would
    // break the message.
    if (!skip) fault = FindRowFault(kind, row(i).values, row_sum_tolerance_);
    if (!skip && !fault.has_value() && options_.with_baseline) {
      fault = FindRowFault(kind, row(i).baseline, row_sum_tolerance_);
      if (fault.has_value()) fault->field.insert(0, "baseline_");
    }
    if (!skip && !fault.has_value() && !labels.empty()) fault = FindFaultOfLabels(row(i).labels);
    if (!skip && !fault.has_value()) fault = FindFeatureFault(row(i).features);
    if (!fault.has_value() && !ids.empty()) fault = FindIdFault(ids[i]);
    if (!fault.has_value() && !builder_->Fits(row(i))) {
      fault = Violation{"prediction_ids", "makes the row larger than the server's largest batch"};
    }
    return fault;
  };
  absl::Status status = SendChecked(n, row, check);
  if (status.ok()) WarnOfClasses(kind, values, width);
  return status;
}

absl::Status StreamImpl::SendForecastRows(std::span<const double> forecasts,
                                          std::span<const std::string> ids,
                                          std::span<const double> outcomes) {
  if (absl::Status status = CheckOpen(); !status.ok()) return status;
  const auto features = TakeFeatures(forecasts.size() / row_width_);
  if (!features.ok()) return features.status();
  const auto row = [&](std::size_t i) {
    ForecastRow result{forecasts.subspan(i * row_width_, row_width_), {}, group_, {}, time_};
    if (!ids.empty()) result.id = ids[i];
    if (!outcomes.empty()) result.outcome = outcomes[i];
    result.features = std::span(*features).subspan(i * feature_count(), feature_count());
    return result;
  };
  const v1::Forecast& forecast = opened_->forecast();
  const bool skip = options_.invalid_rows == InvalidRows::kSkip;
  const auto check = [&](std::size_t i) {
    std::optional<Violation> fault;
    if (!skip) fault = FindForecastFault(forecast, row(i).values);
    if (!skip && !fault.has_value() && !outcomes.empty()) {
      fault = FindOutcomeFault(forecast, row(i).values, outcomes[i]);
    }
    if (!skip && !fault.has_value()) fault = FindFeatureFault(row(i).features);
    if (!fault.has_value() && !ids.empty()) fault = FindIdFault(ids[i]);
    if (!fault.has_value() && !builder_->Fits(row(i))) {
      fault = Violation{"prediction_ids", "makes the row larger than the server's largest batch"};
    }
    return fault;
  };
  return SendChecked(forecasts.size() / row_width_, row, check);
}

absl::Status StreamImpl::SendForecasts(std::span<const double> forecasts,
                                       std::span<const double> outcomes) {
  if (absl::Status status = CheckKind(/*forecasts=*/true); !status.ok()) return status;
  if (forecasts.size() % row_width_ != 0 || forecasts.size() / row_width_ != outcomes.size()) {
    return absl::InvalidArgumentError(absl::StrCat(forecasts.size(), " values and ",
                                                   outcomes.size(), " outcomes, expected ",
                                                   row_width_, " values for each outcome"));
  }
  return SendForecastRows(forecasts, {}, outcomes);
}

absl::Status StreamImpl::SendForecastsWithIds(std::span<const double> forecasts,
                                              std::span<const std::string> ids,
                                              std::span<const double> outcomes) {
  if (absl::Status status = CheckKind(/*forecasts=*/true); !status.ok()) return status;
  if (forecasts.size() % row_width_ != 0 || forecasts.size() / row_width_ != ids.size() ||
      (!outcomes.empty() && outcomes.size() != ids.size())) {
    return absl::InvalidArgumentError(absl::StrCat(
        forecasts.size(), " values, ", ids.size(), " ids and ", outcomes.size(),
        " outcomes, expected ", row_width_, " values and an outcome, or no outcomes, for each id"));
  }
  return SendForecastRows(forecasts, ids, outcomes);
}

template <typename MakeRow, typename Check>
absl::Status StreamImpl::SendChecked(std::size_t n, const MakeRow& row, const Check& check) {
  std::int64_t row_number = counts().rows;
  const InvalidSet invalid = FindInvalid(row_number, n, check);
  if (invalid.count > 0 && options_.invalid_rows != InvalidRows::kDrop) return invalid.status;
  for (std::size_t i = 0; i < n; ++i, ++row_number) {
    if (invalid.flags[i]) {
      builder_->AddDropped({.rows = 1});
    } else if (absl::Status status = Add(row(i), row_number); !status.ok()) {
      return status;
    }
  }
  const Lock lock(mutex_);
  counts_.rows = row_number;
  counts_.dropped_rows += invalid.count;
  return failure_;
}

absl::Status StreamImpl::Send(PredictionKind kind, std::span<const double> values,
                              std::span<const std::int32_t> labels) {
  return SendLabelled(kind, values, labels);
}

absl::Status StreamImpl::Send(PredictionKind kind, std::span<const float> values,
                              std::span<const std::int32_t> labels) {
  return SendLabelled(kind, values, labels);
}

absl::Status StreamImpl::SendWithIds(PredictionKind kind, std::span<const double> values,
                                     std::span<const std::string> ids,
                                     std::span<const std::int32_t> labels) {
  return SendNamed(kind, values, ids, labels);
}

absl::Status StreamImpl::SendWithIds(PredictionKind kind, std::span<const float> values,
                                     std::span<const std::string> ids,
                                     std::span<const std::int32_t> labels) {
  return SendNamed(kind, values, ids, labels);
}

absl::Status StreamImpl::SetGroup(std::string_view value) {
  if (const auto fault = value.empty() ? std::nullopt : FindGroupFault(value)) {
    return absl::InvalidArgumentError(absl::StrCat(fault->field, " ", fault->description));
  }
  group_ = value;
  return absl::OkStatus();
}

absl::Status StreamImpl::Label(std::span<const std::string> ids,
                               std::span<const std::int32_t> labels) {
  if (absl::Status status = CheckOpen(); !status.ok()) return status;
  if (absl::Status status = CheckKind(/*forecasts=*/false); !status.ok()) return status;
  if (ids.size() * label_width_ != labels.size()) {
    return absl::InvalidArgumentError(absl::StrCat(
        ids.size(), " ids and ", labels.size(), " labels, expected ",
        opened_->has_labels() ? absl::StrCat(label_width_, " truths") : std::string("a label"),
        " for each id"));
  }
  const auto labels_of = [&](std::size_t i) {
    return labels.subspan(i * label_width_, label_width_);
  };
  return LabelChecked(
      ids.size(),
      [&](std::size_t i) {
        return LabelRow{ids[i], labels_of(i)};
      },
      [&](std::size_t i) { return FindFaultOfLabels(labels_of(i)); });
}

absl::Status StreamImpl::LabelOutcomes(std::span<const std::string> ids,
                                       std::span<const double> outcomes) {
  if (absl::Status status = CheckOpen(); !status.ok()) return status;
  if (absl::Status status = CheckKind(/*forecasts=*/true); !status.ok()) return status;
  if (ids.size() != outcomes.size()) {
    return absl::InvalidArgumentError(absl::StrCat(ids.size(), " ids and ", outcomes.size(),
                                                   " outcomes, expected an outcome for each id"));
  }
  return LabelChecked(
      ids.size(),
      [&](std::size_t i) {
        return OutcomeRow{ids[i], outcomes[i]};
      },
      [&](std::size_t i) { return FindOutcomeFault(opened_->forecast(), {}, outcomes[i]); });
}

template <typename MakeRow, typename Check>
absl::Status StreamImpl::LabelChecked(std::size_t n, const MakeRow& row, const Check& check) {
  std::int64_t number = counts().labels.labels;
  const auto check_all = [&](std::size_t i) {
    std::optional<Violation> fault = check(i);
    if (!fault.has_value()) fault = FindIdFault(row(i).id);
    if (!fault.has_value() && !builder_->Fits(row(i))) {
      fault = Violation{"prediction_ids", "is larger than the server's largest batch"};
    }
    return fault;
  };
  const InvalidSet invalid = FindInvalid(number, n, check_all);
  if (invalid.count > 0 && options_.invalid_rows != InvalidRows::kDrop) return invalid.status;
  for (std::size_t i = 0; i < n; ++i, ++number) {
    if (invalid.flags[i]) {
      builder_->AddDropped({.labels = 1});
    } else if (absl::Status status = Add(row(i), number); !status.ok()) {
      return status;
    }
  }
  const Lock lock(mutex_);
  counts_.labels.labels = number;
  counts_.labels.dropped += invalid.count;
  return failure_;
}

template <typename Row>
absl::Status StreamImpl::Add(const Row& row, std::int64_t row_number) {
  // A batch is sent when the next row needs room, not when it is full. The last batch is therefore
  // still here and carries the counts of what was dropped.
  if (builder_->NeedsNewBatch(row)) {
    if (absl::Status status = PushBatch(); !status.ok()) return status;
  }
  builder_->Add(row, row_number);
  return absl::OkStatus();
}

absl::Status StreamImpl::CheckOpen() const {
  const Lock lock(mutex_);
  if (!failure_.ok()) return failure_;
  if (finishing_) return absl::FailedPreconditionError("the stream was finished");
  return absl::OkStatus();
}

template <typename Done>
absl::Status StreamImpl::WaitFor(Lock& lock, const Done& done) {
  while (!done() && failure_.ok()) {
    const Clock::time_point deadline = last_progress_ + options_.stall_timeout;
    if (changed_.wait_until(lock, deadline) == std::cv_status::timeout &&
        Clock::now() >= last_progress_ + options_.stall_timeout) {
      Fail(absl::IsResourceExhausted(connection_error_)
               ? connection_error_
               : absl::DeadlineExceededError(absl::StrCat("the server acknowledged nothing for ",
                                                          options_.stall_timeout.count(), " ms")));
    }
  }
  return failure_;
}

absl::Status StreamImpl::PushBatch() {
  Lock lock(mutex_);
  if (absl::Status status = WaitFor(lock, [&] { return !window_->full(); }); !status.ok()) {
    return status;
  }
  if (window_->empty()) last_progress_ = Clock::now();
  OutgoingBatch batch = builder_->Take();
  if (!batch.has_labels()) {
    v1::Observations& observations = *batch.request.mutable_batch()->mutable_observations();
    if (options_.positive_class.has_value()) {
      observations.set_positive_class(*options_.positive_class);
    }
    // A Monitor has nobody who could repair a row that only the server finds invalid.
    observations.set_skip_invalid_rows(options_.invalid_rows == InvalidRows::kSkip ||
                                       retries_refusals_);
  }
  window_->Push(std::move(batch));
  changed_.notify_all();
  return absl::OkStatus();
}

absl::Status StreamImpl::Flush() {
  // A batch of labels leaves the counts of what was dropped to a second batch.
  while (!builder_->empty()) {
    if (absl::Status status = PushBatch(); !status.ok()) return status;
  }
  const Lock lock(mutex_);
  return failure_;
}

absl::StatusOr<StreamCounts> StreamImpl::Finish() {
  if (absl::Status status = CheckOpen(); !status.ok()) return status;
  if (absl::Status status = Flush(); !status.ok()) return status;
  {
    Lock lock(mutex_);
    if (window_->empty()) last_progress_ = Clock::now();
    finishing_ = true;
    changed_.notify_all();
    if (absl::Status status = WaitFor(lock, [&] { return finished_; }); !status.ok()) return status;
    // Both sides agree already; the status of the call is only waited for briefly.
    changed_.wait_for(lock, kClosingTime, [&] { return connection_ended_; });
    if (context_ != nullptr) context_->TryCancel();
  }
  connection_thread_.join();
  return counts();
}

void StreamImpl::PushBuffered() {
  while (has_buffered()) {
    {
      const Lock lock(mutex_);
      if (!has_room() || !failure_.ok()) return;
    }
    if (!PushBatch().ok()) return;
  }
}

Dropped StreamImpl::unsettled_dropped() const {
  Dropped all;
  if (builder_.has_value()) all.Add(builder_->dropped());
  if (window_.has_value()) all.Add(window_->dropped());
  return all;
}

StreamCounts StreamImpl::counts() const {
  const Lock lock(mutex_);
  return counts_;
}

std::vector<RejectedBatch> StreamImpl::TakeRejected() {
  const Lock lock(mutex_);
  std::vector<RejectedBatch> taken(std::make_move_iterator(rejected_.begin()),
                                   std::make_move_iterator(rejected_.end()));
  rejected_.clear();
  return taken;
}

}  // namespace calibd::client
