#include "server/ingest/ingestor.h"

#include <utility>

namespace calibd::server {

void Ingestor::Open(const std::shared_ptr<Model>& model, std::string producer_id,
                    std::int64_t epoch, std::function<void(absl::StatusOr<std::int64_t>)> done) {
  LogRow row;
  row.position = ProducerPosition{.producer_id = std::move(producer_id), .epoch = epoch};
  Post(model, std::move(row), /*opens=*/true, [done = std::move(done)](Settlement settlement) {
    if (settlement.status.ok()) {
      done(settlement.next_sequence);
    } else {
      done(std::move(settlement.status));
    }
  });
}

void Ingestor::Submit(const std::shared_ptr<Model>& model, std::optional<ProducerPosition> position,
                      LogRow batch, std::function<void(Settlement)> done,
                      IngestQueue::RoomPtr room) {
  batch.position = std::move(position);
  Post(model, std::move(batch), /*opens=*/false, std::move(done), std::move(room));
}

void Ingestor::OpenAndSubmit(const std::shared_ptr<Model>& model,
                             std::optional<ProducerPosition> position, LogRow batch,
                             std::function<void(Settlement)> done, IngestQueue::RoomPtr room) {
  batch.position = std::move(position);
  Post(model, std::move(batch), /*opens=*/true, std::move(done), std::move(room));
}

void Ingestor::End(const std::shared_ptr<Model>& model, ProducerPosition position,
                   std::function<void(absl::Status)> done) {
  LogRow row;
  row.kind = EndedRow();
  row.position = std::move(position);
  Post(model, std::move(row), /*opens=*/false,
       [done = std::move(done)](Settlement settlement) { done(std::move(settlement.status)); });
}

void Ingestor::Acknowledge(const std::shared_ptr<Model>& model, std::int64_t alarm_id,
                           std::string note, std::function<void(absl::Status)> done) {
  LogRow row;
  row.kind = AcknowledgedRow{.alarm_id = alarm_id, .note = std::move(note)};
  Post(model, std::move(row), /*opens=*/false,
       [done = std::move(done)](Settlement settlement) { done(std::move(settlement.status)); });
}

void Ingestor::Post(const std::shared_ptr<Model>& model, LogRow row, bool opens,
                    std::function<void(Settlement)> done, IngestQueue::RoomPtr room) {
  if (room == nullptr) room = queue_.Take(model->id(), row.bytes());
  commits_.Post(std::make_shared<RowWrite>(model, commits_, clock_, std::move(room), std::move(row),
                                           opens, std::move(done)));
}

void Ingestor::Mature(const std::shared_ptr<Model>& model, std::function<void(bool)> done) {
  commits_.Post(std::make_shared<MatureWrite>(model, commits_, clock_, std::move(done)));
}

}  // namespace calibd::server
