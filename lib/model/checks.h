// SPDX-License-Identifier: Apache-2.0
//
// The checks of one row of a table, for FindInconsistency and for the reader of dumps, which drops the rows that fail.
// Most follow from the encodings of the columns.
#ifndef PITOT_LIB_MODEL_CHECKS_H_
#define PITOT_LIB_MODEL_CHECKS_H_

#include <stddef.h>
#include <stdint.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "model/schema.h"
#include "pitot/model/trace.h"

namespace pitot::schema {

inline bool IsTime(int64_t ns) { return ns >= 0 && ns <= kMaxTimeNs; }
// The difference of two times does not overflow.
inline bool IsSpan(int64_t begin_ns, int64_t duration_ns) {
  return IsTime(begin_ns) && duration_ns >= 0 && duration_ns <= kMaxTimeNs - begin_ns;
}

// The first thing that is wrong, if any.
struct Problem {
  const char* what = nullptr;  // null: nothing is wrong
  size_t row = 0;
  const char* column = "";
  const char* list = nullptr;  // the list of the row that has the column, if it is one of a list
  const char* table = "";      // ends the text
  explicit operator bool() const { return what != nullptr; }
};

// Whether a row, which is not the first, is in order with the one before.
template <const auto& kTable> bool IsInOrder(const Trace& trace, size_t row) {
  if constexpr (kTable.type == ChunkType::kEvents) {
    const EventColumns& events = trace.events;
    if (events.thread[row - 1] == events.thread[row])
      return InOrder(events.begin_ns[row - 1], events.duration_ns[row - 1], events.begin_ns[row],
                     events.duration_ns[row]);
  }
  const auto& rows = trace.*kTable.member;
  int order = 0;
  ForEachColumn<OfTable<kTable>>([&](auto at) {
    if constexpr (at.kColumn.is_key) {
      const auto before = Get(rows, at.kColumn.member, row - 1), value = Get(rows, at.kColumn.member, row);
      if (order == 0) order = before < value ? -1 : before > value ? 1 : 0;
    }
  });
  return order <= 0;
}

// What is wrong with a value, or null. Times first.
template <class At, class Rows> const char* WhatIsWrongInTime(const Trace& trace, const Rows& rows, size_t row) {
  constexpr const auto& kColumn = At::kColumn;
  const int64_t ns = Get(rows, kColumn.member, row);
  if constexpr (At::kEncoding == kEnd || At::kEncoding == kUntil) {
    if (ns < Get(rows, kColumn.begin, row)) return "is before the begin";
  }
  if constexpr (At::kEncoding == kDuration || At::kEncoding == kLength) {
    const int64_t begin_ns = Get(rows, kColumn.begin, row);
    if (At::kEncoding == kLength && ns == kOpen) return begin_ns > trace.window_end_ns ? "is open too late" : nullptr;
    return IsSpan(begin_ns, ns) ? nullptr : "is out of range";
  }
  return IsTime(ns) ? nullptr : "is out of range";
}
template <class At, class Rows> const char* WhatIsWrong(const Trace& trace, const Rows& rows, size_t row) {
  constexpr const auto& kColumn = At::kColumn;
  if constexpr (At::kEncoding == kString) {
    if (Get(rows, kColumn.member, row) >= trace.strings.size()) return "is not a string";
  } else if constexpr (kRefers<At>) {
    const uint32_t value = Get(rows, kColumn.member, row);
    constexpr bool kMayBeNone = At::kEncoding == kRowOrNone || At::kEncoding == kNearRow;
    if (value >= RowsOf<kColumn.table>(trace) && !(kMayBeNone && value == kNone)) return "is not a row of ";
  } else if constexpr (At::kEncoding == kEnum) {
    const auto value = static_cast<uint8_t>(Get(rows, kColumn.member, row));
    if (value < kColumn.first || value > kColumn.last) return "is unknown";
  } else if constexpr (At::kEncoding == kFinite) {
    if (!std::isfinite(Get(rows, kColumn.member, row))) return "is not finite";
  } else if constexpr (kIsTime<At>) {
    return WhatIsWrongInTime<At>(trace, rows, row);
  }
  return nullptr;
}

// Rules of tables that do not follow from one column; null if they are kept.
inline const char* BrokenRuleOf(const SiteRow& site) {
  const bool has_name = !site.arg_types.empty() && IsText(site.arg_types[0]);
  return site.name_is_first_arg && !has_name ? "the first argument is not a name" : nullptr;
}
inline const char* BrokenRuleOf(const RequestRow& request) {
  for (size_t i = 1; i < request.stages.size(); ++i) {
    const Stage& before = request.stages[i - 1];
    if (before.duration_ns == kOpen || before.begin_ns + before.duration_ns > request.stages[i].begin_ns)
      return "stages overlap";
  }
  return nullptr;
}
inline const char* BrokenRuleOfArgs(const Trace& trace, size_t event) {
  const uint32_t first = trace.events.args[event];
  if (first == kNone) return nullptr;
  const std::vector<ArgType>& types = trace.sites[trace.events.site[event]].arg_types;
  if (first + types.size() > trace.arg_values.size()) return "arguments are beyond their table";
  for (size_t i = 0; i < types.size(); ++i) {
    if (IsText(types[i]) && trace.arg_values[first + i] >= trace.strings.size()) return "an argument is not a string";
  }
  return nullptr;
}
template <const auto& kTable> const char* BrokenRule(const Trace& trace, size_t row) {
  if constexpr (kTable.type == ChunkType::kSites || kTable.type == ChunkType::kRequests) {
    return BrokenRuleOf((trace.*kTable.member)[row]);
  } else if constexpr (kTable.type == ChunkType::kEvents) {
    return BrokenRuleOfArgs(trace, row);
  } else {
    return nullptr;
  }
}

// The first problem of the values of rows `first` to `last - 1` of a table or list, column by column.
template <class Owner, class Rows>
Problem FindWrongValue(const Trace& trace, const Rows& rows, size_t first, size_t last);

template <class At, class Rows> Problem FindWrongList(const Trace& trace, const Rows& rows, size_t row) {
  using Owner = OfList<At>;
  const auto& elements = Elements(rows[row], At::kColumn);
  Problem problem = HasEqualColumns<Owner>(elements)
                        ? FindWrongValue<Owner>(trace, elements, 0, SizeOf<Owner>(elements))
                        : Problem{"columns are not of the same length"};
  problem.row = row;
  problem.list = At::kColumn.name;
  return problem;
}
template <class Owner, class Rows>
Problem FindWrongValue(const Trace& trace, const Rows& rows, size_t first, size_t last) {
  Problem problem;
  ForEachColumn<Owner>([&](auto at) {
    using At = decltype(at);
    if (problem) return;
    for (size_t row = first; row < last; ++row) {
      if constexpr (At::kEncoding == kList) {
        problem = FindWrongList<At>(trace, rows, row);
        if (problem) return;
      } else if (const char* const what = WhatIsWrong<At>(trace, rows, row); what != nullptr) {
        problem = {what, row, at.kColumn.name};
        if constexpr (kRefers<At>) problem.table = kTableOf<at.kColumn.table>.name;
        return;
      }
    }
  });
  return problem;
}

// The first problem of rows `first` to `last - 1` of a table. The rows before them must have none, and its columns must
// be of the same length.
template <const auto& kTable> Problem FindProblem(const Trace& trace, size_t first, size_t last) {
  if (const Problem problem = FindWrongValue<OfTable<kTable>>(trace, trace.*kTable.member, first, last)) return problem;
  for (size_t row = std::max<size_t>(first, 1); row < last; ++row) {
    if (!IsInOrder<kTable>(trace, row)) return {"out of order", row};
  }
  for (size_t row = first; row < last; ++row) {
    if (const char* const rule = BrokenRule<kTable>(trace, row); rule != nullptr) return {rule, row};
  }
  return {};
}

}  // namespace pitot::schema

#endif  // PITOT_LIB_MODEL_CHECKS_H_
