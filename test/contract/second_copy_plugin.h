// SPDX-License-Identifier: Apache-2.0
//
// The plug-in's functions for second_copy_test.cc.
#ifndef PITOT_TEST_CONTRACT_SECOND_COPY_PLUGIN_H_
#define PITOT_TEST_CONTRACT_SECOND_COPY_PLUGIN_H_

extern "C" {
// Starts the plug-in's recorder; returns its StatusCode and writes its message.
[[gnu::visibility("default")]] int PluginStart(char* message, unsigned long size);
// Records ten scopes; returns the number of events in the plug-in's recorder.
[[gnu::visibility("default")]] unsigned long PluginRecord();
[[gnu::visibility("default")]] void PluginStop();
}

#endif  // PITOT_TEST_CONTRACT_SECOND_COPY_PLUGIN_H_
