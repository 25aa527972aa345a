#ifndef CALIBD_CORE_EVIDENCE_H_
#define CALIBD_CORE_EVIDENCE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "calibd/core/confidence_sequence.h"
#include "calibd/core/experts.h"
#include "calibd/core/prediction_batch.h"
#include "calibd/core/random_features.h"
#include "calibd/core/running_skce.h"

namespace calibd {

// Evidence against "the model is calibrated" that may be looked at all the time.
//
// Null hypothesis: y_t given the prediction g_t and the past is drawn from g_t. The product
// over time of e-values that are chosen before each label is seen is an e-process E_t, and
//   P(E_t >= 1/alpha at any time t) <= alpha
// at all times at once (Ville's inequality), whatever g_t are and whenever one looks.
// Sources: Shekhar & Ramdas, arXiv:2112.09162; Arnold, Henzi & Ziegel, Ann. Appl. Stat. 17
// (2023) 1909.
//
// What makes it false is labels that are not drawn so given the past: seen in an order or
// left out in a way that depends on them, counted twice, or sharing noise.

// m eps: a prediction is bet against as (g + eps) / (sum_k g_k + m eps), and each log
// e-value pays log(max(1, sum_k g_k) + m eps). The null hypothesis is then that y_t is drawn
// from some p with p_y <= g_y + eps for all y: differences below eps are not evidence, and a
// label that was given probability 0 is not infinite evidence.
inline constexpr double kDefaultTolerance = 1e-5;
inline constexpr double kMinTolerance = 1e-9;
inline constexpr double kMaxTolerance = 0.5;

// The drift detectors' memory: what happened t predictions ago counts (1 - 1/5000)^t.
inline constexpr double kMemory = 5000;

// The largest value of a sequence so far, and when it was reached.
struct RunningMaximum {
  // Natural logarithm; at the start that of 1.
  double log_value = 0;
  // Count of predictions.
  std::int64_t at = 0;

  void Add(double log_now, std::int64_t now) noexcept {
    if (log_now > log_value) *this = {log_now, now};
  }

  friend bool operator==(const RunningMaximum&, const RunningMaximum&) = default;
};

// Values whose first reach is told, as natural logarithms: of the e-value, and of 1 + R.
struct EvidenceMarks {
  double log_e = std::numeric_limits<double>::infinity();
  double log_shiryaev_roberts = std::numeric_limits<double>::infinity();
};

// min(1, 1 / max_t E_t): P(ever at most alpha) <= alpha under the null hypothesis. Never 0:
// what is smaller than a double holds is given as the smallest normal one.
[[nodiscard]] double AnytimePValue(const RunningMaximum& e_value) noexcept;

// The mixture of the experts' e-processes, sum_j prior_j W_j.
struct Evidence {
  double log10_e_value = 0;
  // Of each family's own mixture, and its share of the whole, prior included; the shares
  // sum to 1. In the order of ExpertFamily.
  std::array<double, kFamilyCount> family_log10_e_value{};
  std::array<double, kFamilyCount> family_share{};
};

// Detectors of a change from calibrated to not, started anew at every prediction. For each
// expert e_j, fed with the past that is forgotten, the Shiryaev-Roberts and CUSUM statistics
//   R_t = (1 + R_{t-1}) e_t,  R_0 = 0;   C_t = max(1, C_{t-1}) e_t,  C_0 = 1,
// mixed with the experts' priors. Without a change E R_T <= E T for every stopping time T, so
// that stopping when R >= c has an average run length of at least c predictions; C <= R.
// Source: Shin, Ramdas & Rinaldo, "E-detectors", the e-SR and e-CUSUM procedures.
struct DriftStatistic {
  // log10(1 + R), log10 max(1, C): 0 or more. Alarm at DriftThreshold(c).
  double log10_now = 0;
  // Of log(1 + R), log max(1, C), since the detectors were started. Counts all predictions.
  RunningMaximum maximum;
};
struct Drift {
  DriftStatistic shiryaev_roberts;
  DriftStatistic cusum;
};

// log10(1 + c): alarming when either statistic's maximum is at least this much has an average
// run length of at least c predictions. c: 1 or more.
[[nodiscard]] double DriftThreshold(double average_run_length) noexcept;

// What an evidence process knows, as it was at one moment.
struct EvidenceReading {
  std::int64_t count = 0;
  Evidence evidence;
  // Of the mixture. Of combined parts: of this reading alone; who reads them again and again
  // keeps one over the readings.
  RunningMaximum maximum;
  Drift drift;
  // The prediction at which each mark was first reached, of those that this process has added
  // itself; 0 before. Not saved.
  std::int64_t evidence_reached_at = 0;
  std::int64_t drift_reached_at = 0;
  // Unbiased estimate SKCE_uq of the squared kernel calibration error with the kernel
  // phi'phi (see confidence_sequence.h): 2 / (n (n-1)) sum_{i<j} h_ij = (|A|_F^2 - sum_i |d_i|^2) /
  // (n (n-1)) with A = sum_i phi(g_i) d_i'. Signed. Unset for n < 2. Source: Widmann, Lindsten &
  // Zachariah, NeurIPS 2019, Table 1 row 2; Rahimi & Recht 2007.
  std::optional<double> skce_unbiased;
  WitnessNorm witness_norm;
  // u_t = <d_t, f_{t-1}(g_t)> / |f_{t-1}| for the witness f_{t-1}(g) = A_{t-1}' phi(g), in
  // [-sqrt 2, sqrt 2], 0 where f is; and the sum of its variances under the null hypothesis,
  // sum_y g_y v_y^2 / |f|^2 with v = f - <g, f>. See confidence_sequence.h.
  RunningMoments projections;
  double projection_variance = 0;
};

// What the experts know of the past.
struct PastState {
  // All that follows is to be divided by it.
  double weight = 1;
  double count = 0;
  // S = sum phi: kFeatureCount. A = sum phi d': kFeatureCount x m.
  std::vector<double> feature_sums;
  std::vector<double> witness;
  // O and E, how often labels fell into a bin and how often predictions said: 24 bins, and
  // 24 x m.
  std::vector<double> pooled_observed;
  std::vector<double> pooled_expected;
  std::vector<double> class_observed;
  std::vector<double> class_expected;
  // m.
  std::vector<double> label_counts;

