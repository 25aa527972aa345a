#include "server/kinds/labels/label_sums.h"

#include <algorithm>
#include <array>

#include "calibd/store/v1/store.pb.h"
#include "server/watch/stored_numbers.h"

namespace calibd::server {

std::optional<ErrorInterval> LabelSums::Label::Interval(const ErrorLevels& levels) const noexcept {
  const std::array bin{WeightedBin{.count = static_cast<double>(truths),
                                   .stated = stated,
                                   .deviation = stated - static_cast<double>(held)}};
  return truths == 0 ? std::nullopt : BinnedErrorInterval(bin, squares, levels);
}

void LabelSums::Add(const MultilabelBatch& batch) {
  labels.resize(batch.label_count);
  totals.resize(1);
  totals.front().Add(batch);
  for (std::size_t i = 0; i < batch.truths.size(); ++i) {
    if (batch.truths[i] == kMissingTruth) continue;
    Label& label = labels[i % batch.label_count];
    const double error = batch.probabilities[i] - batch.truths[i];
    ++label.truths;
    label.held += batch.truths[i];
    label.stated += batch.probabilities[i];
    label.squares += error * error;
  }
}

void LabelSums::Merge(const LabelSums& other) {
  if (other.labels.empty()) return;
  labels.resize(other.labels.size());
  totals.resize(1);
  totals.front().Merge(other.totals.front());
  for (std::size_t k = 0; k < labels.size(); ++k) {
    labels[k].truths += other.labels[k].truths;
    labels[k].held += other.labels[k].held;
    labels[k].stated += other.labels[k].stated;
    labels[k].squares += other.labels[k].squares;
  }
}

void TotalsFields(StateFields& fields, LabelTotals& totals) {
  using Stored = store::v1::LabelTotals;
  fields(Stored::kRowsFieldNumber, totals.rows);
  fields(Stored::kSumsFieldNumber, totals.sums, SumsFields);
  fields(Stored::kRowSquareSumFieldNumber, totals.row_square_sum);
  // Each row adds at most 1; the sum is rounded.
  const double most = static_cast<double>(totals.rows) + 1;
  fields.Require(totals.row_square_sum >= 0 && totals.row_square_sum <= most,
                 "has sums of labels that cannot be");
}

bool FitLabels(const LabelTotals& totals, std::size_t label_count) noexcept {
  // The fields of a state are at most 2^53, so that the product does not overflow.
  return totals.sums.Total().count <= totals.rows * static_cast<std::int64_t>(label_count);
}

void LabelSumsFields(StateFields& fields, LabelSums& sums) {
  using Stored = store::v1::LabelHistory;
  using Label = LabelSums::Label;
  LabelTotals totals = sums.totals.empty() ? LabelTotals() : sums.totals.front();
  fields(Stored::kTotalsFieldNumber, totals, TotalsFields);
  std::vector<std::int64_t> truths;
  for (const Label& label : sums.labels) truths.push_back(label.truths);
  fields(Stored::kTruthsFieldNumber, truths);
  fields.Require(!truths.empty() && truths.size() <= kMaxLabelCount,
                 "has sums of no or of too many labels");
  if (!fields.ok()) return;
  sums.labels.resize(truths.size());
  for (std::size_t k = 0; k < truths.size(); ++k) sums.labels[k].truths = truths[k];
  fields.Column(Stored::kHeldFieldNumber, sums.labels, &Label::held);
  fields.Column(Stored::kStatedFieldNumber, sums.labels, &Label::stated);
  fields.Column(Stored::kSquaresFieldNumber, sums.labels, &Label::squares);
  const bool fits = std::ranges::all_of(sums.labels, [&totals](const Label& label) {
    return label.held <= label.truths && label.truths <= totals.rows && label.stated >= 0 &&
           label.squares >= 0;
  });
  fields.Require(fits && FitLabels(totals, sums.labels.size()),
                 "has sums of labels that cannot be");
  sums.totals.assign(1, totals);
}

}  // namespace calibd::server
