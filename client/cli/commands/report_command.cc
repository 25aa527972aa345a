#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <set>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/cli/commands/command.h"
#include "client/cli/commands/shared_options.h"
#include "client/cli/files/output_file.h"
#include "client/cli/files/report_file.h"
#include "client/cli/output.pb.h"
#include "google/protobuf/util/time_util.h"

namespace calibd::cli {
namespace {

struct ReportOptions {
  std::string model;
  std::string path;
};

// The spans of time that the page shows.
constexpr std::pair<v1::GetHistoryRequest::Resolution, int> kReportedHours[] = {
    {v1::GetHistoryRequest::HOUR, 14 * 24},
    {v1::GetHistoryRequest::DAY, 1000 * 24},
    {v1::GetHistoryRequest::MINUTE, 3}};
// Of more classes, a report has the diagrams of those that the server names as worst.
constexpr int kMostReportedClasses = 20;

// The classes whose diagrams the page shows.
std::vector<std::int32_t> ReportedClasses(const v1::Model& model,
                                          const v1::GetCalibrationResponse& calibration) {
  std::vector<std::int32_t> classes;
  // The diagram of class 0 of two is that of class 1, turned around.
  if (model.classes().count() == 2) return {1};
  if (model.classes().count() <= kMostReportedClasses) {
    for (std::int32_t k = 0; k < model.classes().count(); ++k) classes.push_back(k);
  } else {
    for (const auto& one : calibration.verdict().whereabouts().classes()) {
      classes.push_back(one.class_index());
    }
  }
  return classes;
}

// Asks for the diagrams of as many labels as the server gives, those over the limit first.
v1::GetCalibrationRequest WithDiagrams(const std::string& name,
                                       const v1::MultilabelCalibration& labels) {
  constexpr int kMostLabels = 100;
  v1::GetCalibrationRequest request;
  request.set_model(name);
  std::set<std::string> asked;
  const auto ask = [&](const std::string& label) {
    if (request.label_diagrams_size() < kMostLabels && asked.insert(label).second) {
      request.add_label_diagrams(label);
    }
  };
  for (const std::string& label : labels.over_limit()) ask(label);
  for (const v1::LabelCalibration& label : labels.labels()) ask(label.name());
  return request;
}

// Adds an answer about the newest rows. It is left out while there are too few of them.
template <typename Answer>
absl::Status AddAnswer(const char* member, const absl::StatusOr<Answer>& answer, Json& data) {
  if (answer.ok()) {
    data[member] = ToJson(*answer);
  } else if (!absl::IsFailedPrecondition(answer.status())) {
    return answer.status();
  }
  return absl::OkStatus();
}

// Adds what the page asks for: diagrams and lenses without tests, and the estimates of the error.
// classes: those with diagrams.
absl::Status AddEvaluation(const Context& context, client::Client& client, const v1::Model& model,
                           const std::vector<std::int32_t>& classes, Json& data) {
  v1::EvaluateRequest evaluation;
  evaluation.set_model(model.name());
  evaluation.set_replicates(0);
  evaluation.set_seed(1);
  evaluation.mutable_reliability_classes()->Add(classes.begin(), classes.end());
  CALIBD_RETURN_IF_ERROR(AddAnswer(
      "evaluation",
      CallWithProgress(context, "evaluating", kTestTimeout,
                       [&](const auto& call) { return client.Evaluate(evaluation, call); }),
      data));
  v1::EstimateCalibrationErrorRequest estimate;
  estimate.set_model(model.name());
  estimate.set_seed(1);
  return AddAnswer("estimate",
                   CallWithProgress(context, "estimating", kTestTimeout,
                                    [&](const auto& call) {
                                      return client.EstimateCalibrationError(estimate, call);
                                    }),
                   data);
}

absl::StatusOr<ExitCode> ReportModel(const Context& context, const ReportOptions& options) {
  CALIBD_ASSIGN_OR_RETURN(const auto client, ConnectTo(context));
  const std::string name = ModelArgument(options.model);
  CALIBD_ASSIGN_OR_RETURN(const v1::Model model, client->GetModel(name));
  CALIBD_ASSIGN_OR_RETURN(v1::GetCalibrationResponse calibration, client->GetCalibration(name));
  if (calibration.has_labels()) {
    CALIBD_ASSIGN_OR_RETURN(calibration,
                            client->GetCalibration(WithDiagrams(name, calibration.labels())));
  }
  Json data{{"name", name}, {"model", ToJson(model)}, {"calibration", ToJson(calibration)}};
  for (const auto& [resolution, hours] : kReportedHours) {
    using google::protobuf::util::TimeUtil;
    v1::GetHistoryRequest request;
    request.set_model(name);
    request.set_resolution(resolution);
    *request.mutable_start_time() = TimeUtil::GetCurrentTime() - TimeUtil::HoursToDuration(hours);
    CALIBD_ASSIGN_OR_RETURN(const auto history, client->GetHistory(request));
    data["histories"][v1::GetHistoryRequest::Resolution_Name(resolution)] = ToJson(history);
  }
  if (model.has_classes()) {
    CALIBD_RETURN_IF_ERROR(
        AddEvaluation(context, *client, model, ReportedClasses(model, calibration), data));
  }
  CALIBD_ASSIGN_OR_RETURN(const std::size_t size, WriteReport(options.path, std::move(data)));
  if (context.json()) {
    WrittenFile file;
    file.set_file(options.path);
    file.set_size_bytes(static_cast<std::int64_t>(size));
    PrintJson(ToJson(file));
  } else {
    Print(absl::StrCat(options.path, ": ", size, " bytes\n"));
  }
  return ExitCode::kOk;
}

absl::StatusOr<ExitCode> Run(const Context& context, const ReportOptions& options) {
  absl::StatusOr<ExitCode> code = ReportModel(context, options);
  std::error_code error;
  // A path is no name of a model either.
  if ((absl::IsNotFound(code.status()) || absl::IsUnavailable(code.status()) ||
       absl::IsInvalidArgument(code.status())) &&
      std::filesystem::is_regular_file(options.model, error)) {
    return UsageFault(absl::StrCat(options.model,
                                   " is a file, not a model of the server: `calibctl evaluate`, "
                                   "`evaluate-forecasts` and `evaluate-labels` have --report"));
  }
  return code;
}

}  // namespace

void AddReportCommand(CLI::App& app, Context& context) {
  const auto [command, options] = AddCommand<ReportOptions>(
      app, context, "report",
      "Write what the page of the server shows of a model to a file, which needs no server", Run);
  command->footer(
      "The file is HTML with charts and tables, and has all that it needs: it can be sent, opened "
      "without a network, and printed.\n"
      "Examples: calibctl report resnet18 -o report.html\n"
      "          calibctl evaluate predictions.csv labels.csv --label-base 0 --report report.html\n"
      "The second one needs no server; evaluate-forecasts and evaluate-labels have --report too.");
  AddModelArgument(*command, options->model);
  command->add_option("-o,--file", options->path, "file to write; a file is replaced")
      ->required()
      ->check(InExistingFolder());
}

}  // namespace calibd::cli
