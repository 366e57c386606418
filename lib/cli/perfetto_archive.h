// SPDX-License-Identifier: Apache-2.0
//
// Several dumps as one archive, for `pitot convert A B --to perfetto`.
#ifndef PITOT_LIB_CLI_PERFETTO_ARCHIVE_H_
#define PITOT_LIB_CLI_PERFETTO_ARCHIVE_H_

#include <stdint.h>

#include <string>
#include <vector>

#include "pitot/extend/serializer.h"

namespace pitot::cli {

// Writes a TAR with each dump's Perfetto trace, and a manifest with their machines. Perfetto opens it as one trace. One
// dump and its trace are in memory at a time. Returns the exit code, with a message on stderr if it is not kDone.
int WritePerfettoArchive(Serializer& perfetto, const std::vector<std::string>& dumps, const std::string& output,
                         uint64_t* bytes);

}  // namespace pitot::cli

#endif  // PITOT_LIB_CLI_PERFETTO_ARCHIVE_H_
