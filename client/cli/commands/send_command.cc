#include <algorithm>
#include <chrono>
#include <cstdint>
#include <iostream>
#include <limits>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/cli/commands/command.h"
#include "client/cli/commands/progress_bar.h"
#include "client/cli/commands/shared_options.h"
#include "client/cli/commands/time_option.h"
#include "client/cli/files/forecast_file.h"
#include "client/cli/files/label_parser.h"
#include "client/cli/files/prediction_file.h"
#include "client/cli/files/row_features.h"
#include "client/cli/files/text_row.h"
#include "client/cli/reports/stream_report.h"
#include "google/protobuf/util/time_util.h"

namespace calibd::cli {
namespace {

using google::protobuf::Timestamp;
using google::protobuf::util::TimeUtil;

// Number of rows that are passed to the stream at a time; the stream divides them into batches.
constexpr std::size_t kRowsPerSend = 1024;

struct SendOptions {
  std::string model;
  InputOptions input;
  // File with the predictions of the baseline.
  std::string baseline;
  // File with the features.
  std::string features;
  std::string producer_id;
  std::string idempotency_key;
  bool create = false;
};

std::string TimePlace(const InputOptions& options, const RowPlaces& places, std::size_t row) {
  const std::string& column = options.columns.time;
  return absl::StrCat(places.Of(row), ", column ", Quote(column.empty() ? "time" : column));
}

// Checks the times of rows by the limits of the server. With drop_invalid, makes the first value of
// a row NaN instead. values: n x width.
absl::Status CheckTimes(const InputOptions& options, std::span<const Timestamp> times,
                        const RowPlaces& places, std::size_t width, std::vector<double>& values) {
  constexpr std::int64_t kMaxAge = 1000 * std::int64_t{86400};
  constexpr std::int64_t kMaxAhead = 300;
  const std::int64_t now = TimeUtil::GetCurrentTime().seconds();
  for (std::size_t row = 0; row < times.size(); ++row) {
    const std::int64_t age = now - times[row].seconds();
    if (age <= kMaxAge && age >= -kMaxAhead) continue;
    if (options.drop_invalid) {
      values[row * width] = std::numeric_limits<double>::quiet_NaN();
      continue;
    }
    return absl::InvalidArgumentError(
        absl::StrCat(TimePlace(options, places, row), ": ",
                     TimeUtil::ToString(TimeUtil::SecondsToTimestamp(times[row].seconds())),
                     " is more than ", age > 0 ? "1000 days before now" : "5 minutes after now",
                     "; --drop-invalid leaves out invalid rows"));
  }
  return absl::OkStatus();
}

// Parses the times of forecasts. With drop_invalid, makes the first value of a row NaN instead.
absl::StatusOr<std::vector<Timestamp>> ParseTimes(const InputOptions& options, ForecastFile& file) {
  std::vector<Timestamp> times;
  times.reserve(file.times.size());
  for (std::size_t row = 0; row < file.times.size(); ++row) {
    const auto time = ParseTimestamp(file.times[row]);
    if (time.ok()) {
      times.push_back(*time);
      continue;
    }
    if (!options.drop_invalid) {
      return absl::InvalidArgumentError(absl::StrCat(TimePlace(options, file.places, row), ": ",
                                                     std::string(time.status().message())));
    }
    file.values[row * file.width] = std::numeric_limits<double>::quiet_NaN();
    times.push_back(TimeUtil::GetCurrentTime());
  }
  CALIBD_RETURN_IF_ERROR(CheckTimes(options, times, file.places, file.width, file.values));
  return times;
}

// Sets the group and the time of the rows from `first` on, in `stream`. Returns how many of the
// next `count` rows have both. groups, times: of all rows, or empty.
absl::StatusOr<std::size_t> SetTags(std::span<const std::string> groups,
                                    const RowPlaces& group_places, std::span<const Timestamp> times,
                                    std::size_t first, std::size_t count, ReportedStream& stream) {
  if (!groups.empty()) {
    std::size_t equal = 1;
    while (equal < count && groups[first + equal] == groups[first]) ++equal;
    count = equal;
    if (const absl::Status status = stream.stream().SetGroup(groups[first]); !status.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat(group_places.Of(first), ": ", std::string(status.message())));
    }
  }
  if (!times.empty()) {
    const std::int64_t second = times[first].seconds();
    std::size_t equal = 1;
    while (equal < count && times[first + equal].seconds() == second) ++equal;
    count = equal;
    stream.stream().SetTime(std::chrono::sys_seconds(std::chrono::seconds(second)));
  }
  return count;
}

// Reads the predictions of the baseline, and puts each row behind that of the model. files: the
// options of the model's files.
absl::Status AddBaseline(const std::string& path, const InputOptions& files, Input& input) {
  InputOptions options = files;
  options.predictions = path;
  for (std::string* const other :
       {&options.labels, &options.ids, &options.groups, &options.columns.label, &options.columns.id,
        &options.columns.time, &options.columns.group}) {
    other->clear();
  }
  options.columns.features.clear();
  options.labels_needed = false;
  CALIBD_ASSIGN_OR_RETURN(const Input baseline, ReadInput(options));
  const std::size_t m = input.class_count;
  if (baseline.class_count != m || baseline.values.size() != input.values.size()) {
    return absl::InvalidArgumentError(absl::StrCat(
        baseline.prediction_places.path, " has ", baseline.values.size() / baseline.class_count,
        " rows of ", baseline.class_count, " classes, ", input.prediction_places.path, " has ",
        input.values.size() / m, " of ", m, ", expected the same"));
  }
  std::vector<double> both;
  both.reserve(2 * input.values.size());
  const auto append = [&](const std::vector<double>& values, std::size_t first) {
    const auto row = std::span(values).subspan(first, m);
    both.insert(both.end(), row.begin(), row.end());
  };
  for (std::size_t first = 0; first < input.values.size(); first += m) {
    append(input.values, first);
    append(baseline.values, first);
  }
  input.values = std::move(both);
  input.baseline_places = baseline.prediction_places;
  return absl::OkStatus();
}

// Returns what is missing, or too much, for a model with this baseline; empty if nothing.
std::string BaselineFault(const SendOptions& options, const std::string& baseline) {
  if (options.baseline.empty() == baseline.empty()) return "";
  return baseline.empty()
             ? absl::StrCat(options.model,
                            " has no baseline: create it with --baseline, or leave out "
                            "--baseline-probabilities")
             : absl::StrCat(options.model, " has the baseline ", baseline,
                            ": give its predictions for the same rows with "
                            "--baseline-probabilities FILE");
}

// The features of the rows `first` to `first + count - 1` of n.
std::vector<double> FeaturesOf(std::span<const double> features, std::size_t n, std::size_t first,
                               std::size_t count) {
  const std::size_t width = features.size() / n;
  const std::span<const double> rows = features.subspan(first * width, count * width);
  return {rows.begin(), rows.end()};
}

absl::Status SendAll(const SendOptions& options, const Input& input, ReportedStream& stream) {
  const std::size_t m = options.baseline.empty() ? input.class_count : 2 * input.class_count;
  const std::span<const double> values(input.values);
  const std::size_t n = input.values.size() / m;
  const std::span<const std::int32_t> labels(input.labels);
  const std::span<const std::string> ids(input.ids);
  const auto kind = options.input.logits ? client::PredictionKind::kLogits
                                         : client::PredictionKind::kProbabilities;
  ProgressBar bar("sending", "rows", static_cast<double>(n));
  std::size_t count = 0;
  for (std::size_t first = 0; first < n; first += count) {
    CALIBD_ASSIGN_OR_RETURN(
        count, SetTags(input.groups,
                       options.input.groups.empty() ? input.prediction_places : input.group_places,
                       input.times, first, std::min(kRowsPerSend, n - first), stream));
    stream.stream().SetFeatures(FeaturesOf(input.features, n, first, count));
    const auto rows = values.subspan(first * m, count * m);
    const auto row_labels = labels.empty() ? labels : labels.subspan(first, count);
    absl::Status status = ids.empty() ? stream.stream().Send(kind, rows, row_labels)
                                      : stream.stream().SendWithIds(
                                            kind, rows, ids.subspan(first, count), row_labels);
    if (absl::IsInvalidArgument(status)) return DescribeFaults(input, status);
    if (!status.ok()) return status;
    bar.Update(stream.settled());
    stream.TellRejected();
    // What every batch has in common would reject the others too.
    if (stream.all_rejected() && !options.input.drop_invalid) {
      std::cerr << "calibctl: stopped after the first rejection; " << n - first - count
                << " rows were not sent\n";
      break;
    }
  }
  return absl::OkStatus();
}

// Says what to do with ids if the model has no label grace. exists: the model.
std::string IdsNeedLabelGrace(const SendOptions& options, bool exists) {
  const std::string& stated = options.input.columns.id;
  return absl::StrCat(exists ? options.model + " has no label grace"
                             : "--create makes a model without a label grace",
                      ", which ids need: first run `calibctl model create ",
                      exists ? "OTHER_NAME" : options.model,
                      " --label-grace 7d ...`, or leave the ids out ",
                      !options.input.ids.empty()
                          ? "(no --ids)"
                          : absl::StrCat("with --drop-column ", stated.empty() ? "id" : stated,
                                         stated.empty() ? "" : " instead of --id-column"));
}

absl::Status SendForecasts(const SendOptions& options, const ForecastFile& file,
                           std::span<const Timestamp> times, ReportedStream& stream) {
  const std::size_t n = file.values.size() / file.width;
  const std::span<const double> values(file.values);
  const std::span<const double> outcomes(file.outcomes);
  const std::span<const std::string> ids(file.ids);
  ProgressBar bar("sending", "rows", static_cast<double>(n));
  std::size_t count = 0;
  for (std::size_t first = 0; first < n; first += count) {
    CALIBD_ASSIGN_OR_RETURN(count, SetTags(file.groups, file.places, times, first,
                                           std::min(kRowsPerSend, n - first), stream));
    stream.stream().SetFeatures(FeaturesOf(file.features, n, first, count));
    const auto rows = values.subspan(first * file.width, count * file.width);
    const auto row_outcomes = outcomes.empty() ? outcomes : outcomes.subspan(first, count);
    absl::Status status = ids.empty() ? stream.stream().SendForecasts(rows, row_outcomes)
                                      : stream.stream().SendForecastsWithIds(
                                            rows, ids.subspan(first, count), row_outcomes);
    if (absl::IsInvalidArgument(status)) return DescribeFaults(file.places, status);
    if (!status.ok()) return status;
    bar.Update(stream.settled());
    stream.TellRejected();
    if (stream.all_rejected() && !options.input.drop_invalid) break;
  }
  return absl::OkStatus();
}

// Errors: a usage fault if the model does not have what the options need.
absl::Status CheckGroups(const SendOptions& options, const v1::Model& model,
                         const std::vector<std::string>& groups) {
  if (groups.empty() || !model.monitoring().group_tag().empty()) return absl::OkStatus();
  return UsageFault(absl::StrCat(
      options.model,
      " has no group tag, which groups need: create it with --group-tag, or leave "
      "the groups out (without --groups; --drop-column NAME instead of --group-column NAME)"));
}

absl::StatusOr<ExitCode> RunForecasts(const Context& context, const SendOptions& options,
                                      const v1::Model& model, client::Client& client) {
  if (const auto fault = FindForecastUsageFault(options.input)) return UsageFault(*fault);
  if (!options.baseline.empty()) {
    return UsageFault("--baseline-probabilities is for models of classes");
  }
  InputOptions files = options.input;
  CALIBD_RETURN_IF_ERROR(PlanFeatures(model, options.features, files.columns));
  CALIBD_ASSIGN_OR_RETURN(ForecastFile file, ReadForecasts(files, model.forecast()));
  CALIBD_RETURN_IF_ERROR(ReadFeatures(model, options.features, options.input.columns,
                                      file.places.path, file.values.size() / file.width,
                                      file.features));
  if (file.outcomes.empty() && file.ids.empty()) {
    return FileError(file.places.path,
                     "has no outcomes: add a column named outcome, state it with --label-column, "
                     "or give ids, by which outcomes can come later");
  }
  if (!file.ids.empty() && !model.has_label_grace()) {
    return UsageFault(IdsNeedLabelGrace(options, true));
  }
  CALIBD_RETURN_IF_ERROR(CheckGroups(options, model, file.groups));
  CALIBD_ASSIGN_OR_RETURN(const std::vector<Timestamp> times, ParseTimes(options.input, file));
  client::StreamOptions stream_options;
  stream_options.producer_id = options.producer_id;
  stream_options.idempotency_key = options.idempotency_key;
  if (!file.ids.empty()) stream_options.max_rows_per_batch = model.max_pending();
  if (options.input.drop_invalid) stream_options.invalid_rows = client::InvalidRows::kDrop;
  CALIBD_ASSIGN_OR_RETURN(
      auto stream,
      ReportedStream::Open(context, client, model.name(), stream_options,
                           file.ids.empty() ? StreamContent::kRows : StreamContent::kRowsWithIds));
  return stream.Finish(context, SendForecasts(options, file, times, stream));
}

absl::StatusOr<ExitCode> Run(const Context& context, const SendOptions& options) {
  if (const auto fault = FindUsageFault(options.input)) return UsageFault(*fault);
  CALIBD_ASSIGN_OR_RETURN(const auto client, ConnectTo(context));
  const std::string name = ModelArgument(options.model);
  const auto existing = client->GetModel(name);
  if (!existing.ok() && !(options.create && absl::IsNotFound(existing.status()))) {
    return existing.status();
  }
  if (existing.ok() && existing->has_forecast()) {
    return RunForecasts(context, options, *existing, *client);
  }
  if (const std::string fault =
          BaselineFault(options, existing.ok() ? existing->classes().baseline() : std::string());
      !fault.empty()) {
    return UsageFault(fault);
  }
  InputOptions files = options.input;
  if (existing.ok() && files.class_names.empty()) {
    const auto& names = existing->classes().names();
    files.class_names.assign(names.begin(), names.end());
  }
  const v1::Model declared = existing.ok() ? *existing : v1::Model();
  CALIBD_RETURN_IF_ERROR(PlanFeatures(declared, options.features, files.columns));
  CALIBD_ASSIGN_OR_RETURN(auto input, ReadInput(files));
  CALIBD_RETURN_IF_ERROR(
      CheckTimes(files, input.times, input.prediction_places, input.class_count, input.values));
  CALIBD_RETURN_IF_ERROR(ReadFeatures(declared, options.features, options.input.columns,
                                      input.prediction_places.path,
                                      input.values.size() / input.class_count, input.features));
  if (!options.baseline.empty()) {
    CALIBD_RETURN_IF_ERROR(AddBaseline(options.baseline, files, input));
  }
  if (!input.ids.empty() && !(existing.ok() && existing->has_label_grace())) {
    return UsageFault(IdsNeedLabelGrace(options, existing.ok()));
  }
  v1::Model model = declared;
  if (!existing.ok()) {
    model.set_name(name);
    v1::Classes& classes = *model.mutable_classes();
    classes.set_count(static_cast<std::int32_t>(input.class_count));
    // Numbers are the columns of an array without names.
    if (!AreNumbers(input.class_names)) {
      classes.mutable_names()->Add(input.class_names.begin(), input.class_names.end());
    }
    CALIBD_RETURN_IF_ERROR(GetOrCreateModel(*client, model).status());
  }
  client::StreamOptions stream_options;
  CALIBD_RETURN_IF_ERROR(CheckGroups(options, model, input.groups));
  stream_options.producer_id = options.producer_id;
  stream_options.idempotency_key = options.idempotency_key;
  stream_options.class_names = options.input.class_names;
  stream_options.with_baseline = !options.baseline.empty();
  // A batch larger than max_pending is never accepted.
  if (!input.ids.empty()) stream_options.max_rows_per_batch = model.max_pending();
  if (options.input.drop_invalid) stream_options.invalid_rows = client::InvalidRows::kDrop;
  CALIBD_ASSIGN_OR_RETURN(
      auto stream,
      ReportedStream::Open(context, *client, name, stream_options,
                           input.ids.empty() ? StreamContent::kRows : StreamContent::kRowsWithIds));
  if (stream.stream().class_count() != input.class_count) {
    return absl::InvalidArgumentError(absl::StrCat(options.input.predictions, " has ",
                                                   input.class_count, " classes, ", name, " has ",
                                                   stream.stream().class_count()));
  }
  TellNote(input);
  if (model.classes().names().empty() && options.input.class_names.empty() &&
      !input.class_names.empty() && !AreNumbers(input.class_names)) {
    std::cerr << "calibctl: " << name << " declares no class names; its classes are the columns "
              << ListNames(input.class_names) << " in this order\n";
  }
  Json more = Json::object();
  if (options.input.renormalise) more["fileRows"] = ToJson(ToProto(input.renormalisation));
  if (options.input.renormalise && !context.json()) Print(Describe(input.renormalisation));
  return stream.Finish(context, SendAll(options, input, stream), more);
}

}  // namespace

