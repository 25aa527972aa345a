#include "server/rpc/observation_stream.h"

#include <algorithm>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "calibd/core/status_macros.h"
#include "server/answers/label_arrivals_proto.h"
#include "server/api/quota_use.h"
#include "server/base/errors.h"
#include "server/base/rules.h"
#include "server/base/status_mapping.h"
#include "server/kinds/kind_table.h"

namespace calibd::server {
namespace {

using Request = v1::StreamObservationsRequest;
using Response = v1::StreamObservationsResponse;

// A batch that waits for a quota looks again after at most this time, because the quota may have
// become larger.
constexpr std::chrono::milliseconds kLongestWait{1000};

absl::Status MisuseError(const std::string& message) {
  return MakeError(absl::StatusCode::kInvalidArgument, "PROTOCOL_MISUSE", message);
}

}  // namespace

template <typename Body>
void ObservationStream::GuardLocked(Stage stage, const Body& body) {
  absl::Status status = Guarded(context().method, stage, body);
  if (!status.ok()) EndLocked(std::move(status), nullptr);
}

ObservationStream* ObservationStream::Begin(const CallServer& server, const StreamLimits& limits,
                                            const grpc::CallbackServerContext& context) {
  const auto stream = std::make_shared<ObservationStream>(server, limits, context);
  stream->KeepAlive(stream);
  stream->Guard(Stage::kStart, [&stream] { return stream->Register(); });
  return stream.get();
}

absl::Status ObservationStream::Register() {
  CALIBD_RETURN_IF_ERROR(context().identity.status());
  CALIBD_RETURN_IF_ERROR(
      TakeQuota(parts_.access, context(), /*model=*/"", QuotaKind::kStreams, place_));
  absl::StatusOr<std::int64_t> number =
      parts_.streams.Add([weak = weak_from_this()](const absl::Status& status) {
        if (const auto self = weak.lock()) {
          self->Guard(Stage::kEnd, [&] { return status; });
        }
      });
  if (!number.ok()) return number.status();
  const std::lock_guard lock(mutex_);
  number_ = *number;
  AdvanceLocked();
  return absl::OkStatus();
}

void ObservationStream::OnReadDone(bool ok) {
  Guard(Stage::kRead, [this, ok] { return OnRead(ok); });
}

absl::Status ObservationStream::OnRead(bool ok) {
  const std::shared_ptr<Model> model = BatchModel(ok);
  return model != nullptr ? Admit(*model) : OnMessage(ok, LogRow(), nullptr);
}

absl::Status ObservationStream::Admit(const Model& model) {
  const std::size_t bytes = QueuedBytes(request_.ByteSizeLong());
  if (Quota* const quota = context().identity->quota(); quota != nullptr) {
    const std::uint64_t rows = RowsForQuota(request_.batch(), model.declaration()->row_shape());
    // Others wait behind it.
    absl::Cleanup leave = [this] { turn_.Leave(); };
    CALIBD_RETURN_IF_ERROR(CheckRows(rows));
    const bool waited = turn_.waits();
    const std::optional<QuotaRefusal> refusal =
        quota->TakeBatch(rows, bytes, pending_, Quota::Clock::now(), &turn_);
    if (refusal.has_value()) {
      // The request is kept from its first wait on.
      if (!waited) {
        CALIBD_RETURN_IF_ERROR(KeepRequest());
        parts_.access.CountDelay(refusal->kind);
      }
      AdmitLater(std::min(refusal->wait.value_or(kLongestWait), kLongestWait));
      std::move(leave).Cancel();
      return absl::OkStatus();
    }
  }
  IngestQueue& queue = parts_.ingestor.queue();
  IngestQueue::RoomPtr room = queue.TakeOrWait(model.id(), bytes, nullptr);
  if (room == nullptr) {
    if (alarm_ == nullptr) CALIBD_RETURN_IF_ERROR(KeepRequest());
    const auto wait = [weak = weak_from_this()](IngestQueue::RoomPtr granted) {
      if (const auto self = weak.lock()) self->OnRoom(std::move(granted));
    };
    room = queue.TakeOrWait(model.id(), bytes, wait);
  }
  // Without room, the message waits, and nothing more is read.
  return room != nullptr ? OnBatch(model, std::move(room)) : absl::OkStatus();
}

void ObservationStream::AdmitLater(std::chrono::milliseconds wait) {
  alarm_ = std::make_unique<grpc::Alarm>();
  alarm_->Set(std::chrono::system_clock::now() + wait, [weak = weak_from_this()](bool /*due*/) {
    const auto self = weak.lock();
    if (self == nullptr) return;
    self->Guard(Stage::kRoom, [&] {
      // While the lock is held, the call cannot end, and so the writer threads exist.
      const std::lock_guard lock(self->mutex_);
      if (self->finished_) return absl::OkStatus();
      // The calling thread is one of gRPC.
      self->decoding_.Post([self] {
        self->Guard(Stage::kRead, [&] {
          const std::shared_ptr<Model> model = self->BatchModel(true);
          if (model != nullptr) return self->Admit(*model);
          // The stream has ended, and others wait behind it.
          self->turn_.Leave();
          return absl::OkStatus();
        });
      });
      return absl::OkStatus();
    });
  });
}

absl::Status ObservationStream::CheckRows(std::uint64_t rows) const {
  const std::int32_t most = MostRowsPerBatch();
  if (most >= max_rows_per_batch_ || rows <= static_cast<std::uint64_t>(most)) {
    return absl::OkStatus();
  }
  return MakeError(
      absl::StatusCode::kUnavailable, "BATCH_LIMIT_CHANGED",
      absl::StrCat("batch has ", rows, " rows, expected at most ", most,
                   ": the quota rows_per_second of ", context().identity->name(),
                   " has become smaller since this stream was opened with max_rows_per_batch ",
                   max_rows_per_batch_,
                   "; open it again, which takes the unacknowledged batches as they are, and send "
                   "smaller new ones"));
}

absl::Status ObservationStream::KeepRequest() {
  const std::lock_guard lock(mutex_);
  const std::size_t bytes = request_.SpaceUsedLong();
  absl::Status reserved = ReserveLocked(bytes);
  if (reserved.ok()) {
    kept_bytes_ = bytes;
  } else {
    request_ = Request();
  }
  return reserved;
}

std::shared_ptr<Model> ObservationStream::BatchModel(bool ok) {
  const std::lock_guard lock(mutex_);
  return ok && phase_ == Phase::kOpen && request_.has_batch() ? model_ : nullptr;
}

void ObservationStream::OnRoom(IngestQueue::RoomPtr room) {
  Guard(Stage::kRoom, [&] {
    // The calling thread is busy with another model.
    decoding_.Post([self = shared_from_this(), room = std::move(room)] {
      self->Guard(Stage::kRead, [&] {
        const std::shared_ptr<Model> model = self->BatchModel(true);
        if (model != nullptr) return self->OnBatch(*model, room);
        // The stream has ended while its batch waited for room.
        self->pending_ = Quota::Part();
        return absl::OkStatus();
      });
    });
    return absl::OkStatus();
  });
}

absl::Status ObservationStream::OnBatch(const Model& model, IngestQueue::RoomPtr room) {
  // Decoding takes long, so it runs without the lock, which settlements need. Nobody else accesses
  // the request while reading_ is true.
  if (context().identity->quota() != nullptr) {
    room = WithPart(std::move(room), std::move(pending_));
    alarm_.reset();
  }
  const Request::Batch& message = request_.batch();
  LogRow batch = message.has_labels() ? Decode(message.labels(), *model.declaration())
                                      : Decode(message.observations(), *model.declaration());
  return OnMessage(true, std::move(batch), std::move(room));
}

absl::Status ObservationStream::OnMessage(bool ok, LogRow batch, IngestQueue::RoomPtr room) {
  const std::lock_guard lock(mutex_);
  reading_ = false;
  if (end_status_.has_value()) return absl::OkStatus();
  ReleaseLocked(std::exchange(kept_bytes_, 0));
  if (!ok) {
    // A message that cannot be parsed looks the same, so this is not a clean end.
    return MakeError(absl::StatusCode::kAborted, "NOT_FINISHED",
                     "the stream ended without Finish, or with a broken message; open again "
                     "and resend all unacknowledged batches");
  }
  if (absl::Status status = HandleMessage(std::move(batch), std::move(room)); !status.ok()) {
    // The memory is freed now, because the client may be slow to read the error.
    request_ = Request();
    return status;
  }
  request_.Clear();
  AdvanceLocked();
  return absl::OkStatus();
}

void ObservationStream::OnDone() {
  // The call has ended: nobody can receive the error, so it is only logged.
  static_cast<void>(Guarded(context().method, Stage::kDone, [this] {
    if (number_.has_value()) parts_.streams.Remove(*number_);
  }));
  CallReactor::OnDone();
}

absl::Status ObservationStream::HandleMessage(LogRow batch, IngestQueue::RoomPtr room) {
  switch (request_.message_case()) {
    case Request::kOpen:
      return HandleOpen(request_.open());
    case Request::kBatch:
      return HandleBatch(request_.batch().sequence(), std::move(batch), std::move(room));
    case Request::kFinish:
      return HandleFinish(request_.finish());
    case Request::MESSAGE_NOT_SET:
      break;
  }
  return MisuseError("the message is empty, expected open, batch or finish");
}

absl::Status ObservationStream::HandleOpen(const Request::Open& open) {
  if (phase_ != Phase::kExpectOpen) {
    return MisuseError("open was sent again, expected it only as the first message");
  }
  CALIBD_RETURN_IF_ERROR(
      api_.CheckAccess(context(), kStreamObservations.right.role, "open.model", open.model()));
  CALIBD_ASSIGN_OR_RETURN(std::shared_ptr<Model> model,
                          FindModel(parts_.registry, "open.model", open.model()));
  CALIBD_RETURN_IF_ERROR(CheckRules(open, "open"));
  model_ = std::move(model);
  CALIBD_ASSIGN_OR_RETURN(
      held_, parts_.access.Hold(*context().identity, context().method,
                                kStreamObservations.right.role, model_->original().name.ToString(),
                                [weak = weak_from_this()](const absl::Status& status) {
                                  if (const auto self = weak.lock()) {
                                    self->Guard(Stage::kEnd, [&] { return status; });
                                  }
                                }));
  producer_id_ = context().identity->Scoped(open.producer_id());
  epoch_ = open.epoch();
  phase_ = Phase::kOpening;
  parts_.streams.Identify(*number_, model_, producer_id_, epoch_);
  parts_.ingestor.Open(
      model_, producer_id_, epoch_,
      [self = shared_from_this()](const absl::StatusOr<std::int64_t>& next_sequence) {
        self->Guard(Stage::kOpened, [&] { return self->OnOpened(next_sequence); });
      });
  return absl::OkStatus();
}

absl::Status ObservationStream::OnOpened(const absl::StatusOr<std::int64_t>& next_sequence) {
  std::shared_ptr<Model> model;
  absl::Status queued;
  {
    const std::lock_guard lock(mutex_);
    if (end_status_.has_value() || !next_sequence.ok()) return next_sequence.status();
    phase_ = Phase::kOpen;
    model = model_;
    last_sequence_ = *next_sequence - 1;
    Response response;
    Response::Opened& opened = *response.mutable_opened();
    const std::shared_ptr<const ModelDeclaration> declaration = model_->declaration();
    opened.set_next_sequence(*next_sequence);
    opened.mutable_feature_names()->Add(declaration->feature_names.begin(),
                                        declaration->feature_names.end());
    KindOf(*declaration).DescribeOpened(*declaration, opened);
    max_rows_per_batch_ = MostRowsPerBatch();
    opened.set_max_rows_per_batch(max_rows_per_batch_);
    opened.set_max_bytes_per_batch(limits_.max_message_bytes);
    opened.set_max_batches_in_flight(limits_.max_batches_in_flight);
    queued = QueueLocked(std::move(response));
    AdvanceLocked();
  }
  // Ends other streams; their locks must not be acquired while this lock is held.
  parts_.streams.Fence(*model, producer_id_, epoch_);
  return queued;
}

std::int32_t ObservationStream::MostRowsPerBatch() const {
  const Quota* const quota = context().identity->quota();
  if (quota == nullptr) return kMaxRowsPerBatch;
  const auto rate = quota->limit(QuotaKind::kRowsPerSecond);
  return static_cast<std::int32_t>(
      std::min<std::uint64_t>(rate.value_or(kMaxRowsPerBatch), kMaxRowsPerBatch));
}

absl::Status ObservationStream::HandleBatch(std::int64_t sequence, LogRow batch,
                                            IngestQueue::RoomPtr room) {
  if (phase_ != Phase::kOpen) return MisuseError("a batch was sent before opened was received");
  CALIBD_RETURN_IF_ERROR(held_->Check());
  if (sequence < 1) {
    return InvalidFieldError("batch.sequence", absl::StrCat("is ", sequence, ", expected >= 1"));
  }
  parts_.ingestor.Submit(
      model_, ProducerPosition{.producer_id = producer_id_, .epoch = epoch_, .sequence = sequence},
      std::move(batch),
      [self = shared_from_this(), sequence](const Settlement& settlement) {
        const std::lock_guard lock(self->mutex_);
        --self->in_flight_;
        self->parts_.streams.BatchSettled();
        self->GuardLocked(Stage::kAnswer, [&] { return self->OnSettled(sequence, settlement); });
      },
      std::move(room));
  // The batch cannot be settled before the lock is released.
  last_sequence_ = sequence;
  ++in_flight_;
  parts_.streams.BatchRead();
  return absl::OkStatus();
}

absl::Status ObservationStream::OnSettled(std::int64_t sequence, const Settlement& settlement) {
  if (settlement.kind == Settlement::Kind::kRefused) return settlement.status;
  accepted_rows_ += settlement.accepted_rows;
  duplicate_rows_ += settlement.duplicate_rows;
  rejected_rows_ += settlement.rejected_rows;
  labels_ += settlement.labels;
  absl::Status queued;
  if (!cancelled_ && settlement.kind == Settlement::Kind::kRejected) {
    Response rejected;
    rejected.mutable_rejected()->set_sequence(sequence);
    *rejected.mutable_rejected()->mutable_status() = ToRpcStatus(settlement.status);
    queued = QueueLocked(std::move(rejected));
  }
  if (!cancelled_ && queued.ok()) queued = Acknowledge(sequence, settlement.skipped);
  AdvanceLocked();
  return queued;
}

absl::Status ObservationStream::Acknowledge(std::int64_t sequence, const SkippedRows& skipped) {
  // If an acknowledgement is still in the queue and not being written, its number is raised instead
  // of adding another one. Reports of skipped rows belong to one number.
  const std::size_t unwritten = queue_.size() - (writing_ ? 1 : 0);
  if (unwritten > 0 && skipped.rows == 0 && queue_.back().response.has_ack() &&
      !queue_.back().response.ack().has_skipped()) {
    Response::Ack& last = *queue_.back().response.mutable_ack();
    last.set_sequence(std::max(last.sequence(), sequence));
    return absl::OkStatus();
  }
  Response ack;
  ack.mutable_ack()->set_sequence(sequence);
  if (skipped.rows > 0) SetProto(skipped, *ack.mutable_ack()->mutable_skipped());
  return QueueLocked(std::move(ack));
}

absl::Status ObservationStream::HandleFinish(const Request::Finish& finish) {
  if (phase_ != Phase::kOpen) return MisuseError("finish was sent before opened was received");
  if (finish.last_sequence() != last_sequence_) {
    return MakeError(absl::StatusCode::kFailedPrecondition, "BATCHES_MISSING",
                     absl::StrCat("finish.last_sequence is ", finish.last_sequence(), ", expected ",
                                  last_sequence_, ", the newest batch that was received"));
  }
  finish_requested_ = true;
  if (finish.ends_producer()) EndProducer();
  return absl::OkStatus();
}

void ObservationStream::EndProducer() {
  parts_.ingestor.End(
      model_,
      ProducerPosition{.producer_id = producer_id_, .epoch = epoch_, .sequence = last_sequence_},
      [self = shared_from_this()](const absl::Status& status) {
        const std::lock_guard lock(self->mutex_);
        --self->in_flight_;
        self->GuardLocked(Stage::kAnswer, [&] {
          if (status.ok()) self->AdvanceLocked();
          return status;
        });
      });
  ++in_flight_;
}

void ObservationStream::AdvanceLocked() {
  if (end_status_.has_value()) {
    // A stream whose client does not read must not keep a deleted model alive.
    model_.reset();
  } else if (finish_requested_ && in_flight_ == 0) {
    Response response;
    Response::Finished& finished = *response.mutable_finished();
    finished.set_last_sequence(last_sequence_);
    finished.set_accepted_rows(accepted_rows_);
    finished.set_duplicate_rows(duplicate_rows_);
    finished.set_rejected_rows(rejected_rows_);
    SetProto(labels_, *finished.mutable_labels());
    EndLocked(absl::OkStatus(), &response);
    return;
  }
  CallReactor::AdvanceLocked();
  if (!end_status_.has_value()) ReadLocked();
}

void ObservationStream::ReadLocked() {
  const auto unsettled = in_flight_ + static_cast<std::int64_t>(queue_.size());
  if (phase_ == Phase::kOpening || finish_requested_ || reading_ ||
      unsettled >= limits_.max_batches_in_flight || !parts_.streams.MayRead(in_flight_)) {
    return;
  }
  reading_ = true;
  StartRead(&request_);
}

}  // namespace calibd::server
