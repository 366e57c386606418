// SPDX-License-Identifier: Apache-2.0
//
// Names of sites for looks at open scopes a hundred times a second: reading a site safely takes system calls.
#ifndef PITOT_LIB_SESSION_SITE_NAMES_H_
#define PITOT_LIB_SESSION_SITE_NAMES_H_

#include <cstdint>
#include <string>
#include <unordered_map>

#include "snapshot/site_reader.h"

namespace pitot::session {

// Not thread-safe.
class SiteNames {
 public:
  struct Site {
    std::string name;
    bool is_wait = false;
    bool name_is_first_arg = false;
  };
  explicit SiteNames(snapshot::SiteText (*read)(uint64_t address) = snapshot::ReadSite) : read_(read) {}

  // The site at an address. Lives until the next call. May throw bad_alloc.
  const Site& At(uint64_t address, int64_t now_ns) {
    if (sites_.size() >= kMost || now_ns - since_ns_ >= kTrustNs) {
      sites_.clear();
      since_ns_ = now_ns;
    }
    const auto found = sites_.find(address);
    if (found != sites_.end()) return found->second;
    const snapshot::SiteText text = read_(address);
    return sites_[address] = {text.name, text.kind == SiteKind::kWait, (text.flags & kNameIsFirstArg) != 0};
  }

 private:
  static constexpr size_t kMost = 1024;
  // Another library may have been loaded at the address meanwhile.
  static constexpr int64_t kTrustNs = 10'000'000'000;
  snapshot::SiteText (*read_)(uint64_t address);
  std::unordered_map<uint64_t, Site> sites_;
  int64_t since_ns_ = 0;
};

}  // namespace pitot::session

#endif  // PITOT_LIB_SESSION_SITE_NAMES_H_
