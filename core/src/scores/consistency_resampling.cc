#include "calibd/core/consistency_resampling.h"

#include "calibd/core/labelled_rows.h"
#include "calibd/core/status_macros.h"
#include "hypothesis/replicates.h"

namespace calibd {

absl::StatusOr<ConsistencyTestResult> ConsistencyTest(const PredictionBatch& batch,
                                                      const BinnedErrorSpec& spec,
                                                      const BootstrapOptions& options,
                                                      const RunControl& control) {
  CALIBD_RETURN_IF_ERROR(CheckBinnedErrorSpec(spec, batch.size()));
  const BinnedErrorOfSelection error(batch, spec);
  const auto ece = [&error](const LabelledRows& rows) { return error(rows).ece; };
  CALIBD_ASSIGN_OR_RETURN(const ResamplingResult result,
                          SimulateTest(batch, ece, options, control));
  return ConsistencyTestResult{result, error(LabelledRows(batch))};
}

}  // namespace calibd
