#ifndef CALIBD_CLIENT_CLI_REPORTS_COLOR_H_
#define CALIBD_CLIENT_CLI_REPORTS_COLOR_H_

#include <string>
#include <string_view>

namespace calibd::cli {

// Returns a text for people with its statuses in colours, for a terminal: red is over the limit or
// rejected, yellow is a warning or not known yet, green is within the limit. The words stay, so the
// colours tell nothing that the text does not. text: complete lines, already as wide as they may
// be, because the escape sequences take no column.
[[nodiscard]] std::string PaintStatuses(std::string_view text);

// Does the same with a reading, and paints its titles too: that of a warning yellow, others dim.
[[nodiscard]] std::string PaintReading(std::string_view text);

}  // namespace calibd::cli

#endif  // CALIBD_CLIENT_CLI_REPORTS_COLOR_H_
