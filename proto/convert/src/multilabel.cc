#include "calibd/convert/multilabel.h"

#include <cstddef>

#include "calibd/convert/text.h"

namespace calibd::convert {
namespace {

void SetInterval(const ErrorInterval& interval, v1::ErrorInterval& proto) {
  proto.set_estimate(interval.estimate);
  proto.set_lower(interval.lower);
  proto.set_upper(interval.upper);
  proto.set_gap(interval.gap);
  proto.set_gap_lower(interval.gap_lower);
  proto.set_gap_upper(interval.gap_upper);
}

}  // namespace

v1::MultilabelCalibration ToProto(const LabelReport& report, const LabelReportOptions& options,
                                  std::span<const std::string> names) {
  v1::MultilabelCalibration proto;
  proto.set_rows(report.rows);
  proto.set_truths(report.truths);
  proto.set_brier(report.brier);
  if (report.error.has_value()) {
    SetInterval(*report.error, *proto.mutable_error());
    proto.set_status(StatusAgainst(options.error_limit, report.error->lower, report.error->upper));
  }
  proto.set_error_limit(options.error_limit);
  proto.set_log10_e_value(report.log10_e_value);
  proto.set_significance_level(options.significance_level);
  for (const LabelResult& label : report.labels) {
    v1::LabelCalibration& out = *proto.add_labels();
    out.set_name(names[label.index]);
    out.set_truths(label.truths);
    out.set_stated(label.stated);
    out.set_held(label.held);
    if (label.error.has_value()) {
      SetInterval(*label.error, *out.mutable_error());
      out.set_status(StatusAgainst(options.error_limit, label.error->lower, label.error->upper));
    }
    out.set_log10_e_value(label.log10_e_value);
    out.set_rejected(label.rejected);
  }
  for (const std::size_t k : report.OverLimit()) proto.add_over_limit(names[k]);
  for (const std::size_t k : report.Rejected()) proto.add_rejected(names[k]);
  return proto;
}

}  // namespace calibd::convert
