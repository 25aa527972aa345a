#ifndef CALIBD_CLIENT_CLI_FILES_ROW_ORDER_H_
#define CALIBD_CLIENT_CLI_FILES_ROW_ORDER_H_

#include <cstdint>

#include "client/cli/files/prediction_file.h"

namespace calibd::cli {

// Puts the rows in the order of their times; rows of one time keep their order. Records in
// input.changes how many rows have another place than before. Rows without times are left as they
// are. Cost: O(n log n), and a copy of the rows if any moves.
void SortByTime(Input& input);

// Puts the rows in a random order, which the seed determines. Cost: a copy of the rows.
void Shuffle(std::uint64_t seed, Table& table);
void Shuffle(std::uint64_t seed, Input& input);

}  // namespace calibd::cli

#endif  // CALIBD_CLIENT_CLI_FILES_ROW_ORDER_H_
