// SPDX-License-Identifier: Apache-2.0
//
// Writes a table as a Parquet file (https://parquet.apache.org/docs/file-format).
#ifndef PITOT_LIB_TABLES_PARQUET_H_
#define PITOT_LIB_TABLES_PARQUET_H_

#include <memory>

#include "pitot/extend/serializer.h"
#include "tables/table.h"

namespace pitot::tables {

inline constexpr uint64_t kGroupRows = 1 << 17;  // rows of a row group

struct ParquetOptions {
  bool is_compressed = false;        // with gzip, which every reader has
  uint64_t group_rows = kGroupRows;  // for tests
};

// The trace that Serialize gets is not used: the table has its own. Its memory is that of one column of a row group.
std::unique_ptr<Serializer> MakeParquet(Table table, const ParquetOptions& options = {});

}  // namespace pitot::tables

#endif  // PITOT_LIB_TABLES_PARQUET_H_
