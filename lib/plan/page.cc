#include "plan/page.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <vector>

#include "plan/parse.h"

namespace lzy {
namespace {

constexpr const char* kColours[] = {"#1b6ca8", "#c8553d", "#3a7d44", "#8a4fa3", "#b8860b", "#555555"};

struct Point {
  double x = 0, y = 0;
  std::string label;
};
/// Lines through points, by parity.
using Series = std::map<std::uint32_t, std::vector<Point>>;

struct Axes {
  std::string title, x, y;
  bool log_y = false;
};

// A plot of fixed size; the axes cover all points.
std::string Plot(const Axes& axes, const Series& series) {
  constexpr double kWidth = 560, kHeight = 320, kLeft = 80, kRight = 20, kTop = 34, kBottom = 50;
  const auto height = [&](double y) { return axes.log_y ? std::log10(std::max(y, 1e-30)) : y; };
  double x0 = 1e300, x1 = -1e300, y0 = 1e300, y1 = -1e300;
  for (const auto& [m, points] : series) {
    for (const Point& p : points) {
      if (!std::isfinite(p.y)) continue;
      x0 = std::min(x0, p.x), x1 = std::max(x1, p.x);
      y0 = std::min(y0, height(p.y)), y1 = std::max(y1, height(p.y));
    }
  }
  if (x0 > x1) return "";
  if (axes.log_y) {
    y0 = std::floor(y0), y1 = std::ceil(y1);
  } else {
    y0 = 0, y1 *= 1.1;
  }
  if (x1 <= x0) x0 -= 1, x1 += 1;
  if (y1 <= y0) y1 = y0 + 1;
  const auto px = [&](double x) { return kLeft + (x - x0) / (x1 - x0) * (kWidth - kLeft - kRight); };
  const auto py = [&](double y) { return kHeight - kBottom - (y - y0) / (y1 - y0) * (kHeight - kTop - kBottom); };
  std::string out = fmt::format(
      "<svg role=\"img\" viewBox=\"0 0 {} {}\" width=\"{}\" height=\"{}\"><title>{}</title>\n"
      "<text x=\"{}\" y=\"18\" class=\"t\">{}</text>\n",
      kWidth, kHeight, kWidth, kHeight, EscapeHtml(axes.title), kLeft, EscapeHtml(axes.title));
  const int ticks = axes.log_y ? std::min(8, static_cast<int>(y1 - y0)) : 5;
  for (int i = 0; i <= ticks; ++i) {
    double y = y0 + (y1 - y0) * i / ticks;
    if (axes.log_y) y = std::round(y);
    out += fmt::format("<line x1=\"{0}\" x2=\"{1}\" y1=\"{2:.1f}\" y2=\"{2:.1f}\" class=\"g\"/><text x=\"{3}\" y=\"{4:.1f}\" text-anchor=\"end\">{5}</text>\n",
                       kLeft, kWidth - kRight, py(y), kLeft - 6, py(y) + 4, axes.log_y ? fmt::format("1e{:.0f}", y) : fmt::format("{:.3g}", y));
  }
  std::vector<double> xs;
  for (const auto& [m, points] : series) {
    for (const Point& p : points) xs.push_back(p.x);
  }
  std::ranges::sort(xs);
  xs.erase(std::unique(xs.begin(), xs.end()), xs.end());
  for (const double x : xs) {
    out += fmt::format("<text x=\"{:.1f}\" y=\"{}\" text-anchor=\"middle\">{:.4g}</text>\n", px(x), kHeight - kBottom + 18, x);
  }
  out += fmt::format("<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">{}</text><text transform=\"translate(14 {}) rotate(-90)\" text-anchor=\"middle\">{}</text>\n",
                     (kLeft + kWidth - kRight) / 2, kHeight - 10, EscapeHtml(axes.x), (kTop + kHeight - kBottom) / 2, EscapeHtml(axes.y));
  std::size_t number = 0;
  for (const auto& [m, points] : series) {
    const char* const colour = kColours[number % std::size(kColours)];
    std::string line;
    for (const Point& p : points) {
      if (!std::isfinite(p.y)) continue;
      line += fmt::format("{:.1f},{:.1f} ", px(p.x), py(height(p.y)));
      out += fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"4\" fill=\"{}\"><title>{}</title></circle>\n", px(p.x), py(height(p.y)),
                         colour, EscapeHtml(p.label));
    }
    out += fmt::format("<polyline points=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"2\"/>\n", line, colour);
    out += fmt::format("<text x=\"{}\" y=\"18\" fill=\"{}\" style=\"fill:{}\">m = {}</text>\n", kWidth - 60.0 * static_cast<double>(series.size() - number), colour, colour, m);
    ++number;
  }
  return out + "</svg>\n";
}

Series Collect(const PlanTable& table, const std::function<double(const PlanRow&)>& y) {
  Series out;
  for (const PlanRow& row : table.rows) {
    out[row.m].push_back({static_cast<double>(row.n), y(row), fmt::format("n = {}, m = {}: {:.4g}", row.n, row.m, y(row))});
  }
  return out;
}

std::string TableText(const PlanTable& table) {
  std::string out =
      "<table><tr><th>n</th><th>m</th><th>loss a year (chain)</th><th>loss a year (simulation)</th><th>space</th><th>restore</th>"
      "<th>write and commit</th><th>checkpoint every</th><th>run time</th></tr>\n";
  for (std::size_t i = 0; i < table.rows.size(); ++i) {
    const PlanRow& row = table.rows[i];
    const Comparison& c = row.comparison;
    const std::string simulated =
        c.losses == 0 ? "&ndash;" : fmt::format("{} &plusmn; {:.0f}%", ProbabilityText(row.loss_simulated), 100 / std::sqrt(static_cast<double>(c.losses)));
    out += fmt::format("<tr{}><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>+{:.1f}%</td><td>{}</td><td>{}</td><td>{}</td><td>+{:.2f}%</td></tr>\n",
                       i == table.recommended ? " class=\"best\"" : "", row.n, row.m, ProbabilityText(row.loss_year), simulated,
                       100 * row.overhead, HoursText(row.restore_hours), HoursText(row.commit_hours), HoursText(row.interval_hours),
                       100 * row.run_overhead);
  }
  return out + "</table>\n";
}

}  // namespace

