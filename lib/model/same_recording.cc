// SPDX-License-Identifier: Apache-2.0
#include "model/same_recording.h"

#include <algorithm>
#include <compare>
#include <cstdint>
#include <iterator>
#include <set>
#include <string_view>
#include <vector>

namespace pitot::model {
namespace {

enum class Table { kRequests, kEvents, kCalls, kGpu };
constexpr Table kTables[] = {Table::kRequests, Table::kEvents, Table::kCalls, Table::kGpu};

uint32_t RowsOf(const Trace& trace, Table of) {
  return of == Table::kRequests ? static_cast<uint32_t>(trace.requests.size())
         : of == Table::kEvents ? trace.events.size()
         : of == Table::kCalls  ? trace.calls.size()
                                : trace.gpu.size();
}

struct Time {
  int64_t begin_ns, duration_ns;
  auto operator<=>(const Time&) const = default;
};

// What is open lasts until the window's end, as conversions have it.
Time TimeOf(const Trace& trace, Table of, uint32_t row) {
  if (of == Table::kRequests) {
    const RequestRow& request = trace.requests[row];
    return {request.begin_ns, trace.RequestEnd(request) - request.begin_ns};
  }
  if (of == Table::kEvents) return {trace.events.begin_ns[row], trace.EventEnd(row) - trace.events.begin_ns[row]};
  if (of == Table::kCalls) return {trace.calls.begin_ns[row], trace.calls.duration_ns[row]};
  return {trace.gpu.begin_ns[row], trace.gpu.duration_ns[row]};
}

int64_t FirstMoment(const Trace& trace) {
  int64_t first_ns = INT64_MAX;
  for (const Table of : kTables) {
    for (uint32_t row = 0; row < RowsOf(trace, of); ++row)
      first_ns = std::min(first_ns, TimeOf(trace, of, row).begin_ns);
  }
  return first_ns;
}

bool AreOfOneProcess(const Trace& a, const Trace& b) {
  const auto agree = [](const auto& x, const auto& y, const auto& unknown) {
    return x == unknown || y == unknown || x == y;
  };
  return agree(a.pid, b.pid, 0) && agree(a.AttributeOf("host"), b.AttributeOf("host"), std::string_view());
}

// Adding it to a time of `b` gives a time of `a`.
int64_t ShiftOf(const Trace& a, const Trace& b) {
  if (a.clock.realtime_ns == 0 || b.clock.realtime_ns == 0) return FirstMoment(a) - FirstMoment(b);
  return (b.clock.realtime_ns - b.clock.monotonic_ns) - (a.clock.realtime_ns - a.clock.monotonic_ns);
}
int64_t Moved(int64_t ns, int64_t by_ns) {  // a hostile one may wrap
  return static_cast<int64_t>(static_cast<uint64_t>(ns) + static_cast<uint64_t>(by_ns));
}

// Whether each row of `part` is in `whole`, whose times are `shift_ns` less.
bool AreRowsIn(const Trace& part, const Trace& whole, Table of, int64_t shift_ns) {
  const uint32_t rows = RowsOf(part, of), all = RowsOf(whole, of);
  if (rows > all) return false;
  const auto moved = [&](uint32_t row) {
    const Time time = TimeOf(whole, of, row);
    return Time{Moved(time.begin_ns, shift_ns), time.duration_ns};
  };
  bool has_first = false;  // without a sort
  for (uint32_t row = 0; row < all && !has_first; ++row) has_first = moved(row) == TimeOf(part, of, 0);
  if (!has_first) return false;
  std::vector<Time> some, those;
  for (uint32_t row = 0; row < rows; ++row) some.push_back(TimeOf(part, of, row));
  for (uint32_t row = 0; row < all; ++row) those.push_back(moved(row));
  std::sort(some.begin(), some.end());
  std::sort(those.begin(), those.end());
  return std::includes(those.begin(), those.end(), some.begin(), some.end());
}

std::string_view NameOf(const Trace& trace, Table of, uint32_t row) {
  if (of == Table::kEvents) return trace.EventName(row);
  return trace.strings[of == Table::kRequests ? trace.requests[row].route
                       : of == Table::kCalls  ? trace.calls.name[row]
                                              : trace.gpu.name[row]];
}

// A conversion may write some names otherwise, but not all.
bool ShareAName(const Trace& a, const Trace& b, Table of) {
  std::set<std::string_view> names;
  for (uint32_t row = 0; row < RowsOf(a, of); ++row) names.insert(NameOf(a, of, row));
  for (uint32_t row = 0; row < RowsOf(b, of); ++row) {
    if (names.count(NameOf(b, of, row)) != 0) return true;
  }
  return false;
}

bool HaveSameNames(const Trace& a, const Trace& b, Table of) {
  if (RowsOf(a, of) != RowsOf(b, of)) return false;
  for (uint32_t row = 0; row < RowsOf(a, of); ++row) {
    if (NameOf(a, of, row) != NameOf(b, of, row)) return false;
  }
  return true;
}

}  // namespace

bool Repeats(const Trace& part, const Trace& whole) {
  if (!AreOfOneProcess(part, whole)) return false;
  const int64_t shift_ns = ShiftOf(part, whole);
  bool share_name = false;
  for (const Table of : kTables) {
    if (RowsOf(part, of) == 0) continue;
    if (!AreRowsIn(part, whole, of, shift_ns)) return false;
    share_name = share_name || ShareAName(part, whole, of);
  }
  return share_name;
}

bool IsSameRecording(const Trace& a, const Trace& b) {
  if (!Repeats(a, b) || !Repeats(b, a)) return false;
  const int64_t shift_ns = ShiftOf(a, b);
  if (a.window_begin_ns != Moved(b.window_begin_ns, shift_ns) || a.window_end_ns != Moved(b.window_end_ns, shift_ns))
    return false;
  const auto is_same_id = [](const RequestRow& x, const RequestRow& y) { return x.id == y.id; };
  return std::equal(a.requests.begin(), a.requests.end(), b.requests.begin(), b.requests.end(), is_same_id) &&
         a.gpu.bytes == b.gpu.bytes &&
         std::all_of(std::begin(kTables), std::end(kTables), [&](Table of) { return HaveSameNames(a, b, of); });
}

}  // namespace pitot::model
