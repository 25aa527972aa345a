#include "server/answers/label_arrivals_proto.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "calibd/core/missing_labels.h"
#include "calibd/core/running_reliability.h"
#include "google/protobuf/util/time_util.h"

namespace calibd::server {
namespace {

constexpr std::size_t kShownClasses = 20;
// Significance level of the test of missing labels. It is small because the test is repeated on
// every request.
constexpr double kMissingLevel = 1e-4;
// Minimum difference between the rate of a class and the overall rate: with very many predictions
// the test finds irrelevant differences.
constexpr double kMissingDifference = 0.01;
// Minimum rate of missing labels that always gives a warning, as in the alert CalibdLabelsMissing.
constexpr double kMissingRate = 0.1;
// Minimum rate of late labels that gives a warning.
constexpr double kLateRate = 0.01;

std::string Percent(double rate) { return absl::StrFormat("%.1f %%", 100 * rate); }

double Rate(std::int64_t part, std::int64_t whole) {
  return static_cast<double>(part) / static_cast<double>(whole);
}

// Leaves the field unset if the denominator is 0.
template <typename Proto>
void SetRate(std::int64_t part, std::int64_t whole, Proto& proto, void (Proto::*set)(double)) {
  if (whole > 0) (proto.*set)(Rate(part, whole));
}

std::string ClassName(const ModelDeclaration& declaration, std::size_t k) {
  return declaration.value_names().empty() ? absl::StrCat(k) : declaration.value_names()[k];
}

void SetRates(const LabelArrivals& arrivals, v1::LabelArrivals& proto) {
  using Proto = v1::LabelArrivals;
  const LabelCounts& by_id = arrivals.labels;
  SetRate(arrivals.pending(), arrivals.predictions, proto, &Proto::set_pending_rate);
  SetRate(arrivals.missing, arrivals.matured, proto, &Proto::set_missing_rate);
  const std::int64_t labels = arrivals.labelled + by_id.late + by_id.conflicting + by_id.unknown;
  SetRate(by_id.late, labels, proto, &Proto::set_late_rate);
  SetRate(by_id.conflicting, labels, proto, &Proto::set_conflicting_rate);
  SetRate(by_id.unknown, labels, proto, &Proto::set_unknown_rate);
}

void DescribeClass(std::size_t k, const ClassArrivals& one,
                   v1::LabelArrivals::PredictedClass& proto) {
  using Proto = v1::LabelArrivals::PredictedClass;
  proto.set_predicted_class(static_cast<std::int32_t>(k));
  proto.set_predictions(one.predictions());
  proto.set_pending(one.pending.all);
  proto.set_pending_labelled(one.pending.labelled);
  proto.set_matured(one.matured);
  proto.set_missing(one.missing);
  proto.set_late(one.late);
  proto.set_conflicting(one.conflicting);
  SetRate(one.pending.all, one.predictions(), proto, &Proto::set_pending_rate);
  SetRate(one.missing, one.matured, proto, &Proto::set_missing_rate);
  const std::int64_t labels = one.labelled() + one.late + one.conflicting;
  SetRate(one.late, labels, proto, &Proto::set_late_rate);
  SetRate(one.conflicting, labels, proto, &Proto::set_conflicting_rate);
}

void DescribeClasses(const std::vector<ClassArrivals>& classes, v1::LabelArrivals& proto) {
  const auto before = [&classes](std::size_t a, std::size_t b) {
    return classes[a].missing != classes[b].missing ? classes[a].missing > classes[b].missing
                                                    : a < b;
  };
  // A heap of the classes to be shown, with the last one in front. There may be 100000 classes, and
  // this runs on a gRPC thread.
  std::vector<std::size_t> shown;
  for (std::size_t k = 0; k < classes.size(); ++k) {
    if (classes[k].predictions() == 0) continue;
    if (shown.size() == kShownClasses) {
      // Of several classes with equal counts, the first ones are shown.
      if (classes[k].missing <= classes[shown.front()].missing) continue;
      std::pop_heap(shown.begin(), shown.end(), before);
      shown.pop_back();
    }
    shown.push_back(k);
    std::push_heap(shown.begin(), shown.end(), before);
  }
  std::sort_heap(shown.begin(), shown.end(), before);
  for (const std::size_t k : shown) DescribeClass(k, classes[k], *proto.add_predicted_classes());
}

void WarnOfMissing(const ModelDeclaration& declaration, const LabelArrivals& arrivals,
                   v1::LabelArrivals& proto) {
  std::vector<LabelledCount> counts;
  counts.reserve(arrivals.classes->size());
  for (const ClassArrivals& one : *arrivals.classes) {
    counts.push_back({.predictions = one.matured, .missing = one.missing});
  }
  const std::optional<double> p_value = MissingLabelsPValue(counts);
  if (!p_value.has_value()) return;
  proto.set_missing_p_value(*p_value);
  if (*p_value >= kMissingLevel) return;
  const double share = Rate(arrivals.missing, arrivals.matured);
  // The difference between the rate of a class and the overall rate; 0 if chance explains it.
  const auto difference = [&](const ClassArrivals& one) {
    const auto matured = static_cast<double>(one.matured);
    const double excess = static_cast<double>(one.missing) - share * matured;
    return StandsOut(excess, matured * share * (1 - share), arrivals.classes->size())
               ? std::abs(excess) / matured
               : 0;
  };
  const auto worst = std::max_element(arrivals.classes->begin(), arrivals.classes->end(),
                                      [&](const ClassArrivals& a, const ClassArrivals& b) {
                                        return difference(a) < difference(b);
                                      });
  if (difference(*worst) < kMissingDifference) return;
  proto.add_warnings(absl::StrCat(
      "labels are missing for ", Percent(Rate(worst->missing, worst->matured)),
      " of the predictions of class ",
      ClassName(declaration, static_cast<std::size_t>(worst - arrivals.classes->begin())), " and ",
      Percent(share),
      " of all predictions: the estimates may be false if the outcome decides whether a label is "
      "missing"));
}

void WarnOfCounts(const LabelArrivals& arrivals, v1::LabelArrivals& proto) {
  const LabelCounts& labels = arrivals.labels;
  if (proto.missing_rate() > kMissingRate) {
    proto.add_warnings(absl::StrCat(
        Percent(proto.missing_rate()), " of the matured predictions have no label (more than ",
        Percent(kMissingRate),
        "): the estimates may be false if the outcome decides whether a label is missing"));
  }
  if (proto.late_rate() >= kLateRate) {
    proto.add_warnings(absl::StrCat(
        Percent(proto.late_rate()),
        " of the labels came too late, after label_grace, and were not used: declare a longer "
        "label_grace"));
  }
  if (labels.conflicting > 0) {
    proto.add_warnings(absl::StrCat(labels.conflicting,
                                    labels.conflicting == 1 ? " label" : " labels",
                                    " contradicted a known label; the first label counts"));
  }
  if (arrivals.duplicate_predictions > 0) {
    proto.add_warnings(
        absl::StrCat(arrivals.duplicate_predictions,
                     arrivals.duplicate_predictions == 1 ? " prediction" : " predictions",
                     " repeated a known id; only the first prediction counts"));
  }
}

}  // namespace

void SetProto(const LabelCounts& counts, v1::LabelCounts& proto) {
  proto.set_matched(counts.matched);
  proto.set_repeated(counts.repeated);
  proto.set_conflicting(counts.conflicting);
  proto.set_late(counts.late);
  proto.set_unknown(counts.unknown);
  proto.set_waiting(counts.waiting);
}

void SetProto(const SkippedRows& skipped, v1::SkippedRows& proto) {
  proto.set_rows(skipped.rows);
  for (const Violation& violation : skipped.violations) {
    rpc::BadRequest::FieldViolation& out = *proto.add_violations();
    out.set_field(PathOf(violation));
    out.set_description(violation.description);
  }
}

void DescribeLabelArrivals(Model& model, const LabelArrivals& arrivals, v1::LabelArrivals& proto) {
  proto.set_predictions(arrivals.predictions);
  proto.set_duplicate_predictions(arrivals.duplicate_predictions);
  proto.set_pending(arrivals.pending());
  proto.set_pending_labelled(arrivals.pending_labelled());
  const std::int64_t oldest_us = model.oldest_pending_time_us();
  if (oldest_us != 0) {
    *proto.mutable_oldest_pending_time() =
        google::protobuf::util::TimeUtil::MicrosecondsToTimestamp(oldest_us);
    *proto.mutable_next_maturation_time() =
        google::protobuf::util::TimeUtil::MicrosecondsToTimestamp(
            oldest_us + model.declaration()->label_grace.count());
  }
  proto.set_matured(arrivals.matured);
  proto.set_missing(arrivals.missing);
  SetProto(arrivals.labels, *proto.mutable_labels());
  SetRates(arrivals, proto);
  if (arrivals.classes->size() > 1) {
    DescribeClasses(*arrivals.classes, proto);
    WarnOfMissing(*model.declaration(), arrivals, proto);
  }
  WarnOfCounts(arrivals, proto);
}

}  // namespace calibd::server
