#include "server/rows/producer_cursors.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <span>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "calibd/core/status_macros.h"
#include "server/base/errors.h"
#include "server/base/xxh3.h"

namespace calibd::server {
namespace {

using Cursor = ProducerCursors::Cursor;
using ExpiredCursor = ProducerCursors::ExpiredCursor;

// The first byte of the keys of expired producers and of requests. No id begins with it.
constexpr char kExpiredPrefix = '\0';
constexpr char kRequestPrefix = '\1';
// Each search for the oldest entries removes this part of the limit, so that searches are rare.
constexpr std::size_t kSearchShare = 16;
// Part of a time limit after which idle producers are looked up again.
constexpr std::int64_t kTimeShare = 64;

std::string KeyOf(char prefix, const PredictionId& hash) {
  return prefix + EncodeIds(std::span(&hash, 1));
}

absl::Status FencedError(const std::string& producer_id, std::int64_t epoch,
                         std::int64_t newer_epoch) {
  return MakeError(absl::StatusCode::kAborted, "FENCED",
                   absl::StrCat("producer ", Quoted(producer_id), " with epoch ", epoch,
                                " was fenced by epoch ", newer_epoch));
}

absl::Status GapError(const ProducerPosition& position, std::int64_t expected) {
  return MakeError(
      absl::StatusCode::kFailedPrecondition, "SEQUENCE_GAP",
      absl::StrCat("batch ", position.sequence, " of producer ", Quoted(position.producer_id),
                   " came, expected ", expected,
                   expected > 1 ? ""
                                : ": no batch of this producer is known. If it sent batches "
                                  "before, the server has forgotten it (calibd "
                                  "--max-expired-producers-per-model): use a new producer id for "
                                  "data that was not acknowledged"));
}

absl::Status EndedError(const ProducerPosition& position, std::int64_t last_sequence) {
  return MakeError(absl::StatusCode::kFailedPrecondition, "PRODUCER_ENDED",
                   absl::StrCat("producer ", Quoted(position.producer_id), " ended after batch ",
                                last_sequence, ", but batch ", position.sequence,
                                " came: use a new producer id for further data"));
}

absl::Status ReusedError(const ProducerPosition& position) {
  return MakeError(
      absl::StatusCode::kAlreadyExists, "SEQUENCE_REUSED",
      absl::StrCat("batch ", position.sequence, " of producer ", Quoted(position.producer_id),
                   ", or one before it, was settled before with other content: resend the same "
                   "batches, or use a new producer id for other data"));
}

std::size_t Slot(std::int64_t sequence) {
  return static_cast<std::size_t>(sequence) % ProducerCursors::kRememberedContents;
}

// Adds the content of a batch to the hash of all contents before it; 0 stays unknown.
std::uint64_t AddContent(std::uint64_t all_contents, std::int64_t sequence,
                         std::uint64_t content_hash) {
  if (all_contents == 0 && sequence > 1) return 0;
  return std::max<std::uint64_t>(
      1, XXH3_64bits_withSeed(&content_hash, sizeof(content_hash), all_contents));
}

std::int64_t TimeOf(const ExpiredCursor& cursor) { return cursor.time_us; }
template <typename Known>
std::int64_t TimeOf(const Known& known) {
  return known.cursor.time_us;
}

// Returns the keys of the `count` entries that were used least recently, and of all others that
// were used before oldest_us. Cost: O(n).
template <typename Map>
std::vector<typename Map::key_type> FindOldest(const Map& entries, std::size_t count,
                                               std::int64_t oldest_us) {
  std::vector<std::pair<std::int64_t, const typename Map::key_type*>> times;
  times.reserve(entries.size());
  for (const auto& [key, entry] : entries) times.emplace_back(TimeOf(entry), &key);
  const auto rest = times.begin() + static_cast<std::ptrdiff_t>(std::min(count, times.size()));
  const auto earlier = [](const auto& a, const auto& b) { return a.first < b.first; };
  std::nth_element(times.begin(), rest, times.end(), earlier);
  const auto end = std::partition(
      rest, times.end(), [oldest_us](const auto& entry) { return entry.first < oldest_us; });
  std::vector<typename Map::key_type> keys;
  for (auto it = times.begin(); it != end; ++it) keys.push_back(*it->second);
  return keys;
}

}  // namespace

std::size_t ProducerLimits::MaxMemory() const noexcept {
  const auto of = [](std::size_t least) {
    // The number of slots of a hash table is a power of two, of which at most 7/8 are used.
    constexpr std::size_t kSlotBytes =
        sizeof(std::pair<PredictionId, ProducerCursors::ExpiredCursor>) + 1;
    const std::size_t most = least + least / kSearchShare;
    return std::bit_ceil(most + most / 7 + 1) * kSlotBytes;
  };
  // While a table grows, its smaller predecessor is in use too.
  return of(expired) + of(requests) + std::max(of(expired), of(requests)) / 2;
}

absl::StatusOr<std::int64_t> ProducerCursors::Open(const std::string& producer_id,
                                                   std::int64_t epoch, std::int64_t time_us) {
  CALIBD_ASSIGN_OR_RETURN(Known* const known, Use(producer_id, time_us));
  Cursor& cursor = known->cursor;
  if (epoch < cursor.epoch) return FencedError(producer_id, epoch, cursor.epoch);
  known->conflicting = false;
  cursor.epoch = epoch;
  cursor.time_us = time_us;
  changed_.insert(producer_id);
  return cursor.last_sequence + 1;
}

absl::StatusOr<ProducerCursors::Standing> ProducerCursors::Check(const ProducerPosition& position,
                                                                 std::uint64_t content_hash,
                                                                 std::int64_t time_us) {
  if (position.request) return CheckRequest(position.producer_id, content_hash, time_us);
  CALIBD_ASSIGN_OR_RETURN(Known* const known, Use(position.producer_id, time_us));
  const Cursor& cursor = known->cursor;
  if (position.epoch < cursor.epoch) {
    return FencedError(position.producer_id, position.epoch, cursor.epoch);
  }
  if (position.sequence <= cursor.last_sequence) {
    if (IsSame(*known, position.sequence, content_hash)) return Standing::kSettledBefore;
    known->conflicting = true;
    return ReusedError(position);
  }
  if (known->conflicting) return ReusedError(position);
  if (cursor.ended) return EndedError(position, cursor.last_sequence);
  if (position.sequence > cursor.last_sequence + 1) {
    return GapError(position, cursor.last_sequence + 1);
  }
  return Standing::kNext;
}

bool ProducerCursors::IsSame(Known& known, std::int64_t sequence, std::uint64_t content_hash) {
  const Cursor& cursor = known.cursor;
  const bool remembered =
      cursor.last_sequence - sequence < static_cast<std::int64_t>(kRememberedContents);
  const std::uint64_t former = remembered ? cursor.content_hashes[Slot(sequence)] : 0;
  if (former != 0 && former != content_hash) return false;
  if (sequence == 1) {
    known.resent = 0;
    known.resent_contents = 0;
  }
  if (sequence != known.resent + 1) return true;
  known.resent_contents = AddContent(known.resent_contents, sequence, content_hash);
  known.resent = sequence;
  return sequence < cursor.last_sequence || cursor.all_contents == 0 ||
         cursor.all_contents == known.resent_contents;
}

absl::StatusOr<ProducerCursors::Standing> ProducerCursors::CheckRequest(
    const std::string& request_id, std::uint64_t content_hash, std::int64_t time_us) const {
  const auto found = requests_.find(HashId(request_id));
  if (found == requests_.end() || time_us - found->second.time_us > limits_.request_age.count()) {
    return Standing::kNext;
  }
  if (found->second.all_contents == AddContent(0, 1, content_hash)) return Standing::kSettledBefore;
  return MakeError(absl::StatusCode::kAlreadyExists, "REQUEST_ID_REUSED",
                   absl::StrCat("request_id ", Quoted(request_id),
                                " was used before for other content: use a new id for each batch"));
}

absl::StatusOr<ProducerCursors::Standing> ProducerCursors::CheckEnd(
    const ProducerPosition& position, std::int64_t time_us) {
  CALIBD_ASSIGN_OR_RETURN(const Known* const known, Use(position.producer_id, time_us));
  const Cursor& cursor = known->cursor;
  if (position.epoch < cursor.epoch) {
    return FencedError(position.producer_id, position.epoch, cursor.epoch);
  }
  if (known->conflicting) return ReusedError(position);
  if (position.sequence != cursor.last_sequence) {
    return MakeError(
        absl::StatusCode::kAlreadyExists, "SEQUENCE_REUSED",
        absl::StrCat("producer ", Quoted(position.producer_id), " ends after batch ",
                     position.sequence, ", but ", cursor.last_sequence,
                     " batches of it were settled: it was used for other data before"));
  }
  if (!cursor.ended) return Standing::kNext;
  Expire(position.producer_id);
  return Standing::kSettledBefore;
}

void ProducerCursors::Advance(const ProducerPosition& position, std::uint64_t content_hash,
                              std::int64_t time_us) {
  if (position.request) {
    const PredictionId hash = HashId(position.producer_id);
    requests_[hash] = {.last_sequence = 1,
                       .all_contents = AddContent(0, 1, content_hash),
                       .time_us = time_us,
                       .ended = true};
    changed_.insert(KeyOf(kRequestPrefix, hash));
    Trim(requests_, limits_.requests, std::numeric_limits<std::int64_t>::max(), kRequestPrefix);
    return;
  }
  Cursor& cursor = Add(position.producer_id).cursor;
  cursor.last_sequence = position.sequence;
  cursor.all_contents = AddContent(cursor.all_contents, position.sequence, content_hash);
  cursor.content_hashes[Slot(position.sequence)] = content_hash;
  cursor.time_us = time_us;
}

void ProducerCursors::End(const ProducerPosition& position, std::int64_t time_us) {
  Cursor& cursor = Add(position.producer_id).cursor;
  cursor.epoch = std::max(cursor.epoch, position.epoch);
  cursor.last_sequence = std::max(cursor.last_sequence, position.sequence);
  cursor.time_us = std::max(cursor.time_us, time_us);
  cursor.ended = true;
  Expire(position.producer_id);
}

bool ProducerCursors::Replay(const ProducerPosition& position,
                             std::optional<std::uint64_t> content_hash, std::int64_t time_us) {
  if (position.request) {
    if (!requests_.contains(HashId(position.producer_id))) {
      Advance(position, content_hash.value_or(0), time_us);
    }
    return true;
  }
  Cursor& cursor = Add(position.producer_id).cursor;
  cursor.epoch = std::max(cursor.epoch, position.epoch);
  cursor.time_us = std::max(cursor.time_us, time_us);
  if (!content_hash.has_value() || position.sequence <= cursor.last_sequence) return true;
  if (position.sequence != cursor.last_sequence + 1) return false;
  Advance(position, *content_hash, cursor.time_us);
  return true;
}

std::optional<Cursor> ProducerCursors::Get(const std::string& producer_id) const {
  const auto found = cursors_.find(producer_id);
  if (found != cursors_.end()) return found->second.cursor;
  const auto expired = expired_.find(HashId(producer_id));
  if (expired == expired_.end()) return std::nullopt;
  return Cursor{expired->second};
}

void ProducerCursors::Set(const std::string& producer_id, const std::optional<Cursor>& cursor) {
  Add(producer_id) = {.cursor = cursor.value_or(Cursor())};
  if (!cursor.has_value()) cursors_.erase(producer_id);
  size_ = cursors_.size();
}

void ProducerCursors::ForgetRequest(const std::string& request_id) {
  const PredictionId hash = HashId(request_id);
  requests_.erase(hash);
  changed_.insert(KeyOf(kRequestPrefix, hash));
}

absl::StatusOr<ProducerCursors::Known*> ProducerCursors::Use(const std::string& producer_id,
                                                             std::int64_t time_us) {
  const auto found = cursors_.find(producer_id);
  if (found != cursors_.end()) return &found->second;
  CALIBD_RETURN_IF_ERROR(MakeRoom(time_us));
  Known& known = Add(producer_id);
  known.cursor.time_us = time_us;
  return &known;
}

ProducerCursors::Known& ProducerCursors::Add(const std::string& producer_id) {
  changed_.insert(producer_id);
  const auto [place, is_new] = cursors_.try_emplace(producer_id);
  if (is_new) {
    size_ = cursors_.size();
    const auto expired = expired_.find(HashId(producer_id));
    if (expired != expired_.end()) {
      place->second.cursor = Cursor{expired->second};
      changed_.insert(KeyOf(kExpiredPrefix, expired->first));
      expired_.erase(expired);
    }
  }
  return place->second;
}

absl::Status ProducerCursors::MakeRoom(std::int64_t time_us) {
  const std::size_t most = limits_.producers;
  const bool full = cursors_.size() >= most;
  if (time_us >= (full ? next_room_us_ : next_expiry_us_)) {
    const std::size_t count = full ? cursors_.size() - most + 1 + most / kSearchShare : 0;
    for (const std::string& id : FindOldest(cursors_, count, time_us - limits_.idle.count())) {
      if (cursors_.at(id).cursor.time_us <= time_us - kLeastIdle.count()) Expire(id);
    }
    next_expiry_us_ = time_us + limits_.idle.count() / kTimeShare;
    next_room_us_ = cursors_.size() < most ? time_us : time_us + kLeastIdle.count() / kTimeShare;
  }
  if (cursors_.size() < most) return absl::OkStatus();
  return MakeError(
      absl::StatusCode::kResourceExhausted, "TOO_MANY_PRODUCERS",
      absl::StrCat("the model has ", cursors_.size(), " producers, the limit is ", most,
                   " (calibd --max-producers-per-model), and all of them were used within the last "
                   "minute: use the same producer id after a restart, end producers with Finish, "
                   "send with request_id, or raise the limit"));
}

void ProducerCursors::Expire(const std::string& producer_id) {
  const auto found = cursors_.find(producer_id);
  const PredictionId hash = HashId(producer_id);
  expired_[hash] = found->second.cursor;
  changed_.insert(KeyOf(kExpiredPrefix, hash));
  changed_.insert(producer_id);
  cursors_.erase(found);
  size_ = cursors_.size();
}

void ProducerCursors::SetStored(std::int64_t time_us) {
  changed_.clear();
  Trim(expired_, limits_.expired, time_us, kExpiredPrefix);
}

void ProducerCursors::Trim(Expired& entries, std::size_t least, std::int64_t time_us, char prefix) {
  if (entries.size() <= least + least / kSearchShare) return;
  const auto oldest =
      FindOldest(entries, entries.size() - least, std::numeric_limits<std::int64_t>::min());
  for (const PredictionId& hash : oldest) {
    if (entries.at(hash).time_us >= time_us) continue;
    entries.erase(hash);
    changed_.insert(KeyOf(prefix, hash));
  }
}

// ---- The form of the store

std::optional<CursorKey> ParseCursorKey(std::string_view key) {
  if (key.empty()) return std::nullopt;
  if (key.front() != kExpiredPrefix && key.front() != kRequestPrefix) {
    return CursorKey{.kind = CursorKey::Kind::kProducer, .hash = HashId(key)};
  }
  const std::vector<PredictionId> hashes = DecodeIds(key.substr(1));
  if (hashes.size() != 1) return std::nullopt;
  return CursorKey{
      .kind = key.front() == kExpiredPrefix ? CursorKey::Kind::kExpired : CursorKey::Kind::kRequest,
      .hash = hashes.front()};
}

std::optional<ProducerCursors::StoredForm> ProducerCursors::FindStored(
    const std::string& key) const {
  const auto form = [](const auto& cursor) {
    return StoredForm{.epoch = cursor.epoch,
                      .last_sequence = cursor.last_sequence,
                      .contents = EncodeContents(cursor)};
  };
  const CursorKey parsed = *ParseCursorKey(key);
  if (parsed.kind == CursorKey::Kind::kProducer) {
    const auto found = cursors_.find(key);
    if (found == cursors_.end()) return std::nullopt;
    return form(found->second.cursor);
  }
  const Expired& entries = parsed.kind == CursorKey::Kind::kExpired ? expired_ : requests_;
  const auto found = entries.find(parsed.hash);
  if (found == entries.end()) return std::nullopt;
  return form(found->second);
}

bool ProducerCursors::Restore(std::string_view key, const StoredForm& stored) {
  const std::optional<CursorKey> parsed = ParseCursorKey(key);
  Cursor cursor;
  if (!parsed.has_value() || !DecodeContents(stored.contents, cursor)) return false;
  cursor.epoch = stored.epoch;
  cursor.last_sequence = stored.last_sequence;
  if (parsed->kind == CursorKey::Kind::kProducer) {
    cursors_[std::string(key)].cursor = cursor;
    size_ = cursors_.size();
  } else {
    (parsed->kind == CursorKey::Kind::kExpired ? expired_ : requests_)[parsed->hash] = cursor;
  }
  return true;
}

std::string EncodeContents(const ExpiredCursor& cursor) {
  static_assert(std::endian::native == std::endian::little);
  const std::array<std::uint64_t, 3> numbers{
      cursor.all_contents, static_cast<std::uint64_t>(cursor.time_us), cursor.ended ? 1U : 0U};
  return std::string(reinterpret_cast<const char*>(numbers.data()), sizeof(numbers));
}

std::string EncodeContents(const Cursor& cursor) {
  std::string contents(reinterpret_cast<const char*>(cursor.content_hashes.data()),
                       sizeof(cursor.content_hashes));
  return contents + EncodeContents(static_cast<const ExpiredCursor&>(cursor));
}

bool DecodeContents(std::string_view contents, Cursor& cursor) {
  constexpr std::size_t kHashBytes = sizeof(cursor.content_hashes);
  std::array<std::uint64_t, 3> numbers{};
  // Expired producers have only the numbers.
  const bool has_hashes = contents.size() >= kHashBytes;
  const std::string_view rest = contents.substr(has_hashes ? kHashBytes : 0);
  if (rest.size() != sizeof(numbers)) return false;
  if (has_hashes) std::memcpy(cursor.content_hashes.data(), contents.data(), kHashBytes);
  std::memcpy(numbers.data(), rest.data(), rest.size());
  cursor.all_contents = numbers[0];
  cursor.time_us = static_cast<std::int64_t>(numbers[1]);
  cursor.ended = numbers[2] != 0;
  return numbers[2] <= 1 && cursor.time_us >= 0;
}

}  // namespace calibd::server
