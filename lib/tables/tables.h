// SPDX-License-Identifier: Apache-2.0
//
// A trace as tables: docs/reference/formats/parquet.md lists them.
#ifndef PITOT_LIB_TABLES_TABLES_H_
#define PITOT_LIB_TABLES_TABLES_H_

#include <string>
#include <vector>

#include "tables/table.h"

namespace pitot::tables {

// All tables; one without rows has its columns, too. The trace must outlive them. Nothing of note is computed before a
// table is written.
std::vector<Table> TablesOf(const model::Trace& trace);

// A description of each table and column, in Markdown.
std::string SchemaText(const std::vector<Table>& tables);

// The parts of TablesOf.
void AddRequestTables(const model::Trace& trace, std::vector<Table>* tables);
void AddHostTables(const model::Trace& trace, std::vector<Table>* tables);
void AddGpuTables(const model::Trace& trace, std::vector<Table>* tables);
void AddRecordingTables(const model::Trace& trace, std::vector<Table>* tables);
void AddVerdictTables(const model::Trace& trace, std::vector<Table>* tables);

}  // namespace pitot::tables

#endif  // PITOT_LIB_TABLES_TABLES_H_
