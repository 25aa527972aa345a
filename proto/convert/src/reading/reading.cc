#include "calibd/convert/reading.h"

#include <utility>

#include "severity.h"
#include "words.h"

namespace calibd::convert {
namespace {

// Leaves a line without words unset.
void Set(std::string text, v1::Reading& reading, v1::Reading::Line* (v1::Reading::*line)()) {
  if (!text.empty()) (reading.*line)()->set_text(std::move(text));
}

}  // namespace

v1::Reading HeadlinesOf(const v1::GetCalibrationResponse& answer) {
  v1::Reading reading;
  Set(VerdictLine(answer), reading, &v1::Reading::mutable_verdict);
  if (auto line = HowBadLine(answer); !line.text().empty()) {
    *reading.mutable_how_bad() = std::move(line);
  }
  Set(NowLine(answer), reading, &v1::Reading::mutable_now);
  if (reading.has_now()) {
    const v1::CalibrationError& error = answer.error();
    *reading.mutable_how_bad()->mutable_newest() =
        *LeadingEvent(error.newest(), error.limit(), Current(error)).interval;
    reading.mutable_how_bad()->set_newest_subject(NewestSubject(answer));
  }
  const v1::Reading::HowBad& error = reading.how_bad();
  // The newest rows say nothing of a group or a label by itself.
  const bool says_now = error.has_newest() && error.newest_subject() == error.subject();
  reading.set_severity(SeverityOf(answer, says_now ? error.newest() : error.interval()));
  *reading.mutable_next() = NextLine(answer);
  Set(WarningLine(answer), reading, &v1::Reading::mutable_warning);
  return reading;
}

v1::Reading ReadingOf(const v1::GetCalibrationResponse& answer,
                      const google::protobuf::Timestamp& now) {
  v1::Reading reading = HeadlinesOf(answer);
  Set(AgainstLine(answer), reading, &v1::Reading::mutable_against);
  Set(DataLine(answer, now), reading, &v1::Reading::mutable_data);
  if (!answer.has_verdict()) return reading;
  Set(WhereLine(answer), reading, &v1::Reading::mutable_where);
  Set(DecisionLine(answer), reading, &v1::Reading::mutable_decision);
  if (auto line = ChangedLine(answer); !line.text().empty()) {
    *reading.mutable_changed() = std::move(line);
  }
  Set(RepairLine(answer), reading, &v1::Reading::mutable_repair);
  Set(CertainLine(answer), reading, &v1::Reading::mutable_certain);
  return reading;
}

}  // namespace calibd::convert
