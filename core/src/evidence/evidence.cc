#include "calibd/core/evidence.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <numbers>
#include <utility>

#include "absl/strings/str_cat.h"
#include "calibd/core/status_macros.h"
#include "evidence/evidence_chunk.h"
#include "evidence/evidence_layout.h"
#include "evidence/expert_processes.h"
#include "evidence/past_sums.h"
#include "evidence/strip_bets.h"
#include "evidence/witness_simd.h"

namespace calibd {
namespace {

// Below this share of sum |d|^2 the witness is a rounding error and is treated as zero.
constexpr double kNoWitness = 1e-9;

// The logarithm of a mean that is outdated: far below that of any wealth.
constexpr double kOutdated = -1e290;
constexpr std::size_t kMostScratches = kMostChunkRows / kWitnessRows;

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
    evidence.family_share[f] = std::min(1.0, family_priors[f] * std::exp(log_family[f] - log_all));
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
const double* ValueOf(ExpertKind kind, const PartsEvidence& parts) {
  switch (kind) {
    case ExpertKind::kClassMean:
      return &parts.log_class_mean;
    case ExpertKind::kGroupMean:
      return &parts.log_group_mean;
    case ExpertKind::kGroupProduct:
      return &parts.log_group_product;
    default:
      return nullptr;
  }
}

// Continues a state with the experts and priors of this version; see EvidenceProcess::Restore.
void AdoptExperts(const PartsEvidence& parts, EvidenceTotals& state) {
  const ExpertLogs logs = LogsOf(state);
  const double log_e_value = LogSumExp(logs.e, state.priors) + state.log_offset;
  const double log_r1 = std::max(LogSumExp(logs.shiryaev_roberts, state.priors), 0.0);
  std::vector<std::int32_t> ids;
  std::vector<double> log_e;
  for (const Expert& expert : kExperts) {
    const auto saved = std::find(state.expert_ids.begin(), state.expert_ids.end(), expert.id);
    const auto index = static_cast<std::size_t>(saved - state.expert_ids.begin());
    const double* const value = ValueOf(expert.kind, parts);
    const double initial = value != nullptr ? *value : 0;
    log_e.push_back(index < logs.e.size() ? logs.e[index] : initial);
    ids.push_back(expert.id);
  }
  state.expert_ids = std::move(ids);
  state.priors.assign(kPriors.begin(), kPriors.end());
  state.log_e = std::move(log_e);
  state.log_offset = log_e_value - LogSumExp(state.log_e, state.priors);
  state.log_shiryaev_roberts.assign(kExpertCount, log_r1);
  state.e_growth.assign(kExpertCount, 1);
  state.shiryaev_roberts_growth.assign(kExpertCount, 1);
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
  const auto are_growths = [&](const std::vector<double>& values) {
    return values.empty() || are_values(values, std::numeric_limits<double>::min(),
                                        std::numeric_limits<double>::max());
  };
  return !state.expert_ids.empty() &&
         are_values(state.priors, std::numeric_limits<double>::min(), 1) &&
         are_values(state.log_e, -kMost, kMost) &&
         are_values(state.log_shiryaev_roberts, 0, kMost) && are_growths(state.e_growth) &&
         are_growths(state.shiryaev_roberts_growth) && std::abs(state.log_offset) <= kMost;
}

bool IsPending(const EvidenceState& state, std::size_t class_count) {
  const auto rows = static_cast<std::int64_t>(state.pending_labels.size());
  const auto m = static_cast<std::int32_t>(class_count);
  return rows <= state.count && (rows == 0 || ChunkEnd(state.count - rows) > state.count) &&
         state.pending.size() == state.pending_labels.size() * class_count &&
         std::all_of(state.pending.begin(), state.pending.end(),
                     [](double value) { return value >= 0 && value <= 1; }) &&
         std::all_of(state.pending_labels.begin(), state.pending_labels.end(),
                     [m](std::int32_t label) { return label >= 0 && label < m; }) &&
         std::isfinite(state.pending_product);
}

bool Fits(const EvidenceState& state, std::size_t class_count) {
  return state.count >= 0 && AreExperts(state) && IsMaximum(state.maximum, state.count) &&
         IsMaximum(state.impossible_label, state.count) &&
         IsMaximum(state.shiryaev_roberts_maximum, state.count) &&
         std::isfinite(state.square_sum) && state.square_sum >= 0 &&
         state.projections.count == state.count && std::isfinite(state.projections.mean) &&
         std::isfinite(state.projections.m2) && state.projections.m2 >= 0 &&
         std::isfinite(state.projection_variance) && state.projection_variance >= 0 &&
         PastSums::Fits(state.all, class_count) && state.all.weight == 1 &&
         PastSums::Fits(state.recent, class_count) && IsPending(state, class_count);
}

// Sets the size of the arrays of the experts' processes, which are padded while predictions are
// added.
void ResizeProcesses(EvidenceTotals& state, std::size_t size) {
  for (auto* const values : {&state.log_e, &state.log_shiryaev_roberts}) values->resize(size);
  for (auto* const growth : {&state.e_growth, &state.shiryaev_roberts_growth}) {
    growth->resize(size, 1);
  }
}

ExpertProcesses ProcessesOf(EvidenceTotals& state) {
  return {.e = {.log = state.log_e.data(), .growth = state.e_growth.data()},
          .r1 = {.log = state.log_shiryaev_roberts.data(),
                 .growth = state.shiryaev_roberts_growth.data()}};
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

ExpertLogs LogsOf(const EvidenceTotals& state) {
  const auto add = [&](const std::vector<double>& logs, const std::vector<double>& growth) {
    std::vector<double> sums(logs.begin(),
                             logs.begin() + static_cast<std::ptrdiff_t>(state.expert_ids.size()));
    for (std::size_t j = 0; j < sums.size() && !growth.empty(); ++j) sums[j] += std::log(growth[j]);
    return sums;
  };
  return {.e = add(state.log_e, state.e_growth),
          .shiryaev_roberts = add(state.log_shiryaev_roberts, state.shiryaev_roberts_growth)};
}

std::int64_t ChunkEnd(std::int64_t count) noexcept {
  constexpr std::int64_t kRowsPerChunkRow = 16;
  const auto largest = std::clamp<std::int64_t>(count / kRowsPerChunkRow, 1, kMostChunkRows);
  const auto rows = static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(largest)));
  return count - count % rows + rows;
}

// Buffers that are overwritten for every strip.
struct EvidenceProcess::Scratch {
  explicit Scratch(std::size_t class_count)
      : fourier(kFourierCount * kWitnessRows), smoothed(class_count * kStripRows) {
    for (FloatLineVector& values : witness) values.resize((class_count + 1) * kWitnessRows);
  }

