// SPDX-License-Identifier: Apache-2.0
#include "analyze/diff/diff_tables.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <tuple>

#include "analyze/facts/statistics.h"
#include "model/kernel_name.h"

namespace pitot::diff {
namespace {

using facts::Discoveries;
using facts::Inflation;
using facts::MannWhitney;

// The entries of one row.
struct Row {
  std::vector<const Ledger::Entry*> before, after;
};

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

// "12", "3f9a21bc", "0d1d2de": not a name that a person would give a kernel.
bool IsOfTheBuild(std::string_view part) {
  const bool is_hex =
      std::all_of(part.begin(), part.end(), [](char c) { return IsDigit(c) || (c >= 'a' && c <= 'f'); });
  const auto digits = static_cast<size_t>(std::count_if(part.begin(), part.end(), IsDigit));
  return !part.empty() && is_hex && digits * 3 >= part.size();
}

std::vector<Row> RowsOf(const Ledger& before, const Ledger& after, Align align) {
  std::map<std::string, Row> rows;
  for (const Ledger::Entry& entry : before.entries()) rows[entry.name].before.push_back(&entry);
  for (const Ledger::Entry& entry : after.entries()) rows[entry.name].after.push_back(&entry);
  std::map<std::string, Row> renamed, places;
  std::vector<Row> all;
  for (const auto& [name, row] : rows) {
    if (align == Align::kExactly || (!row.before.empty() && !row.after.empty())) {
      all.push_back(row);
      continue;
    }
    if (align == Align::kByNormalName) {
      Row& to = renamed[NormalName(name)];
      to.before.insert(to.before.end(), row.before.begin(), row.before.end());
      to.after.insert(to.after.end(), row.after.begin(), row.after.end());
    } else {
      for (const Ledger::Entry* entry : row.before) places[WithoutLine(name)].before.push_back(entry);
      for (const Ledger::Entry* entry : row.after) places[WithoutLine(name)].after.push_back(entry);
    }
  }
  for (auto& [name, row] : places) {
    const auto by_line = [](const Ledger::Entry* a, const Ledger::Entry* b) {
      return std::tuple(a->name.size(), a->name) < std::tuple(b->name.size(), b->name);
    };
    std::sort(row.before.begin(), row.before.end(), by_line);
    std::sort(row.after.begin(), row.after.end(), by_line);
    for (size_t i = 0; i < std::max(row.before.size(), row.after.size()); ++i) {
      Row& to = all.emplace_back();
      if (i < row.before.size()) to.before.push_back(row.before[i]);
      if (i < row.after.size()) to.after.push_back(row.after[i]);
    }
  }
  for (const auto& [name, row] : renamed) {
    if (!row.before.empty() && !row.after.empty()) {
      all.push_back(row);
      continue;
    }
    for (const Ledger::Entry* entry : row.before) all.push_back({{entry}, {}});
    for (const Ledger::Entry* entry : row.after) all.push_back({{}, {entry}});
  }
  return all;
}

// "12" of "folder/file.py(12): function"; "" for other names.
std::string_view LineOf(std::string_view scope) {
  const size_t end = scope.find("): ");
  const size_t bracket = end == std::string_view::npos ? end : scope.rfind('(', end);
  if (bracket == std::string_view::npos) return {};
  const std::string_view line = scope.substr(bracket + 1, end - bracket - 1);
  return std::all_of(line.begin(), line.end(), IsDigit) ? line : std::string_view();
}

Amount SumOf(const std::vector<const Ledger::Entry*>& entries) {
  Amount sum;
  for (const Ledger::Entry* entry : entries) {
    sum.total_ns += entry->amount.total_ns;
    sum.count_millionths += entry->amount.count_millionths;
  }
  return sum;
}

std::vector<double> ValuesOf(const std::vector<const Ledger::Entry*>& entries, const Ledger& ledger) {
  std::vector<double> values(ledger.units().samples().size());
  for (const Ledger::Entry* entry : entries) {
    for (size_t i = 0; i < entry->values.size(); ++i) values[i] += entry->values[i];
  }
  return values;
}

std::string NameOf(const std::vector<const Ledger::Entry*>& entries) {
  if (entries.empty()) return "";
  const std::string more = entries.size() > 1 ? " and " + std::to_string(entries.size() - 1) + " more" : "";
  return entries[0]->name + more;
}

std::string WasName(const std::string& before, const std::string& after) {
  return WithoutLine(before) == WithoutLine(after) ? "line " + std::string(LineOf(before)) : before;
}

}  // namespace

std::string WithoutLine(std::string_view scope) {
  const std::string_view line = LineOf(scope);
  if (line.empty()) return std::string(scope);
  const auto begin = static_cast<size_t>(line.data() - scope.data());
  return std::string(scope.substr(0, begin - 1)) + std::string(scope.substr(begin + line.size() + 1));
}

std::string NormalName(std::string_view kernel) {
  std::string name = model::BriefName(kernel);
  for (size_t at = name.rfind('_'); at != std::string::npos && at != 0; at = name.rfind('_')) {
    if (!IsOfTheBuild(std::string_view(name).substr(at + 1))) break;
    name.resize(at);
  }
  return name;
}

DiffTable MakeTable(const char* name, const Ledger& before, const Ledger& after, uint64_t requests_before,
                    uint64_t requests_after, const DiffOptions& options, Align align, JudgedPart judge) {
  DiffTable table;
  table.name = name;
  table.is_judged = judge == JudgedPart::kRows;
  if (requests_before == 0 || requests_after == 0) return table;
  const std::vector<Row> rows = RowsOf(before, after, align);
  std::vector<AmountPair> amounts;
  std::vector<double> ps;
  for (const Row& row : rows) {
    amounts.push_back({SumOf(row.before), SumOf(row.after)});
    if (judge == JudgedPart::kNothing) continue;
    const std::vector<double> a = ValuesOf(row.before, before), b = ValuesOf(row.after, after);
    ps.push_back(MannWhitney(a, b, std::max(Inflation(a), Inflation(b))));
  }
  const std::vector<bool> found = Discoveries(ps, options.q);
  const std::vector<Change> changes = SplitChanges(amounts, requests_before, requests_after);
  for (size_t i = 0; i < rows.size(); ++i) {
    DiffRow row;
    row.name = NameOf(rows[i].after.empty() ? rows[i].before : rows[i].after);
    if (!rows[i].before.empty() && NameOf(rows[i].before) != row.name)
      row.was = WasName(NameOf(rows[i].before), row.name);
    row.before_count =
        1e-6 * static_cast<double>(amounts[i].before.count_millionths) / static_cast<double>(requests_before);
    row.after_count =
        1e-6 * static_cast<double>(amounts[i].after.count_millionths) / static_cast<double>(requests_after);
    row.before_ns = changes[i].before_ns;
    row.after_ns = changes[i].after_ns;
    row.count_effect_ns = changes[i].count_effect_ns;
    row.duration_effect_ns = changes[i].duration_effect_ns;
    if (judge == JudgedPart::kRows) {
      const auto share_ns = static_cast<int64_t>(options.least_share * static_cast<double>(row.before_ns));
      const int64_t least_ns = std::max(options.least_ns, share_ns);
      row.p = ps[i];
      row.is_count = found[i] && std::llabs(row.count_effect_ns) >= least_ns;
      row.is_duration = found[i] && std::llabs(row.duration_effect_ns) >= least_ns;
      row.is_significant = row.is_count || row.is_duration;
    }
    table.before_ns += row.before_ns;
    table.after_ns += row.after_ns;
    table.rows.push_back(std::move(row));
  }
  std::sort(table.rows.begin(), table.rows.end(), [](const DiffRow& a, const DiffRow& b) {
    const auto key = [](const DiffRow& row) { return -std::llabs(row.after_ns - row.before_ns); };
    return std::tuple(key(a), -a.after_ns, a.name) < std::tuple(key(b), -b.after_ns, b.name);
  });
  return table;
}

}  // namespace pitot::diff
