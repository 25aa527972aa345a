#include <algorithm>
#include <cstdint>
#include <iostream>
#include <span>
#include <string>
#include <vector>

#include "client/cli/commands/command.h"
#include "client/cli/commands/progress_bar.h"
#include "client/cli/commands/shared_options.h"
#include "client/cli/files/label_table.h"
#include "client/cli/files/labels_by_id.h"
#include "client/cli/files/row_faults.h"
#include "client/cli/reports/stream_report.h"

namespace calibd::cli {
namespace {

// Number of labels that are passed to the stream at a time; the stream divides them into batches.
constexpr std::size_t kLabelsPerSend = 4096;

struct LabelCommandOptions {
  std::string model;
  LabelFileOptions file;
  std::string producer_id;
};

// send: sends `count` of the labels or outcomes from `first` on.
template <typename Send>
absl::Status SendAll(const Table& file, ReportedStream& stream, const Send& send) {
  const std::span<const std::string> ids(file.ids);
  ProgressBar bar("labelling", "labels", static_cast<double>(ids.size()));
  for (std::size_t first = 0; first < ids.size(); first += kLabelsPerSend) {
    const std::size_t count = std::min(kLabelsPerSend, ids.size() - first);
    absl::Status status = send(ids.subspan(first, count), first, count);
    if (absl::IsInvalidArgument(status)) return DescribeFaults(file, status);
    if (!status.ok()) return status;
    bar.Update(stream.settled());
    stream.TellRejected();
    if (stream.all_rejected()) {
      std::cerr << "calibctl: stopped after the first rejection; " << ids.size() - first - count
                << " labels were not sent\n";
      break;
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<ExitCode> Run(const Context& context, const LabelCommandOptions& options) {
  CALIBD_ASSIGN_OR_RETURN(const auto client, ConnectTo(context));
  const std::string name = ModelArgument(options.model);
  CALIBD_ASSIGN_OR_RETURN(const v1::Model model, client->GetModel(name));
  if (!model.has_label_grace()) {
    return UsageFault(options.model +
                      " has no label grace, so its predictions have no ids and their labels cannot "
                      "come later: create the model with --label-grace");
  }
  client::StreamOptions stream_options;
  stream_options.producer_id = options.producer_id;
  if (options.file.columns.drop_invalid) stream_options.invalid_rows = client::InvalidRows::kDrop;
  using Ids = std::span<const std::string>;
  if (model.has_forecast()) {
    if (options.file.label_base.has_value()) {
      return UsageFault("--label-base is for models of classes, this one forecasts a number");
    }
    CALIBD_ASSIGN_OR_RETURN(const Table file, ReadOutcomes(options.file));
    CALIBD_ASSIGN_OR_RETURN(
        auto stream,
        ReportedStream::Open(context, *client, name, stream_options, StreamContent::kLabels));
    const std::span<const double> outcomes(file.truths);
    const auto send = [&](Ids ids, std::size_t first, std::size_t count) {
      return stream.stream().LabelOutcomes(ids, outcomes.subspan(first, count));
    };
    return stream.Finish(context, SendAll(file, stream, send));
  }
  if (model.has_labels()) {
    if (options.file.label_base.has_value() || !options.file.columns.label.empty()) {
      return UsageFault(
          options.model +
          " has several labels, whose truths are in the columns label_NAME: leave out "
          "--label-base and --label-column");
    }
    const std::vector<std::string> names(model.labels().names().begin(),
                                         model.labels().names().end());
    CALIBD_ASSIGN_OR_RETURN(const Table file, ReadLabelTruths(options.file, names));
    const std::vector<std::int32_t> truths = TruthsToSend(file);
    CALIBD_ASSIGN_OR_RETURN(
        auto stream,
        ReportedStream::Open(context, *client, name, stream_options, StreamContent::kLabels));
    const auto send = [&](Ids ids, std::size_t first, std::size_t count) {
      return stream.stream().Label(
          ids, std::span(truths).subspan(first * names.size(), count * names.size()));
    };
    return stream.Finish(context, SendAll(file, stream, send));
  }
  const std::vector<std::string> class_names(model.classes().names().begin(),
                                             model.classes().names().end());
  // If one label is invalid, no label of the file is sent.
  CALIBD_ASSIGN_OR_RETURN(
      const auto file,
      ReadLabelFile(options.file, class_names, static_cast<std::size_t>(model.classes().count())));
  CALIBD_ASSIGN_OR_RETURN(auto stream, ReportedStream::Open(context, *client, name, stream_options,
                                                            StreamContent::kLabels));
  const std::span<const std::int32_t> labels(file.labels);
  const auto send = [&](Ids ids, std::size_t first, std::size_t count) {
    return stream.stream().Label(ids, labels.subspan(first, count));
  };
  return stream.Finish(context, SendAll(file, stream, send));
}

}  // namespace

void AddLabelCommand(CLI::App& app, Context& context) {
  const auto [command, options] = AddCommand<LabelCommandOptions>(
      app, context, "label", "Send the labels of predictions that were sent earlier with ids", Run);
  command->footer(
      "The model needs a label grace (calibctl model create --label-grace). A label that cannot "
      "be used is counted and is not an error: its prediction is unknown, it arrived too late, or "
      "the prediction already has another label. A label that comes before its prediction waits "
      "for it up to a minute, and no longer than the label grace; it is unknown after that. To "
      "wait "
      "is not an error: the command says how many labels wait. The exit code is 1 if no label "
      "waits "
      "and none belongs to a prediction of the model in time. Running the command again changes "
      "nothing.\n"
      "For a model that forecasts a number, FILE has the columns id and outcome; for a model of "
      "several labels id and label_NAME for each label.\n"
      "Examples: calibctl label clicks labels.csv --label-base 0\n"
      "          calibctl label demand outcomes.csv");
  AddModelArgument(*command, options->model);
  AddLabelFileOptions(*command, options->file);
  command->add_option("--producer-id", options->producer_id,
                      "name of this producer; default: a random one");
}

}  // namespace calibd::cli
