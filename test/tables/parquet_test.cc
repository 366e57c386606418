// SPDX-License-Identifier: Apache-2.0
#include "tables/parquet.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "fakes/string_sink.h"
#include "serialize/sample_trace.h"
#include "tables/parquet_file.h"
#include "tables/tables.h"

namespace {

using parquet_file::File;
using parquet_file::kNull;
using namespace pitot::tables;

std::string Written(const Table& table, uint64_t group_rows = kGroupRows, bool is_compressed = false) {
  fakes::StringSink sink;
  REQUIRE(MakeParquet(table, {is_compressed, group_rows})->Serialize({}, sink).ok());
  return sink.bytes;
}

// What the file must have: texts, or numbers as their bits.
std::vector<std::string> Expected(const Column& column, uint64_t rows) {
  Values values;
  column.fill(0, rows, &values);
  std::vector<std::string> texts;
  size_t next = 0;
  for (uint64_t row = 0; row < rows; ++row) {
    if (column.may_be_null && !values.is_there.at(row)) {
      texts.push_back(kNull);
      continue;
    }
    const uint64_t bits = values.bits.at(next++);
    std::string room;
    texts.push_back(column.type == Type::kText ? std::string(column.text(bits, &room)) : std::to_string(bits));
  }
  return texts;
}

void CheckEqual(const Table& table, const std::string& bytes) {
  const File file(bytes);
  const uint64_t rows = table.Rows();
  CHECK(file.head()[3].number == static_cast<int64_t>(rows));
  REQUIRE(file.Names().size() == table.columns.size());
  for (size_t i = 0; i < table.columns.size(); ++i) {
    INFO(table.name << "." << table.columns[i].name);
    CHECK(file.Names()[i] == table.columns[i].name);
    CHECK(file.Column(i) == Expected(table.columns[i], rows));
  }
}

// Columns of random values in runs, of which some rows have none.
Table RandomTable(uint32_t seed, uint32_t rows, uint32_t distinct) {
  std::mt19937 random(seed);
  const auto values = std::make_shared<std::vector<std::optional<uint32_t>>>();
  while (values->size() < rows) {
    const std::optional<uint32_t> value =
        random() % 4 == 0 ? std::nullopt : std::optional(static_cast<uint32_t>(random() % distinct));
    values->insert(values->end(), std::min<size_t>(rows - values->size(), random() % 3 == 0 ? random() % 50 : 1),
                   value);
  }
  const auto value_or_null = [values](uint64_t row) { return (*values)[row]; };
  const auto value = [values](uint64_t row) { return (*values)[row].value_or(7); };
  const auto text = [](uint64_t key, std::string* room) { return std::string_view(*room = std::string(key % 9, 'a')); };
  Table table{"random", "", rows, {}};
  Add(&table, Integer("integer", value), Make(Type::kRow, "row", value), Make(Type::kUtc, "utc", value_or_null),
      Integer("integer_or_null", value_or_null), Make(Type::kRow, "row_or_null", value_or_null),
      TextOf("text", value, text), TextOf("text_or_null", value_or_null, text),
      Bool("bool", [values](uint64_t row) { return (*values)[row].value_or(0) % 2 == 1; }),
      Real("real", [values](uint64_t row) { return (*values)[row].value_or(0) / 3.0; }),
      Integer("never", [](uint64_t) { return std::optional<int64_t>(); }),
      TextOf(
          "no_text", [](uint64_t) { return std::optional<uint32_t>(); }, text));
  return table;
}

TEST_CASE("values come back from a Parquet file, with and without nulls, runs and row groups", "[tables]") {
  for (uint32_t seed = 0; seed < 60; ++seed) {
    const uint32_t rows = seed < 20 ? seed : seed * 37, distinct = seed % 2 == 0 ? 1 + seed : 100'000;
    const Table table = RandomTable(seed, rows, distinct);
    INFO("seed " << seed);
    CheckEqual(table, Written(table, 1 + seed * 7 % 500, seed % 3 == 0));
    CheckEqual(table, Written(table));
  }
}

TEST_CASE("each table of a trace comes back from its Parquet file", "[tables]") {
  for (uint32_t seed = 0; seed < 3; ++seed) {
    const pitot::model::Trace trace = seed == 0 ? pitot::test::SampleTrace() : pitot::test::RandomTrace(seed, 300);
    for (const Table& table : TablesOf(trace)) CheckEqual(table, Written(table, 100, true));
  }
}

TEST_CASE("the limits of integers in a row group are those of its values", "[tables]") {
  const int64_t numbers[] = {5, -3, 12, 4, 9, -8};
  Table table{"limits", "", 6, {}};
  Add(&table, Integer("number", [&](uint64_t row) { return numbers[row]; }));

  const File file(Written(table, 3));

  const auto& groups = file.head()[4].list;
  REQUIRE(groups.size() == 2);
  const auto limit = [&](size_t group, int field) {
    const std::string bytes = groups[group][1].list[0][3][12][field].text;
    return static_cast<int64_t>(parquet_file::Bytes(bytes).Fixed(8));
  };
  CHECK(limit(0, 6) == -3);
  CHECK(limit(0, 5) == 12);
  CHECK(limit(1, 6) == -8);
  CHECK(limit(1, 5) == 9);
}

TEST_CASE("a sink that accepts no more data fails the Parquet file", "[tables]") {
  fakes::StringSink sink(100);
  const pitot::Status status = MakeParquet(RandomTable(1, 100, 10))->Serialize({}, sink);
  CHECK(status.code() == pitot::StatusCode::kIoError);
}

}  // namespace
