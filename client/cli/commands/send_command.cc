#include <algorithm>
#include <chrono>
#include <cstdint>
#include <iostream>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "calibd/core/validation.h"
#include "client/cli/commands/command.h"
#include "client/cli/commands/progress_bar.h"
#include "client/cli/commands/shared_options.h"
#include "client/cli/commands/time_option.h"
#include "client/cli/files/column_names.h"
#include "client/cli/files/forecast_file.h"
#include "client/cli/files/label_parser.h"
#include "client/cli/files/label_table.h"
#include "client/cli/files/prediction_file.h"
#include "client/cli/files/row_faults.h"
#include "client/cli/files/row_features.h"
#include "client/cli/files/row_order.h"
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
  std::string producer_id;
  std::string idempotency_key;
  // Seed of the order of the rows.
  std::optional<std::uint64_t> shuffle;
  bool create = false;
};

// Checks the times of rows by the limits of the server. With drop_invalid, makes the first value of
// a row NaN instead.
absl::Status CheckTimes(const InputOptions& options, Table& table) {
  constexpr std::int64_t kMaxAge = 1000 * std::int64_t{86400};
  constexpr std::int64_t kMaxAhead = 300;
  const std::int64_t now = TimeUtil::GetCurrentTime().seconds();
  for (std::size_t row = 0; row < table.times.size(); ++row) {
    const std::int64_t second = table.times[row].seconds();
    const std::int64_t age = now - second;
    if (age <= kMaxAge && age >= -kMaxAhead) continue;
    if (options.columns.drop_invalid) {
      table.values[row * table.width] = std::numeric_limits<double>::quiet_NaN();
      continue;
    }
    return absl::InvalidArgumentError(
        absl::StrCat(table.PlaceOf(row, *table.columns.time), ": ",
                     TimeUtil::ToString(TimeUtil::SecondsToTimestamp(second)), " is more than ",
                     age > 0 ? "1000 days before now" : "5 minutes after now",
                     "; --drop-invalid leaves out invalid rows"));
  }
  return absl::OkStatus();
}

