#ifndef CALIBD_SERVER_KINDS_PROVENANCE_H_
#define CALIBD_SERVER_KINDS_PROVENANCE_H_

#include <chrono>
#include <cstdint>

#include "calibd/v1/evaluation.pb.h"
#include "server/model/model_declaration.h"

namespace calibd::server {

// Describes the observations and the time from which a number of a fixed-n method was computed.
// Observations are numbered from 1.
void DescribeProvenance(const ModelDeclaration& declaration, std::int64_t first_observation,
                        std::int64_t last_observation, std::chrono::system_clock::time_point time,
                        v1::Provenance& provenance);

}  // namespace calibd::server

#endif  // CALIBD_SERVER_KINDS_PROVENANCE_H_
