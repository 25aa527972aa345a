#include "calibd/core/label_evidence.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numbers>
#include <numeric>
#include <span>
#include <utility>

namespace calibd {
namespace {

constexpr std::size_t kRatios = kLabelOddsRatios.size();
constexpr std::size_t kBinsOfSide = kLabelBins / kLabelSides;
// Products of fixed odds ratios are clamped after this many observations, within which they stay
// finite: each changes them by a factor of at most 3.
constexpr std::int64_t kPeriod = 256;
constexpr double kMostInverse = 1e150;
// The most that an e-value and a Shiryaev-Roberts statistic can be. A supermartingale that is
// capped is still one, by Jensen's inequality.
constexpr double kMostWealth = 1e300;
// The truths that a bin of the histogram is assumed to have besides, half of them as stated.
constexpr double kPriorTruths = 3;

static_assert(kPeriod % kLabelRecordSpacing == 0);

// p in (2^-(j + 1), 2^-j] has the bin j - 1, up to the last one. p: at most 1/2.
std::size_t BinOfSmall(double p) noexcept {
  // The exponent of the largest number below p, without a function call.
  constexpr int kMantissaBits = 52;
  constexpr int kBias = 1023;
  const auto bits = std::bit_cast<std::uint64_t>(p);
  const int exponent = bits == 0 ? 0 : static_cast<int>((bits - 1) >> kMantissaBits);
  return static_cast<std::size_t>(
      std::clamp(kBias - 2 - exponent, 0, static_cast<int>(kBinsOfSide) - 1));
}

std::size_t BinOf(double g) noexcept {
  return g <= 0.5 ? BinOfSmall(g) : kBinsOfSide + BinOfSmall(1 - g);
}

// The mean of the products of one side.
double MeanProduct(const double* inverses) noexcept {
  double sum = 0;
  for (std::size_t j = 0; j < kRatios; ++j) sum += 1 / inverses[j];
  return sum / static_cast<double>(kRatios);
}

double Clamped(double inverse) noexcept {
  return std::clamp(inverse, 1 / kMostInverse, kMostInverse);
}

bool AllPositive(const std::vector<double>& values) {
  return std::ranges::all_of(values,
                             [](double value) { return value > 0 && std::isfinite(value); });
}

// True if the odds ratios can name the bets of a state.
bool AreOddsRatios(std::vector<double> ratios) {
  if (ratios.empty() || !AllPositive(ratios)) return false;
  std::ranges::sort(ratios);
  return std::ranges::adjacent_find(ratios) == ratios.end();
}

double Mean(std::span<const double> values) noexcept {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

// Products or statistics of the present bets on one side of a label, from those of the saved
// ratios; see Restore.
std::array<double, kRatios> OfPresentRatios(std::span<const double> saved_ratios,
                                            std::span<const double> saved) noexcept {
  const double mean = Mean(saved);
  std::array<double, kRatios> present{};
  for (std::size_t j = 0; j < kRatios; ++j) {
    const auto at = static_cast<std::size_t>(std::ranges::find(saved_ratios, kLabelOddsRatios[j]) -
                                             saved_ratios.begin());
    present[j] = at < saved.size() ? saved[at] : mean;
  }
  const double now = Mean(present);
  for (double& value : present) value = now > 0 ? value * (mean / now) : mean;
  return present;
}

// Replaces the bets of a valid state by the present ones.
void AdoptRatios(LabelEvidenceState& state) {
  const std::size_t ratios = state.odds_ratios.size();
  std::vector<double> inverses;
  std::vector<double> shiryaev_roberts;
  for (std::size_t first = 0; first < state.inverses.size(); first += ratios) {
    std::vector<double> products;
    for (std::size_t j = first; j < first + ratios; ++j) products.push_back(1 / state.inverses[j]);
    for (const double product : OfPresentRatios(state.odds_ratios, products)) {
      inverses.push_back(Clamped(1 / product));
    }
    const auto drift = std::span(state.shiryaev_roberts).subspan(first, ratios);
    for (const double value : OfPresentRatios(state.odds_ratios, drift)) {
      shiryaev_roberts.push_back(std::min(value, kMostWealth));
    }
  }
  state.odds_ratios.assign(kLabelOddsRatios.begin(), kLabelOddsRatios.end());
  state.inverses = std::move(inverses);
  state.shiryaev_roberts = std::move(shiryaev_roberts);
}

}  // namespace

LabelEvidence::LabelEvidence(std::size_t label_count, double tolerance, const EvidenceMarks& marks)
    : label_count_(label_count), eps_(tolerance / 2), marks_(marks) {
  state_.odds_ratios.assign(kLabelOddsRatios.begin(), kLabelOddsRatios.end());
  state_.inverses.assign(label_count * kLabelBets, 1.0);
  state_.histogram.assign(label_count, 1.0);
  state_.shiryaev_roberts.assign(label_count * kLabelBets, 0.0);
  state_.bin_count.assign(label_count * kLabelBins, 0);
  state_.bin_held.assign(label_count * kLabelBins, 0);
  state_.bin_stated.assign(label_count * kLabelBins, 0.0);
}

void LabelEvidence::Add(const MultilabelBatch& batch) noexcept {
  const std::size_t rows = batch.size();
  for (std::size_t i = 0; i < rows; ++i) {
    AddRow(&batch.probabilities[i * label_count_], &batch.truths[i * label_count_]);
    ++state_.count;
    if (state_.count % kPeriod == 0) {
      for (double& value : state_.inverses) value = Clamped(value);
    }
    if (state_.count % kLabelRecordSpacing == 0) Record();
  }
}

void LabelEvidence::AddRow(const double* g, const std::int8_t* truths) noexcept {
  for (double& value : state_.shiryaev_roberts) value += 1;
  for (std::size_t k = 0; k < label_count_; ++k) {
    if (truths[k] != kMissingTruth) BetOn(k, g[k], truths[k] == 1);
  }
}

void LabelEvidence::BetOn(std::size_t k, double g, bool holds) noexcept {
  const double upper = std::min(1.0, g + eps_);
  const double lower = std::max(0.0, g - eps_);
  const std::size_t first = k * kLabelBets + (g <= 0.5 ? 0 : kRatios);
  double* const inverses = &state_.inverses[first];
  double* const drift = &state_.shiryaev_roberts[first];
  for (std::size_t j = 0; j < kRatios; ++j) {
    const double ratio = kLabelOddsRatios[j];
    const double mean = 1 + (ratio > 1 ? upper : lower) * (ratio - 1);
    const double inverse = holds ? mean / ratio : mean;
    inverses[j] *= inverse;
    drift[j] = std::min(drift[j] / inverse, kMostWealth);
  }
  const std::size_t bin = k * kLabelBins + BinOf(g);
  const auto n = static_cast<double>(state_.bin_count[bin]);
  const auto held = static_cast<double>(state_.bin_held[bin]);
  const double stated = state_.bin_stated[bin];
  // The sum may exceed n by rounding.
  const double ratio = (held + kPriorTruths) * (std::max(0.0, n - stated) + kPriorTruths) /
                       ((stated + kPriorTruths) * (n - held + kPriorTruths));
  const double mean = 1 + (ratio > 1 ? upper : lower) * (ratio - 1);
  // No constant bounds this ratio.
  state_.histogram[k] = Clamped(state_.histogram[k] * (holds ? mean / ratio : mean));
  ++state_.bin_count[bin];
  state_.bin_held[bin] += holds ? 1 : 0;
  state_.bin_stated[bin] += g;
}

double LabelEvidence::EValue(std::size_t k) const noexcept {
  const double* const inverses = &state_.inverses[k * kLabelBets];
  const double fixed = MeanProduct(inverses) * MeanProduct(inverses + kRatios);
  return std::min(kMostWealth, (fixed + 1 / state_.histogram[k]) / 2);
}

double LabelEvidence::LogEValue() const noexcept {
  double sum = 0;
  for (std::size_t k = 0; k < label_count_; ++k) sum += EValue(k);
  return std::log(sum / static_cast<double>(label_count_));
}

double LabelEvidence::LogDrift() const noexcept {
  double sum = 0;
  for (const double value : state_.shiryaev_roberts) sum += value;
  return std::log1p(sum / static_cast<double>(state_.shiryaev_roberts.size()));
}

void LabelEvidence::Record() noexcept {
  const double log_e_value = LogEValue();
  state_.maximum.Add(log_e_value, state_.count);
  if (state_.evidence_reached_at == 0 && log_e_value >= marks_.log_e) {
    state_.evidence_reached_at = state_.count;
  }
  const double log_drift = LogDrift();
  state_.drift_maximum.Add(log_drift, state_.count);
  if (state_.drift_reached_at == 0 && log_drift >= marks_.log_shiryaev_roberts) {
    state_.drift_reached_at = state_.count;
  }
}

LabelEvidenceReading LabelEvidence::Read() const {
  const double log_e_value = LogEValue();
  const double log_drift = LogDrift();
  LabelEvidenceReading reading{.count = state_.count,
                               .log10_e_value = log_e_value / std::numbers::ln10,
                               .label_log10_e_values = std::vector<double>(label_count_),
                               .maximum = state_.maximum,
                               .log10_drift = log_drift / std::numbers::ln10,
                               .drift_maximum = state_.drift_maximum,
                               .evidence_reached_at = state_.evidence_reached_at,
                               .drift_reached_at = state_.drift_reached_at};
  if (state_.count > 0) {
    reading.maximum.Add(log_e_value, state_.count);
    reading.drift_maximum.Add(log_drift, state_.count);
  }
  for (std::size_t k = 0; k < label_count_; ++k) {
    reading.label_log10_e_values[k] = std::log10(EValue(k));
  }
  return reading;
}

void LabelEvidence::RestartDrift(double log_threshold) noexcept {
  std::ranges::fill(state_.shiryaev_roberts, 0.0);
  state_.drift_maximum = {};
  state_.drift_reached_at = 0;
  marks_.log_shiryaev_roberts = log_threshold;
}

bool LabelEvidence::Restore(const State& state) {
  const std::size_t bins = label_count_ * kLabelBins;
  const std::size_t bets = label_count_ * kLabelSides * state.odds_ratios.size();
  const bool is_valid = state.count >= 0 && AreOddsRatios(state.odds_ratios) &&
                        state.inverses.size() == bets && state.histogram.size() == label_count_ &&
                        state.shiryaev_roberts.size() == bets && state.bin_count.size() == bins &&
                        state.bin_held.size() == bins && state.bin_stated.size() == bins &&
                        AllPositive(state.inverses) && AllPositive(state.histogram) &&
                        std::ranges::all_of(state.shiryaev_roberts, [](double value) {
                          return value >= 0 && std::isfinite(value);
                        });
  if (!is_valid) return false;
  for (std::size_t b = 0; b < bins; ++b) {
    const std::int64_t n = state.bin_count[b];
    // Written so that NaN fails the check too.
    if (n < 0 || n > state.count || state.bin_held[b] < 0 || state.bin_held[b] > n ||
        !(state.bin_stated[b] >= 0 && state.bin_stated[b] <= static_cast<double>(n) + 1)) {
      return false;
    }
  }
  state_ = state;
  if (!std::ranges::equal(state_.odds_ratios, kLabelOddsRatios)) AdoptRatios(state_);
  return true;
}

std::size_t LabelEvidence::MaxMemory(std::size_t label_count) noexcept {
  return sizeof(LabelEvidence) + kRatios * sizeof(double) +
         label_count * ((2 * kLabelBets + 1) * sizeof(double) +
                        kLabelBins * (2 * sizeof(std::int64_t) + sizeof(double)));
}

}  // namespace calibd
