// SPDX-License-Identifier: Apache-2.0
//
// Standard input and pipes as input. A reader opens its file more than once, so the content of a pipe is kept in a
// file.
#ifndef PITOT_LIB_CLI_PIPED_H_
#define PITOT_LIB_CLI_PIPED_H_

#include <string>

namespace pitot::cli {

// Whether `path` is "-", /dev/stdin, or a descriptor: /dev/fd/63, as a shell names that of <(zstd -dc FILE).
bool IsDescriptor(const std::string& path);

// Makes `file` a path for readers: `path` itself, or that of a file in TMPDIR with all that came from the pipe, once
// for each descriptor. The file has no name and is gone with the process. Returns kDone or, with a message, the exit
// code.
int KeepPiped(const std::string& path, std::string* file);

}  // namespace pitot::cli

#endif  // PITOT_LIB_CLI_PIPED_H_
