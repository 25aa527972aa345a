#include "stream_report.h"

#include <iostream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace calibd::cli {

absl::StatusOr<ReportedStream> ReportedStream::Open(const Context& context, client::Client& client,
                                                    const std::string& model,
                                                    client::StreamOptions options) {
  options.stall_timeout = context.Timeout(kCallTimeout);
  auto stream = client.OpenStream(model, options);
  if (!stream.ok()) return stream.status();
  return ReportedStream(model, *std::move(stream), context.stop);
}

ReportedStream::ReportedStream(std::string model, std::unique_ptr<client::ObservationStream> stream,
                               std::stop_token stop)
    : model_(std::move(model)),
      started_(std::chrono::steady_clock::now()),
      stream_(std::move(stream)),
      cancel_(std::make_unique<std::stop_callback<Canceller>>(std::move(stop),
                                                              Canceller{stream_.get()})) {}

double ReportedStream::settled_rows() const {
  const client::StreamCounts counts = stream_->counts();
  return static_cast<double>(counts.accepted_rows + counts.rejected_rows + counts.dropped_rows);
}

void ReportedStream::TellRejected() {
  for (const client::RejectedBatch& batch : stream_->TakeRejected()) {
    std::cerr << "calibctl: the server rejected rows " << batch.first_row << " to "
              << batch.last_row << ": ";
    if (batch.errors.empty()) std::cerr << std::string(batch.status.message());
    const char* separator = "";
    for (const client::RowError& error : batch.errors) {
      std::cerr << separator;
      if (error.row >= 0) std::cerr << "row " << error.row << ", ";
      std::cerr << error.field << " " << error.description;
      separator = "; ";
    }
    std::cerr << '\n';
  }
}

ExitCode ReportedStream::Finish(const Context& context, absl::Status sent, const Json& more) {
  if (sent.ok()) sent = stream_->Finish().status();
  TellRejected();
  const client::StreamCounts counts = stream_->counts();
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - started_;
  if (!sent.ok()) {
    const ExitCode code = Fail(sent);
    std::cerr << "calibctl: " << counts.accepted_rows
              << " rows are known to be counted; rows on their way may be too\n";
    return code;
  }
  if (context.json()) {
    Json json;
    json["model"] = model_;
    json["producer_id"] = stream_->producer_id();
    json["rows"] = counts.rows;
    json["accepted_rows"] = counts.accepted_rows;
    json["rejected_rows"] = counts.rejected_rows;
    json["dropped_rows"] = counts.dropped_rows;
    json["rejected_batches"] = counts.rejected_batches;
    json["reconnects"] = counts.reconnects;
    json["resent_batches"] = counts.resent_batches;
    json["elapsed_seconds"] = elapsed.count();
    json.update(more);
    PrintJson(json);
  } else {
    Print(absl::StrFormat("%s: %d rows accepted, %d rejected, %d dropped in %.1f s (%.0f rows/s)\n",
                          model_, counts.accepted_rows, counts.rejected_rows, counts.dropped_rows,
                          elapsed.count(),
                          static_cast<double>(counts.accepted_rows) / elapsed.count()));
  }
  return counts.rejected_rows > 0 ? ExitCode::kError : ExitCode::kOk;
}

}  // namespace calibd::cli