  static std::size_t Memory(std::size_t class_count) noexcept {
    return sizeof(Scratch) +
           kWitnessRows * (kFourierCount + kPasts * (class_count + 1)) * sizeof(float) +
           kStripRows * class_count * sizeof(double);
  }

  FloatLineVector fourier;
  OfPasts<FloatLineVector> witness;
  LineVector smoothed;
  std::array<StripBets, kStripsAtOnce> bets;
};

EvidenceProcess::EvidenceProcess(std::shared_ptr<const FourierBasis> basis, double tolerance,
                                 const EvidenceMarks& marks)
    : basis_(std::move(basis)),
      tolerance_(tolerance),
      marks_(marks),
      past_(std::make_unique<PastSums>(basis_->class_count())),
      chunk_(std::make_unique<EvidenceChunk>(basis_->class_count())) {
  scratches_.push_back(std::make_unique<Scratch>(basis_->class_count()));
  for (const Expert& expert : kExperts) state_.expert_ids.push_back(expert.id);
  state_.priors.assign(kPriors.begin(), kPriors.end());
  ResizeProcesses(state_, kPaddedExperts);
}

EvidenceProcess::EvidenceProcess(const EvidenceProcess& other)
    : EvidenceProcess(other.basis_, other.tolerance_, other.marks_) {
  *this = other;
}

EvidenceProcess& EvidenceProcess::operator=(const EvidenceProcess& other) {
  if (this == &other) return *this;
  if (basis_->class_count() != other.basis_->class_count()) {
    scratches_.clear();
    scratches_.push_back(std::make_unique<Scratch>(other.basis_->class_count()));
  }
  basis_ = other.basis_;
  tolerance_ = other.tolerance_;
  state_ = other.state_;
  marks_ = other.marks_;
  evidence_reached_at_ = other.evidence_reached_at_;
  drift_reached_at_ = other.drift_reached_at_;
  log_e_value_ = other.log_e_value_;
  *past_ = *other.past_;
  *chunk_ = *other.chunk_;
  return *this;
}

EvidenceProcess::EvidenceProcess(EvidenceProcess&& other) noexcept = default;
EvidenceProcess& EvidenceProcess::operator=(EvidenceProcess&& other) noexcept = default;
EvidenceProcess::~EvidenceProcess() = default;

absl::StatusOr<EvidenceProcess> EvidenceProcess::Create(std::shared_ptr<const FourierBasis> basis,
                                                        double tolerance,
                                                        const EvidenceMarks& marks) {
  CALIBD_RETURN_IF_ERROR(CheckTolerance(tolerance));
  return EvidenceProcess(std::move(basis), tolerance, marks);
}

void EvidenceProcess::Add(std::span<const double> g, std::int32_t y) noexcept {
  Add(PredictionBatch{g, std::span(&y, 1), g.size()});
}

void EvidenceProcess::AddFirst(const PredictionBatch& ahead, std::size_t rows,
                               const ParallelLoop& parallel) {
  while (parallel && scratches_.size() < kMostScratches) {
    scratches_.push_back(std::make_unique<Scratch>(basis_->class_count()));
  }
  if (rows > 0) log_e_value_.reset();
  for (std::size_t j = 0; rows > 0 && j < kExpertCount; ++j) {
    if (ValueOf(kExperts[j].kind, {}) != nullptr) state_.log_e[j] = kOutdated;
  }
  for (std::size_t first = 0; first < rows;) {
    if (staged_rows_ == 0) Stage(ahead.rows(first, ahead.size() - first), parallel);
    const std::int64_t chunk_end = ChunkEnd(state_.count);
    const std::size_t some = std::min(rows - first, staged_rows_);
    AdvanceStaged(some);
    first += some;
    if (state_.count == chunk_end) CloseChunk(parallel);
  }
}

void EvidenceProcess::Stage(const PredictionBatch& ahead, const ParallelLoop& parallel) {
  const std::size_t first_row = chunk_->rows();
  staged_strip_ = first_row / kStripRows;
  auto most = static_cast<std::size_t>(ChunkEnd(state_.count) - state_.count);
  // One scratch holds the bets of some strips.
  if (!parallel) most = std::min(most, (staged_strip_ + kStripsAtOnce) * kStripRows - first_row);
  const PredictionBatch batch = ahead.rows(0, std::min(ahead.size(), most));
  chunk_->Append(batch);
  ComputeStrips(batch, parallel);
  staged_rows_ = batch.size();
}

void EvidenceProcess::ComputeStrips(const PredictionBatch& batch, const ParallelLoop& parallel) {
  const std::size_t begin = (chunk_->rows() - batch.size()) / kStripRows;
  const std::size_t count =
      (StripCount(chunk_->rows()) - begin + kStripsAtOnce - 1) / kStripsAtOnce;
  RunLoop(parallel, count, [&](std::size_t i) {
    ComputeSome(batch, begin + i * kStripsAtOnce, *scratches_[parallel ? i : 0]);
  });
}

void EvidenceProcess::AdvanceStaged(std::size_t rows) noexcept {
  std::size_t row = chunk_->rows() - staged_rows_;
  staged_rows_ -= rows;
  for (const std::size_t last = row + rows; row < last;) {
    const std::size_t strip = row / kStripRows;
    const std::size_t end = std::min(last, (strip + 1) * kStripRows);
    const std::size_t index = strip - staged_strip_;
    AdvanceStrip(scratches_[index / kStripsAtOnce]->bets[index % kStripsAtOnce], strip, row, end);
    row = end;
  }
}

void EvidenceProcess::ComputeSome(const PredictionBatch& batch, std::size_t strip,
                                  Scratch& scratch) noexcept {
  const std::size_t first_row = chunk_->rows() - batch.size();
  const std::size_t count = std::min(kStripsAtOnce, StripCount(chunk_->rows()) - strip);
  const std::size_t first_needed = std::max(strip * kStripRows, first_row);
  const std::size_t last_needed = std::min((strip + count) * kStripRows, chunk_->rows());
  chunk_->MapFourier(batch.rows(first_needed - first_row, last_needed - first_needed), first_needed,
                     *basis_);
  const std::size_t first = first_needed - strip * kStripRows;
  const std::size_t last = last_needed - strip * kStripRows;
  TransposeFourier(chunk_->fourier() + strip * kStripRows * kFourierCount, first, last,
                   scratch.fourier.data());
  for (std::size_t past = 0; past < kPasts; ++past) {
    ComputeWitness({.lines = past_->lines(),
                    .sums = past_->witness(past),
                    .first = first,
                    .last = last,
                    .fourier = scratch.fourier.data(),
                    .out = scratch.witness[past].data()});
  }
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t begin = (strip + i) * kStripRows;
    const std::size_t at = i * kStripRows;
    ComputeBets({.class_count = basis_->class_count(),
                 .tolerance = tolerance_,
                 .given = chunk_->given(strip + i),
                 .first = std::max(begin, first_row) - begin,
                 .last = std::min(begin + kStripRows, chunk_->rows()) - begin,
                 .labels = chunk_->labels(strip + i),
                 .witness = {&scratch.witness[kAll][at], &scratch.witness[kRecent][at]},
                 .counts = &past_->counts(),
                 .bins = chunk_->bins(strip + i),
                 .smoothed = scratch.smoothed.data()},
                scratch.bets[i]);
  }
}

