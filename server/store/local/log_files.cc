#include "server/store/local/log_files.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/failpoint.h"
#include "server/store/local/file.h"

namespace calibd::server {
namespace {

// With more segments than this, the oldest is removed once most bytes of the log are not needed.
constexpr std::size_t kFewSegments = 4;

absl::Status RemoveIfThere(const std::string& path) {
  return unlink(path.c_str()) == 0 || errno == ENOENT ? absl::OkStatus()
                                                      : FileError(path, "remove", errno);
}

// Removes a segment that is not needed, even if it is damaged, unless it belongs to another store.
absl::Status RemoveLeftover(const std::string& path, const StoreId& store_id) {
  const absl::StatusOr<File> file = File::Open(path, O_RDONLY, "open");
  if (!file.ok()) return file.status();
  const absl::StatusOr<SegmentHeader> header = ReadSegmentHeader(*file);
  return header.ok() && header->store_id != store_id
             ? DamageError(path, "belongs to another store", "move the file away")
             : RemoveIfThere(path);
}

}  // namespace

absl::StatusOr<std::unique_ptr<LogFiles>> LogFiles::Open(const std::string& folder,
                                                         const Options& options) {
  std::unique_ptr<LogFiles> files(new LogFiles(folder, options));
  absl::Status status = files->OpenAll(options);
  if (!status.ok()) return status;
  return files;
}

absl::Status LogFiles::OpenAll(const Options& options) {
  if (absl::Status status = RemoveIfThere(LogSegment::UnfinishedPath(folder_)); !status.ok()) {
    return status;
  }
  const absl::StatusOr<std::vector<std::int64_t>> ids = LogSegment::List(folder_);
  if (!ids.ok()) return ids.status();
  next_log_id_ = options.first_log_id != 0 ? options.first_log_id : options.next_log_id;
  if (ids->empty() && options.first_log_id == 0 && mark_.newest_segment == 0) return AddSegment(0);
  for (const std::int64_t id : *ids) {
    if (id < options.first_log_id) {
      // Another process had begun to remove it.
      if (absl::Status status = RemoveLeftover(LogSegment::PathOf(folder_, id), mark_.id);
          !status.ok()) {
        return status;
      }
      continue;
    }
    absl::StatusOr<LogSegment> segment =
        LogSegment::Open(folder_, {.store_id = mark_.id, .first_log_id = id});
    if (!segment.ok()) return segment.status();
    segments_.push_back(*std::move(segment));
  }
  if (segments_.empty() || segments_.front().first_log_id() != next_log_id_) {
    return MissingError(next_log_id_, segments_.empty() ? "there is no file of the log"
                                                        : absl::StrCat("the log begins with ",
                                                                       segments_.front().path()));
  }
  if (segments_.back().first_log_id() < mark_.newest_segment) {
    return MissingError(mark_.newest_segment,
                        absl::StrCat("the log ends with ", segments_.back().path()));
  }
  return absl::OkStatus();
}

absl::Status LogFiles::Read(const VisitBatch& visit) {
  const LogSegment* former = nullptr;
  for (LogSegment& segment : segments_) {
    absl::Status status = CheckFollows(former, segment);
    if (status.ok()) status = segment.ReadFrames(segment.size(), visit);
    if (!status.ok()) return status;
    next_log_id_ = segment.end_log_id();
    former = &segment;
  }
  SumWritten();
  absl::Status status = CheckEnd();
  const LogSegment& newest = segments_.back();
  // A frame that was never acknowledged may not be durable yet.
  return status.ok() && !newest.empty() ? newest.Sync() : status;
}

absl::Status LogFiles::CheckFollows(const LogSegment* former, const LogSegment& segment) const {
  if (former == nullptr || segment.first_log_id() == next_log_id_) return absl::OkStatus();
  if (segment.first_log_id() < next_log_id_) {
    return DamageError(segment.path(),
                       absl::StrCat("begins with batch ", segment.first_log_id(),
                                    " of the log, but the file before it ends with batch ",
                                    next_log_id_ - 1, ": one of them is in the wrong place"),
                       kPutRightFileBack);
  }
  const absl::StatusOr<bool> terminated = former->IsTerminated();
  if (!terminated.ok()) return terminated.status();
  if (*terminated) {
    return MissingError(next_log_id_,
                        absl::StrCat(former->path(), " ends before batch ", next_log_id_,
                                     " of the log, and ", segment.path(), " is the next file"));
  }
  return DamageError(
      former->path(),
      absl::StrCat("is damaged at ", former->end(), ": it ends before batch ", next_log_id_,
                   " of the log, and ", segment.path(), " is the next file"));
}

absl::Status LogFiles::CheckEnd() {
  const LogSegment& newest = segments_.back();
  if (mark_.clean && next_log_id_ != mark_.end_log_id) {
    return DamageError(newest.path(), absl::StrCat("ends before batch ", next_log_id_,
                                                   " of the log, but it ended before batch ",
                                                   mark_.end_log_id, " when the server stopped"));
  }
  if (next_log_id_ < mark_.last_frame_log_id) {
    return DamageError(newest.path(), absl::StrCat("is damaged at ", newest.end(), ": batches ",
                                                   next_log_id_, " to ", mark_.end_log_id - 1,
                                                   " of the log were written but cannot be read"));
  }
  if (absl::Status status = newest.CheckEnd(); !status.ok() || mark_.clean) return status;
  absl::StatusOr<std::optional<LogTail>> tail = newest.ReadTail(mark_.end_log_id);
  if (!tail.ok()) return tail.status();
  tail_ = *std::move(tail);
  return absl::OkStatus();
}

void LogFiles::Mark(StoreMark& mark) const noexcept {
  const LogSegment& newest = segments_.back();
  mark.newest_segment = newest.first_log_id();
  mark.last_frame_log_id = newest.last_frame_log_id();
  mark.end_log_id = next_log_id_;
}

absl::Status LogFiles::MissingError(std::int64_t first_log_id, std::string_view reason) const {
  return DamageError(LogSegment::PathOf(folder_, first_log_id),
                     absl::StrCat("is missing: ", std::string(reason)), kPutFileBack);
}

absl::Status LogFiles::AddSegment(std::uint64_t frame_bytes) {
  absl::StatusOr<LogSegment> segment = LogSegment::Create(
      folder_, {.store_id = mark_.id, .first_log_id = next_log_id_}, segment_bytes_, frame_bytes);
  if (!segment.ok()) return segment.status();
  if (absl::Status status = segment->Publish(folder_); !status.ok()) return status;
  if (!segments_.empty() && segments_.back().empty()) {
    // The previous segment was too small for its first frame, and the new one has the same name.
    segments_.pop_back();
  }
  segments_.push_back(*std::move(segment));
  return absl::OkStatus();
}

std::int64_t LogFiles::Append(std::int64_t model_id, std::int64_t time_us, std::string data) {
  frame_.Append(model_id, time_us, std::move(data));
  return next_log_id_ + static_cast<std::int64_t>(frame_.batches().size()) - 1;
}

absl::Status LogFiles::Commit() {
  if (frame_.batches().empty()) return absl::OkStatus();
  if (!segments_.back().HasRoom(frame_)) {
    if (absl::Status status = AddSegment(frame_.bytes()); !status.ok()) return status;
    Failpoint("segment");
  }
  absl::Status status = segments_.back().Append(frame_);
  if (status.ok()) status = segments_.back().Sync();
  if (!status.ok()) return status;
  next_log_id_ = segments_.back().end_log_id();
  SumWritten();
  Rollback();
  return absl::OkStatus();
}

void LogFiles::Rollback() noexcept { frame_.Clear(); }

std::size_t LogFiles::Find(std::int64_t log_id) const noexcept {
  const auto after = std::upper_bound(
      segments_.begin(), segments_.end(), log_id,
      [](std::int64_t id, const LogSegment& segment) { return id < segment.first_log_id(); });
  return after == segments_.begin() ? 0 : static_cast<std::size_t>(after - segments_.begin()) - 1;
}

absl::StatusOr<std::string> LogFiles::ReadBatch(std::int64_t log_id) const {
  if (log_id >= next_log_id_ &&
      log_id < next_log_id_ + static_cast<std::int64_t>(frame_.batches().size())) {
    return frame_.batches()[static_cast<std::size_t>(log_id - next_log_id_)].data;
  }
  std::string data;
  StoredBatch batch;
  if (absl::Status status = segments_[Find(log_id)].ReadBatch(log_id, data, batch); !status.ok()) {
    return status;
  }
  return std::string(batch.data);
}

std::int64_t LogFiles::bytes() const noexcept {
  std::uint64_t bytes = 0;
  for (const LogSegment& segment : segments_) bytes += segment.size();
  return static_cast<std::int64_t>(bytes);
}

void LogFiles::SumWritten() noexcept {
  std::uint64_t written = 0;
  for (const LogSegment& segment : segments_) written += segment.end();
  written_bytes_ = static_cast<std::int64_t>(written);
}

absl::Status LogFiles::CheckInPlace() const {
  absl::Status status;
  for (const LogSegment& segment : segments_) status.Update(segment.CheckInPlace());
  return status;
}

void LogFiles::MarkUnneeded(std::span<const std::int64_t> log_ids) {
  if (holders_ > 0) {
    unneeded_later_.insert(unneeded_later_.end(), log_ids.begin(), log_ids.end());
    return;
  }
  for (const std::int64_t log_id : log_ids) segments_[Find(log_id)].MarkUnneeded(log_id);
}

void LogFiles::Release() {
  --holders_;
  if (holders_ == 0) {
    MarkUnneeded(std::exchange(unneeded_later_, {}));
  }
}

bool LogFiles::RetirementDue() const noexcept {
  if (holders_ > 0 || segments_.size() < 2) return false;
  if (segments_.front().needed_batches() == 0) return true;
  std::uint64_t needed = 0;
  for (const LogSegment& segment : segments_) needed += segment.needed_bytes();
  return segments_.size() > kFewSegments && needed < static_cast<std::uint64_t>(bytes()) / 2;
}

absl::StatusOr<std::int64_t> LogFiles::ReadNeededOfOldest(std::int64_t from_log_id,
                                                          std::size_t max_bytes,
                                                          const VisitBatch& visit) const {
  const LogSegment& segment = segments_.front();
  std::size_t bytes = 0;
  std::string data;
  std::int64_t log_id = std::max(from_log_id, segment.first_log_id());
  for (; log_id < segment.end_log_id() && bytes < max_bytes; ++log_id) {
    if (!segment.needed()[static_cast<std::size_t>(log_id - segment.first_log_id())]) continue;
    StoredBatch batch;
    absl::Status status = segment.ReadBatch(log_id, data, batch);
    if (status.ok()) status = visit(batch);
    if (!status.ok()) return status;
    bytes += data.size();
  }
  return log_id;
}

absl::Status LogFiles::RemoveOldest() {
  const LogSegment& segment = segments_.front();
  absl::Status status = segment.Remove(folder_, segment.size() == segment_bytes_);
  if (status.ok()) {
    segments_.pop_front();
    SumWritten();
  }
  return status;
}

std::vector<LogFiles::Extent> LogFiles::extents() const {
  std::vector<Extent> extents;
  for (const LogSegment& segment : segments_) {
    extents.push_back({.folder = folder_,
                       .store_id = mark_.id,
                       .first_log_id = segment.first_log_id(),
                       .end = segment.end(),
                       .needed = segment.needed()});
  }
  return extents;
}

absl::Status LogFiles::ReadExtent(
    const Extent& extent,
    const std::function<absl::Status(const StoredBatch&, bool needed)>& visit) {
  absl::StatusOr<LogSegment> segment = LogSegment::Open(
      extent.folder, {.store_id = extent.store_id, .first_log_id = extent.first_log_id});
  if (!segment.ok()) return segment.status();
  absl::Status status = segment->ReadFrames(extent.end, [&](const StoredBatch& batch) {
    const auto index = static_cast<std::size_t>(batch.log_id - extent.first_log_id);
    return visit(batch, index < extent.needed.size() && extent.needed[index]);
  });
  if (status.ok() && segment->end() < extent.end) {
    return DamageError(segment->path(), absl::StrCat("is damaged at ", segment->end()));
  }
  return status;
}

}  // namespace calibd::server
