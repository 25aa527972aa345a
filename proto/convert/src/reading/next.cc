#include <algorithm>
#include <functional>
#include <string>

#include "absl/strings/str_cat.h"
#include "calibd/convert/reading.h"
#include "calibd/convert/text.h"
#include "not_counted.h"
#include "words.h"

namespace calibd::convert {
namespace {

// Whoever waits for an answer has to know what it waits for. look: the command that shows it.
std::string WithoutAlarmText(const v1::GetCalibrationResponse& answer, const std::string& look) {
  const v1::Verdict& verdict = answer.verdict();
  const bool is_open = verdict.limit_status() == v1::CalibrationError::UNDECIDED ||
                       verdict.status() == v1::Verdict::INSUFFICIENT_DATA;
  const std::string waiting = WaitingText(answer);
  if (!waiting.empty() && is_open) return absl::StrCat(waiting, "; then ", look);
  if (answer.observations() == 0 && (answer.dropped_rows() > 0 || answer.rejected_rows() > 0)) {
    return absl::StrCat("the logs of the producers say why rows are dropped or rejected; then ",
                        look);
  }
  return look;
}

}  // namespace

v1::Reading::Next NextLine(const v1::GetCalibrationResponse& answer) {
  const std::string model = ShortName(answer.model());
  v1::Reading::Next line;
  const v1::Alarm* alarm = Active(answer, v1::Alarm::OVER_LIMIT);
  if (alarm == nullptr) alarm = Active(answer, v1::Alarm::EVIDENCE);
  if (alarm == nullptr) alarm = Active(answer, v1::Alarm::DRIFT);
  if (alarm == nullptr) alarm = Active(answer, v1::Alarm::CHANGED);
  const std::string look = absl::StrCat("calibctl show ", model, " --verbose");
  if (alarm == nullptr) {
    line.add_commands(look);
    line.set_text(WithoutAlarmText(answer, look));
    return line;
  }
  const std::string acknowledge =
      absl::StrCat("calibctl acknowledge ", model, " ", alarm->id(), " --note \"...\"");
  // An acknowledgement accepts the error, so a person looks at it first. Evidence cannot be
  // accepted: it begins again, and so does its alarm if nothing was repaired.
  const bool is_about_limit = alarm->kind() == v1::Alarm::OVER_LIMIT;
  const bool is_over =
      answer.verdict().limit_status() == v1::CalibrationError::OVER_LIMIT || !is_about_limit;
  const bool is_acceptable = is_about_limit || alarm->kind() == v1::Alarm::CHANGED;
  const bool looks_first = is_over && !answer.verdict().is_recovered();
  line.add_commands(looks_first ? look : acknowledge);
  line.add_commands(looks_first ? acknowledge : look);
  const auto active =
      std::ranges::count_if(answer.alarms(), std::not_fn(&v1::Alarm::has_acknowledge_time));
  const bool is_swapped = IsWorseThanChance(Current(answer.error()), ClassCount(answer));
  line.set_text(absl::StrCat(
      is_swapped ? absl::StrCat("check ", std::string(kSwappedColumns), "; ") : "",
      line.commands(0),
      !looks_first    ? "; "
      : is_acceptable ? "; when it is repaired or accepted: "
                      : "; when it is repaired: ",
      line.commands(1),
      active > 1 ? absl::StrCat(" (", active, " alarms are active: calibctl alarms ", model, ")")
                 : ""));
  return line;
}

}  // namespace calibd::convert
