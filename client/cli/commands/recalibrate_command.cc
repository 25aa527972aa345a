#include <algorithm>
#include <fstream>
#include <iostream>
#include <iterator>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "calibd/client/recalibration.h"
#include "calibd/convert/json_reader.h"
#include "calibd/convert/recalibration.h"
#include "calibd/convert/text.h"
#include "calibd/core/forecast_recalibration.h"
#include "client/cli/commands/command.h"
#include "client/cli/commands/forecast_source.h"
#include "client/cli/commands/shared_options.h"
#include "client/cli/files/forecast_file.h"
#include "client/cli/files/output_file.h"
#include "client/cli/files/prediction_file.h"
#include "client/offline/classes.h"
#include "client/offline/numbers.h"
#include "client/offline/threads.h"

namespace calibd::cli {
namespace {

struct RecalibrateOptions {
  InputOptions input;
  // If given, the file has forecasts of a number.
  ForecastSource forecasts;
  // The options of `input` that are only for probabilities of classes.
  std::vector<const CLI::Option*> of_classes;
  // If set, the map is fitted to this model of the server instead of files.
  std::string model;
  std::int32_t window = 0;
  // Where the map is written; empty: nowhere.
  std::string export_path;
  // The map that is applied to the file; empty: a map is fitted.
  std::string apply_path;
  // Where the mapped rows are written; empty: standard output.
  std::string output_path;
};

absl::StatusOr<v1::RecalibrationMap> ReadMap(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  if (!file) return absl::NotFoundError(absl::StrCat("cannot read ", path));
  v1::RecalibrationMap map;
  if (const auto fault = convert::ReadJson(text, map)) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, " is not a map of `calibctl recalibrate --export`: ",
                     fault->field.empty() ? "it" : fault->field, " ", fault->description));
  }
  return map;
}

// Says in which file the map is that has a fault.
absl::Status MapFault(const std::string& path, const absl::Status& fault) {
  return absl::InvalidArgumentError(absl::StrCat(path, ": ", fault.message()));
}

void AppendNumbers(std::span<const double> values, std::string& text) {
  absl::StrAppend(&text, absl::StrJoin(values, ",", [](std::string* out, double value) {
    absl::StrAppendFormat(out, "%.17g", value);
  }));
}

absl::Status WriteRows(const RecalibrateOptions& options, const std::string& text) {
  if (!options.output_path.empty()) return WriteFile(options.output_path, text);
  Print(text);
  return absl::OkStatus();
}

// Writes the quantiles of the repaired forecasts, and the outcomes if the file has any.
absl::StatusOr<ExitCode> ApplyToForecasts(const RecalibrateOptions& options) {
  CALIBD_ASSIGN_OR_RETURN(const v1::RecalibrationMap map, ReadMap(options.apply_path));
  const auto curve = convert::LevelCurveFromProto(map);
  if (!curve.ok()) return MapFault(options.apply_path, curve.status());
  CALIBD_ASSIGN_OR_RETURN(auto chosen, ChooseForecasts(options.forecasts));
  InputOptions input;
  input.predictions = chosen.first;
  input.columns = options.input.columns;
  input.labels_needed = false;
  CALIBD_ASSIGN_OR_RETURN(const NumberForecasts forecasts,
                          ReadNumberForecasts(input, std::move(chosen.second)));
  const std::vector<double> levels = RepairedLevels(forecasts.kind);
  if (levels.size() < 2) {
    return UsageFault("--apply needs quantiles of two or more levels, between which it can move");
  }
  const std::vector<double> quantiles =
      RepairForecasts(*curve, forecasts.kind, forecasts.values, levels);
  std::cerr << Describe(forecasts.changes);
  std::string text = absl::StrJoin(levels, ",", [](std::string* out, double level) {
    absl::StrAppendFormat(out, "q%.15g", level);
  });
  absl::StrAppend(&text, forecasts.truths.empty() ? "\n" : ",outcome\n");
  for (std::size_t i = 0; i < forecasts.row_count; ++i) {
    AppendNumbers(std::span(quantiles).subspan(i * levels.size(), levels.size()), text);
    if (!forecasts.truths.empty()) {
      text += ",";
      AppendNumbers(std::span(forecasts.truths).subspan(i, 1), text);
    }
    text += "\n";
  }
  CALIBD_RETURN_IF_ERROR(WriteRows(options, text));
  return ExitCode::kOk;
}

