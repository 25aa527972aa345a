#include "server/rpc/label_coverage_proto.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "calibd/core/missing_labels.h"
#include "server/rpc/proto_time.h"

namespace calibd::server {
namespace {

constexpr std::size_t kShownClasses = 20;
// Of the test of missing labels: a warning that is looked at again and again must be rare.
constexpr double kMissingLevel = 1e-4;
// Of the labels that came, from which on lateness is worth a word.
constexpr double kLateShare = 0.01;

std::string Percent(std::int64_t part, std::int64_t whole) {
  return absl::StrFormat("%.1f %%", 100.0 * static_cast<double>(part) / static_cast<double>(whole));
}

std::string ClassName(const ModelDeclaration& declaration, std::size_t k) {
  return declaration.class_names.empty() ? absl::StrCat(k) : declaration.class_names[k];
}

void DescribeClasses(const std::vector<ClassCoverage>& classes, v1::LabelCoverage& proto) {
  const auto before = [&classes](std::size_t a, std::size_t b) {
    return classes[a].missing != classes[b].missing ? classes[a].missing > classes[b].missing
                                                    : a < b;
  };
  // A heap of those to be shown, the last of them in front: there may be 100000 classes, and
  // this runs on a gRPC thread.
  std::vector<std::size_t> shown;
  for (std::size_t k = 0; k < classes.size(); ++k) {
    if (classes[k].matured == 0) {
      continue;
    }
    if (shown.size() == kShownClasses) {
      // Of those with as many, the first are shown.
      if (classes[k].missing <= classes[shown.front()].missing) {
        continue;
      }
      std::pop_heap(shown.begin(), shown.end(), before);
      shown.pop_back();
    }
    shown.push_back(k);
    std::push_heap(shown.begin(), shown.end(), before);
  }
  std::sort_heap(shown.begin(), shown.end(), before);
  for (const std::size_t k : shown) {
    v1::LabelCoverage::PredictedClass& out = *proto.add_predicted_classes();
    out.set_predicted_class(static_cast<std::int32_t>(k));
    out.set_matured(classes[k].matured);
    out.set_missing(classes[k].missing);
  }
}

void WarnOfMissing(const ModelDeclaration& declaration, const LabelCoverage& coverage,
                   v1::LabelCoverage& proto) {
  std::vector<LabelledCount> counts;
  counts.reserve(coverage.classes->size());
  for (const ClassCoverage& one : *coverage.classes) {
    counts.push_back({.predictions = one.matured, .missing = one.missing});
  }
  const std::optional<double> p_value = MissingLabelsPValue(counts);
  if (!p_value.has_value()) {
    return;
  }
  proto.set_missing_p_value(*p_value);
  if (*p_value >= kMissingLevel) {
    return;
  }
  // The class that misses the most beyond its share.
  const double share =
      static_cast<double>(coverage.missing) / static_cast<double>(coverage.matured);
  const auto excess = [&](const ClassCoverage& one) {
    return static_cast<double>(one.missing) - share * static_cast<double>(one.matured);
  };
  const auto worst = std::max_element(
      coverage.classes->begin(), coverage.classes->end(),
      [&](const ClassCoverage& a, const ClassCoverage& b) { return excess(a) < excess(b); });
  proto.add_warnings(absl::StrCat(
      "labels are missing for ", Percent(worst->missing, worst->matured),
      " of the predictions of class ",
      ClassName(declaration, static_cast<std::size_t>(worst - coverage.classes->begin())), " and ",
      Percent(coverage.missing, coverage.matured),
      " of all: if whether a label comes depends on the label, every estimate here is false"));
}

void WarnOfCounts(const LabelCoverage& coverage, v1::LabelCoverage& proto) {
  const LabelCounts& labels = coverage.labels;
  const std::int64_t timely = labels.matched + labels.late;
  if (labels.late > 0 &&
      static_cast<double>(labels.late) >= kLateShare * static_cast<double>(timely)) {
    proto.add_warnings(absl::StrCat(
        Percent(labels.late, timely),
        " of the labels came after their predictions had matured, and were not used: a longer "
        "label_grace would use them"));
  }
  if (labels.conflicting > 0) {
    proto.add_warnings(absl::StrCat(labels.conflicting,
                                    " labels contradicted one that was known; the first counts"));
  }
  if (coverage.duplicate_predictions > 0) {
    proto.add_warnings(absl::StrCat(coverage.duplicate_predictions,
                                    " predictions came again under a known id; the first counts"));
  }
}

}  // namespace

void SetProto(const LabelCounts& counts, v1::LabelCounts& proto) {
  proto.set_matched(counts.matched);
  proto.set_repeated(counts.repeated);
  proto.set_conflicting(counts.conflicting);
  proto.set_late(counts.late);
  proto.set_unknown(counts.unknown);
}

void DescribeLabelCoverage(Model& model, const LabelCoverage& coverage, v1::LabelCoverage& proto) {
  proto.set_predictions(coverage.predictions);
  proto.set_duplicate_predictions(coverage.duplicate_predictions);
  proto.set_pending(coverage.pending());
  proto.set_pending_labelled(coverage.pending_labelled());
  const std::int64_t oldest_us = model.tracker()->oldest_pending_time_us();
  if (oldest_us != 0) {
    SetProto(ModelSnapshot::Time(std::chrono::microseconds(oldest_us)),
             *proto.mutable_oldest_pending_time());
  }
  proto.set_matured(coverage.matured);
  proto.set_missing(coverage.missing);
  SetProto(coverage.labels, *proto.mutable_labels());
  DescribeClasses(*coverage.classes, proto);
  WarnOfMissing(model.declaration(), coverage, proto);
  WarnOfCounts(coverage, proto);
}

}  // namespace calibd::server
