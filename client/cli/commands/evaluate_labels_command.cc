#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "calibd/convert/multilabel.h"
#include "calibd/convert/text.h"
#include "calibd/core/label_report.h"
#include "client/cli/commands/command.h"
#include "client/cli/commands/fail_on.h"
#include "client/cli/commands/shared_options.h"
#include "client/cli/files/label_table.h"
#include "client/cli/files/report_file.h"
#include "client/cli/reports/reading_report.h"
#include "client/cli/reports/report.h"
#include "client/offline/labels.h"

namespace calibd::cli {
namespace {

struct EvaluateLabelsOptions {
  std::string file;
  ColumnOptions columns;
  double error_limit = kDefaultErrorLimit;
  double tolerance = kDefaultTolerance;
  bool predictions_follow_labels = false;
  EvaluationGate fail_on;
  // Where a report is written; empty: nowhere.
  std::string report;
};

absl::StatusOr<ExitCode> Run(const Context& context, const EvaluateLabelsOptions& options) {
  CALIBD_ASSIGN_OR_RETURN(const LabelTable table, ReadLabelTable(options.file, options.columns));
  TellNotes(table, true);
  ErrorLevels levels = kOneLookErrorLevels;
  if (options.predictions_follow_labels) levels.looks = Looks::kOneInOrder;
  const v1::MultilabelCalibration calibration =
      offline::EvaluateLabels(table.view(), table.names,
                              {.levels = levels,
                               .error_limit = options.error_limit,
                               .significance_level = options.fail_on.significance_level},
                              options.tolerance);
  CALIBD_RETURN_IF_ERROR(ReportEvaluation(options.report, options.file, "labels", calibration));
  const convert::EvaluationVerdict verdict = convert::VerdictOf(calibration);
  const std::optional<Decision> decision =
      DecideByVerdict(verdict, options.fail_on, options.error_limit);
  if (context.json()) {
    Json json = ToJson(calibration);
    if (options.columns.drop_invalid || table.changes.rounded_probabilities > 0) {
      json["fileRows"] = ToJson(ToProto(table.changes));
    }
    if (decision.has_value()) json["gate"] = ToJson(decision->gate);
    PrintJson(json);
  } else {
    Print(absl::StrCat(
        "verdict   ", verdict.Text(), "\n", convert::CountText(calibration.rows(), "row"), ", ",
        convert::CountText(calibration.truths(), "known truth"), " of ",
        convert::CountText(calibration.labels_size(), "label"), "\n",
        convert::MultilabelText(calibration), "\n", DescribeTable(calibration.table()),
        "All intervals hold together with 95 %, for one look at these rows.\n"));
    Print(Describe(table.changes));
    if (decision.has_value()) Print("\n" + decision->sentence);
  }
  return decision.has_value() ? decision->exit_code() : ExitCode::kOk;
}

}  // namespace

void AddEvaluateLabelsCommand(CLI::App& app, Context& context) {
  const auto [command, options] = AddCommand<EvaluateLabelsOptions>(
      app, context, "evaluate-labels",
      "Compute errors and evidence for predictions of several labels, each with its own "
      "probability, in a file (no server needed)",
      Run);
  command->footer(
      "Example: calibctl evaluate-labels weather.csv\n"
      "The file is CSV with a header, or JSON Lines. For each label NAME it has the columns "
      "prob_NAME and label_NAME; an empty truth is missing.");
  command->add_option("FILE", options->file, "CSV or JSON Lines; - is standard input")->required();
  command->add_option(
      "--delimiter", options->columns.delimiter,
      "the character between the columns of CSV, or the word tab; default: a comma, or if "
      "the first line has none, a semicolon, a tab or a |");
  AddDropInvalid(*command, options->columns);
  command
      ->add_option("--error-limit", options->error_limit,
                   "the acceptable error of each label and of all together; default 0.02")
      ->transform(ProbabilityRange(1e-4, 0.5));
  command
      ->add_option("--tolerance", options->tolerance,
                   "errors of a probability up to half of this, such as rounding errors, are not "
                   "evidence; default 1e-5")
      ->transform(ProbabilityRange(1e-9, 0.5));
  AddFollowOption(*command, options->predictions_follow_labels);
  AddReportOption(*command, options->report);
  AddEvaluationGate(*command, options->fail_on,
                    "the largest expected share of calibrated labels among the rejected ones");
}

}  // namespace calibd::cli
