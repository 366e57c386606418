// SPDX-License-Identifier: Apache-2.0
//
// A library opened, used and closed by a host. Its sites are hidden and go with it.
#include "pitot/trace.h"

#ifndef SCOPE_OF_PLUGIN
#define SCOPE_OF_PLUGIN "scope of the plug-in"
#endif

extern "C" [[gnu::visibility("default")]] void RecordInPlugin(int value) {
  PITOT_SCOPE(SCOPE_OF_PLUGIN, value);
  PITOT_INSTANT("instant of the plug-in", PITOT_LITERAL("a literal of the plug-in"));
}

// Calls back while a scope of the plug-in is open.
extern "C" [[gnu::visibility("default")]] void CallFromPlugin(void (*call)(void*), void* context) {
  PITOT_SCOPE("around the call");
  call(context);
}

extern "C" [[gnu::visibility("default")]] const char* LiteralOfPlugin() { return "text that lives in the plug-in"; }
