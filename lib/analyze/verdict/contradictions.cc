// SPDX-License-Identifier: Apache-2.0
#include "analyze/verdict/contradictions.h"

#include <algorithm>
#include <string_view>
#include <unordered_set>

#include "pitot/analyze/verdict.h"

PITOT_NAMESPACE_BEGIN
namespace analyze {

using model::kNone;

const Exclusion kExclusions[] = {
    // Where work piles up before a GPU, its calls look slow because they wait for room.
    {"a10.launch_bound", "a11.queue_full", Meeting::kSameGpu,
     "either a GPU waits for launches, or launches wait for the GPU"},
    // Memory runs out for one reason or the other.
    {"a23.leak", "a23.fragmentation", Meeting::kSameGpu,
     "either more and more memory is allocated, or free memory is fragmented"},
    // Each divides the excess of kernels by a model of its own: overlap, clocks.
    {"gpu_clock", "gpu_contention", Meeting::kSameKernels,
     "either a low clock made these kernels longer, or other work on the GPU did"},
    // Calls that wait for room look slow: the same as above, for one request.
    {"launch_api", "launch_queue_full", Meeting::kSameCalls,
     "either these calls are slow, or they wait for room because the GPU is behind"},
    {nullptr, nullptr, Meeting::kSameGpu, nullptr}};

namespace {

constexpr double kContradicted = 0.5;  // of confidence

template <class Visit> void ForExclusions(Visit visit) {
  for (const Exclusion* row = kExclusions; row->one != nullptr; ++row) visit(*row);
}

// "GPU 1" of "GPU 1 stream 7" and "GPU 1: LibTorch allocated"; otherwise "".
std::string_view GpuOf(std::string_view subject) {
  constexpr std::string_view kGpu = "GPU ";
  if (subject.substr(0, kGpu.size()) != kGpu) return {};
  const size_t end = std::min(subject.find_first_not_of("0123456789", kGpu.size()), subject.size());
  return end == kGpu.size() ? std::string_view() : subject.substr(0, end);
}

bool IsOne(const FindingRow& finding, const char* code) { return !finding.is_undetermined && finding.code == code; }

void Contradict(const Exclusion& row, const FindingRow& by, FindingRow* finding) {
  if (finding->contradictions.empty()) finding->confidence *= kContradicted;
  finding->contradictions.push_back({by.code, by.subject, row.why});
}

// The row that a segment of a blame is about, for `meeting`; kNone: none.
uint32_t RowOf(const BlameSegment& segment, Meeting meeting) {
  return meeting == Meeting::kSameKernels ? segment.gpu : segment.call;
}

// Whether most time of one blame, or of the other, is in kernels or calls shared by both.
bool Meet(const RequestBlame& request, Blame one, Blame other, Meeting meeting) {
  const auto is_shared = [&](Blame part, Blame with) {
    std::unordered_set<uint32_t> rows;
    for (const BlameSegment& segment : request.segments) {
      if (segment.blame == with && RowOf(segment, meeting) != kNone) rows.insert(RowOf(segment, meeting));
    }
    int64_t all_ns = 0, shared_ns = 0;
    for (const BlameSegment& segment : request.segments) {
      if (segment.blame != part) continue;
      const int64_t ns = segment.end_ns - segment.begin_ns;
      all_ns += ns;
      shared_ns += rows.count(RowOf(segment, meeting)) != 0 ? ns : 0;
    }
    return 2 * shared_ns > all_ns;
  };
  return is_shared(one, other) || is_shared(other, one);
}

void Contradict(const Exclusion& row, Blame by, Cause* cause) {
  if (*cause->contradicted_by == '\0') cause->confidence *= kContradicted;
  cause->contradicted_by = BlameName(by);
  cause->contradiction = row.why;
}

}  // namespace

void MarkContradictions(AnalysisReport* report) {
  std::vector<FindingRow*> findings;
  for (AnalyzerReport& analyzer : report->analyzers) {
    for (FindingRow& finding : analyzer.findings) findings.push_back(&finding);
  }
  ForExclusions([&](const Exclusion& row) {
    for (FindingRow* one : findings) {
      if (!IsOne(*one, row.one)) continue;
      for (FindingRow* other : findings) {
        const std::string_view gpu = GpuOf(one->subject);
        if (!IsOne(*other, row.other) || gpu.empty() || gpu != GpuOf(other->subject)) continue;
        Contradict(row, *other, one);
        Contradict(row, *one, other);
      }
    }
  });
}

void MarkContradictions(const RequestBlame& blame, std::vector<Cause>* causes) {
  ForExclusions([&](const Exclusion& row) {
    for (Cause& one : *causes) {
      if (std::string_view(BlameName(one.blame)) != row.one) continue;
      for (Cause& other : *causes) {
        if (std::string_view(BlameName(other.blame)) != row.other || !Meet(blame, one.blame, other.blame, row.of))
          continue;
        Contradict(row, other.blame, &one);
        Contradict(row, one.blame, &other);
      }
    }
  });
}

}  // namespace analyze
PITOT_NAMESPACE_END
