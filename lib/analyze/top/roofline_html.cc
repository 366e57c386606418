// SPDX-License-Identifier: Apache-2.0
#include "pitot/analyze/roofline_html.h"

#include <algorithm>
#include <cmath>
#include <string_view>
#include <utility>
#include <vector>

#include "analyze/facts/html.h"
#include "analyze/top/namespace.h"
#include "base/columns.h"
#include "model/kernel_name.h"
#include "model/moment.h"

namespace pitot::top {
namespace {

using base::Format;
using facts::Escape;
using model::Trace;

constexpr size_t kMostRows = 100;
constexpr size_t kMostLabels = 14;
constexpr size_t kLabelLetters = 28;
// The picture, in its units.
constexpr double kWidth = 960, kHeight = 480, kLeft = 64, kRight = 150, kTop = 16, kBottom = 44;
constexpr double kLetter = 7, kLine = 15;  // of a label
constexpr double kLeastRadius = 4, kMostRadius = 22;

constexpr char kStyle[] = R"(
body{max-width:66rem}
svg{display:block;width:100%}.chart{min-width:44rem}
.wide{overflow-x:auto}.chart text{font:12px system-ui,sans-serif;fill:var(--text)}.chart .tick{fill:var(--soft);font-size:11px}
.grid{stroke:var(--line);stroke-width:1}.roof{stroke:var(--text);stroke-width:1.6;fill:none}
.chart .name{paint-order:stroke;stroke:var(--page);stroke-width:3px}
.dot{fill:var(--c);fill-opacity:.6;stroke:var(--c)}.memory{--c:var(--code)}.compute{--c:var(--wait)}.neither{--c:var(--unknown)}
.lead{stroke:var(--soft);stroke-width:.7}
.legend{display:flex;flex-wrap:wrap;gap:.1rem 1rem;font-size:.8rem;padding:0;margin:.6rem 0;list-style:none}
.legend i{display:inline-block;width:.8rem;height:.8rem;margin-right:.35rem;vertical-align:-.08rem;background:var(--c)}
.shares{display:grid;grid-template-columns:minmax(9rem,16rem) 1fr 4rem 4rem;grid-auto-flow:dense;gap:.35rem .8rem;align-items:center;font-size:.875rem}
.shares svg{height:1.5rem;background:var(--card);border:1px solid var(--line)}.shares rect{fill:var(--c)}
.shares .name{grid-column:1}.shares .bar{grid-column:2}.shares .its{grid-column:3}.shares .mem{grid-column:4}
.shares .num,th,td.num{text-align:right}.head{color:var(--soft)}
table{border-collapse:collapse;font-size:.8rem;width:100%}th,td{padding:.15rem .5rem .15rem 0;vertical-align:top}
th{font-weight:400;color:var(--soft);border-bottom:1px solid var(--line);overflow-wrap:normal}th:first-child,td:first-child{text-align:left;min-width:10rem}
tr+tr td{border-top:1px solid var(--line)}
pre{white-space:pre-wrap;font-size:.8rem;background:var(--card);border:1px solid var(--line);padding:.6rem .8rem}
@media(max-width:36rem){.shares{grid-template-columns:1fr 3.6rem 3.6rem}.shares .its{grid-column:2}.shares .mem{grid-column:3}
.shares .bar{grid-column:1/-1;margin-bottom:.4rem}.shares .bar.head{display:none}}
@media print{:root{color-scheme:light;--page:#fff;--text:#000;--soft:#444;--line:#bbb;--card:#fff;--code:#0072b2;--wait:#d55e00}
body{max-width:none;padding:0}.dot,i,rect{print-color-adjust:exact;-webkit-print-color-adjust:exact}}
)";

// "989 T".
std::string Prefixed(double value) {
  const char* prefix = "";
  for (const char* const larger : {"k", "M", "G", "T", "P", "E"}) {
    if (value < 999.5) break;
    value *= 1e-3;
    prefix = larger;
  }
  return Format("%.3g %s", value, prefix);
}
std::string Percent(double share) { return share < 0 ? "-" : Format("%.3g %%", 100 * share); }

const char* StyleOf(const TopRoof& roof) {
  return roof.bound == TopBound::kMemory ? "memory" : roof.bound == TopBound::kCompute ? "compute" : "neither";
}

// The last part of a layer's path, cut.
std::string Label(const TopRow& row) {
  const size_t at = row.name.rfind(" / ");
  return model::ShortName(at == std::string::npos ? row.name : row.name.substr(at + 3), kLabelLetters);
}

std::string FlopText(const TopRoof& roof) { return roof.flop_per_s < 0 ? "-" : Prefixed(roof.flop_per_s) + "flop/s"; }
std::string ByteText(const TopRoof& roof) {
  if (roof.bytes_per_s < 0) return "-";
  return (roof.bytes_from == TopEvidence::kOperators ? "at least " : "") + Prefixed(roof.bytes_per_s) + "B/s";
}
std::string IntensityText(const TopRoof& roof) {
  if (roof.flop_per_byte < 0) return "-";
  return (roof.bytes_from == TopEvidence::kOperators ? "at most " : "") +
         Format(roof.flop_per_byte < 999.5 ? "%.3g" : "%.0f", roof.flop_per_byte);
}
std::string BoundText(const TopRoof& roof) {
  if (roof.bound == TopBound::kUnknown) return "-";
  return (roof.bound == TopBound::kMemory ? "memory, " : "computing, ") + Percent(roof.BoundShare());
}

std::string Tip(const TopRow& row) {
  std::string tip = row.name + (row.shape.empty() ? "" : " " + row.shape) + "\n" + base::Duration(row.roof.gpu_ns) +
                    (row.roof.has_spans ? " at most" : "") + " on the GPU";
  if (row.roof.flop_per_s >= 0) tip += "\n" + FlopText(row.roof) + " " + row.roof.precision;
  if (row.roof.bytes_per_s >= 0) tip += "\n" + ByteText(row.roof);
  if (row.roof.flop_per_byte >= 0) tip += "\n" + IntensityText(row.roof) + " flop/byte";
  if (row.roof.bound != TopBound::kUnknown) tip += "\nbound by " + BoundText(row.roof);
  return tip;
}

struct Box {
  double left, top, right, bottom;
  bool Meets(const Box& other) const {
    return left < other.right && other.left < right && top < other.bottom && other.top < bottom;
  }
};

// The roofline of a device: both axes are logarithmic.
class Chart {
 public:
  Chart(const TopDevice& device, std::vector<const TopRow*> rows) : device_(device), rows_(std::move(rows)) {
    double least_x = 1e300, most_x = 0, least_y = 1e300, most_y = 0;
    const auto see = [&](double x, double y) {
      least_x = std::min(least_x, x), most_x = std::max(most_x, x);
      least_y = std::min(least_y, y), most_y = std::max(most_y, y);
    };
    for (const TopRow* row : rows_) see(row->roof.flop_per_byte, row->roof.flop_per_s);
    for (const auto& [precision, peak] : device_.flop_per_s) {
      if (IsUsed(precision)) peaks_.emplace_back(precision, peak);
    }
    if (device_.is_given && peaks_.size() > 1) peaks_ = {{"", peaks_.front().second}};
    for (const auto& [precision, peak] : peaks_) {
      if (device_.bytes_per_s > 0) see(peak / device_.bytes_per_s, peak);
    }
    x_ = {std::floor(std::log10(least_x) - 0.15), std::ceil(std::log10(most_x) + 0.35)};
    y_ = {std::floor(std::log10(least_y) - 0.1), std::log10(most_y) + 0.25};
  }

