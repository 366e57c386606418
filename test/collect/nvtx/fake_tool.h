// SPDX-License-Identifier: Apache-2.0
//
// A tool found by NVTX through the environment, like a profiler.
#ifndef PITOT_TEST_COLLECT_NVTX_FAKE_TOOL_H_
#define PITOT_TEST_COLLECT_NVTX_FAKE_TOOL_H_

#include <string>
#include <vector>

struct FakeTool {
  // Its calls since the last time: "push <domain>/<name>", "pop <domain>"; without a domain "push <name>".
  virtual std::vector<std::string> TakeLog() = 0;
  // Called while it registers a string; null: nothing is called.
  void (*on_register)() = nullptr;
  bool has_handles = true;  // otherwise it registers strings and returns null

 protected:
  ~FakeTool() = default;
};

extern "C" [[gnu::visibility("default")]] FakeTool* GetFakeTool();

#endif  // PITOT_TEST_COLLECT_NVTX_FAKE_TOOL_H_
