// SPDX-License-Identifier: Apache-2.0
//
// A12: which kernels come again and again in the same order, with gaps between them? They are candidates for a CUDA
// graph or for fusion. A graph would close at most the gaps between two kernels of an occurrence. If the thread waited
// for the GPU in between, the host may have decided the next kernel: no graph holds both.
#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "analyze/catalogue/catalogue.h"
#include "analyze/facts/evidence.h"
#include "analyze/facts/patience.h"
#include "analyze/facts/subjects.h"
#include "model/kernel_name.h"
#include "pitot/model/indexes.h"

namespace pitot::catalogue {
namespace a12 {
namespace {

using facts::Accumulate;
using facts::Add;
using facts::AddNumber;
using facts::Conclude;
using facts::EachOf;
using facts::InfoOf;
using facts::Judged;
using facts::Share;
using facts::StreamName;
using model::kNone;
using model::Trace;

constexpr Threshold kThresholds[] = {
    {"least_repeats", 5, "1", "msprof"},
    {"gap_share", 0.02, "1", "pitot"},
    {"longest_gap", 100000, "ns", "pitot"},  // a longer gap has something else in it
};

constexpr uint32_t kLengths[] = {2, 3, 4, 6, 8, 12, 16};
constexpr size_t kMostShown = 5;

// A pattern of `length` kernels, by its first occurrence.
struct Pattern {
  uint32_t first = 0, length = 0;
  uint64_t repeats = 0;
  int64_t kernels_ns = 0, gaps_ns = 0;
};

// A stretch of a stream's kernels without a long gap: rows, and running sums before each.
struct Stretch {
  std::vector<uint32_t> rows;
  std::vector<uint64_t> hashes;               // of the names of the first k
  std::vector<uint64_t> kernels_ns, gaps_ns;  // may wrap: only differences are used
};

// For each call, how many calls before it waited for GPUs.
std::vector<uint32_t> WaitsBefore(Analysis& analysis) {
  const Trace& trace = analysis.trace();
  const model::WaitingCalls& waiting = analysis.indexes().waiting;
  std::vector<uint32_t> waits(trace.calls.size() + 1);
  for (const uint32_t call : EachOf(analysis, trace.calls.size())) waits[call + 1] = waits[call] + waiting.Has(call);
  return waits;
}
// Whether the thread that launched both waited in between. Calls are by thread and time.
bool WaitedBetween(const Trace& trace, const std::vector<uint32_t>& waits, uint32_t gpu_row, uint32_t next_row) {
  const uint32_t call = trace.gpu.call[gpu_row], next = trace.gpu.call[next_row];
  if (call == kNone || next == kNone || call >= next || trace.calls.thread[call] != trace.calls.thread[next])
    return false;
  return waits[next] != waits[call + 1];
}

// The difference of two running sums.
int64_t Between(const std::vector<uint64_t>& sums, size_t first, size_t last) {
  return static_cast<int64_t>(std::min<uint64_t>(sums[last] - sums[first], INT64_MAX));
}

constexpr uint64_t kBase = 0x9e3779b97f4a7c15;

// The patterns of one length met so far: open addressing, by hash. At most half of the cells are taken.
class Table {
 public:
  struct Cell {
    uint64_t hash = 0;
    Pattern pattern;
    uint64_t free_from = 0;  // earlier positions are in an occurrence already counted
  };
  // Valid until the next call.
  Cell& Of(uint64_t hash, uint32_t first, uint32_t length) {
    if (Cell& known = At(hash); known.pattern.length != 0) return known;
    if (2 * ++patterns_ > cells_.size()) Grow();
    Cell& cell = At(hash);
    cell.hash = hash;
    cell.pattern.first = first;
    cell.pattern.length = length;
    return cell;
  }
  const std::vector<Cell>& cells() const { return cells_; }

 private:
  Cell& At(uint64_t hash) {
    size_t at = hash & (cells_.size() - 1);
    while (cells_[at].pattern.length != 0 && cells_[at].hash != hash) at = (at + 1) & (cells_.size() - 1);
    return cells_[at];
  }
  void Grow() {
    std::vector<Cell> before(2 * cells_.size());
    before.swap(cells_);
    for (const Cell& cell : before) {
      if (cell.pattern.length != 0) At(cell.hash) = cell;
    }
  }

  std::vector<Cell> cells_ = std::vector<Cell>(16);
  size_t patterns_ = 0;
};

class Sequences final : public Analyzer {
 public:
  AnalyzerInfo Info() const noexcept override { return InfoOf("a12", "repeated kernel sequences", kThresholds); }

  Status Run(Analysis& analysis) override {
    const Trace& trace = analysis.trace();
    const std::vector<uint32_t> waits = WaitsBefore(analysis);
    for (uint32_t stream = 0; stream < trace.streams.size(); ++stream) {
      std::vector<Pattern> patterns = PatternsOf(analysis, waits, stream);
      if (analysis.IsOver()) return Status();
      std::sort(patterns.begin(), patterns.end(), [](const Pattern& a, const Pattern& b) {
        if (a.gaps_ns != b.gaps_ns) return a.gaps_ns > b.gaps_ns;
        return std::pair(b.length, a.first) < std::pair(a.length, b.first);
      });
      if (patterns.size() > kMostShown) patterns.resize(kMostShown);
      const std::string subject = StreamName(trace, stream);
      for (const Pattern& pattern : patterns) {
        const std::string what = subject + ": " + NameOf(trace, pattern);
        AddNumber(analysis, "repeats", what, static_cast<double>(pattern.repeats));
        Add(analysis, "kernels", what, pattern.kernels_ns);
        Add(analysis, "gaps", what, pattern.gaps_ns);
      }
      if (!patterns.empty()) Judge(analysis, subject, patterns.front());
    }
    return Status();
  }

