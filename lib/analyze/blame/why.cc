// SPDX-License-Identifier: Apache-2.0
#include "pitot/analyze/why.h"

#include <new>
#include <optional>
#include <string>

#include "analyze/blame/index_data.h"
#include "analyze/blame/token_gap.h"
#include "analyze/facts/patience.h"
#include "analyze/facts/quality.h"
#include "base/message.h"

PITOT_NAMESPACE_BEGIN
namespace analyze {

using facts::Over;

BlameIndex::BlameIndex() noexcept = default;
BlameIndex::~BlameIndex() = default;
BlameIndex::BlameIndex(BlameIndex&& other) noexcept = default;
BlameIndex& BlameIndex::operator=(BlameIndex&& other) noexcept = default;

Status BlameIndex::Make(const model::Trace& trace, const BlameOptions& options, BlameIndex* index) noexcept {
  try {
    index->data_ = std::make_unique<const Data>(trace, options);
    return Status();
  } catch (const Over&) {
    return Status(StatusCode::kResourceExhausted, "no time left to index the trace");
  } catch (const std::bad_alloc&) {
    return Status(StatusCode::kResourceExhausted, "no memory to index the trace");
  } catch (...) {
    return Status(StatusCode::kInternal, "the trace could not be indexed");
  }
}

const char* BlameName(Blame blame) noexcept {
  static constexpr const char* kNames[kBlames] = {"net_in",
                                                  "admission_queue",
                                                  "handoff",
                                                  "queue_wait_others",
                                                  "batch_window",
                                                  "executor_busy",
                                                  "host_oncpu_pre",
                                                  "host_oncpu_framework",
                                                  "host_oncpu_post",
                                                  "host_runqueue",
                                                  "host_lock",
                                                  "host_gil",
                                                  "host_gc",
                                                  "host_pagefault_io",
                                                  "host_blocked_unknown",
                                                  "launch_api",
                                                  "launch_latency",
                                                  "launch_queue_full",
                                                  "alloc_stall",
                                                  "lazy_load_jit",
                                                  "sync_return",
                                                  "h2d",
                                                  "d2h",
                                                  "d2d_memset",
                                                  "gpu_exec_expected",
                                                  "gpu_contention",
                                                  "gpu_clock",
                                                  "gpu_excess_unknown",
                                                  "gpu_queue_wait_others",
                                                  "dispatch_gap",
                                                  "comm_exposed",
                                                  "untraced_or_unexplained"};
  const auto i = static_cast<uint32_t>(blame);
  return kNames[i < kBlames ? i : kBlames - 1];
}

namespace {

// Checks that nothing is left out and nothing counted twice.
Status Check(const RequestBlame& blame) {
  int64_t at_ns = blame.begin_ns;
  for (const BlameSegment& segment : blame.segments) {
    if (segment.begin_ns != at_ns || segment.end_ns <= segment.begin_ns)
      return base::Error(StatusCode::kInternal, "segments of request row %u do not follow each other", blame.request);
    at_ns = segment.end_ns;
  }
  if (at_ns != blame.end_ns || blame.blame.Total() != blame.end_ns - blame.begin_ns)
    return base::Error(StatusCode::kInternal, "segments of request row %u do not add up to its latency", blame.request);
  return Status();
}

// Counts losses that overlap the walk's time and damage of unknown place, and says whether the walk is reliable.
void JudgeQuality(const blame::Index& index, RequestBlame* blame) {
  const model::Trace& trace = index.trace;
  const auto overlaps = [&](int64_t begin_ns, int64_t end_ns) {
    return begin_ns < blame->end_ns && end_ns > blame->begin_ns;
  };
  for (const model::LossRow& loss : trace.losses) {
    if (!facts::AreEventsLost(loss.reason)) continue;
    blame->losses += overlaps(loss.begin_ns, loss.end_ns) || loss.reason == model::LossReason::kDamaged;
  }
  for (const model::GpuLossRow& loss : trace.gpu_losses) blame->losses += overlaps(loss.begin_ns, loss.end_ns);
  const auto latency_ns = static_cast<double>(blame->end_ns - blame->begin_ns);
  blame->is_reliable =
      blame->losses == 0 && static_cast<double>(blame->clamped_ns) <= index.options.most_clamped * latency_ns;
}

// Fills `blame` by `walk`, which gets the RequestBlame to fill and returns false if it could not begin.
template <class Way>
Status FindBy(const blame::Index& rows, const char* not_found, RequestBlame* blame, const Way& walk) {
  try {
    RequestBlame found;
    if (!walk(&found)) return Status(StatusCode::kNotFound, not_found);
    if (Status status = Check(found); !status.ok()) return status;
    JudgeQuality(rows, &found);
    *blame = std::move(found);
    return Status();
  } catch (const Over&) {
    return Status(StatusCode::kResourceExhausted, "no time left to walk the request");
  } catch (const std::bad_alloc&) {
    return Status(StatusCode::kResourceExhausted, "no memory to walk the request");
  } catch (...) {
    return Status(StatusCode::kInternal, "the request could not be walked");
  }
}

}  // namespace

Status FindBlame(const BlameIndex& index, uint32_t request, RequestBlame* blame) noexcept {
  if (index.data() == nullptr) return Status(StatusCode::kInvalidArgument, "index: not built");
  const blame::Index& rows = index.data()->index;
  if (request >= rows.trace.requests.size())
    return base::Error(StatusCode::kInvalidArgument, "request: no row %u", request);
  return FindBy(rows, "the request's begin or end is not in the trace", blame,
                [&](RequestBlame* found) { return blame::Walk(rows, request, found).Run(); });
}

Status FindTokenBlame(const BlameIndex& index, uint32_t token, RequestBlame* blame) noexcept {
  if (index.data() == nullptr) return Status(StatusCode::kInvalidArgument, "index: not built");
  const blame::Index& rows = index.data()->index;
  if (token >= rows.trace.tokens.size() || rows.trace.tokens[token].request == model::kNone)
    return base::Error(StatusCode::kInvalidArgument, "token: no row %u of a request", token);
  return FindBy(rows, "the token before it, or its thread, is not in the trace", blame, [&](RequestBlame* found) {
    const std::optional<model::Interval> time = blame::TimeBefore(rows, token);
    return time && blame::Walk(rows, rows.trace.tokens[token].request, found).RunTo(token, time->begin_ns);
  });
}

}  // namespace analyze
PITOT_NAMESPACE_END
