#include "server/state/producer_cursors.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "server/errors.h"

namespace calibd::server {
namespace {

absl::Status FencedError(const std::string& producer_id, std::int64_t epoch,
                         std::int64_t newer_epoch) {
  return MakeError(absl::StatusCode::kAborted, "FENCED",
                   absl::StrCat("producer ", Quoted(producer_id), " with epoch ", epoch,
                                " was fenced by epoch ", newer_epoch));
}

std::size_t Slot(std::int64_t sequence) {
  return static_cast<std::size_t>(sequence) % ProducerCursors::kRememberedContents;
}

}  // namespace

absl::StatusOr<std::int64_t> ProducerCursors::Open(const std::string& producer_id,
                                                   std::int64_t epoch) {
  const auto found = cursors_.find(producer_id);
  if (found == cursors_.end()) {
    if (cursors_.size() >= max_producers_) {
      return MakeError(
          absl::StatusCode::kResourceExhausted, "TOO_MANY_PRODUCERS",
          absl::StrCat("the model has ", cursors_.size(), " producers, the maximum for one"));
    }
    cursors_.emplace(producer_id, Known{.cursor = {.epoch = epoch}, .moved = true});
    return 1;
  }
  Cursor& cursor = found->second.cursor;
  if (epoch < cursor.epoch) return FencedError(producer_id, epoch, cursor.epoch);
  found->second.moved = found->second.moved || epoch > cursor.epoch;
  cursor.epoch = epoch;
  return cursor.last_sequence + 1;
}

absl::StatusOr<ProducerCursors::Standing> ProducerCursors::Check(const ProducerPosition& position,
                                                                 std::uint64_t content_hash) const {
  const Cursor& cursor = cursors_.at(position.producer_id).cursor;
  if (position.epoch < cursor.epoch) {
    return FencedError(position.producer_id, position.epoch, cursor.epoch);
  }
  if (position.sequence > cursor.last_sequence + 1) {
    return MakeError(
        absl::StatusCode::kFailedPrecondition, "SEQUENCE_GAP",
        absl::StrCat("batch ", position.sequence, " of producer ", Quoted(position.producer_id),
                     " came, expected ", cursor.last_sequence + 1));
  }
  if (position.sequence == cursor.last_sequence + 1) return Standing::kNext;
  const bool remembered =
      cursor.last_sequence - position.sequence < static_cast<std::int64_t>(kRememberedContents);
  if (remembered && cursor.content_hashes[Slot(position.sequence)] != content_hash) {
    return MakeError(
        absl::StatusCode::kAlreadyExists, "SEQUENCE_REUSED",
        absl::StrCat("batch ", position.sequence, " of producer ", Quoted(position.producer_id),
                     " was settled before with other content"));
  }
  return Standing::kSettledBefore;
}

std::optional<ProducerCursors::Cursor> ProducerCursors::Get(const std::string& producer_id) const {
  const auto found = cursors_.find(producer_id);
  if (found == cursors_.end()) return std::nullopt;
  return found->second.cursor;
}

bool ProducerCursors::Replay(const ProducerPosition& position,
                             std::optional<std::uint64_t> content_hash) {
  const auto [place, is_new] = cursors_.try_emplace(position.producer_id);
  Known& known = place->second;
  known.moved = known.moved || is_new || position.epoch > known.cursor.epoch;
  known.cursor.epoch = std::max(known.cursor.epoch, position.epoch);
  if (content_hash.has_value() && position.sequence > known.cursor.last_sequence) {
    if (position.sequence != known.cursor.last_sequence + 1) return false;
    Advance(position, *content_hash);
  }
  return true;
}

void ProducerCursors::SetStored() noexcept {
  for (auto& [producer_id, known] : cursors_) known.moved = false;
}

void ProducerCursors::Set(const std::string& producer_id, const std::optional<Cursor>& cursor) {
  if (cursor.has_value()) {
    cursors_[producer_id].cursor = *cursor;
  } else {
    cursors_.erase(producer_id);
  }
}

void ProducerCursors::Advance(const ProducerPosition& position,
                              std::uint64_t content_hash) noexcept {
  const auto found = cursors_.find(position.producer_id);
  if (found != cursors_.end()) {
    found->second.cursor.last_sequence = position.sequence;
    found->second.cursor.content_hashes[Slot(position.sequence)] = content_hash;
    found->second.moved = true;
  }
}

std::string EncodeContents(const ProducerCursors::Cursor& cursor) {
  static_assert(std::endian::native == std::endian::little);
  std::string contents(sizeof(cursor.content_hashes), '\0');
  std::memcpy(contents.data(), cursor.content_hashes.data(), contents.size());
  return contents;
}

bool DecodeContents(std::string_view contents, ProducerCursors::Cursor& cursor) {
  if (contents.size() != sizeof(cursor.content_hashes)) return false;
  std::memcpy(cursor.content_hashes.data(), contents.data(), contents.size());
  return true;
}

}  // namespace calibd::server
