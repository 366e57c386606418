// SPDX-License-Identifier: Apache-2.0
#include "session/retention.h"

#include <time.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <utility>

namespace pitot::session {
namespace {

// What an incident is worth: the least is removed first.
enum class Worth { kRepeat, kNewest, kWorst, kFirst, kFirstOfCause };

bool IsBefore(const StoredIncident& a, const StoredIncident& b) {
  return std::pair(a.at_s, a.name) < std::pair(b.at_s, b.name);
}

// In `all`, which is in order of time.
Worth WorthOf(const std::vector<StoredIncident>& all, const StoredIncident& it) {
  const auto is_like = [&](const StoredIncident& other) {
    return &other != &it && other.cause == it.cause && other.signature == it.signature;
  };
  const auto is_of_cause = [&](const StoredIncident& other) { return other.cause == it.cause; };
  if (std::none_of(all.data(), &it, is_of_cause)) return Worth::kFirstOfCause;
  if (std::none_of(all.data(), &it, is_like)) return Worth::kFirst;
  if (it.signature.empty()) return Worth::kRepeat;
  const auto is_as_bad = [&](const StoredIncident& other) { return is_like(other) && other.excess_ns >= it.excess_ns; };
  if (std::none_of(all.begin(), all.end(), is_as_bad)) return Worth::kWorst;
  return std::none_of(&it + 1, all.data() + all.size(), is_like) ? Worth::kNewest : Worth::kRepeat;
}

// The gap that it would leave among those of its cause, as a share of its age at the time of the newest.
double GapOf(const std::vector<StoredIncident>& all, size_t i) {
  const auto is_of_cause = [&](const StoredIncident& other) { return other.cause == all[i].cause; };
  const auto at = all.begin() + static_cast<ptrdiff_t>(i);
  const auto after = std::find_if(at + 1, all.end(), is_of_cause);
  const auto before = std::find_if(std::make_reverse_iterator(at), all.rend(), is_of_cause);
  const int64_t end_s = after != all.end() ? after->at_s : all.back().at_s;
  const int64_t begin_s = before != all.rend() ? before->at_s : all[i].at_s;
  return static_cast<double>(end_s - begin_s) / static_cast<double>(all.back().at_s - all[i].at_s + 1);
}

// The cause that has most, by `size`; of several, the one whose last incident is oldest.
template <class Size>
std::string Largest(const std::vector<StoredIncident>& all, const std::string& kept, const Size& size) {
  struct OfCause {
    uint64_t size = 0;
    int64_t last_s = 0;
  };
  std::map<std::string, OfCause> causes;
  for (const StoredIncident& it : all) {
    if (it.name == kept) continue;
    OfCause* const of = &causes[it.cause];
    of->size += size(it), of->last_s = it.at_s;
  }
  const auto is_less = [](const auto& a, const auto& b) {
    return std::pair(a.second.size, -a.second.last_s) < std::pair(b.second.size, -b.second.last_s);
  };
  return std::max_element(causes.begin(), causes.end(), is_less)->first;
}

uint64_t One(const StoredIncident&) { return 1; }
uint64_t Bytes(const StoredIncident& it) { return it.bytes; }

}  // namespace

bool ParseIncidentName(const std::string& name, StoredIncident* incident) {
  static constexpr char kShape[] = "ddddddddTddddddZ-dddd";
  for (size_t i = 0; kShape[i] != '\0'; ++i) {
    const bool is_digit = name[i] >= '0' && name[i] <= '9';
    if (kShape[i] == 'd' ? !is_digit : name[i] != kShape[i]) return false;
  }
  tm utc{};
  const auto number = [&](size_t at, size_t digits) { return std::atoi(name.substr(at, digits).c_str()); };
  utc.tm_year = number(0, 4) - 1900, utc.tm_mon = number(4, 2) - 1, utc.tm_mday = number(6, 2);
  utc.tm_hour = number(9, 2), utc.tm_min = number(11, 2), utc.tm_sec = number(13, 2);
  const size_t dash = name.find('-', sizeof "ddddddddTddddddZ-" - 1);
  incident->name = name;
  incident->cause = dash == std::string::npos ? "" : name.substr(dash + 1);
  incident->at_s = timegm(&utc);
  return true;
}

std::vector<std::string> Retain(uint64_t most, uint64_t most_bytes, const std::string& newest,
                                std::vector<StoredIncident>* stored) {
  std::vector<StoredIncident>& all = *stored;
  std::sort(all.begin(), all.end(), IsBefore);
  uint64_t bytes = 0;
  for (const StoredIncident& it : all) bytes += it.bytes;
  std::vector<std::string> removed;
  const std::string kept = newest.empty() && !all.empty() ? all.back().name : newest;
  while (all.size() > 1 && (all.size() > most || bytes > most_bytes)) {
    const std::string cause = Largest(all, kept, all.size() > most ? One : Bytes);
    size_t least = all.size();
    std::pair<Worth, double> least_worth{};
    for (size_t i = 0; i < all.size(); ++i) {
      if (all[i].cause != cause || all[i].name == kept) continue;
      const std::pair worth(WorthOf(all, all[i]), GapOf(all, i));
      if (least == all.size() || worth < least_worth) least = i, least_worth = worth;
    }
    bytes -= all[least].bytes;
    removed.push_back(all[least].name);
    all.erase(all.begin() + static_cast<ptrdiff_t>(least));
  }
  return removed;
}

}  // namespace pitot::session
