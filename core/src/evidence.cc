#include "calibd/core/evidence.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <utility>

#include "absl/strings/str_cat.h"
#include "calibd/core/status_macros.h"
#include "class_counts.h"
#include "evidence_simd.h"
#include "expert_terms.h"
#include "past_sums.h"

namespace calibd {
namespace {

// Below this share of sum |d|^2 the witness is a rounding error and is treated as zero.
constexpr double kNoWitness = 1e-9;

// The lower edges of bins 1..23 of the log odds, as probabilities.
std::array<double, kBinCount - 1> BinEdges() {
  std::array<double, kBinCount - 1> edges;
  for (std::size_t b = 0; b < edges.size(); ++b) {
    edges[b] = 1 / (1 + std::exp(kBinCount / 2.0 - static_cast<double>(b + 1)));
  }
  return edges;
}

double ToLog10(double log_value) { return log_value / std::numbers::ln10; }

// log sum_j weights_j e^{values_j}. values: not empty; weights: as many, > 0.
double LogSumExp(std::span<const double> values, std::span<const double> weights) {
  const double max = *std::max_element(values.begin(), values.end());
  double sum = 0;
  for (std::size_t j = 0; j < values.size(); ++j) sum += weights[j] * std::exp(values[j] - max);
  return max + std::log(sum);
}

Evidence EvidenceOf(std::span<const double> log_e, double log_offset) {
  Evidence evidence;
  std::array<double, kFamilyCount> log_family{};
  std::array<double, kFamilyCount> family_priors{};
  for (std::size_t f = 0; f < kFamilyCount; ++f) {
    std::vector<double> members;
    std::vector<double> priors;
    for (std::size_t j = 0; j < kExpertCount; ++j) {
      if (FamilyOf(kExperts[j].kind) != static_cast<ExpertFamily>(f)) continue;
      members.push_back(log_e[j]);
      priors.push_back(kPriors[j]);
      family_priors[f] += kPriors[j];
    }
    log_family[f] = LogSumExp(members, priors) - std::log(family_priors[f]);
    evidence.family_log10_e_value[f] = ToLog10(log_family[f]);
  }
  const double log_all = LogSumExp(log_family, family_priors);
  for (std::size_t f = 0; f < kFamilyCount; ++f) {
    evidence.family_share[f] = family_priors[f] * std::exp(log_family[f] - log_all);
  }
  evidence.log10_e_value = ToLog10(log_all + log_offset);
  return evidence;
}

void SetWitnessNorm(const WitnessNorm& sum, EvidenceReading& reading) {
  reading.witness_norm = sum;
  if (sum.count < 2) return;
  const auto n = static_cast<double>(sum.count);
  reading.skce_unbiased = (sum.norm2 - sum.square_sum) / (n * (n - 1));
}

// True if the state has the experts and priors of this version.
bool HasExperts(const EvidenceTotals& state) {
  return std::equal(state.expert_ids.begin(), state.expert_ids.end(), kExperts.begin(),
                    kExperts.end(),
                    [](std::int32_t id, const Expert& expert) { return id == expert.id; }) &&
         std::equal(state.priors.begin(), state.priors.end(), kPriors.begin(), kPriors.end());
}

// Returns the value of a kind that is computed elsewhere, and null for other kinds.
const double* ValueOf(ExpertKind kind, const MeanEvidence& means) {
  if (kind == ExpertKind::kClassMean) return &means.log_classes;
  return kind == ExpertKind::kGroupMean ? &means.log_groups : nullptr;
}

// Continues a state with the experts and priors of this version; see EvidenceProcess::Restore.
void AdoptExperts(const MeanEvidence& means, EvidenceTotals& state) {
  if (HasExperts(state)) return;
  const double log_e_value = LogSumExp(state.log_e, state.priors) + state.log_offset;
  const double log_r1 = std::max(LogSumExp(state.log_shiryaev_roberts, state.priors), 0.0);
  const double log_c1 = std::max(LogSumExp(state.log_cusum, state.priors), 0.0);
  std::vector<std::int32_t> ids;
  std::vector<double> log_e;
  for (const Expert& expert : kExperts) {
    const auto saved = std::find(state.expert_ids.begin(), state.expert_ids.end(), expert.id);
    const auto index = static_cast<std::size_t>(saved - state.expert_ids.begin());
    const double* const mean = ValueOf(expert.kind, means);
    const double initial = mean != nullptr ? *mean : 0;
    log_e.push_back(index < state.log_e.size() ? state.log_e[index] : initial);
    ids.push_back(expert.id);
  }
  state.expert_ids = std::move(ids);
  state.priors.assign(kPriors.begin(), kPriors.end());
  state.log_e = std::move(log_e);
  state.log_offset = log_e_value - LogSumExp(state.log_e, state.priors);
  state.log_shiryaev_roberts.assign(kExpertCount, log_r1);
  state.log_cusum.assign(kExpertCount, log_c1);
}

bool IsMaximum(const RunningMaximum& maximum, std::int64_t count) {
  return std::isfinite(maximum.log_value) && maximum.log_value >= 0 && maximum.at >= 0 &&
         maximum.at <= count;
}

bool AreExperts(const EvidenceTotals& state) {
  // Far above the logarithm of any wealth, and so small that sums of these values are finite.
  constexpr double kMost = 1e300;
  const auto are_values = [&state](const std::vector<double>& values, double least, double most) {
    return values.size() == state.expert_ids.size() &&
           std::all_of(values.begin(), values.end(),
                       [least, most](double v) { return v >= least && v <= most; });
  };
  return !state.expert_ids.empty() &&
         are_values(state.priors, std::numeric_limits<double>::min(), 1) &&
         are_values(state.log_e, -kMost, kMost) &&
         are_values(state.log_shiryaev_roberts, 0, kMost) &&
         are_values(state.log_cusum, 0, kMost) && std::abs(state.log_offset) <= kMost;
}

bool Fits(const EvidenceState& state, std::size_t class_count) {
  return state.count >= 0 && AreExperts(state) && IsMaximum(state.maximum, state.count) &&
         IsMaximum(state.impossible_label, state.count) &&
         IsMaximum(state.shiryaev_roberts_maximum, state.count) &&
         IsMaximum(state.cusum_maximum, state.count) && std::isfinite(state.pair_sum) &&
         std::isfinite(state.square_sum) && state.square_sum >= 0 &&
         state.projections.count == state.count && std::isfinite(state.projections.mean) &&
         std::isfinite(state.projections.m2) && state.projections.m2 >= 0 &&
         std::isfinite(state.projection_variance) && state.projection_variance >= 0 &&
         PastSums::Fits(state.all, class_count) && state.all.weight == 1 &&
         PastSums::Fits(state.recent, class_count);
}

// Sets the size of the arrays of the experts' processes, which are padded while predictions are
// added.
void ResizeProcesses(EvidenceTotals& state, std::size_t size) {
  for (auto* const values : {&state.log_e, &state.log_shiryaev_roberts, &state.log_cusum}) {
    values->resize(size);
  }
}

absl::Status CheckTolerance(double tolerance) {
  if (tolerance >= kMinTolerance && tolerance <= kMaxTolerance) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("tolerance is ", tolerance, ", expected ", kMinTolerance, "..", kMaxTolerance));
}

}  // namespace

