// SPDX-License-Identifier: Apache-2.0
#include "tables/tables.h"

namespace pitot::tables {
namespace {

// As DuckDB calls them.
const char* TypeName(Type type) {
  switch (type) {
    case Type::kReal:
      return "DOUBLE";
    case Type::kBool:
      return "BOOLEAN";
    case Type::kText:
      return "VARCHAR";
    case Type::kUtc:
      return "TIMESTAMPTZ";
    default:
      return "BIGINT";
  }
}

}  // namespace

std::vector<Table> TablesOf(const model::Trace& trace) {
  std::vector<Table> tables;
  AddRequestTables(trace, &tables);
  AddHostTables(trace, &tables);
  AddGpuTables(trace, &tables);
  AddRecordingTables(trace, &tables);
  AddVerdictTables(trace, &tables);
  return tables;
}

std::string SchemaText(const std::vector<Table>& tables) {
  std::string text;
  for (const Table& table : tables) {
    text += "\n### `" + table.name + "`\n\n";
    if (!table.note.empty()) text += table.note + "\n\n";
    text += "| column | type | |\n|---|---|---|\n";
    for (const Column& column : table.columns) {
      const char* const null = column.may_be_null ? ", null" : "";
      text += "| `" + column.name + "` | " + TypeName(column.type) + null + " | " + column.note + " |\n";
    }
  }
  return text;
}

}  // namespace pitot::tables