absl::StatusOr<ExitCode> Apply(const RecalibrateOptions& options) {
  CALIBD_ASSIGN_OR_RETURN(const v1::RecalibrationMap map, ReadMap(options.apply_path));
  if (const auto parsed = convert::FromProto(map); !parsed.ok()) {
    return MapFault(options.apply_path, parsed.status());
  }
  InputOptions unlabelled = options.input;
  unlabelled.labels_needed = false;
  CALIBD_ASSIGN_OR_RETURN(Input input, ReadObservations(unlabelled, 0));
  if (static_cast<std::size_t>(map.class_count()) != input.class_count) {
    return absl::InvalidArgumentError(absl::StrCat(options.input.predictions, " has ",
                                                   input.class_count, " classes, the map has ",
                                                   map.class_count()));
  }
  CALIBD_RETURN_IF_ERROR(client::ApplyRecalibration(map, input.values));
  // Standard output has the rows.
  std::cerr << Describe(input.changes);
  std::string text;
  const std::span<const double> values(input.values);
  for (std::size_t i = 0; i < input.labels.size(); ++i) {
    AppendNumbers(values.subspan(i * input.class_count, input.class_count), text);
    text += "\n";
  }
  CALIBD_RETURN_IF_ERROR(WriteRows(options, text));
  return ExitCode::kOk;
}

// "5.4 points (4.2 to 6.8)".
std::string Points(const v1::ErrorInterval& error) {
  return absl::StrFormat("%.1f points (%.1f to %.1f)", 100 * error.estimate(), 100 * error.lower(),
                         100 * error.upper());
}

std::string Describe(const v1::Recalibration& advice) {
  const v1::RecalibrationMap& map = advice.map();
  std::string text = convert::Plain(advice.text()) + ".\n";
  if (!advice.caution().empty()) {
    absl::StrAppend(&text, "But ", convert::Plain(advice.caution()), ".\n");
  }
  const bool alternates = advice.has_change();
  const bool of_numbers = advice.has_pinball_loss_before();
  absl::StrAppendFormat(
      &text, "%s %d observations %s", alternates ? "Every second one," : "The older",
      advice.fit_observations(),
      of_numbers ? "chose the map" : "compared the maps: cross-validated log loss (nats)");
  for (const v1::Recalibration::Candidate& candidate : advice.candidates()) {
    absl::StrAppendFormat(&text, "%s %s %.3g", &candidate == &advice.candidates(0) ? "" : ",",
                          candidate.kind(), candidate.cross_validated_log_loss());
  }
  absl::StrAppend(&text, ".\n");
  if (map.kind() == "none") return text;
  absl::StrAppendFormat(
      &text,
      "The %s %d measured its benefit (95 %% intervals), without and with the map of kind %s:\n"
      "  %s %.3g and %.3g: improvement %.3g (%.3g to %.3g)\n"
      "  %s %s and %s\n",
      alternates ? "other" : "newer", advice.test_observations(), map.kind(),
      of_numbers ? "twice the pinball loss" : "log loss (nats)",
      of_numbers ? advice.pinball_loss_before() : advice.log_loss_before(),
      of_numbers ? advice.pinball_loss_after() : advice.log_loss_after(), advice.improvement(),
      advice.improvement_lower(), advice.improvement_upper(),
      of_numbers ? "coverage error" : "error of the top label", Points(advice.error_before()),
      Points(advice.error_after()));
  if (advice.has_class_1_error_after()) {
    absl::StrAppend(&text, "  error of ", convert::Class1Event(advice.class_1_name()), " ",
                    Points(advice.class_1_error_before()), " and ",
                    Points(advice.class_1_error_after()), "\n");
  }
  return text;
}

absl::StatusOr<v1::Recalibration> AdviseOnFiles(const RecalibrateOptions& options,
                                                const client::LongCallOptions& call,
                                                std::optional<FileChanges>& changes) {
  CALIBD_ASSIGN_OR_RETURN(const Input input, ReadObservations(options.input, 0));
  changes = input.changes;
  return offline::RecalibrateOffline({input.values, input.labels, input.class_count},
                                     input.class_names,
                                     offline::ControlOf(1, call.stop, call.on_progress));
}

absl::StatusOr<v1::Recalibration> AdviseOnForecasts(const RecalibrateOptions& options,
                                                    const client::LongCallOptions& call,
                                                    std::optional<FileChanges>& changes) {
  CALIBD_ASSIGN_OR_RETURN(auto chosen, ChooseForecasts(options.forecasts));
  InputOptions input;
  input.predictions = chosen.first;
  input.columns = options.input.columns;
  CALIBD_ASSIGN_OR_RETURN(const NumberForecasts forecasts,
                          ReadNumberForecasts(input, std::move(chosen.second)));
  changes = forecasts.changes;
  return offline::RecalibrateOffline(forecasts.kind, {forecasts.values, forecasts.truths},
                                     offline::ControlOf(1, call.stop, call.on_progress));
}