  std::string Svg() {
    std::string svg =
        Format("<div class=\"wide\"><svg class=\"chart\" viewBox=\"0 0 %g %g\" role=\"img\" aria-label=\"roofline\">\n",
               kWidth, kHeight);
    svg += Axes() + Roofs() + Dots() + "</svg></div>\n";
    return svg;
  }

 private:
  struct Range {
    double from = 0, to = 1;  // powers of ten
  };
  bool IsUsed(const std::string& precision) const {
    return std::any_of(rows_.begin(), rows_.end(), [&](const TopRow* row) { return precision == row->roof.precision; });
  }
  double X(double intensity) const {
    return kLeft + (std::log10(intensity) - x_.from) / (x_.to - x_.from) * (kWidth - kLeft - kRight);
  }
  double Y(double rate) const {
    return kHeight - kBottom - (std::log10(rate) - y_.from) / (y_.to - y_.from) * (kHeight - kTop - kBottom);
  }

  std::string Axes() const {
    std::string svg;
    for (double power = x_.from; power <= x_.to; ++power) {
      const double x = X(std::pow(10, power));
      svg += Format(
          "<path class=\"grid\" d=\"M%.1f %gV%g\"/><text class=\"tick\" x=\"%.1f\" y=\"%g\" "
          "text-anchor=\"middle\">%g</text>\n",
          x, kTop, kHeight - kBottom, x, kHeight - kBottom + 16, std::pow(10, power));
    }
    for (double power = y_.from; power <= y_.to; ++power) {
      const double y = Y(std::pow(10, power));
      svg += Format(
          "<path class=\"grid\" d=\"M%g %.1fH%g\"/><text class=\"tick\" x=\"%g\" y=\"%.1f\" "
          "text-anchor=\"end\">%s</text>\n",
          kLeft, y, kWidth - kRight, kLeft - 6, y + 4, Prefixed(std::pow(10, power)).c_str());
    }
    svg += Format(
        "<text x=\"%g\" y=\"%g\" text-anchor=\"middle\">flop / byte of DRAM</text>"
        "<text x=\"14\" y=\"%g\" text-anchor=\"middle\" transform=\"rotate(-90 14 %g)\">flop/s</text>\n",
        (kLeft + kWidth - kRight) / 2, kHeight - 8, kHeight / 2, kHeight / 2);
    return svg;
  }

