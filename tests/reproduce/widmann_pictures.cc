#include "widmann_pictures.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <utility>

#include "absl/strings/str_format.h"
#include "check.h"
#include "picture.h"

namespace calibd::reproduce {
namespace {

constexpr const char* kPublishedColor = "#9ecae1";
const PictureLine kMeasuredLine{.color = "#08519c", .width = 1.2, .dashes = {}};
const PictureLine kMeanLine{.color = "#d95f0e", .width = 1.5, .dashes = {}};
const PictureLine kReferenceLine{.color = "#000", .width = 1, .dashes = "4 3"};
const std::vector<std::string> kRows = {"M1", "M2", "M3"};

// The names of the columns of a figure, and those of the published table.
using PanelColumns = std::vector<std::pair<std::string, std::string>>;

std::vector<std::string> HeadingsOf(const PanelColumns& columns) {
  std::vector<std::string> headings;
  for (const auto& [heading, unused] : columns) headings.push_back(heading);
  return headings;
}

void Write(const std::filesystem::path& path, const Picture& picture) {
  std::ofstream out(path);
  out << picture.Svg();
  out.close();
  if (out.good()) {
    absl::PrintF("wrote %s\n", path.string());
  } else {
    Verdict(absl::StrFormat("%s was not written", path.string()), false);
  }
}

// The outline of bars over the bins first .. first + counts.size() - 1.
std::vector<PicturePoint> StepsOf(const EstimatePanel& panel, std::ptrdiff_t first,
                                  const std::vector<double>& shares) {
  const auto edge = [&](std::size_t i) {
    return panel.first_edge +
           panel.bin_width * static_cast<double>(first + static_cast<std::ptrdiff_t>(i));
  };
  std::vector<PicturePoint> points{{edge(0), 0}};
  for (std::size_t i = 0; i < shares.size(); ++i) {
    points.push_back({edge(i), shares[i]});
    points.push_back({edge(i + 1), shares[i]});
  }
  points.push_back({edge(shares.size()), 0});
  return points;
}

void DrawEstimatePanel(const EstimatePanel& panel, std::size_t row, std::size_t column,
                       Picture& picture) {
  const auto bin_of = [&](double value) {
    return static_cast<std::ptrdiff_t>(std::floor((value - panel.first_edge) / panel.bin_width));
  };
  double published_sets = 0;
  for (const double count : panel.counts) published_sets += count;
  std::vector<double> published;
  for (const double count : panel.counts) published.push_back(count / published_sets);

  const auto [least, most] = std::ranges::minmax(panel.estimates);
  const std::ptrdiff_t first = bin_of(least);
  std::vector<double> measured(static_cast<std::size_t>(bin_of(most) - first + 1));
  const auto sets = static_cast<double>(panel.estimates.size());
  double mean = 0;
  for (const double value : panel.estimates) {
    measured[static_cast<std::size_t>(bin_of(value) - first)] += 1 / sets;
    mean += value / sets;
  }

  const std::vector<PicturePoint> area = StepsOf(panel, 0, published);
  const std::vector<PicturePoint> outline = StepsOf(panel, first, measured);
  double low = std::min({area.front().x, outline.front().x, panel.true_value});
  double high = std::max({area.back().x, outline.back().x, panel.true_value});
  const double margin = 0.04 * (high - low);
  low -= margin;
  high += margin;
  const double top = 1.1 * std::max(std::ranges::max(published), std::ranges::max(measured));
  picture.BeginPanel(row, column, AxisFrom(low, high), {0, top, {}});
  picture.AddArea(area, kPublishedColor);
  picture.AddLine(outline, kMeasuredLine);
  picture.AddLine(std::vector<PicturePoint>{{mean, 0}, {mean, top}}, kMeanLine);
  picture.AddLine(std::vector<PicturePoint>{{panel.true_value, 0}, {panel.true_value, top}},
                  kReferenceLine);
}

}  // namespace

const std::vector<ReferenceModel>& ModelsOfFigures() {
  static const std::vector<ReferenceModel> models = {
      {.alpha = 0.1, .first_class = false, .class_count = 10, .pi = 0},
      {.alpha = 0.1, .first_class = true, .class_count = 10, .pi = 0.5},
      {.alpha = 0.1, .first_class = false, .class_count = 10, .pi = 1}};
  return models;
}

void DrawEstimates(const std::filesystem::path& folder, const PanelsByName<EstimatePanel>& panels) {
  const PanelColumns columns = {{"ECE", "ECE_uniform-"},
                                {"SKCE_b", "SKCEbmedian"},
                                {"SKCE_uq", "SKCEuqmedian"},
                                {"SKCE_ul", "SKCEulmedian"}};
  Picture picture(
      "Distributions of four estimates of the calibration error for three models: the "
      "published ones and those of calibd agree",
      {.panel_width = 150,
       .panel_height = 90,
       .columns = HeadingsOf(columns),
       .rows = kRows,
       .x_name = "estimate of the calibration error",
       .y_name = "share of the data sets"});
  picture.AddLegendArea(kPublishedColor, "published");
  picture.AddLegendLine(kMeasuredLine, "calibd");
  picture.AddLegendLine(kMeanLine, "mean of calibd");
  picture.AddLegendLine(kReferenceLine, "true value");
  for (const auto& [key, panel] : panels) {
    for (std::size_t column = 0; column < columns.size(); ++column) {
      if (columns[column].second == key.first) {
        DrawEstimatePanel(panel, key.second, column, picture);
      }
    }
  }
  Write(folder / "widmann-figure-1.svg", picture);
}

void DrawTests(const std::filesystem::path& folder, const PanelsByName<TestPanel>& panels) {
  const PanelColumns columns = {{"C", "ECE_uniform"},
                                {"D_b", "SKCEb_median_distribution_free"},
                                {"D_uq", "SKCEuq_median_distribution_free"},
                                {"D_l", "SKCEul_median_distribution_free"},
                                {"A_uq", "SKCEuq_median_asymptotic"},
                                {"A_l", "SKCEul_median_asymptotic"}};
  Picture picture(
      "Errors of six tests for three models against the level of the test: the published "
      "ones and those of calibd agree",
      {.panel_width = 90,
       .panel_height = 90,
       .columns = HeadingsOf(columns),
       .rows = kRows,
       .x_name = "level of the test",
       .y_name = "share of wrong results"});
  const PictureLine published{.color = kPublishedColor, .width = 5, .dashes = {}};
  picture.AddLegendLine(published, "published");
  picture.AddLegendLine(kMeasuredLine, "calibd");
  picture.AddLegendLine(kReferenceLine, "diagonal");
  const auto curve = [](const std::vector<double>& errors) {
    std::vector<PicturePoint> points;
    for (std::size_t level = 0; level < errors.size(); ++level) {
      points.push_back({static_cast<double>(level) / 100, errors[level]});
    }
    return points;
  };
  const PictureAxis axis{-.02, 1.02, {0, .5, 1}};
  for (const auto& [key, panel] : panels) {
    for (std::size_t column = 0; column < columns.size(); ++column) {
      if (columns[column].second != key.first) continue;
      picture.BeginPanel(key.second, column, axis, axis);
      picture.AddLine(curve(panel.published), published);
      picture.AddLine(std::vector<PicturePoint>{{0, 0}, {1, 1}}, kReferenceLine);
      picture.AddLine(curve(panel.measured), kMeasuredLine);
    }
  }
  Write(folder / "widmann-figure-2.svg", picture);
}

}  // namespace calibd::reproduce
