// SPDX-License-Identifier: Apache-2.0
//
// Reads sites whose library may be gone: an unmapped address gives an error, not a fault.
#ifndef PITOT_LIB_SNAPSHOT_SITE_READER_H_
#define PITOT_LIB_SNAPSHOT_SITE_READER_H_

#include <cstdint>
#include <string>

#include "pitot/trace.h"

namespace pitot::snapshot {

struct SiteText {
  SiteKind kind = SiteKind::kScope;
  uint16_t flags = 0;
  uint8_t arg_count = 0;
  uint32_t line = 0;
  uint32_t arg_types = 0;
  bool unloaded = false;
  std::string name, file, function, arg_text;
};

// A site whose library was unloaded.
SiteText UnloadedSite();
// The content of a site; `unloaded` if it is no longer a site.
SiteText ReadSite(uint64_t address);

}  // namespace pitot::snapshot

#endif  // PITOT_LIB_SNAPSHOT_SITE_READER_H_
