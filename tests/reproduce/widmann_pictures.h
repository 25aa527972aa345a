#ifndef CALIBD_TESTS_REPRODUCE_WIDMANN_PICTURES_H_
#define CALIBD_TESTS_REPRODUCE_WIDMANN_PICTURES_H_

#include <cstddef>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "widmann.h"

// Figures 1 and 2 of the paper, with the published numbers and those of calibd.
namespace calibd::reproduce {

// The models of the figures: M1, M2 and M3.
[[nodiscard]] const std::vector<ReferenceModel>& ModelsOfFigures();

// A panel of Figure 1: estimates of many sets.
struct EstimatePanel {
  // How the published estimates are distributed over bins of equal width.
  double first_edge = 0;
  double bin_width = 0;
  std::vector<double> counts;
  double true_value = 0;
  std::vector<double> estimates;
};
// A panel of Figure 2: the errors of a test at the levels 0, .01, ..., 1.
struct TestPanel {
  std::vector<double> published;
  std::vector<double> measured;
};
// Panels by the name of the estimator or test, and by the index of the model.
template <typename Panel>
using PanelsByName = std::map<std::pair<std::string, std::size_t>, Panel>;

// Write an SVG into the folder and print its path. Panels that are missing stay empty.
void DrawEstimates(const std::filesystem::path& folder, const PanelsByName<EstimatePanel>& panels);
void DrawTests(const std::filesystem::path& folder, const PanelsByName<TestPanel>& panels);

}  // namespace calibd::reproduce

#endif  // CALIBD_TESTS_REPRODUCE_WIDMANN_PICTURES_H_
