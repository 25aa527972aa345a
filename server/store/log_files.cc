#include "server/store/log_files.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "server/failpoint.h"
#include "server/store/file.h"

namespace calibd::server {
namespace {

// From so many segments on it is looked at how much of them is needed.
constexpr std::size_t kFewSegments = 4;

}  // namespace

absl::StatusOr<std::unique_ptr<LogFiles>> LogFiles::Open(const std::string& folder,
                                                         const Options& options) {
  std::unique_ptr<LogFiles> files(new LogFiles(folder, options.segment_bytes));
  absl::Status status = files->OpenAll(options);
  if (!status.ok()) {
    return status;
  }
  return files;
}

absl::Status LogFiles::OpenAll(const Options& options) {
  std::error_code error;
  std::vector<std::string> paths;
  for (std::filesystem::directory_iterator entry(folder_, error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    std::int64_t id = 0;
    if (!absl::StartsWith(name, "log-") || !absl::SimpleHexAtoi(name.substr(4), &id) ||
        entry->path() != LogSegment::PathOf(folder_, id)) {
      continue;
    }
    if (id < options.first_log_id) {
      // Its removal was begun.
      std::filesystem::remove(entry->path(), error);
    } else {
      paths.push_back(entry->path().string());
    }
  }
  if (!error) {
    std::filesystem::remove(LogSegment::UnfinishedPath(folder_), error);
  }
  if (error) {
    return FileError(folder_, "read", error.value());
  }
  std::sort(paths.begin(), paths.end());
  next_log_id_ = options.first_log_id != 0 ? options.first_log_id : options.next_log_id;
  if (paths.empty() && options.first_log_id == 0) {
    return AddSegment(0);
  }
  for (const std::string& path : paths) {
    absl::StatusOr<LogSegment> segment = LogSegment::Open(path);
    if (!segment.ok()) {
      return segment.status();
    }
    segments_.push_back(*std::move(segment));
  }
  if (segments_.empty() || segments_.front().path() != LogSegment::PathOf(folder_, next_log_id_)) {
    return DamageError(
        LogSegment::PathOf(folder_, next_log_id_),
        segments_.empty() ? "is missing" : "is missing: the log begins with another file");
  }
  return absl::OkStatus();
}

absl::Status LogFiles::Read(const VisitBatch& visit) {
  const LogSegment* former = nullptr;
  for (LogSegment& segment : segments_) {
    if (segment.first_log_id() != next_log_id_ ||
        segment.path() != LogSegment::PathOf(folder_, next_log_id_)) {
      return DamageError(former == nullptr ? segment.path() : former->path(),
                         absl::StrCat("ends before batch ", next_log_id_, ", and ", segment.path(),
                                      " does not begin with it: a file is damaged or missing"));
    }
    if (absl::Status status = segment.ReadFrames(segment.size(), visit); !status.ok()) {
      return status;
    }
    next_log_id_ = segment.end_log_id();
    former = &segment;
  }
  SumWritten();
  const LogSegment& newest = segments_.back();
  absl::Status status = newest.CheckEnd();
  // A frame that was not acknowledged may not be on the disk yet.
  return status.ok() && !newest.empty() ? newest.Sync() : status;
}

absl::Status LogFiles::AddSegment(std::uint64_t frame_bytes) {
  absl::StatusOr<LogSegment> segment =
      LogSegment::Make(folder_, next_log_id_, segment_bytes_, frame_bytes);
  if (!segment.ok()) {
    return segment.status();
  }
  if (!segments_.empty() && segments_.back().empty()) {
    // It was too small for its first frame, and had the same name.
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
  if (frame_.batches().empty()) {
    return absl::OkStatus();
  }
  if (!segments_.back().HasRoom(frame_)) {
    if (absl::Status status = AddSegment(frame_.bytes()); !status.ok()) {
      return status;
    }
    Failpoint("segment");
  }
  if (absl::Status status = segments_.back().Write(frame_); !status.ok()) {
    return status;
  }
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
  for (const LogSegment& segment : segments_) {
    bytes += segment.size();
  }
  return static_cast<std::int64_t>(bytes);
}

void LogFiles::SumWritten() noexcept {
  std::uint64_t written = 0;
  for (const LogSegment& segment : segments_) {
    written += segment.end();
  }
  written_bytes_ = static_cast<std::int64_t>(written);
}

void LogFiles::MarkUnneeded(std::span<const std::int64_t> log_ids) {
  if (holders_ > 0) {
    unneeded_later_.insert(unneeded_later_.end(), log_ids.begin(), log_ids.end());
    return;
  }
  for (const std::int64_t log_id : log_ids) {
    segments_[Find(log_id)].MarkUnneeded(log_id);
  }
}

void LogFiles::Release() {
  --holders_;
  if (holders_ == 0) {
    MarkUnneeded(std::exchange(unneeded_later_, {}));
  }
}

bool LogFiles::RetirementDue() const noexcept {
  if (holders_ > 0 || segments_.size() < 2) {
    return false;
  }
  if (segments_.front().needed_batches() == 0) {
    return true;
  }
  std::uint64_t needed = 0;
  for (const LogSegment& segment : segments_) {
    needed += segment.needed_bytes();
  }
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
    if (!segment.needed()[static_cast<std::size_t>(log_id - segment.first_log_id())]) {
      continue;
    }
    StoredBatch batch;
    absl::Status status = segment.ReadBatch(log_id, data, batch);
    if (status.ok()) {
      status = visit(batch);
    }
    if (!status.ok()) {
      return status;
    }
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
    extents.push_back({.path = segment.path(),
                       .first_log_id = segment.first_log_id(),
                       .end = segment.end(),
                       .needed = segment.needed()});
  }
  return extents;
}

absl::Status LogFiles::ReadExtent(
    const Extent& extent,
    const std::function<absl::Status(const StoredBatch&, bool needed)>& visit) {
  absl::StatusOr<LogSegment> segment = LogSegment::Open(extent.path);
  if (!segment.ok()) {
    return segment.status();
  }
  absl::Status status = segment->ReadFrames(extent.end, [&](const StoredBatch& batch) {
    const auto index = static_cast<std::size_t>(batch.log_id - extent.first_log_id);
    return visit(batch, index < extent.needed.size() && extent.needed[index]);
  });
  if (status.ok() && segment->end() < extent.end) {
    return DamageError(segment->path(), absl::StrCat("cannot be read at ", segment->end()));
  }
  return status;
}

}  // namespace calibd::server
