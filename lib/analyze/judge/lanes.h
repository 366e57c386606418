// SPDX-License-Identifier: Apache-2.0
//
// Lanes of report.html: bars over the time of the judged request, in colours for kinds of time.
#ifndef PITOT_LIB_ANALYZE_JUDGE_LANES_H_
#define PITOT_LIB_ANALYZE_JUDGE_LANES_H_

#include <algorithm>
#include <array>
#include <cstdint>
#include <iterator>
#include <string>
#include <vector>

#include "analyze/facts/html.h"
#include "analyze/judge/namespace.h"
#include "base/columns.h"
#include "pitot/analyze/judgement.h"

namespace pitot::judge {

inline constexpr double kWidth = 1000;    // of a lane's picture, in its units
inline constexpr double kLeastBar = 1.5;  // to keep short bars visible
inline constexpr size_t kMostBars = 120;  // of a lane

// The meaning of the colours. They are Okabe and Ito's, chosen for all kinds of colour vision.
struct Group {
  const char* style;
  const char* name;
  uint32_t blames;
};
inline constexpr char kKernels[] = "kernels";
inline constexpr Group kGroups[] = {
    {"queue", "waited in a queue",
     BlameBit(Blame::kNetIn) | BlameBit(Blame::kAdmissionQueue) | BlameBit(Blame::kHandoff) |
         BlameBit(Blame::kQueueWaitOthers) | BlameBit(Blame::kBatchWindow) | BlameBit(Blame::kExecutorBusy)},
    {"code", "code",
     BlameBit(Blame::kHostOncpuPre) | BlameBit(Blame::kHostOncpuFramework) | BlameBit(Blame::kHostOncpuPost)},
    {"wait", "waited for a lock, I/O or a CPU",
     BlameBit(Blame::kHostRunqueue) | BlameBit(Blame::kHostLock) | BlameBit(Blame::kHostGil) |
         BlameBit(Blame::kHostGc) | BlameBit(Blame::kHostPagefaultIo) | BlameBit(Blame::kHostBlockedUnknown)},
    {"launch", "launches, allocations",
     BlameBit(Blame::kLaunchApi) | BlameBit(Blame::kLaunchLatency) | BlameBit(Blame::kLaunchQueueFull) |
         BlameBit(Blame::kAllocStall) | BlameBit(Blame::kLazyLoadJit) | BlameBit(Blame::kSyncReturn)},
    {"copy", "copies", BlameBit(Blame::kH2d) | BlameBit(Blame::kD2h) | BlameBit(Blame::kD2dMemset)},
    {"gpu", kKernels, BlameBit(Blame::kGpuExecExpected)},
    {"trouble", "slow or waiting GPU work",
     BlameBit(Blame::kGpuContention) | BlameBit(Blame::kGpuClock) | BlameBit(Blame::kGpuExcessUnknown) |
         BlameBit(Blame::kGpuQueueWaitOthers) | BlameBit(Blame::kDispatchGap) | BlameBit(Blame::kCommExposed)},
    {"unknown", "not explained", BlameBit(Blame::kUntraced)},
};
inline const Group& GroupOf(Blame blame) {
  for (const Group& group : kGroups) {
    if ((group.blames & BlameBit(blame)) != 0) return group;
  }
  return kGroups[std::size(kGroups) - 1];
}

// Bars of a lane in order of time. A bar too near to the one before is merged with it. If there are too many to draw,
// each column of the picture shows the style that fills most of it.
class Bars {
 public:
  Bars(int64_t begin_ns, int64_t end_ns)
      : begin_ns_(begin_ns), per_ns_(kWidth / static_cast<double>(end_ns - begin_ns)) {}

