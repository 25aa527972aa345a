#ifndef CALIBD_SERVER_EXECUTOR_FAIR_SHARES_H_
#define CALIBD_SERVER_EXECUTOR_FAIR_SHARES_H_

#include <cstddef>
#include <string>
#include <unordered_map>

namespace calibd::server {

// Divides a fixed number of places among owners. An owner gets one more place as long as it has no
// more than are free: one alone gets about half of the places, and the next one about half of the
// rest. Not thread-safe.
class FairShares {
 public:
  explicit FairShares(std::size_t places) : places_(places) {}

  // Returns false, and takes nothing, if the owner has its share.
  [[nodiscard]] bool Take(const std::string& owner) {
    const std::size_t free = places_ - taken_;
    if (free == 0 || TakenBy(owner) > free) return false;
    ++owners_[owner];
    ++taken_;
    return true;
  }
  // The owner must have a place.
  void Return(const std::string& owner) {
    const auto found = owners_.find(owner);
    if (--found->second == 0) owners_.erase(found);
    --taken_;
  }

  [[nodiscard]] std::size_t TakenBy(const std::string& owner) const {
    const auto found = owners_.find(owner);
    return found == owners_.end() ? 0 : found->second;
  }
  [[nodiscard]] std::size_t places() const noexcept { return places_; }
  [[nodiscard]] std::size_t taken() const noexcept { return taken_; }

 private:
  const std::size_t places_;
  std::size_t taken_ = 0;
  // Contains only owners with places.
  std::unordered_map<std::string, std::size_t> owners_;
};

}  // namespace calibd::server

#endif  // CALIBD_SERVER_EXECUTOR_FAIR_SHARES_H_
