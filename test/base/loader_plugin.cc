// SPDX-License-Identifier: Apache-2.0
//
// A host's library with a constructor, and with a copy of Pitot's lock of the loader.
#include "base/loader_lock.h"

extern "C" void RunInConstructor();  // the test's

namespace {
[[gnu::constructor]] void Construct() { RunInConstructor(); }
}  // namespace

extern "C" [[gnu::visibility("default")]] bool HoldForksOfPlugin() { return pitot::base::HoldForksForLoader(); }
