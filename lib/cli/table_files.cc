// SPDX-License-Identifier: Apache-2.0
#include "cli/table_files.h"

#include <sys/stat.h>

#include <cerrno>
#include <utility>

#include "absl/strings/str_format.h"
#include "base/text.h"
#include "cli/command.h"
#include "cli/files.h"
#include "tables/parquet.h"
#include "tables/tables.h"

namespace pitot::cli {

int WriteTables(const model::Trace& trace, std::vector<tables::Table> tables, const std::string& folder,
                bool is_compressed, uint64_t* bytes) {
  *bytes = 0;
  tables::ParquetOptions options;
  options.is_compressed = is_compressed;
  for (tables::Table& table : tables) {
    const auto serializer = MakeParquet(std::move(table), options);
    uint64_t size = 0;
    const int written = WriteFile(*serializer, trace, folder + "/" + serializer->FileName(), &size);
    if (written != kDone) return written;
    *bytes += size;
  }
  return kDone;
}

int WriteTableFolder(const model::Trace& trace, const std::string& folder, bool is_compressed, uint64_t* bytes) {
  if (mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) {
    Complain(absl::StrFormat("cannot make the folder %s: %s. Choose another place with -o.", folder,
                             base::SystemText(errno)));
    return kNotWritten;
  }
  return WriteTables(trace, tables::TablesOf(trace), folder, is_compressed, bytes);
}

}  // namespace pitot::cli
