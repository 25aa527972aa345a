#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "calibd/convert/reading.h"
#include "calibd/convert/text.h"
#include "words.h"

namespace calibd::convert {

v1::Reading::Next NextLine(const v1::GetCalibrationResponse& answer) {
  const std::string model = ShortName(answer.model());
  v1::Reading::Next line;
  const v1::Alarm* alarm = Active(answer, v1::Alarm::OVER_LIMIT);
  if (alarm == nullptr) alarm = Active(answer, v1::Alarm::EVIDENCE);
  if (alarm == nullptr) alarm = Active(answer, v1::Alarm::DRIFT);
  if (alarm != nullptr) {
    line.add_commands(
        absl::StrCat("calibctl acknowledge ", model, " ", alarm->id(), " --note \"...\""));
  }
  line.add_commands(absl::StrCat("calibctl show ", model, " --verbose"));
  line.set_text(absl::StrJoin(line.commands(), "; "));
  return line;
}

}  // namespace calibd::convert
