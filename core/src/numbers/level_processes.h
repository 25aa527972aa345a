#ifndef CALIBD_CORE_SRC_NUMBERS_LEVEL_PROCESSES_H_
#define CALIBD_CORE_SRC_NUMBERS_LEVEL_PROCESSES_H_

#include <cstddef>
#include <span>
#include <vector>

namespace calibd {

// W or 1 + R of the experts of ForecastFamily::kLevels, as ForecastProcess has them: the logarithm
// at the last fold, the growth since, and the share in the mixture and 1 relative to the process at
// the last fold.
struct LevelProcess {
  explicit LevelProcess(std::size_t experts);

  std::vector<double> log;
  std::vector<double> growth;
  std::vector<double> share;
  std::vector<double> floor;

  // The logarithm of the largest share. There are experts.
  [[nodiscard]] double LogLargest() const noexcept;
  // Computes shares relative to `log_unit` and floors from the logarithms. The growths become 1.
  // Returns the sum of the shares.
  double Begin(double log_unit) noexcept;
  // Adds the growths to the logarithms, which become at least `least`.
  void Fold(double least) noexcept;
  [[nodiscard]] double LogOf(std::size_t expert) const noexcept;
};

// All processes of the family. Experts are in the order of ForecastCells::level_wins.
class LevelProcesses {
 public:
  // wins: of the cells, which must outlive this object; empty if outcomes are never tied.
  explicit LevelProcesses(std::span<const double> wins);

  // The sums of share x growth after a row, and bounds of its bets.
  struct Step {
    double e_sum = 0;
    double r1_sum = 0;
    double least_bet = 1;
    double most_bet = 1;
  };
  // Advances by an outcome that is above `above` quantiles, and equals `ties` of them. Cost:
  // O(experts).
  Step Advance(std::size_t above, std::size_t ties) noexcept;

  LevelProcess e;
  LevelProcess r1;

 private:
  std::span<const double> wins_;
  std::size_t levels_;
};

}  // namespace calibd

#endif  // CALIBD_CORE_SRC_NUMBERS_LEVEL_PROCESSES_H_
