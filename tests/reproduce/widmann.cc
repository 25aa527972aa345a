// Repeats results of Widmann, Lindsten & Zachariah, "Calibration tests in multi-class
// classification: A unifying framework", NeurIPS 2019. Each line has the measured value, its
// expectation and a verdict. Arguments: the folder of data, then --full for as many sets as the
// paper, --pictures with the folder for the pictures, and the lines, such as W1; all if there are
// none.
#include "widmann.h"

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <string_view>

#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "check.h"

namespace calibd::reproduce {

GeneratorSpec ReferenceModel::Spec() const {
  GeneratorSpec spec{.alpha = std::vector<double>(class_count, alpha), .pi = pi, .beta = {}};
  spec.beta.assign(class_count, first_class ? 0.0 : 1.0 / static_cast<double>(class_count));
  if (first_class) spec.beta[0] = 1;
  return spec;
}

std::string ReferenceModel::Name() const {
  return absl::StrFormat("alpha %g, beta %s, m %d, pi %g", alpha,
                         first_class ? "class 1" : "uniform", class_count, pi);
}

const std::string& PublishedTable::Text(const std::vector<std::string>& row,
                                        const std::string& column) const {
  return row.at(columns.at(column));
}

double PublishedTable::Number(const std::vector<std::string>& row,
                              const std::string& column) const {
  return std::stod(Text(row, column));
}

ReferenceModel PublishedTable::Model(const std::vector<std::string>& row) const {
  return {.alpha = Number(row, "alpha"),
          .first_class = Text(row, "beta") == "first",
          .class_count = std::stoul(Text(row, "m")),
          .pi = Number(row, "pi")};
}

std::vector<double> NumbersOf(const std::string& text) {
  std::vector<double> numbers;
  for (const std::string& number : std::vector<std::string>(absl::StrSplit(text, ' '))) {
    numbers.push_back(std::stod(number));
  }
  return numbers;
}

PublishedTable ReadPublished(const std::filesystem::path& path) {
  PublishedTable table;
  std::ifstream in(path);
  for (std::string line; std::getline(in, line);) {
    std::vector<std::string> row = absl::StrSplit(line, ',');
    if (!table.columns.empty()) {
      table.rows.push_back(std::move(row));
      continue;
    }
    for (std::size_t i = 0; i < row.size(); ++i) table.columns[row[i]] = i;
  }
  if (table.rows.empty()) {
    absl::PrintF(
        "left out: what needs %s, which is a file of the experiments' repository, "
        "github.com/devmotion/CalibrationPaper\n",
        path.string());
  }
  return table;
}

void ForEachSet(const ReferenceModel& model, std::size_t sets,
                const std::function<void(std::size_t, const PredictionBatch&)>& body) {
  OnAllProcessors(sets, [&](std::size_t i) {
    PredictionSet set;
    Generator::Create(model.Spec(), i)->Draw(kSetSize, set);
    body(i, set.view());
  });
}

namespace {

int Run(const std::filesystem::path& data, std::vector<std::string> lines) {
  const std::filesystem::path published = data / "reproduce" / "widmann";
  Scope scope{.full = std::erase(lines, "--full") > 0, .pictures = "build/test"};
  if (const auto option = std::ranges::find(lines, "--pictures"); option != lines.end()) {
    if (option + 1 == lines.end()) {
      absl::FPrintF(stderr, "--pictures needs the folder for the pictures\n");
      return 2;
    }
    scope.pictures = *(option + 1);
    lines.erase(option, option + 2);
  }
  const std::map<std::string, std::function<void()>> all = {
      {"W1", [&] { ReproduceEstimates(published, scope); }},
      {"W3", [&] { ReproduceTests(published, scope); }},
      {"W5", [&] { ReproduceNetworks(data / "cifar10"); }},
      {"W6", [&] { ReproduceTimes(published); }},
  };
  if (lines.empty()) {
    for (const auto& [name, unused] : all) lines.push_back(name);
  }
  for (const std::string& line : lines) {
    const auto found = all.find(line);
    if (found == all.end()) {
      absl::FPrintF(stderr,
                    "there is no line '%s', expected W1 (with W2), W3 (with W4 if --full), "
                    "W5 or W6\n",
                    line);
      return 2;
    }
    found->second();
  }
  return Finish();
}

}  // namespace
}  // namespace calibd::reproduce

int main(int argc, char** argv) {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  if (arguments.empty()) return calibd::reproduce::Run("", {});
  return calibd::reproduce::Run(arguments[0], {arguments.begin() + 1, arguments.end()});
}
