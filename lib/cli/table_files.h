// SPDX-License-Identifier: Apache-2.0
//
// The tables of a trace as Parquet files of a folder, for `pitot convert --to parquet` and `pitot query`.
#ifndef PITOT_LIB_CLI_TABLE_FILES_H_
#define PITOT_LIB_CLI_TABLE_FILES_H_

#include <stdint.h>

#include <string>
#include <vector>

#include "pitot/model/trace.h"
#include "tables/table.h"

namespace pitot::cli {

// Writes "TABLE.parquet" for each table. The folder must exist. Returns kDone or, with a message, kNotWritten. `bytes`
// becomes the size of all files.
int WriteTables(const model::Trace& trace, std::vector<tables::Table> tables, const std::string& folder,
                bool is_compressed, uint64_t* bytes);

// The same for all tables; makes the folder, mode 0700, if it is missing.
int WriteTableFolder(const model::Trace& trace, const std::string& folder, bool is_compressed, uint64_t* bytes);

}  // namespace pitot::cli

#endif  // PITOT_LIB_CLI_TABLE_FILES_H_
