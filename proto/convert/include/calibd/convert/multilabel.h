#ifndef CALIBD_CONVERT_MULTILABEL_H_
#define CALIBD_CONVERT_MULTILABEL_H_

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "calibd/convert/reading.h"
#include "calibd/core/label_report.h"
#include "calibd/v1/multilabel.pb.h"

namespace calibd::convert {

// names: of the labels, in their order. options: those of the report.
[[nodiscard]] v1::MultilabelCalibration ToProto(const LabelReport& report,
                                                const LabelReportOptions& options,
                                                std::span<const std::string> names);

// OVER_LIMIT if a label, or the average of all, is over the limit; MISCALIBRATED if a label is
// rejected.
[[nodiscard]] EvaluationVerdict VerdictOf(const v1::MultilabelCalibration& calibration);

// Says how far all labels together are off, which labels are over the limit, which are rejected,
// and whether the rows go together: one line each.
[[nodiscard]] std::string MultilabelText(const v1::MultilabelCalibration& calibration);

// Positions of the labels in the order of the table: those over the limit first, then the rejected
// ones, then the others.
[[nodiscard]] std::vector<std::size_t> TableOrder(const v1::MultilabelCalibration& calibration);

// Sets `table`. calibration: with its labels. is_whole: with all of them, and not only the first
// ones. change: of the model; empty without one.
void AddTable(v1::MultilabelCalibration& calibration, bool is_whole = false,
              const v1::DatedChange& change = {});

// The same as a reading, for rows that are evaluated once.
[[nodiscard]] v1::Reading ReadingOf(const v1::MultilabelCalibration& calibration);

}  // namespace calibd::convert

#endif  // CALIBD_CONVERT_MULTILABEL_H_
