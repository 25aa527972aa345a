#include "client/cli/reports/bins_report.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "calibd/convert/text.h"
#include "client/cli/reports/forecast_report.h"
#include "client/cli/reports/report.h"

namespace calibd::cli {
namespace {

using convert::SignedFixed;

// Empty without observations. prediction and event: the names of their columns.
std::string BinTable(const google::protobuf::RepeatedPtrField<v1::HistoryBucket::Bin>& bins,
                     const std::string& prediction, const char* event) {
  std::vector<std::vector<std::string>> rows = {
      {prediction, "rows", "says %", event, "gap (points)"}};
  const double count = bins.size();
  for (int i = 0; i < bins.size(); ++i) {
    const v1::HistoryBucket::Bin& bin = bins[i];
    if (bin.observations() == 0) continue;
    rows.push_back({absl::StrFormat("%.3f to %.3f", i / count, (i + 1) / count),
                    absl::StrCat(bin.observations()),
                    absl::StrFormat("%.1f", 100 * bin.mean_confidence()),
                    absl::StrFormat("%.1f", 100 * bin.accuracy()),
                    SignedFixed(100 * (bin.mean_confidence() - bin.accuracy()), 1)});
  }
  return rows.size() == 1 ? "" : FormatTable(rows);
}

}  // namespace

std::string DescribeBins(const v1::GetCalibrationResponse& response) {
  if (response.has_forecast()) return DescribeCells(response);
  if (response.has_labels()) return "a model of several labels has no reliability diagram\n";
  const v1::RunningScores& scores = response.scores();
  const std::string top_label = BinTable(scores.bins(), "confidence", "right %");
  if (top_label.empty()) return "no labelled row yet\n";
  const std::string class_1 =
      BinTable(scores.class_1_bins(), convert::Class1Event(scores.class_1_name()), "is %");
  return class_1.empty() ? top_label : absl::StrCat(top_label, "\n", class_1);
}

}  // namespace calibd::cli
