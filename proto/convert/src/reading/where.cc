#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "calibd/convert/reading.h"
#include "calibd/convert/text.h"
#include "words.h"

namespace calibd::convert {
namespace {

// About two lines of a screen.
constexpr std::size_t kMostCharacters = 175;

// Places of a kind, the most important first.
struct Places {
  std::string title;
  std::vector<std::string> names;
  // Number of further places, whose names are not known.
  std::size_t more = 0;
  // Whether they are found in the rows of the evidence, and not in those of the error.
  bool is_of_evidence = false;
  // Whether it names no place, and is left out before any name.
  bool is_expendable = false;
};

constexpr const char* kNotMeasured = " (not measured yet since the acknowledgement or update)";

// "group eu 5.2 points off (3.1 to 8)", or of two classes "group eu P(yes) 17 points off (5.1 to
// 29; says 50.0 %, is 67.0 %)". event: without an interval if there are no observations since an
// acknowledgement or an update.
std::string OffPlace(std::string name, const NamedEvent& event) {
  if (event.interval == nullptr) return absl::StrCat(name, kNotMeasured);
  const v1::ErrorInterval& interval = *event.interval;
  if (!event.name.empty()) absl::StrAppend(&name, " ", absl::StripSuffix(event.name, " "));
  if (SaysLittle(interval.lower(), interval.upper())) {
    return absl::StrCat(name, " 0 to ", PointsText(interval.upper()),
                        " off (too few rows to say more)");
  }
  const std::string says = event.name.empty() || !interval.has_stated()
                               ? ""
                               : absl::StrCat("says ", Percent(interval.stated(), 1), ", is ",
                                              Percent(FrequencyOf(interval), 1));
  if (interval.lower() <= 0) {
    return absl::StrCat(name, " 0 to ", PointsText(interval.upper()), " off",
                        says.empty() ? "" : absl::StrCat(" (", says, ")"));
  }
  return absl::StrCat(name, " ", PointsText(interval.estimate()), " off (",
                      Points(interval.lower()), " to ", Points(interval.upper()),
                      says.empty() ? "" : "; ", says, ")");
}

// What happened since the alarm, by the rows since then; 0 if it did not. change: of the model.
std::string SinceAlarmText(std::int64_t recovered_since, std::int64_t over_again_since,
                           const v1::DatedChange& change) {
  if (recovered_since > 0) return absl::StrCat(", ", RecoveredText(recovered_since, change));
  return over_again_since > 0 ? absl::StrCat(", over again since row ", over_again_since) : "";
}

std::string GroupPlace(const v1::GroupWatch& group, const v1::DatedChange& change) {
  const v1::CalibrationError& error = group.error();
  const std::string place =
      OffPlace(absl::StrCat("group ", CutName(GroupName(group.value(), group.overflow()))),
               WorstEvent(Current(error)));
  if (error.status() != v1::CalibrationError::OVER_LIMIT) return place + ", rejected";
  return place + SinceAlarmText(error.is_recovered() ? error.newest().first_observation() : 0,
                                error.over_again_since(), change);
}

// The labels over their limits, the worst first, and the others that are rejected.
std::pair<Places, Places> LabelPlaces(const v1::GetCalibrationResponse& answer) {
  Places over;
  Places rejected;
  std::vector<std::string> unmeasured;
  for (const v1::LabelCalibration* const label : WorstFirst(answer.labels())) {
    const std::string name = CutName(label->name());
    const bool is_over = label->status() == v1::CalibrationError::OVER_LIMIT;
    if (is_over && !label->has_error()) {
      unmeasured.push_back(name);
    } else if (is_over) {
      over.names.push_back(
          OffPlace(absl::StrCat("label ", name), {.name = "", .interval = &label->error()}));
      over.names.back() += SinceAlarmText(label->recovered_since(), label->over_again_since(),
                                          answer.error().change());
    } else if (label->rejected()) {
      rejected.names.push_back(name);
    }
  }
  if (!unmeasured.empty()) {
    over.names.push_back(absl::StrCat(unmeasured.size() == 1 ? "label " : "labels ",
                                      JoinNames(unmeasured, kMaxNames), kNotMeasured));
  }
  rejected.title = rejected.names.size() == 1 ? "rejected for label " : "rejected for labels ";
  return {over, rejected};
}

// The groups that are over their limits or rejected, in the order of the answer: rejected ones
// first, and then by their error.
Places GroupPlaces(const v1::GetCalibrationResponse& answer) {
  Places places;
  for (const v1::GroupWatch& group : answer.groups()) {
    const bool is_over = group.error().status() == v1::CalibrationError::OVER_LIMIT;
    if (is_over || group.rejected()) {
      places.names.push_back(GroupPlace(group, answer.error().change()));
    }
  }
  return places;
}

std::string SharePlace(const v1::Whereabouts::ClassShare& share) {
  return absl::StrCat(ClassName(share), " (says ", Percent(share.predicted(), 1), ", is ",
                      Percent(share.observed(), 1), ")");
}

// The classes that are rejected, and the others whose frequencies stand out.
std::pair<Places, Places> ClassPlaces(const v1::GetCalibrationResponse& answer) {
  Places rejected;
  const v1::Whereabouts& whereabouts = answer.verdict().whereabouts();
  const bool all = AreAllRejected(whereabouts);
  // Of two classes, both shares say the same.
  const bool is_binary = whereabouts.class_count() == 2;
  // Of a model that is off everywhere, a share that is off by little is not the place to look at.
  const bool names_small_shares =
      is_binary || 2 * whereabouts.rejected_classes() <= whereabouts.class_count();
  const auto is_off = [&](const v1::Whereabouts::ClassShare& share) {
    const double size = std::abs(share.predicted() - share.observed());
    return share.stands_out() && (names_small_shares || size > answer.error().limit());
  };
  if (!all) {
    for (const auto* const share : RejectedClasses(answer)) {
      rejected.names.push_back(is_off(*share) ? SharePlace(*share) : ClassName(*share));
    }
    rejected.more = UnknownRejectedClasses(answer);
    rejected.title = absl::StrCat("rejected for class",
                                  rejected.names.size() + rejected.more == 1 ? " " : "es ");
  }
  Places frequencies;
  for (const auto& share : whereabouts.classes()) {
    if (is_binary && share.class_index() == 0) continue;
    if (share.rejected() ? all && is_off(share) : share.stands_out()) {
      frequencies.names.push_back(SharePlace(share));
    }
  }
  frequencies.title = frequencies.names.size() == 1 ? "class " : "classes ";
  return {rejected, frequencies};
}

// The rows of the evidence, if they are others than those of the error, which the answer gives
// first.
std::string RowsText(const v1::GetCalibrationResponse& answer) {
  const std::int64_t first = answer.watch().first_observation();
  const v1::CalibrationError& error = answer.error();
  const bool differ = first > 0 && first != Current(error).first_observation();
  return error.is_recovered() || differ ? absl::StrCat(" (over all rows since row ", first, ")")
                                        : "";
}

Places BinPlaces(const v1::Whereabouts& whereabouts) {
  Places places;
  if (const auto* const worst = WorstPlace(whereabouts.confidence_bins())) {
    places.names.push_back(absl::StrFormat(
        "confidence %.3g to %.3g %%: says %s, right %s (%d rows)", 100 * worst->lower(),
        100 * worst->upper(), Percent(worst->mean_confidence(), 1), Percent(worst->accuracy(), 1),
        worst->observations()));
  }
  return places;
}

// Leaves out whole names, then whole kinds of places, until the text is short. evidence_rows: is
// appended if places of the evidence remain.
std::string PlacesText(std::vector<Places> places, const std::string& evidence_rows) {
  std::size_t names = kMaxNames;
  while (true) {
    std::string text = absl::StrJoin(places, "; ", [&](std::string* out, const Places& kind) {
      absl::StrAppend(out, kind.title, JoinNames(kind.names, names, kind.more));
    });
    if (text.size() <= kMostCharacters || (names == 1 && places.size() == 1)) {
      return std::ranges::any_of(places, &Places::is_of_evidence) ? text + evidence_rows : text;
    }
    if (std::erase_if(places, [](const Places& kind) { return kind.is_expendable; }) > 0) continue;
    if (names > 1) {
      --names;
    } else {
      places.pop_back();
    }
  }
}

}  // namespace

std::string WhereLine(const v1::GetCalibrationResponse& answer) {
  const v1::Whereabouts& whereabouts = answer.verdict().whereabouts();
  auto [labels, rejected_labels] = LabelPlaces(answer);
  auto [rejected_classes, frequencies] = ClassPlaces(answer);
  Places cells;
  cells.names = CellTexts(whereabouts.cells(), 1);
  Places all_classes;
  if (AreAllRejected(whereabouts) && whereabouts.class_count() > 2) {
    all_classes.names.push_back(
        absl::StrCat("rejected for all ", whereabouts.class_count(), " classes"));
    all_classes.is_expendable = true;
  }
  const LevelCoverages& all_levels = Current(answer.error()).level_coverage();
  Places levels;
  levels.names = WrongLevelNames(all_levels);
  levels.title = WrongLevelsTitle(levels.names);
  std::vector<Places> places = {GroupPlaces(answer), std::move(labels), std::move(rejected_labels),
                                std::move(levels)};
  for (Places& kind :
       std::vector<Places>{std::move(rejected_classes), BinPlaces(whereabouts), std::move(cells),
                           std::move(all_classes), std::move(frequencies)}) {
    kind.is_of_evidence = true;
    places.push_back(std::move(kind));
  }
  std::erase_if(places, [](const Places& kind) { return kind.names.empty(); });
  if (!places.empty()) return PlacesText(std::move(places), RowsText(answer));
  // Without bins, cells and levels, no row was examined.
  return whereabouts.confidence_bins().empty() && whereabouts.cells().empty() &&
                 all_levels.empty() && answer.labels().truths() == 0
             ? ""
             : "nothing stands out";
}

}  // namespace calibd::convert
