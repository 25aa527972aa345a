#include "uci_data.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <initializer_list>
#include <istream>
#include <map>
#include <numeric>
#include <set>
#include <span>
#include <string>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "check.h"

namespace calibd::reproduce {
namespace {

using Fields = std::vector<std::string>;

// The rows of comma-separated values without quotes. Blanks around a field are left out.
std::vector<Fields> ReadFields(std::istream& in) {
  std::vector<Fields> rows;
  for (std::string line; std::getline(in, line);) {
    if (absl::StripAsciiWhitespace(line).empty()) continue;
    rows.emplace_back();
    for (const absl::string_view field : absl::StrSplit(line, ',')) {
      rows.back().emplace_back(absl::StripAsciiWhitespace(field));
    }
  }
  return rows;
}

std::vector<Fields> ReadFields(const std::filesystem::path& path) {
  std::ifstream in(path);
  return ReadFields(in);
}

std::vector<Fields> ReadCompressedFields(const std::filesystem::path& path) {
  auto content = ReadCompressed(path);
  return content.has_value() ? ReadFields(*content) : std::vector<Fields>();
}

std::optional<double> ToNumber(const std::string& field) {
  if (field == "TRUE") return 1;
  if (field == "FALSE") return 0;
  double value = 0;
  return absl::SimpleAtod(field, &value) ? std::optional(value) : std::nullopt;
}

// Takes columns first .. last - 1 as features. target_of: maps the fields of a row to its target.
template <typename TargetOf>
DataPart ToData(std::span<const Fields> rows, std::size_t first, std::size_t last,
                const TargetOf& target_of) {
  std::vector<std::vector<double>> columns;
  for (std::size_t c = first; c < last; ++c) {
    std::vector<double> numbers;
    for (const Fields& row : rows) {
      const auto number = ToNumber(row[c]);
      if (!number.has_value()) break;
      numbers.push_back(*number);
    }
    if (numbers.size() == rows.size()) {
      columns.push_back(std::move(numbers));
      continue;
    }
    std::set<std::string> values;
    for (const Fields& row : rows) values.insert(row[c]);
    for (const std::string& value : values) {
      std::vector<double>& indicator = columns.emplace_back();
      for (const Fields& row : rows) indicator.push_back(row[c] == value ? 1 : 0);
    }
  }
  DataPart data;
  data.features.resize(static_cast<Eigen::Index>(rows.size()),
                       static_cast<Eigen::Index>(columns.size()));
  for (std::size_t c = 0; c < columns.size(); ++c) {
    data.features.col(static_cast<Eigen::Index>(c)) = Eigen::Map<const Eigen::VectorXd>(
        columns[c].data(), static_cast<Eigen::Index>(rows.size()));
  }
  for (const Fields& row : rows) data.targets.push_back(target_of(row));
  return data;
}

// All columns are numbers, and the last one is the outcome.
std::optional<DataPart> ReadNumbers(const std::filesystem::path& path, bool header) {
  auto content = ReadCompressed(path);
  if (!content.has_value()) return std::nullopt;
  DataPart data;
  std::vector<double> values;
  std::string line;
  if (header) std::getline(*content, line);
  while (std::getline(*content, line)) {
    for (const absl::string_view field : absl::StrSplit(line, ',')) {
      if (!absl::SimpleAtod(field, &values.emplace_back())) return std::nullopt;
    }
    data.targets.push_back(values.back());
    values.pop_back();
  }
  const auto rows = static_cast<Eigen::Index>(data.targets.size());
  data.features = Eigen::Map<const Matrix>(values.data(), rows,
                                           static_cast<Eigen::Index>(values.size()) / rows);
  return data;
}

std::optional<DataPart> ReadComments(const std::filesystem::path& path) {
  auto data = ReadNumbers(path, false);
  if (data.has_value()) {
    for (double& target : data->targets) target = std::log1p(target);
  }
  return data;
}

// Centres the features and divides them by their standard deviations over the rows of `reference`.
void Standardize(const Matrix& reference, std::initializer_list<DataPart*> parts) {
  const Matrix mean = reference.colwise().mean();
  const Matrix centred = reference.rowwise() - mean.row(0);
  const Eigen::ArrayXd sd =
      (centred.array().square().colwise().sum() / static_cast<double>(reference.rows()))
          .sqrt()
          .transpose();
  // A mean of equal values may differ from them by rounding.
  const Eigen::VectorXd scale = (sd > 1e-12).select(sd.inverse(), 0.0);
  for (DataPart* const part : parts) {
    part->features = (part->features.rowwise() - mean.row(0)) * scale.asDiagonal();
  }
}

DataPart Select(const DataPart& data, std::span<const std::size_t> rows) {
  DataPart part;
  part.features = data.features(std::vector<std::size_t>(rows.begin(), rows.end()), Eigen::all);
  for (const std::size_t row : rows) part.targets.push_back(data.targets[row]);
  return part;
}

}  // namespace

std::optional<DataPart> ReadCrime(const std::filesystem::path& folder) {
  const std::vector<Fields> rows = ReadFields(folder / "communities_processed.csv");
  if (rows.empty()) return std::nullopt;
  return ToData(std::span(rows).subspan(1), 0, rows[0].size() - 1,
                [](const Fields& row) { return *ToNumber(row.back()); });
}

std::optional<DataPart> ReadBreastCancer(const std::filesystem::path& folder) {
  const std::vector<Fields> rows = ReadFields(folder / "wdbc.data");
  if (rows.empty()) return std::nullopt;
  return ToData(rows, 2, rows[0].size(), [](const Fields& row) { return row[1] == "M" ? 1 : 0; });
}

std::optional<DataPart> ReadHeartDisease(const std::filesystem::path& folder) {
  std::vector<Fields> rows = ReadFields(folder / "heart_disease_uci.csv");
  if (rows.empty()) return std::nullopt;
  rows.erase(rows.begin());
  std::erase_if(rows, [](const Fields& row) { return std::count(row.begin(), row.end(), "") > 0; });
  // The first column is a number of the row, the fourth the name of the hospital.
  for (Fields& row : rows) row.erase(row.begin() + 3);
  return ToData(rows, 1, rows[0].size() - 1,
                [](const Fields& row) { return *ToNumber(row.back()); });
}

std::optional<DataPart> ReadAdult(const std::filesystem::path& folder) {
  std::vector<Fields> rows = ReadCompressedFields(folder / "adult.data.xz");
  if (rows.empty()) return std::nullopt;
  std::erase_if(rows,
                [](const Fields& row) { return std::count(row.begin(), row.end(), "?") > 0; });
  return ToData(rows, 0, rows[0].size() - 1,
                [](const Fields& row) { return row.back() == ">50K" ? 1 : 0; });
}

std::optional<DataPart> ReadDryBean(const std::filesystem::path& folder) {
  const std::vector<Fields> rows = ReadCompressedFields(folder / "dry_bean_dataset.csv.xz");
  if (rows.empty()) return std::nullopt;
  const std::span<const Fields> beans = std::span(rows).subspan(1);
  std::map<std::string, std::size_t> classes;
  for (const Fields& row : beans) classes.emplace(row.back(), 0);
  std::size_t number = 0;
  for (auto& [name, index] : classes) index = number++;
  return ToData(beans, 0, rows[0].size() - 1,
                [&](const Fields& row) { return static_cast<double>(classes.at(row.back())); });
}

std::optional<DataPart> ReadOnlineShoppers(const std::filesystem::path& folder) {
  const std::vector<Fields> rows =
      ReadCompressedFields(folder / "online_shoppers_intention.csv.xz");
  if (rows.empty()) return std::nullopt;
  return ToData(std::span(rows).subspan(1), 0, rows[0].size() - 1,
                [](const Fields& row) { return *ToNumber(row.back()); });
}

std::optional<DataPart> ReadFacebookComments(const std::filesystem::path& folder) {
  return ReadComments(folder / "Features_Variant_1.csv.xz");
}

std::optional<DataPart> ReadBlogFeedback(const std::filesystem::path& folder) {
  return ReadComments(folder / "blogData_train.csv.xz");
}

std::optional<DataPart> ReadSuperconductivity(const std::filesystem::path& folder) {
  return ReadNumbers(folder / "superconductivity_20pct.csv.xz", true);
}

std::optional<DataPart> ReadCropYield(const std::filesystem::path& folder) {
  const std::vector<Fields> rows =
      ReadCompressedFields(folder / "county_cropyield_processed_filled.csv.xz");
  if (rows.empty()) return std::nullopt;
  // The columns before are the county, the yield and the year, and the last one is the crop.
  return ToData(std::span(rows).subspan(1), 3, rows[0].size() - 1,
                [](const Fields& row) { return *ToNumber(row[1]); });
}

namespace {

DataSplit Divide(const DataPart& data, std::span<const std::size_t> order) {
  const std::size_t train = order.size() * 7 / 10;
  const std::size_t validation = order.size() / 10;
  return {Select(data, order.first(train)), Select(data, order.subspan(train, validation)),
          Select(data, order.subspan(train + validation))};
}

}  // namespace

DataSplit SplitAtRandom(const DataPart& data, std::mt19937_64& random) {
  std::vector<std::size_t> order(data.targets.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::shuffle(order.begin(), order.end(), random);
  DataSplit split = Divide(data, order);
  const Matrix reference = split.train.features;
  Standardize(reference, {&split.train, &split.validation, &split.test});
  return split;
}

DataSplit SplitAsPublished(DataPart data) {
  const Matrix reference = data.features;
  Standardize(reference, {&data});
  // The permutation that torch.randperm draws with the seed 1.
  std::mt19937 random(1);
  const std::size_t n = data.targets.size();
  std::vector<std::size_t> order(n);
  std::iota(order.begin(), order.end(), std::size_t{0});
  for (std::size_t i = 0; i + 1 < n; ++i) std::swap(order[i], order[i + random() % (n - i)]);
  return Divide(data, order);
}

}  // namespace calibd::reproduce
