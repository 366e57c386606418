// SPDX-License-Identifier: Apache-2.0
#include "tables/tables.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "golden.h"
#include "pitot/wait.h"
#include "serialize/sample_trace.h"
#include "tables/nesting.h"

namespace {

using pitot::SiteKind;
using pitot::model::kNone;
using pitot::model::kOpen;
using pitot::model::Trace;
using pitot::test::TraceMaker;
using namespace pitot::tables;

std::string ValueText(const Column& column, uint64_t bits) {
  std::string room;
  double real;
  switch (column.type) {
    case Type::kText:
      return std::string(column.text(bits, &room));
    case Type::kReal:
      memcpy(&real, &bits, sizeof real);
      return std::to_string(real);
    default:
      return std::to_string(static_cast<int64_t>(bits));
  }
}

// The rows of a column as text; "-" is null.
std::vector<std::string> Texts(const Column& column, uint64_t rows) {
  Values values;
  column.fill(0, rows, &values);
  std::vector<std::string> texts;
  size_t next = 0;
  for (uint64_t row = 0; row < rows; ++row)
    texts.push_back(column.may_be_null && !values.is_there[row] ? "-" : ValueText(column, values.bits[next++]));
  return texts;
}

std::string RowsText(const Table& table) {
  const uint64_t rows = table.Rows();
  std::string text = "== " + table.name + "\n";
  std::vector<std::vector<std::string>> columns;
  for (const Column& column : table.columns) {
    columns.push_back(Texts(column, rows));
    text += (columns.size() == 1 ? "" : "\t") + column.name;
  }
  for (uint64_t row = 0; row < rows; ++row) {
    text += "\n";
    for (size_t i = 0; i < columns.size(); ++i) text += (i == 0 ? "" : "\t") + columns[i][row];
  }
  return text + "\n";
}

std::vector<std::string> ColumnOf(const Trace& trace, const std::string& table_name, const std::string& column_name) {
  for (const Table& table : TablesOf(trace)) {
    if (table.name != table_name) continue;
    for (const Column& column : table.columns) {
      if (column.name == column_name) return Texts(column, table.Rows());
    }
  }
  FAIL(table_name << "." << column_name << " is missing");
  return {};
}

TEST_CASE("the documented tables and columns are those of a trace", "[tables]") {
  CheckPart(PITOT_SOURCE_DIR "/docs/reference/formats/parquet.md", "<!-- The rest is written by tools/approve. -->", "",
            SchemaText(TablesOf(Trace())));
}

TEST_CASE("the tables of a trace with every kind of row", "[tables]") {
  const Trace trace = pitot::test::SampleTrace();
  std::string text;
  for (const Table& table : TablesOf(trace)) text += RowsText(table);
  CheckGolden("sample_tables.txt", text);
}

TEST_CASE("a row of another table is null or a row of it", "[tables]") {
  for (uint32_t seed = 1; seed <= 5; ++seed) {
    const Trace trace = pitot::test::RandomTrace(seed, 500);
    const std::vector<Table> tables = TablesOf(trace);
    std::map<std::string, uint64_t> rows;  // by the name of the id
    for (const Table& table : tables) {
      if (table.columns[0].type == Type::kInteger && table.columns[0].name.find("_id") != std::string::npos)
        rows.try_emplace(table.columns[0].name, table.Rows());
    }
    rows["event_id"] = trace.events.size();
    size_t checked = 0;
    for (const Table& table : tables) {
      for (const Column& column : table.columns) {
        const auto referred = std::find_if(rows.begin(), rows.end(), [&](const auto& entry) {
          const std::string& name = column.name;
          return name.size() >= entry.first.size() &&
                 name.compare(name.size() - entry.first.size(), std::string::npos, entry.first) == 0;
        });
        if (referred == rows.end()) continue;
        Values values;
        column.fill(0, table.Rows(), &values);
        INFO(table.name << "." << column.name);
        for (const uint64_t row : values.bits) REQUIRE(row < referred->second);
        ++checked;
      }
    }
    CHECK(checked > 50);
  }
}

TEST_CASE("self time leaves out inner scopes and what is outside of the window", "[tables]") {
  TraceMaker maker;
  maker.trace.window_begin_ns = 100;
  maker.trace.window_end_ns = 1000;
  const uint32_t thread = maker.Thread("worker"), scope = maker.Site(SiteKind::kScope, "scope"),
                 instant = maker.Site(SiteKind::kInstant, "instant");
  maker.trace.threads[thread].history_begin_ns = 100;
  maker.Event(thread, scope, 50, 450);     // 0: 100 to 500, but for what is inside
  maker.Event(thread, scope, 200, 100);    // 1
  maker.Event(thread, instant, 250, 0);    // 2
  maker.Event(thread, scope, 300, 100);    // 3: begins where 1 ends
  maker.Event(thread, scope, 900, kOpen);  // 4: until the window's end
  const Trace trace = maker.Finish();

  CHECK(ColumnOf(trace, "events", "self_ns") == std::vector<std::string>{"200", "100", "0", "100", "100"});
  CHECK(ColumnOf(trace, "events", "parent_event_id") == std::vector<std::string>{"-", "0", "1", "0", "-"});
  CHECK(ColumnOf(trace, "events", "duration_ns").back() == "-");
}

TEST_CASE("a wait names its resource and the row of its owner", "[tables]") {
  TraceMaker maker;
  maker.trace.window_end_ns = 1000;
  const uint32_t waiter = maker.Thread("waiter"), owner = maker.Thread("owner"), wait = maker.WaitSite();
  const uint32_t request = maker.Request(0x77, "/a", 10, 500);
  const uint64_t number = maker.trace.threads[owner].number;
  maker.Event(waiter, wait, 20, 30, {request},
              {static_cast<uint64_t>(pitot::WaitKind::kLock), maker.String("cache"), number, 0x77});
  maker.Event(waiter, wait, 60, 30, {}, {static_cast<uint64_t>(pitot::WaitKind::kIo), maker.String(""), 0, 0x78});
  const Trace trace = maker.Finish();

  CHECK(ColumnOf(trace, "waits", "kind") == std::vector<std::string>{"lock", "io"});
  CHECK(ColumnOf(trace, "waits", "resource") == std::vector<std::string>{"cache", "-"});
  CHECK(ColumnOf(trace, "waits", "owner_thread_id") == std::vector<std::string>{std::to_string(owner), "-"});
  CHECK(ColumnOf(trace, "waits", "owner_request_id") == std::vector<std::string>{std::to_string(request), "-"});
  CHECK(ColumnOf(trace, "events", "name") == std::vector<std::string>{"wait: cache", "wait"});
}

TEST_CASE("a trace without a date has no UTC", "[tables]") {
  TraceMaker maker;
  maker.trace.clock.monotonic_ns = 5'000'000;
  maker.Request(1, "/a", 1'000'000, 500);
  Trace trace = maker.Finish();

  CHECK(ColumnOf(trace, "requests", "begin_utc") == std::vector<std::string>{"-"});
  trace.clock.realtime_ns = 1'700'000'000'000'000'000;
  CHECK(ColumnOf(trace, "requests", "begin_utc") == std::vector<std::string>{"1699999999996000"});
  CHECK(ColumnOf(trace, "requests", "begin_ns") == std::vector<std::string>{"1000000"});
}

TEST_CASE("GPU time of requests and batches is null in a trace without GPU work", "[tables]") {
  TraceMaker maker;
  maker.trace.window_end_ns = 1000;
  maker.Request(1, "/a", 100, 500);
  maker.Batch(2, "model", maker.Thread("worker"), 100, 500);
  const Trace trace = maker.Finish();

  CHECK(ColumnOf(trace, "requests", "gpu_ns") == std::vector<std::string>{"-"});
  CHECK(ColumnOf(trace, "batches", "gpu_ns") == std::vector<std::string>{"-"});
  for (const std::string& ns : ColumnOf(pitot::test::SampleTrace(), "requests", "gpu_ns")) CHECK(ns != "-");
}

}  // namespace
