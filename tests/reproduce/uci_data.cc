#include "uci_data.h"

#include <algorithm>
#include <exception>
#include <fstream>
#include <map>
#include <numeric>
#include <span>
#include <sstream>
#include <string>
#include <utility>

namespace calibd::reproduce {
namespace {

using Fields = std::vector<std::string>;

// The rows of a file of comma-separated values without quotes.
std::vector<Fields> ReadFields(const std::filesystem::path& path) {
  std::ifstream in(path);
  std::vector<Fields> rows;
  for (std::string line; std::getline(in, line);) {
    if (line.ends_with('\r')) line.pop_back();
    std::istringstream fields(line + ',');
    rows.emplace_back();
    for (std::string field; std::getline(fields, field, ',');) rows.back().push_back(field);
  }
  return rows;
}

std::optional<double> ToNumber(const std::string& field) {
  std::size_t used = 0;
  try {
    const double value = std::stod(field, &used);
    if (used == field.size()) return value;
  } catch (const std::exception&) {
  }
  return std::nullopt;
}

// Takes columns first .. last - 1 as features. target_of: maps the fields of a row to its target.
template <typename TargetOf>
DataPart ToData(std::span<const Fields> rows, std::size_t first, std::size_t last,
                const TargetOf& target_of) {
  std::vector<std::vector<double>> columns;
  for (std::size_t c = first; c < last; ++c) {
    std::map<std::string, std::vector<double>> values;
    std::vector<double> numbers;
    for (const Fields& row : rows) {
      values[row[c]].resize(rows.size());
      if (const auto number = ToNumber(row[c])) numbers.push_back(*number);
    }
    if (numbers.size() == rows.size()) {
      columns.push_back(std::move(numbers));
      continue;
    }
    for (auto& [value, indicator] : values) {
      for (std::size_t i = 0; i < rows.size(); ++i) indicator[i] = rows[i][c] == value ? 1 : 0;
      columns.push_back(std::move(indicator));
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
                [](const Fields& row) { return row.back() == "0" ? 0 : 1; });
}

DataSplit SplitAtRandom(const DataPart& data, std::mt19937_64& random) {
  const std::size_t n = data.targets.size();
  std::vector<std::size_t> order(n);
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::shuffle(order.begin(), order.end(), random);
  const std::size_t train = n * 7 / 10;
  const std::size_t validation = n / 10;
  const std::span<const std::size_t> rows(order);
  DataSplit split{Select(data, rows.first(train)), Select(data, rows.subspan(train, validation)),
                  Select(data, rows.subspan(train + validation))};
  const Matrix mean = split.train.features.colwise().mean();
  const Matrix centred = split.train.features.rowwise() - mean.row(0);
  const Eigen::ArrayXd sd =
      (centred.array().square().colwise().sum() / static_cast<double>(train)).sqrt().transpose();
  const Eigen::VectorXd scale = (sd > 0).select(sd.inverse(), 0.0);
  for (DataPart* const part : {&split.train, &split.validation, &split.test}) {
    part->features = (part->features.rowwise() - mean.row(0)) * scale.asDiagonal();
  }
  return split;
}

}  // namespace calibd::reproduce
