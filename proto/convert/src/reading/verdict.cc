#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "calibd/convert/reading.h"
#include "calibd/convert/text.h"
#include "limit_alarm.h"
#include "words.h"

namespace calibd::convert {
namespace {

// How far off the model itself is, and which of its groups or labels are over their limits.
// is_single_label: of a model of one label, whose error is that of the model.
std::string LimitText(const v1::Verdict& verdict, const v1::CalibrationError& error,
                      bool is_single_label) {
  const bool of_labels = !verdict.labels_over_limit().empty() && !is_single_label;
  const auto& over = of_labels ? verdict.labels_over_limit() : verdict.groups_over_limit();
  const bool own = over.empty() || error.status() == v1::CalibrationError::OVER_LIMIT;
  std::string text = StatusName(verdict.limit_status());
  if (own && error.is_acknowledged()) text += " (acknowledged)";
  if (over.empty()) return text;
  std::vector<std::string> groups;
  for (const std::string& name : over) {
    groups.push_back(CutName(of_labels ? name : GroupName(name, false)));
  }
  const bool group_is_active = error.is_acknowledged() && !verdict.is_acknowledged();
  if (own) text += group_is_active ? ", OVER_LIMIT" : ", also";
  absl::StrAppend(&text, of_labels ? " in label" : " in group", groups.size() == 1 ? " " : "s ",
                  JoinNames(groups, kMaxNames));
  if (!own && verdict.is_acknowledged()) text += " (acknowledged)";
  return text;
}

// The groups, classes and labels that e-BH rejects: "groups b, a and class 1". Empty without one.
std::string RejectedText(const v1::GetCalibrationResponse& answer) {
  std::vector<std::string> parts;
  const auto add = [&parts](const char* one, const char* several,
                            const std::vector<std::string>& names, std::size_t more) {
    if (names.empty()) return;
    parts.push_back(absl::StrCat(names.size() + more == 1 ? one : several, " ",
                                 JoinNames(names, kMaxNames, more)));
  };
  std::vector<std::string> groups;
  for (const std::string& name : answer.verdict().rejected_groups()) {
    groups.push_back(CutName(name));
  }
  add("group", "groups", groups, 0);
  std::vector<std::string> classes;
  for (const auto* const share : RejectedClasses(answer)) classes.push_back(ClassName(*share));
  const v1::Whereabouts& whereabouts = answer.verdict().whereabouts();
  if (AreAllRejected(whereabouts)) {
    parts.push_back(absl::StrCat("all ", whereabouts.class_count(), " classes"));
  } else {
    add("class", "classes", classes, UnknownRejectedClasses(answer));
  }
  std::vector<std::string> labels;
  for (const std::string& name : answer.labels().rejected()) labels.push_back(CutName(name));
  add("label", "labels", labels, 0);
  return absl::StrJoin(parts, " and ");
}

std::string SinceText(const google::protobuf::Timestamp& time, std::int64_t observation) {
  return absl::StrCat(" since ", MinuteText(time), " (row ", observation, ")");
}

}  // namespace

std::string VerdictLine(const v1::GetCalibrationResponse& answer) {
  if (!answer.has_verdict()) return "not monitored, so there is no verdict";
  const v1::Verdict& verdict = answer.verdict();
  const bool also_stale = verdict.stale() && verdict.status() != v1::Verdict::STALE;
  const std::string status =
      absl::StrCat(StatusName(verdict.status()), also_stale ? ", STALE" : "");
  // After a person has raised the limit, an alarm may be active although nothing is over it.
  const v1::Alarm* const over = verdict.limit_status() == v1::CalibrationError::OVER_LIMIT
                                    ? FirstLimitAlarm(answer, AlarmsOf::kAll)
                                    : nullptr;
  std::string text;
  if (verdict.limit_status() != v1::CalibrationError::UNSPECIFIED) {
    absl::StrAppend(&text, LimitText(verdict, answer.error(), answer.labels().labels_size() == 1));
    if (over != nullptr) text += SinceText(over->raise_time(), over->observation());
    if (verdict.is_recovered()) {
      text += ", recovered";
      if (answer.error().is_recovered()) {
        absl::StrAppend(&text, " since row ", answer.error().newest().first_observation());
      }
      text += " (the gate over-limit fails until its alarms are acknowledged)";
    }
    text += ", ";
  }
  text += status;
  if (over == nullptr && verdict.has_since()) {
    text += SinceText(verdict.since(), verdict.since_observation());
  }
  // The answer for the model as a whole must not hide its parts.
  if (verdict.status() == v1::Verdict::MISCALIBRATED) return text;
  const std::string rejected = RejectedText(answer);
  if (rejected.empty()) return text;
  return absl::StrCat(text, " as a whole, but rejected for ", rejected);
}

}  // namespace calibd::convert
