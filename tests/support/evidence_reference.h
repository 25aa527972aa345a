#ifndef CALIBD_TESTS_SUPPORT_EVIDENCE_REFERENCE_H_
#define CALIBD_TESTS_SUPPORT_EVIDENCE_REFERENCE_H_

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "calibd/core/experts.h"
#include "calibd/core/fourier_basis.h"
#include "calibd/core/kernel.h"

namespace calibd::testing {

// Fourier basis for predictions with m classes.
inline std::shared_ptr<const FourierBasis> MakeBasis(std::size_t m, double bandwidth = 0.8) {
  return *FourierBasis::Create(*Kernel::ExponentialTotalVariation(bandwidth), m);
}

// These experts computed from their formulas, in long double and without the optimizations of core.
// The past is frozen for the chunks of EvidenceProcess. retention: the factor by which the weights
// of the past are multiplied for each prediction of a chunk.
class ReferenceExperts {
 public:
  using Real = long double;

  ReferenceExperts(const FourierBasis& basis, double tolerance, double retention = 1)
      : basis_(basis),
        m_(basis.class_count()),
        tolerance_(tolerance),
        retention_(retention),
        fourier_sums_(kFourierCount),
        witness_(kFourierCount * m_),
        pooled_observed_(24),
        pooled_expected_(24),
        class_observed_(24 * m_),
        class_expected_(24 * m_),
        labels_(m_),
        expected_(m_) {}

  // Returns log E(y) of each expert.
  std::vector<Real> LogE(std::span<const double> g, std::size_t y) const {
    Real total = 0;
    for (const double value : g) total += value;
    const Real eps = static_cast<Real>(tolerance_) / static_cast<Real>(m_);
    std::vector<Real> p(m_);
    for (std::size_t k = 0; k < m_; ++k) p[k] = (g[k] + eps) / (total + tolerance_);
    const Real penalty = std::log(std::max<Real>(total, 1) + tolerance_);

    const std::vector<Real> f = Witness(g);
    Real mean = 0;
    for (std::size_t k = 0; k < m_; ++k) mean += p[k] * f[k];
    const Real loss = mean - *std::min_element(f.begin(), f.end());
    const Real match = std::max<Real>(0, Match(g));

    std::vector<Real> log_e;
    for (const double c : kWitnessBets) {
      log_e.push_back(loss <= 1e-12 ? 0 : std::log1p(c * (f[y] - mean) / loss));
    }
    for (const double eta : kTiltRates) {
      std::vector<Real> tilted(m_);
      for (std::size_t k = 0; k < m_; ++k) tilted[k] = p[k] * std::exp(eta * f[k] / (10 + match));
      log_e.push_back(LogRatio(tilted, p, y));
    }
    for (const bool pooled : {true, false}) {
      for (const double theta : kHistogramPowers) {
        std::vector<Real> q(m_);
        for (std::size_t k = 0; k < m_; ++k) {
          const std::size_t bin = Bin(g[k]);
          const Real o = pooled ? pooled_observed_[bin] : class_observed_[bin * m_ + k];
          const Real e = pooled ? pooled_expected_[bin] : class_expected_[bin * m_ + k];
          q[k] = p[k] * std::pow((o + 3) / (e + 3), static_cast<Real>(theta));
        }
        log_e.push_back(LogRatio(q, p, y));
      }
    }
    for (const double beta : kPowers) {
      std::vector<Real> q(m_);
      for (std::size_t k = 0; k < m_; ++k) q[k] = std::pow(p[k], static_cast<Real>(beta));
      log_e.push_back(LogRatio(q, p, y));
    }
    for (const Real pi : kUniformShares) {
      log_e.push_back(std::log(((1 - pi) * p[y] + pi / static_cast<Real>(m_)) / p[y]));
    }
    for (const Real pi : kLabelShares) {
      const Real share = (labels_[y] + 0.5L) / (count_ + static_cast<Real>(m_) / 2);
      log_e.push_back(std::log(((1 - pi) * p[y] + pi * share) / p[y]));
    }
    for (const double theta : kHistogramPowers) {
      std::vector<Real> q(m_);
      for (std::size_t k = 0; k < m_; ++k) {
        q[k] = p[k] * std::pow((labels_[k] + 3) / (expected_[k] + 3), static_cast<Real>(theta));
      }
      log_e.push_back(LogRatio(q, p, y));
    }
    for (Real& value : log_e) value -= penalty;
    return log_e;
  }

