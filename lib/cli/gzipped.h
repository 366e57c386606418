// SPDX-License-Identifier: Apache-2.0
//
// Compresses what a serializer writes. The library has no compressor, because hosts link none.
#ifndef PITOT_LIB_CLI_GZIPPED_H_
#define PITOT_LIB_CLI_GZIPPED_H_

#include <memory>

#include "pitot/extend/serializer.h"

namespace pitot::cli {

// The same file in gzip's format.
std::unique_ptr<Serializer> MakeGzipped(std::unique_ptr<Serializer> plain);

}  // namespace pitot::cli

#endif  // PITOT_LIB_CLI_GZIPPED_H_
