#include "server/rpc/observation_stream.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/errors.h"
#include "server/rpc/label_coverage_proto.h"
#include "server/rpc/status_mapping.h"

namespace calibd::server {
namespace {

using Request = v1::StreamObservationsRequest;
using Response = v1::StreamObservationsResponse;

constexpr char kMethod[] = "StreamObservations";
constexpr std::size_t kMaxProducerIdLength = 128;

bool IsAlphanumeric(char c) {
  return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
}

bool IsProducerId(const std::string& id) {
  return !id.empty() && id.size() <= kMaxProducerIdLength && IsAlphanumeric(id.front()) &&
         std::all_of(id.begin(), id.end(), [](char c) {
           return IsAlphanumeric(c) || c == '.' || c == '_' || c == ':' || c == '-';
         });
}

absl::Status MisuseError(const std::string& message) {
  return MakeError(absl::StatusCode::kInvalidArgument, "PROTOCOL_MISUSE", message);
}

}  // namespace

absl::Status CheckProducer(const std::string& field, const std::string& producer_id,
                           std::int64_t epoch) {
  if (!IsProducerId(producer_id)) {
    return InvalidFieldError(
        absl::StrCat(field, ".producer_id"),
        absl::StrCat("is ", Quoted(producer_id),
                     ", expected to match ^[A-Za-z0-9][A-Za-z0-9._:-]{0,127}$"));
  }
  if (epoch < 0) {
    return InvalidFieldError(absl::StrCat(field, ".epoch"),
                             absl::StrCat("is ", epoch, ", expected >= 0"));
  }
  return absl::OkStatus();
}

template <typename Body>
void ObservationStream::Guard(Stage stage, const Body& body) {
  absl::Status status = Guarded(kMethod, stage, body);
  if (!status.ok()) {
    const std::lock_guard lock(mutex_);
    EndWith(std::move(status));
  }
}

template <typename Body>
void ObservationStream::GuardLocked(Stage stage, const Body& body) {
  absl::Status status = Guarded(kMethod, stage, body);
  if (!status.ok()) {
    EndWith(std::move(status));
  }
}

ObservationStream* ObservationStream::Begin(const IngestParts& parts,
                                            const grpc::CallbackServerContext& context) {
  auto stream = std::make_shared<ObservationStream>(parts, context);
  stream->self_ = stream;
  stream->Guard(Stage::kStart, [&stream] { return stream->Register(); });
  return stream.get();
}

absl::Status ObservationStream::Register() {
  absl::StatusOr<std::int64_t> number =
      parts_.streams.Add([weak = weak_from_this()](const absl::Status& status) {
        if (const auto self = weak.lock()) {
          const std::lock_guard lock(self->mutex_);
          self->GuardLocked(Stage::kEnd, [&] { self->EndWith(status); });
        }
      });
  if (!number.ok()) {
    return number.status();
  }
  const std::lock_guard lock(mutex_);
  number_ = *number;
  Advance();
  return absl::OkStatus();
}

void ObservationStream::OnReadDone(bool ok) {
  Guard(Stage::kRead, [this, ok] { return OnRead(ok); });
}

absl::Status ObservationStream::OnRead(bool ok) {
  std::shared_ptr<Model> model;
  {
    const std::lock_guard lock(mutex_);
    if (ok && phase_ == Phase::kOpen && request_.has_batch()) {
      model = model_;
    }
  }
  LogRow batch;
  if (model != nullptr) {
    // Takes a while, so settlements must not wait for it. No one else touches the request as long
    // as reading_ holds.
    const Request::Batch& message = request_.batch();
    batch = message.has_labels() ? Decode(message.labels(), model->declaration())
                                 : Decode(message.observations(), model->declaration());
  }
  const std::lock_guard lock(mutex_);
  reading_ = false;
  if (phase_ == Phase::kEnding || phase_ == Phase::kFinished) {
    return absl::OkStatus();
  }
  if (!ok) {
    // A message that cannot be parsed looks the same, so this is no clean end.
    return MakeError(absl::StatusCode::kAborted, "NOT_FINISHED",
                     "the stream ended without Finish, or with a broken message; open again "
                     "and resend what was not acknowledged");
  }
  if (absl::Status status = HandleMessage(std::move(batch)); !status.ok()) {
    // The client may take its time to read the error.
    request_ = Request();
    return status;
  }
  request_.Clear();
  Advance();
  return absl::OkStatus();
}

void ObservationStream::OnWriteDone(bool ok) {
  const std::lock_guard lock(mutex_);
  writing_ = false;
  reservation_.Release(responses_.front().reserved);
  responses_.pop_front();
  cancelled_ = cancelled_ || !ok;
  GuardLocked(Stage::kWritten, [this, ok] {
    if (!ok) {
      EndWith(absl::CancelledError("the client is gone"));
    }
    Advance();
  });
}

void ObservationStream::OnCancel() {
  const std::lock_guard lock(mutex_);
  cancelled_ = true;
  GuardLocked(Stage::kCancel, [this] {
    EndWith(absl::CancelledError("the client is gone"));
    Advance();
  });
}

void ObservationStream::OnDone() {
  const absl::Status removed = Guarded(kMethod, Stage::kDone, [this] {
    if (number_.has_value()) {
      parts_.streams.Remove(*number_);
    }
  });
  // The call has ended: there is nobody to tell, and the error is logged.
  static_cast<void>(removed);
  // Destroyed after the lock is released.
  std::shared_ptr<ObservationStream> self;
  const std::lock_guard lock(mutex_);
  self = std::move(self_);
}

absl::Status ObservationStream::HandleMessage(LogRow batch) {
  switch (request_.message_case()) {
    case Request::kOpen:
      return HandleOpen(request_.open());
    case Request::kBatch:
      return HandleBatch(request_.batch().sequence(), std::move(batch));
    case Request::kFinish:
      return HandleFinish(request_.finish());
    case Request::MESSAGE_NOT_SET:
      break;
  }
  return MisuseError("the message is empty, expected open, batch or finish");
}

absl::Status ObservationStream::HandleOpen(const Request::Open& open) {
  if (phase_ != Phase::kExpectOpen) {
    return MisuseError("open came again, expected it as the first message only");
  }
  const absl::StatusOr<ModelName> name = ParseModelName("open.model", open.model());
  if (!name.ok()) {
    return name.status();
  }
  if (absl::Status status = CheckProducer("open", open.producer_id(), open.epoch()); !status.ok()) {
    return status;
  }
  absl::StatusOr<std::shared_ptr<Model>> model = parts_.registry.Find(*name);
  if (!model.ok()) {
    return model.status();
  }
  model_ = *std::move(model);
  producer_id_ = open.producer_id();
  epoch_ = open.epoch();
  phase_ = Phase::kOpening;
  parts_.streams.Identify(*number_, model_, producer_id_, epoch_);
  parts_.ingestor.Open(model_, producer_id_, epoch_,
                       [self = shared_from_this()](absl::StatusOr<std::int64_t> next_sequence) {
                         self->Guard(Stage::kOpened,
                                     [&] { self->OnOpened(std::move(next_sequence)); });
                       });
  return absl::OkStatus();
}

void ObservationStream::OnOpened(absl::StatusOr<std::int64_t> next_sequence) {
  std::shared_ptr<Model> model;
  {
    const std::lock_guard lock(mutex_);
    if (phase_ != Phase::kOpening) {
      return;  // Ended while it was being opened.
    }
    if (!next_sequence.ok()) {
      EndWith(next_sequence.status());
      return;
    }
    phase_ = Phase::kOpen;
    model = model_;
    last_sequence_ = *next_sequence - 1;
    Response response;
    Response::Opened& opened = *response.mutable_opened();
    const ModelDeclaration& declaration = model_->declaration();
    opened.set_next_sequence(*next_sequence);
    opened.set_class_count(static_cast<std::int32_t>(declaration.class_count));
    opened.set_row_sum_tolerance(declaration.row_sum_tolerance);
    opened.set_max_rows_per_batch(kMaxRowsPerBatch);
    opened.set_max_bytes_per_batch(parts_.max_message_bytes);
    opened.set_max_batches_in_flight(parts_.max_batches_in_flight);
    opened.mutable_class_names()->Add(declaration.class_names.begin(),
                                      declaration.class_names.end());
    Send(std::move(response));
    Advance();
  }
  // Other streams; their locks must not be taken under this one.
  parts_.streams.Fence(*model, producer_id_, epoch_);
}

absl::Status ObservationStream::HandleBatch(std::int64_t sequence, LogRow batch) {
  if (phase_ != Phase::kOpen) {
    return MisuseError("a batch came before opened");
  }
  if (sequence < 1) {
    return InvalidFieldError("batch.sequence", absl::StrCat("is ", sequence, ", expected >= 1"));
  }
  parts_.ingestor.Submit(
      model_, ProducerPosition{.producer_id = producer_id_, .epoch = epoch_, .sequence = sequence},
      std::move(batch), [self = shared_from_this(), sequence](Settlement settlement) {
        const std::lock_guard lock(self->mutex_);
        --self->in_flight_;
        self->GuardLocked(Stage::kAnswer,
                          [&] { self->OnSettled(sequence, std::move(settlement)); });
      });
  // Not settled before the lock is released.
  last_sequence_ = sequence;
  ++in_flight_;
  return absl::OkStatus();
}

void ObservationStream::OnSettled(std::int64_t sequence, Settlement settlement) {
  if (settlement.kind == Settlement::Kind::kRefused) {
    EndWith(std::move(settlement.status));
  } else {
    accepted_rows_ += settlement.accepted_rows;
    duplicate_rows_ += settlement.duplicate_rows;
    rejected_rows_ += settlement.rejected_rows;
    labels_ += settlement.labels;
    if (settlement.kind == Settlement::Kind::kRejected) {
      Response rejected;
      rejected.mutable_rejected()->set_sequence(sequence);
      *rejected.mutable_rejected()->mutable_status() = ToRpcStatus(settlement.status);
      Send(std::move(rejected));
    }
    Response ack;
    ack.mutable_ack()->set_sequence(sequence);
    Send(std::move(ack));
  }
  Advance();
}

absl::Status ObservationStream::HandleFinish(const Request::Finish& finish) {
  if (phase_ != Phase::kOpen) {
    return MisuseError("finish came before opened");
  }
  if (finish.last_sequence() != last_sequence_) {
    return MakeError(absl::StatusCode::kFailedPrecondition, "BATCHES_MISSING",
                     absl::StrCat("finish.last_sequence is ", finish.last_sequence(), ", expected ",
                                  last_sequence_, ", the newest batch that came"));
  }
  finish_requested_ = true;
  return absl::OkStatus();
}

void ObservationStream::Send(Response response) {
  if (cancelled_) {
    return;
  }
  // An ack that is not being written yet grows instead of being followed.
  const std::size_t unwritten = responses_.size() - (writing_ ? 1 : 0);
  if (response.has_ack() && unwritten > 0 && responses_.back().response.has_ack()) {
    Response::Ack& last = *responses_.back().response.mutable_ack();
    last.set_sequence(std::max(last.sequence(), response.ack().sequence()));
    return;
  }
  const std::size_t bytes = ResponseMemory(response);
  if (absl::Status reserved = reservation_.Add(bytes); !reserved.ok()) {
    EndWith(std::move(reserved));
    return;
  }
  responses_.push_back({.response = std::move(response), .reserved = bytes});
}

void ObservationStream::EndWith(absl::Status status) {
  if (phase_ == Phase::kEnding || phase_ == Phase::kFinished) {
    return;
  }
  phase_ = Phase::kEnding;
  end_status_ = std::move(status);
  // A deleted model must not live on in a stream whose client does not read.
  model_.reset();
  Advance();
}

void ObservationStream::Advance() {
  if (self_ == nullptr || phase_ == Phase::kFinished) {
    return;
  }
  if (cancelled_) {
    // A write that is pending comes back by itself.
    if (!writing_) {
      phase_ = Phase::kFinished;
      Finish(ToGrpcStatus(end_status_));
    }
    return;
  }
  if (finish_requested_ && phase_ == Phase::kOpen && in_flight_ == 0) {
    Response response;
    Response::Finished& finished = *response.mutable_finished();
    finished.set_last_sequence(last_sequence_);
    finished.set_accepted_rows(accepted_rows_);
    finished.set_duplicate_rows(duplicate_rows_);
    finished.set_rejected_rows(rejected_rows_);
    SetProto(labels_, *finished.mutable_labels());
    Send(std::move(response));
    EndWith(absl::OkStatus());
    return;
  }
  if (!writing_ && !responses_.empty()) {
    writing_ = true;
    StartWrite(&responses_.front().response);
  }
  if (phase_ == Phase::kEnding) {
    if (in_flight_ == 0 && responses_.empty()) {
      phase_ = Phase::kFinished;
      Finish(ToGrpcStatus(end_status_));
    }
    return;
  }
  const bool may_read =
      (phase_ == Phase::kExpectOpen || phase_ == Phase::kOpen) && !finish_requested_;
  const auto unsettled = in_flight_ + static_cast<std::int64_t>(responses_.size());
  if (!may_read || reading_ || waiting_for_room_ || unsettled >= parts_.max_batches_in_flight) {
    return;
  }
  // An open is no batch.
  waiting_for_room_ = phase_ == Phase::kOpen && !parts_.ingestor.HasRoom([weak = weak_from_this()] {
    if (const auto self = weak.lock()) {
      const std::lock_guard lock(self->mutex_);
      self->waiting_for_room_ = false;
      self->GuardLocked(Stage::kRoom, [&] { self->Advance(); });
    }
  });
  if (waiting_for_room_) {
    return;
  }
  reading_ = true;
  StartRead(&request_);
}

}  // namespace calibd::server
