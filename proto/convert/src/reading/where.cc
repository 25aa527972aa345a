#include <algorithm>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
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
};

// "group eu 5.2 points off (3.1 to 8)". interval: null without observations since an
// acknowledgement or an update.
std::string OffPlace(const std::string& name, const v1::ErrorInterval* measured,
                     bool since_acknowledgement) {
  if (measured == nullptr) {
    return absl::StrCat(name, " (not measured yet since the ",
                        since_acknowledgement ? "acknowledgement)" : "update)");
  }
  const v1::ErrorInterval& interval = *measured;
  if (SaysLittle(interval.lower(), interval.upper())) {
    return absl::StrCat(name, " 0 to ", PointsText(interval.upper()),
                        " off (too few rows to say more)");
  }
  return absl::StrCat(name, " ", PointsText(interval.estimate()), " off (",
                      Points(interval.lower()), " to ", Points(interval.upper()), ")");
}

std::string RecoveredText(std::int64_t row) { return absl::StrCat(", recovered since row ", row); }

std::string GroupPlace(const v1::GroupWatch& group) {
  const v1::CalibrationError& error = group.error();
  const std::string place =
      OffPlace(absl::StrCat("group ", CutName(GroupName(group.value(), group.overflow()))),
               IntervalOf(Current(error)), error.has_since_acknowledgement());
  return error.is_recovered() ? place + RecoveredText(error.newest().first_observation()) : place;
}

// The labels over their limits, the worst first, and the others that are rejected.
std::pair<Places, Places> LabelPlaces(const v1::MultilabelCalibration& labels) {
  std::vector<const v1::LabelCalibration*> sorted;
  for (const v1::LabelCalibration& label : labels.labels()) sorted.push_back(&label);
  std::ranges::stable_sort(sorted, std::greater<>(), [](const v1::LabelCalibration* label) {
    return label->error().lower();
  });
  Places over;
  Places rejected;
  for (const v1::LabelCalibration* const label : sorted) {
    const std::string name = CutName(label->name());
    if (label->status() == v1::CalibrationError::OVER_LIMIT) {
      over.names.push_back(OffPlace(absl::StrCat("label ", name),
                                    label->has_error() ? &label->error() : nullptr,
                                    label->has_since_observation()));
      if (label->has_recovered_since()) {
        over.names.back() += RecoveredText(label->recovered_since());
      }
    } else if (label->rejected()) {
      rejected.names.push_back(name);
    }
  }
  rejected.title = rejected.names.size() == 1 ? "rejected for label " : "rejected for labels ";
  return {over, rejected};
}

// The groups over their limits, and the others that are rejected.
std::pair<Places, Places> GroupPlaces(const v1::GetCalibrationResponse& answer) {
  Places over;
  Places rejected;
  for (const v1::GroupWatch& group : answer.groups()) {
    if (group.error().status() == v1::CalibrationError::OVER_LIMIT) {
      over.names.push_back(GroupPlace(group));
    } else if (group.rejected()) {
      rejected.names.push_back(CutName(GroupName(group.value(), group.overflow())));
    }
  }
  rejected.title = rejected.names.size() == 1 ? "rejected for group " : "rejected for groups ";
  return {over, rejected};
}

// The classes whose frequencies stand out, and the others that are rejected.
std::pair<Places, Places> ClassPlaces(const v1::Whereabouts& whereabouts) {
  Places frequencies;
  Places rejected;
  std::int64_t known = 0;
  for (const auto& share : whereabouts.classes()) {
    const std::string name = share.class_name().empty() ? absl::StrCat(share.class_index())
                                                        : CutName(share.class_name());
    known += share.rejected() ? 1 : 0;
    if (share.stands_out()) {
      frequencies.names.push_back(absl::StrFormat("%s (says %.1f %%, is %.1f %%)", name,
                                                  100 * share.predicted(), 100 * share.observed()));
    } else if (share.rejected()) {
      rejected.names.push_back(name);
    }
  }
  rejected.more =
      static_cast<std::size_t>(std::max<std::int64_t>(0, whereabouts.rejected_classes() - known));
  frequencies.title = frequencies.names.size() == 1 ? "class " : "classes ";
  rejected.title =
      absl::StrCat("rejected for class", rejected.names.size() + rejected.more == 1 ? " " : "es ");
  return {frequencies, rejected};
}

Places BinPlaces(const v1::Whereabouts& whereabouts) {
  Places places;
  if (const auto* const worst = WorstPlace(whereabouts.confidence_bins())) {
    places.names.push_back(
        absl::StrFormat("confidence %.2f to %.2f: says %.1f %%, right %.1f %% (%d rows)",
                        worst->lower(), worst->upper(), 100 * worst->mean_confidence(),
                        100 * worst->accuracy(), worst->observations()));
  }
  return places;
}

// Leaves out whole names, then whole kinds of places, until the text is short.
std::string PlacesText(std::vector<Places> places) {
  std::size_t names = kMaxNames;
  while (true) {
    std::string text = absl::StrJoin(places, "; ", [&](std::string* out, const Places& kind) {
      absl::StrAppend(out, kind.title, JoinNames(kind.names, names, kind.more));
    });
    if (text.size() <= kMostCharacters || (names == 1 && places.size() == 1)) return text;
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
  auto [over, rejected_groups] = GroupPlaces(answer);
  auto [labels, rejected_labels] = LabelPlaces(answer.labels());
  auto [frequencies, rejected_classes] = ClassPlaces(whereabouts);
  Places cells;
  cells.names = CellTexts(whereabouts.cells(), 1);
  std::vector<Places> places;
  for (Places& kind :
       std::vector<Places>{std::move(over), std::move(rejected_groups), std::move(labels),
                           std::move(rejected_labels), BinPlaces(whereabouts), std::move(cells),
                           std::move(frequencies), std::move(rejected_classes)}) {
    if (!kind.names.empty()) places.push_back(std::move(kind));
  }
  if (!places.empty()) return PlacesText(std::move(places));
  // Without bins and cells, no row was examined.
  return whereabouts.confidence_bins().empty() && whereabouts.cells().empty() &&
                 answer.labels().truths() == 0
             ? ""
             : "nothing stands out";
}

}  // namespace calibd::convert
