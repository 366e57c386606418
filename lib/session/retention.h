// SPDX-License-Identifier: Apache-2.0
//
// Which incidents to remove when the directory is full.
#ifndef PITOT_LIB_SESSION_RETENTION_H_
#define PITOT_LIB_SESSION_RETENTION_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace pitot::session {

// An incident on disk.
struct StoredIncident {
  std::string name;       // of its directory
  std::string cause;      // as its name says it
  std::string signature;  // of its verdict; "": it has none
  int64_t excess_ns = 0;  // how bad it was
  int64_t at_s = 0;       // CLOCK_REALTIME, from its name
  uint64_t bytes = 0;
};

// Fills in what its name says: "20261121T015359Z-0007-cause", with ".2" or ".partial" behind it. False: that is not an
// incident's name.
bool ParseIncidentName(const std::string& name, StoredIncident* incident);

// Removes incidents from `stored` until at most `most` remain, and at most `most_bytes`, or 64 are removed: the rest
// goes with the next incidents. Returns their names. `newest` stays, whatever the clock says; if it is "", the one with
// the latest time does.
//
// The cause with most incidents (or most bytes, if those are too many) loses first. There, repeats lose first: those
// that are neither the first, nor the worst, nor the newest of their signature. Next are those without a verdict, which
// may still wait for it. Then come the newest, the worst and the first of a signature, and the first of the cause.
// Among equals, the one that leaves the smallest gap, as a share of its age, is removed. So what stays is dense in the
// last minutes, and sparse before, back to the first of its cause.
std::vector<std::string> Retain(uint64_t most, uint64_t most_bytes, const std::string& newest,
                                std::vector<StoredIncident>* stored);

}  // namespace pitot::session

#endif  // PITOT_LIB_SESSION_RETENTION_H_
