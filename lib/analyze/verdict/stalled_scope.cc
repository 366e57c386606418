// SPDX-License-Identifier: Apache-2.0
#include "analyze/verdict/stalled_scope.h"

#include <string_view>

#include "analyze/blame/stacks.h"
#include "analyze/blame/walk_waits.h"
#include "analyze/verdict/place.h"
#include "analyze/verdict/proof.h"
#include "base/causes.h"
#include "base/columns.h"
#include "model/request_text.h"

namespace pitot::verdict {

using model::kNone;
using model::Trace;

namespace {

// A name cut to fit into a firing matches by its beginning.
constexpr size_t kLeastOfCutName = 64;

std::string_view NameIn(const Trace& trace, const model::FiringRow& firing) {
  return trace.strings[firing.cause].substr(sizeof base::kStalledScope - 1);
}

bool HasName(const Trace& trace, uint32_t event, std::string_view name) {
  const std::string_view whole = trace.EventName(event);
  return whole == name || (name.size() >= kLeastOfCutName && whole.substr(0, name.size()) == name);
}

// The outermost scope of the name, open on the thread at that time.
uint32_t OpenAt(const Trace& trace, const model::ThreadRow& thread, std::string_view name, int64_t at_ns) {
  for (uint32_t e = thread.first_event; e < thread.first_event + thread.event_count; ++e) {
    if (trace.events.begin_ns[e] > at_ns) break;
    if (trace.EventEnd(e) >= at_ns && model::IsScope(trace.sites[trace.events.site[e]].kind) && HasName(trace, e, name))
      return e;
  }
  return kNone;
}

// What the thread of a scope does in it, at the scope's last moment in the trace.
class Stalled {
 public:
  Stalled(const blame::Index& index, uint32_t event)
      : index_(index),
        trace_(index.trace),
        event_(event),
        thread_(trace_.events.thread[event]),
        begin_ns_(trace_.events.begin_ns[event]),
        end_ns_(trace_.EventEnd(event)) {
    FindInnermost();
  }

  std::string Text() const {
    const bool is_open = trace_.events.duration_ns[event_] == model::kOpen;
    return "Scope " + QuotedName(trace_.EventName(event_)) + " on " + ThreadName(trace_, thread_) +
           (is_open ? " has been open for " : " was open for ") + base::Duration(end_ns_ - begin_ns_) + For() + ": " +
           What() + ".";
  }
  std::string Signature() const {
    const std::string resource = Resource(), at = resource.empty() ? InnerName() : resource, holder = Holder(false);
    return "scope " + std::string(trace_.EventName(event_)) + " on " + ThreadName(trace_, thread_) +
           (at.empty() ? "" : ": " + std::string(IsForLock() ? "lock " : "") + at) +
           (holder.empty() ? "" : ", held by " + holder);
  }