void AddSendCommand(CLI::App& app, Context& context) {
  const auto [command, options] = AddCommand<SendOptions>(
      app, context, "send",
      "Send the predictions in files, with their labels or with ids, to a model", Run);
  command->footer(
      "Every row is counted exactly once, even if the connection breaks. Running the command again "
      "counts the rows again, except those whose ids the server knows. With --idempotency-key, "
      "running it again with the same files and options counts only the rows that are missing; "
      "with "
      "other rows it fails. Use a new key for each set of files. The server forgets a key when at "
      "least 5000 further producers of the model have ended or become idle (calibd "
      "--max-expired-producers-per-model).\n"
      "With --ids, LABELS may be left out and sent later with `calibctl label`; the model needs a "
      "label grace.\n"
      "For a model that forecasts a number, PREDICTIONS has the columns mean and "
      "standard_deviation, or one for each quantile or draw, and the column outcome; or LABELS has "
      "the outcomes. Without names, the outcome is the last column.\n"
      "Examples: calibctl send resnet18 predictions.csv labels.csv --label-base 0\n"
      "          calibctl send pets scored.csv --label-column species\n"
      "          calibctl send churn positives.npy labels.npy --positive-class 1\n"
      "          calibctl send resnet18 p.npy l.npy --label-base 0 --idempotency-key 2026-11-22\n"
      "          calibctl send clicks predictions.csv --ids ids.csv\n"
      "          calibctl send demand forecasts.csv");
  AddModelArgument(*command, options->model);
  AddInputOptions(*command, options->input);
  command->add_option("--ids", options->input.ids,
                      "CSV: one id per line, for each prediction; you choose the ids");
  command->add_option("--groups", options->input.groups,
                      "CSV: one value of the model's group tag per line, for each prediction");
  command->add_option("--features", options->features,
                      "file with the features of the model, a row for each prediction and a column "
                      "for each feature in the order of the model; left out if PREDICTIONS has "
                      "columns with their names");
  command->add_option("--baseline-probabilities", options->baseline,
                      "file with the predictions of the model's baseline for the same rows, of the "
                      "same kind as PREDICTIONS; required if the model has a baseline");
  command->add_option("--producer-id", options->producer_id,
                      "name of this producer; default: a random one, which ends with the command");
  command
      ->add_option("--idempotency-key", options->idempotency_key,
                   "makes the command safe to repeat; letters, digits and . _ : -, at most 112")
      ->excludes("--producer-id");
  command->add_flag(
      "--create", options->create,
      "create the model with default settings, and the class names of the columns, if it does "
      "not exist");
}

}  // namespace calibd::cli
