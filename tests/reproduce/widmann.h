#ifndef CALIBD_TESTS_REPRODUCE_WIDMANN_H_
#define CALIBD_TESTS_REPRODUCE_WIDMANN_H_

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "calibd/core/generator.h"
#include "calibd/core/prediction_batch.h"

// Results of Widmann, Lindsten & Zachariah, "Calibration tests in multi-class classification: A
// unifying framework", NeurIPS 2019, with its supplement.
namespace calibd::reproduce {

// Number of labelled predictions in each set of the simulations.
inline constexpr std::size_t kSetSize = 250;
// Number of sets behind each published mean and share.
inline constexpr double kPublishedSets = 10000;

// One of the models of the simulations: all components of alpha are equal.
struct ReferenceModel {
  double alpha = 0;
  // Whether labels that ignore the prediction are class 1; uniform otherwise.
  bool first_class = false;
  std::size_t class_count = 0;
  double pi = 0;

  [[nodiscard]] GeneratorSpec Spec() const;
  // Such as "alpha .1, beta uniform, m 10, pi .5".
  [[nodiscard]] std::string Name() const;
  friend auto operator<=>(const ReferenceModel&, const ReferenceModel&) = default;
};

// A file of comma-separated values whose first line has names.
struct PublishedTable {
  std::map<std::string, std::size_t> columns;
  std::vector<std::vector<std::string>> rows;

  [[nodiscard]] const std::string& Text(const std::vector<std::string>& row,
                                        const std::string& column) const;
  [[nodiscard]] double Number(const std::vector<std::string>& row, const std::string& column) const;
  [[nodiscard]] ReferenceModel Model(const std::vector<std::string>& row) const;
};
// A field with numbers between blanks.
[[nodiscard]] std::vector<double> NumbersOf(const std::string& text);
// Without rows if there is no such file.
[[nodiscard]] PublishedTable ReadPublished(const std::filesystem::path& path);

// Calls body with the number of each set and its predictions, on all processors.
void ForEachSet(const ReferenceModel& model, std::size_t sets,
                const std::function<void(std::size_t, const PredictionBatch&)>& body);

struct Scope {
  // As many sets as the paper.
  bool full = false;
  // The folder for Figures 1 and 2.
  std::filesystem::path pictures;
};
// data: the folder with the published numbers.
void ReproduceEstimates(const std::filesystem::path& data, const Scope& scope);  // W1, W2
void ReproduceTests(const std::filesystem::path& data, const Scope& scope);  // W3, and W4 if full
void ReproduceNetworks(const std::filesystem::path& predictions);            // W5
void ReproduceTimes(const std::filesystem::path& data);                      // W6

}  // namespace calibd::reproduce

#endif  // CALIBD_TESTS_REPRODUCE_WIDMANN_H_
