#include "calibd/convert/comparison.h"

#include <string>

#include "calibd/convert/reading.h"

namespace calibd::convert {
namespace {

v1::ScoreDifference ToProto(const ScoreDifference& score, const std::string& name,
                            const std::string& unit = "") {
  v1::ScoreDifference proto;
  proto.set_model(score.model);
  proto.set_baseline(score.baseline);
  proto.set_difference(score.difference);
  proto.set_lower(score.lower);
  proto.set_upper(score.upper);
  proto.set_text(DifferenceText(name, unit, proto));
  return proto;
}

}  // namespace

v1::Comparison ToProto(const Comparison& comparison) {
  v1::Comparison proto;
  *proto.mutable_log_loss() = ToProto(comparison.log_loss, "log loss", "nats");
  *proto.mutable_brier() = ToProto(comparison.brier, "Brier score");
  *proto.mutable_binned_error() = ToProto(comparison.binned_error, "error", "points");
  proto.set_level(kComparisonLevel);
  return proto;
}

v1::Comparison ToProto(const ForecastComparison& comparison) {
  v1::Comparison proto;
  *proto.mutable_crps() = ToProto(comparison.crps, "CRPS");
  if (comparison.log_score.has_value()) {
    *proto.mutable_log_score() = ToProto(*comparison.log_score, "log score", "nats");
  }
  proto.set_level(kComparisonLevel);
  return proto;
}

}  // namespace calibd::convert