double AnytimePValue(const RunningMaximum& e_value) noexcept {
  return std::max(std::exp(-e_value.log_value), std::numeric_limits<double>::min());
}

double DriftThreshold(double average_run_length) noexcept {
  return ToLog10(std::log1p(average_run_length));
}

// Buffers that are overwritten for every prediction.
struct EvidenceProcess::Scratch {
  explicit Scratch(std::size_t class_count)
      : size(Padded(class_count)),
        features(kRowsAtOnce * kFeatureCount),
        residuals(kRowsAtOnce * size),
        all_witness(kRowsAtOnce * size),
        recent_witness(kRowsAtOnce * size),
        p(size),
        log_p(size),
        cells(size),
        bins(size) {
    prediction.p = p.data();
    prediction.log_p = log_p.data();
    prediction.cells = cells.data();
    prediction.bins = bins.data();
    prediction.class_count = class_count;
    prediction.size = size;
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  static std::size_t Memory(std::size_t class_count) noexcept {
    return sizeof(Scratch) + kRowsAtOnce * kFeatureCount * sizeof(double) +
           Padded(class_count) * ((3 * kRowsAtOnce + 2) * sizeof(double) + sizeof(std::int64_t) +
                                  sizeof(std::int32_t));
  }

  std::size_t size;
  std::array<double, kBinCount - 1> edges = BinEdges();
  LineVector features;
  LineVector residuals;
  LineVector all_witness;
  LineVector recent_witness;
  std::array<double, kRowsAtOnce> all_match{};
  std::array<double, kRowsAtOnce> recent_match{};
  LineVector p;
  LineVector log_p;
  std::vector<std::int64_t> cells;
  std::vector<std::int32_t> bins;
  PredictionTerms prediction{};
};

EvidenceProcess::EvidenceProcess(std::shared_ptr<const RandomFeatures> features, double tolerance,
                                 const EvidenceMarks& marks)
    : features_(std::move(features)),
      tolerance_(tolerance),
      marks_(marks),
      all_(std::make_unique<PastSums>(features_->class_count(), 1.0)),
      recent_(std::make_unique<PastSums>(features_->class_count(), 1 - 1 / kMemory)),
      class_counts_(std::make_unique<ClassCounts>(features_->class_count())),
      scratch_(std::make_unique<Scratch>(features_->class_count())) {
  for (const Expert& expert : kExperts) state_.expert_ids.push_back(expert.id);
  state_.priors.assign(kPriors.begin(), kPriors.end());
  ResizeProcesses(state_, kPaddedExperts);
}

EvidenceProcess::EvidenceProcess(const EvidenceProcess& other)
    : EvidenceProcess(other.features_, other.tolerance_, other.marks_) {
  *this = other;
}

EvidenceProcess& EvidenceProcess::operator=(const EvidenceProcess& other) {
  if (this == &other) return *this;
  if (features_->class_count() != other.features_->class_count()) {
    scratch_ = std::make_unique<Scratch>(other.features_->class_count());
  }
  features_ = other.features_;
  tolerance_ = other.tolerance_;
  state_ = other.state_;
  marks_ = other.marks_;
  evidence_reached_at_ = other.evidence_reached_at_;
  drift_reached_at_ = other.drift_reached_at_;
  *all_ = *other.all_;
  *recent_ = *other.recent_;
  *class_counts_ = *other.class_counts_;
  return *this;
}

EvidenceProcess::EvidenceProcess(EvidenceProcess&& other) noexcept = default;
EvidenceProcess& EvidenceProcess::operator=(EvidenceProcess&& other) noexcept = default;
EvidenceProcess::~EvidenceProcess() = default;

absl::StatusOr<EvidenceProcess> EvidenceProcess::Create(
    std::shared_ptr<const RandomFeatures> features, double tolerance, const EvidenceMarks& marks) {
  CALIBD_RETURN_IF_ERROR(CheckTolerance(tolerance));
  return EvidenceProcess(std::move(features), tolerance, marks);
}

void EvidenceProcess::Add(std::span<const double> g, std::int32_t y) noexcept {
  Add(PredictionBatch{g, std::span(&y, 1), g.size()});
}

void EvidenceProcess::Add(const PredictionBatch& batch) noexcept {
  std::size_t first = 0;
  while (first < batch.size()) {
    // Rescaling occurs at the same predictions regardless of how the stream is split into calls.
    const std::int64_t until_rescale = kRescalePeriod - state_.count % kRescalePeriod;
    const std::size_t rows =
        std::min({batch.size() - first, kRowsAtOnce, static_cast<std::size_t>(until_rescale)});
    AddSome(batch.rows(first, rows));
    first += rows;
  }
}

void EvidenceProcess::AddSome(const PredictionBatch& batch) noexcept {
  Scratch& scratch = *scratch_;
  const std::size_t rows = batch.size();
  features_->Map(batch.probabilities, rows, scratch.features);
  for (std::size_t row = 0; row < rows; ++row) {
    const std::span<const double> g = batch.row(row);
    double* const residual = &scratch.residuals[row * scratch.size];
    for (std::size_t k = 0; k < g.size(); ++k) residual[k] = -g[k];
    residual[batch.labels[row]] += 1;
  }
  all_->AdvanceWitness(rows, scratch.features.data(), scratch.residuals.data(),
                       scratch.all_witness.data(), scratch.all_match.data());
  recent_->AdvanceWitness(rows, scratch.features.data(), scratch.residuals.data(),
                          scratch.recent_witness.data(), scratch.recent_match.data());
  for (std::size_t row = 0; row < rows; ++row) AddRow(batch, row);
  if (state_.count % kRescalePeriod == 0) {
    class_counts_->RescaleRecent(1 / recent_->weight());
    recent_->Rescale();
  }
}

void EvidenceProcess::AddRow(const PredictionBatch& batch, std::size_t row) noexcept {
  Scratch& scratch = *scratch_;
  const std::span<const double> g = batch.row(row);
  const auto label = static_cast<std::size_t>(batch.labels[row]);
  double* const all_witness = &scratch.all_witness[row * scratch.size];
  double* const recent_witness = &scratch.recent_witness[row * scratch.size];
  PredictionTerms& prediction = scratch.prediction;
  Smooth(g.data(), tolerance_ / static_cast<double>(g.size()), scratch.edges.data(), prediction);
  const double penalty = std::log1p(std::max(0.0, prediction.total - 1) + tolerance_);
  ++state_.count;

  const PastTerms all = all_->Terms(prediction, all_witness, scratch.all_match[row], label);
  const PastTerms recent =
      recent_->Terms(prediction, recent_witness, scratch.recent_match[row], label);
  const OfPasts<ClassCountTerms> classes =
      class_counts_->Terms(prediction, label, {all_->weight(), recent_->weight()});
  const bool is_impossible = g[label] <= 0;
  const double log_e_before = is_impossible ? LogEValue() : 0;
  const ProcessMixtures mixtures =
      AdvanceProcesses(Bets(prediction, all, classes[kAll], label),
                       Bets(prediction, recent, classes[kRecent], label), penalty,
                       {.log_e = state_.log_e.data(),
                        .log_r1 = state_.log_shiryaev_roberts.data(),
                        .log_c1 = state_.log_cusum.data()});
  Record(mixtures.log_e + state_.log_offset);
  if (is_impossible) {
    state_.impossible_label.Add(mixtures.log_e + state_.log_offset - log_e_before, state_.count);
  }
  state_.shiryaev_roberts_maximum.Add(mixtures.log_r1, state_.count);
  state_.cusum_maximum.Add(mixtures.log_c1, state_.count);
  if (drift_reached_at_ == 0 && mixtures.log_r1 >= marks_.log_shiryaev_roberts) {
    drift_reached_at_ = state_.count;
  }

  const double* const residual = &scratch.residuals[row * scratch.size];
  const Projection projection =
      ProjectResidual(residual, all_witness, all_witness[label], scratch.size);
  const double norm2 = WitnessNorm2();
  double u = 0;
  if (norm2 > kNoWitness * state_.square_sum) {
    u = std::clamp(projection.product / std::sqrt(norm2), -std::numbers::sqrt2,
                   std::numbers::sqrt2);
    state_.projection_variance += std::max(projection.variance, 0.0) / norm2;
  }
  state_.projections.Add(u);
  state_.pair_sum += projection.product;
  state_.square_sum += projection.square;

  all_->AddLabel(prediction, g.data(), label);
  recent_->AddLabel(prediction, g.data(), label);
  class_counts_->Add(prediction, g.data(), label, {all_->weight(), recent_->weight()});
}

void EvidenceProcess::Record(double log_e_value) noexcept {
  state_.maximum.Add(log_e_value, state_.count);
  if (evidence_reached_at_ == 0 && log_e_value >= marks_.log_e) evidence_reached_at_ = state_.count;
}

void EvidenceProcess::Consider(const MeanEvidence& means) noexcept {
  for (std::size_t j = 0; j < kExpertCount; ++j) {
    if (const double* const value = ValueOf(kExperts[j].kind, means)) state_.log_e[j] = *value;
  }
  Record(LogEValue());
}

double EvidenceProcess::LogEValue() const noexcept {
  return LogMixture(state_.log_e.data()) + state_.log_offset;
}

double EvidenceProcess::WitnessNorm2() const noexcept {
  return 2 * state_.pair_sum + state_.square_sum;
}

EvidenceReading EvidenceProcess::Read() const {
  EvidenceReading reading;
  reading.count = state_.count;
  reading.evidence = EvidenceOf(state_.log_e, state_.log_offset);
  reading.maximum = state_.maximum;
  reading.impossible_label = state_.impossible_label;
  reading.drift.shiryaev_roberts = {ToLog10(LogMixture(state_.log_shiryaev_roberts.data())),
                                    state_.shiryaev_roberts_maximum};
  reading.drift.cusum = {ToLog10(LogMixture(state_.log_cusum.data())), state_.cusum_maximum};
  reading.evidence_reached_at = evidence_reached_at_;
  reading.drift_reached_at = drift_reached_at_;
  SetWitnessNorm({.count = state_.count, .norm2 = WitnessNorm2(), .square_sum = state_.square_sum},
                 reading);
  reading.projections = state_.projections;
  reading.projection_variance = state_.projection_variance;
  return reading;
}

void EvidenceProcess::RestartDrift(double log_threshold) noexcept {
  marks_.log_shiryaev_roberts = log_threshold;
  std::fill(state_.log_shiryaev_roberts.begin(), state_.log_shiryaev_roberts.end(), 0.0);
  std::fill(state_.log_cusum.begin(), state_.log_cusum.end(), 0.0);
  drift_reached_at_ = 0;
  state_.shiryaev_roberts_maximum = {0, state_.count};
  state_.cusum_maximum = {0, state_.count};
}

EvidenceProcess::State EvidenceProcess::Save() const {
  State state{state_, all_->Save(), recent_->Save()};
  class_counts_->Save(state.all, state.recent);
  ResizeProcesses(state, kExpertCount);
  return state;
}

absl::Status EvidenceProcess::Restore(State state, const MeanEvidence& means) {
  const std::size_t class_count = features_->class_count();
  if (!Fits(state, class_count)) {
    return absl::InvalidArgumentError(
        absl::StrCat("the state is not of experts over ", class_count, " classes"));
  }
  AdoptExperts(means, state);
  all_->Restore(state.all);
  recent_->Restore(state.recent);
  class_counts_->Restore(state.all, state.recent);
  state_ = std::move(static_cast<EvidenceTotals&>(state));
  ResizeProcesses(state_, kPaddedExperts);
  return absl::OkStatus();
}

std::size_t EvidenceProcess::MaxMemory(std::size_t class_count) noexcept {
  return sizeof(EvidenceProcess) + 3 * kPaddedExperts * sizeof(double) +
         kExpertCount * (sizeof(std::int32_t) + sizeof(double)) +
         2 * PastSums::Memory(class_count) + ClassCounts::Memory(class_count) +
         Scratch::Memory(class_count);
}

absl::StatusOr<EvidenceReading> CombineDisjoint(std::span<const EvidenceState* const> parts) {
  if (parts.empty()) return absl::InvalidArgumentError("no parts, expected one or more");
  const std::size_t class_count = parts.front()->all.label_counts.size();
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (!Fits(*parts[i], class_count) || !HasExperts(*parts[i])) {
      return absl::InvalidArgumentError(absl::StrCat("parts[", i, "] is not of ", kExpertCount,
                                                     " experts over ", class_count, " classes"));
    }
  }
  EvidenceReading reading;
  std::vector<double> log_e(kExpertCount);
  std::vector<double> witness(kFeatureCount * class_count);
  double square_sum = 0;
  std::vector<double> shiryaev_roberts;
  std::vector<double> cusum;
  for (const EvidenceState* const part : parts) {
    reading.count += part->count;
    for (std::size_t j = 0; j < kExpertCount; ++j) log_e[j] += part->log_e[j];
    for (std::size_t i = 0; i < witness.size(); ++i) witness[i] += part->all.witness[i];
    square_sum += part->square_sum;
    reading.projections.Merge(part->projections);
    reading.projection_variance += part->projection_variance;
    shiryaev_roberts.push_back(LogSumExp(part->log_shiryaev_roberts, kPriors));
    cusum.push_back(LogSumExp(part->log_cusum, kPriors));
  }
  reading.evidence = EvidenceOf(log_e, 0);
  reading.maximum.Add(reading.evidence.log10_e_value * std::numbers::ln10, reading.count);
  const std::vector<double> shares(parts.size(), 1 / static_cast<double>(parts.size()));
  const auto average = [&](const std::vector<double>& values) {
    // If all parts are 1, their average must be 1 despite rounding.
    const double log_mean = std::max(LogSumExp(values, shares), 0.0);
    DriftStatistic statistic{.log10_now = ToLog10(log_mean), .maximum = {}};
    statistic.maximum.Add(log_mean, reading.count);
    return statistic;
  };
  reading.drift = {average(shiryaev_roberts), average(cusum)};
  double norm2 = 0;
  for (const double value : witness) norm2 += value * value;
  SetWitnessNorm({.count = reading.count, .norm2 = norm2, .square_sum = square_sum}, reading);
  return reading;
}

double AverageLog10EValue(std::span<const double> log10_e_values) noexcept {
  if (log10_e_values.empty()) return 0;
  const double max = *std::max_element(log10_e_values.begin(), log10_e_values.end());
  double sum = 0;
  for (const double value : log10_e_values) sum += std::pow(10, value - max);
  return max + std::log10(sum / static_cast<double>(log10_e_values.size()));
}

}  // namespace calibd