 private:
  static std::vector<Stretch> StretchesOf(Analysis& analysis, const std::vector<uint32_t>& waits, uint32_t stream) {
    const Trace& trace = analysis.trace();
    const double longest_ns = analysis.threshold("longest_gap").value;
    std::vector<Stretch> stretches;
    int64_t end_ns = 0;
    const model::StreamRow& of = trace.streams[stream];
    for (uint32_t row = of.first_event; row < of.first_event + of.event_count; ++row) {
      if (trace.gpu.kind[row] != model::GpuKind::kKernel) continue;
      const int64_t gap_ns = std::max<int64_t>(0, trace.gpu.begin_ns[row] - end_ns);
      if (stretches.empty() || static_cast<double>(gap_ns) > longest_ns ||
          WaitedBetween(trace, waits, stretches.back().rows.back(), row)) {
        stretches.emplace_back();
        stretches.back().hashes.push_back(0);
        stretches.back().kernels_ns.push_back(0);
        stretches.back().gaps_ns.push_back(0);
      }
      Stretch& stretch = stretches.back();
      const bool is_first = stretch.rows.empty();
      stretch.rows.push_back(row);
      stretch.hashes.push_back(stretch.hashes.back() * kBase + trace.gpu.name[row] + 1);
      stretch.kernels_ns.push_back(stretch.kernels_ns.back() + static_cast<uint64_t>(trace.gpu.duration_ns[row]));
      stretch.gaps_ns.push_back(stretch.gaps_ns.back() + static_cast<uint64_t>(is_first ? 0 : gap_ns));
      end_ns = std::max(end_ns, trace.gpu.begin_ns[row] + trace.gpu.duration_ns[row]);
    }
    return stretches;
  }

  // The patterns that come often enough. Repeats of a single kernel suit a graph just as well.
  static std::vector<Pattern> PatternsOf(Analysis& analysis, const std::vector<uint32_t>& waits, uint32_t stream) {
    const std::vector<Stretch> stretches = StretchesOf(analysis, waits, stream);
    const double least = analysis.threshold("least_repeats").value;
    std::vector<Pattern> patterns;
    for (const uint32_t length : kLengths) {
      uint64_t power = 1;
      for (uint32_t i = 0; i < length; ++i) power *= kBase;
      Table table;
      uint64_t position = 0;
      for (const Stretch& stretch : stretches) {
        for (size_t at = 0; at + length <= stretch.rows.size(); ++at) {
          const uint64_t hash = stretch.hashes[at + length] - stretch.hashes[at] * power;
          Table::Cell& cell = table.Of(hash, stretch.rows[at], length);
          if (position + at < cell.free_from) continue;  // occurrences do not overlap
          cell.free_from = position + at + length;
          ++cell.pattern.repeats;
          Accumulate(&cell.pattern.kernels_ns, Between(stretch.kernels_ns, at, at + length));
          Accumulate(&cell.pattern.gaps_ns, Between(stretch.gaps_ns, at + 1, at + length));
        }
        position += stretch.rows.size();
      }
      if (analysis.IsOver()) break;
      for (const Table::Cell& cell : table.cells()) {
        if (cell.pattern.length != 0 && static_cast<double>(cell.pattern.repeats) >= least)
          patterns.push_back(cell.pattern);
      }
    }
    return patterns;
  }

  // "gemm, relu, ... (8 kernels)".
  static std::string NameOf(const Trace& trace, const Pattern& pattern) {
    std::string name;
    uint32_t named = 0;
    for (uint32_t row = pattern.first; named < std::min(pattern.length, 2u) && row < trace.gpu.size(); ++row) {
      if (trace.gpu.kind[row] != model::GpuKind::kKernel) continue;
      name += (named++ == 0 ? "" : ", ") + model::ReadKernelName(trace.strings[trace.gpu.name[row]]).brief;
    }
    return name + (pattern.length > 2 ? ", ... (" + std::to_string(pattern.length) + " kernels)" : "");
  }

  static void Judge(Analysis& analysis, const std::string& subject, const Pattern& pattern) {
    const Trace& trace = analysis.trace();
    const Threshold least = analysis.threshold("gap_share");
    const double share = Share(pattern.gaps_ns, trace.window_end_ns - trace.window_begin_ns);
    if (share < least.value) return;
    const std::string summary = "the same " + std::to_string(pattern.length) + " kernels ran " +
                                base::Count(pattern.repeats) + " times: " + NameOf(trace, pattern) + ", with " +
                                base::Duration(pattern.gaps_ns) + " between them";
    Evidence first;
    first.table = EvidenceTable::kGpu;
    first.first_row = pattern.first;
    first.rows = pattern.length;
    first.begin_ns = trace.gpu.begin_ns[pattern.first];
    first.end_ns = first.begin_ns + trace.gpu.duration_ns[pattern.first];
    first.note = "the first kernel of the first repeat";
    Conclude(
        analysis, Judged("a12.repeated_sequence", subject.c_str(), "gaps within the sequence / window", share, least),
        {.severity = Severity::kLow,
         .confidence = 0.7,  // they may depend on decisions of the host in between
         .cost_ns = pattern.gaps_ns,
         .summary = summary,
         .recommendation = "Capture them as one CUDA graph, or fuse them: this saves at most the time between them."},
        first);
  }
};

}  // namespace
}  // namespace a12

std::unique_ptr<Analyzer> MakeSequences() { return std::make_unique<a12::Sequences>(); }

}  // namespace pitot::catalogue
