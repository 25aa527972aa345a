#include "picture.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace calibd::reproduce {
namespace {

constexpr double kLeft = 74;
constexpr double kTop = 54;
constexpr double kGap = 34;
constexpr double kBottom = 42;
constexpr double kRight = 14;
constexpr double kCharacter = 6.3;

std::string Stroke(const PictureLine& line) {
  std::string attributes =
      absl::StrFormat("fill=\"none\" stroke=\"%s\" stroke-width=\"%g\"", line.color, line.width);
  if (!line.dashes.empty()) {
    absl::StrAppendFormat(&attributes, " stroke-dasharray=\"%s\"", line.dashes);
  }
  return attributes;
}

}  // namespace

PictureAxis AxisFrom(double low, double high) {
  PictureAxis axis{low, high, {}};
  const double power = std::pow(10, std::floor(std::log10(high - low)));
  for (const double factor : {.1, .2, .5, 1.0, 2.0, 5.0}) {
    const double step = factor * power;
    const double first = std::ceil(low / step);
    const double last = std::floor(high / step);
    if (last - first > 2) continue;
    // The sum makes a negative zero positive.
    for (double k = first; k <= last; ++k) axis.ticks.push_back(k * step + 0.0);
    break;
  }
  return axis;
}

Picture::Picture(std::string title, Layout layout)
    : title_(std::move(title)), layout_(std::move(layout)), legend_end_(kLeft) {
  const auto pitch_x = layout_.panel_width + kGap;
  const auto pitch_y = layout_.panel_height + kGap;
  for (std::size_t c = 0; c < layout_.columns.size(); ++c) {
    AddText(kLeft + static_cast<double>(c) * pitch_x + layout_.panel_width / 2, kTop - 8, "middle",
            layout_.columns[c], " font-weight=\"bold\"");
  }
  for (std::size_t r = 0; r < layout_.rows.size(); ++r) {
    AddText(26, kTop + static_cast<double>(r) * pitch_y + 12, "start", layout_.rows[r],
            " font-weight=\"bold\"");
  }
  const double width = static_cast<double>(layout_.columns.size()) * pitch_x - kGap;
  const double height = static_cast<double>(layout_.rows.size()) * pitch_y - kGap;
  AddText(kLeft + width / 2, kTop + height + kBottom - 8, "middle", layout_.x_name);
  absl::StrAppendFormat(&content_,
                        "<text transform=\"translate(14 %.1f) rotate(-90)\" "
                        "text-anchor=\"middle\">%s</text>\n",
                        kTop + height / 2, layout_.y_name);
}

double Picture::X(double value) const {
  const double share = (value - x_.low) / (x_.high - x_.low);
  return left_ + std::clamp(share, 0.0, 1.0) * layout_.panel_width;
}

double Picture::Y(double value) const {
  const double share = (value - y_.low) / (y_.high - y_.low);
  return top_ + (1 - std::clamp(share, 0.0, 1.0)) * layout_.panel_height;
}

std::string Picture::Path(std::span<const PicturePoint> points) const {
  std::string path;
  for (std::size_t i = 0; i < points.size(); ++i) {
    // Points on a horizontal line between their neighbours add nothing.
    const bool inside = i > 0 && i + 1 < points.size();
    if (inside && points[i].y == points[i - 1].y && points[i].y == points[i + 1].y) continue;
    absl::StrAppendFormat(&path, "%s%.1f,%.1f", path.empty() ? "" : " ", X(points[i].x),
                          Y(points[i].y));
  }
  return path;
}

void Picture::AddText(double x, double y, const char* anchor, const std::string& words,
                      const char* attributes) {
  absl::StrAppendFormat(&content_, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\"%s>%s</text>\n",
                        x, y, anchor, attributes, words);
}

void Picture::AddLegendArea(const std::string& color, const std::string& words) {
  absl::StrAppendFormat(&content_,
                        "<rect x=\"%.1f\" y=\"10\" width=\"22\" height=\"10\" fill=\"%s\"/>\n",
                        legend_end_, color);
  AddText(legend_end_ + 27, 19, "start", words);
  legend_end_ += 45 + kCharacter * static_cast<double>(words.size());
}

void Picture::AddLegendLine(const PictureLine& line, const std::string& words) {
  absl::StrAppendFormat(&content_, "<path d=\"M%.1f 15h22\" %s/>\n", legend_end_, Stroke(line));
  AddText(legend_end_ + 27, 19, "start", words);
  legend_end_ += 45 + kCharacter * static_cast<double>(words.size());
}

void Picture::BeginPanel(std::size_t row, std::size_t column, PictureAxis x, PictureAxis y) {
  x_ = std::move(x);
  y_ = std::move(y);
  left_ = kLeft + static_cast<double>(column) * (layout_.panel_width + kGap);
  top_ = kTop + static_cast<double>(row) * (layout_.panel_height + kGap);
  const double bottom = top_ + layout_.panel_height;
  absl::StrAppendFormat(&content_,
                        "<rect x=\"%.1f\" y=\"%.1f\" width=\"%g\" height=\"%g\" fill=\"none\" "
                        "stroke=\"#999\"/>\n",
                        left_, top_, layout_.panel_width, layout_.panel_height);
  for (const double tick : x_.ticks) {
    absl::StrAppendFormat(&content_, "<path d=\"M%.1f %.1fv4\" stroke=\"#999\"/>\n", X(tick),
                          bottom);
    AddText(X(tick), bottom + 15, "middle", absl::StrFormat("%.4g", tick));
  }
  for (const double tick : y_.ticks) {
    absl::StrAppendFormat(&content_, "<path d=\"M%.1f %.1fh-4\" stroke=\"#999\"/>\n", left_,
                          Y(tick));
    AddText(left_ - 6, Y(tick) + 4, "end", absl::StrFormat("%.4g", tick));
  }
}

void Picture::AddArea(std::span<const PicturePoint> points, const std::string& color) {
  std::vector<PicturePoint> closed{{points.front().x, y_.low}};
  closed.insert(closed.end(), points.begin(), points.end());
  closed.push_back({points.back().x, y_.low});
  absl::StrAppendFormat(&content_, "<polygon points=\"%s\" fill=\"%s\"/>\n", Path(closed), color);
}

void Picture::AddLine(std::span<const PicturePoint> points, const PictureLine& line) {
  absl::StrAppendFormat(&content_, "<polyline points=\"%s\" %s/>\n", Path(points), Stroke(line));
}

std::string Picture::Svg() const {
  const double width = kLeft +
                       static_cast<double>(layout_.columns.size()) * (layout_.panel_width + kGap) -
                       kGap + kRight;
  const double height = kTop +
                        static_cast<double>(layout_.rows.size()) * (layout_.panel_height + kGap) -
                        kGap + kBottom;
  return absl::StrFormat(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%g\" height=\"%g\" viewBox=\"0 0 %g %g\" "
      "role=\"img\" font-family=\"sans-serif\" font-size=\"11\">\n<title>%s</title>\n"
      "<rect width=\"%g\" height=\"%g\" fill=\"#fff\"/>\n%s</svg>\n",
      width, height, width, height, title_, width, height, content_);
}

}  // namespace calibd::reproduce
