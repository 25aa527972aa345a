#ifndef CALIBD_CLIENT_CLI_REPORTS_STREAM_REPORT_H_
#define CALIBD_CLIENT_CLI_REPORTS_STREAM_REPORT_H_

#include <chrono>
#include <string>

#include "calibd/client/observation_stream.h"
#include "client/cli/commands/command.h"
#include "client/cli/output.pb.h"

namespace calibd::cli {

// The content of a stream.
enum class StreamContent { kRows, kRowsWithIds, kLabels };

// The common part of `send`, `label` and `simulate`: a stream that Ctrl-C cancels, and whose
// rejected batches are reported on standard error.
class ReportedStream {
 public:
  [[nodiscard]] static absl::StatusOr<ReportedStream> Open(const Context& context,
                                                           client::Client& client,
                                                           const std::string& model,
                                                           client::StreamOptions options,
                                                           StreamContent content);

  [[nodiscard]] client::ObservationStream& stream() { return *stream_; }

  // Rows or labels that the server has settled, for a progress bar.
  [[nodiscard]] double settled() const;

  // Reports the batches rejected since the last call, the first ones of the stream one by one.
  void TellRejected();

  // Whether a batch was rejected for a reason that is not in its rows, such as ids without a label
  // grace, which the other batches share.
  [[nodiscard]] bool all_rejected() const { return all_rejected_; }

  // If `sent` is OK, finishes the stream and prints the counts; otherwise prints the error and how
  // much was sent. Returns kError if something failed or was rejected, or if no label belongs to a
  // prediction. more: added at the end of the JSON.
  [[nodiscard]] ExitCode Finish(const Context& context, absl::Status sent,
                                const Json& more = Json::object());

 private:
  ReportedStream(std::string model, std::unique_ptr<client::ObservationStream> stream,
                 std::stop_token stop, StreamContent content);

  // Says why no label of the finished stream belongs to a prediction. False if one does.
  [[nodiscard]] bool TellUnmatched() const;
  // Says that all rows were invalid and left out. False if one was not, or there were none.
  [[nodiscard]] bool TellAllDropped() const;
  // The counts of the finished stream.
  [[nodiscard]] Json CountsJson(double elapsed_seconds) const;
  [[nodiscard]] std::string CountsText(double elapsed_seconds) const;

  struct Canceller {
    client::ObservationStream* stream;
    void operator()() const { stream->Cancel(); }
  };

  std::string model_;
  StreamContent content_;
  std::chrono::steady_clock::time_point started_;
  std::unique_ptr<client::ObservationStream> stream_;
  std::unique_ptr<std::stop_callback<Canceller>> cancel_;
  std::int64_t told_rejections_ = 0;
  bool all_rejected_ = false;
};

}  // namespace calibd::cli

#endif  // CALIBD_CLIENT_CLI_REPORTS_STREAM_REPORT_H_
