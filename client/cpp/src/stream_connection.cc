// The connection thread of a stream, and the reader thread of each connection.
#include <algorithm>
#include <random>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "backoff.h"
#include "status_conversion.h"
#include "stream_impl.h"

namespace calibd::client {

std::vector<RowError> RowErrors(const absl::Status& status) {
  std::vector<RowError> errors;
  for (const Violation& violation : FieldViolations(status)) {
    errors.push_back(
        {.row = violation.row.has_value() ? static_cast<std::int64_t>(*violation.row) : -1,
         .field = PathOf(violation),
         .description = violation.description});
  }
  return errors;
}

namespace {

constexpr std::size_t kMaxKeptRejections = 100;

// True if the stream opens a new connection after this status. Includes more codes than the retry
// of a call, because the batch numbers make a resend safe after any interruption.
bool IsResumable(const absl::Status& status) {
  // A broken message may look like a clean end of the stream to the server or to the client.
  return IsRetryable(status) || IsCutOff(status) || ErrorReason(status) == "NOT_FINISHED" ||
         status.ok();
}

// True if the server cannot have counted a batch that it refused with this status.
bool IsRefusal(const absl::Status& status) {
  return absl::IsNotFound(status) || absl::IsPermissionDenied(status) ||
         absl::IsUnauthenticated(status) || absl::IsUnimplemented(status) ||
         absl::IsResourceExhausted(status);
}

// The server names the producer, which the caller of a stream with a key did not choose.
absl::Status DescribeReuse(const std::string& key, const absl::Status& status) {
  if (key.empty() || !absl::IsAlreadyExists(status)) return status;
  return absl::AlreadyExistsError(
      absl::StrCat("the idempotency key ", key,
                   " was already used with other rows: repeat the same rows with the same options, "
                   "or use a new key"));
}

}  // namespace

void StreamImpl::RunConnections() {
  Backoff backoff(std::random_device{}());
  for (;;) {
    const Clock::time_point started = Clock::now();
    const absl::Status status = RunConnection();
    Lock lock(mutex_);
    if (finished_ || !failure_.ok()) break;
    if (parked_) {
      WaitWhileParked(lock);
      continue;
    }
    if (!IsResumable(status) && !(retries_refusals_ && IsRefusal(status))) {
      Fail(DescribeReuse(options_.idempotency_key, status));
      break;
    }
    connection_error_ =
        status.ok() ? absl::UnavailableError("the server ended the stream") : status;
    if (last_progress_ > started) backoff.Reset();
    // The delay ends before the stall timeout of a waiting caller, even if the server asks for
    // more.
    const auto delay = std::min(backoff.Next(RetryDelay(status)), options_.stall_timeout / 2);
    changed_.wait_for(lock, delay, [&] { return !failure_.ok() || parked_; });
    if (!failure_.ok()) break;
    WaitWhileParked(lock);
  }
  // Another thread may be about to fork the process.
  stub_.reset();
  const Lock lock(mutex_);
  connection_is_over_ = true;
  changed_.notify_all();
}

void StreamImpl::WaitWhileParked(Lock& lock) {
  if (!parked_) return;
  lock.unlock();
  stub_.reset();
  lock.lock();
  // Unpark leaves it to this thread to say that it goes on: a Park that follows at once must see
  // that it still waits.
  connection_is_parked_ = true;
  changed_.notify_all();
  while (failure_.ok() && (parked_ || Clock::now() < connects_from_)) {
    if (parked_) {
      changed_.wait(lock, [&] { return !parked_ || !failure_.ok(); });
    } else {
      changed_.wait_until(lock, connects_from_);
    }
  }
  connection_is_parked_ = false;
}

absl::Status StreamImpl::RunConnection() {
  {
    Lock lock(mutex_);
    WaitWhileParked(lock);
    if (!failure_.ok()) return failure_;
  }
  if (stub_ == nullptr) stub_ = stubs_();
  grpc::ClientContext context;
  {
    const Lock lock(mutex_);
    if (!failure_.ok()) return failure_;
    if (parked_) return absl::OkStatus();
    context_ = &context;
    connection_ended_ = false;
    rows_on_connection_ = 0;
    resent_rows_on_connection_ = 0;
    repeatable_labels_on_connection_ = 0;
  }
  const auto stream = stub_->StreamObservations(&context);
  if (OpenOn(*stream)) {
    if (auto reader = TryStartThread([&] { ReadFrom(*stream); })) {
      WriteTo(*stream);
      reader->join();
    } else {
      context.TryCancel();
    }
  }
  absl::Status status = FromGrpcStatus(stream->Finish());
  const Lock lock(mutex_);
  context_ = nullptr;
  return status;
}

std::optional<StreamImpl::Clock::time_point> StreamImpl::stall_deadline() const {
  if (opened_.has_value() && window_->empty() && !finishing_) return std::nullopt;
  return std::max(last_progress_, replaced_) + options_.stall_timeout;
}

void StreamImpl::ReplaceIfStalled() {
  const auto deadline = stall_deadline();
  const Clock::time_point now = Clock::now();
  if (!deadline.has_value() || now < *deadline) return;
  replaced_ = now;
  if (context_ != nullptr) context_->TryCancel();
}

void StreamImpl::BeginFinish() {
  if (finishing_) return;
  if (is_settled()) last_progress_ = Clock::now();
  finishing_ = true;
  changed_.notify_all();
}

void StreamImpl::Park() {
  parked_ = true;
  if (context_ != nullptr) context_->TryCancel();
  changed_.notify_all();
}

void StreamImpl::Unpark(Clock::time_point begin) {
  parked_ = false;
  connects_from_ = begin;
  changed_.notify_all();
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
  if (opened.next_sequence() < 1 || opened.max_rows_per_batch() < 1 ||
      opened.max_bytes_per_batch() < 1 || opened.max_batches_in_flight() < 1) {
    return absl::DataLossError(
        absl::StrCat("the server opened the stream with next_sequence ", opened.next_sequence(),
                     ", max_rows_per_batch ", opened.max_rows_per_batch(), ", max_bytes_per_batch ",
                     opened.max_bytes_per_batch(), " and max_batches_in_flight ",
                     opened.max_batches_in_flight(), ", expected at least 1 of each"));
  }
  const Lock lock(mutex_);
  if (!opened_.has_value()) {
    const auto& wanted = options_.class_names;
    const auto& names = opened.classes().names();
    if (!wanted.empty() && !std::equal(wanted.begin(), wanted.end(), names.begin(), names.end())) {
      return absl::FailedPreconditionError(absl::StrCat(
          "the class names differ: the model has [", ServerText(absl::StrJoin(names, ", ")),
          "], the producer [", absl::StrJoin(wanted, ", "), "]"));
    }
    std::int32_t in_flight = opened.max_batches_in_flight();
    if (options_.max_unacknowledged_batches > 0) {
      in_flight = std::min(in_flight, options_.max_unacknowledged_batches);
    }
    // With a key, all batches are sent, so that the server can compare them.
    window_.emplace(options_.idempotency_key.empty() ? opened.next_sequence() : 1,
                    static_cast<std::size_t>(in_flight));
    opened_ = opened;
    NoteProgress();
  } else {
    if (opened.forecast().SerializeAsString() != opened_->forecast().SerializeAsString()) {
      return absl::FailedPreconditionError("the model was replaced by one of other forecasts");
    }
    if (opened.labels().SerializeAsString() != opened_->labels().SerializeAsString()) {
      return absl::FailedPreconditionError("the model was replaced by one of other labels");
    }
    if (opened.classes().count() != opened_->classes().count()) {
      return absl::FailedPreconditionError(
          absl::StrCat("the model was created again with ", opened.classes().count(),
                       " classes, it had ", opened_->classes().count()));
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
      std::vector<Violation> violations = FieldViolations(status);
      return HandleRejected(response.rejected().sequence(), std::nullopt, std::move(status),
                            std::move(violations));
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
  const std::size_t before = window_->size();
  const auto settled = window_->Acknowledge(sequence);
  if (!settled.ok()) return settled.status();
  if (window_->size() < before) NoteProgress();
  counts_.accepted_rows += settled->accepted_rows;
  counts_.rejected_rows += settled->rejected_rows;
  counts_.labels.accepted += settled->accepted_labels;
  counts_.labels.rejected += settled->rejected_labels;
  return absl::OkStatus();
}

absl::Status StreamImpl::HandleAck(const v1::StreamObservationsResponse::Ack& message) {
  if (message.has_skipped()) {
    const v1::SkippedRows& skipped = message.skipped();
    absl::Status status = HandleRejected(message.sequence(), skipped.rows(), absl::OkStatus(),
                                         ViolationsOf(skipped.violations()));
    if (!status.ok()) return status;
  }
  return Settle(message.sequence());
}

absl::Status StreamImpl::HandleRejected(std::int64_t sequence,
                                        std::optional<std::int64_t> skipped_rows,
                                        absl::Status status, std::vector<Violation> violations) {
  const auto batch = window_->Reject(sequence, skipped_rows);
  if (!batch.ok()) return batch.status();
  if (*batch == nullptr) return absl::OkStatus();
  NoteProgress();
  const std::vector<std::int64_t>& row_numbers = (*batch)->row_numbers;
  if (!skipped_rows.has_value()) ++counts_.rejected_batches;
  // A batch without rows states only how many were dropped.
  if (row_numbers.empty() || rejected_.size() >= kMaxKeptRejections) return absl::OkStatus();
  RejectedBatch& rejected = rejected_.emplace_back();
  rejected.sequence = sequence;
  rejected.labels = (*batch)->has_labels();
  rejected.first_row = row_numbers.front();
  rejected.last_row = row_numbers.back();
  rejected.row_count = skipped_rows.value_or((*batch)->row_count());
  rejected.status = std::move(status);
  // The server numbers the rows of the batch.
  for (Violation& violation : violations) {
    if (!violation.row.has_value()) continue;
    const std::size_t row = *violation.row;
    violation.row = row < row_numbers.size()
                        ? std::optional(static_cast<std::size_t>(row_numbers[row]))
                        : std::nullopt;
  }
  rejected.errors = RowErrors(InvalidRowsError(violations, 0));
  return absl::OkStatus();
}

absl::Status StreamImpl::HandleFinished(const v1::StreamObservationsResponse::Finished& message) {
  const v1::LabelCounts& labels = message.labels();
  const auto [least, most] = std::minmax(
      {message.accepted_rows(), message.duplicate_rows(), message.rejected_rows(), labels.matched(),
       labels.repeated(), labels.conflicting(), labels.late(), labels.unknown(), labels.waiting()});
  if (least < 0 || most > rows_on_connection_) {
    return absl::DataLossError(absl::StrCat(
        "the server finished with counts from ", least, " to ", most,
        ", expected counts from 0 to ", rows_on_connection_, ", the rows sent on this connection"));
  }
  const std::int64_t last = window_->last_sequence();
  // Finished settles what no acknowledgement has settled yet.
  if (message.last_sequence() == last && last > 0) {
    if (absl::Status status = Settle(last); !status.ok()) return status;
  }
  const std::int64_t rows = message.accepted_rows() + message.duplicate_rows() +
                            message.rejected_rows() + labels.matched() + labels.repeated() +
                            labels.conflicting() + labels.late() + labels.unknown() +
                            labels.waiting();
  // The counts do not include labels that were accepted before this connection.
  if (!finishing_ || !window_->empty() || message.last_sequence() != last ||
      rows > rows_on_connection_ || rows < rows_on_connection_ - repeatable_labels_on_connection_) {
    return absl::DataLossError(absl::StrCat(
        "the server finished at batch ", message.last_sequence(), " with ", rows,
        " rows on this connection, expected batch ", last, " with ", rows_on_connection_, " rows"));
  }
  counts_.labels.matched = labels.matched();
  counts_.labels.repeated = labels.repeated();
  counts_.labels.conflicting = labels.conflicting();
  counts_.labels.late = labels.late();
  counts_.labels.unknown = labels.unknown();
  counts_.labels.waiting = labels.waiting();
  // Resent rows may have been accepted on an earlier connection.
  counts_.duplicate_rows =
      std::max<std::int64_t>(message.duplicate_rows() - resent_rows_on_connection_, 0);
  counts_.accepted_rows -= counts_.duplicate_rows;
  finished_ = true;
  return absl::OkStatus();
}

}  // namespace calibd::client
