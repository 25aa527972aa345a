#include "server/kinds/numbers/coverage_measure.h"

#include <algorithm>
#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "calibd/core/newest_stretch.h"
#include "server/watch/state_fields.h"

namespace calibd::server {
namespace {

// The counts of cells, and of outcomes equal to each quantile, of some observations.
struct OwnCounts {
  std::vector<std::int64_t> cells;
  std::vector<std::int64_t> equal;
};

OwnCounts CountsOf(const ForecastCounts& counts) {
  return {.cells = counts.Cells(), .equal = counts.equal};
}

// The counts since the mark. all: the counts at present.
OwnCounts CountsSince(const CoverageMark& mark, const OwnCounts& all) {
  OwnCounts own = all;
  for (std::size_t c = 0; c < own.cells.size(); ++c) own.cells[c] -= mark.sums.cells[c];
  // Empty unless an outcome before the mark was equal.
  for (std::size_t k = 0; k < mark.sums.equal.size(); ++k) own.equal[k] -= mark.sums.equal[k];
  return own;
}

CoveragePartition::Ends EndsOf(const CoveragePartition& partition, const OwnCounts& own,
                               double alpha) {
  return partition.Interval(own.cells, own.equal, alpha);
}

// So that many groups fit into memory, their stretches have at most 2^20 observations, a mark index
// of 4096: two marks of each power of two of their age from 4 to 4096, and the newest.
constexpr std::int64_t kMostGroupMarkAge = 4096;
constexpr std::size_t kMostGroupMarks = 1 + std::size_t{2} * 11;

struct CheckedMark {
  CoverageMark mark;
  std::int64_t next_check = 0;
};

void MarkFields(StateFields& fields, CheckedMark& checked) {
  using Stored = store::v1::ErrorState::ForecastMark;
  CoverageMark& mark = checked.mark;
  fields(Stored::kFirstObservationFieldNumber, mark.first_observation);
  fields(Stored::kStartTimeUsFieldNumber, mark.start_time);
  fields(Stored::kSumsFieldNumber, mark.sums, ForecastSumsFields);
  fields(Stored::kNextDecisionFieldNumber, checked.next_check);
  mark.index = mark.sums.count / CoverageMeasure::kMarkSpacing;
  fields.Require(
      mark.first_observation >= 1 && mark.index * CoverageMeasure::kMarkSpacing == mark.sums.count,
      "has marks of the coverage that cannot be");
}

// part, whole: counts of cells.
bool IsPartOf(const std::vector<std::int64_t>& part, const std::vector<std::int64_t>& whole) {
  return part.size() == whole.size() &&
         std::equal(part.begin(), part.end(), whole.begin(), std::less_equal<>());
}

ErrorStretch StretchOf(const CoverageStretch& stretch) {
  return {.start = stretch.start,
          .first_observation = stretch.first_observation,
          .start_time = stretch.start_time,
          .observations = stretch.coverage.count,
          .intervals = {IntervalOf(stretch.coverage), std::nullopt}};
}

}  // namespace

std::vector<CentralInterval> CentralOf(const ForecastCells& cells) {
  std::vector<CentralInterval> central;
  for (const std::optional<CentralInterval>& one : CentralIntervalsOf(cells)) {
    if (one.has_value()) central.push_back(*one);
  }
  return central;
}

ErrorInterval IntervalOf(const ForecastCoverage& coverage) noexcept {
  ErrorInterval interval{.estimate = coverage.error.estimate,
                         .lower = coverage.error.lower,
                         .upper = coverage.error.upper};
  if (const CentralCoverage* const widest = coverage.widest(); widest != nullptr) {
    interval.gap = widest->promised - widest->coverage;
    interval.gap_lower = widest->promised - widest->upper;
    interval.gap_upper = widest->promised - widest->lower;
  }
  return interval;
}

std::optional<CoverageStretch> MeasuredCoverage::Recent() const {
  if (!is_model || count == 0) return std::nullopt;
  const CoveragePartition partition(*cells);
  const OwnCounts all = CountsOf(sums.counts);
  const auto lower_end = [&](const OwnCounts& own, std::int64_t n, std::int64_t index) {
    return EndsOf(partition, own, StretchLevels(levels, index).error).lower /
           static_cast<double>(n);
  };
  const CoverageMark* clearest = nullptr;
  double largest = std::max(0.0, lower_end(all, count, 0));
  for (const CoverageMark& mark : *marks) {
    if (mark.sums.count == count) continue;
    const double lower = lower_end(CountsSince(mark, all), count - mark.sums.count, mark.index);
    if (lower <= largest) continue;
    largest = lower;
    clearest = &mark;
  }
  return Since(clearest, StretchLevels(levels, clearest == nullptr ? 0 : clearest->index));
}

CoverageStretch MeasuredCoverage::Since(const CoverageMark* from, const CoverageLevels& own) const {
  CoverageStretch stretch{.first_observation = sums.first_observation,
                          .start_time = sums.start_time,
                          .counts = sums.counts,
                          .coverage = {}};
  if (from != nullptr) {
    ForecastSums since = since_mark;
    since.count = count - from->sums.count;
    OwnCounts own_counts = CountsSince(*from, CountsOf(sums.counts));
    since.cells = std::move(own_counts.cells);
    since.equal = std::move(own_counts.equal);
    for (const CoverageMark& mark : *marks) {
      if (mark.index > from->index) since.MergeScores(mark.sums);
    }
    stretch.start = from->sums.count;
    stretch.first_observation = from->first_observation;
    stretch.start_time = from->start_time;
    stretch.counts = since.ToCounts();
  }
  stretch.coverage = *CoverageOf(*cells, stretch.counts, own);
  return stretch;
}

std::vector<std::int64_t> MeasuredCoverage::StartsAfter(std::int64_t observation) const {
  std::vector<std::int64_t> starts;
  for (const CoverageMark& mark : *marks) {
    const bool is_start = mark.sums.count % kStretchSpacing == 0;
    if (is_start && mark.first_observation > observation) starts.push_back(mark.sums.count);
  }
  return starts;
}

ErrorEnds MeasuredCoverage::EndsBetween(const CoveragePartition& partition, std::int64_t start,
                                        std::int64_t end, double level) const {
  OwnCounts until = CountsOf(sums.counts);
  if (end < count) {
    const ForecastSums& mark = MarkAt(end)->sums;
    until.cells = mark.cells;
    // A mark has none unless an outcome before it was equal.
    const std::size_t quantiles = until.equal.size();
    until.equal = mark.equal;
    until.equal.resize(quantiles);
  }
  const auto n = static_cast<double>(end - start);
  const CoveragePartition::Ends own = EndsOf(partition, CountsSince(*MarkAt(start), until), level);
  return {.lower = own.lower / n, .upper = own.upper / n};
}

std::optional<std::int64_t> MeasuredCoverage::Recovered(const ErrorSnapshot& error) const {
  const CoveragePartition partition(*cells);
  return RecoveredAfterChange(error, [&](std::int64_t observation) {
    return RecoveredSince(StartsAfter(observation), count, error.over_at, error.error_limit,
                          [&](std::int64_t start, double level) {
                            return EndsBetween(partition, start, count, level);
                          });
  });
}

std::optional<std::int64_t> MeasuredCoverage::OverAgainSince(const ErrorSnapshot& error) const {
  const CoveragePartition partition(*cells);
  const auto start = calibd::OverAgainSince(StartsAfter(0), count, error.over_at, error.error_limit,
                                            [&](std::int64_t from, std::int64_t end, double level) {
                                              return EndsBetween(partition, from, end, level);
                                            });
  if (!start.has_value()) return std::nullopt;
  return MarkAt(*start)->first_observation;
}

std::optional<CoverageStretch> MeasuredCoverage::Newest(const ErrorSnapshot& error) const {
  if (error.over) {
    const std::optional<std::int64_t> start = Recovered(error);
    if (start.has_value()) {
      const double level = RecoveryLevel(error.over_at, *start);
      CoverageStretch stretch = Since(MarkAt(*start), {.error = level, .central = level});
      stretch.recovered = true;
      return stretch;
    }
  }
  const std::optional<std::int64_t> start = NewestStart(count);
  if (!is_model || !start.has_value()) return std::nullopt;
  const double level = kSingleErrorLevels.total();
  return Since(MarkAt(*start), {.error = level / 2, .central = level / 2});
}

const CoverageMark* MeasuredCoverage::MarkAt(std::int64_t start) const noexcept {
  const auto mark =
      std::ranges::find(*marks, start / CoverageMeasure::kMarkSpacing, &CoverageMark::index);
  return mark == marks->end() ? nullptr : &*mark;
}

ErrorReading MeasuredCoverage::Read(const ErrorSnapshot& error) const {
  ErrorReading reading;
  if (const auto from_start = SinceStart()) reading.since_start[0] = IntervalOf(*from_start);
  const std::optional<ForecastCoverage> now = Now();
  if (now.has_value()) reading.now[0] = IntervalOf(*now);
  const bool is_over = now.has_value() && now->error.lower > error.limit;
  reading.is_recent = error.over && error.over_recent && !is_over;
  if (const std::optional<CoverageStretch> newest = Newest(error)) {
    reading.newest = StretchOf(*newest);
    reading.recovered = newest->recovered;
  }
  if (error.over || error.acknowledged) {
    reading.status = LimitStatus::kOverLimit;
  } else if (now.has_value() && count >= error.min_observations &&
             now->error.upper <= error.error_limit) {
    reading.status = LimitStatus::kWithinLimit;
  }
  return reading;
}

std::optional<RowsUntilDecided> MeasuredCoverage::Foresee(const ErrorSnapshot& error) const {
  return ForeseeCoverageDecision(*cells, sums.counts, levels, error.error_limit,
                                 error.min_observations);
}

CoverageMeasure::CoverageMeasure(Of of, std::shared_ptr<const ForecastCells> cells, double alpha)
    : cells_(std::move(cells)),
      partition_(*cells_),
      central_(CentralOf(*cells_)),
      // The later stretches of a model need as much as the one since its start.
      levels_{.error = of == Of::kModel ? alpha / 4 : alpha / 2,
              .central = of == Of::kModel ? alpha / 4 : alpha / 2},
      of_(of) {}

void CoverageMeasure::Add(const Row& row, double /*limit*/, Sums& since_start, Sums& sums,
                          std::span<EventDeviations> deviations) {
  if (row.ties > 0) CheckTiedStretches(sums.counts);
  since_start.counts.Add(row);
  sums.counts.Add(row);
  if (has_scores()) since_mark_.AddScores(row);
  for (std::size_t i = 0; i < deviations.size(); ++i) {
    deviations[i].blocks.Add(central_[i].Deviation(row.cell));
  }
}

void CoverageMeasure::CheckTiedStretches(const ForecastCounts& before) {
  const auto is_tied = [&before](const ForecastSums& mark) {
    return mark.equal.empty() ? before.has_ties() : mark.equal != before.equal;
  };
  check_next_ = !before.has_ties();
  // The earlier a stretch begins, the more ties it has.
  for (std::size_t m = next_checks_.size(); m > 0; --m) {
    if (is_tied((*marks_)[m - 1].sums)) break;
    next_checks_[m - 1] = 0;
    check_next_ = true;
  }
}

LimitCheck CoverageMeasure::Check(const Sums& sums, std::int64_t count, double limit,
                                  double error_limit) const {
  // An observation changes t times the estimate by at most 1, and t times the margin never
  // decreases. So t (lower - limit) grows by less than 1, and t (upper - limit) falls by at most 1
  // + limit: until then the answer cannot change.
  const auto n = static_cast<double>(count);
  const CoveragePartition::Ends ends = EndsOf(partition_, CountsOf(sums.counts), levels_.error);
  LimitCheck check;
  check.rows_to_within = (ends.upper - n * error_limit) / (1 + error_limit);
  check.rows_to_over = n * limit - ends.lower;
  if (check.rows_to_over < 0) check.over = 0;
  return check;
}

std::optional<std::size_t> CoverageMeasure::CheckRecent(const Sums& sums, std::int64_t count,
                                                        double limit, std::int64_t& next) {
  const OwnCounts all = CountsOf(sums.counts);
  for (std::size_t m = 0; m < next_checks_.size(); ++m) {
    if (count >= next_checks_[m]) {
      const CoverageMark& mark = (*marks_)[m];
      const auto n = static_cast<double>(count - mark.sums.count);
      const double alpha = StretchLevels(levels_, mark.index).error;
      const double rows = n * limit - EndsOf(partition_, CountsSince(mark, all), alpha).lower;
      if (rows < 0) return 0;
      next_checks_[m] = count + std::max<std::int64_t>(1, static_cast<std::int64_t>(rows));
    }
    next = std::min(next, next_checks_[m]);
  }
  return std::nullopt;
}

std::optional<ErrorInterval> CoverageMeasure::Interval(const Sums& sums,
                                                       std::size_t /*series*/) const {
  const std::optional<ForecastCoverage> coverage = CoverageOf(*cells_, sums.counts, levels_);
  return coverage.has_value() ? std::optional(IntervalOf(*coverage)) : std::nullopt;
}

std::optional<ErrorStretch> CoverageMeasure::Recent(const Sums& sums, std::size_t /*series*/,
                                                    std::int64_t count, double /*limit*/) const {
  const std::optional<CoverageStretch> recent = State(sums, sums, count).Recent();
  return recent.has_value() ? std::optional(StretchOf(*recent)) : std::nullopt;
}

std::optional<ErrorEnds> CoverageMeasure::Ends(const Sums& sums, std::int64_t count, double limit,
                                               bool recent) const {
  const std::optional<ErrorInterval> interval = Interval(sums, 0);
  if (!interval.has_value()) return std::nullopt;
  ErrorEnds ends{.lower = interval->lower, .upper = interval->upper};
  if (recent) {
    if (const auto stretch = Recent(sums, 0, count, limit)) {
      ends.upper = std::max(ends.upper, stretch->intervals[0]->upper);
    }
  }
  return ends;
}

void CoverageMeasure::KeepMark(const Sums& sums, std::int64_t count, std::int64_t observation,
                               bool over, std::int64_t& next) {
  if (std::exchange(check_next_, false)) next = std::min(next, count + 1);
  const bool is_model = of_ == Of::kModel;
  if ((!is_model && !over) || count % (is_model ? kMarkSpacing : kStretchSpacing) != 0) return;
  const std::int64_t newest = count / kMarkSpacing;
  auto marks = std::make_shared<std::vector<CoverageMark>>();
  std::vector<std::int64_t> next_checks;
  // The scores of marks that are not kept.
  ForecastSums scores;
  for (std::size_t m = 0; m < marks_->size(); ++m) {
    const CoverageMark& mark = (*marks_)[m];
    if (KeepsMark(mark.index, newest) && (is_model || newest - mark.index <= kMostGroupMarkAge)) {
      marks->push_back(mark);
      marks->back().sums.MergeScores(std::exchange(scores, {}));
      next_checks.push_back(next_checks_[m]);
    } else {
      scores.MergeScores(mark.sums);
    }
  }
  scores.MergeScores(std::exchange(since_mark_, {}));
  scores.count = count;
  scores.cells = sums.counts.Cells();
  if (sums.counts.has_ties()) scores.equal = sums.counts.equal;
  marks->push_back({.index = newest,
                    .first_observation = observation + 1,
                    .start_time = std::nullopt,
                    .sums = std::move(scores)});
  next_checks.push_back(count + 1);
  if (is_model) next = std::min(next, count + 1);
  marks_ = std::move(marks);
  next_checks_ = std::move(next_checks);
}

void CoverageMeasure::Restart() {
  marks_ = std::make_shared<std::vector<CoverageMark>>();
  next_checks_.clear();
  since_mark_ = {};
}

void CoverageMeasure::LimitChanged(bool /*raised*/) { std::ranges::fill(next_checks_, 0); }

void CoverageMeasure::SetTime(Time time, std::int64_t count) {
  // A mark begins with the observation after it.
  const auto lacks_time = [count](const CoverageMark& mark) {
    return !mark.start_time.has_value() && mark.sums.count < count;
  };
  if (std::ranges::none_of(*marks_, lacks_time)) return;
  auto marks = std::make_shared<std::vector<CoverageMark>>(*marks_);
  for (CoverageMark& mark : *marks) {
    if (lacks_time(mark)) mark.start_time = time;
  }
  marks_ = std::move(marks);
}

MeasuredCoverage CoverageMeasure::State(const Sums& since_start, const Sums& sums,
                                        std::int64_t count) const {
  MeasuredCoverage state;
  state.cells = cells_;
  state.levels = levels_;
  state.since_start = since_start;
  state.sums = sums;
  state.count = count;
  state.is_model = of_ == Of::kModel;
  state.marks = marks_;
  state.since_mark = since_mark_;
  return state;
}

std::shared_ptr<const MeasuredError> CoverageMeasure::Snapshot(const Sums& since_start,
                                                               const Sums& sums,
                                                               std::int64_t count) const {
  return std::make_shared<MeasuredCoverage>(State(since_start, sums, count));
}

void CoverageMeasure::SumsFields(StateFields& fields, Sums& sums) const {
  using Stored = store::v1::ErrorState::Sums;
  fields(Stored::kFirstObservationFieldNumber, sums.first_observation);
  fields(Stored::kStartTimeUsFieldNumber, sums.start_time);
  fields(Stored::kForecastsFieldNumber, sums.counts, CountsFields);
  fields.Require(sums.counts.cell_count() == cells_->cell_count() && sums.counts.IsValid() &&
                     sums.first_observation >= 1,
                 "has sums of the error that cannot be");
}

void CoverageMeasure::Fields(StateFields& fields, const Sums& sums) {
  using Stored = store::v1::ErrorState;
  std::vector<CheckedMark> checked;
  for (std::size_t m = 0; m < next_checks_.size(); ++m) {
    checked.push_back({.mark = (*marks_)[m], .next_check = next_checks_[m]});
  }
  fields.Each(Stored::kForecastMarksFieldNumber, checked, MarkFields);
  const std::int64_t spacing = of_ == Of::kModel ? kMarkSpacing : kStretchSpacing;
  fields.Require(std::ranges::all_of(checked,
                                     [spacing](const CheckedMark& one) {
                                       return one.mark.sums.count % spacing == 0;
                                     }),
                 "has marks of the coverage of a group that cannot be");
  fields.If(has_scores(), Stored::kForecastsSinceMarkFieldNumber, since_mark_, ForecastSumsFields);
  fields.Require(since_mark_.cells.empty(), "has scores of the coverage that cannot be");
  if (!fields.restoring()) return;

  const std::vector<std::int64_t> cells = sums.counts.Cells();
  auto marks = std::make_shared<std::vector<CoverageMark>>();
  next_checks_.clear();
  std::int64_t before = 0;
  for (CheckedMark& one : checked) {
    const std::vector<std::int64_t>& equal = one.mark.sums.equal;
    fields.Require(one.mark.index > before && IsPartOf(one.mark.sums.cells, cells) &&
                       (equal.empty() || IsPartOf(equal, sums.counts.equal)),
                   "has marks of the coverage that cannot be");
    before = one.mark.index;
    marks->push_back(std::move(one.mark));
    next_checks_.push_back(one.next_check);
  }
  marks_ = std::move(marks);
}

std::size_t CoverageMeasure::MaxMemory(Of of, std::size_t cell_count, bool quantiles) noexcept {
  const std::size_t counts =
      (kStratumKinds * kForecastStrata + 1) * cell_count * sizeof(std::int64_t);
  const std::size_t counts_of_mark = (quantiles ? 2 : 1) * cell_count + 1;
  const std::size_t mark = sizeof(CoverageMark) + counts_of_mark * sizeof(std::int64_t);
  return 3 * (sizeof(CoverageWatch) + sizeof(ErrorSnapshot) + 2 * counts) +
         2 * (of == Of::kModel ? kMostMarks : kMostGroupMarks) * mark;
}

}  // namespace calibd::server
