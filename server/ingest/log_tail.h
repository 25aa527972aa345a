#ifndef CALIBD_SERVER_INGEST_LOG_TAIL_H_
#define CALIBD_SERVER_INGEST_LOG_TAIL_H_

#include <cstdint>
#include <functional>
#include <string>

#include "server/store/log.h"

namespace calibd::server {

// Describes the rows that the end of the log lost, for the server's log: where it was, the batches,
// and the producers and models as far as they can still be read. model_name: returns the name for a
// model's id; empty if there is no such model.
[[nodiscard]] std::string DescribeTail(const LostTail& tail,
                                       const std::function<std::string(std::int64_t)>& model_name);

}  // namespace calibd::server

#endif  // CALIBD_SERVER_INGEST_LOG_TAIL_H_
