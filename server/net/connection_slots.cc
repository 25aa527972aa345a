#include "server/net/connection_slots.h"

#include <utility>

namespace calibd::server {

ConnectionSlots::Slot::~Slot() {
  const std::lock_guard lock(slots_.mutex_);
  slots_.Release(*this);
}

void ConnectionSlots::Slot::SetIdle(bool idle) {
  const std::lock_guard lock(slots_.mutex_);
  if (idle_ == idle) return;
  idle_ = idle;
  if (state_ != State::kRegular) return;
  Peer& peer = slots_.peers_.at(address_);
  if (idle) {
    slots_.EnterIdle(*this, peer);
  } else {
    Leave(*this, peer.idle);
  }
}

bool ConnectionSlots::Slot::restricted() {
  Evicted evicted;
  bool restricted = false;
  {
    const std::lock_guard lock(slots_.mutex_);
    if (state_ == State::kRestricted) static_cast<void>(slots_.TakeRegularSlot(*this, evicted));
    restricted = admits_health_checks_only_;
  }
  if (evicted) evicted();
  return restricted;
}

std::unique_ptr<ConnectionSlots::Slot> ConnectionSlots::Admit(std::string address,
                                                              std::function<void()> close) {
  std::unique_ptr<Slot> slot(new Slot(*this, std::move(address), std::move(close)));
  Evicted evicted;
  bool admitted = false;
  {
    const std::lock_guard lock(mutex_);
    admitted = TakeRegularSlot(*slot, evicted) || TakeRestrictedSlot(*slot, evicted);
  }
  if (evicted) evicted();
  return admitted ? std::move(slot) : nullptr;
}

bool ConnectionSlots::TakeRegularSlot(Slot& slot, Evicted& evicted) {
  const auto own = peers_.find(slot.address_);
  if (own != peers_.end() && own->second.connections >= limits_.per_address) {
    if (own->second.idle.empty() || !Evict(own->second.idle.front(), evicted)) return false;
  } else if (regular_ >= limits_.total && !Evict(LongestIdleOfMostIdle(), evicted)) {
    return false;
  }
  Peer& peer = peers_[slot.address_];
  ++peer.connections;
  ++regular_;
  if (slot.state_ == Slot::State::kRestricted) Leave(slot, restricted_);
  slot.state_ = Slot::State::kRegular;
  slot.admits_health_checks_only_ = false;
  if (slot.idle_) EnterIdle(slot, peer);
  return true;
}

bool ConnectionSlots::TakeRestrictedSlot(Slot& slot, Evicted& evicted) {
  if (restricted_.size() >= limits_.reserve &&
      (restricted_.empty() || !Evict(restricted_.front(), evicted))) {
    return false;
  }
  restricted_.splice(restricted_.end(), slot.place_);
  slot.state_ = Slot::State::kRestricted;
  slot.admits_health_checks_only_ = true;
  return true;
}

bool ConnectionSlots::Evict(Slot* slot, Evicted& evicted) {
  if (slot == nullptr || evicted_ >= limits_.total) return false;
  // This may throw, so it is first.
  evicted = slot->close_;
  Release(*slot);
  slot->state_ = Slot::State::kEvicted;
  ++evicted_;
  return true;
}

ConnectionSlots::Slot* ConnectionSlots::LongestIdleOfMostIdle() {
  const std::list<Slot*>* most = nullptr;
  for (const auto& [address, peer] : peers_) {
    if (most == nullptr || peer.idle.size() > most->size() ||
        (peer.idle.size() == most->size() && !peer.idle.empty() &&
         peer.idle.front()->idle_since_ < most->front()->idle_since_)) {
      most = &peer.idle;
    }
  }
  return most == nullptr || most->empty() ? nullptr : most->front();
}

void ConnectionSlots::Release(Slot& slot) {
  switch (slot.state_) {
    case Slot::State::kNone:
      return;
    case Slot::State::kRestricted:
      Leave(slot, restricted_);
      return;
    case Slot::State::kEvicted:
      --evicted_;
      return;
    case Slot::State::kRegular:
      break;
  }
  const auto peer = peers_.find(slot.address_);
  if (slot.idle_) Leave(slot, peer->second.idle);
  --regular_;
  if (--peer->second.connections == 0) peers_.erase(peer);
}

void ConnectionSlots::Leave(Slot& slot, std::list<Slot*>& list) noexcept {
  slot.place_.splice(slot.place_.end(), list, slot.position_);
}

void ConnectionSlots::EnterIdle(Slot& slot, Peer& peer) noexcept {
  slot.idle_since_ = ++idle_count_;
  peer.idle.splice(peer.idle.end(), slot.place_);
}

}  // namespace calibd::server