  std::string Roofs() const {
    std::string svg;
    const double first = std::pow(10, x_.from), last = std::pow(10, x_.to), bytes = device_.bytes_per_s;
    double most = 0;
    for (const auto& [precision, peak] : peaks_) most = std::max(most, peak);
    if (bytes > 0 && most == 0) most = std::pow(10, y_.to);
    if (bytes > 0) {
      const double from = std::max(first, std::pow(10, y_.from) / bytes), to = std::min(last, most / bytes);
      svg +=
          Format("<path class=\"roof\" d=\"M%.1f %.1fL%.1f %.1f\"/>", X(from), Y(from * bytes), X(to), Y(to * bytes));
      // Along the slope, a quarter of its length from the left.
      const double at = std::pow(10, std::log10(from) * 0.75 + std::log10(to) * 0.25);
      const double angle = std::atan2(Y(to * bytes) - Y(from * bytes), X(to) - X(from)) * 180 / 3.14159265;
      svg += Format("<text x=\"%.1f\" y=\"%.1f\" transform=\"rotate(%.1f %.1f %.1f)\">memory %sB/s</text>\n", X(at),
                    Y(at * bytes) - 7, angle, X(at), Y(at * bytes) - 7, Prefixed(bytes).c_str());
    }
    for (const auto& [precision, peak] : peaks_) {
      const double from = bytes > 0 ? std::max(first, peak / bytes) : first;
      svg +=
          Format("<path class=\"roof\" d=\"M%.1f %.1fH%g\"/><text x=\"%g\" y=\"%.1f\">%s %sflop/s</text>\n", X(from),
                 Y(peak), kWidth - kRight, kWidth - kRight + 6, Y(peak) + 4, precision.c_str(), Prefixed(peak).c_str());
    }
    return svg;
  }

  std::string Dots() const {
    int64_t most_ns = 1;
    for (const TopRow* row : rows_) most_ns = std::max(most_ns, row->roof.gpu_ns);
    std::string svg;
    std::vector<Box> taken;
    std::vector<double> radii;
    for (const TopRow* row : rows_) {
      const double area = static_cast<double>(row->roof.gpu_ns) / static_cast<double>(most_ns);
      radii.push_back(std::max(kLeastRadius, kMostRadius * std::sqrt(area)));
      const double x = X(row->roof.flop_per_byte), y = Y(row->roof.flop_per_s), r = radii.back();
      svg +=
          Format("<circle class=\"dot %s\" cx=\"%.1f\" cy=\"%.1f\" r=\"%.1f\"><title>", StyleOf(row->roof), x, y, r) +
          Escape(Tip(*row)) + "</title></circle>\n";
      taken.push_back({x - r * 0.7, y - r * 0.7, x + r * 0.7, y + r * 0.7});
    }
    for (const auto& [precision, peak] : peaks_) taken.push_back({kLeft, Y(peak) - 2, kWidth - kRight, Y(peak) + 2});
    for (size_t i = 0; i < std::min(rows_.size(), kMostLabels); ++i) svg += PlaceLabel(*rows_[i], radii[i], &taken);
    return svg;
  }

