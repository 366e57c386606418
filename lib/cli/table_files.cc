// SPDX-License-Identifier: Apache-2.0
#include "cli/table_files.h"

#include <cerrno>
#include <utility>

#include "absl/strings/str_format.h"
#include "base/text.h"
#include "cli/command.h"
#include "cli/files.h"
#include "cli/leftovers.h"
#include "tables/parquet.h"
#include "tables/tables.h"

namespace pitot::cli {
namespace {

int CannotWrite(const std::string& path, int error) {
  Complain(absl::StrFormat("cannot write %s: %s. Choose another place with -o.", path, base::SystemText(error)));
  return kNotWritten;
}

}  // namespace

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
  // All of its tables or none: they are moved into it at the end.
  TemporaryFolder made(folder);
  const TemporaryFolder parts(folder + "/.XXXXXX");
  if (made.error() != 0 && made.error() != EEXIST) return CannotWrite(folder, made.error());
  if (parts.error() != 0) return CannotWrite(folder, parts.error());
  const int written = WriteTables(trace, tables::TablesOf(trace), parts.path(), is_compressed, bytes);
  if (written != kDone) return written;
  std::string failed;
  if (const int error = parts.MoveFilesTo(folder, &failed); error != 0) return CannotWrite(failed, error);
  made.Keep();
  return kDone;
}

}  // namespace pitot::cli