void EvidenceProcess::AdvanceStrip(const StripBets& bets, std::size_t strip, std::size_t row,
                                   std::size_t last) noexcept {
  const std::size_t begin = strip * kStripRows;
  const ExpertProcesses processes = ProcessesOf(state_);
  const double norm = std::sqrt(past_->norm2());
  while (row < last) {
    const auto until_fold = kStripRows - static_cast<std::size_t>(state_.count) % kStripRows;
    const std::size_t end = std::min(last, row + until_fold);
    ProcessMixtures mixtures;
    AdvanceProcesses(bets, row - begin, end - begin, processes, mixtures);
    double log_e_before = mixtures.log_e_before;
    for (; row < end; ++row) {
      const std::size_t i = row - begin;
      ++state_.count;
      Record(mixtures.log_e[i] + state_.log_offset);
      if (chunk_->given_at_label(row) <= 0) {
        state_.impossible_label.Add(mixtures.log_e[i] - log_e_before, state_.count);
      }
      log_e_before = mixtures.log_e[i];
      state_.shiryaev_roberts_maximum.Add(mixtures.log_r1[i], state_.count);
      if (drift_reached_at_ == 0 && mixtures.log_r1[i] >= marks_.log_shiryaev_roberts) {
        drift_reached_at_ = state_.count;
      }
      double u = 0;
      if (past_->norm2() > kNoWitness * state_.square_sum) {
        u = std::clamp(bets.product[i] / norm, -std::numbers::sqrt2, std::numbers::sqrt2);
        state_.projection_variance += std::max(bets.variance[i], 0.0) / past_->norm2();
      }
      state_.projections.Add(u);
      state_.pending_product += bets.product[i];
      state_.square_sum += bets.square[i];
    }
    if (static_cast<std::size_t>(state_.count) % kStripRows == 0) FoldGrowth(processes);
  }
}

