// SPDX-License-Identifier: Apache-2.0
//
// A libpitot_c.so of a future ABI.
#include <stdint.h>

uint32_t pitot_abi(void);
uint32_t pitot_abi_revision(void);

uint32_t pitot_abi(void) { return 2; }
uint32_t pitot_abi_revision(void) { return 0; }
