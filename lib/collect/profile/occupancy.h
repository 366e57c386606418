// SPDX-License-Identifier: Apache-2.0
//
// The occupancy allowed by a kernel's registers, shared memory and block.
#ifndef PITOT_LIB_COLLECT_PROFILE_OCCUPANCY_H_
#define PITOT_LIB_COLLECT_PROFILE_OCCUPANCY_H_

#include "collect/profile/api.h"
#include "pitot/collect/profile.h"

namespace pitot::profile {

// Fills the attributes of a kernel and its theoretical occupancy, from its shape. Values refused by the driver stay
// empty. The context must be current.
void AddOccupancy(const Driver& driver, int device, void* function, KernelProfile* kernel);

}  // namespace pitot::profile

#endif  // PITOT_LIB_COLLECT_PROFILE_OCCUPANCY_H_
