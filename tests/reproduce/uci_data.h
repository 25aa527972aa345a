#ifndef CALIBD_TESTS_REPRODUCE_UCI_DATA_H_
#define CALIBD_TESTS_REPRODUCE_UCI_DATA_H_

#include <cstddef>
#include <filesystem>
#include <optional>
#include <random>
#include <vector>

#include "network.h"

namespace calibd::reproduce {

// The rows of a data set of the UCI repository with their features, each centred and divided by its
// standard deviation over the training rows; a constant feature is 0. The rows are divided at
// random: floor(.7 n) for training, floor(.1 n) for validation, the others for the test.
struct DataPart {
  Matrix features;
  // The outcome of each row, or its class, 0-based.
  std::vector<double> targets;
};
struct DataSplit {
  DataPart train;
  DataPart validation;
  DataPart test;
};

// Features as they are in the file; text became one column of 0 and 1 for each of its values.
// Nothing if the folder has no such file.
[[nodiscard]] std::optional<DataPart> ReadCrime(const std::filesystem::path& folder);
[[nodiscard]] std::optional<DataPart> ReadBreastCancer(const std::filesystem::path& folder);
// The 299 rows without an empty field, as in the source of Marx et al. Class 1: any disease.
[[nodiscard]] std::optional<DataPart> ReadHeartDisease(const std::filesystem::path& folder);

[[nodiscard]] DataSplit SplitAtRandom(const DataPart& data, std::mt19937_64& random);

}  // namespace calibd::reproduce

#endif  // CALIBD_TESTS_REPRODUCE_UCI_DATA_H_
