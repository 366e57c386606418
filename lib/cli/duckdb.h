// SPDX-License-Identifier: Apache-2.0
//
// Runs the program `duckdb`, without network, extensions and other files.
#ifndef PITOT_LIB_CLI_DUCKDB_H_
#define PITOT_LIB_CLI_DUCKDB_H_

#include <stdint.h>

#include <string>
#include <vector>

namespace pitot::cli {

enum class Layout : uint8_t { kTable, kCsv, kJson };

struct DuckDb {
  std::string program = "duckdb";  // looked for in PATH
  std::string folder;              // of the tables, "TABLE.parquet"; also for its own files
  std::vector<std::string> tables;
  int64_t memory_mb = 1024;
  Layout layout = Layout::kTable;
};

// Prints the answer of `sql`; errors by DuckDB go to stderr. Returns kDone, kNothingFound (no rows), kUsage (an error
// by DuckDB), or kUnreadable with a message.
int Ask(const DuckDb& database, const std::string& sql);

}  // namespace pitot::cli

#endif  // PITOT_LIB_CLI_DUCKDB_H_
