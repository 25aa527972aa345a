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
#include "calibd/core/evidence_state.h"
#include "calibd/core/experts.h"
#include "calibd/core/fourier_basis.h"
#include "calibd/core/moments.h"
#include "calibd/core/prediction_batch.h"
#include "calibd/core/run_control.h"

namespace calibd {

// Anytime-valid evidence against "the model is calibrated".
//
// Null hypothesis: y_t given the prediction g_t and the past is drawn from g_t. The product
// over time of e-values that are chosen before each label is seen is an e-process E_t, and
//   P(E_t >= 1/alpha at any time t) <= alpha
// at all times at once (Ville's inequality), for any sequence g_t and any stopping time.
// Sources: Shekhar & Ramdas, arXiv:2112.09162; Arnold, Henzi & Ziegel, Ann. Appl. Stat. 17
// (2023) 1909.
//
// The guarantee fails when labels are not drawn from g_t given the past: when their order or their
// absence depends on their values, when a label is added twice, or when labels share noise.

// The tolerance m eps. Bets use the smoothed prediction (g + eps) / (sum_k g_k + m eps), and
// log(max(1, sum_k g_k) + m eps) is subtracted from each log e-value. The null hypothesis is then
// that y_t is drawn from some p with p_y <= g_y + eps for all y: differences below eps are not
// evidence, and a label with predicted probability 0 is not infinite evidence.
inline constexpr double kDefaultTolerance = 1e-5;
inline constexpr double kMinTolerance = 1e-9;
inline constexpr double kMaxTolerance = 0.5;

// Natural logarithms of the e-value and of 1 + R: thresholds whose first crossing is recorded, or
// the maxima that are compared with them.
struct EvidenceMarks {
  double log_e = std::numeric_limits<double>::infinity();
  double log_shiryaev_roberts = std::numeric_limits<double>::infinity();
};

// min(1, 1 / max_t E_t): P(ever at most alpha) <= alpha under the null hypothesis. In (0, 1]: a
// value below the smallest normal double is rounded up to it.
[[nodiscard]] double AnytimePValue(const RunningMaximum& e_value) noexcept;

// The mixture of the experts' e-processes, sum_j prior_j W_j.
struct Evidence {
  // Includes the offset that makes the e-value continuous when the experts change.
  double log10_e_value = 0;
  // The e-value of each family's own mixture, and the family's share of the whole mixture with its
  // prior. The shares sum to 1. The order is that of ExpertFamily.
  std::array<double, kFamilyCount> family_log10_e_value{};
  std::array<double, kFamilyCount> family_share{};
};

// Detectors of a change from calibrated to miscalibrated, which may occur at any prediction. For
// each expert e_j, which bets from the recent past, the Shiryaev-Roberts statistic
//   R_t = (1 + R_{t-1}) e_t,  R_0 = 0,
// averaged with the experts' priors. Without a change E R_T <= E T for every stopping time T.
// Stopping when R >= c therefore has an average run length of at least c predictions.
// Source: Shin, Ramdas & Rinaldo, "E-detectors", the e-SR procedure.
struct Drift {
  // log10(1 + R), 0 or more. Alarm at DriftThreshold(c).
  double log10_now = 0;
  // The maximum of log(1 + R) since the detectors were last started. Its time counts all
  // predictions.
  RunningMaximum maximum;
};

// The alarm threshold log10(1 + c). An alarm when the maximum reaches it has an average run length
// of at least c predictions. average_run_length: c >= 1.
[[nodiscard]] double DriftThreshold(double average_run_length) noexcept;

// A snapshot of an evidence process.
struct EvidenceReading {
  std::int64_t count = 0;
  Evidence evidence;
  // The running maximum of the mixture. For combined parts it covers this reading only: a caller
  // that reads repeatedly must keep the maximum over its readings.
  RunningMaximum maximum;
  // The largest growth of the mixture's log by a single prediction whose label had probability 0; 0
  // without one.
  RunningMaximum impossible_label;
  Drift drift;
  // The count of predictions at which each mark was first reached, 0 if it was not. Only
  // predictions that this object has added are considered. Not saved.
  std::int64_t evidence_reached_at = 0;
  std::int64_t drift_reached_at = 0;
  // Unbiased estimate SKCE_uq of the squared kernel calibration error with the kernel
  // phi'phi (see confidence_sequence.h): 2 / (n (n-1)) sum_{i<j} h_ij = (|A|_F^2 - sum_i |d_i|^2) /
  // (n (n-1)) with A = sum_i phi(g_i) d_i'. Signed. Unset for n < 2. Source: Widmann, Lindsten &
  // Zachariah, NeurIPS 2019, Table 1 row 2; Rahimi & Recht 2007.
  std::optional<double> skce_unbiased;
  WitnessNorm witness_norm;
  // u_t = <d_t, f_{t-1}(g_t)> / |f_{t-1}| for the witness f_{t-1}(g) = A_{t-1}' phi(g), in [-sqrt
  // 2, sqrt 2], and 0 where f is 0; and the sum of its variances under the null hypothesis, sum_y
  // g_y v_y^2 / |f|^2 with v = f - <g, f>. See confidence_sequence.h.
  RunningMoments projections;
  double projection_variance = 0;
};

// The logarithms of e-processes over parts of the predictions, which are computed elsewhere and
// take part in the mixture. They must be of the same predictions as the mixture, under the same
// null hypothesis.
struct PartsEvidence {
  // The mean over classes, ClassEvidence::LogMean.
  double log_class_mean = 0;
  // The mean over groups of predictions with weights that were fixed before the first prediction. A
  // prediction's group must be known before its label. A group without predictions has the e-value
  // 1, and a group without a weight takes no part.
  double log_group_mean = 0;
  // The product over groups. It is an e-process if each prediction belongs to one group, because a
  // prediction then changes at most one factor, in expectation by a factor of at most 1.
  double log_group_product = 0;
};

// The logarithms of the experts' processes after the newest prediction.
struct ExpertLogs {
  std::vector<double> e;
  std::vector<double> shiryaev_roberts;
};
// state: valid.
[[nodiscard]] ExpertLogs LogsOf(const EvidenceTotals& state);

// The number of predictions after which the sums over the past are updated next. The predictions
// until then are a chunk: experts bet on them from the past before the chunk. Bets that are chosen
// before the label is seen are valid, whatever part of the past they use. Chunks end at the
// multiples of the largest power of two that is at most count / 16, 1 or more and 64 or less: one
// prediction each until 32, then 2 until 64, 4 until 128, ..., and 64 after 1024.
// count: the number of predictions so far.
[[nodiscard]] std::int64_t ChunkEnd(std::int64_t count) noexcept;

class EvidenceChunk;
class PastSums;
struct StripBets;

// The evidence, the drift detectors and the effect size of one stream of labelled predictions,
// updated sequentially, with bets that are chosen once per chunk. Not thread-safe.
class EvidenceProcess {
 public:
  // Errors: InvalidArgument unless tolerance is in [1e-9, 0.5].
  [[nodiscard]] static absl::StatusOr<EvidenceProcess> Create(
      std::shared_ptr<const FourierBasis> basis, double tolerance = kDefaultTolerance,
      const EvidenceMarks& marks = {});
  EvidenceProcess(const EvidenceProcess& other);
  EvidenceProcess& operator=(const EvidenceProcess& other);
  EvidenceProcess(EvidenceProcess&& other) noexcept;
  EvidenceProcess& operator=(EvidenceProcess&& other) noexcept;
  ~EvidenceProcess();

