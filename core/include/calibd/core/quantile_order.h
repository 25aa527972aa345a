#ifndef CALIBD_CORE_QUANTILE_ORDER_H_
#define CALIBD_CORE_QUANTILE_ORDER_H_

#include <string>

#include "calibd/core/row_sum.h"

// The error of quantiles that decrease. The server, the C++ SDK and the offline evaluation use it;
// it needs only the standard library.
namespace calibd {

// Describes a quantile that is less than the one before it. To sort the quantiles of a row never
// makes their error larger (Chernozhukov, Fernandez-Val & Galichon, Econometrica 2010).
[[nodiscard]] inline std::string DescribeCrossing(double quantile, double before) {
  return "is " + Exact(quantile) + ", expected at least " + Exact(before) +
         ", the quantile before it; separate models of the quantiles may cross: sort each row";
}

}  // namespace calibd

#endif  // CALIBD_CORE_QUANTILE_ORDER_H_
