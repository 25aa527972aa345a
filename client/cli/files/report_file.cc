#include "client/cli/files/report_file.h"

#include <filesystem>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "calibd/core/status_macros.h"
#include "client/cli/files/output_file.h"
#include "google/protobuf/util/time_util.h"

namespace calibd::cli {

absl::StatusOr<std::size_t> WriteReport(const std::string& path, convert::Json data) {
  using google::protobuf::util::TimeUtil;
  data["createTime"] = TimeUtil::ToString(TimeUtil::GetCurrentTime());
  // The data end at "</script>", whatever it means in them.
  const std::string text = absl::StrReplaceAll(
      data.dump(-1, ' ', false, convert::Json::error_handler_t::replace), {{"<", "\\u003c"}});
  std::string report(ReportTemplate());
  absl::StrAppend(&report, text, "</script>\n");
  CALIBD_RETURN_IF_ERROR(WriteFile(path, report));
  return report.size();
}

void AddReportOption(CLI::App& command, std::string& path) {
  command
      .add_option("--report", path,
                  "also write the evaluation to this file as HTML with charts, which needs no "
                  "network; a file is replaced")
      ->check(InExistingFolder());
}

absl::Status ReportEvaluation(const std::string& path, const std::string& file, const char* kind,
                              const google::protobuf::Message& answer) {
  if (path.empty()) return absl::OkStatus();
  const std::string name = std::filesystem::path(file).filename().string();
  return WriteReport(path, {{"name", name == "-" ? "standard input" : name},
                            {kind, convert::ToJson(answer)}})
      .status();
}

}  // namespace calibd::cli