 private:
  // The innermost open scope. A call that has not returned is in no trace.
  void FindInnermost() {
    const model::ThreadRow& row = trace_.threads[thread_];
    inner_ = event_;
    for (uint32_t e = event_ + 1; e < row.first_event + row.event_count && trace_.events.begin_ns[e] < end_ns_; ++e) {
      if (trace_.EventEnd(e) >= end_ns_ && model::IsScope(trace_.sites[trace_.events.site[e]].kind)) inner_ = e;
    }
    is_wait_ = blame::ReadWait(trace_, inner_, &wait_);
  }
  bool IsForLock() const { return is_wait_ && wait_.kind == WaitKind::kLock; }
  std::string Resource() const {
    if (!is_wait_) return "";
    return wait_.resource != 0 ? std::string(trace_.strings[wait_.resource]) : WaitKindName(wait_.kind);
  }
  std::string InnerName() const { return inner_ != event_ ? std::string(trace_.EventName(inner_)) : ""; }
  std::string Holder(bool has_ids) const {
    if (!is_wait_) return "";
    const Culprit by = index_.locks.HeldBefore(inner_, wait_, end_ns_).holder;
    if (by.request != kNone) {
      const model::RequestRow& row = trace_.requests[by.request];
      const std::string route(trace_.strings[row.route]);
      return has_ids ? "request " + model::RequestName(trace_, row) + " (" + route + ")" : route;
    }
    if (by.batch != kNone) {
      const std::string batch = "a batch of " + std::string(trace_.strings[trace_.batches[by.batch].executor]);
      return has_ids ? batch + " (" + MembersText(trace_, by.batch) + ")" : batch;
    }
    return by.thread != kNone ? ThreadName(trace_, by.thread) : "";
  }
  // Whom the scope works for.
  std::string For() const {
    const uint32_t request = trace_.events.request[event_], batch = trace_.events.batch[event_];
    if (batch != kNone)
      return ", for a batch of " + std::string(trace_.strings[trace_.batches[batch].executor]) + " (" +
             MembersText(trace_, batch) + ")";
    if (request == kNone) return "";
    const model::RequestRow& row = trace_.requests[request];
    return ", for request " + model::RequestName(trace_, row) + " (" + std::string(trace_.strings[row.route]) + ")";
  }
  std::string What() const {
    if (is_wait_) {
      const std::string holder = Holder(true);
      return "it waits for " + std::string(IsForLock() ? "lock " : "") + QuotedName(Resource()) +
             (holder.empty() ? "" : ", held by " + holder);
    }
    const std::string inner = InnerName(), at = inner.empty() ? "" : QuotedName(inner);
    const std::string stacks = StacksText();
    if (at.empty() && stacks.empty()) return "nothing recorded says what it does there";
    return "it is in " + (at.empty() ? stacks : stacks.empty() ? at : at + ", in " + stacks);
  }
  std::string StacksText() const {
    BlameSegment time;
    time.begin_ns = begin_ns_;
    time.end_ns = end_ns_;
    time.thread = thread_;
    for (const Blame part : {Blame::kHostBlockedUnknown, Blame::kUntraced}) {
      time.blame = part;
      const blame::Stacks::Seen seen = index_.stacks.Of(time);
      if (seen.is_known()) return index_.stacks.Place(seen.event) + blame::Stacks::CountText(seen);
    }
    const StackPlace busy = StacksOfCode(index_, {time}, time);
    return busy.is_known() ? index_.stacks.Text(busy) + blame::Stacks::CountText(busy.agree, busy.count) : "";
  }

  const blame::Index& index_;
  const Trace& trace_;
  const uint32_t event_, thread_;
  const int64_t begin_ns_, end_ns_;
  uint32_t inner_ = kNone;
  bool is_wait_ = false;  // inner_ is
  blame::WaitArgs wait_;
};

}  // namespace

bool IsOfStalledScope(const Trace& trace, const model::FiringRow& firing) {
  return firing.request_id == 0 && trace.strings[firing.cause].rfind(base::kStalledScope, 0) == 0;
}

uint32_t FindStalledScope(const Trace& trace, const model::FiringRow& firing) {
  const std::string_view name = NameIn(trace, firing);
  const uint32_t number = base::ThreadIn(trace.strings[firing.detail]);
  uint32_t earliest = kNone;
  for (const model::ThreadRow& thread : trace.threads) {
    if (number != 0 && thread.number != number) continue;
    const uint32_t event = OpenAt(trace, thread, name, firing.at_ns);
    if (event != kNone && (earliest == kNone || trace.events.begin_ns[event] < trace.events.begin_ns[earliest]))
      earliest = event;
  }
  return earliest;
}

std::string StalledScopeText(const blame::Index& index, uint32_t event) {
  if (event != kNone) return Stalled(index, event).Text();
  const model::FiringRow& firing = index.trace.firings[0];
  return "Scope " + QuotedName(NameIn(index.trace, firing)) +
         " stalled: " + std::string(index.trace.strings[firing.detail]) + ".";
}

std::string StalledScopeSignature(const blame::Index& index, uint32_t event) {
  return event != kNone ? Stalled(index, event).Signature()
                        : "scope " + std::string(NameIn(index.trace, index.trace.firings[0]));
}

}  // namespace pitot::verdict
