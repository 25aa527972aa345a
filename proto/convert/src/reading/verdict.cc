#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "calibd/convert/reading.h"
#include "calibd/convert/text.h"
#include "limit_alarm.h"
#include "not_counted.h"
#include "words.h"

namespace calibd::convert {
namespace {

// row: since which an error that had recovered is over its limit again; 0 if it is not.
std::string AgainText(std::int64_t row) {
  return row > 0 ? absl::StrCat(", again since row ", row) : "";
}

// When the alarm was raised, which is later than the error began; `changed` dates that. Empty for
// null.
std::string RaisedText(const v1::Alarm* alarm) {
  return alarm == nullptr ? ""
                          : ", alarm on " + TimeOfRow(alarm->raise_time(), alarm->observation());
}

// A group or label over its limit.
struct PartOver {
  std::string name;
  // Null if it is acknowledged.
  const v1::Alarm* alarm = nullptr;
  std::int64_t again_since = 0;
};

// Those that are not acknowledged come first; of each kind, the one that is off by most.
std::vector<PartOver> PartsOver(const v1::GetCalibrationResponse& answer, bool of_labels) {
  std::map<std::string, std::int64_t> again_since;
  for (const v1::GroupWatch& group : answer.groups()) {
    again_since[GroupName(group.value(), group.overflow())] = group.error().over_again_since();
  }
  for (const v1::LabelCalibration& label : answer.labels().labels()) {
    again_since[label.name()] = label.over_again_since();
  }
  const std::map<std::string, const v1::Alarm*> alarms = LimitAlarmsOfParts(answer);
  std::vector<PartOver> parts;
  for (const std::string& over :
       of_labels ? answer.verdict().labels_over_limit() : answer.verdict().groups_over_limit()) {
    const std::string name = of_labels ? over : GroupName(over, false);
    const auto alarm = alarms.find(name);
    parts.push_back({.name = CutName(name),
                     .alarm = alarm == alarms.end() ? nullptr : alarm->second,
                     .again_since = again_since[name]});
  }
  std::stable_partition(parts.begin(), parts.end(),
                        [](const PartOver& part) { return part.alarm != nullptr; });
  return parts;
}

// The alarm that was raised at the first row, or null.
const v1::Alarm* FirstAlarm(const std::vector<PartOver>& parts) {
  const v1::Alarm* first = nullptr;
  for (const PartOver& part : parts) {
    if (part.alarm == nullptr) continue;
    if (first == nullptr || part.alarm->observation() < first->observation()) first = part.alarm;
  }
  return first;
}

// How far off the model itself is, and which of its groups or labels are over their limits, each
// with its alarm. is_single_label: of a model of one label, whose error is that of the model.
std::string LimitText(const v1::GetCalibrationResponse& answer, bool is_single_label) {
  const v1::Verdict& verdict = answer.verdict();
  const v1::CalibrationError& error = answer.error();
  const bool of_labels = !verdict.labels_over_limit().empty() && !is_single_label;
  const std::vector<PartOver> parts = PartsOver(answer, of_labels);
  const bool own = parts.empty() || error.status() == v1::CalibrationError::OVER_LIMIT;
  std::string text = StatusName(verdict.limit_status());
  if (own && error.is_acknowledged()) {
    text += " (acknowledged)";
  } else if (own && verdict.limit_status() == v1::CalibrationError::OVER_LIMIT) {
    // After a person has raised the limit, an alarm may be active although nothing is over it.
    text +=
        RaisedText(FirstLimitAlarm(answer, AlarmsOf::kModel)) + AgainText(error.over_again_since());
  }
  if (parts.empty()) return text;
  const bool is_news = !own || (error.is_acknowledged() && !verdict.is_acknowledged());
  // One row is enough where the sentence is about one part.
  const bool has_own_rows = parts.size() > 1 || !is_news;
  std::vector<std::string> names;
  for (const PartOver& part : parts) {
    std::string& name = names.emplace_back(part.name);
    if (part.alarm == nullptr) {
      if (!verdict.is_acknowledged()) name += " (acknowledged)";
    } else if (has_own_rows) {
      absl::StrAppend(&name, " (alarm at row ", part.alarm->observation(),
                      AgainText(part.again_since), ")");
    }
  }
  if (own) text += is_news ? ", OVER_LIMIT" : ", also";
  absl::StrAppend(&text, of_labels ? " in label" : " in group", names.size() == 1 ? " " : "s ",
                  JoinNames(names, kMaxNames));
  if (verdict.is_acknowledged()) {
    return text + (own && names.size() > 1 ? " (all acknowledged)" : " (acknowledged)");
  }
  if (!is_news) return text;
  const v1::Alarm* const first = FirstAlarm(parts);
  if (!has_own_rows) {
    return absl::StrCat(text, RaisedText(first), AgainText(parts.front().again_since));
  }
  if (first == nullptr) return text;
  return absl::StrCat(text, ", first alarm on ",
                      TimeOfRow(first->raise_time(), first->observation()));
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
  for (const auto* const label : WorstFirst(answer.labels())) {
    if (label->rejected()) labels.push_back(CutName(label->name()));
  }
  add("label", "labels", labels, 0);
  return absl::StrJoin(parts, " and ");
}

}  // namespace

std::string VerdictLine(const v1::GetCalibrationResponse& answer) {
  if (!answer.has_verdict()) return "not monitored, so there is no verdict";
  const v1::Verdict& verdict = answer.verdict();
  const bool has_alarm = verdict.limit_status() == v1::CalibrationError::OVER_LIMIT &&
                         FirstLimitAlarm(answer, AlarmsOf::kAll) != nullptr;
  std::string text;
  if (verdict.limit_status() != v1::CalibrationError::UNSPECIFIED) {
    text = LimitText(answer, answer.labels().labels_size() == 1);
    if (verdict.is_recovered()) {
      text += ", recovered";
      if (answer.error().is_recovered()) text += SinceText(answer.error().newest());
      text += " (the gate over-limit fails until its alarms are acknowledged)";
    }
    text += ", ";
  }
  text += StatusName(verdict.status());
  const bool is_stale = verdict.status() == v1::Verdict::STALE;
  if (!has_alarm && verdict.has_since()) {
    absl::StrAppend(&text, is_stale ? " since " : ", alarm on ",
                    TimeOfRow(verdict.since(), verdict.since_observation()));
  }
  if (verdict.stale() && !is_stale) text += ", STALE";
  if (verdict.reference_status() == v1::ReferenceChange::CHANGED) {
    text += ", CHANGED since the reference";
  }
  // The answer for the model as a whole must not hide its parts.
  if (answer.observations() == 0) {
    if (const std::string reason = NotCountedText(answer); !reason.empty()) {
      return absl::StrCat(text, ": no row is counted, because ", reason);
    }
  }
  if (verdict.status() == v1::Verdict::MISCALIBRATED) return text;
  const std::string rejected = RejectedText(answer);
  if (rejected.empty()) return text;
  const bool is_not_rejected = verdict.status() == v1::Verdict::NOT_REJECTED;
  return absl::StrCat(text, is_not_rejected ? " as a whole, but rejected for " : "; rejected for ",
                      rejected);
}

}  // namespace calibd::convert