  void Add(int64_t from_ns, int64_t to_ns, const char* style, const std::string& title) {
    AddToColumns(At(from_ns), At(to_ns), style, title);
    if (is_crowded_) return;
    const double from = std::min(At(from_ns), kWidth - kLeastBar), to = std::max(At(to_ns), from + kLeastBar);
    if (!bars_.empty() && bars_.back().style == style && from - bars_.back().to < join_ &&
        (bars_.size() >= kMostBars || to - bars_.back().from < 2 * kLeastBar)) {
      bars_.back().to = std::max(bars_.back().to, to);
      ++bars_.back().count;
      return;
    }
    is_crowded_ = bars_.size() >= 2 * kMostBars;
    if (!is_crowded_) bars_.push_back({from, to, style, title, 1});
  }
  bool is_empty() const { return bars_.empty(); }
  std::string Svg(double height) const {
    std::string svg;
    for (const Bar& bar : is_crowded_ ? OfColumns() : bars_) {
      svg += base::Format("<rect class=\"%s\" x=\"%.2f\" y=\"0\" width=\"%.2f\" height=\"%g\"><title>", bar.style,
                          bar.from, std::min(bar.to, kWidth) - bar.from, height);
      svg += facts::Escape(bar.title) + (bar.count > 1 ? base::Format(" and %zu more", bar.count - 1) : "") +
             "</title></rect>";
    }
    return svg;
  }

 private:
  struct Bar {
    double from, to;
    const char* style;
    std::string title;
    size_t count;
  };
  struct Part {
    const char* style;
    double width, longest;
    std::string title;  // of the longest
    size_t count;
  };
  double At(int64_t ns) const { return std::clamp(static_cast<double>(ns - begin_ns_) * per_ns_, 0.0, kWidth); }

  void AddToColumns(double from, double to, const char* style, const std::string& title) {
    const auto first = static_cast<size_t>(from / kColumn);
    for (size_t c = first; c < columns_.size() && static_cast<double>(c) * kColumn < to; ++c) {
      const double left = static_cast<double>(c) * kColumn;
      const double width = std::min(to, left + kColumn) - std::max(from, left);
      std::vector<Part>& parts = columns_[c];
      auto part = std::find_if(parts.begin(), parts.end(), [&](const Part& it) { return it.style == style; });
      if (part == parts.end()) part = parts.insert(part, {style, 0, -1, "", 0});
      part->width += width;
      part->count += c == first ? 1 : 0;
      if (width > part->longest) part->longest = width, part->title = title;
    }
  }
  std::vector<Bar> OfColumns() const {
    std::vector<Bar> bars;
    for (size_t c = 0; c < columns_.size(); ++c) {
      const auto most = std::max_element(columns_[c].begin(), columns_[c].end(),
                                         [](const Part& a, const Part& b) { return a.width < b.width; });
      const double from = static_cast<double>(c) * kColumn;
      if (most == columns_[c].end() || most->width == 0) continue;
      if (!bars.empty() && bars.back().style == most->style && bars.back().to == from) {
        bars.back().to += kColumn;
        bars.back().count += most->count;
      } else {
        bars.push_back({from, from + kColumn, most->style, most->title, most->count});
      }
    }
    return bars;
  }

  static constexpr double join_ = 2 * kLeastBar, kColumn = 4;
  int64_t begin_ns_;
  double per_ns_;
  std::vector<Bar> bars_;
  bool is_crowded_ = false;  // there are more
  std::array<std::vector<Part>, static_cast<size_t>(kWidth / kColumn)> columns_;
};

// A lane with its caption; `style` is "", "own", "guilty" or "victim".
struct Lane {
  std::string caption;
  const char* style = "";
  std::string svg;

  std::string Html() const {
    const std::string name = facts::Escape(caption);
    return std::string("<div class=\"lane ") + style + "\"><p>" + name +
           "</p><svg viewBox=\"0 0 1000 20\" preserveAspectRatio=\"none\" role=\"img\" aria-label=\"" + name + "\">" +
           svg + "</svg></div>\n";
  }
};

}  // namespace pitot::judge

#endif  // PITOT_LIB_ANALYZE_JUDGE_LANES_H_
