#include "calibd/core/consistency_resampling.h"

#include <cstddef>
#include <vector>

#include "absl/status/status.h"
#include "binned_error_rows.h"
#include "calibd/core/status_macros.h"
#include "categorical.h"
#include "labelled_rows.h"
#include "replicates.h"
#include "rng.h"

namespace calibd {
namespace {

// Errors that differ by less than this are considered equal: they may differ by the order of
// summation.
constexpr double kTie = 1e-12;

}  // namespace

absl::StatusOr<ConsistencyTestResult> ConsistencyTest(const PredictionBatch& batch,
                                                      const BinnedErrorSpec& spec,
                                                      const BootstrapOptions& options,
                                                      const RunControl& control) {
  CALIBD_RETURN_IF_ERROR(CheckReplicates(options));
  const std::size_t n = batch.size();
  CALIBD_RETURN_IF_ERROR(CheckBinnedErrorSpec(spec, n));
  const BinnedError error = BinnedErrorOfRows(LabelledRows(batch), spec);
  std::vector<double> replicates(static_cast<std::size_t>(options.replicates));
  const absl::Status status = RunReplicates(replicates.size(), control, [&](std::size_t r) {
    Rng rng(options.seed, r);
    std::vector<std::size_t> picked(n);
    std::vector<std::int32_t> labels(n);
    for (std::size_t i = 0; i < n; ++i) {
      picked[i] = rng.Below(static_cast<std::uint32_t>(n));
      labels[i] = Categorical(batch.row(picked[i]), rng);
    }
    replicates[r] = BinnedErrorOfRows(LabelledRows(batch, picked, labels), spec).ece;
  });
  if (!status.ok()) return status;
  return ConsistencyTestResult{CompareWithReplicates(error.ece - kTie, replicates, options.seed),
                               error};
}

}  // namespace calibd