  // Adds a prediction to its chunk, and a complete chunk to the past.
  void Join(std::span<const double> g, std::size_t y) {
    pending_.push_back({{g.begin(), g.end()}, y});
    ++rows_;
    std::size_t chunk = 1;
    while (chunk < 64 && 32 * chunk < rows_) chunk *= 2;
    if (rows_ % chunk == 0) Flush();
  }

  // Adds an incomplete chunk to the past.
  void Flush() {
    const Real retained = std::pow(retention_, static_cast<Real>(pending_.size()));
    for (auto* const sums : {&fourier_sums_, &witness_, &pooled_observed_, &pooled_expected_,
                             &class_observed_, &class_expected_, &labels_, &expected_}) {
      for (Real& value : *sums) value *= retained;
    }
    count_ *= retained;
    for (const auto& [g, y] : pending_) AddToSums(g, y);
    pending_.clear();
  }

  // F = A' phi(g).
  std::vector<Real> Witness(std::span<const double> g) const {
    const std::vector<double> phi = BasisOf(g);
    std::vector<Real> f(m_);
    for (std::size_t j = 0; j < kFourierCount; ++j) {
      for (std::size_t k = 0; k < m_; ++k) f[k] += phi[j] * witness_[j * m_ + k];
    }
    return f;
  }
  Real WitnessNorm() const {
    Real sum = 0;
    for (const Real value : witness_) sum += value * value;
    return std::sqrt(sum);
  }

  const std::vector<Real>& fourier_sums() const { return fourier_sums_; }
  const std::vector<Real>& witness() const { return witness_; }
  const std::vector<Real>& class_expected() const { return class_expected_; }

 private:
  void AddToSums(const std::vector<double>& g, std::size_t y) {
    count_ += 1;
    const std::vector<double> phi = BasisOf(g);
    for (std::size_t j = 0; j < kFourierCount; ++j) {
      fourier_sums_[j] += phi[j];
      for (std::size_t k = 0; k < m_; ++k) {
        witness_[j * m_ + k] += static_cast<Real>(phi[j]) * ((k == y ? 1 : 0) - Real{g[k]});
      }
    }
    for (std::size_t k = 0; k < m_; ++k) {
      pooled_expected_[Bin(g[k])] += g[k];
      class_expected_[Bin(g[k]) * m_ + k] += g[k];
      expected_[k] += g[k];
    }
    pooled_observed_[Bin(g[y])] += 1;
    class_observed_[Bin(g[y]) * m_ + y] += 1;
    labels_[y] += 1;
  }
  std::vector<double> BasisOf(std::span<const double> g) const {
    std::vector<double> phi(kFourierCount);
    basis_.Map(g, phi);
    return phi;
  }
  Real Match(std::span<const double> g) const {
    const std::vector<double> phi = BasisOf(g);
    Real match = 0;
    for (std::size_t j = 0; j < kFourierCount; ++j) match += phi[j] * fourier_sums_[j];
    return match;
  }
  // Bins of the log odds, clamped to [-12, 12].
  static std::size_t Bin(double g) {
    if (g <= 0) return 0;
    if (g >= 1) return 23;
    const double log_odds = std::log(g / (1 - g));
    return static_cast<std::size_t>(std::clamp(std::floor(log_odds + 12), 0.0, 23.0));
  }
  // log of (q_y / sum q) / p_y.
  static Real LogRatio(const std::vector<Real>& q, const std::vector<Real>& p, std::size_t y) {
    Real sum = 0;
    for (const Real value : q) sum += value;
    return std::log(q[y] / sum / p[y]);
  }

  const FourierBasis& basis_;
  std::size_t m_;
  double tolerance_;
  double retention_;
  std::size_t rows_ = 0;
  std::vector<std::pair<std::vector<double>, std::size_t>> pending_;
  Real count_ = 0;
  std::vector<Real> fourier_sums_;
  std::vector<Real> witness_;
  std::vector<Real> pooled_observed_;
  std::vector<Real> pooled_expected_;
  std::vector<Real> class_observed_;
  std::vector<Real> class_expected_;
  std::vector<Real> labels_;
  std::vector<Real> expected_;
};

}  // namespace calibd::testing

#endif  // CALIBD_TESTS_SUPPORT_EVIDENCE_REFERENCE_H_
