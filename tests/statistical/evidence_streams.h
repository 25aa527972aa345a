#ifndef CALIBD_TESTS_STATISTICAL_EVIDENCE_STREAMS_H_
#define CALIBD_TESTS_STATISTICAL_EVIDENCE_STREAMS_H_

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "calibd/core/bandwidth.h"
#include "calibd/core/class_evidence.h"
#include "calibd/core/evidence.h"
#include "calibd/core/generator.h"
#include "level_bound.h"

namespace calibd::testing {

// CALIBD_TEST_REPETITIONS multiplies the simulations.
inline int Repeated(int simulations) {
  const char* const times = std::getenv("CALIBD_TEST_REPETITIONS");
  return times == nullptr ? simulations : simulations * std::max(1, std::atoi(times));
}

inline GeneratorSpec Dirichlet(std::size_t m, double alpha) {
  GeneratorSpec spec = GeneratorSpec::M1(m);
  spec.alpha.assign(m, alpha);
  return spec;
}

inline PredictionSet Draw(const GeneratorSpec& spec, std::size_t n, std::uint64_t seed) {
  PredictionSet set;
  Generator::Create(spec, seed)->Draw(n, set);
  return set;
}

// Draws labels from g^(1/T), normalised: the model is over-confident for T > 1.
inline void LabelAtTemperature(PredictionSet& set, double temperature, std::size_t first,
                               std::uint64_t seed) {
  std::mt19937_64 rng(seed);
  std::vector<double> q(set.class_count);
  for (std::size_t i = first; i < set.labels.size(); ++i) {
    const auto g = set.view().row(i);
    for (std::size_t k = 0; k < q.size(); ++k) q[k] = std::pow(g[k], 1 / temperature);
    std::discrete_distribution<std::int32_t> label(q.begin(), q.end());
    set.labels[i] = label(rng);
  }
}

inline void RoundProbabilities(PredictionSet& set, int decimals) {
  const double unit = std::pow(10, decimals);
  for (double& value : set.probabilities) value = std::round(value * unit) / unit;
}

// A kind of error in the table of detection times in docs/measured.md.
struct ErrorCase {
  // The name in the table.
  std::string name;
  GeneratorSpec spec;
  // The temperature at which the labels are drawn.
  double temperature = 1;
  // Number of predictions after which nearly every stream was detected.
  std::size_t longest = 0;

  [[nodiscard]] PredictionSet Stream(std::uint64_t seed) const {
    PredictionSet set = Draw(spec, longest, seed);
    if (temperature != 1) LabelAtTemperature(set, temperature, 0, seed);
    return set;
  }
};
inline std::vector<ErrorCase> ErrorCases() {
  GeneratorSpec one_in_twenty = GeneratorSpec::M2();
  one_in_twenty.pi = 0.05;
  return {{"every label is drawn at random", GeneratorSpec::M3(), 1, 200},
          {"half of the labels are class 0", GeneratorSpec::M2(), 1, 200},
          {"1 label in 20 is class 0", one_in_twenty, 1, 1000},
          {"temperature 1.5", GeneratorSpec::M1(), 1.5, 1500},
          {"temperature 1.2", GeneratorSpec::M1(), 1.2, 4000}};
}

// The rows of `set` with the indices `rows`, in this order.
inline PredictionSet Select(const PredictionSet& set, const std::vector<std::size_t>& rows) {
  PredictionSet selected;
  selected.class_count = set.class_count;
  for (const std::size_t row : rows) {
    const auto g = set.view().row(row);
    selected.probabilities.insert(selected.probabilities.end(), g.begin(), g.end());
    selected.labels.push_back(set.labels[row]);
  }
  return selected;
}

// The kernel for a stream, with the median of its first 500 predictions as bandwidth.
inline Kernel MedianKernel(const PredictionSet& warmup) {
  return *Kernel::ExponentialTotalVariation(
      *MedianBandwidth(warmup.probabilities, warmup.class_count));
}
// The basis for a sequence that contains its warm-up.
inline std::shared_ptr<const FourierBasis> MedianBasis(const PredictionSet& set) {
  PredictionSet warmup;
  warmup.class_count = set.class_count;
  const auto first = set.view().rows(0, 500);
  warmup.probabilities.assign(first.probabilities.begin(), first.probabilities.end());
  return *FourierBasis::Create(MedianKernel(warmup), set.class_count);
}
inline Kernel KernelOf(const GeneratorSpec& spec) { return MedianKernel(Draw(spec, 500, 99)); }
inline std::shared_ptr<const FourierBasis> BasisOf(const GeneratorSpec& spec) {
  return *FourierBasis::Create(KernelOf(spec), spec.alpha.size());
}

// The evidence of a model as a server collects it: the evidence against single classes is
// considered after every 64 predictions.
class WatchedEvidence {
 public:
  explicit WatchedEvidence(const std::shared_ptr<const FourierBasis>& basis,
                           double tolerance = kDefaultTolerance)
      : process_(*EvidenceProcess::Create(basis, tolerance, {.log_e = -std::log(kLevel)})),
        classes_(basis->class_count(), tolerance) {}