void EvidenceProcess::CloseChunk(const ParallelLoop& parallel) {
  past_->Add(*chunk_, parallel);
  chunk_->Clear();
  state_.pending_product = 0;
}

void EvidenceProcess::Record(double log_e_value) noexcept {
  state_.maximum.Add(log_e_value, state_.count);
  if (evidence_reached_at_ == 0 && log_e_value >= marks_.log_e) evidence_reached_at_ = state_.count;
}

void EvidenceProcess::Consider(const PartsEvidence& parts) noexcept {
  for (std::size_t j = 0; j < kExpertCount; ++j) {
    const double* const value = ValueOf(kExperts[j].kind, parts);
    if (value == nullptr || *value == state_.log_e[j]) continue;
    state_.log_e[j] = *value;
    log_e_value_.reset();
  }
}

void EvidenceProcess::RecordMaximum() noexcept { Record(LogEValue()); }

double EvidenceProcess::LogEValue() noexcept {
  if (!log_e_value_) log_e_value_ = LogMixture(ProcessesOf(state_)) + state_.log_offset;
  return *log_e_value_;
}

double EvidenceProcess::WitnessNorm2() const noexcept {
  return past_->norm2() + 2 * state_.pending_product +
         chunk_->SquareOfSum(chunk_->rows() - staged_rows_);
}

