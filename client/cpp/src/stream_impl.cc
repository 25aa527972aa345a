#include "stream_impl.h"

#include <algorithm>
#include <random>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "backoff.h"
#include "row_check.h"
#include "status_conversion.h"

namespace calibd::client {
namespace {

constexpr std::int64_t kMaxReportedRows = 5;
constexpr std::size_t kMaxKeptRejections = 100;
constexpr std::chrono::seconds kClosingTime{1};

std::string RandomProducerId() {
  std::random_device random;
  return absl::StrCat("client-", absl::Hex(random(), absl::kZeroPad8),
                      absl::Hex(random(), absl::kZeroPad8));
}

// True if the stream opens a new connection after this status. Includes more codes than the retry
// of a call, because the batch numbers make a resend safe after any interruption.
bool IsResumable(const absl::Status& status) {
  // A broken message may look like a clean end of the stream to the server or to the client.
  return IsRetryable(status) || IsCutOff(status) || ErrorReason(status) == "NOT_FINISHED" ||
         status.ok();
}

// The invalid rows of one call.
struct InvalidSet {
  std::vector<bool> flags;
  std::int64_t count = 0;
  // InvalidArgument naming the first invalid rows; OK if all rows are valid.
  absl::Status status;
};

// check(i) returns the fault of row i of n, if any. Errors name the row what[first + i].
template <typename Check>
InvalidSet FindInvalid(const char* what, std::int64_t first, std::size_t n, const Check& check) {
  InvalidSet invalid;
  invalid.flags.resize(n);
  std::vector<std::string> faults;
  for (std::size_t i = 0; i < n; ++i) {
    const auto fault = check(i);
    if (!fault.has_value()) continue;
    invalid.flags[i] = true;
    if (++invalid.count <= kMaxReportedRows) {
      faults.push_back(absl::StrCat(what, "[", first + static_cast<std::int64_t>(i), "].",
                                    fault->field, " ", fault->description));
    }
  }
  if (invalid.count > kMaxReportedRows) {
    faults.push_back(absl::StrCat(invalid.count - kMaxReportedRows, " more"));
  }
  if (invalid.count > 0) invalid.status = absl::InvalidArgumentError(absl::StrJoin(faults, "; "));
  return invalid;
}

// The producer of a stream with an idempotency key.
constexpr char kKeyPrefix[] = "idempotency-key:";

// The server names the producer, which the caller of a stream with a key did not choose.
absl::Status DescribeReuse(const std::string& key, const absl::Status& status) {
  if (key.empty() || !absl::IsAlreadyExists(status)) return status;
  return absl::AlreadyExistsError(
      absl::StrCat("the idempotency key ", key,
                   " was already used with other rows: repeat the same rows with the same options, "
                   "or use a new key"));
}

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

StreamImpl::StreamImpl(std::shared_ptr<v1::IngestService::Stub> stub, std::string model,
                       StreamOptions options)
    : stub_(std::move(stub)),
      model_(std::move(model)),
      options_(std::move(options)),
      last_progress_(Clock::now()) {}

absl::StatusOr<std::unique_ptr<ObservationStream>> StreamImpl::Open(
    std::shared_ptr<v1::IngestService::Stub> stub, std::string model, StreamOptions options,
    std::chrono::milliseconds open_timeout, const std::stop_token& stop) {
  if (absl::Status status = CheckOptions(options); !status.ok()) return status;
  if (options.producer_id.empty()) {
    options.ends_producer = true;
    options.producer_id = options.idempotency_key.empty()
                              ? RandomProducerId()
                              : absl::StrCat(kKeyPrefix, options.idempotency_key);
  }
  std::unique_ptr<StreamImpl> impl(
      new StreamImpl(std::move(stub), std::move(model), std::move(options)));
  impl->connection_thread_ = std::thread([raw = impl.get()] { raw->RunConnections(); });
  const std::stop_callback cancel(stop, [raw = impl.get()] { raw->Cancel(); });

  Lock lock(impl->mutex_);
  const bool answered = impl->changed_.wait_for(
      lock, open_timeout, [&] { return impl->opened_.has_value() || !impl->failure_.ok(); });
  if (!impl->failure_.ok()) return impl->failure_;
  if (!answered) {
    return absl::DeadlineExceededError(
        absl::StrCat("the server did not open the stream within ", open_timeout.count(), " ms"));
  }
  auto builder = BatchBuilder::Create(*impl->opened_, impl->options_.max_rows_per_batch);
  if (!builder.ok()) return builder.status();
  impl->builder_ = *std::move(builder);
  impl->class_count_ = static_cast<std::size_t>(impl->opened_->class_count());
  if (impl->options_.positive_class.has_value() && impl->class_count_ != 2) {
    return absl::FailedPreconditionError(absl::StrCat(
        "positive_class needs a model of two classes, and this one has ", impl->class_count_));
  }
  impl->row_width_ = impl->options_.positive_class.has_value() ? 1 : impl->class_count_;
  if (impl->opened_->has_forecast()) impl->row_width_ = WidthOf(impl->opened_->forecast());
  if (impl->options_.with_baseline) impl->row_width_ *= 2;
  impl->row_sum_tolerance_ = impl->opened_->row_sum_tolerance();
  lock.unlock();
  return impl;
}

StreamImpl::~StreamImpl() {
  Cancel();
  if (connection_thread_.joinable()) connection_thread_.join();
}

void StreamImpl::Cancel() {
  const Lock lock(mutex_);
  if (!finished_) Fail(absl::CancelledError("the stream was cancelled"));
}

void StreamImpl::Fail(absl::Status status) {
  if (failure_.ok()) failure_ = std::move(status);
  if (context_ != nullptr) context_->TryCancel();
  changed_.notify_all();
}

// --- the caller's thread ---

absl::Status StreamImpl::CheckKind(bool forecasts) const {
  if (opened_->has_forecast() == forecasts) return absl::OkStatus();
  return absl::FailedPreconditionError(
      forecasts ? "the model predicts classes: send probabilities or logits with labels"
                : "the model forecasts a number: send forecasts with outcomes");
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
  if (values.size() % row_width_ != 0 || values.size() / row_width_ != labels.size()) {
    return absl::InvalidArgumentError(absl::StrCat(values.size(), " values and ", labels.size(),
                                                   " labels, expected ", row_width_,
                                                   " values for each label"));
  }
  return SendRows(kind, values, {}, labels);
}

template <typename T>
absl::Status StreamImpl::SendNamed(PredictionKind kind, std::span<const T> values,
                                   std::span<const std::string> ids,
                                   std::span<const std::int32_t> labels) {
  if (absl::Status status = CheckKind(/*forecasts=*/false); !status.ok()) return status;
  if (values.size() % row_width_ != 0 || values.size() / row_width_ != ids.size() ||
      (!labels.empty() && labels.size() != ids.size())) {
    return absl::InvalidArgumentError(absl::StrCat(
        values.size(), " values, ", ids.size(), " ids and ", labels.size(), " labels, expected ",
        row_width_, " values and a label, or no labels, for each id"));
  }
  return SendRows(kind, values, ids, labels);
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
    if (!labels.empty()) result.label = labels[i];
    result.features = std::span(*features).subspan(i * feature_count(), feature_count());
    return result;
  };
  const bool skip = options_.invalid_rows == InvalidRows::kSkip;
  const auto check = [&](std::size_t i) {
    std::optional<RowFault> fault;
    // With kSkip the server finds these. An id must be valid nevertheless, as invalid UTF-8 would
    // break the message.
    if (!skip) fault = FindRowFault(kind, row(i).values, row_sum_tolerance_);
    if (!skip && !fault.has_value() && options_.with_baseline) {
      fault = FindRowFault(kind, row(i).baseline, row_sum_tolerance_);
      if (fault.has_value()) fault->field.insert(0, "baseline_");
    }
    if (!skip && !fault.has_value() && !labels.empty()) {
      fault = FindLabelFault(labels[i], class_count_);
    }
    if (!skip && !fault.has_value()) fault = FindFeatureFault(row(i).features);
    if (!fault.has_value() && !ids.empty()) fault = FindIdFault(ids[i]);
    if (!fault.has_value() && !builder_->Fits(row(i))) {
      fault = RowFault{"prediction_ids", "makes the row larger than the server's largest batch"};
    }
    return fault;
  };
  return SendChecked(n, row, check);
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
    std::optional<RowFault> fault;
    if (!skip) fault = FindForecastFault(forecast, row(i).values);
    if (!skip && !fault.has_value() && !outcomes.empty()) {
      fault = FindOutcomeFault(forecast, row(i).values, outcomes[i]);
    }
    if (!skip && !fault.has_value()) fault = FindFeatureFault(row(i).features);
    if (!fault.has_value() && !ids.empty()) fault = FindIdFault(ids[i]);
    if (!fault.has_value() && !builder_->Fits(row(i))) {
      fault = RowFault{"prediction_ids", "makes the row larger than the server's largest batch"};
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
  const InvalidSet invalid = FindInvalid("rows", row_number, n, check);
  if (invalid.count > 0 && options_.invalid_rows != InvalidRows::kDrop) return invalid.status;
  for (std::size_t i = 0; i < n; ++i, ++row_number) {
    if (invalid.flags[i]) {
      builder_->AddDropped();
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
  if (ids.size() != labels.size()) {
    return absl::InvalidArgumentError(absl::StrCat(ids.size(), " ids and ", labels.size(),
                                                   " labels, expected a label for each id"));
  }
  return LabelChecked(
      ids.size(),
      [&](std::size_t i) {
        return LabelRow{ids[i], labels[i]};
      },
      [&](std::size_t i) { return FindLabelFault(labels[i], class_count_); });
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
    std::optional<RowFault> fault = check(i);
    if (!fault.has_value()) fault = FindIdFault(row(i).id);
    if (!fault.has_value() && !builder_->Fits(row(i))) {
      fault = RowFault{"prediction_ids", "is larger than the server's largest batch"};
    }
    return fault;
  };
  const InvalidSet invalid = FindInvalid("labels", number, n, check_all);
  if (invalid.count > 0 && options_.invalid_rows != InvalidRows::kDrop) return invalid.status;
  for (std::size_t i = 0; i < n; ++i, ++number) {
    if (invalid.flags[i]) continue;
    if (absl::Status status = Add(row(i), number); !status.ok()) return status;
  }
  const Lock lock(mutex_);
  counts_.labels.labels = number;
  counts_.labels.dropped += invalid.count;
  return failure_;
}

template <typename Row>
absl::Status StreamImpl::Add(const Row& row, std::int64_t row_number) {
  // A batch is sent when the next row needs room, not when it is full. The last batch is therefore
  // still here and can carry the count of dropped rows.
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
      Fail(!refusal_.ok()
               ? refusal_
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
    observations.set_skip_invalid_rows(options_.invalid_rows == InvalidRows::kSkip);
  }
  counts_.reported_dropped_rows += batch.request.batch().observations().dropped_rows();
  window_->Push(std::move(batch));
  changed_.notify_all();
  return absl::OkStatus();
}

absl::Status StreamImpl::Flush() {
  if (!builder_->empty()) return PushBatch();
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

// --- the connection thread ---

void StreamImpl::RunConnections() {
  Backoff backoff(std::random_device{}());
  for (;;) {
    const Clock::time_point started = Clock::now();
    const absl::Status status = RunConnection();
    Lock lock(mutex_);
    if (finished_ || !failure_.ok()) return;
    if (!IsResumable(status)) {
      Fail(DescribeReuse(options_.idempotency_key, status));
      return;
    }
    refusal_ = absl::IsResourceExhausted(status) ? status : absl::OkStatus();
    if (last_progress_ > started) backoff.Reset();
    // The delay ends before the stall timeout of a waiting caller, even if the server asks for
    // more.
    const auto delay = std::min(backoff.Next(RetryDelay(status)), options_.stall_timeout / 2);
    // Only Fail ends this wait early.
    changed_.wait_for(lock, delay, [&] { return !failure_.ok(); });
    if (!failure_.ok()) return;
  }
}

absl::Status StreamImpl::RunConnection() {
  grpc::ClientContext context;
  {
    const Lock lock(mutex_);
    if (!failure_.ok()) return failure_;
    context_ = &context;
    connection_ended_ = false;
    rows_on_connection_ = 0;
    resent_rows_on_connection_ = 0;
    repeatable_labels_on_connection_ = 0;
  }
  const auto stream = stub_->StreamObservations(&context);
  if (OpenOn(*stream)) {
    std::thread reader([&] { ReadFrom(*stream); });
    WriteTo(*stream);
    reader.join();
  }
  absl::Status status = FromGrpcStatus(stream->Finish());
  const Lock lock(mutex_);
  context_ = nullptr;
  return status;
}

bool StreamImpl::OpenOn(GrpcStream& stream) {
  v1::StreamObservationsRequest request;
  auto& open = *request.mutable_open();
  open.set_model(model_);
  open.set_producer_id(options_.producer_id);
  open.set_epoch(options_.epoch);
  v1::StreamObservationsResponse response;
  if (!stream.Write(request) || !stream.Read(&response)) return false;
  const absl::Status status = HandleOpened(response);
  if (status.ok()) return true;
  const Lock lock(mutex_);
  Fail(status);
  return false;
}

absl::Status StreamImpl::HandleOpened(const v1::StreamObservationsResponse& response) {
  if (!response.has_opened()) {
    return absl::InternalError("the server answered Open with another message than Opened");
  }
  const auto& opened = response.opened();
  const Lock lock(mutex_);
  if (!opened_.has_value()) {
    const auto& wanted = options_.class_names;
    if (!wanted.empty() && !std::equal(wanted.begin(), wanted.end(), opened.class_names().begin(),
                                       opened.class_names().end())) {
      return absl::FailedPreconditionError(absl::StrCat(
          "the class names differ: the model has [", absl::StrJoin(opened.class_names(), ", "),
          "], the producer [", absl::StrJoin(wanted, ", "), "]"));
    }
    std::int32_t in_flight = std::max(opened.max_batches_in_flight(), 1);
    if (options_.max_unacknowledged_batches > 0) {
      in_flight = std::min(in_flight, options_.max_unacknowledged_batches);
    }
    // With a key, all batches are sent, so that the server can compare them.
    window_.emplace(options_.idempotency_key.empty() ? opened.next_sequence() : 1,
                    static_cast<std::size_t>(in_flight));
    opened_ = opened;
    last_progress_ = Clock::now();
  } else {
    if (opened.forecast().SerializeAsString() != opened_->forecast().SerializeAsString()) {
      return absl::FailedPreconditionError("the model was replaced by one of other forecasts");
    }
    if (opened.class_count() != opened_->class_count()) {
      return absl::FailedPreconditionError(absl::StrCat("the model was created again with ",
                                                        opened.class_count(), " classes, it had ",
                                                        opened_->class_count()));
    }
    // With a key, the server may have batches of an earlier stream.
    const std::int64_t expected =
        options_.idempotency_key.empty()
            ? opened.next_sequence()
            : std::min(opened.next_sequence(), window_->last_sequence() + 1);
    if (absl::Status status = window_->Reopen(expected); !status.ok()) return status;
    // No progress yet: a server that breaks every connection must not block a caller forever.
    ++counts_.reconnects;
  }
  changed_.notify_all();
  return absl::OkStatus();
}

void StreamImpl::WriteTo(GrpcStream& stream) {
  v1::StreamObservationsRequest finish;
  bool finish_written = false;
  Lock lock(mutex_);
  for (;;) {
    const auto can_finish = [&] { return finishing_ && !finish_written && window_->all_written(); };
    changed_.wait(lock, [&] {
      return connection_ended_ || !failure_.ok() || !window_->all_written() || can_finish();
    });
    if (connection_ended_ || !failure_.ok()) return;
    bool written = false;
    if (can_finish()) {
      finish.mutable_finish()->set_last_sequence(window_->last_sequence());
      finish.mutable_finish()->set_ends_producer(options_.ends_producer);
      finish_written = true;
      lock.unlock();
      written = stream.Write(finish);
    } else {
      const std::shared_ptr<const OutgoingBatch> batch = window_->TakeNextToWrite();
      rows_on_connection_ += batch->row_count();
      const bool resent = window_->last_taken_is_resent();
      if (resent) ++counts_.resent_batches;
      if (resent && !batch->has_labels()) resent_rows_on_connection_ += batch->row_count();
      // An earlier connection may have sent them, or an earlier stream with the same key.
      if (batch->has_labels() && (resent || !options_.idempotency_key.empty())) {
        repeatable_labels_on_connection_ += batch->row_count();
      }
      lock.unlock();
      written = stream.Write(batch->request);
    }
    // The reader also sees the end of a broken connection, and the status shows the error.
    if (!written) return;
    lock.lock();
  }
}

// --- the reader thread ---

void StreamImpl::ReadFrom(GrpcStream& stream) {
  v1::StreamObservationsResponse response;
  while (stream.Read(&response)) {
    const Lock lock(mutex_);
    last_progress_ = Clock::now();
    refusal_ = absl::OkStatus();
    if (absl::Status status = Handle(response); !status.ok()) Fail(std::move(status));
    changed_.notify_all();
  }
  const Lock lock(mutex_);
  connection_ended_ = true;
  changed_.notify_all();
}

absl::Status StreamImpl::Handle(const v1::StreamObservationsResponse& response) {
  switch (response.message_case()) {
    case v1::StreamObservationsResponse::kAck:
      return HandleAck(response.ack());
    case v1::StreamObservationsResponse::kRejected: {
      absl::Status status = FromRpcStatus(response.rejected().status());
      const auto violations = FieldViolations(status);
      return HandleRejected(response.rejected().sequence(), std::nullopt, std::move(status),
                            violations);
    }
    case v1::StreamObservationsResponse::kFinished:
      return HandleFinished(response.finished());
    case v1::StreamObservationsResponse::kOpened:
    case v1::StreamObservationsResponse::MESSAGE_NOT_SET:
      break;
  }
  return absl::InternalError("the server sent a message that is not expected in a stream");
}

absl::Status StreamImpl::Settle(std::int64_t sequence) {
  const auto settled = window_->Acknowledge(sequence);
  if (!settled.ok()) return settled.status();
  counts_.accepted_rows += settled->accepted_rows;
  counts_.rejected_rows += settled->rejected_rows;
  counts_.labels.accepted += settled->accepted_labels;
  counts_.labels.rejected += settled->rejected_labels;
  return absl::OkStatus();
}

absl::Status StreamImpl::HandleAck(const v1::StreamObservationsResponse::Ack& message) {
  if (message.has_skipped()) {
    const v1::SkippedRows& skipped = message.skipped();
    absl::Status status =
        HandleRejected(message.sequence(), skipped.rows(), absl::OkStatus(),
                       {skipped.violations().begin(), skipped.violations().end()});
    if (!status.ok()) return status;
  }
  return Settle(message.sequence());
}

absl::Status StreamImpl::HandleRejected(std::int64_t sequence,
                                        std::optional<std::int64_t> skipped_rows,
                                        absl::Status status, const FieldViolationList& violations) {
  const auto batch = window_->Reject(sequence, skipped_rows);
  if (!batch.ok()) return batch.status();
  if (*batch == nullptr) return absl::OkStatus();
  const std::vector<std::int64_t>& row_numbers = (*batch)->row_numbers;
  if (!skipped_rows.has_value()) ++counts_.rejected_batches;
  if (rejected_.size() >= kMaxKeptRejections) return absl::OkStatus();
  RejectedBatch& rejected = rejected_.emplace_back();
  rejected.sequence = sequence;
  rejected.labels = (*batch)->has_labels();
  rejected.first_row = row_numbers.front();
  rejected.last_row = row_numbers.back();
  rejected.row_count = skipped_rows.value_or((*batch)->row_count());
  rejected.status = std::move(status);
  for (const auto& violation : violations) {
    RowError& error = rejected.errors.emplace_back();
    const std::int64_t row = RowOfField(violation.field());
    if (row >= 0 && row < (*batch)->row_count()) {
      error.row = row_numbers[static_cast<std::size_t>(row)];
    }
    error.field = violation.field();
    error.description = violation.description();
  }
  return absl::OkStatus();
}

absl::Status StreamImpl::HandleFinished(const v1::StreamObservationsResponse::Finished& message) {
  // Finished settles what no acknowledgement has settled yet.
  if (absl::Status status = Settle(message.last_sequence()); !status.ok()) return status;
  const v1::LabelCounts& labels = message.labels();
  const std::int64_t rows = message.accepted_rows() + message.duplicate_rows() +
                            message.rejected_rows() + labels.matched() + labels.repeated() +
                            labels.conflicting() + labels.late() + labels.unknown();
  // The counts do not include labels that were accepted before this connection.
  if (!finishing_ || !window_->empty() || message.last_sequence() != window_->last_sequence() ||
      rows > rows_on_connection_ || rows < rows_on_connection_ - repeatable_labels_on_connection_) {
    return absl::DataLossError(
        absl::StrCat("the server finished at batch ", message.last_sequence(), " with ", rows,
                     " rows on this connection, expected batch ", window_->last_sequence(),
                     " with ", rows_on_connection_, " rows"));
  }
  counts_.labels.matched = labels.matched();
  counts_.labels.repeated = labels.repeated();
  counts_.labels.conflicting = labels.conflicting();
  counts_.labels.late = labels.late();
  counts_.labels.unknown = labels.unknown();
  // Resent rows may have been accepted on an earlier connection.
  counts_.duplicate_rows =
      std::max<std::int64_t>(message.duplicate_rows() - resent_rows_on_connection_, 0);
  counts_.accepted_rows -= counts_.duplicate_rows;
  finished_ = true;
  return absl::OkStatus();
}

}  // namespace calibd::client
