// SPDX-License-Identifier: Apache-2.0
//
// The gate: the two words that every macro reads. Also the sites of the library's own records.
#include "pitot/trace.h"
#include "trace/internal_sites.h"

PITOT_NAMESPACE_BEGIN
namespace detail {
inline namespace layout_2 {
alignas(128) constinit uint32_t g_gate = 0;
constinit uint64_t g_ticks_per_ns_q32 = uint64_t{1} << 32;
}  // namespace layout_2
}  // namespace detail
PITOT_NAMESPACE_END

namespace pitot::trace {
namespace {
constexpr Site Internal(Record record, const char* name) {
  return {kSiteMagic, SiteKind::kInternal, 0, static_cast<uint16_t>(record), 0, 0, name, "", "", ""};
}
}  // namespace

constexpr Site kRequestBeginSite = Internal(Record::kRequestBegin, "request begin");
constexpr Site kRequestEndSite = Internal(Record::kRequestEnd, "request end");
constexpr Site kContextSite = Internal(Record::kContext, "context");
constexpr Site kBatchContextSite = Internal(Record::kBatchContext, "batch context");
constexpr Site kEnqueueSite = Internal(Record::kEnqueue, "enqueue");
constexpr Site kTakeSite = Internal(Record::kTake, "take");
constexpr Site kBatchBeginSite = Internal(Record::kBatchBegin, "batch begin");
constexpr Site kBatchEndSite = Internal(Record::kBatchEnd, "batch end");
constexpr Site kJoinSite = Internal(Record::kJoin, "join");
constexpr Site kLeaveSite = Internal(Record::kLeave, "leave");
constexpr Site kTokensSite = Internal(Record::kTokens, "tokens");
constexpr Site kSubmittedSite = Internal(Record::kSubmitted, "submitted");
constexpr Site kCallSite = Internal(Record::kCall, "call");
constexpr Site kUsageSite = Internal(Record::kUsage, "usage");
constexpr Site kThreadEndSite = Internal(Record::kThreadEnd, "thread end");
}  // namespace pitot::trace
