#include "severity.h"

#include <algorithm>

namespace calibd::convert {
namespace {

// The integer part. A model that is not monitored has no verdict.
int RankOf(const v1::Verdict& verdict) {
  if (verdict.limit_status() == v1::CalibrationError::OVER_LIMIT) {
    if (verdict.is_recovered()) return 5;
    return verdict.is_acknowledged() ? 6 : 7;
  }
  switch (verdict.status()) {
    case v1::Verdict::MISCALIBRATED:
      return 4;
    case v1::Verdict::DRIFTED:
      return 3;
    case v1::Verdict::STALE:
      return 2;
    case v1::Verdict::NOT_REJECTED:
      return verdict.limit_status() == v1::CalibrationError::WITHIN_LIMIT ? 0 : 1;
    default:
      return 1;
  }
}

int RankWithReference(const v1::Verdict& verdict) {
  const bool has_changed = verdict.reference_status() == v1::ReferenceChange::CHANGED;
  return std::max(RankOf(verdict), has_changed ? 3 : 0);
}

// The severity of a rank: an error of 1 is not the next one.
double WithError(int rank, const v1::ErrorInterval& interval) {
  constexpr double kLessThanOne = 0.99;
  return rank + kLessThanOne * interval.lower();
}

}  // namespace

double SeverityOf(const v1::GetCalibrationResponse& answer, const v1::ErrorInterval& interval) {
  return WithError(RankWithReference(answer.verdict()), interval);
}

double SeverityOf(const EvaluationVerdict& verdict, const v1::ErrorInterval& interval) {
  if (verdict.limit == v1::CalibrationError::OVER_LIMIT) return WithError(7, interval);
  if (verdict.is_rejected.value_or(false)) return WithError(4, interval);
  return WithError(verdict.limit == v1::CalibrationError::WITHIN_LIMIT ? 0 : 1, interval);
}

}  // namespace calibd::convert
