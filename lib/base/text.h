// SPDX-License-Identifier: Apache-2.0
//
// Makes text from a host or a file fit for display: every name of a trace passes through here once.
#ifndef PITOT_LIB_BASE_TEXT_H_
#define PITOT_LIB_BASE_TEXT_H_

#include <stdint.h>

#include <string>
#include <string_view>

namespace pitot::base {

// True for valid UTF-8 without control characters: U+0000 to U+001F, U+007F to U+009F, separators of lines (U+2028,
// U+2029), marks that turn the direction of text (U+061C, U+200E, U+200F, U+202A to U+202E, U+2066 to U+2069), and the
// byte order mark (U+FEFF).
bool IsSaneText(std::string_view text);

// The size of the character at the front of `text`, which is not empty; 0 if its first byte must be replaced.
uint32_t SaneCharacter(std::string_view text);

// Returns `text` with each control character and each byte that is not part of valid UTF-8 replaced by U+FFFD.
std::string SanitizeText(std::string_view text);

// What the system says of an error number: "No space left on device". May throw bad_alloc. Threads: any.
std::string SystemText(int error);
// The name of a signal: "SIGKILL", or "signal 40". May throw bad_alloc. Threads: any.
std::string SignalText(int number);

}  // namespace pitot::base

#endif  // PITOT_LIB_BASE_TEXT_H_
