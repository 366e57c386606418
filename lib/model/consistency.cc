// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <string>
#include <utility>

#include "model/checks.h"
#include "model/schema.h"
#include "pitot/model/trace.h"

PITOT_NAMESPACE_BEGIN
namespace model {
namespace {

// Walks every table and keeps the first problem.
class Checker {
 public:
  explicit Checker(const Trace& trace) : trace_(trace) {}

  std::string Run() {
    Header();
    schema::ForEachTable([this]<const auto & kTable>() { CheckSize<kTable>(); });
    if (trace_.arg_values.size() >= kNone) Fail("arguments", trace_.arg_values.size(), "too many");
    if (!wrong_.empty()) return std::move(wrong_);
    schema::ForEachTable([this]<const auto & kTable>() { CheckRows<kTable>(); });
    return std::move(wrong_);
  }

 private:
  void Fail(const char* table, size_t row, const std::string& what) {
    if (wrong_.empty()) wrong_ = std::string(table) + ": row " + std::to_string(row) + ": " + what;
  }
  void Fail(const char* table, const schema::Problem& problem) {
    std::string what = problem.column;
    if (problem.list != nullptr) what = std::string(problem.list) + (what.empty() ? "" : "_") + what;
    if (!what.empty()) what += ' ';
    Fail(table, problem.row, what + problem.what + problem.table);
  }

  void Header() {
    const ClockInfo& clock = trace_.clock;
    if (trace_.process_name >= trace_.strings.size()) Fail("header", 0, "process_name is not a string");
    for (const int64_t ns : {clock.monotonic_ns, clock.realtime_ns, clock.boottime_ns}) {
      if (!schema::IsTime(ns)) Fail("header", 0, "a clock is out of range");
    }
    for (const int64_t ns : {trace_.window_begin_ns, trace_.window_end_ns}) {
      if (!schema::IsTime(ns)) Fail("header", 0, "the window is out of range");
    }
    if (trace_.window_begin_ns > trace_.window_end_ns) Fail("header", 0, "the window ends before it begins");
  }

  template <const auto& kTable> void CheckSize() {
    const auto& rows = trace_.*kTable.member;
    const size_t size = schema::SizeOf<schema::OfTable<kTable>>(rows);
    if (!schema::HasEqualColumns<schema::OfTable<kTable>>(rows)) Fail(kTable.name, size, "columns of unequal length");
    if (size >= kNone) Fail(kTable.name, size, "too many");
  }

  template <const auto& kTable> void CheckRows() {
    if (!wrong_.empty()) return;
    const size_t size = schema::SizeOf<schema::OfTable<kTable>>(trace_.*kTable.member);
    for (size_t row = 0; row < size; row += kRowsAtOnce) {
      const schema::Problem problem = schema::FindProblem<kTable>(trace_, row, std::min(row + kRowsAtOnce, size));
      if (problem) return Fail(kTable.name, problem);
    }
    schema::ForEachColumn<schema::OfTable<kTable>>([&](auto at) {
      if constexpr (at.kEncoding == schema::kLength || at.kEncoding == schema::kDuration) {
        CheckSum<kTable, decltype(at)>(size);
      } else if constexpr (at.kEncoding == schema::kRange) {
        CheckRanges<kTable, decltype(at)>(size);
      }
    });
  }
  // Durations of a table must add up within 64 bits.
  template <const auto& kTable, class At> void CheckSum(size_t size) {
    const auto& rows = trace_.*kTable.member;
    uint64_t total_ns = 0;
    for (size_t row = 0; row < size; ++row) {
      int64_t duration_ns = schema::Get(rows, At::kColumn.member, row);
      if (duration_ns == kOpen) duration_ns = trace_.window_end_ns - schema::Get(rows, At::kColumn.begin, row);
      total_ns += static_cast<uint64_t>(duration_ns);
      if (total_ns > static_cast<uint64_t>(kMaxTimeNs))
        return Fail(kTable.name, row, "durations add up to more than 146 years");
    }
  }
  // The ranges of all rows must tile the table whose rows they are.
  template <const auto& kTable, class At> void CheckRanges(size_t size) {
    constexpr const auto& kColumn = At::kColumn;
    constexpr const auto& kOwned = schema::kTableOf<kColumn.table>;
    const auto& owners = trace_.*kTable.member;
    const auto& owned = trace_.*kOwned.member;
    const size_t owned_size = schema::RowsOf<kColumn.table>(trace_);
    uint64_t covered = 0;
    for (size_t row = 0; row < size && wrong_.empty(); ++row) {
      const uint32_t first = schema::Get(owners, kColumn.first, row), count = schema::Get(owners, kColumn.count, row);
      if (uint64_t{first} + count > owned_size) return Fail(kTable.name, row, "its range is beyond the table");
      if (count != 0 && first != covered) return Fail(kTable.name, row, "its range does not follow the one before");
      covered += count;
      for (uint32_t i = first; i < first + count; ++i) {
        if (schema::Get(owned, kColumn.owner, i) != row) Fail(kOwned.name, i, "is in the range of another row");
      }
    }
    if (covered != owned_size) Fail(kOwned.name, covered, "is in the range of no row");
  }

  static constexpr size_t kRowsAtOnce = 64;  // their columns fit into a cache

  const Trace& trace_;
  std::string wrong_;
};

}  // namespace

std::string FindInconsistency(const Trace& trace) { return Checker(trace).Run(); }

}  // namespace model
PITOT_NAMESPACE_END
