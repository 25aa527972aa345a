#include "client/cli/reports/stream_report.h"

#include <algorithm>
#include <iostream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "calibd/convert/text.h"
#include "calibd/core/status_macros.h"

namespace calibd::cli {
namespace {

constexpr std::int64_t kMaxToldRejections = 5;

// Accepted labels whose outcome the server did not report, because the connection was lost.
std::int64_t Untold(const client::LabelCounts& labels) {
  return labels.accepted - labels.matched - labels.repeated - labels.conflicting - labels.late -
         labels.unknown - labels.waiting;
}

}  // namespace

absl::StatusOr<ReportedStream> ReportedStream::Open(const Context& context, client::Client& client,
                                                    const std::string& model,
                                                    client::StreamOptions options,
                                                    StreamContent content) {
  options.stall_timeout = context.Timeout(kCallTimeout);
  options.on_warning = [](const std::string& warning) {
    std::cerr << "calibctl: WARNING: " << warning << std::endl;
  };
  CALIBD_ASSIGN_OR_RETURN(auto stream, client.OpenStream(model, options));
  return ReportedStream(model, std::move(stream), context.stop, content);
}

ReportedStream::ReportedStream(std::string model, std::unique_ptr<client::ObservationStream> stream,
                               std::stop_token stop, StreamContent content)
    : model_(std::move(model)),
      content_(content),
      started_(std::chrono::steady_clock::now()),
      stream_(std::move(stream)),
      cancel_(std::make_unique<std::stop_callback<Canceller>>(std::move(stop),
                                                              Canceller{stream_.get()})) {}

double ReportedStream::settled() const {
  const client::StreamCounts counts = stream_->counts();
  return static_cast<double>(content_ == StreamContent::kLabels
                                 ? counts.labels.accepted + counts.labels.rejected
                                 : counts.accepted_rows + counts.rejected_rows +
                                       counts.dropped_rows);
}

void ReportedStream::TellRejected() {
  for (const client::RejectedBatch& batch : stream_->TakeRejected()) {
    const bool in_row = std::any_of(batch.errors.begin(), batch.errors.end(),
                                    [](const client::RowError& error) { return error.row >= 0; });
    all_rejected_ |= !batch.status.ok() && !in_row;
    if (++told_rejections_ > kMaxToldRejections) continue;
    const char* const what = batch.labels ? "label" : "row";
    std::cerr << "calibctl: the server rejected " << what << "s " << batch.first_row << " to "
              << batch.last_row << ": ";
    if (batch.errors.empty()) std::cerr << std::string(batch.status.message());
    const char* separator = "";
    for (const client::RowError& error : batch.errors) {
      std::cerr << separator << error.field << " " << error.description;
      separator = "; ";
    }
    std::cerr << '\n';
  }
}

ExitCode ReportedStream::Finish(const Context& context, absl::Status sent, const Json& more) {
  if (sent.ok()) sent = stream_->Finish().status();
  TellRejected();
  const client::StreamCounts counts = stream_->counts();
  if (told_rejections_ > kMaxToldRejections) {
    const bool are_labels = content_ == StreamContent::kLabels;
    const std::int64_t rejected = are_labels ? counts.labels.rejected : counts.rejected_rows;
    std::cerr << "calibctl: further rejections are not shown; in all, "
              << convert::CountText(rejected, are_labels ? "label" : "row")
              << (rejected == 1 ? " was" : " were") << " rejected\n";
  }
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - started_;
  if (!sent.ok()) {
    const ExitCode code = Fail(sent);
    if (content_ == StreamContent::kLabels) {
      if (counts.labels.labels == 0) return code;
      std::cerr << "calibctl: " << convert::CountText(counts.labels.accepted, "label")
                << (counts.labels.accepted == 1 ? " was" : " were")
                << " certainly accepted; run the command again for the others\n";
    } else if (counts.rows > 0) {
      std::cerr << "calibctl: " << convert::CountText(counts.accepted_rows, "row")
                << (counts.accepted_rows == 1 ? " is" : " are")
                << " known to be counted; rows on their way may be too\n";
    }
    return code;
  }
  if (context.json()) {
    Json json = CountsJson(elapsed.count());
    json.update(more);
    PrintJson(json);
  } else {
    Print(CountsText(elapsed.count()));
  }
  if (counts.rejected_batches > 0) return ExitCode::kError;
  const bool nothing_counted = TellUnmatched() || TellAllDropped();
  return nothing_counted ? ExitCode::kError : ExitCode::kOk;
}

bool ReportedStream::TellAllDropped() const {
  const client::StreamCounts counts = stream_->counts();
  if (counts.rows == 0 || counts.dropped_rows < counts.rows) return false;
  std::cerr << "calibctl: no row was counted: "
            << (counts.rows == 1 ? "the only row is"
                                 : absl::StrCat("all ", counts.rows, " rows are"))
            << " invalid; without --drop-invalid, an error says what is wrong with the first\n";
  return true;
}

bool ReportedStream::TellUnmatched() const {
  const client::LabelCounts labels = stream_->counts().labels;
  if (labels.waiting > 0) {
    std::cerr << "calibctl: " << labels.waiting
              << (labels.waiting == 1 ? " label waits" : " labels wait")
              << " up to a minute for their prediction, and no longer than the label grace; "
                 "`calibctl show "
              << convert::ShortName(model_) << " --verbose` then counts those that found none as "
              << "unknown\n";
  }
  const bool found =
      labels.matched + labels.repeated + labels.conflicting + labels.waiting + Untold(labels) > 0;
  if (labels.labels == 0 || found) return false;
  std::cerr << "calibctl: no label belongs to a prediction of " << convert::ShortName(model_)
            << " that waits for it: " << labels.unknown
            << (labels.unknown == 1 ? " has an id" : " have ids")
            << " that the server does not know, " << labels.late << " came after the label grace, "
            << labels.dropped << (labels.dropped == 1 ? " is" : " are") << " invalid\n";
  return true;
}

Json ReportedStream::CountsJson(double elapsed_seconds) const {
  const client::StreamCounts counts = stream_->counts();
  const auto with_stream = [&](auto sent) {
    sent.set_model(model_);
    sent.set_producer_id(stream_->producer_id());
    sent.set_rejected_batches(counts.rejected_batches);
    sent.set_reconnects(counts.reconnects);
    sent.set_resent_batches(counts.resent_batches);
    sent.set_elapsed_seconds(elapsed_seconds);
    return ToJson(sent);
  };
  if (content_ == StreamContent::kLabels) {
    SentLabels sent;
    sent.set_labels(counts.labels.labels);
    sent.set_accepted_labels(counts.labels.accepted);
    sent.set_rejected_labels(counts.labels.rejected);
    sent.set_dropped_labels(counts.labels.dropped);
    sent.set_matched(counts.labels.matched);
    sent.set_repeated(counts.labels.repeated);
    sent.set_conflicting(counts.labels.conflicting);
    sent.set_late(counts.labels.late);
    sent.set_unknown(counts.labels.unknown);
    sent.set_waiting(counts.labels.waiting);
    sent.set_untold(Untold(counts.labels));
    return with_stream(std::move(sent));
  }
  SentRows sent;
  sent.set_rows(counts.rows);
  sent.set_accepted_rows(counts.accepted_rows);
  sent.set_duplicate_rows(counts.duplicate_rows);
  sent.set_rejected_rows(counts.rejected_rows);
  sent.set_dropped_rows(counts.dropped_rows);
  return with_stream(std::move(sent));
}

std::string ReportedStream::CountsText(double elapsed_seconds) const {
  const client::StreamCounts counts = stream_->counts();
  // A shorter time says nothing about the rate.
  const auto rate = [&](std::int64_t count, const char* noun) {
    if (elapsed_seconds < 0.1) return std::string();
    return absl::StrFormat(" (%.0f %s/s)", static_cast<double>(count) / elapsed_seconds, noun);
  };
  if (content_ != StreamContent::kLabels) {
    std::string text =
        absl::StrCat(model_, ": ", convert::CountText(counts.accepted_rows, "row"), " accepted, ");
    if (content_ == StreamContent::kRowsWithIds || counts.duplicate_rows > 0) {
      absl::StrAppend(&text, convert::CountText(counts.duplicate_rows, "duplicate"),
                      counts.reconnects > 0 ? " (since the stream was opened again)" : "", ", ");
    }
    return absl::StrCat(text, absl::StrFormat("%d rejected, %d dropped in %.1f s%s\n",
                                              counts.rejected_rows, counts.dropped_rows,
                                              elapsed_seconds, rate(counts.accepted_rows, "rows")));
  }
  const client::LabelCounts& labels = counts.labels;
  std::string text = absl::StrFormat(
      "%s: %s matched, %d repeated, %d conflicting, %d late, %d unknown, %d waiting, %d "
      "rejected, %d dropped in %.1f s%s\n",
      model_, convert::CountText(labels.matched, "label"), labels.repeated, labels.conflicting,
      labels.late, labels.unknown, labels.waiting, labels.rejected, labels.dropped, elapsed_seconds,
      rate(labels.accepted, "labels"));
  if (Untold(labels) > 0) {
    const bool is_one = Untold(labels) == 1;
    absl::StrAppend(&text, Untold(labels), is_one ? " more was" : " more were",
                    " accepted before the connection broke; `calibctl show` includes ",
                    is_one ? "its outcome.\n" : "their outcomes.\n");
  }
  return text;
}

}  // namespace calibd::cli