// Sets the group and the time of the rows from `first` on, in `stream`. Returns how many of the
// next `count` rows have both.
absl::StatusOr<std::size_t> SetTags(const Table& table, std::size_t first, std::size_t count,
                                    ReportedStream& stream) {
  const std::vector<std::string>& groups = table.groups;
  if (!groups.empty()) {
    std::size_t equal = 1;
    while (equal < count && groups[first + equal] == groups[first]) ++equal;
    count = equal;
    if (const absl::Status status = stream.stream().SetGroup(groups[first]); !status.ok()) {
      const RowPlaces& places = table.group_places.path.empty() ? table.places : table.group_places;
      return absl::InvalidArgumentError(
          absl::StrCat(places.Of(first), ": ", std::string(status.message())));
    }
  }
  if (!table.times.empty()) {
    const std::int64_t second = table.times[first].seconds();
    std::size_t equal = 1;
    while (equal < count && table.times[first + equal].seconds() == second) ++equal;
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
       {&options.labels, &options.ids, &options.groups, &options.features}) {
    other->clear();
  }
  // The file may have what else the file of the model has, or the predictions alone.
  ColumnOptions& columns = options.columns;
  for (std::string* const stated : {&columns.label, &columns.id, &columns.time, &columns.group}) {
    if (!stated->empty()) columns.dropped.push_back(std::move(*stated));
    stated->clear();
  }
  columns.dropped.insert(columns.dropped.end(), columns.features.begin(), columns.features.end());
  columns.features.clear();
  columns.may_lack_dropped = true;
  options.labels_needed = false;
  // The classes of the baseline are those of the model, also if only the columns name them.
  if (options.class_names.empty()) options.class_names = input.class_names;
  CALIBD_ASSIGN_OR_RETURN(const Input baseline, ReadInput(options));
  const std::size_t m = input.class_count;
  if (baseline.class_count != m || baseline.values.size() != input.values.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat(baseline.places.path, " has ", baseline.values.size() / baseline.class_count,
                     " rows of ", baseline.class_count, " classes, ", input.places.path, " has ",
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
  input.baseline_places = baseline.places;
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

// Sends the rows in parts that the stream divides into batches. send: sends `count` rows from
// `first` on. describe: the places of invalid rows.
template <typename Send, typename Describe>
absl::Status SendParts(const SendOptions& options, const Table& table, ReportedStream& stream,
                       const Send& send, const Describe& describe) {
  const std::size_t n = table.row_count;
  const std::size_t feature_count = table.features.size() / n;
  ProgressBar bar("sending", "rows", static_cast<double>(n));
  std::size_t count = 0;
  for (std::size_t first = 0; first < n; first += count) {
    CALIBD_ASSIGN_OR_RETURN(count,
                            SetTags(table, first, std::min(kRowsPerSend, n - first), stream));
    const auto features =
        std::span(table.features).subspan(first * feature_count, count * feature_count);
    stream.stream().SetFeatures({features.begin(), features.end()});
    absl::Status status = send(first, count);
    if (absl::IsInvalidArgument(status)) return describe(status);
    if (!status.ok()) return status;
    bar.Update(stream.settled());
    stream.TellRejected();
    // What every batch has in common would reject the others too.
    if (stream.all_rejected() && !options.input.columns.drop_invalid) {
      std::cerr << "calibctl: stopped after the first rejection; " << n - first - count
                << " rows were not sent\n";
      break;
    }
  }
  return absl::OkStatus();
}

absl::Status SendClasses(const SendOptions& options, const Input& input, ReportedStream& stream) {
  const std::size_t m = options.baseline.empty() ? input.class_count : 2 * input.class_count;
  const auto kind = options.input.logits ? client::PredictionKind::kLogits
                                         : client::PredictionKind::kProbabilities;
  const auto send = [&](std::size_t first, std::size_t count) {
    const auto rows = std::span(input.values).subspan(first * m, count * m);
    const std::span<const std::int32_t> all(input.labels);
    const auto labels = all.empty() ? all : all.subspan(first, count);
    return input.ids.empty() ? stream.stream().Send(kind, rows, labels)
                             : stream.stream().SendWithIds(
                                   kind, rows, std::span(input.ids).subspan(first, count), labels);
  };
  return SendParts(options, input, stream, send,
                   [&](const absl::Status& status) { return DescribeFaults(input, status); });
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

absl::Status SendForecasts(const SendOptions& options, const Table& table, ReportedStream& stream) {
  const auto send = [&](std::size_t first, std::size_t count) {
    const auto rows = std::span(table.values).subspan(first * table.width, count * table.width);
    const std::span<const double> all(table.truths);
    const auto outcomes = all.empty() ? all : all.subspan(first, count);
    return table.ids.empty() ? stream.stream().SendForecasts(rows, outcomes)
                             : stream.stream().SendForecastsWithIds(
                                   rows, std::span(table.ids).subspan(first, count), outcomes);
  };
  return SendParts(options, table, stream, send,
                   [&](const absl::Status& status) { return DescribeFaults(table, status); });
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

// Opens a stream for the rows of `table`.
absl::StatusOr<ReportedStream> OpenStream(const Context& context, const SendOptions& options,
                                          const v1::Model& model, const Table& table,
                                          client::Client& client) {
  client::StreamOptions stream_options;
  stream_options.producer_id = options.producer_id;
  stream_options.idempotency_key = options.idempotency_key;
  stream_options.class_names = options.input.class_names;
  stream_options.with_baseline = !options.baseline.empty();
  // A batch larger than max_pending is never accepted.
  if (!table.ids.empty()) stream_options.max_rows_per_batch = model.max_pending();
  if (options.input.columns.drop_invalid) stream_options.invalid_rows = client::InvalidRows::kDrop;
  return ReportedStream::Open(
      context, client, model.name(), stream_options,
      table.ids.empty() ? StreamContent::kRows : StreamContent::kRowsWithIds);
}

absl::Status SendLabels(const SendOptions& options, const Table& table, ReportedStream& stream) {
  const auto kind = options.input.logits ? client::PredictionKind::kLogits
                                         : client::PredictionKind::kProbabilities;
  const std::vector<std::int32_t> truths = TruthsToSend(table);
  const auto send = [&](std::size_t first, std::size_t count) {
    const auto part = [&](const auto& all) {
      const std::span rows(all);
      return rows.empty() ? rows : rows.subspan(first * table.width, count * table.width);
    };
    return table.ids.empty() ? stream.stream().Send(kind, part(table.values), part(truths))
                             : stream.stream().SendWithIds(
                                   kind, part(table.values),
                                   std::span(table.ids).subspan(first, count), part(truths));
  };
  return SendParts(options, table, stream, send,
                   [&](const absl::Status& status) { return DescribeFaults(table, status); });
}

// Prints what was changed in the rows of the files, or returns it for the JSON.
Json TellChanges(const Context& context, const FileChanges& changes) {
  Json more = Json::object();
  const bool changed = changes.renormalisation.has_value() || changes.rounded_probabilities > 0;
  if (changed && context.json()) more["fileRows"] = ToJson(ToProto(changes));
  if (changed && !context.json()) Print(Describe(changes));
  return more;
}

using SendRows = absl::Status (*)(const SendOptions& options, const Table& table,
                                  ReportedStream& stream);

// Sends the rows with a function for their kind. no_truths: what is wrong if there are neither
// truths nor ids.
absl::StatusOr<ExitCode> SendTable(const Context& context, const SendOptions& options,
                                   const v1::Model& model, client::Client& client, Table table,
                                   const char* no_truths, SendRows send) {
  CALIBD_RETURN_IF_ERROR(CheckFeatures(model, options.input.features, table));
  if (table.truths.empty() && table.ids.empty()) return FileError(table.places.path, no_truths);
  if (!table.ids.empty() && !model.has_label_grace()) {
    return UsageFault(IdsNeedLabelGrace(options, true));
  }
  CALIBD_RETURN_IF_ERROR(CheckGroups(options, model, table.groups));
  CALIBD_RETURN_IF_ERROR(CheckTimes(options.input, table));
  if (options.shuffle.has_value()) Shuffle(*options.shuffle, table);
  CALIBD_ASSIGN_OR_RETURN(auto stream, OpenStream(context, options, model, table, client));
  return stream.Finish(context, send(options, table, stream), TellChanges(context, table.changes));
}

// does: what the model does instead of predicting one of several classes.
absl::Status CheckNoClassInput(const SendOptions& options, const char* does) {
  if (const auto fault = FindClassOption(options.input, does)) return UsageFault(*fault);
  if (options.baseline.empty()) return absl::OkStatus();
  return UsageFault("--baseline-probabilities is for models of classes");
}

absl::StatusOr<ExitCode> RunForecasts(const Context& context, const SendOptions& options,
                                      const v1::Model& model, client::Client& client) {
  CALIBD_RETURN_IF_ERROR(CheckNoClassInput(options, "forecasts a number"));
  if (options.input.logits) {
    return UsageFault("--logits is for models of classes, this one forecasts a number");
  }
  InputOptions files = options.input;
  CALIBD_RETURN_IF_ERROR(PlanFeatures(model, files.features, files.columns));
  CALIBD_ASSIGN_OR_RETURN(Table table, ReadForecasts(files, model.forecast()));
  return SendTable(context, options, model, client, std::move(table),
                   "has no outcomes: add a column named outcome, state it with --label-column, "
                   "or give ids, by which outcomes can come later",
                   SendForecasts);
}

absl::StatusOr<ExitCode> RunLabels(const Context& context, const SendOptions& options,
                                   const v1::Model& model, client::Client& client) {
  CALIBD_RETURN_IF_ERROR(CheckNoClassInput(options, "has several labels"));
  if (!options.input.labels.empty() || !options.input.columns.label.empty()) {
    return UsageFault(absl::StrCat(options.model,
                                   " has several labels, whose truths are in the columns "
                                   "label_NAME of PREDICTIONS: leave out LABELS and "
                                   "--label-column"));
  }
  const std::vector<std::string> names(model.labels().names().begin(),
                                       model.labels().names().end());
  InputOptions files = options.input;
  CALIBD_RETURN_IF_ERROR(PlanFeatures(model, files.features, files.columns));
  CALIBD_ASSIGN_OR_RETURN(Table table, ReadLabels(files, names));
  TellNotes(table, !files.logits);
  return SendTable(context, options, model, client, std::move(table),
                   "has no columns label_NAME with truths, and no ids, by which truths can come "
                   "later",
                   SendLabels);
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
  if (existing.ok() && existing->has_labels()) {
    return RunLabels(context, options, *existing, *client);
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
  CALIBD_RETURN_IF_ERROR(PlanFeatures(declared, files.features, files.columns));
  CALIBD_ASSIGN_OR_RETURN(auto input, ReadInput(files));
  CALIBD_RETURN_IF_ERROR(CheckTimes(files, input));
  CALIBD_RETURN_IF_ERROR(CheckFeatures(declared, files.features, input));
  if (!options.baseline.empty()) {
    CALIBD_RETURN_IF_ERROR(AddBaseline(options.baseline, files, input));
  }
  if (!input.ids.empty() && !(existing.ok() && existing->has_label_grace())) {
    return UsageFault(IdsNeedLabelGrace(options, existing.ok()));
  }
  v1::Model model = declared;
  if (!existing.ok()) {
    // A model with the classes of a wrong file would remain.
    if (!options.input.logits && !options.input.columns.drop_invalid) {
      const std::vector<Violation> violations =
          FindViolations({input.values, input.labels, input.class_count});
      if (!violations.empty()) return DescribeFaults(input, violations);
    }
    model.set_name(name);
    v1::Classes& classes = *model.mutable_classes();
    classes.set_count(static_cast<std::int32_t>(input.class_count));
    // The numbers from 0 are those of the columns of an array without names.
    if (!AreNumbers(input.class_names) || input.class_names[0] == "1") {
      classes.mutable_names()->Add(input.class_names.begin(), input.class_names.end());
    }
    CALIBD_RETURN_IF_ERROR(GetOrCreateModel(*client, model).status());
  }
  CALIBD_RETURN_IF_ERROR(CheckGroups(options, model, input.groups));
  if (options.shuffle.has_value()) Shuffle(*options.shuffle, input);
  CALIBD_ASSIGN_OR_RETURN(auto stream, OpenStream(context, options, model, input, *client));
  if (stream.stream().class_count() != input.class_count) {
    return absl::InvalidArgumentError(absl::StrCat(options.input.predictions, " has ",
                                                   input.class_count, " classes, ", name, " has ",
                                                   stream.stream().class_count()));
  }
  TellNotes(input, !options.input.logits);
  if (model.classes().names().empty() && options.input.class_names.empty() &&
      !input.class_names.empty() && !AreNumbers(input.class_names)) {
    std::cerr << "calibctl: " << name << " declares no class names; its classes are the columns "
              << ListNames(input.class_names) << " in this order\n";
  }
  if (model.classes().names().empty() && options.input.label_base == 1) {
    std::cerr << "calibctl: " << name
              << " declares no class names and counts its classes from 0: your label 1 is its "
                 "class 0\n";
  }
  return stream.Finish(context, SendClasses(options, input, stream),
                       TellChanges(context, input.changes));
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
      "For a model of several labels, PREDICTIONS has the columns prob_NAME and label_NAME for "
      "each label; an empty truth is missing.\n"
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
  command->add_option("--features", options->input.features,
                      "file with the features of the model, a row for each prediction and a column "
                      "for each feature in the order of the model; left out if PREDICTIONS has "
                      "columns with their names");
  command->add_option(
      "--baseline-probabilities", options->baseline,
      "file with the predictions of the model's baseline for the same rows, of the "
      "same kind as PREDICTIONS; only its columns of predictions are read; required "
      "if the model has a baseline");
  command->add_option("--producer-id", options->producer_id,
                      "name of this producer; default: a random one, which ends with the command");
  command
      ->add_option("--idempotency-key", options->idempotency_key,
                   "makes the command safe to repeat; letters, digits and . _ : -, at most 112")
      ->excludes("--producer-id");
  command
      ->add_option("--shuffle", options->shuffle,
                   "send the rows in a random order that this seed, a whole number, determines: "
                   "rows that are sorted by label or by user look like a wrong model")
      ->type_name("SEED");
  command->add_flag(
      "--create", options->create,
      "create the model with default settings, and the class names of the columns, if it does "
      "not exist");
}

}  // namespace calibd::cli
