// SPDX-License-Identifier: Apache-2.0
//
// A02: what costs most? The first rows of FindTop (pitot/analyze/top.h) by operator and by kernel, until they are most
// of it, and how sure their order is.
#include <algorithm>
#include <string>

#include "analyze/catalogue/catalogue.h"
#include "analyze/catalogue/namespace.h"
#include "analyze/facts/resampling.h"
#include "analyze/facts/subjects.h"
#include "analyze/top/top_index.h"
#include "pitot/model/indexes.h"

namespace pitot::catalogue {
namespace a02 {
namespace {

using facts::Accumulate;
using facts::Add;
using facts::AddNumber;
using facts::InfoOf;
using facts::Judged;
using facts::kLeastUnits;
using facts::Percent;
using facts::Share;

constexpr Threshold kThresholds[] = {
    {"covered", 0.8, "1", "HTA"},  // by the reported rows
    {"most_rows", 10, "1", "HTA"},
    {"dear_share", 0.3, "1", "pitot"},
    {"sure", 0.95, "1", "pitot"},
};

class TopCosts final : public Analyzer {
 public:
  AnalyzerInfo Info() const noexcept override { return InfoOf("a02", "largest costs", kThresholds); }

  Status Run(Analysis& analysis) override {
    const top::TopIndex index(analysis.trace());
    for (const TopBy by : {TopBy::kOperator, TopBy::kKernel}) {
      if (analysis.IsOver()) break;
      TopOptions options;
      options.by = by;
      TopTable table;
      Status found = top::FindTop(index, options, &table);
      if (!found.ok()) return found;
      const int64_t all_ns = table.gpu_ns != 0 ? table.gpu_ns : table.cpu_ns;
      if (all_ns != 0) OfTable(analysis, table, all_ns);
    }
    return Status();
  }

 private:
  static std::string NameOf(const TopRow& row) { return row.brief_name.empty() ? row.name : row.brief_name; }

  static void OfTable(Analysis& analysis, const TopTable& table, int64_t all_ns) {
    const bool is_gpu = table.gpu_ns != 0;
    const double covered = analysis.threshold("covered").value, most_rows = analysis.threshold("most_rows").value;
    int64_t told_ns = 0;
    for (size_t i = 0; i < table.rows.size(); ++i) {
      const TopRow& row = table.rows[i];
      const int64_t self_ns = is_gpu ? row.self_gpu_ns : row.self_cpu_ns;
      if (static_cast<double>(i) >= most_rows || Share(told_ns, all_ns) >= covered || self_ns == 0) break;
      Add(analysis, is_gpu ? "self_gpu" : "self_cpu", row.name, self_ns);
      if (is_gpu) Add(analysis, "gpu_exposed", row.name, row.gpu_exposed_ns);
      AddNumber(analysis, "calls", row.name, static_cast<double>(row.calls));
      if (row.above_next >= 0) AddNumber(analysis, "above_next", row.name, row.above_next);
      Accumulate(&told_ns, self_ns);
    }
    Add(analysis, is_gpu ? "others_gpu" : "others_cpu", table.by == TopBy::kKernel ? "kernels" : "operators",
        all_ns - told_ns);
    Judge(analysis, table, all_ns);
  }

  // Reports the first three, and the doubts about their order.
  static void Judge(Analysis& analysis, const TopTable& table, int64_t all_ns) {
    const bool is_gpu = table.gpu_ns != 0, is_kernel = table.by == TopBy::kKernel;
    const Threshold dear = analysis.threshold("dear_share");
    const double sure = analysis.threshold("sure").value;
    const size_t count = std::min<size_t>(3, table.rows.size());
    int64_t first_ns = 0;
    std::string names, unsure;
    for (size_t i = 0; i < count; ++i) {
      const TopRow& row = table.rows[i];
      const int64_t self_ns = is_gpu ? row.self_gpu_ns : row.self_cpu_ns;
      Accumulate(&first_ns, self_ns);
      names += (i == 0 ? "" : ", ") + NameOf(row) + " (" + base::Duration(self_ns) + ", " +
               Percent(Share(self_ns, all_ns)) + ")";
      if (row.above_next >= 0 && row.above_next < sure)
        unsure += (unsure.empty() ? "" : ", ") + std::to_string(i + 1) + " and " + std::to_string(i + 2);
    }
    const double share = Share(first_ns, all_ns);
    // Rows in brackets stand for unknown operators: nothing is dear then.
    const bool is_named = std::any_of(table.rows.begin(), table.rows.begin() + static_cast<std::ptrdiff_t>(count),
                                      [](const TopRow& row) { return row.name.substr(0, 1) != "("; });
    if (share < dear.value || !is_named) return;
    std::string summary = "most expensive: " + names;
    if (table.resampled == 0) {
      summary += "; the certainty of this order is unknown: the trace has fewer than " + std::to_string(kLeastUnits) +
                 " requests or steps";
    } else {
      summary +=
          unsure.empty() ? "; other requests would keep this order" : "; ranks " + unsure + " are too close to call";
    }
    Finding finding = Judged(is_kernel ? "a02.kernels" : "a02.operators", is_gpu ? "GPU time" : "host time",
                             "first three / all", share, dear);
    // How sure it is that all three are above the next.
    finding.confidence = table.resampled == 0 ? 0.5 : 1;
    for (size_t i = 0; i < count; ++i) {
      if (table.rows[i].above_next >= 0) finding.confidence = std::min(finding.confidence, table.rows[i].above_next);
    }
    finding.summary = summary.c_str();
    finding.recommendation = "Begin here: `pitot top` lists all rows, with their hidden and exposed time.";
    analysis.Add(finding);
  }
};

}  // namespace
}  // namespace a02

std::unique_ptr<Analyzer> MakeTopCosts() { return std::make_unique<a02::TopCosts>(); }

}  // namespace pitot::catalogue
