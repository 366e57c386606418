// SPDX-License-Identifier: Apache-2.0
#include "session/retention.h"

#include <time.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <utility>

namespace pitot::session {
namespace {

constexpr size_t kMostAtOnce = 64;

// The worth of an incident: the least is removed first.
enum class Worth { kRepeat, kUnjudged, kNewest, kWorst, kFirst, kFirstOfCause };

bool IsBefore(const StoredIncident& a, const StoredIncident& b) {
  return std::pair(a.at_s, a.name) < std::pair(b.at_s, b.name);
}

// The worth of the incidents in these rows, which are all of a cause, in order of time.
std::vector<Worth> WorthOf(const std::vector<StoredIncident>& all, const std::vector<size_t>& rows) {
  struct Signature {
    size_t worst, newest;
  };
  std::map<std::string, Signature> signatures;
  std::vector<Worth> worth(rows.size(), Worth::kRepeat);
  for (size_t k = 0; k < rows.size(); ++k) {
    const std::string& signature = all[rows[k]].signature;
    if (signature.empty()) {
      worth[k] = k == 0 ? Worth::kFirstOfCause : Worth::kUnjudged;
      continue;
    }
    const auto [at, is_first] = signatures.try_emplace(signature, Signature{k, k});
    if (is_first) worth[k] = k == 0 ? Worth::kFirstOfCause : Worth::kFirst;
    at->second.newest = k;
    if (all[rows[k]].excess_ns > all[rows[at->second.worst]].excess_ns) at->second.worst = k;
  }
  for (const auto& [signature, of] : signatures) {
    worth[of.newest] = std::max(worth[of.newest], Worth::kNewest);
    worth[of.worst] = std::max(worth[of.worst], Worth::kWorst);
  }
  return worth;
}

// The row of that cause's incident that is worth least, apart from `kept`.
size_t LeastOf(const std::string& cause, const std::vector<StoredIncident>& all, const std::string& kept) {
  std::vector<size_t> rows;
  for (size_t i = 0; i < all.size(); ++i) {
    if (all[i].cause == cause) rows.push_back(i);
  }
  const std::vector<Worth> worths = WorthOf(all, rows);
  size_t least = all.size();
  std::pair<Worth, double> least_worth{};
  for (size_t k = 0; k < rows.size(); ++k) {
    const StoredIncident& it = all[rows[k]];
    if (it.name == kept) continue;
    const StoredIncident& before = all[rows[k == 0 ? k : k - 1]];
    const StoredIncident& after = k + 1 < rows.size() ? all[rows[k + 1]] : all.back();
    const double gap =
        static_cast<double>(after.at_s - before.at_s) / static_cast<double>(all.back().at_s - it.at_s + 1);
    if (least == all.size() || std::pair(worths[k], gap) < least_worth) least = rows[k], least_worth = {worths[k], gap};
  }
  return least;
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
  const size_t dot = std::min(name.find('.'), name.size());
  incident->name = name;
  incident->cause = dash < dot ? name.substr(dash + 1, dot - dash - 1) : "";
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
  while (all.size() > 1 && (all.size() > most || bytes > most_bytes) && removed.size() < kMostAtOnce) {
    const std::string cause = Largest(all, kept, all.size() > most ? One : Bytes);
    const size_t least = LeastOf(cause, all, kept);
    bytes -= all[least].bytes;
    removed.push_back(all[least].name);
    all.erase(all.begin() + static_cast<ptrdiff_t>(least));
  }
  return removed;
}

}  // namespace pitot::session
