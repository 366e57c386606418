// SPDX-License-Identifier: Apache-2.0
//
// The version of these headers. `pitot::Version()` (recorder.h) is the version of the linked library.
#ifndef PITOT_VERSION_H_
#define PITOT_VERSION_H_

#define PITOT_VERSION_MAJOR 0
#define PITOT_VERSION_MINOR 1
#define PITOT_VERSION_PATCH 0
#define PITOT_VERSION_STRING "0.1.0"

#endif  // PITOT_VERSION_H_
