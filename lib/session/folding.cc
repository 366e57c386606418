// SPDX-License-Identifier: Apache-2.0
#include "session/folding.h"

#include <time.h>

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <utility>

#include "base/columns.h"

namespace pitot::session {
namespace {

constexpr char kAgain[] = "again       ", kAgainMember[] = "  \"again\": ";

std::string TimeOfDay(int64_t realtime_ns) {
  const time_t seconds = static_cast<time_t>(realtime_ns / 1'000'000'000);
  tm utc{};
  gmtime_r(&seconds, &utc);
  char text[16];
  strftime(text, sizeof text, "%H:%M:%S", &utc);
  return text;
}

// Where `lines` lines from `at` on end.
size_t EndOfLines(const std::string& text, size_t at, int lines) {
  while (lines-- > 0 && at < text.size()) at = std::min(text.find('\n', at), text.size() - 1) + 1;
  return at;
}

std::string MoreLikeIt(uint64_t count) {
  if (count == 0) return "";
  return std::string(sizeof kAgain - 1, ' ') + base::Plural(count, "more event") +
         " of this trigger and route began no incident meanwhile\n";
}

size_t EndOfParagraph(const std::string& text) {
  const size_t blank = text.find("\n\n");
  return blank != std::string::npos ? blank + 1 : text.size();
}

}  // namespace

bool Folding::IsMilderRepeat(const std::string& signature, int64_t at_ns, int64_t excess_ns) const {
  return std::any_of(all_.begin(), all_.end(), [&](const Repeats& it) {
    return it.signature == signature && at_ns - it.last.at_ns <= kForgetNs && excess_ns <= it.worst.excess_ns;
  });
}

const Repeats& Folding::Add(const std::string& signature, const JudgedIncident& incident,
                            std::vector<std::string>* folded) {
  std::erase_if(all_, [&](const Repeats& old) { return incident.at_ns - old.last.at_ns > kForgetNs; });
  const auto at = std::find_if(all_.begin(), all_.end(), [&](auto& it) { return it.signature == signature; });
  folded->clear();
  if (at == all_.end()) {
    Repeats fresh{signature, incident, incident, incident, 0, incident.requests, 0, {incident.at_ns}};
    all_.reserve(all_.size() + 1);
    if (all_.size() == kMostSignatures)
      all_.erase(
          std::min_element(all_.begin(), all_.end(), [](auto& a, auto& b) { return a.last.at_ns < b.last.at_ns; }));
    all_.push_back(std::move(fresh));
    return all_.back();
  }
  Repeats next = *at;
  if (next.at_ns.size() == kMostTimes) next.at_ns.erase(next.at_ns.begin());
  next.at_ns.push_back(incident.at_ns);
  next.requests += incident.requests;
  if (IsNewestOfCause(*at)) next.more_like_it += incident.more_like_it;
  ++next.again;
  next.last = incident;
  if (incident.excess_ns > next.worst.excess_ns) next.worst = incident;
  const auto is_kept = [&](const JudgedIncident& it) {
    return it.number == next.first.number || it.number == next.worst.number || it.number == next.last.number;
  };
  if (!is_kept(at->worst)) folded->push_back(at->worst.path);
  if (!is_kept(at->last) && at->last.number != at->worst.number) folded->push_back(at->last.path);
  std::swap(*at, next);
  return *at;
}

bool Folding::IsNewestOfCause(const Repeats& it) const {
  return std::none_of(all_.begin(), all_.end(), [&](const Repeats& other) {
    return other.last.cause == it.last.cause && other.last.number > it.last.number;
  });
}

std::string AgainText(const Repeats& it) {
  const auto number = [](const JudgedIncident& incident, const char* what) {
    return base::Format("%04" PRIu64 " (%s)", incident.number, what);
  };
  const bool is_once = it.again == 1;
  return kAgain +
         base::Format("%" PRIu64 " %s in %s, from %s to %s UTC: %" PRIu64 " requests fired in all\n", it.again,
                      is_once ? "time" : "times", base::Duration(it.last.at_ns - it.first.at_ns).c_str(),
                      TimeOfDay(it.first.at_ns).c_str(), TimeOfDay(it.last.at_ns).c_str(), it.requests) +
         std::string(sizeof kAgain - 1, ' ') + "kept: incidents " + number(it.first, "the first") + ", " +
         number(it.worst, "the worst") + ", " + number(it.last, "the last") + "\n" + MoreLikeIt(it.more_like_it);
}

std::string AgainJson(const Repeats& it) {
  std::string times;
  for (const int64_t at_ns : it.at_ns) times += (times.empty() ? "" : ", ") + std::to_string(at_ns);
  return kAgainMember +
         base::Format(
             "{\"times\": %" PRIu64 ", \"requests\": %" PRIu64 ", \"more_like_it\": %" PRIu64 ", \"first\": %" PRIu64
             ", \"worst\": %" PRIu64 ", \"last\": %" PRIu64 ", \"first_at_ns\": %" PRId64 ", \"at_ns\": [",
             it.again, it.requests, it.more_like_it, it.first.number, it.worst.number, it.last.number, it.first.at_ns) +
         times + "]},\n";
}

std::string WithAgain(const std::string& report, const std::string& lines) {
  std::string text = report;
  TakeAgain(&text);
  return text.insert(EndOfParagraph(text), lines);
}

std::string TakeAgain(std::string* report) {
  const size_t before = report->find(std::string("\n") + kAgain);
  if (before >= EndOfParagraph(*report)) return "";
  const size_t end = EndOfParagraph(*report);
  const std::string lines = report->substr(before + 1, end - before - 1);
  report->erase(before + 1, lines.size());
  return lines;
}

std::string WithAgainMember(const std::string& json, const std::string& member) {
  std::string text = json;
  const size_t begin = text.find("{\n");
  if (begin == std::string::npos) return text;
  if (text.compare(begin + 2, sizeof kAgainMember - 1, kAgainMember) == 0)
    text.erase(begin + 2, EndOfLines(text, begin + 2, 1) - begin - 2);
  text.insert(begin + 2, member);
  return text;
}

}  // namespace pitot::session
