#ifndef CALIBD_CORE_SRC_BASE_BOOST_POLICY_H_
#define CALIBD_CORE_SRC_BASE_BOOST_POLICY_H_

#include <boost/math/policies/policy.hpp>

namespace calibd {

// Boost.Math without exceptions. An integer quantile is the smallest k with cdf(k) >= q.
using MathPolicy = boost::math::policies::policy<
    boost::math::policies::domain_error<boost::math::policies::errno_on_error>,
    boost::math::policies::pole_error<boost::math::policies::errno_on_error>,
    boost::math::policies::overflow_error<boost::math::policies::errno_on_error>,
    boost::math::policies::evaluation_error<boost::math::policies::errno_on_error>,
    boost::math::policies::discrete_quantile<boost::math::policies::integer_round_up>>;

}  // namespace calibd

#endif  // CALIBD_CORE_SRC_BASE_BOOST_POLICY_H_
