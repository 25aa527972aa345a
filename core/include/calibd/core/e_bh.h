#ifndef CALIBD_CORE_E_BH_H_
#define CALIBD_CORE_E_BH_H_

#include <span>
#include <vector>

namespace calibd {

// The e-BH procedure: which of K hypotheses are rejected by their e-values, such that the expected
// share of false ones among them (the false discovery rate) is at most alpha, under any dependence
// between the e-values. Rejects the hypotheses with e >= K / (alpha k), where k is the largest
// number such that the k largest e-values satisfy this. Source: Wang & Ramdas, J. R. Stat. Soc. B
// 84 (2022) 822, Theorem 5.1.
//
// An e-process read at any time is an e-value; its maximum over the past is not.
//
// log10_e_values: one for each hypothesis, -inf allowed. alpha: in (0, 1]. Cost: O(K log K).
[[nodiscard]] std::vector<bool> RejectedByEbh(std::span<const double> log10_e_values, double alpha);

}  // namespace calibd

#endif  // CALIBD_CORE_E_BH_H_
