#include "calibd/convert/comparison.h"

namespace calibd::convert {
namespace {

v1::ScoreDifference ToProto(const ScoreDifference& score) {
  v1::ScoreDifference proto;
  proto.set_model(score.model);
  proto.set_baseline(score.baseline);
  proto.set_difference(score.difference);
  proto.set_lower(score.lower);
  proto.set_upper(score.upper);
  return proto;
}

}  // namespace

v1::Comparison ToProto(const Comparison& comparison) {
  v1::Comparison proto;
  *proto.mutable_log_loss() = ToProto(comparison.log_loss);
  *proto.mutable_brier() = ToProto(comparison.brier);
  *proto.mutable_binned_error() = ToProto(comparison.binned_error);
  proto.set_level(kComparisonLevel);
  return proto;
}

}  // namespace calibd::convert
