#include "server/watch/coverage_watch.h"

#include <algorithm>
#include <span>
#include <utility>
#include <vector>

namespace calibd::server {
namespace {

// The counts since the mark. all: the counts at present.
std::vector<std::int64_t> CellsSince(const CoverageMark& mark, std::span<const std::int64_t> all) {
  std::vector<std::int64_t> cells(all.begin(), all.end());
  for (std::size_t c = 0; c < cells.size(); ++c) cells[c] -= mark.sums.cells[c];
  return cells;
}

}  // namespace

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

std::optional<CoverageStretch> CoverageSnapshot::Recent() const {
  if (marks == nullptr || count == 0) return std::nullopt;
  const CoveragePartition partition(*cells);
  const std::vector<std::int64_t> all = sums.counts.Cells();
  const auto lower_end = [&](std::span<const std::int64_t> own, std::int64_t n,
                             std::int64_t index) {
    const double alpha = StretchLevels(levels, index).error;
    return partition.Deviation(own) / static_cast<double>(n) -
           CoverageErrorMargin(static_cast<double>(n), partition.cell_count(), alpha);
  };
  const CoverageMark* clearest = nullptr;
  double largest = std::max(0.0, lower_end(all, count, 0));
  for (const CoverageMark& mark : *marks) {
    if (mark.sums.count == count) continue;
    const double lower = lower_end(CellsSince(mark, all), count - mark.sums.count, mark.index);
    if (lower <= largest) continue;
    largest = lower;
    clearest = &mark;
  }
  CoverageStretch stretch{.first_observation = sums.first_observation,
                          .start_time = sums.start_time,
                          .counts = sums.counts,
                          .coverage = {}};
  if (clearest != nullptr) {
    ForecastSums since = since_mark;
    since.count = count - clearest->sums.count;
    since.cells = CellsSince(*clearest, all);
    for (const CoverageMark& mark : *marks) {
      if (mark.index > clearest->index) since.MergeScores(mark.sums);
    }
    stretch.first_observation = clearest->first_observation;
    stretch.start_time = clearest->start_time;
    stretch.counts = since.ToCounts();
  }
  stretch.coverage = *CoverageOf(*cells, stretch.counts,
                                 StretchLevels(levels, clearest == nullptr ? 0 : clearest->index));
  return stretch;
}

ErrorReading ReadCoverage(const ErrorSnapshot& error) {
  ErrorReading reading;
  const CoverageSnapshot& coverage = *error.coverage;
  if (const auto since_start = coverage.SinceStart()) {
    reading.since_start[0] = IntervalOf(*since_start);
  }
  const std::optional<ForecastCoverage> now = coverage.Now();
  if (now.has_value()) reading.now[0] = IntervalOf(*now);
  const bool is_over = now.has_value() && now->error.lower > error.limit;
  reading.is_recent = error.over && error.over_recent && !is_over;
  if (const std::optional<CoverageStretch> recent = coverage.Recent()) {
    reading.stretch = {.first_observation = recent->first_observation,
                       .start_time = recent->start_time,
                       .observations = recent->coverage.count,
                       .interval = IntervalOf(recent->coverage)};
  }
  if (error.over || error.acknowledged) {
    reading.status = LimitStatus::kOverLimit;
  } else if (now.has_value() && coverage.count >= error.min_observations &&
             now->error.upper <= error.error_limit) {
    reading.status = LimitStatus::kWithinLimit;
  } else if (now.has_value()) {
    const std::optional<double> total = ObservationsUntilCoverageDecided(
        *coverage.cells, coverage.sums.counts, coverage.levels, error.error_limit);
    if (total.has_value()) {
      // At most 10^16.
      const auto needed = std::max(static_cast<std::int64_t>(*total), error.min_observations);
      reading.observations_needed = std::max<std::int64_t>(1, needed - coverage.count);
    }
  }
  return reading;
}

CoverageWatch::CoverageWatch(Of of, std::shared_ptr<const ForecastCells> cells, double alpha,
                             double error_limit, std::int64_t min_observations,
                             std::int64_t first_observation)
    : cells_(std::move(cells)),
      partition_(*cells_),
      // The later stretches of a model need as much as the one since its start.
      levels_{.error = of == Of::kModel ? alpha / 4 : alpha / 2,
              .central = of == Of::kModel ? alpha / 4 : alpha / 2},
      error_limit_(error_limit),
      min_observations_(min_observations),
      since_start_{.first_observation = first_observation,
                   .start_time = std::nullopt,
                   .counts = ForecastCounts(cells_->cell_count())},
      sums_(since_start_) {
  if (of == Of::kModel) marks_ = std::make_shared<std::vector<CoverageMark>>();
}

double CoverageWatch::limit() const noexcept {
  return std::max(error_limit_, acknowledged_limit_.value_or(0));
}

void CoverageWatch::Add(const ForecastRow& row, std::int64_t observation) {
  ++count_;
  since_start_.counts.Add(row);
  sums_.counts.Add(row);
  Decide(observation);
  if (marks_ == nullptr) return;
  since_mark_.AddScores(row);
  if (count_ % kMarkSpacing == 0) KeepMark(observation);
}

void CoverageWatch::Decide(std::int64_t observation) {
  if ((over_ && !over_recent_) || count_ < min_observations_ || count_ < next_decision_) return;
  // An observation changes t times the estimate by at most 1, and t times the margin never
  // decreases. So t (lower - limit) grows by less than 1, and t (upper - limit) falls by at most 1
  // + limit: until then the answer cannot change.
  const std::vector<std::int64_t> cells = sums_.counts.Cells();
  const auto count = static_cast<double>(count_);
  const double deviation = partition_.Deviation(cells);
  const double margin = count * CoverageErrorMargin(count, partition_.cell_count(), levels_.error);
  const double rows_to_within = (deviation + margin - count * error_limit_) / (1 + error_limit_);
  if (acknowledged_limit_.has_value() && rows_to_within <= 0) acknowledged_limit_.reset();
  const double rows_to_over = count * limit() - (deviation - margin);
  if (rows_to_over < 0) {
    over_recent_ = false;
    if (std::exchange(over_, true)) return;
    crossing_ = {.observation = observation,
                 .recent = false,
                 .limit = limit(),
                 .series = 0,
                 .interval = IntervalOf(*CoverageOf(*cells_, sums_.counts, levels_)),
                 .first_observation = sums_.first_observation};
    return;
  }
  const double rows =
      acknowledged_limit_.has_value() ? std::min(rows_to_over, rows_to_within) : rows_to_over;
  next_decision_ = count_ + std::max<std::int64_t>(1, static_cast<std::int64_t>(rows));
  if (!over_) DecideRecent(cells, observation);
}

void CoverageWatch::DecideRecent(std::span<const std::int64_t> cells, std::int64_t observation) {
  for (std::size_t m = 0; m < next_checks_.size(); ++m) {
    if (count_ >= next_checks_[m]) {
      const CoverageMark& mark = (*marks_)[m];
      const auto count = static_cast<double>(count_ - mark.sums.count);
      const double margin = CoverageErrorMargin(count, partition_.cell_count(),
                                                StretchLevels(levels_, mark.index).error);
      const double rows =
          count * (limit() + margin) - partition_.Deviation(CellsSince(mark, cells));
      if (rows < 0) {
        const CoverageStretch recent = *CoverageState().Recent();
        over_ = true;
        over_recent_ = true;
        crossing_ = {.observation = observation,
                     .recent = true,
                     .limit = limit(),
                     .series = 0,
                     .interval = IntervalOf(recent.coverage),
                     .first_observation = recent.first_observation};
        return;
      }
      next_checks_[m] = count_ + std::max<std::int64_t>(1, static_cast<std::int64_t>(rows));
    }
    next_decision_ = std::min(next_decision_, next_checks_[m]);
  }
}

void CoverageWatch::KeepMark(std::int64_t observation) {
  const std::int64_t newest = count_ / kMarkSpacing;
  auto marks = std::make_shared<std::vector<CoverageMark>>();
  std::vector<std::int64_t> next_checks;
  // Of marks that are not kept.
  ForecastSums scores;
  for (std::size_t m = 0; m < marks_->size(); ++m) {
    const CoverageMark& mark = (*marks_)[m];
    if (KeepsMark(mark.index, newest)) {
      marks->push_back(mark);
      marks->back().sums.MergeScores(std::exchange(scores, {}));
      next_checks.push_back(next_checks_[m]);
    } else {
      scores.MergeScores(mark.sums);
    }
  }
  scores.MergeScores(std::exchange(since_mark_, {}));
  scores.count = count_;
  scores.cells = sums_.counts.Cells();
  marks->push_back({.index = newest,
                    .first_observation = observation + 1,
                    .start_time = std::nullopt,
                    .sums = std::move(scores)});
  next_checks.push_back(count_ + 1);
  next_decision_ = std::min(next_decision_, count_ + 1);
  marks_ = std::move(marks);
  next_checks_ = std::move(next_checks);
}

void CoverageWatch::ClearMarks() {
  if (marks_ != nullptr) marks_ = std::make_shared<std::vector<CoverageMark>>();
  next_checks_.clear();
  since_mark_ = {};
}

void CoverageWatch::SetTime(Time time) {
  if (!since_start_.start_time.has_value() &&
      (count_ > 0 || sums_.first_observation != since_start_.first_observation)) {
    since_start_.start_time = time;
  }
  if (!sums_.start_time.has_value() && count_ > 0) sums_.start_time = time;
  // A mark begins with the observation after it.
  const auto lacks_time = [this](const CoverageMark& mark) {
    return !mark.start_time.has_value() && mark.sums.count < count_;
  };
  if (marks_ == nullptr || std::ranges::none_of(*marks_, lacks_time)) return;
  auto marks = std::make_shared<std::vector<CoverageMark>>(*marks_);
  for (CoverageMark& mark : *marks) {
    if (lacks_time(mark)) mark.start_time = time;
  }
  marks_ = std::move(marks);
}

void CoverageWatch::Restart(CoverageWatch empty) {
  empty.over_ = over_;
  empty.over_recent_ = over_recent_;
  empty.acknowledged_limit_ = acknowledged_limit_;
  *this = std::move(empty);
}

void CoverageWatch::SetLimit(double error_limit, std::int64_t observation) {
  error_limit_ = error_limit;
  next_decision_ = 0;
  std::ranges::fill(next_checks_, 0);
  Decide(observation);
}

std::optional<LimitCrossing> CoverageWatch::TakeCrossing() noexcept {
  return std::exchange(crossing_, std::nullopt);
}

void CoverageWatch::Acknowledge(std::int64_t observations) {
  double upper = error_limit_;
  if (const auto coverage = CoverageOf(*cells_, sums_.counts, levels_)) {
    upper = std::max(upper, coverage->error.upper);
  }
  if (over_recent_) {
    if (const auto recent = CoverageState().Recent()) {
      upper = std::max(upper, recent->coverage.error.upper);
    }
  }
  acknowledged_limit_ = upper;
  over_ = false;
  over_recent_ = false;
  sums_ = {.first_observation = observations + 1,
           .start_time = std::nullopt,
           .counts = ForecastCounts(cells_->cell_count())};
  count_ = 0;
  next_decision_ = 0;
  ClearMarks();
}

CoverageSnapshot CoverageWatch::CoverageState() const {
  return {.cells = cells_,
          .levels = levels_,
          .since_start = since_start_,
          .sums = sums_,
          .count = count_,
          .marks = marks_,
          .since_mark = since_mark_};
}

ErrorSnapshot CoverageWatch::Snapshot() const {
  ErrorSnapshot snapshot{
      .budget = {},
      .since_start = {.first_observation = since_start_.first_observation,
                      .start_time = since_start_.start_time},
      .sums = {.first_observation = sums_.first_observation, .start_time = sums_.start_time},
      .limit = limit(),
      .error_limit = error_limit_,
      .acknowledged = acknowledged_limit_.has_value(),
      .over = over_,
      .over_recent = over_recent_,
      .min_observations = min_observations_,
      .marks = std::make_shared<std::vector<ErrorSums>>()};
  snapshot.coverage = std::make_shared<CoverageSnapshot>(CoverageState());
  return snapshot;
}

std::size_t CoverageWatch::MaxMemory(Of of, std::size_t cell_count) noexcept {
  const std::size_t counts = kStratumKinds * kForecastStrata * cell_count * sizeof(std::int64_t);
  const std::size_t mark = sizeof(CoverageMark) + (cell_count + 1) * sizeof(std::int64_t);
  return 3 * (sizeof(CoverageWatch) + sizeof(ErrorSnapshot) + 2 * counts) +
         (of == Of::kModel ? 2 * kMostMarks * mark : 0);
}

}  // namespace calibd::server