  // Beside, above or below the dot, or a line away from it, where nothing else is. "": there is no room.
  std::string PlaceLabel(const TopRow& row, double radius, std::vector<Box>* taken) const {
    const std::string label = Label(row);
    const double x = X(row.roof.flop_per_byte), y = Y(row.roof.flop_per_s);
    const double width = static_cast<double>(base::Width(label)) * kLetter;
    struct Place {
      double left, middle;
      bool has_line;
    };
    const double beside = radius + 4, over = radius + kLine / 2 + 2;
    const Place places[] = {{x + beside, y, false},
                            {x - beside - width, y, false},
                            {x - width / 2, y - over, false},
                            {x - width / 2, y + over, false},
                            {x + beside + 8, y - over - kLine, true},
                            {x + beside + 8, y + over + kLine, true},
                            {x - beside - 8 - width, y - over - kLine, true},
                            {x - beside - 8 - width, y + over + kLine, true}};
    for (const Place& place : places) {
      const Box box = {place.left, place.middle - kLine / 2, place.left + width, place.middle + kLine / 2};
      if (box.left < kLeft || box.right > kWidth - kRight || box.top < kTop || box.bottom > kHeight - kBottom) continue;
      if (std::any_of(taken->begin(), taken->end(), [&](const Box& other) { return box.Meets(other); })) continue;
      taken->push_back(box);
      std::string svg;
      if (place.has_line)
        svg += Format("<path class=\"lead\" d=\"M%.1f %.1fL%.1f %.1f\"/>", x, y, place.left < x ? box.right : box.left,
                      place.middle);
      return svg + Format("<text class=\"name\" x=\"%.1f\" y=\"%.1f\">", place.left, place.middle + 4) + Escape(label) +
             "</text>\n";
    }
    return "";
  }

  const TopDevice& device_;
  const std::vector<const TopRow*> rows_;
  std::vector<std::pair<std::string, double>> peaks_;
  Range x_, y_;
};

class Page {
 public:
  Page(const Trace& trace, const TopTable& table) : trace_(trace), table_(table) {}

  std::string Write(const std::string& advice) {
    Head();
    WriteCharts();
    WriteShares();
    WriteTable();
    if (!advice.empty()) WriteAdvice(advice);
    out_ += "</body></html>\n";
    return std::move(out_);
  }

 private:
  const char* What() const { return table_.by == TopBy::kLayer ? "layer" : "operator"; }
  size_t shown() const { return std::min(table_.rows.size(), kMostRows); }

  void Head() {
    const std::string process(trace_.strings[trace_.process_name]);
    const std::string title = std::string("What bounds each ") + What() + (process.empty() ? "" : " of " + process);
    out_ +=
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n"
        "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>" +
        Escape(title) + "</title>\n<style>" + facts::kHtmlStyle + kStyle + "</style></head><body>\n<h1>" +
        Escape(title) + "</h1>\n<p class=\"soft\">" +
        (model::HasDate(trace_) ? base::DateTime(trace_.clock.realtime_ns) : "no date");
    for (uint32_t i = 0; i < table_.devices.size(); ++i) {
      const TopDevice& device = table_.devices[i];
      const auto is_here = [i](const TopRow& row) { return row.roof.device == i; };
      if (device.name.empty() || std::none_of(table_.rows.begin(), table_.rows.end(), is_here)) continue;
      out_ += "; " + Escape(device.name) + ": " +
              (device.is_given          ? "peaks given by options"
               : device.bytes_per_s > 0 ? "peaks of its data sheet, for dense products"
                                        : "peaks not known");
    }
    out_ += "</p>\n";
  }

  void WriteCharts() {
    bool has_any = false;
    for (uint32_t device = 0; device < table_.devices.size(); ++device) {
      std::vector<const TopRow*> rows;
      for (size_t i = 0; i < shown(); ++i) {
        const TopRoof& roof = table_.rows[i].roof;
        if (roof.device == device && roof.flop_per_byte > 0 && roof.flop_per_s > 0) rows.push_back(&table_.rows[i]);
      }
      if (rows.empty()) continue;
      const std::string& name = table_.devices[device].name;
      out_ += "<h2>Roofline" + (table_.devices.size() > 1 || name.empty() ? Format(" of device %u", device) : "") +
              (name.empty() ? "" : " of " + Escape(name)) + "</h2>\n";
      out_ += Chart(table_.devices[device], std::move(rows)).Svg();
      has_any = true;
    }
    if (has_any)
      out_ +=
          "<ul class=\"legend\"><li class=\"memory\"><i></i>bound by memory</li><li class=\"compute\"><i></i>bound by "
          "computing</li><li class=\"neither\"><i></i>bound unknown</li><li>area: GPU time</li></ul>\n";
    else
      out_ += std::string("<p class=\"soft\">There is no roofline: no ") + What() +
              " has both operations (operators with recorded shapes) and bytes.</p>\n";
  }

