#include "server/store/local/log_files.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "calibd/core/status_macros.h"
#include "server/base/failpoint.h"
#include "server/store/local/file.h"

namespace calibd::server {
namespace {

// With more segments than this, some are compacted once most of their bytes are not needed.
constexpr std::size_t kFewSegments = 4;
// Files of removed segments are kept for reuse up to this number of files, or one if there are more
// segments. To free the space of a file takes 15 ms, during which nothing is committed.
constexpr std::size_t kFewFiles = kFewSegments + 2;
// So many segments are compacted into one at most: their files are removed in one step.
constexpr std::size_t kMostCompacted = 16;
// Limits of the bytes that one step of a compaction copies.
constexpr std::uint64_t kLeastCopied = std::uint64_t{1} << 20;
constexpr std::uint64_t kMostCopied = std::uint64_t{8} << 20;

absl::Status RemoveIfThere(const std::string& path) {
  return unlink(path.c_str()) == 0 || errno == ENOENT ? absl::OkStatus()
                                                      : FileError(path, "remove", errno);
}

// Removes a segment that is not needed, even if it is damaged, but not one of another store.
absl::Status RemoveLeftover(const std::string& path, const StoreId& store_id) {
  CALIBD_ASSIGN_OR_RETURN(const File file, File::Open(path, O_RDONLY, "open"));
  const absl::StatusOr<SegmentHeader> header = ReadSegmentHeader(file);
  return header.ok() && header->store_id != store_id
             ? DamageError(path, "belongs to another store", "move the file away")
             : RemoveIfThere(path);
}

}  // namespace

absl::StatusOr<std::unique_ptr<LogFiles>> LogFiles::Open(const std::string& folder,
                                                         const Options& options) {
  std::unique_ptr<LogFiles> files(new LogFiles(folder, options));
  CALIBD_RETURN_IF_ERROR(files->OpenAll(options));
  return files;
}

absl::Status LogFiles::OpenAll(const Options& options) {
  for (const LogSegment::Kind kind : {LogSegment::Kind::kAppended, LogSegment::Kind::kCompacted}) {
    CALIBD_RETURN_IF_ERROR(RemoveIfThere(LogSegment::UnfinishedPath(folder_, kind)));
  }
  CALIBD_ASSIGN_OR_RETURN(const std::vector<std::int64_t> ids, LogSegment::List(folder_));
  next_log_id_ = options.first_log_id != 0 ? options.first_log_id : options.next_log_id;
  for (const std::int64_t id : ids) {
    if (id < next_log_id_) {
      // A process that was killed was about to remove it, or to put it in front of the log.
      CALIBD_RETURN_IF_ERROR(RemoveLeftover(LogSegment::PathOf(folder_, id), mark_.id));
      continue;
    }
    CALIBD_ASSIGN_OR_RETURN(LogSegment segment,
                            LogSegment::Open(folder_, {.store_id = mark_.id, .first_log_id = id}));
    if (segments_.empty() || id >= segments_.back().end_log_id()) {
      segments_.push_back(std::move(segment));
    } else {
      // The compacted segment before it had replaced it.
      CALIBD_RETURN_IF_ERROR(segment.Remove(folder_, /*most_spares=*/0));
    }
  }
  if (segments_.empty() && options.first_log_id == 0 && mark_.newest_segment == 0) {
    return AddSegment(0);
  }
  if (segments_.empty() || segments_.front().first_log_id() != next_log_id_) {
    return MissingError(next_log_id_, segments_.empty() ? "there is no file of the log"
                                                        : absl::StrCat("the log begins with ",
                                                                       segments_.front().path()));
  }
  const LogSegment& newest = segments_.back();
  const std::int64_t expected = newest.compacted() ? newest.end_log_id() : mark_.newest_segment;
  return newest.first_log_id() < expected
             ? MissingError(expected, absl::StrCat("the log ends with ", newest.path()))
             : absl::OkStatus();
}

absl::Status LogFiles::Read(const VisitBatch& visit) {
  const LogSegment* former = nullptr;
  for (LogSegment& segment : segments_) {
    CALIBD_RETURN_IF_ERROR(CheckFollows(former, segment));
    CALIBD_RETURN_IF_ERROR(segment.ReadFrames(segment.size(), visit));
    next_log_id_ = segment.end_log_id();
    former = &segment;
  }
  SumWritten();
  CALIBD_RETURN_IF_ERROR(CheckEnd());
  const LogSegment& newest = segments_.back();
  // A frame that was never acknowledged may not be durable yet.
  return newest.empty() ? absl::OkStatus() : newest.Sync();
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
  CALIBD_ASSIGN_OR_RETURN(const bool terminated, former->IsTerminated());
  if (terminated) {
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
  CALIBD_RETURN_IF_ERROR(newest.CheckEnd());
  if (mark_.clean) return absl::OkStatus();
  CALIBD_ASSIGN_OR_RETURN(tail_, newest.ReadTail(mark_.end_log_id));
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
  CALIBD_ASSIGN_OR_RETURN(LogSegment segment,
                          LogSegment::Create(folder_, LogSegment::Kind::kAppended,
                                             {.store_id = mark_.id, .first_log_id = next_log_id_},
                                             segment_bytes_, frame_bytes));
  CALIBD_RETURN_IF_ERROR(segment.Publish(folder_));
  if (!segments_.empty() && segments_.back().empty()) {
    // The previous segment was too small for its first frame, and the new one has the same name.
    segments_.pop_back();
  }
  segments_.push_back(std::move(segment));
  return absl::OkStatus();
}

std::int64_t LogFiles::Append(std::int64_t model_id, std::int64_t time_us, std::string data) {
  frame_.Append(model_id, time_us, std::move(data));
  return next_log_id_ + static_cast<std::int64_t>(frame_.batches().size()) - 1;
}

absl::Status LogFiles::Commit() {
  if (frame_.batches().empty()) return absl::OkStatus();
  if (!segments_.back().HasRoom(frame_)) {
    CALIBD_RETURN_IF_ERROR(AddSegment(frame_.bytes()));
    Failpoint("segment");
  }
  CALIBD_RETURN_IF_ERROR(segments_.back().Append(next_log_id_, frame_));
  CALIBD_RETURN_IF_ERROR(segments_.back().Sync());
  next_log_id_ = segments_.back().end_log_id();
  appended_bytes_ += frame_.bytes();
  total_bytes_ += static_cast<std::int64_t>(frame_.bytes());
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
  CALIBD_RETURN_IF_ERROR(segments_[Find(log_id)].ReadBatch(log_id, data, batch));
  return std::string(batch.data);
}

std::int64_t LogFiles::bytes() const noexcept {
  std::uint64_t bytes = 0;
  for (const LogSegment& segment : segments_) bytes += segment.size();
  if (compaction_.has_value()) bytes += compaction_->target.size();
  return static_cast<std::int64_t>(bytes);
}

std::int64_t LogFiles::BytesFrom(std::int64_t log_id) const noexcept {
  double bytes = 0;
  for (const LogSegment& segment : segments_) {
    const std::int64_t end = segment.end_log_id();
    if (end <= log_id || segment.empty()) continue;
    const std::int64_t batches = end - segment.first_log_id();
    const std::int64_t counted = std::min(batches, end - log_id);
    bytes += static_cast<double>(segment.end()) * static_cast<double>(counted) /
             static_cast<double>(batches);
  }
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
  for (const std::int64_t log_id : log_ids) {
    segments_[Find(log_id)].MarkUnneeded(log_id);
    if (compaction_.has_value()) compaction_->target.MarkUnneeded(log_id);
  }
}

void LogFiles::Release() {
  --holders_;
  if (holders_ == 0) {
    MarkUnneeded(std::exchange(unneeded_later_, {}));
  }
}

std::size_t LogFiles::retirable() const noexcept {
  std::size_t count = 0;
  while (count + 1 < segments_.size() && segments_[count].end_log_id() <= keep_from_) ++count;
  return count;
}

bool LogFiles::RetirementDue() const noexcept {
  if (holders_ > 0) return false;
  if (compaction_.has_value() || OldestIsUnneeded()) return true;
  if (segments_.size() <= kFewSegments) return false;
  std::uint64_t needed = 0;
  std::uint64_t bytes = 0;
  const std::size_t retirable_segments = retirable();
  for (std::size_t i = 0; i < retirable_segments; ++i) {
    needed += segments_[i].needed_bytes();
    bytes += segments_[i].size();
  }
  return needed < bytes / 2;
}

bool LogFiles::OldestIsUnneeded() const noexcept {
  return !compaction_.has_value() && retirable() > 0 && segments_.front().needed_batches() == 0;
}

std::pair<std::size_t, std::size_t> LogFiles::FindCompaction(
    std::uint64_t most_needed) const noexcept {
  // The sequences are as long as possible, so that small segments do not accumulate.
  std::pair<std::size_t, std::size_t> best;
  std::uint64_t most_freed = 0;
  std::uint64_t needed = 0;
  std::uint64_t bytes = 0;
  std::size_t begin = 0;
  const std::size_t most = retirable();
  for (std::size_t end = 1; end <= most; ++end) {
    needed += segments_[end - 1].needed_bytes();
    bytes += segments_[end - 1].size();
    for (; begin + 1 < end && (needed > most_needed || end - begin > kMostCompacted); ++begin) {
      needed -= segments_[begin].needed_bytes();
      bytes -= segments_[begin].size();
    }
    if (bytes - needed > most_freed) {
      most_freed = bytes - needed;
      best = {begin, end};
    }
  }
  return best;
}

absl::Status LogFiles::Compact() {
  absl::Status status;
  if (!compaction_.has_value()) {
    status = BeginCompaction(segment_bytes_);
    // A full disk may still have room for the needed batches of one segment.
    if (absl::IsResourceExhausted(status)) status = BeginCompaction(0);
  }
  Failpoint("compact");
  if (status.ok()) {
    status = CopyNeeded(std::clamp(std::exchange(appended_bytes_, 0), kLeastCopied, kMostCopied));
  }
  if (status.ok() && compaction_->next_log_id == compaction_->end_log_id) {
    status = FinishCompaction();
  }
  if (!status.ok()) {
    compaction_.reset();
    unlink(LogSegment::UnfinishedPath(folder_, LogSegment::Kind::kCompacted).c_str());
  }
  return status;
}

absl::Status LogFiles::BeginCompaction(std::uint64_t most_needed) {
  const auto [begin, end] = FindCompaction(most_needed);
  std::uint64_t bytes = 0;
  for (std::size_t i = begin; i < end; ++i) {
    // Each batch may become a frame.
    bytes += segments_[i].needed_bytes() + segments_[i].needed_batches() * sizeof(LogFrameHeader);
  }
  const std::int64_t first_log_id = segments_[begin].first_log_id();
  CALIBD_ASSIGN_OR_RETURN(
      CompactedSegment target,
      CompactedSegment::Create(folder_, {.store_id = mark_.id, .first_log_id = first_log_id}, bytes,
                               bytes));
  appended_bytes_ = 0;
  compaction_ = Compaction{.target = std::move(target),
                           .next_log_id = first_log_id,
                           .end_log_id = segments_[end].first_log_id()};
  return absl::OkStatus();
}

absl::Status LogFiles::CopyNeeded(std::uint64_t max_bytes) {
  std::string data;
  std::int64_t& log_id = compaction_->next_log_id;
  for (std::uint64_t copied = 0; log_id < compaction_->end_log_id && copied < max_bytes;) {
    const LogSegment& segment = segments_[Find(log_id)];
    const std::optional<std::int64_t> needed = segment.NextNeeded(log_id);
    if (needed.has_value()) {
      StoredBatch batch;
      CALIBD_RETURN_IF_ERROR(segment.ReadBatch(*needed, data, batch));
      CALIBD_RETURN_IF_ERROR(compaction_->target.Add(batch));
      copied += data.size();
    }
    log_id = needed.has_value() ? *needed + 1 : segment.end_log_id();
  }
  return compaction_->target.Sync();
}

absl::Status LogFiles::FinishCompaction() {
  CALIBD_ASSIGN_OR_RETURN(LogSegment segment,
                          compaction_->target.Publish(folder_, compaction_->end_log_id));
  const auto begin = segments_.begin() + static_cast<std::ptrdiff_t>(Find(segment.first_log_id()));
  const auto end = segments_.begin() + static_cast<std::ptrdiff_t>(Find(segment.end_log_id()));
  compaction_.reset();
  // The first file got replaced by the new one.
  const std::vector<LogSegment> replaced(std::move_iterator(begin + 1), std::move_iterator(end));
  *begin = std::move(segment);
  segments_.erase(begin + 1, end);
  SumWritten();
  absl::Status status;
  for (const LogSegment& one : replaced) {
    status.Update(RemoveFile(one, segments_.size()));
    Failpoint("compact");
  }
  // If the names of the replaced files came back after a power cut, these must not have been
  // reused: one of them may be log.spare now, even if another could not be removed.
  if (!replaced.empty()) status.Update(SyncFolder(folder_));
  return status;
}

absl::Status LogFiles::Prepend(const std::function<absl::StatusOr<bool>(StoredBatch&)>& next) {
  std::deque<LogSegment> segments;
  std::optional<CompactedSegment> target;
  const auto publish = [&](std::int64_t end_log_id) {
    const std::int64_t first = target->first_log_id();
    CALIBD_RETURN_IF_ERROR(target->Publish(folder_, end_log_id).status());
    target.reset();
    // Read expects segments whose frames are not read yet.
    CALIBD_ASSIGN_OR_RETURN(LogSegment segment, LogSegment::Open(folder_, {.store_id = mark_.id,
                                                                           .first_log_id = first}));
    segments.push_back(std::move(segment));
    return absl::OkStatus();
  };
  StoredBatch batch;
  absl::StatusOr<bool> more = next(batch);
  for (; more.ok() && *more; more = next(batch)) {
    if (batch.log_id >= first_log_id()) continue;
    if (target.has_value() && !target->HasRoom(batch)) {
      CALIBD_RETURN_IF_ERROR(publish(batch.log_id));
    }
    if (!target.has_value()) {
      CALIBD_ASSIGN_OR_RETURN(
          target, CompactedSegment::Create(
                      folder_, {.store_id = mark_.id, .first_log_id = batch.log_id}, segment_bytes_,
                      CompactedSegment::BatchBytes(batch.data.size())));
    }
    CALIBD_RETURN_IF_ERROR(target->Add(batch));
  }
  CALIBD_RETURN_IF_ERROR(more.status());
  if (target.has_value()) CALIBD_RETURN_IF_ERROR(publish(first_log_id()));
  segments_.insert(segments_.begin(), std::move_iterator(segments.begin()),
                   std::move_iterator(segments.end()));
  return absl::OkStatus();
}

absl::Status LogFiles::RemoveOldest() {
  CALIBD_RETURN_IF_ERROR(RemoveFile(segments_.front(), segments_.size() - 1));
  segments_.pop_front();
  SumWritten();
  return absl::OkStatus();
}

absl::Status LogFiles::RemoveFile(const LogSegment& segment, std::size_t remaining) const {
  const std::size_t most_spares = remaining < kFewFiles ? kFewFiles - remaining : 1;
  return segment.Remove(folder_, segment.size() == segment_bytes_ ? most_spares : 0);
}

std::vector<LogFiles::Extent> LogFiles::extents() const {
  std::vector<Extent> extents;
  for (const LogSegment& segment : segments_) {
    extents.push_back({.folder = folder_,
                       .store_id = mark_.id,
                       .first_log_id = segment.first_log_id(),
                       .end_log_id = segment.end_log_id(),
                       .end = segment.end(),
                       .needed = segment.needed(),
                       .needed_bytes = segment.needed_bytes()});
  }
  return extents;
}

absl::Status LogFiles::ReadExtent(
    const Extent& extent,
    const std::function<absl::Status(const StoredBatch&, bool needed)>& visit) {
  CALIBD_ASSIGN_OR_RETURN(LogSegment segment,
                          LogSegment::Open(extent.folder, {.store_id = extent.store_id,
                                                           .first_log_id = extent.first_log_id}));
  std::size_t index = 0;
  CALIBD_RETURN_IF_ERROR(segment.ReadFrames(extent.end, [&](const StoredBatch& batch) {
    const bool needed = index < extent.needed.size() && extent.needed[index];
    ++index;
    return visit(batch, needed);
  }));
  return segment.end() < extent.end
             ? DamageError(segment.path(), absl::StrCat("is damaged at ", segment.end()))
             : absl::OkStatus();
}

}  // namespace calibd::server
