// SPDX-License-Identifier: Apache-2.0
//
// Checks an option with the file of a library before the library is needed.
#ifndef PITOT_LIB_BASE_LIBRARY_OPTION_H_
#define PITOT_LIB_BASE_LIBRARY_OPTION_H_

#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/message.h"
#include "pitot/status.h"

namespace pitot::base {

// kNotFound if `path` cannot be reached. A name without a slash is searched by the loader, once it is opened: it
// passes, like null.
inline Status CheckLibrary(const char* option, const char* path) noexcept {
  if (path == nullptr || std::strchr(path, '/') == nullptr || access(path, F_OK) == 0) return {};
  return Error(StatusCode::kNotFound,
               "%s is %s: %s; leave it out to use the library that comes with NVIDIA's driver or CUDA", option, path,
               std::strerror(errno));
}

}  // namespace pitot::base

#endif  // PITOT_LIB_BASE_LIBRARY_OPTION_H_
