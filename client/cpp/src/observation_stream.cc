#include "calibd/client/observation_stream.h"

#include <utility>

#include "stream_impl.h"

namespace calibd::client {

ObservationStream::ObservationStream(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
ObservationStream::~ObservationStream() = default;

absl::Status ObservationStream::Send(PredictionKind kind, std::span<const double> values,
                                     std::span<const std::int32_t> labels) {
  return impl_->Send(kind, values, labels);
}

absl::Status ObservationStream::Send(PredictionKind kind, std::span<const float> values,
                                     std::span<const std::int32_t> labels) {
  return impl_->Send(kind, values, labels);
}

absl::Status ObservationStream::SendWithIds(PredictionKind kind, std::span<const double> values,
                                            std::span<const std::string> ids,
                                            std::span<const std::int32_t> labels) {
  return impl_->SendWithIds(kind, values, ids, labels);
}

absl::Status ObservationStream::SendWithIds(PredictionKind kind, std::span<const float> values,
                                            std::span<const std::string> ids,
                                            std::span<const std::int32_t> labels) {
  return impl_->SendWithIds(kind, values, ids, labels);
}

absl::Status ObservationStream::SetGroup(std::string_view value) { return impl_->SetGroup(value); }

absl::Status ObservationStream::Label(std::span<const std::string> ids,
                                      std::span<const std::int32_t> labels) {
  return impl_->Label(ids, labels);
}

absl::Status ObservationStream::Flush() { return impl_->Flush(); }
absl::StatusOr<StreamCounts> ObservationStream::Finish() { return impl_->Finish(); }
void ObservationStream::Cancel() { impl_->Cancel(); }
StreamCounts ObservationStream::counts() const { return impl_->counts(); }
std::vector<RejectedBatch> ObservationStream::TakeRejected() { return impl_->TakeRejected(); }
std::size_t ObservationStream::class_count() const { return impl_->class_count(); }
const std::string& ObservationStream::producer_id() const { return impl_->producer_id(); }

}  // namespace calibd::client
