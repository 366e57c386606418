// SPDX-License-Identifier: Apache-2.0
//
// Finds the sites of the programs and libraries that are loaded, also those that no record points to yet. A site is a
// constant with addresses in it, so it lies where the loader may write and nobody after it (RELRO). In a program at a
// fixed address it lies among other constants.
#ifndef PITOT_LIB_SNAPSHOT_SITE_FINDER_H_
#define PITOT_LIB_SNAPSHOT_SITE_FINDER_H_

#include <cstddef>
#include <cstdint>
#include <vector>

namespace pitot::snapshot {

// Addresses of what may be sites, the program's own first: at most `most` of them, in the first `most_bytes` of such
// memory. ReadSite tells whether one is a site. May throw bad_alloc. Threads: any; not inside the loader.
// Cost: about 0.2 ms for each MiB.
std::vector<uint64_t> FindSites(size_t most, uint64_t most_bytes);

}  // namespace pitot::snapshot

#endif  // PITOT_LIB_SNAPSHOT_SITE_FINDER_H_
