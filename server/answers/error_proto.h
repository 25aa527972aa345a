#ifndef CALIBD_SERVER_ANSWERS_ERROR_PROTO_H_
#define CALIBD_SERVER_ANSWERS_ERROR_PROTO_H_

#include "calibd/v1/monitoring.pb.h"
#include "server/model/model_declaration.h"
#include "server/watch/limit.h"
#include "server/watch/monitor_snapshot.h"

namespace calibd::server {

// Fills in the answer to how far off a model or a group is.
void DescribeError(const ModelDeclaration& declaration, const ErrorSnapshot& error,
                   v1::CalibrationError& proto);
// Adds after how many further observations the undecided error of a model is decided, if that can
// be foreseen. Cost: some milliseconds for the first call of a snapshot.
void DescribeRowsUntilDecided(const ErrorSnapshot& error, v1::CalibrationError& proto);
// Adds the newest change of the error of a model, if one can be dated. Cost: some 0.2 ms for each
// event, for the first call of a snapshot.
void DescribeChange(const ErrorSnapshot& error, v1::CalibrationError& proto);

}  // namespace calibd::server

#endif  // CALIBD_SERVER_ANSWERS_ERROR_PROTO_H_