std::string EscapeHtml(const std::string& text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&': out += "&amp;"; break;
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '"': out += "&quot;"; break;
      default: out += c;
    }
  }
  return out;
}

std::string PlanPage(const PlanRequest& request, const PlanTable& table, const std::string& command) {
  std::string out =
      "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>lzy-plan</title>\n<style>"
      "body{font:15px sans-serif;margin:2em;max-width:1180px}table{border-collapse:collapse}td,th{border:1px solid #ccc;"
      "padding:3px 9px;text-align:right}.best{background:#e3f1e5;font-weight:bold}svg{font:12px sans-serif;fill:#333}.g{stroke:#ddd}"
      ".t{font-weight:bold;font-size:14px}code{background:#f3f3f3;padding:2px 4px}</style></head><body>\n";
  out += fmt::format("<h1>Plan for {} devices on {} nodes</h1>\n<p><code>{}</code></p>\n<p><b>Recommended:</b> {}</p>\n", request.system.devices,
                     request.system.nodes(), EscapeHtml(command), EscapeHtml(table.recommendation));
  out += TableText(table);
  for (const std::string& text : table.left_out) out += fmt::format("<p>Left out: {}</p>\n", EscapeHtml(text));
  out += Plot({"Probability of loss a year", "devices in a group (n)", "probability", true}, Collect(table, [](const PlanRow& r) { return r.loss_year; }));
  out += Plot({"Space for parity", "devices in a group (n)", "% of the data"}, Collect(table, [](const PlanRow& r) { return 100 * r.overhead; }));
  out += Plot({"Longer run time by checkpoints and failures", "devices in a group (n)", "% of the computing time"},
              Collect(table, [](const PlanRow& r) { return 100 * r.run_overhead; }));
  return out + "</body></html>\n";
}

}  // namespace lzy
