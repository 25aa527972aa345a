#ifndef CALIBD_SERVER_ANSWERS_VERDICT_TEXT_H_
#define CALIBD_SERVER_ANSWERS_VERDICT_TEXT_H_

#include <string>

#include "server/answers/verdict.h"
#include "server/model/model_declaration.h"
#include "server/state/model_snapshot.h"

namespace calibd::server {

// The verdict in sentences, in this order: how far off the model is against its limit; the groups
// over their limits; whether calibration is rejected; whether the verdict is stale. snapshot: of a
// monitored model. verdict: on this snapshot.
[[nodiscard]] std::string VerdictSummary(const ModelDeclaration& declaration,
                                         const ModelSnapshot& snapshot, const Verdict& verdict);

}  // namespace calibd::server

#endif  // CALIBD_SERVER_ANSWERS_VERDICT_TEXT_H_
