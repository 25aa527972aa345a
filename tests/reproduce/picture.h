#ifndef CALIBD_TESTS_REPRODUCE_PICTURE_H_
#define CALIBD_TESTS_REPRODUCE_PICTURE_H_

#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace calibd::reproduce {

struct PicturePoint {
  double x = 0;
  double y = 0;
};

struct PictureAxis {
  double low = 0;
  double high = 1;
  std::vector<double> ticks;
};
// With at most three ticks, at round numbers.
[[nodiscard]] PictureAxis AxisFrom(double low, double high);

// How a line looks.
struct PictureLine {
  std::string color;
  double width = 1;
  // The lengths of dashes and gaps, such as "4 3"; empty: solid.
  std::string dashes;
};

// An SVG with panels in rows and columns. What is added after BeginPanel is drawn in that panel, in
// the units of its axes, and cut at its frame.
class Picture {
 public:
  struct Layout {
    double panel_width = 0;
    double panel_height = 0;
    std::vector<std::string> columns;
    std::vector<std::string> rows;
    std::string x_name;
    std::string y_name;
  };
  // title: for readers who cannot see the picture.
  Picture(std::string title, Layout layout);

  // Entries of the legend, from left to right.
  void AddLegendArea(const std::string& color, const std::string& words);
  void AddLegendLine(const PictureLine& line, const std::string& words);

  void BeginPanel(std::size_t row, std::size_t column, PictureAxis x, PictureAxis y);
  // Between the points and the lower end of the y axis.
  void AddArea(std::span<const PicturePoint> points, const std::string& color);
  void AddLine(std::span<const PicturePoint> points, const PictureLine& line);

  [[nodiscard]] std::string Svg() const;

 private:
  [[nodiscard]] double X(double value) const;
  [[nodiscard]] double Y(double value) const;
  [[nodiscard]] std::string Path(std::span<const PicturePoint> points) const;
  void AddText(double x, double y, const char* anchor, const std::string& words,
               const char* attributes = "");

  std::string title_;
  Layout layout_;
  std::string content_;
  double legend_end_ = 0;
  // The upper left corner and the axes of the newest panel.
  double left_ = 0;
  double top_ = 0;
  PictureAxis x_;
  PictureAxis y_;
};

}  // namespace calibd::reproduce

#endif  // CALIBD_TESTS_REPRODUCE_PICTURE_H_