  // g: a valid prediction, m probabilities; y: its label. On one CPU, the bits of the result do not
  // depend on how a sequence is split into calls. Cost: O(D m). Rows are processed 8 at a time: a
  // batch of one row costs nearly as much as one of 8. Allocates no memory.
  void Add(std::span<const double> g, std::int32_t y) noexcept;
  // batch: valid, of m classes.
  void Add(const PredictionBatch& batch) noexcept { AddFirst(batch, batch.size(), nullptr); }
  // Computes the same bits with several threads, at most one for every 16 rows of a chunk. The
  // first call allocates ParallelMemory(m) bytes and may throw bad_alloc.
  void Add(const PredictionBatch& batch, const ParallelLoop& parallel) {
    AddFirst(batch, batch.size(), parallel);
  }
  // Adds the first rows of `ahead`. Its other rows must be added by the next calls, in any parts:
  // some of their bets are computed now, because those of single rows take several times as long.
  // Until all are added, only Consider, RecordMaximum, Read, LogEValue and maxima may be called.
  // parallel: unset to compute on the caller's thread, without an allocation.
  void AddFirst(const PredictionBatch& ahead, std::size_t rows, const ParallelLoop& parallel);

  // Includes e-processes over all predictions so far in the mixture. Predictions that are added
  // later exclude them until the next call, because a mixture with an outdated e-value is not an
  // e-process.
  void Consider(const PartsEvidence& parts) noexcept;
  // Includes the mixture with the values of Consider in its maximum, which otherwise excludes them:
  // a lower bound. The maximum does not depend on how predictions are split into calls if this is
  // called after fixed numbers of predictions.
  void RecordMaximum() noexcept;

  // Cost: O(experts), and O(m + D) for each prediction since the last reading and each pending one
  // before it. The mixture is that of the last
  // Consider, if no prediction was added since.
  [[nodiscard]] EvidenceReading Read() const;
  // The two running maxima of Read, which are known without a reading.
  [[nodiscard]] EvidenceMarks maxima() const noexcept {
    return {.log_e = state_.maximum.log_value,
            .log_shiryaev_roberts = state_.shiryaev_roberts_maximum.log_value};
  }
  // The natural logarithm of its e-value, which is kept until it changes.
  [[nodiscard]] double LogEValue() noexcept;
  // Resets the drift statistics, for example after an alarm was handled: R = 0. The sums over the
  // past are kept. log_threshold: the new EvidenceMarks::log_shiryaev_roberts.
  void RestartDrift(double log_threshold) noexcept;