  friend bool operator==(const PastState&, const PastState&) = default;
};

// All that changes as predictions are added. Arrays over kExperts.
struct EvidenceState {
  std::int64_t count = 0;
  // log W_j, the logarithms of the experts' e-processes.
  std::vector<double> log_e;
  RunningMaximum maximum;
  // log(1 + R_j) and log max(1, C_j).
  std::vector<double> log_shiryaev_roberts;
  std::vector<double> log_cusum;
  RunningMaximum shiryaev_roberts_maximum;
  RunningMaximum cusum_maximum;
  // sum_{i<j} h_ij and sum_i |d_i|^2.
  double pair_sum = 0;
  double square_sum = 0;
  RunningMoments projections;
  double projection_variance = 0;
  PastState all;
  PastState recent;

  friend bool operator==(const EvidenceState&, const EvidenceState&) = default;
};

class ClassCounts;
class PastSums;

// The evidence, the drift detectors and the effect size of one stream of labelled
// predictions, updated one prediction after the other. Not thread-safe.
class EvidenceProcess {
 public:
  // Errors: InvalidArgument unless tolerance is in [1e-9, 0.5].
  [[nodiscard]] static absl::StatusOr<EvidenceProcess> Create(
      std::shared_ptr<const RandomFeatures> features, double tolerance = kDefaultTolerance,
      const EvidenceMarks& marks = {});
  EvidenceProcess(const EvidenceProcess& other);
  EvidenceProcess& operator=(const EvidenceProcess& other);
  EvidenceProcess(EvidenceProcess&& other) noexcept;
  EvidenceProcess& operator=(EvidenceProcess&& other) noexcept;
  ~EvidenceProcess();

  // g: a valid prediction, m probabilities; y: its label. Equal bits on one CPU for any cut
  // of a sequence into calls. Cost: O(D m); at many classes a batch of 16 or more costs a
  // fraction of as many single rows, as the sums are read once for all. Takes no memory.
  void Add(std::span<const double> g, std::int32_t y) noexcept;
  // batch: valid, of m classes.
  void Add(const PredictionBatch& batch) noexcept;

  // Cost: O(experts).
  [[nodiscard]] EvidenceReading Read() const;
  // Starts the drift detectors anew, as after an alarm was dealt with: R = 0. What they have
  // learnt of the past stays.
  void RestartDrift() noexcept;

  using State = EvidenceState;
  [[nodiscard]] State Save() const;
  // Goes on where Save of a process with equal features was: later predictions give the same
  // bits on the same kind of CPU. Errors: InvalidArgument when the state cannot be of such a
  // one; then nothing has changed.
  [[nodiscard]] absl::Status Restore(const State& state);

  [[nodiscard]] const RandomFeatures& features() const noexcept { return *features_; }
  // Bytes that a process holds, its features left out.
  [[nodiscard]] static std::size_t MaxMemory(std::size_t class_count) noexcept;

 private:
  struct Scratch;

  EvidenceProcess(std::shared_ptr<const RandomFeatures> features, double tolerance,
                  const EvidenceMarks& marks);

  void AddSome(const PredictionBatch& batch) noexcept;
  void AddRow(const PredictionBatch& batch, std::size_t row) noexcept;
  // The sum of squares of A.
  [[nodiscard]] double WitnessNorm2() const noexcept;

  std::shared_ptr<const RandomFeatures> features_;
  double tolerance_;
  std::int64_t count_ = 0;
  // Over padded experts.
  std::vector<double> log_e_;
  std::vector<double> log_shiryaev_roberts_;
  std::vector<double> log_cusum_;
  RunningMaximum maximum_;
  RunningMaximum shiryaev_roberts_maximum_;
  RunningMaximum cusum_maximum_;
  EvidenceMarks marks_;
  std::int64_t evidence_reached_at_ = 0;
  std::int64_t drift_reached_at_ = 0;
  double pair_sum_ = 0;
  double square_sum_ = 0;
  RunningMoments projections_;
  double projection_variance_ = 0;
  std::unique_ptr<PastSums> all_;
  std::unique_ptr<PastSums> recent_;
  std::unique_ptr<ClassCounts> class_counts_;
  std::unique_ptr<Scratch> scratch_;
};

// Merge law: parts of one stream that share no prediction, e.g. those of replicas. Evidence
// multiplies expert by expert and is mixed after, which is an e-process when each label is
// drawn from its prediction given the past of all parts; sums of features, residuals and
// projections add, so that SKCE_uq is over pairs across parts too; the detectors' statistics
// are averaged, and their run length counts predictions of one part. A combination is for
// reading: parts go on by themselves, never from it.
// Errors: InvalidArgument when parts is empty, or they differ in size. Cost: O(D m) a part.
[[nodiscard]] absl::StatusOr<EvidenceReading> CombineDisjoint(
    std::span<const EvidenceState* const> parts);

// The mean of e-values that saw the same labels, e.g. of a model and its shadow: an e-value,
// as their product is not. log10 of each; 0 for none.
[[nodiscard]] double AverageLog10EValue(std::span<const double> log10_e_values) noexcept;

}  // namespace calibd

#endif  // CALIBD_CORE_EVIDENCE_H_
