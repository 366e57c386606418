// SPDX-License-Identifier: Apache-2.0
//
// Room for a black box, in a folder where black boxes of dead processes may lie.
#ifndef PITOT_LIB_SESSION_BOX_ROOM_H_
#define PITOT_LIB_SESSION_BOX_ROOM_H_

#include <cstdint>
#include <string>
#include <vector>

namespace pitot::session {

// Why a tmpfs has no room for another one, which takes memory of others; "": it has, or the folder is on a disk.
std::string DoubtAboutRoom(const std::string& directory, uint64_t bytes);

// How many black boxes of dead processes may wait for their incidents.
inline constexpr size_t kMostDeadBoxes = 64;
// Removes the oldest ones of dead processes beyond that, and until there is room for `bytes`. After an hour, files that
// cannot be read count, too. The newest one stays, and so do other users' files. Returns a line for each: "removed a
// black box of image_server (process 4711), ...". Cost: the header of each file, if there is no room or they are many.
// May throw bad_alloc.
std::vector<std::string> MakeBoxRoom(const std::string& directory, uint64_t bytes);

}  // namespace pitot::session

#endif  // PITOT_LIB_SESSION_BOX_ROOM_H_
