#ifndef CALIBD_CLIENT_CLI_FILES_REPORT_FILE_H_
#define CALIBD_CLIENT_CLI_FILES_REPORT_FILE_H_

#include <cstddef>
#include <string>
#include <string_view>

#include "CLI/CLI.hpp"
#include "absl/status/statusor.h"
#include "calibd/convert/json.h"

namespace calibd::cli {

// Reports: the views of the server's page in a file that needs no server. page/src/report/data.ts
// says what the data are.

// The HTML of a report before its data, which is generated from page/dist/report.html.
[[nodiscard]] std::string_view ReportTemplate();

// Writes a report and returns its size in bytes. data: without the time. Errors: as WriteFile.
[[nodiscard]] absl::StatusOr<std::size_t> WriteReport(const std::string& path, convert::Json data);

// Adds --report, which names the report of an evaluation. path: must outlive the command.
void AddReportOption(CLI::App& command, std::string& path);

// Writes what --report asks for. path: empty for no report. file: what was evaluated, whose name
// the report has, or the name of a model. kind: the member of the data, "evaluation" or "labels".
// Errors: as WriteFile.
[[nodiscard]] absl::Status ReportEvaluation(const std::string& path, const std::string& file,
                                            const char* kind,
                                            const google::protobuf::Message& answer);

}  // namespace calibd::cli

#endif  // CALIBD_CLIENT_CLI_FILES_REPORT_FILE_H_
