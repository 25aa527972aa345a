#include "base/binomial.h"

#include <algorithm>
#include <boost/math/distributions/binomial.hpp>
#include <boost/math/special_functions/beta.hpp>
#include <cmath>

#include "base/boost_policy.h"

namespace calibd {

Range SuccessRange(std::size_t n, double p, double level) {
  const auto trials = static_cast<double>(n);
  if (p <= 0) return {0, 0};
  if (p >= 1) return {trials, trials};
  const boost::math::binomial_distribution<double, MathPolicy> binomial(trials, p);
  const double tail = (1 - level) / 2;
  return {std::min(boost::math::quantile(binomial, tail), std::floor(trials * p)),
          std::max(boost::math::quantile(boost::math::complement(binomial, tail)),
                   std::ceil(trials * p))};
}

Range ClopperPearson(std::size_t successes, std::size_t n, double level) {
  const double tail = (1 - level) / 2;
  const auto x = static_cast<double>(successes);
  const auto failures = static_cast<double>(n - successes);
  return {successes == 0 ? 0 : boost::math::ibeta_inv(x, failures + 1, tail, MathPolicy()),
          successes == n ? 1 : boost::math::ibetac_inv(x + 1, failures, tail, MathPolicy())};
}

}  // namespace calibd