absl::StatusOr<v1::Recalibration> AdviseOnModel(const Context& context,
                                                const RecalibrateOptions& options,
                                                const client::LongCallOptions& call) {
  CALIBD_ASSIGN_OR_RETURN(const auto client, ConnectTo(context));
  v1::RecalibrateRequest request;
  request.set_model(ModelArgument(options.model));
  request.set_window(options.window);
  return client->Recalibrate(request, call);
}

absl::StatusOr<ExitCode> Run(const Context& context, const RecalibrateOptions& options) {
  const bool of_numbers = options.forecasts.is_given();
  if (!options.model.empty()) {
    if (!options.input.predictions.empty() || of_numbers) {
      return UsageFault("give files or --model, not both");
    }
  } else if (of_numbers) {
    for (const CLI::Option* const option : options.of_classes) {
      if (option->count() == 0) continue;
      return UsageFault(absl::StrCat("forecasts of a number exclude ", option->get_name()));
    }
  } else if (const auto fault = FindUsageFault(options.input)) {
    return UsageFault(*fault);
  }
  if (!options.apply_path.empty()) {
    if (!options.model.empty()) return UsageFault("--apply needs a file of predictions");
    // The rows of the result must be those of the file.
    if (options.input.columns.drop_invalid) return UsageFault("--apply excludes --drop-invalid");
    return of_numbers ? ApplyToForecasts(options) : Apply(options);
  }
  if (const std::string& group = options.input.columns.group; !group.empty()) {
    return UsageFault(absl::StrCat(
        "recalibrate fits one map to all rows, whatever their groups: leave the column out with "
        "--drop-column ",
        OptionValue(group), ", or give a file of one group's rows"));
  }
  std::optional<FileChanges> changes;
  CALIBD_ASSIGN_OR_RETURN(
      const v1::Recalibration advice,
      CallWithProgress(context, "recalibrating", kTestTimeout, [&](const auto& call) {
        if (!options.model.empty()) return AdviseOnModel(context, options, call);
        return of_numbers ? AdviseOnForecasts(options, call, changes)
                          : AdviseOnFiles(options, call, changes);
      }));
  if (!options.export_path.empty()) {
    v1::RecalibrationMap map = advice.map();
    if (!advice.helps()) {
      map.clear_temperature();
      map.clear_scales();
      map.clear_offsets();
      map.clear_curves();
      map.clear_level_curve();
      map.set_kind("none");
    }
    CALIBD_RETURN_IF_ERROR(WriteFile(options.export_path, ToJson(map).dump(2) + "\n"));
  }
  if (context.json()) {
    Json json = ToJson(advice);
    if (changes.has_value()) json["fileRows"] = ToJson(ToProto(*changes));
    PrintJson(json);
  } else {
    Print(Describe(advice));
    if (changes.has_value()) Print(Describe(*changes));
  }
  return ExitCode::kOk;
}

}  // namespace

void AddRecalibrateCommand(CLI::App& app, Context& context) {
  const auto [command, options] = AddCommand<RecalibrateOptions>(
      app, context, "recalibrate",
      "Advise on a map that repairs predictions of classes or forecasts of a number, in files (no "
      "server needed) or of a model's newest observations, or apply such a map",
      Run);
  command->footer(
      "Examples: calibctl recalibrate --model resnet18 --export map.json\n"
      "          calibctl recalibrate predictions.csv labels.csv --label-base 0\n"
      "          calibctl recalibrate --apply map.json new.csv -o recalibrated.csv\n"
      "          calibctl recalibrate --normals demand.csv --export map.json\n"
      "The older half of the observations chooses the map, the newer half measures its benefit. If "
      "the error changed, only the observations since then take part, every second one in each "
      "half.");
  AddInputOptions(*command, options->input);
  const std::vector<CLI::Option*> of_classes =
      command->get_options([help = command->get_help_ptr()](const CLI::Option* option) {
        return option != help &&
               std::ranges::find(kTableOptions, option->get_name()) == std::end(kTableOptions);
      });
  options->of_classes.assign(of_classes.begin(), of_classes.end());
  AddForecastSource(*command, options->forecasts);
  AddModelSource(*command, options->model, options->window,
                 "fit a map to this model on the server, NAME or NAME@VERSION, instead of files");
  auto* const exported = command->add_option(
      "--export", options->export_path,
      "write the map to this file, as JSON; if none helps, a map that changes nothing");
  auto* const applied =
      command
          ->add_option("--apply", options->apply_path,
                       "apply the map of this file to the predictions, and write the rows as CSV; "
                       "of forecasts of a number, their quantiles")
          ->excludes(exported);
  command
      ->add_option("-o,--rows-to", options->output_path,
                   "with --apply: write the rows to this file; default: standard output")
      ->needs(applied);
}

}  // namespace calibd::cli