  void WriteShares() {
    std::string grid;
    for (size_t i = 0; i < shown(); ++i) {
      const TopRow& row = table_.rows[i];
      if (row.roof.compute_share < 0 && row.roof.memory_share < 0) continue;
      grid += "<div class=\"name\">" + Escape(row.name + (row.shape.empty() ? "" : " " + row.shape)) +
              "</div><div class=\"its num\">" + Percent(row.roof.compute_share) + "</div><div class=\"mem num\">" +
              Percent(row.roof.memory_share) +
              "</div><svg class=\"bar\" viewBox=\"0 0 1000 20\" preserveAspectRatio=\"none\"><title>" +
              Escape(Tip(row)) + "</title>" + Bar("compute", row.roof.compute_share, 2) +
              Bar("memory", row.roof.memory_share, 11) + "</svg>\n";
    }
    if (grid.empty()) return;
    out_ +=
        "<h2>Share of each roof</h2>\n<ul class=\"legend\"><li class=\"compute\"><i></i>computing: of the peak by "
        "operators, otherwise tensor cores active</li><li class=\"memory\"><i></i>memory: of DRAM's peak</li></ul>\n"
        "<div class=\"shares\"><div class=\"head name\"></div><div class=\"head its num\">compute</div>"
        "<div class=\"head mem num\">memory</div><div class=\"head bar\">0 to 100 %</div>\n" +
        grid + "</div>\n";
  }
  static std::string Bar(const char* style, double share, double y) {
    if (share < 0) return "";
    return Format("<rect class=\"%s\" x=\"0\" y=\"%g\" width=\"%.1f\" height=\"7\"/>", style, y,
                  1000 * std::clamp(share, 0.0, 1.0));
  }

  void WriteTable() {
    out_ += std::string("<h2>All ") + What() + "s</h2>\n<div class=\"wide\"><table><tr><th>" + What() + "</th>";
    for (const char* const title : {"GPU time", "type", "flop/s", "compute roof", "tensor active", "SMs active", "DRAM",
                                    "memory roof", "flop/byte", "bound", "samples"})
      out_ += std::string("<th>") + title + "</th>";
    out_ += "</tr>\n";
    for (size_t i = 0; i < shown(); ++i) {
      const TopRow& row = table_.rows[i];
      const TopRoof& roof = row.roof;
      out_ += "<tr><td>" + Escape(row.name) +
              (row.shape.empty() ? "" : "<br><span class=\"soft\">" + Escape(row.shape) + "</span>") + "</td>";
      Cell((roof.has_spans ? "at most " : "") + base::Duration(roof.gpu_ns));
      Cell(*roof.precision == '\0' ? "-" : roof.precision);
      Cell(FlopText(roof));
      Cell(roof.compute_from == TopEvidence::kOperators ? Percent(roof.compute_share) : "-");
      Cell(Percent(roof.tensor_share));
      Cell(Percent(roof.sm_share));
      Cell(ByteText(roof));
      Cell(Percent(roof.memory_share));
      Cell(IntensityText(roof));
      Cell(BoundText(roof));
      Cell(roof.samples == 0 ? "-" : base::Count(roof.samples));
      out_ += "</tr>\n";
    }
    out_ += "</table></div>\n";
    if (table_.rows.size() > shown())
      out_ += "<p class=\"soft\">" + base::Plural(table_.rows.size() - shown(), "shorter row") + " left out.</p>\n";
    out_ +=
        "<p class=\"soft\">Operations are those of operators with recorded shapes. Bytes are by counters, or \"at "
        "least\" what these operators must move. A counter's value is the mean of samples that the work fills to "
        "80 %. A dash was not measured.</p>\n";
  }
  void WriteAdvice(std::string_view advice) {
    out_ += "<h2>Look closer</h2>\n<pre>";
    while (!advice.empty()) {
      const size_t size = std::min(advice.find('\n'), advice.size());
      out_ += Escape(advice.substr(0, size)) + "\n";
      advice.remove_prefix(std::min(size + 1, advice.size()));
    }
    out_ += "</pre>\n";
  }
  void Cell(const std::string& text) { out_ += "<td class=\"num\">" + Escape(text) + "</td>"; }

  const Trace& trace_;
  const TopTable& table_;
  std::string out_;
};

}  // namespace
}  // namespace pitot::top

PITOT_NAMESPACE_BEGIN
namespace analyze {

std::string RooflineHtml(const model::Trace& trace, const TopTable& table, const std::string& advice) {
  return top::Page(trace, table).Write(advice);
}

}  // namespace analyze
PITOT_NAMESPACE_END
