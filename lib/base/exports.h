// SPDX-License-Identifier: Apache-2.0
//
// Reads the exports of a shared library from its file, without loading or running it.
#ifndef PITOT_LIB_BASE_EXPORTS_H_
#define PITOT_LIB_BASE_EXPORTS_H_

#include <initializer_list>
#include <string_view>

namespace pitot::base {

// Whether the 64-bit ELF file at `path` defines each of these dynamic symbols. False if it is unreadable, not such a
// file, or names more than 64 MiB of symbols. Errors: std::bad_alloc. Cost: reads its tables of dynamic symbols.
bool FileExports(const char* path, std::initializer_list<std::string_view> symbols);

}  // namespace pitot::base

#endif  // PITOT_LIB_BASE_EXPORTS_H_
