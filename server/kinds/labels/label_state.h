#ifndef CALIBD_SERVER_KINDS_LABELS_LABEL_STATE_H_
#define CALIBD_SERVER_KINDS_LABELS_LABEL_STATE_H_

#include <memory>

#include "server/kinds/kind_state.h"

namespace calibd::server {

// The state of a model of several labels: its monitor, and the sums of its history.
[[nodiscard]] std::unique_ptr<KindState> MakeLabelState(
    const std::shared_ptr<const ModelDeclaration>& declaration);

}  // namespace calibd::server

#endif  // CALIBD_SERVER_KINDS_LABELS_LABEL_STATE_H_
