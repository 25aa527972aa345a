#include <algorithm>
#include <span>

#include "command.h"
#include "prediction_file.h"
#include "progress_bar.h"
#include "stream_report.h"

namespace calibd::cli {
namespace {

// Number of labels that are passed to the stream at a time; the stream divides them into batches.
constexpr std::size_t kLabelsPerSend = 4096;

struct LabelOptions {
  std::string model;
  LabelFileOptions file;
  std::string producer_id;
};

absl::Status SendAll(const LabelOptions& options, const LabelsById& file,
                     std::span<const std::int32_t> labels, ReportedStream& stream) {
  const std::span<const std::string> ids(file.ids);
  ProgressBar bar("labelling", "labels", static_cast<double>(ids.size()));
  for (std::size_t first = 0; first < ids.size(); first += kLabelsPerSend) {
    const std::size_t count = std::min(kLabelsPerSend, ids.size() - first);
    absl::Status status =
        stream.stream().Label(ids.subspan(first, count), labels.subspan(first, count));
    if (absl::IsInvalidArgument(status)) {
      return absl::InvalidArgumentError(NameLines(options.file, std::string(status.message())));
    }
    if (!status.ok()) return status;
    bar.Update(stream.settled());
    stream.TellRejected();
  }
  return absl::OkStatus();
}

absl::StatusOr<ExitCode> Run(const Context& context, const LabelOptions& options) {
  if (const auto fault = FindUsageFault(options.file)) return UsageFault(*fault);
  CALIBD_ASSIGN_OR_RETURN(const auto file, ReadLabelFile(options.file));
  CALIBD_ASSIGN_OR_RETURN(const auto client, ConnectTo(context));
  client::StreamOptions stream_options;
  stream_options.producer_id = options.producer_id;
  CALIBD_ASSIGN_OR_RETURN(auto stream,
                          ReportedStream::Open(context, *client, ModelArgument(options.model),
                                               stream_options, StreamContent::kLabels));
  // If one label is invalid, no label of the file is sent.
  CALIBD_ASSIGN_OR_RETURN(const auto labels,
                          ToClasses(options.file, file, stream.stream().class_count()));
  return stream.Finish(context, SendAll(options, file, labels, stream));
}

}  // namespace

void AddLabelCommand(CLI::App& app, Context& context) {
  const auto [command, options] = AddCommand<LabelOptions>(
      app, context, "label", "Send the labels of predictions that were sent earlier with ids", Run);
  command->footer(
      "The model needs a label grace (calibctl model create --label-grace). A label that cannot "
      "be used is counted and is not an error: its prediction is unknown, it arrived too late, or "
      "the "
      "prediction already has another label. Running the command again changes nothing.\n"
      "Example: calibctl label clicks labels.csv --label-base 0");
  command->add_option("MODEL", options->model, "name, or NAME@VERSION")->required();
  command
      ->add_option("FILE", options->file.path,
                   "CSV: the id of a prediction and its class number on each line")
      ->required();
  command
      ->add_option("--label-base", options->file.label_base,
                   "number of the first class in FILE, 0 or 1; required, never guessed")
      ->check(CLI::IsMember({0, 1}));
  command->add_flag("--header", options->file.header, "the first line holds names; skip it");
  command->add_option("--producer-id", options->producer_id,
                      "name of this producer; default: a random one");
}

}  // namespace calibd::cli
