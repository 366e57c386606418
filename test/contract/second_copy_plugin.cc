// SPDX-License-Identifier: Apache-2.0
//
// A plug-in with a hidden copy of the library.
#include "second_copy_plugin.h"

#include <cstring>

#include "pitot/recorder.h"
#include "pitot/trace.h"

namespace {
pitot::Recorder* g_recorder = nullptr;
}

extern "C" int PluginStart(char* message, unsigned long size) {
  static pitot::Recorder recorder;
  g_recorder = &recorder;
  recorder = pitot::Recorder::Start(pitot::Options());
  const pitot::Status status = recorder.status();
  std::strncpy(message, status.message(), size - 1);
  message[size - 1] = '\0';
  return static_cast<int>(status.code());
}

extern "C" unsigned long PluginRecord() {
  for (int i = 0; i < 10; ++i) {
    PITOT_SCOPE("in the plug-in");
  }
  return g_recorder->Stats().events_recorded;
}

extern "C" void PluginStop() { g_recorder->Stop(); }
