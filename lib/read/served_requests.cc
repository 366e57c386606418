// SPDX-License-Identifier: Apache-2.0
#include "read/served_requests.h"

#include <algorithm>
#include <utility>

#include "read/texts.h"

namespace pitot::read {
namespace {

constexpr size_t kMostIdBytes = 256;

bool IsHex(char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); }

}  // namespace

model::StringId ServedRequests::Intern(std::string_view text) {
  return read::Intern(text.substr(0, kMostIdBytes), &trace_);
}

ServedRequest* ServedRequests::Find(std::string_view id) {
  constexpr size_t kAdded = 9;
  auto found = by_id_.find(std::string(id.substr(0, kMostIdBytes)));
  if (found == by_id_.end() && id.size() > kAdded && id.size() <= kMostIdBytes && id[id.size() - kAdded] == '-' &&
      std::all_of(id.end() - kAdded + 1, id.end(), IsHex))
    found = by_id_.find(std::string(id.substr(0, id.size() - kAdded)));
  return found == by_id_.end() ? nullptr : &all_[found->second];
}

ServedRequest* ServedRequests::FindOrAdd(std::string_view id, std::string_view route) {
  ServedRequest* const found = Find(id);
  return found != nullptr ? found : Add(id, route);
}

ServedRequest* ServedRequests::Add(std::string_view id, std::string_view route) {
  const auto [found, is_new] =
      by_id_.try_emplace(std::string(id.substr(0, kMostIdBytes)), static_cast<uint32_t>(all_.size()));
  if (!is_new) all_[std::exchange(found->second, static_cast<uint32_t>(all_.size()))].is_replaced = true;
  ServedRequest& request = all_.emplace_back();
  request.id = Intern(id);
  request.route = Intern(route);
  return &request;
}

std::set<model::StringId> ServedRequests::RoutesWithoutEnds() const {
  std::set<model::StringId> without, with;
  for (const ServedRequest& request : all_)
    (request.is_ended && request.outcome == Outcome::kOk ? with : without).insert(request.route);
  for (const model::StringId route : with) without.erase(route);
  return without;
}

// A request without an end is open, if others of its route have one. Otherwise it may have ended at any time.
void ServedRequests::AddTo(TraceBuilder* builder, int64_t first_ns) {
  const std::set<model::StringId> without_ends = RoutesWithoutEnds();
  for (ServedRequest& request : all_) {
    if (!request.is_begun) request.begin_ns = first_ns;
  }
  std::stable_sort(all_.begin(), all_.end(),
                   [](const ServedRequest& a, const ServedRequest& b) { return a.begin_ns < b.begin_ns; });
  for (const ServedRequest& request : all_) {
    const bool is_open = !request.is_ended && !request.is_replaced && without_ends.count(request.route) == 0;
    const int64_t end_ns = request.is_ended ? request.end_ns : request.last_ns;
    TraceBuilder::Async whole;
    whole.span = {request.begin_ns, is_open ? model::kOpen : end_ns - request.begin_ns};
    if (!builder->AddRequest(trace_.strings[request.route], trace_.strings[request.id], whole, {})) continue;
    AddDetails(request, &trace_.requests.back());
  }
}

void ServedRequests::AddDetails(const ServedRequest& from, model::RequestRow* row) {
  row->begin_known = from.is_begun;
  row->end_known = from.is_ended;
  row->outcome = from.outcome;
  row->reason = from.reason;
  if (from.finish != 0) row->labels.push_back({Intern("finish reason"), from.finish});
  const auto add_size = [&](const char* name, int64_t tokens) {
    if (tokens >= 0) row->sizes.push_back({Intern(name), static_cast<double>(tokens)});
  };
  add_size("input tokens", from.input_tokens);
  add_size("cached tokens", from.cached_tokens);
  row->output_tokens = static_cast<uint32_t>(std::clamp<int64_t>(from.output_tokens, 0, UINT32_MAX));
  if (row->duration_ns == model::kOpen || !from.is_begun) return;
  if (from.first_token_ns <= row->duration_ns) row->first_token_ns = from.first_token_ns;
  if (from.queue_ns == 0 || from.queue_ns > row->duration_ns) return;
  model::HandoffRow stay;
  stay.request = static_cast<uint32_t>(row->id - 1);
  stay.queue = Intern("queue");
  stay.enqueue_ns = row->begin_ns;
  stay.take_ns = row->begin_ns + from.queue_ns;
  trace_.handoffs.push_back(stay);
  if (row->first_token_ns <= from.queue_ns) return;
  row->stages = {{Intern("queue"), row->begin_ns, from.queue_ns},
                 {Intern("prefill"), row->begin_ns + from.queue_ns, row->first_token_ns - from.queue_ns},
                 {Intern("decode"), row->begin_ns + row->first_token_ns, row->duration_ns - row->first_token_ns}};
}

}  // namespace pitot::read
