#include "calibd/core/error_decision.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numbers>
#include <optional>
#include <span>
#include <vector>

#include "scores/binned_ends.h"
#include "scores/continuations.h"

namespace calibd {
namespace {

constexpr std::size_t kErrorBins = kReliabilityBinCount;
constexpr std::size_t kMiddle = kErrorBins / 2;
constexpr std::size_t kSigns = RecentErrorEvidence::kSigns;
constexpr std::size_t kRates = RecentErrorEvidence::kRates;

// A bin without events, or with nothing else, still has some noise.
constexpr double kLeastVariance = .004;
constexpr double kLeastSquaredSpread = 1e-7;

using OfBins = std::array<double, kErrorBins>;
using OfRates = std::array<double, kRates>;

// How the logarithms of the wealths of one sign grow: by `each` at each row, and by `by_bin[b]`
// times the growth of S_b.
struct WealthGrowth {
  OfRates each{};
  std::array<OfRates, kErrorBins> by_bin{};
};

// An event in one continuation.
struct Path {
  // beta_b and S_b.
  OfBins error{};
  OfBins sum{};
  // Logarithms; -infinity for 0.
  std::array<OfRates, kSigns> log_wealth{};
  // Of the third sign, which depends on the errors.
  WealthGrowth by_bin_sign;
  bool recent_is_over = false;
};

// An event of the stream: what the sums at row t say about all continuations.
class Event {
 public:
  Event(const UndecidedEvent& event, const ErrorLevels& levels, double recent_level, double limit)
      : limit_(limit),
        log_gap_(std::log(2 / levels.gap)),
        log_bins_(-std::log(levels.bins)),
        rows_(static_cast<double>(event.sums.Total().count)),
        squares_(event.sums.square_sum / rows_),
        recent_(event.recent) {
    for (std::size_t b = 0; b < kErrorBins; ++b) Describe(event.sums.bins[b], b);
    for (std::size_t b = 0; b < kErrorBins; ++b) {
      if (share_[b] == 0) continue;
      deviation_[b] = sum_[b] / (rows_ * share_[b]) - gap_;
      squared_error_[b] = variance_[b] / (rows_ * share_[b]);
      squared_spread_ += share_[b] * (deviation_[b] * deviation_[b] - squared_error_[b]);
      spread_variance_ += 2 * std::pow(share_[b] * squared_error_[b], 2);
    }
    if (recent_ == nullptr) return;
    log_threshold_ = -std::log(recent_level);
    OfBins sign;
    sign.fill(1);
    growth_[0] = GrowthOf(sign);
    sign.fill(-1);
    growth_[1] = GrowthOf(sign);
  }

  // The errors of the bins in a continuation.
  [[nodiscard]] OfBins DrawErrors(ContinuationNoise& noise) const {
    const double shift = gap_ + std::sqrt(gap_variance_) * noise.Next();
    const double squared_spread =
        std::max(squared_spread_ + std::sqrt(spread_variance_) * noise.Next(), kLeastSquaredSpread);
    OfBins error{};
    for (std::size_t b = 0; b < kErrorBins; ++b) {
      if (share_[b] == 0) continue;
      const double k = squared_spread / (squared_spread + squared_error_[b]);
      const double drawn =
          shift + k * deviation_[b] + std::sqrt(k * squared_error_[b]) * noise.Next();
      error[b] = std::clamp(drawn, stated_[b] - 1, stated_[b]);
    }
    return error;
  }
  [[nodiscard]] Path Begin(const OfBins& error) const {
    Path path;
    path.error = error;
    path.sum = sum_;
    if (recent_ == nullptr) return path;
    for (std::size_t s = 0; s < kSigns; ++s) {
      for (std::size_t j = 0; j < kRates; ++j) {
        path.log_wealth[s][j] = std::log(recent_->wealth[s][j]);
      }
    }
    path.by_bin_sign = GrowthOf(MeanSigns(error));
    return path;
  }

  // Prepares a step for all continuations.
  void Begin(const ContinuationStep& step) {
    scale_ = step.rows;
    const double squares = squares_ * step.rows;
    gap_width_ = MixtureBoundary(squares, log_gap_);
    for (std::size_t k = 1; k <= visited_; ++k) {
      boundaries_[k] =
          MixtureBoundary(squares, log_bins_ + static_cast<double>(k) * std::numbers::ln2);
    }
    if (recent_ == nullptr) return;
    // The sum of 1 / (k log(k)^2) over the new starts, by its integral.
    const double start = static_cast<double>(recent_->count) + step.rows - rows_ + 2;
    log_starts_ = std::log((1 / std::log(start - step.added) - 1 / std::log(start)) /
                           RecentErrorEvidence::kStartsNorm);
  }