  using State = EvidenceState;
  [[nodiscard]] State Save() const;
  // Restores a state that was saved by a process on an equal basis. Later predictions then give
  // the same bits on the same kind of CPU. Errors: InvalidArgument when the state is invalid for
  // such a process; this object is then unchanged.
  //
  // The state may have other experts or priors. Experts are matched by id: an expert that kExperts
  // lacks is dropped, and one that the state lacks starts with W = 1 at this prediction, or with
  // its value in `parts`. The mixture M continues from the old e-value E_s with an offset, at
  // predictions t >= s:
  //   E_t = E_s M_t / M_s = E_s sum_j w_j W_j,t / W_j,s,  w_j = prior_j W_j,s / M_s,
  // with the new priors. Each W_j,t / W_j,s is a nonnegative supermartingale that starts with 1 at
  // s, and the weights w_j are known at s and sum to 1. So E is one nonnegative supermartingale
  // from its first prediction on, and Ville's inequality holds for its running maximum over the
  // change, also if the experts, the priors or s were chosen by looking at the past. The maximum
  // over the mixtures of the old and of the new experts, M without the offset, has no such bound.
  // The detectors of drift of all experts continue with the mixture R_s. The mixture is then
  // continuous too, and E[R_{t+1} | past] <= 1 + R_t, from which E R_T <= E T follows, holds
  // for any values at s.
  [[nodiscard]] absl::Status Restore(State state, const PartsEvidence& parts = {});

  [[nodiscard]] const FourierBasis& basis() const noexcept { return *basis_; }
  // Upper bound of the bytes that a process holds, without its basis.
  [[nodiscard]] static std::size_t MaxMemory(std::size_t class_count) noexcept;
  // Upper bound of the bytes that parallel execution adds.
  [[nodiscard]] static std::size_t ParallelMemory(std::size_t class_count) noexcept;

 private:
  struct Scratch;

  EvidenceProcess(std::shared_ptr<const FourierBasis> basis, double tolerance,
                  const EvidenceMarks& marks);

  friend absl::StatusOr<EvidenceReading> CombineDisjoint(
      std::span<const EvidenceProcess* const> parts);

  // Records the natural logarithm of the e-value after the newest prediction.
  void Record(double log_e_value) noexcept;
  // Appends rows to the chunk, as many as it has room for, and computes the bets on them.
  void Stage(const PredictionBatch& ahead, const ParallelLoop& parallel);
  // Computes the Fourier terms of a batch that was appended to the chunk as its newest rows, and
  // the bets on it.
  void ComputeStrips(const PredictionBatch& batch, const ParallelLoop& parallel);
  // Adds the first staged rows.
  void AdvanceStaged(std::size_t rows) noexcept;
  // Computes the terms and bets of the strips from `strip` on, up to kStripsAtOnce of them, without
  // adding their rows.
  void ComputeSome(const PredictionBatch& batch, std::size_t strip, Scratch& scratch) noexcept;
  // Adds the rows row .. last - 1 of the chunk, which are in one strip.
  void AdvanceStrip(const StripBets& bets, std::size_t strip, std::size_t row,
                    std::size_t last) noexcept;
  // Adds the pending predictions to the sums over the past.
  void CloseChunk(const ParallelLoop& parallel);
  // The sum of squares of A with the pending predictions.
  [[nodiscard]] double WitnessNorm2() const noexcept;

  std::shared_ptr<const FourierBasis> basis_;
  double tolerance_;
  // The arrays of the experts are padded, except ids and priors.
  EvidenceTotals state_;
  EvidenceMarks marks_;
  std::int64_t evidence_reached_at_ = 0;
  std::int64_t drift_reached_at_ = 0;
  // The result of LogEValue; unset if something has changed since.
  std::optional<double> log_e_value_;
  std::unique_ptr<PastSums> past_;
  std::unique_ptr<EvidenceChunk> chunk_;
  // The newest rows of the chunk that are not added yet, and the strip of the first row that was
  // staged with them. Their bets are in the scratches.
  std::size_t staged_rows_ = 0;
  std::size_t staged_strip_ = 0;
  // One, or with parallel execution one for each thread.
  std::vector<std::unique_ptr<Scratch>> scratches_;
};

// Merge law: the parts of one stream share no prediction, e.g. one part for each replica.
// E-processes are multiplied for each expert and then mixed. The result is an e-process when each
// label is drawn from its prediction given the past of all parts; sums of Fourier terms, residuals
// and projections add, so that SKCE_uq is over pairs across parts too; the detectors' statistics
// are averaged, and their run length counts the predictions of one part. The result is for reading
// only: parts continue separately. Their offsets have no part in it, so a maximum over readings
// must restart when the experts change. parts: on equal bases. Errors: InvalidArgument when
// parts is empty, or they differ in size. Cost: O(D m) a part.
[[nodiscard]] absl::StatusOr<EvidenceReading> CombineDisjoint(
    std::span<const EvidenceProcess* const> parts);

// log10 of the mean of e-values that were computed from the same labels, e.g. of a model and its
// shadow. The mean is an e-value; the product is not. 0 if log10_e_values is empty.
[[nodiscard]] double AverageLog10EValue(std::span<const double> log10_e_values) noexcept;

}  // namespace calibd

#endif  // CALIBD_CORE_EVIDENCE_H_
