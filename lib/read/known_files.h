// SPDX-License-Identifier: Apache-2.0
//
// Names files that no reader takes, so that a message can say what they are.
#ifndef PITOT_LIB_READ_KNOWN_FILES_H_
#define PITOT_LIB_READ_KNOWN_FILES_H_

#include <string>
#include <string_view>

#include "read/format.h"

namespace pitot::read {

// "it is a SQLite database that nsys did not write", with what to do where something can be done. The name in `path`
// decides where the content does not; "": it has none.
std::string WhatItIs(const Head& head, std::string_view path);

}  // namespace pitot::read

#endif  // PITOT_LIB_READ_KNOWN_FILES_H_
