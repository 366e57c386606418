// SPDX-License-Identifier: Apache-2.0
#include "read/json_head.h"

#include <algorithm>

#include "read/byte_source.h"
#include "read/chrome_event.h"
#include "read/event_splitter.h"

namespace pitot::read {
namespace {

constexpr size_t kLookedAtBytes = 256 << 10, kLookedAtNames = 100;

bool BeginsLikeJson(std::string_view text) {
  text = text.substr(std::min(text.find_first_not_of(" \t\r\n"), text.size()));
  return !text.empty() && (text[0] == '{' || text[0] == '[');
}

void TakeEvent(const ChromeEvent& event, JsonHead* head) {
  if (event.phase.empty()) return;
  ++head->events;
  if (!event.category.empty() && head->categories.size() < kLookedAtNames)
    ++head->categories[std::string(event.category)];
  for (const ChromeValue& argument : event.args) {
    if (head->arguments.size() < kLookedAtNames) head->arguments.emplace(argument.key);
  }
  if (event.phase != "M" || event.name != "process_name" || head->processes.size() >= kLookedAtNames) return;
  head->processes.emplace(event.Text("name"));
}

JsonHead LookAtAll(std::string_view bytes) {
  JsonHead head;
  const auto source = FromMemory(bytes.data(), bytes.size());
  EventSplitter splitter(source.get());
  ChromeDecoder decoder;
  ChromeEvent event;
  EventSplitter::Piece piece;
  while ((piece = splitter.Next()) < EventSplitter::Piece::kEnd) {
    if (piece == EventSplitter::Piece::kMember && head.members.size() < kLookedAtNames)
      head.members.emplace(splitter.key());
    head.values += piece == EventSplitter::Piece::kEvent || piece == EventSplitter::Piece::kTooDeep;
    if (piece == EventSplitter::Piece::kEvent && decoder.Event(splitter.text(), splitter.capacity(), &event))
      TakeEvent(event, &head);
  }
  head.is_json = true;
  head.has_events = splitter.has_events();
  head.is_cut = piece == EventSplitter::Piece::kCut;
  if (!head.has_events) head.members.emplace(splitter.key());  // the member that reaches beyond that part
  head.is_bare = splitter.is_bare_list();
  return head;
}

}  // namespace

bool JsonHead::HasProcess(std::string_view prefix) const {
  const auto found = processes.lower_bound(std::string(prefix));
  return found != processes.end() && std::string_view(*found).substr(0, prefix.size()) == prefix;
}

JsonHead LookAtJson(std::string_view bytes) {
  if (!BeginsLikeJson(bytes)) return {};
  const JsonHead head = LookAtAll(bytes.substr(0, kLookedAtBytes));
  return head.events == 0 && bytes.size() > kLookedAtBytes ? LookAtAll(bytes) : head;
}

}  // namespace pitot::read
