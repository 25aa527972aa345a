#ifndef CALIBD_SERVER_KINDS_CLASSES_CLASS_STATE_H_
#define CALIBD_SERVER_KINDS_CLASSES_CLASS_STATE_H_

#include <memory>

#include "server/kinds/kind_state.h"

namespace calibd::server {

// The state of a model of classes: lenses, monitor, and comparison with a baseline.
[[nodiscard]] std::unique_ptr<KindState> MakeClassState(
    std::shared_ptr<const ModelDeclaration> declaration);

}  // namespace calibd::server

#endif  // CALIBD_SERVER_KINDS_CLASSES_CLASS_STATE_H_
