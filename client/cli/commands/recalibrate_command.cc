#include <fstream>
#include <iostream>
#include <iterator>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "calibd/client/recalibration.h"
#include "calibd/convert/json_reader.h"
#include "calibd/convert/recalibration.h"
#include "calibd/convert/text.h"
#include "client/cli/commands/command.h"
#include "client/cli/commands/shared_options.h"
#include "client/cli/files/output_file.h"
#include "client/cli/files/prediction_file.h"
#include "client/offline/classes.h"
#include "client/offline/threads.h"

namespace calibd::cli {
namespace {

struct RecalibrateOptions {
  InputOptions input;
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
  const auto parsed = convert::FromProto(map);
  if (!parsed.ok()) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": ", parsed.status().message()));
  }
  return map;
}

absl::StatusOr<ExitCode> Apply(const RecalibrateOptions& options) {
  CALIBD_ASSIGN_OR_RETURN(const v1::RecalibrationMap map, ReadMap(options.apply_path));
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
    absl::StrAppend(&text,
                    absl::StrJoin(values.subspan(i * input.class_count, input.class_count), ",",
                                  [](std::string* out, double value) {
                                    absl::StrAppendFormat(out, "%.17g", value);
                                  }),
                    "\n");
  }
  if (options.output_path.empty()) {
    Print(text);
  } else {
    CALIBD_RETURN_IF_ERROR(WriteFile(options.output_path, text));
  }
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
  absl::StrAppendFormat(&text,
                        "%s %d observations compared the maps: cross-validated log loss (nats)",
                        alternates ? "Every second one," : "The older", advice.fit_observations());
  for (const v1::Recalibration::Candidate& candidate : advice.candidates()) {
    absl::StrAppendFormat(&text, "%s %s %.3g", &candidate == &advice.candidates(0) ? "" : ",",
                          candidate.kind(), candidate.cross_validated_log_loss());
  }
  absl::StrAppend(&text, ".\n");
  if (map.kind() == "none") return text;
  absl::StrAppendFormat(
      &text,
      "The %s %d measured its benefit (95 %% intervals), without and with the map of kind %s:\n"
      "  log loss (nats) %.3g and %.3g: improvement %.3g (%.3g to %.3g)\n"
      "  error of the top label %s and %s\n",
      alternates ? "other" : "newer", advice.test_observations(), map.kind(),
      advice.log_loss_before(), advice.log_loss_after(), advice.improvement(),
      advice.improvement_lower(), advice.improvement_upper(), Points(advice.error_before()),
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
  if (!options.model.empty()) {
    if (!options.input.predictions.empty()) return UsageFault("give files or --model, not both");
  } else if (const auto fault = FindUsageFault(options.input)) {
    return UsageFault(*fault);
  }
  if (!options.apply_path.empty()) {
    if (!options.model.empty()) return UsageFault("--apply needs a file of predictions");
    // The rows of the result must be those of the file.
    if (options.input.columns.drop_invalid) return UsageFault("--apply excludes --drop-invalid");
    return Apply(options);
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
        return options.model.empty() ? AdviseOnFiles(options, call, changes)
                                     : AdviseOnModel(context, options, call);
      }));
  if (!options.export_path.empty()) {
    v1::RecalibrationMap map = advice.map();
    if (!advice.helps()) {
      map.clear_temperature();
      map.clear_scales();
      map.clear_offsets();
      map.clear_curves();
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
      "Advise on a map that repairs the probabilities, for predictions in files (no server "
      "needed) or for a model's newest observations, or apply such a map",
      Run);
  command->footer(
      "Examples: calibctl recalibrate --model resnet18 --export map.json\n"
      "          calibctl recalibrate predictions.csv labels.csv --label-base 0\n"
      "          calibctl recalibrate --apply map.json new.csv -o recalibrated.csv\n"
      "The older half of the observations chooses the map, the newer half measures its benefit. If "
      "the error changed, only the observations since then take part, every second one in each "
      "half.");
  AddInputOptions(*command, options->input);
  AddModelSource(*command, options->model, options->window,
                 "fit a map to this model on the server, NAME or NAME@VERSION, instead of files");
  auto* const exported = command->add_option(
      "--export", options->export_path,
      "write the map to this file, as JSON; if none helps, a map that changes nothing");
  auto* const applied =
      command
          ->add_option("--apply", options->apply_path,
                       "apply the map of this file to PREDICTIONS, and write the rows as CSV")
          ->excludes(exported);
  command
      ->add_option("-o,--rows-to", options->output_path,
                   "with --apply: write the rows to this file; default: standard output")
      ->needs(applied);
}

}  // namespace calibd::cli
