#include "client/cli/reports/history_report.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "calibd/convert/text.h"
#include "client/cli/reports/report.h"
#include "google/protobuf/util/time_util.h"

namespace calibd::cli {
namespace {

using google::protobuf::util::TimeUtil;

// Maximum number of labels of a bucket; see v1.HistoryBucket.labels.
constexpr int kMostShownLabels = 20;

std::optional<double> Gap(const v1::HistoryBucket& bucket) {
  if (bucket.has_forecast()) {
    // Fewer than two levels have no central interval.
    if (bucket.forecast().central_coverage().empty()) return std::nullopt;
    return bucket.error().gap();
  }
  // The error of all labels together has a gap, over all their truths.
  if (!bucket.labels().empty()) return bucket.error().gap();
  if (!bucket.has_mean_confidence()) return std::nullopt;
  return bucket.mean_confidence() - bucket.accuracy();
}

// How far the outcomes are above the forecasts on average, in standard deviations of the forecast.
std::optional<double> Bias(const v1::HistoryBucket& bucket) {
  if (bucket.forecast().has_residual_mean()) return bucket.forecast().residual_mean();
  if (!bucket.has_direction()) return std::nullopt;
  return bucket.direction().shift();
}

// Whether the cost of decisions is the share of wrong ones.
bool CountsErrors(const v1::ThresholdDecision& decision) {
  return decision.false_alarm_cost() == 1 && decision.miss_cost() == 1;
}

// How much more the decisions cost than the forecasts promised.
std::string DecisionGap(const v1::DecisionLoss& loss) {
  const auto text = [counts = CountsErrors(loss.decision())](double gap) {
    return counts ? convert::SignedFixed(100 * gap, 1) : absl::StrFormat("%+.3g", gap);
  };
  return absl::StrFormat("%s (%s to %s)", text(loss.realised_loss() - loss.expected_loss()),
                         text(loss.gap_lower_bound()), text(loss.gap_upper_bound()));
}

std::string DecisionLegend(const v1::ThresholdDecision& decision) {
  return absl::StrFormat(
      "Decisions (at %s): %s, with an\ninterval that holds with 95 %% for each row by itself.\n",
      convert::Exact(decision.threshold()),
      CountsErrors(decision) ? "how many more were wrong than the forecasts promised, in points"
                             : "how much more each cost than the forecasts promised");
}

// "+9.4 (6.1 to 13.8)".
std::string LabelGap(const v1::LabelSpan& label) {
  return absl::StrFormat("%s (%s to %s)",
                         convert::SignedFixed(100 * (label.stated() - label.held()), 1),
                         convert::SignedFixed(100 * label.gap_lower(), 1),
                         convert::SignedFixed(100 * label.gap_upper(), 1));
}

// The cells of a row about single labels: the labels of these names, or the one furthest off.
std::vector<std::string> LabelCells(const v1::HistoryBucket& bucket,
                                    const std::vector<std::string>& labels) {
  if (labels.empty()) {
    if (bucket.labels().empty()) return {"-"};
    const v1::LabelSpan& furthest = bucket.labels(0);
    return {absl::StrCat(convert::Plain(furthest.name()), " ", LabelGap(furthest))};
  }
  std::vector<std::string> cells;
  for (const std::string& name : labels) {
    const auto label = std::ranges::find(bucket.labels(), name, &v1::LabelSpan::name);
    cells.push_back(label == bucket.labels().end() ? "-" : LabelGap(*label));
  }
  return cells;
}

// A field of CSV that may contain commas and quotation marks: RFC 4180.
std::string CsvText(const std::string& text) {
  return absl::StrCat("\"", absl::StrReplaceAll(text, {{"\"", "\"\""}}), "\"");
}

std::string LeftOutText(int label_count) {
  // Of one label, nothing is left out.
  if (label_count <= 1) return "";
  return absl::StrFormat(
      "Each row names one of %d labels. --label NAME shows another one, and --output json the %d "
      "labels\nfurthest off in each row.\n",
      label_count, std::min(label_count, kMostShownLabels));
}

// has_decision, has_labels: of the whole history.
std::vector<std::string> HistoryRow(std::string start, const v1::HistoryBucket& bucket,
                                    bool has_decision, bool has_labels,
                                    const std::vector<std::string>& labels, bool verbose) {
  const auto real = [](bool known, double value) { return known ? Number(value) : "-"; };
  const auto scientific = [](bool known, double value) {
    return known ? absl::StrFormat("%.2e", value) : "-";
  };
  const std::optional<double> gap =
      bucket.class_1_is_worse() ? bucket.class_1_error().gap() : Gap(bucket);
  const std::optional<double> bias = Bias(bucket);
  std::vector<std::string> row = {
      std::move(start), absl::StrCat(bucket.observations()),
      bucket.has_error() ? bucket.off_by() + (bucket.class_1_is_worse() ? "*" : "") : "-",
      gap.has_value() ? convert::SignedFixed(100 * *gap, 1) : "-"};
  if (has_decision) row.push_back(bucket.has_decision() ? DecisionGap(bucket.decision()) : "-");
  if (has_labels) {
    for (std::string& cell : LabelCells(bucket, labels)) row.push_back(std::move(cell));
    if (verbose) {
      row.push_back(real(bucket.has_brier_score(), bucket.brier_score()));
      row.push_back(real(bucket.has_log10_e_value(), bucket.log10_e_value()));
    }
    return row;
  }
  if (verbose && bucket.has_forecast()) {
    row.insert(row.end(), {scientific(bucket.has_mmd_squared(), bucket.mmd_squared()),
                           scientific(bucket.has_mmd_squared_standard_error(),
                                      bucket.mmd_squared_standard_error()),
                           Number(bucket.forecast().crps()),
                           real(bucket.forecast().has_log_score(), bucket.forecast().log_score()),
                           bias.has_value() ? convert::SignedFixed(*bias, 2) : "-",
                           real(bucket.has_log10_e_value(), bucket.log10_e_value())});
  } else if (verbose) {
    row.insert(row.end(),
               {scientific(bucket.has_skce(), bucket.skce()),
                scientific(bucket.has_skce_standard_error(), bucket.skce_standard_error()),
                real(bucket.has_brier_score(), bucket.brier_score()),
                real(bucket.has_log_loss(), bucket.log_loss()),
                real(bucket.has_log10_e_value(), bucket.log10_e_value())});
  }
  return row;
}

}  // namespace

std::string DescribeUpdate(const v1::ModelUpdate& update) {
  std::string changes =
      absl::StrJoin(update.changes(), ", ", [](std::string* out, const auto& change) {
        absl::StrAppend(out, change.path(), " ",
                        change.old_value().empty() ? "(none)" : change.old_value(), " -> ",
                        change.new_value().empty() ? "(none)" : change.new_value());
      });
  if (update.restarts().empty()) return changes;
  const std::string restarts =
      absl::StrJoin(update.restarts(), ", ", [](std::string* out, const auto restart) {
        switch (restart) {
          case v1::ModelUpdate::EVIDENCE:
            return absl::StrAppend(out, "the evidence");
          case v1::ModelUpdate::DRIFT_DETECTORS:
            return absl::StrAppend(out, "the drift detectors");
          case v1::ModelUpdate::ERROR:
            return absl::StrAppend(out, "the error interval");
          case v1::ModelUpdate::REFERENCE:
            return absl::StrAppend(out, "the reference");
          case v1::ModelUpdate::REFERENCE_BETS:
            return absl::StrAppend(out, "the comparison with the reference");
          default:
            return absl::StrAppend(out, "the groups");
        }
      });
  return absl::StrCat(changes, "; begun anew at observation ", update.observations() + 1, ": ",
                      restarts);
}

std::string DescribeHistory(const v1::GetHistoryResponse& history, bool verbose,
                            const std::vector<std::string>& labels) {
  std::string updates;
  for (const v1::ModelUpdate& update : history.updates()) {
    absl::StrAppend(&updates, "updated ", TimeUtil::ToString(update.time()).substr(0, 19),
                    "Z: ", DescribeUpdate(update), "\n");
  }
  if (history.buckets().empty()) return "nothing was counted in this time\n" + updates;
  std::vector<std::vector<std::string>> rows{
      {"from (UTC)", "n", "off by (points)", "gap (points)"}};
  const bool forecasts = history.kind() == "forecast";
  const auto decided = std::ranges::find_if(history.buckets(), &v1::HistoryBucket::has_decision);
  const bool has_decision = decided != history.buckets().end();
  if (has_decision) rows[0].emplace_back("decisions");
  const bool has_labels = history.kind() == "labels";
  if (has_labels && labels.empty()) rows[0].emplace_back("label furthest off");
  for (const std::string& name : labels) rows[0].push_back(convert::Plain(name));
  if (verbose && has_labels) {
    rows[0].insert(rows[0].end(), {"Brier", "log10 e"});
  } else if (verbose && forecasts) {
    rows[0].insert(rows[0].end(), {"MMD^2", "+-", "CRPS", "log score", "bias", "log10 e"});
  } else if (verbose) {
    rows[0].insert(rows[0].end(), {"SKCE", "+-", "Brier", "log loss", "log10 e"});
  }
  for (const v1::HistoryBucket& bucket : history.buckets()) {
    // "2026-01-31T14:00:00Z", cut to minutes.
    std::string start = TimeUtil::ToString(bucket.start_time()).substr(0, 16);
    start[10] = ' ';
    rows.push_back(HistoryRow(std::move(start), bucket, has_decision, has_labels, labels, verbose));
  }
  rows.push_back(HistoryRow("all", history.total(), has_decision, has_labels, labels, verbose));
  if (has_labels) {
    return absl::StrCat(
        FormatTable(rows), updates,
        "Off by: how far the probabilities of all labels were off on average over the known "
        "truths. "
        "Gap: mean\nprobability minus share that holds, in points. All intervals of a row hold "
        "together with 95 %, for\neach row by itself.\n",
        labels.empty() ? LeftOutText(history.label_count()) : "");
  }
  if (forecasts) {
    return absl::StrCat(
        FormatTable(rows), updates,
        "Off by: the coverage error of the forecasts, biased upwards for few rows, "
        "with an interval that\nholds with 95 % for each row by itself. Gap: how "
        "much less than it promises the widest central\ninterval covers, in "
        "points.\n",
        has_decision ? DecisionLegend(decided->decision().decision()) : "",
        verbose ? "MMD^2: within blocks of 50 consecutive forecasts, unbiased, with its standard "
                  "error +-. CRPS: of\nquantiles twice the mean pinball loss. Bias: how "
                  "far the outcomes are above the forecasts on\naverage, in standard "
                  "deviations of the forecast; for quantiles and samples that of the "
                  "Normal\ndistribution that fits best.\n"
                : "");
  }
  const bool has_two_series =
      std::any_of(history.buckets().begin(), history.buckets().end(),
                  [](const v1::HistoryBucket& bucket) { return bucket.has_class_1_error(); });
  return absl::StrCat(
      FormatTable(rows), updates,
      has_two_series
          ? absl::StrCat("Off by: how far the top label's confidence was off, or * ",
                         convert::Class1Event(history.class_1_name()),
                         ", whichever is worse,\nwith an interval that holds with 95 % for each "
                         "row by itself. "
                         "Gap: of the same event, mean\nprobability minus frequency, in points.\n")
          : "Off by: how far the top label's confidence was off, with an interval that holds with "
            "95 % for each\nrow by itself. Gap: mean confidence minus accuracy, in points.\n",
      verbose ? "SKCE is unbiased and may be negative, +- is its standard error; log10 e is the "
                "value at the end of\neach span.\n"
              : "");
}

std::string HistoryCsv(const v1::GetHistoryResponse& history) {
  std::string text =
      "start_time,end_time,observations,rejected_rows,missing_labels,pairs,skce,"
      "skce_standard_error,mean_confidence,accuracy,gap,brier_score,log_loss,ece,log10_e_value,"
      "max_log10_e_value,drift_log10_statistic,error_lower,error_upper,gap_lower,gap_upper,"
      "class_1_error,class_1_error_lower,class_1_error_upper,error,crps,log_score,residual_mean,"
      "residual_standard_deviation,bias,decision_realised_loss,decision_expected_loss,"
      "decision_gap_lower,decision_gap_upper,discrepancy_blocks,mmd_squared,"
      "mmd_squared_standard_error";
  const bool has_labels = history.kind() == "labels";
  absl::StrAppend(&text, has_labels ? ",label,label_gap,label_gap_lower,label_gap_upper\n" : "\n");
  const auto real = [](bool known, double value) {
    return known ? absl::StrFormat("%.17g", value) : std::string();
  };
  for (const v1::HistoryBucket& bucket : history.buckets()) {
    const std::optional<double> gap = Gap(bucket);
    const std::optional<double> bias = Bias(bucket);
    const v1::ForecastScores& scores = bucket.forecast();
    std::vector<std::string> fields = {
        TimeUtil::ToString(bucket.start_time()),
        TimeUtil::ToString(bucket.end_time()),
        absl::StrCat(bucket.observations()),
        absl::StrCat(bucket.rejected_rows()),
        absl::StrCat(bucket.missing_labels()),
        absl::StrCat(bucket.pairs()),
        real(bucket.has_skce(), bucket.skce()),
        real(bucket.has_skce_standard_error(), bucket.skce_standard_error()),
        real(bucket.has_mean_confidence(), bucket.mean_confidence()),
        real(bucket.has_accuracy(), bucket.accuracy()),
        real(gap.has_value(), gap.value_or(0)),
        real(bucket.has_brier_score(), bucket.brier_score()),
        real(bucket.has_log_loss(), bucket.log_loss()),
        real(bucket.has_ece(), bucket.ece()),
        real(bucket.has_log10_e_value(), bucket.log10_e_value()),
        real(bucket.has_max_log10_e_value(), bucket.max_log10_e_value()),
        real(bucket.has_drift_log10_statistic(), bucket.drift_log10_statistic()),
        real(bucket.has_error(), bucket.error().lower()),
        real(bucket.has_error(), bucket.error().upper()),
        real(gap.has_value() && bucket.has_error(), bucket.error().gap_lower()),
        real(gap.has_value() && bucket.has_error(), bucket.error().gap_upper()),
        real(bucket.has_class_1_error(), bucket.class_1_error().estimate()),
        real(bucket.has_class_1_error(), bucket.class_1_error().lower()),
        real(bucket.has_class_1_error(), bucket.class_1_error().upper()),
        real(bucket.has_error(), bucket.error().estimate()),
        real(bucket.has_forecast(), scores.crps()),
        real(scores.has_log_score(), scores.log_score()),
        real(scores.has_residual_mean(), scores.residual_mean()),
        real(scores.has_residual_standard_deviation(), scores.residual_standard_deviation()),
        real(bias.has_value(), bias.value_or(0)),
        real(bucket.has_decision(), bucket.decision().realised_loss()),
        real(bucket.has_decision(), bucket.decision().expected_loss()),
        real(bucket.has_decision(), bucket.decision().gap_lower_bound()),
        real(bucket.has_decision(), bucket.decision().gap_upper_bound()),
        absl::StrCat(bucket.discrepancy_blocks()),
        real(bucket.has_mmd_squared(), bucket.mmd_squared()),
        real(bucket.has_mmd_squared_standard_error(), bucket.mmd_squared_standard_error())};
    if (has_labels) {
      const bool known = !bucket.labels().empty();
      const v1::LabelSpan label = known ? bucket.labels(0) : v1::LabelSpan();
      fields.insert(fields.end(),
                    {CsvText(label.name()), real(known, label.stated() - label.held()),
                     real(known, label.gap_lower()), real(known, label.gap_upper())});
    }
    absl::StrAppend(&text, absl::StrJoin(fields, ","), "\n");
  }
  return text;
}

}  // namespace calibd::cli
