#include "server/store/postgres/log_tables.h"

#include <algorithm>
#include <numeric>

namespace calibd::server {

bool LogTables::Begin(std::int64_t first, std::int64_t newest) {
  first_ = first;
  newest_ = newest;
  return first >= 0 && first <= newest && newest - first < kTables;
}

bool LogTables::AddRead(std::int64_t table, std::int64_t log_id, std::size_t bytes) {
  // The generation of this table that is read.
  const std::int64_t generation = newest_ - (newest_ - table) % kTables;
  bytes_[Index(generation)] += static_cast<std::int64_t>(bytes);
  // A batch of the newest generation that is older than one of another generation is a copy.
  new_bytes_ = generation == newest_ ? new_bytes_ + static_cast<std::int64_t>(bytes) : 0;
  if (log_id == last_read_) {
    const std::optional<Place> known = Find(log_id);
    if (known.has_value() && newest_ - (newest_ - known->table) % kTables < generation) {
      needed_[static_cast<std::size_t>(known->table)].erase(log_id);
      needed_[Index(generation)].emplace(log_id, static_cast<std::uint32_t>(bytes));
    }
    return false;
  }
  last_read_ = log_id;
  needed_[Index(generation)].emplace(log_id, static_cast<std::uint32_t>(bytes));
  needed_bytes_ += static_cast<std::int64_t>(bytes);
  return true;
}

void LogTables::AddAppended(std::int64_t log_id, std::size_t bytes) {
  needed_[Index(newest_)].emplace(log_id, static_cast<std::uint32_t>(bytes));
  bytes_[Index(newest_)] += static_cast<std::int64_t>(bytes);
  needed_bytes_ += static_cast<std::int64_t>(bytes);
  new_bytes_ += static_cast<std::int64_t>(bytes);
}

void LogTables::MarkUnneeded(std::span<const std::int64_t> log_ids) {
  for (const std::int64_t log_id : log_ids) {
    for (Batches& batches : needed_) {
      const auto found = batches.find(log_id);
      if (found == batches.end()) continue;
      needed_bytes_ -= found->second;
      batches.erase(found);
      break;
    }
  }
}

std::optional<LogTables::Place> LogTables::Find(std::int64_t log_id) const {
  for (std::int64_t table = 0; table < kTables; ++table) {
    const Batches& batches = needed_[static_cast<std::size_t>(table)];
    const auto found = batches.find(log_id);
    if (found != batches.end()) return Place{.table = table, .bytes = found->second};
  }
  return std::nullopt;
}

double LogTables::fill() const noexcept {
  return static_cast<double>(new_bytes_) /
         static_cast<double>(std::max(least_bytes_, needed_bytes_ / 2));
}

bool LogTables::IsRotationDue() const noexcept { return fill() >= 1; }

void LogTables::Rotate(std::int64_t newest) {
  for (std::int64_t generation = newest_ + 1; generation <= newest; ++generation) {
    bytes_[Index(generation)] = 0;
  }
  newest_ = newest;
  new_bytes_ = 0;
}

std::vector<std::int64_t> LogTables::NextToCopy(std::size_t most_bytes) const {
  std::vector<std::int64_t> log_ids;
  std::size_t bytes = 0;
  for (const auto& [log_id, size] : needed_[Index(first_)]) {
    if (bytes >= most_bytes) break;
    bytes += size;
    log_ids.push_back(log_id);
  }
  return log_ids;
}

void LogTables::MoveToNewest(std::span<const std::int64_t> log_ids) {
  for (const std::int64_t log_id : log_ids) {
    auto moved = needed_[Index(first_)].extract(log_id);
    if (moved.empty()) continue;
    bytes_[Index(newest_)] += moved.mapped();
    needed_[Index(newest_)].insert(std::move(moved));
  }
}

void LogTables::RaiseFirst() { ++first_; }

std::int64_t LogTables::bytes() const noexcept {
  return std::accumulate(bytes_.begin(), bytes_.end(), std::int64_t{0});
}

}  // namespace calibd::server
