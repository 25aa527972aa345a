#ifndef CALIBD_CORE_LABEL_EVIDENCE_H_
#define CALIBD_CORE_LABEL_EVIDENCE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "calibd/core/evidence.h"
#include "calibd/core/multilabel.h"

namespace calibd {

// The odds ratios of the bets on a label: its true odds are this many times the stated odds.
inline constexpr std::array kLabelOddsRatios = {1. / 3, 2. / 3, 10. / 11, 11. / 10, 3. / 2, 3.};
// Probabilities of at most 1/2 and above 1/2 have separate bets.
inline constexpr std::size_t kLabelSides = 2;
inline constexpr std::size_t kLabelBets = kLabelSides * kLabelOddsRatios.size();
// The bins of the histogram: each side has 12 bins, by powers of two of the smaller of the two
// probabilities, so that rare labels fall into several bins.
inline constexpr std::size_t kLabelBins = 24;
// The number of observations after which the maxima take the evidence and the drift into account.
inline constexpr std::int64_t kLabelRecordSpacing = 8;

struct LabelEvidenceReading {
  std::int64_t count = 0;
  // log10 of the mean over labels of their e-values.
  double log10_e_value = 0;
  // log10 of the e-value of each label.
  std::vector<double> label_log10_e_values;
  // The largest e-value at the newest observation and those whose number is a multiple of
  // kLabelRecordSpacing.
  RunningMaximum maximum;
  // log10(1 + R), and its maximum at the same observations.
  double log10_drift = 0;
  RunningMaximum drift_maximum;
  // The count at which each mark was first reached, 0 if it was not. Saved.
  std::int64_t evidence_reached_at = 0;
  std::int64_t drift_reached_at = 0;
};

// The state of a LabelEvidence. The arrays have a row for each label.
struct LabelEvidenceState {
  std::int64_t count = 0;
  // The fixed odds ratios, > 0 and distinct: a saved state names its bets by them.
  std::vector<double> odds_ratios;
  // The inverses of the products, > 0: K x kLabelSides x odds_ratios, those of the lower side
  // first; and K for the histogram.
  std::vector<double> inverses;
  std::vector<double> histogram;
  // R of each fixed odds ratio, >= 0: as many as inverses.
  std::vector<double> shiryaev_roberts;
  // The known truths of each bin, K x kLabelBins: their number, how many hold, and the sum of the
  // stated probabilities.
  std::vector<std::int64_t> bin_count;
  std::vector<std::int64_t> bin_held;
  std::vector<double> bin_stated;
  RunningMaximum maximum;
  RunningMaximum drift_maximum;
  std::int64_t evidence_reached_at = 0;
  std::int64_t drift_reached_at = 0;

  friend bool operator==(const LabelEvidenceState&, const LabelEvidenceState&) = default;
};

// Anytime-valid evidence against the probabilities of K labels, and a detector of drift.
//
// Null hypothesis of label k: given all predictions and truths of the past and the prediction g of
// this row, it holds with a probability in [g_k - eps, g_k + eps]. Nothing is assumed about how the
// labels of one row depend on each other. A bet that the odds are r times the stated odds has the
// e-value
//   r^y / (1 + h (r - 1)),  where h is g_k + eps for r > 1 and g_k - eps for r < 1,
// with a mean of at most 1; a missing truth has the e-value 1. The e-value of a label is the mean
// of two e-processes: the product over the two sides of 1/2 of the mean over kLabelOddsRatios, and
// the histogram, which bets with the ratio
//   r = (O + 3) (N - E + 3) / ((E + 3) (N - O + 3))
// of the past truths of the bin: N of them, O hold, and E is the sum of the stated probabilities.
//
// The e-value of the model is the mean over labels. It is valid because all labels bet against the
// same past; a product over labels is not, because the truths of one row are dependent. Labels that
// are rejected together are chosen by e-BH over the labels' e-values, see e_bh.h.
// Source of the bets: Waudby-Smith & Ramdas, J. R. Stat. Soc. B 86 (2024) 1, Sec. 4.
//
// The detector of drift is the mean over labels and fixed odds ratios of Shiryaev-Roberts
// statistics, see Drift.
//
// The product of the histogram is clamped to [1e-150, 1e150], those of the fixed odds ratios every
// 256 observations. The upper limit loses evidence; the lower limit adds at most 1e-150 each time.
//
// Not thread-safe.
class LabelEvidence {
 public:
  // label_count: K in [1, kMaxLabelCount]. tolerance: 2 eps, in [kMinTolerance, kMaxTolerance].
  LabelEvidence(std::size_t label_count, double tolerance, const EvidenceMarks& marks = {});

  // batch: valid, of K labels. The bits of the result are the same on every CPU and do not depend
  // on how a sequence is split into calls. Allocates no memory. Cost: O(n K), some 60 operations
  // for each label.
  void Add(const MultilabelBatch& batch) noexcept;

  // Cost: O(K).
  [[nodiscard]] LabelEvidenceReading Read() const;
  // The natural logarithm of the e-value of the model.
  [[nodiscard]] double LogEValue() const noexcept;
  // The natural logarithm of the drift statistic of the model.
  [[nodiscard]] double LogDrift() const noexcept;
  [[nodiscard]] std::int64_t count() const noexcept { return state_.count; }
  [[nodiscard]] std::size_t label_count() const noexcept { return label_count_; }
  // Resets the drift statistics to R = 0; see EvidenceProcess::RestartDrift.
  void RestartDrift(double log_threshold) noexcept;

  using State = LabelEvidenceState;
  // The running maxima of the saved state. Read also includes the newest observation.
  [[nodiscard]] EvidenceMarks maxima() const noexcept {
    return {.log_e = state_.maximum.log_value,
            .log_shiryaev_roberts = state_.drift_maximum.log_value};
  }
  [[nodiscard]] const State& Save() const noexcept { return state_; }
  // Restores a saved state. Returns false, and leaves this object unchanged, when the state is
  // invalid for it. A state with other odds ratios continues with those of this version, and
  // neither its e-values nor its drift jump, except by rounding: a new bet begins with the mean of
  // the saved ones on its side, and all are scaled until their mean is the saved one. That moves
  // wealth between bets that were made before, and creates none.
  [[nodiscard]] bool Restore(const State& state);

  // Upper bound of the bytes that an object holds.
  [[nodiscard]] static std::size_t MaxMemory(std::size_t label_count) noexcept;

 private:
  void AddRow(const double* g, const std::int8_t* truths) noexcept;
  void BetOn(std::size_t k, double g, bool holds) noexcept;
  void Record() noexcept;
  // The e-value of label k.
  [[nodiscard]] double EValue(std::size_t k) const noexcept;

  std::size_t label_count_;
  double eps_;
  EvidenceMarks marks_;
  State state_;
};

}  // namespace calibd

#endif  // CALIBD_CORE_LABEL_EVIDENCE_H_