  // The growth of the sum of a bin in a step.
  [[nodiscard]] double Draw(const OfBins& error, std::size_t b, double added,
                            ContinuationNoise& noise) const {
    if (share_[b] == 0) return 0;
    const double rows = added * share_[b];
    return error[b] * rows + std::sqrt(variance_[b] * rows) * noise.Next();
  }
  void Add(const OfBins& growth, double added, Path& path) const {
    for (std::size_t b = 0; b < kErrorBins; ++b) path.sum[b] += growth[b];
    if (recent_ == nullptr || path.recent_is_over) return;
    double largest = -std::numeric_limits<double>::infinity();
    for (std::size_t s = 0; s < kSigns; ++s) {
      const WealthGrowth& of_sign = s + 1 < kSigns ? growth_[s] : path.by_bin_sign;
      OfRates by_rate{};
      for (std::size_t b = 0; b < kErrorBins; ++b) {
        if (share_[b] == 0) continue;
        for (std::size_t j = 0; j < kRates; ++j) by_rate[j] += growth[b] * of_sign.by_bin[b][j];
      }
      OfRates& wealth = path.log_wealth[s];
      for (std::size_t j = 0; j < kRates; ++j) {
        // The sum of both, to within a factor of 2.
        wealth[j] = std::max(wealth[j], log_starts_) + added * of_sign.each[j] + by_rate[j];
        largest = std::max(largest, wealth[j]);
      }
    }
    // The e-value is a weighted mean of the wealths.
    if (largest < log_threshold_) return;
    path.recent_is_over = LogEvidence(path) >= log_threshold_;
  }

  // After Add.
  [[nodiscard]] bool IsOver(const Path& path) const {
    if (path.recent_is_over) return true;
    const double limit = limit_ * scale_;
    double signed_sum = 0;
    double absolute_sum = 0;
    for (const double sum : path.sum) {
      signed_sum += sum;
      absolute_sum += std::abs(sum);
    }
    if (std::abs(signed_sum) - gap_width_ > limit) return true;
    // No set of bins has a larger sum, or a smaller boundary.
    if (absolute_sum - boundaries_[1] <= limit) return false;
    std::array<VisitedBin, kErrorBins> bins;
    return LowerSum(Visited(path, bins), boundaries_) > limit;
  }
  [[nodiscard]] bool IsWithin(const Path& path) const {
    const double limit = limit_ * scale_;
    double absolute_sum = 0;
    for (const double sum : path.sum) absolute_sum += std::abs(sum);
    // Of a set of bins, the others are bounded by more than their sums.
    if (absolute_sum + boundaries_[1] > limit) return false;
    std::array<VisitedBin, kErrorBins> bins;
    return UpperSum(Visited(path, bins), boundaries_) <= limit;
  }
  [[nodiscard]] double share(std::size_t b) const { return share_[b]; }

 private:
  void Describe(const ReliabilitySums::Bin& bin, std::size_t b) {
    if (bin.count == 0) return;
    ++visited_;
    const auto n = static_cast<double>(bin.count);
    const double stated = bin.confidence / n;
    const double frequency = (static_cast<double>(bin.correct) + stated) / (n + 1);
    share_[b] = n / rows_;
    stated_[b] = std::min(stated, 1.0);
    sum_[b] = bin.confidence - static_cast<double>(bin.correct);
    variance_[b] = std::max(frequency * (1 - frequency), kLeastVariance);
    gap_ += sum_[b] / rows_;
    gap_variance_ += n * variance_[b] / (rows_ * rows_);
  }
  // tanh(D_b / sqrt(Q_b + 1)) for the means of D_b and Q_b in the long run.
  [[nodiscard]] OfBins MeanSigns(const OfBins& error) const {
    OfBins signs{};
    for (std::size_t b = 0; b < kErrorBins; ++b) {
      const double rows = share_[b] / (1 - RecentErrorEvidence::kDecay);
      const double c = stated_[b];
      const double frequency = c - error[b];
      const double square = frequency * (1 - c) * (1 - c) + (1 - frequency) * c * c;
      signs[b] = std::tanh(rows * error[b] / std::sqrt(rows * square + 1));
    }
    return signs;
  }
  // A bin with h rows whose S_b grows by s has c h - s rows with the event.
  [[nodiscard]] WealthGrowth GrowthOf(const OfBins& sign) const {
    WealthGrowth growth;
    for (std::size_t j = 0; j < kRates; ++j) {
      const double rate = RecentErrorEvidence::kKappa[j];
      growth.each[j] = -rate * limit_;
      for (std::size_t b = 0; b < kErrorBins; ++b) {
        if (share_[b] == 0) continue;
        const double c = stated_[b];
        const double with_event = std::log1p(rate * sign[b] * (c - 1));
        const double without = std::log1p(rate * sign[b] * c);
        growth.each[j] += share_[b] * (c * with_event + (1 - c) * without);
        growth.by_bin[b][j] = without - with_event;
      }
    }
    return growth;
  }
  [[nodiscard]] static double LogEvidence(const Path& path) {
    double sum = 0;
    for (std::size_t s = 0; s < kSigns; ++s) {
      for (const double wealth : path.log_wealth[s]) {
        sum += RecentErrorEvidence::kSignWeights[s] / kRates * std::exp(std::min(wealth, 700.0));
      }
    }
    return std::log(sum);
  }
  [[nodiscard]] std::span<VisitedBin> Visited(const Path& path,
                                              std::array<VisitedBin, kErrorBins>& bins) const {
    std::size_t visited = 0;
    for (std::size_t b = 0; b < kErrorBins; ++b) {
      if (share_[b] == 0) continue;
      const double cap = std::max(stated_[b], 1 - stated_[b]) * share_[b] * scale_;
      bins[visited++] = {.deviation = std::abs(path.sum[b]), .cap = cap};
    }
    return {bins.data(), visited};
  }