EvidenceReading EvidenceProcess::Read() const {
  EvidenceReading reading;
  reading.count = state_.count;
  const ExpertLogs logs = LogsOf(state_);
  reading.evidence = EvidenceOf(logs.e, state_.log_offset);
  reading.maximum = state_.maximum;
  reading.impossible_label = state_.impossible_label;
  reading.drift = {ToLog10(LogSumExp(logs.shiryaev_roberts, kPriors)),
                   state_.shiryaev_roberts_maximum};
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
  std::fill(state_.shiryaev_roberts_growth.begin(), state_.shiryaev_roberts_growth.end(), 1.0);
  drift_reached_at_ = 0;
  state_.shiryaev_roberts_maximum = {0, state_.count};
}

EvidenceProcess::State EvidenceProcess::Save() const {
  State state{state_, {}, {}, {}, {}};
  past_->Save(state.all, state.recent);
  chunk_->Save(state.pending, state.pending_labels);
  ResizeProcesses(state, kExpertCount);
  return state;
}

absl::Status EvidenceProcess::Restore(State state, const PartsEvidence& parts) {
  const std::size_t class_count = basis_->class_count();
  if (!Fits(state, class_count)) {
    return absl::InvalidArgumentError(
        absl::StrCat("the state is not of experts over ", class_count, " classes"));
  }
  if (!HasExperts(state)) AdoptExperts(parts, state);
  past_->Restore(state.all, state.recent);
  chunk_->Clear();
  const PredictionBatch pending{state.pending, state.pending_labels, class_count};
  chunk_->Append(pending);
  // The sums over the past need the bins of the predictions.
  ComputeStrips(pending, nullptr);
  state_ = std::move(static_cast<EvidenceTotals&>(state));
  ResizeProcesses(state_, kPaddedExperts);
  log_e_value_.reset();
  return absl::OkStatus();
}

std::size_t EvidenceProcess::MaxMemory(std::size_t class_count) noexcept {
  return sizeof(EvidenceProcess) + 4 * kPaddedExperts * sizeof(double) +
         kExpertCount * (sizeof(std::int32_t) + sizeof(double)) + PastSums::Memory(class_count) +
         EvidenceChunk::Memory(class_count) + sizeof(void*) * kMostScratches +
         Scratch::Memory(class_count);
}

std::size_t EvidenceProcess::ParallelMemory(std::size_t class_count) noexcept {
  return (kMostScratches - 1) * Scratch::Memory(class_count);
}

absl::StatusOr<EvidenceReading> CombineDisjoint(std::span<const EvidenceProcess* const> parts) {
  if (parts.empty()) return absl::InvalidArgumentError("no parts, expected one or more");
  const std::size_t class_count = parts.front()->basis().class_count();
  EvidenceReading reading;
  std::vector<double> log_e(kExpertCount);
  std::vector<double> witness(kFourierCount * class_count);
  double square_sum = 0;
  std::vector<double> shiryaev_roberts;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (parts[i]->basis().class_count() != class_count) {
      return absl::InvalidArgumentError(
          absl::StrCat("parts[", i, "] is not of ", class_count, " classes"));
    }
    EvidenceProcess part = *parts[i];
    part.CloseChunk(nullptr);
    const EvidenceTotals& state = part.state_;
    const ExpertLogs logs = LogsOf(state);
    reading.count += state.count;
    for (std::size_t j = 0; j < kExpertCount; ++j) log_e[j] += logs.e[j];
    for (std::size_t k = 0; k < witness.size(); ++k) witness[k] += part.past_->sums()[k];
    square_sum += state.square_sum;
    reading.projections.Merge(state.projections);
    reading.projection_variance += state.projection_variance;
    shiryaev_roberts.push_back(LogSumExp(logs.shiryaev_roberts, kPriors));
  }
  reading.evidence = EvidenceOf(log_e, 0);
  reading.maximum.Add(reading.evidence.log10_e_value * std::numbers::ln10, reading.count);
  const std::vector<double> shares(parts.size(), 1 / static_cast<double>(parts.size()));
  // If all parts are 1, their average must be 1 despite rounding.
  const double log_mean = std::max(LogSumExp(shiryaev_roberts, shares), 0.0);
  reading.drift.log10_now = ToLog10(log_mean);
  reading.drift.maximum.Add(log_mean, reading.count);
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
