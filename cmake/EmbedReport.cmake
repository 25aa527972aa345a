# Writes OUTPUT, a C++ source with FILE, the HTML of a report:
#   cmake -D FILE=page/dist/report.html -D OUTPUT=report_template.cc -P EmbedReport.cmake
include(${CMAKE_CURRENT_LIST_DIR}/EmbedBytes.cmake)
set(arrays)
add_array(kReportTemplate ${FILE})
file(WRITE ${OUTPUT} "#include \"client/cli/files/report_file.h\"\n\nnamespace calibd::cli {\nnamespace {\n\n"
  "${arrays}\n}  // namespace\n\n"
  "std::string_view ReportTemplate() { return {kReportTemplate, sizeof(kReportTemplate)}; }\n\n"
  "}  // namespace calibd::cli\n")