  double limit_;
  double log_gap_;
  double log_bins_;
  double log_threshold_ = 0;
  // t, and V / t.
  double rows_;
  double squares_;
  const RecentErrorEvidence::State* recent_;
  std::size_t visited_ = 0;
  // n_b / t, 0 for bins that were never visited; the mean stated probability; v_b; S_b; d_b; e_b.
  OfBins share_{};
  OfBins stated_{};
  OfBins variance_{};
  OfBins sum_{};
  OfBins deviation_{};
  OfBins squared_error_{};
  double gap_ = 0;
  double gap_variance_ = 0;
  double squared_spread_ = 0;
  double spread_variance_ = 0;
  // Of the signs +1 and -1.
  std::array<WealthGrowth, 2> growth_;
  // Of the step.
  double scale_ = 0;
  double gap_width_ = 0;
  std::array<double, kErrorBins + 1> boundaries_{};
  double log_starts_ = 0;
};

// The bin of the top label that has the rows of a bin of class 1, and the sign of their deviations
// in it. The rows of the middle bin have both signs.
std::size_t TopBin(std::size_t b) { return std::max(b, kErrorBins - 1 - b); }
double TopSign(std::size_t b) { return b > kMiddle ? 1 : -1; }

// The sums over the bins of the top label, but for the middle one, from those of class 1.
OfBins TopLabelSums(const OfBins& of_class_1) {
  OfBins sums{};
  for (std::size_t b = 0; b < kErrorBins; ++b) {
    if (b != kMiddle) sums[TopBin(b)] += TopSign(b) * of_class_1[b];
  }
  return sums;
}

// The errors of the top label if those of class 1 are `of_class_1`. middle: that of the middle bin.
OfBins TopLabelErrors(const Event& top, const Event& class_1, const OfBins& of_class_1,
                      double middle) {
  OfBins sums;
  for (std::size_t b = 0; b < kErrorBins; ++b) sums[b] = of_class_1[b] * class_1.share(b);
  OfBins errors = TopLabelSums(sums);
  for (std::size_t b = 0; b < kErrorBins; ++b) {
    if (top.share(b) > 0) errors[b] /= top.share(b);
  }
  errors[kMiddle] = middle;
  return errors;
}

}  // namespace

std::optional<RowsUntilDecided> ForeseeErrorDecision(std::span<const UndecidedEvent> undecided,
                                                     const ErrorLevels& levels, double recent_level,
                                                     double limit, std::int64_t least_rows) {
  const std::int64_t count = undecided[0].sums.Total().count;
  if (count < kLeastRowsToForesee) return std::nullopt;
  std::vector<Event> events;
  for (const UndecidedEvent& event : undecided) {
    events.emplace_back(event, levels, recent_level, limit);
  }
  // The event whose rows are drawn: class 1 of two classes.
  const std::size_t drawn = events.size() - 1;

  struct Continuation {
    ContinuationNoise noise;
    std::vector<Path> paths;
  };
  std::vector<Continuation> continuations;
  for (std::size_t i = 0; i < kContinuations; ++i) {
    Continuation& one = continuations.emplace_back(Continuation{ContinuationNoise(i), {}});
    const OfBins errors = events[drawn].DrawErrors(one.noise);
    if (drawn > 0) {
      const double middle = events[0].DrawErrors(one.noise)[kMiddle];
      one.paths.push_back(
          events[0].Begin(TopLabelErrors(events[0], events[drawn], errors, middle)));
    }
    one.paths.push_back(events[drawn].Begin(errors));
  }
  const auto begin = [&](const ContinuationStep& step) {
    for (Event& event : events) event.Begin(step);
  };
  const auto advance = [&](std::size_t i, const ContinuationStep& step) {
    auto& [noise, paths] = continuations[i];
    OfBins growth{};
    for (std::size_t b = 0; b < kErrorBins; ++b) {
      growth[b] = events[drawn].Draw(paths[drawn].error, b, step.added, noise);
    }
    events[drawn].Add(growth, step.added, paths[drawn]);
    if (drawn > 0) {
      OfBins top = TopLabelSums(growth);
      top[kMiddle] = events[0].Draw(paths[0].error, kMiddle, step.added, noise);
      events[0].Add(top, step.added, paths[0]);
    }
    bool is_over = false;
    bool is_within = true;
    for (std::size_t e = 0; e < events.size(); ++e) {
      is_over = is_over || events[e].IsOver(paths[e]);
      is_within = is_within && events[e].IsWithin(paths[e]);
    }
    return is_over || is_within;
  };
  return RangeOfDecisions(count, least_rows, begin, advance);
}

}  // namespace calibd
