// SPDX-License-Identifier: Apache-2.0
#include "analyze/judge/signature.h"

#include <algorithm>
#include <string>

#include "analyze/blame/index_data.h"
#include "analyze/verdict/place.h"
#include "analyze/verdict/stalled_scope.h"
#include "base/json.h"

namespace pitot::judge {
namespace {

using model::kNone;
using model::Trace;

std::string WithoutDigits(std::string text) {
  text.erase(std::remove_if(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; }), text.end());
  return text;
}

// ", of /report"; "" if nobody is known.
std::string Whose(const Trace& trace, const Culprit& by) {
  if (by.request != kNone) return ", of " + std::string(trace.strings[trace.requests[by.request].route]);
  std::string name;
  if (by.batch != kNone)
    name = std::string(trace.strings[trace.batches[by.batch].executor]);
  else if (by.gpu != kNone)
    name = verdict::GpuWorkName(trace, by.gpu);
  else if (by.thread != kNone)
    name = verdict::ThreadName(trace, by.thread);
  return name.empty() ? "" : ", of " + WithoutDigits(name);
}

std::string PartAt(const blame::Index& index, Blame blame, const BlameSegment& at) {
  const std::string place = verdict::Places(index).Of(at);
  return std::string(BlameName(blame)) + (place.empty() ? "" : " " + WithoutDigits(place));
}

std::string OfLatency(const Judgement& judgement) {
  const blame::Index& index = judgement.index.data()->index;
  const Trace& trace = index.trace;
  const Verdict& verdict = judgement.verdict;
  const RequestBlame& blame = judgement.blame;
  std::string text(trace.strings[trace.requests[blame.request].route]);
  if (blame.token != kNone) text += " (token)";
  text += ": ";
  if (verdict.root.node != kNone) {
    const VerdictNode& root = verdict.tree[verdict.root.node];
    if (root.kind == NodeKind::kMoreWork) return text + NodeKindName(root.kind);
    const std::string what = root.kind == NodeKind::kPart
                                 ? PartAt(index, root.blame, root.at)
                                 : std::string(NodeKindName(root.kind)) + " " + BlameName(root.blame);
    return text + what + Whose(trace, verdict.root.by);
  }
  const std::vector<Cause>& parts = verdict.causes.empty() ? verdict.largest : verdict.causes;
  if (parts.empty() || parts[0].longest.empty()) return text + VerdictKindName(verdict.kind);
  const Cause& first = parts[0];
  return text + PartAt(index, first.blame, blame.segments[first.longest[0]]) + Whose(trace, first.by);
}

std::string OfFailure(const Trace& trace, const Asked& asked, const Judgement* judgement) {
  const model::RequestRow& row = trace.requests[asked.request];
  std::string text = std::string(trace.strings[row.route]) + ": " + OutcomeName(row.outcome);
  if (row.reason != 0) text += ", " + WithoutDigits(std::string(trace.strings[row.reason]));
  const bool is_slow = judgement != nullptr && IsAboutLatency(trace, asked, judgement->verdict);
  return is_slow ? text + "; " + OfLatency(*judgement) : text;
}

}  // namespace

std::string Signature(const BlameIndex& index, const Asked& asked, const Judgement* judgement) {
  const blame::Index& rows = index.data()->index;
  if (asked.kind == FiredKind::kScope) return WithoutDigits(verdict::StalledScopeSignature(rows, asked.event));
  if (asked.kind == FiredKind::kFailure) return OfFailure(rows.trace, asked, judgement);
  return judgement != nullptr ? OfLatency(*judgement) : "";
}

std::string WithSignature(const std::string& json, const std::string& signature, int64_t excess_ns) {
  base::Json first;
  first.Begin('{').Key("signature").Text(signature).Key("excess_ns").Int(excess_ns).End();
  const std::string members = first.text().substr(0, first.text().rfind('\n'));
  return json.compare(0, 1, "{") == 0 ? members + "," + json.substr(1) : json;
}

}  // namespace pitot::judge