  void Add(const PredictionBatch& batch) {
    for (std::size_t first = 0; first < batch.size();) {
      const std::size_t rows = std::min(batch.size() - first, kPeriod - count_ % kPeriod);
      process_.Add(batch.rows(first, rows));
      classes_.Add(batch.rows(first, rows));
      first += rows;
      count_ += rows;
      if (count_ % kPeriod == 0) {
        Consider();
        process_.RecordMaximum();
      }
    }
  }
  void Consider() { process_.Consider({.log_class_mean = classes_.LogMean()}); }
  EvidenceReading Read() const { return process_.Read(); }

 private:
  static constexpr std::size_t kPeriod = 64;
  EvidenceProcess process_;
  ClassEvidence classes_;
  std::size_t count_ = 0;
};

// The first prediction at which `reached` is true, counted from 1, or n + 1.
template <typename Reached>
std::size_t FirstTime(const PredictionSet& set, const std::shared_ptr<const FourierBasis>& basis,
                      const Reached& reached) {
  WatchedEvidence evidence(basis);
  for (std::size_t i = 0; i < set.labels.size(); ++i) {
    evidence.Add(set.view().rows(i, 1));
    if (reached(evidence.Read())) return i + 1;
  }
  return set.labels.size() + 1;
}

inline bool EvidenceCrossed(const EvidenceReading& reading) {
  return reading.maximum.log_value >= -std::log(kLevel);
}

// The first prediction after which the e-value is at least 20, counted from 1, or n + 1.
inline std::size_t FirstCrossing(const PredictionSet& set,
                                 const std::shared_ptr<const FourierBasis>& basis) {
  constexpr std::size_t kRows = 64;
  WatchedEvidence evidence(basis);
  for (std::size_t first = 0; first < set.labels.size(); first += kRows) {
    evidence.Add(set.view().rows(first, std::min(kRows, set.labels.size() - first)));
    const std::int64_t reached = evidence.Read().evidence_reached_at;
    if (reached > 0) return static_cast<std::size_t>(reached);
  }
  return set.labels.size() + 1;
}

// The share of streams with E >= 20 after any of their predictions. stream(i): returns stream i.
template <typename Stream>
double AlarmRate(const std::shared_ptr<const FourierBasis>& basis, int simulations,
                 double tolerance, const Stream& stream) {
  int alarms = 0;
  for (int i = 0; i < simulations; ++i) {
    WatchedEvidence evidence(basis, tolerance);
    evidence.Add(stream(i).view());
    if (EvidenceCrossed(evidence.Read())) ++alarms;
  }
  return static_cast<double>(alarms) / simulations;
}

}  // namespace calibd::testing

#endif  // CALIBD_TESTS_STATISTICAL_EVIDENCE_STREAMS_H_
