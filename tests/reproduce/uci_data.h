#ifndef CALIBD_TESTS_REPRODUCE_UCI_DATA_H_
#define CALIBD_TESTS_REPRODUCE_UCI_DATA_H_

#include <cstddef>
#include <filesystem>
#include <optional>
#include <random>
#include <vector>

#include "network.h"

namespace calibd::reproduce {

// The rows of a data set of the UCI repository. Features are as they are in the file; TRUE is 1,
// FALSE is 0, and other text became one column of 0 and 1 for each of its values.
struct DataPart {
  Matrix features;
  // The outcome of each row, or its class, 0-based.
  std::vector<double> targets;
};
// floor(.7 n) rows for training, floor(.1 n) for validation, the others for the test. A constant
// feature is 0.
struct DataSplit {
  DataPart train;
  DataPart validation;
  DataPart test;
};

// Nothing if the folder has no such file.
[[nodiscard]] std::optional<DataPart> ReadCrime(const std::filesystem::path& folder);
[[nodiscard]] std::optional<DataPart> ReadBreastCancer(const std::filesystem::path& folder);
// The 299 rows without an empty field, as in the source of Marx et al. The classes are 0 (no
// disease) to 4.
[[nodiscard]] std::optional<DataPart> ReadHeartDisease(const std::filesystem::path& folder);
// Files that xz has compressed. Rows of ADULT with an unknown value are left out.
[[nodiscard]] std::optional<DataPart> ReadAdult(const std::filesystem::path& folder);
[[nodiscard]] std::optional<DataPart> ReadDryBean(const std::filesystem::path& folder);
[[nodiscard]] std::optional<DataPart> ReadOnlineShoppers(const std::filesystem::path& folder);
// ln(1 + number of comments).
[[nodiscard]] std::optional<DataPart> ReadFacebookComments(const std::filesystem::path& folder);
[[nodiscard]] std::optional<DataPart> ReadBlogFeedback(const std::filesystem::path& folder);
[[nodiscard]] std::optional<DataPart> ReadSuperconductivity(const std::filesystem::path& folder);
// Wheat of 1995. The first two features are the latitude and the longitude.
[[nodiscard]] std::optional<DataPart> ReadCropYield(const std::filesystem::path& folder);

// Features are centred and divided by their standard deviations over the training rows.
[[nodiscard]] DataSplit SplitAtRandom(const DataPart& data, std::mt19937_64& random);
// The division of Marx et al., the same for all seeds. Features are centred and divided by their
// standard deviations over all rows, as there.
[[nodiscard]] DataSplit SplitAsPublished(DataPart data);

}  // namespace calibd::reproduce

#endif  // CALIBD_TESTS_REPRODUCE_UCI_DATA_H_
