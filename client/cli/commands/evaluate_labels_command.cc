#include <string>

#include "absl/strings/str_cat.h"
#include "calibd/convert/multilabel.h"
#include "calibd/core/label_report.h"
#include "client/cli/commands/command.h"
#include "client/cli/commands/shared_options.h"
#include "client/cli/files/label_table.h"
#include "client/cli/output.pb.h"
#include "client/cli/reports/label_report.h"
#include "client/cli/reports/report.h"

namespace calibd::cli {
namespace {

struct EvaluateLabelsOptions {
  std::string file;
  ColumnOptions columns;
  double error_limit = kDefaultErrorLimit;
  double significance_level = 0.05;
  double tolerance = kDefaultTolerance;
  bool predictions_follow_labels = false;
  // "over-limit", or empty if no decision is wanted.
  std::string fail_on;
};

// fails: a label, or all together, is over the limit.
Gate GateOf(const v1::MultilabelCalibration& calibration, bool fails) {
  Gate gate;
  gate.add_fail_on("over-limit");
  gate.set_error_limit(calibration.error_limit());
  if (fails) {
    gate.add_failed_on("over-limit");
    gate.set_decision("OVER_LIMIT");
  } else {
    gate.set_decision(convert::StatusName(calibration.status()));
  }
  return gate;
}

absl::StatusOr<ExitCode> Run(const Context& context, const EvaluateLabelsOptions& options) {
  CALIBD_ASSIGN_OR_RETURN(const LabelTable table, ReadLabelTable(options.file, options.columns));
  TellNotes(table, true);
  LabelErrors errors(table.names.size());
  LabelEvidence evidence(table.names.size(), options.tolerance);
  errors.Add(table.view());
  evidence.Add(table.view());
  ErrorLevels levels = kOneLookErrorLevels;
  if (options.predictions_follow_labels) levels.looks = Looks::kOneInOrder;
  const LabelReportOptions report_options{.levels = levels,
                                          .error_limit = options.error_limit,
                                          .significance_level = options.significance_level};
  const v1::MultilabelCalibration calibration = convert::ToProto(
      ReportOnLabels(errors, evidence.Read(), report_options), report_options, table.names);
  const bool fails =
      !options.fail_on.empty() && (!calibration.over_limit().empty() ||
                                   calibration.status() == v1::CalibrationError::OVER_LIMIT);
  if (context.json()) {
    Json json = ToJson(calibration);
    if (options.columns.drop_invalid || table.changes.rounded_probabilities > 0) {
      json["fileRows"] = ToJson(ToProto(table.changes));
    }
    if (!options.fail_on.empty()) json["gate"] = ToJson(GateOf(calibration, fails));
    PrintJson(json);
  } else {
    Print(absl::StrCat(calibration.rows(), " rows, ", calibration.truths(), " known truths of ",
                       calibration.labels_size(), " labels\n", convert::MultilabelText(calibration),
                       "\n", DescribeLabels(calibration),
                       "All intervals hold together with 95 %, for one look at these rows.\n"));
    Print(Describe(table.changes));
  }
  return fails ? ExitCode::kFailOn : ExitCode::kOk;
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
      "the first line has none, a semicolon or a tab");
  AddDropInvalid(*command, options->columns);
  command
      ->add_option("--error-limit", options->error_limit,
                   "the acceptable error of each label and of all together; default 0.02")
      ->transform(ProbabilityRange(1e-4, 0.5));
  command
      ->add_option("--significance-level", options->significance_level,
                   "the largest expected share of calibrated labels among the rejected ones; "
                   "default 0.05")
      ->transform(ProbabilityRange(1e-9, 0.25));
  command
      ->add_option("--tolerance", options->tolerance,
                   "errors of a probability up to half of this, such as rounding errors, are not "
                   "evidence; default 1e-5")
      ->transform(ProbabilityRange(1e-9, 0.5));
  AddFollowOption(*command, options->predictions_follow_labels);
  command
      ->add_option("--fail-on", options->fail_on,
                   "exit with 3 on over-limit: a label, or all together, is over the limit")
      ->check(CLI::IsMember({"over-limit"}));
}

}  // namespace calibd::cli
