// SPDX-License-Identifier: Apache-2.0
//
// The words for frames of machine code.
#ifndef PITOT_LIB_COLLECT_STACKS_FRAMES_H_
#define PITOT_LIB_COLLECT_STACKS_FRAMES_H_

#include <string>
#include <string_view>

namespace pitot::stacks {

// "MyCache::Get" for "MyCache::Get(int) [clone .isra.0]": without arguments, at most 80 bytes.
std::string ShortFunction(std::string_view demangled);
// A mangled name as people write it; other names stay.
std::string Demangled(const std::string& symbol);
// The last part of a path.
std::string_view FileOf(std::string_view path);
// Whether a frame is of the runtime: of C's or C++'s library, or of Pitot. People look for the one below.
bool IsRuntime(std::string_view module, std::string_view function);

}  // namespace pitot::stacks

#endif  // PITOT_LIB_COLLECT_STACKS_FRAMES_H_
