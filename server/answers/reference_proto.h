#ifndef CALIBD_SERVER_ANSWERS_REFERENCE_PROTO_H_
#define CALIBD_SERVER_ANSWERS_REFERENCE_PROTO_H_

#include "calibd/v1/monitoring.pb.h"
#include "server/model/model_declaration.h"
#include "server/watch/monitor_snapshot.h"

namespace calibd::server {

// Whether the error changed since the reference; UNSPECIFIED without one.
[[nodiscard]] v1::ReferenceChange::Status ReferenceStatus(const MonitorSnapshot& monitor);
// Fills in the comparison of a model with its reference. declaration: with a reference.
void DescribeReference(const ModelDeclaration& declaration, const MonitorSnapshot& monitor,
                       v1::ReferenceChange& proto);
void DescribeFinding(const ReferenceFinding& finding, v1::ReferenceChange::Finding& proto);

}  // namespace calibd::server

#endif  // CALIBD_SERVER_ANSWERS_REFERENCE_PROTO_H_
