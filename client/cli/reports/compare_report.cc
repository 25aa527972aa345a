#include "client/cli/reports/compare_report.h"

#include <cmath>
#include <cstdint>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "calibd/convert/text.h"
#include "client/cli/reports/report.h"

namespace calibd::cli {
namespace {

struct ComparedScore {
  const char* name;
  const char* unit;
  const v1::ScoreDifference& score;
  bool in_points = false;
};

std::vector<std::string> TableRow(const ComparedScore& row) {
  const auto mean = [&](double value) {
    return row.in_points ? convert::Points(value) : Number(value);
  };
  const auto difference = [&](double value) {
    if (!row.in_points) return absl::StrFormat("%+.2g", value);
    const std::string points = convert::Points(std::abs(value));
    return absl::StrCat(value < 0 && points != "0" ? "-" : "+", points);
  };
  const v1::ScoreDifference& score = row.score;
  return {absl::StrCat(row.name, " (", row.unit, ")"), mean(score.model()), mean(score.baseline()),
          difference(score.difference()),
          absl::StrCat(difference(score.lower()), " to ", difference(score.upper()))};
}

std::string DescribeRest(const char* whose, std::int64_t other_ids, std::int64_t without_id) {
  if (other_ids + without_id == 0) return "";
  return absl::StrCat("Not compared: ", convert::CountText(other_ids, "observation"), " of the ",
                      whose, other_ids == 1 ? " whose id is" : " whose ids are",
                      " not in the other window, and ", without_id, " without an id.\n");
}

std::vector<ComparedScore> ScoresOf(const v1::Comparison& comparison) {
  if (!comparison.has_crps()) {
    return {{"log loss", "nats", comparison.log_loss()},
            {"Brier score", "0 to 2", comparison.brier()},
            {"binned error", "points", comparison.binned_error(), /*in_points=*/true}};
  }
  std::vector<ComparedScore> scores = {{"CRPS", "unit of the outcomes", comparison.crps()}};
  if (comparison.has_log_score()) scores.push_back({"log score", "nats", comparison.log_score()});
  return scores;
}

std::string DescribePairing(const v1::ModelComparison& result) {
  const v1::Comparison& comparison = result.comparison();
  const std::string truth = comparison.has_crps() ? "outcome" : "label";
  const v1::Pairing& pairing = result.pairing();
  std::string text;
  if (comparison.paired()) {
    text = absl::StrCat(
        "Paired: ", convert::CountText(comparison.observations(), "observation"),
        " that both models scored, found by their ids.\n",
        DescribeRest("model", pairing.only_in_model(), pairing.model_without_id()),
        DescribeRest("baseline", pairing.only_in_baseline(), pairing.baseline_without_id()));
  } else {
    const bool have_ids = pairing.only_in_model() + pairing.label_conflicts() > 0 &&
                          pairing.only_in_baseline() + pairing.label_conflicts() > 0;
    text = absl::StrCat("Unpaired: ", convert::CountText(comparison.observations(), "observation"),
                        " of the model and ", comparison.baseline_observations(),
                        " of the baseline, because ",
                        have_ids ? absl::StrCat("no id has the same ", truth, " in both windows")
                                 : "at least one of the windows has no ids",
                        ". A difference may also come from the observations.\n");
  }
  if (pairing.label_conflicts() > 0) {
    absl::StrAppend(&text, convert::CountText(pairing.label_conflicts(), "id"),
                    pairing.label_conflicts() == 1 ? " has" : " have", " different ", truth,
                    "s in the two windows: check the ", truth, "s.\n");
  }
  return text;
}

std::string DescribeLooks(const v1::ModelComparison& result) {
  // The intervals of scores without a bound are asymptotic.
  const char* const hold = result.comparison().has_crps() ? "approximately " : "";
  if (result.comparison().repeated_looks_valid()) {
    return absl::StrCat("The intervals hold ", hold,
                        "however often this comparison is repeated.\n");
  }
  const bool moved = result.first_observation() > 1 || result.baseline_first_observation() > 1;
  return absl::StrCat("The intervals hold ", hold, "for one look, because ",
                      moved ? "the observations are not all since the first one"
                            : "the pairs have another order in the window of the baseline",
                      ".\n");
}

}  // namespace

std::string DescribeComparison(const std::string& model, const std::string& baseline,
                               const v1::ModelComparison& result) {
  const v1::Comparison& comparison = result.comparison();
  const std::vector<ComparedScore> scores = ScoresOf(comparison);
  std::string text = absl::StrCat(model, " against ", baseline, ": ");
  const std::string interval = absl::StrFormat("%g %% interval", 100 * (1 - comparison.level()));
  std::vector<std::vector<std::string>> table = {
      {"score", "model", "baseline", "difference", interval}};
  for (const ComparedScore& row : scores) {
    absl::StrAppend(&text, &row == scores.data() ? "" : "; ", convert::Plain(row.score.text()));
    table.push_back(TableRow(row));
  }
  return absl::StrCat(text, ".\n\n", FormatTable(table), "\n", DescribePairing(result),
                      "Smaller scores are better. ", DescribeLooks(result));
}

}  // namespace calibd::cli
