// SPDX-License-Identifier: Apache-2.0
//
// A host that captures NVTX, and emitting libraries.
#ifndef PITOT_TEST_COLLECT_NVTX_RIG_H_
#define PITOT_TEST_COLLECT_NVTX_RIG_H_

#include <dlfcn.h>

#include <cstdlib>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "collect/nvtx/emitter.h"
#include "fakes/trace_text.h"
#include "pitot/collect/nvtx.h"
#include "session/host.h"

namespace fakes {

// Fresh each time: it has not called NVTX yet.
class Library {
 public:
  explicit Library(const char* path) : object_(dlopen(path, RTLD_NOW | RTLD_LOCAL)) {
    const auto get = reinterpret_cast<const Emitter* (*)()>(dlsym(object_, "GetEmitter"));
    emitter_ = get();
  }
  ~Library() { dlclose(object_); }
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;
  const Emitter* operator->() const { return emitter_; }

 private:
  void* object_;
  const Emitter* emitter_;
};

// Paths of all of them.
inline std::vector<const char*> Emitters() {
  std::vector<const char*> paths = {PITOT_FAKE_EMITTER};
#ifdef PITOT_REAL_EMITTER
  paths.push_back(PITOT_REAL_EMITTER);
#endif
  return paths;
}

// NVTX_INJECTION64_PATH while it lives; null: not set.
class Variable {
 public:
  explicit Variable(const char* value) {
    if (const char* before = Get()) before_ = before;
    Set(value);
  }
  ~Variable() { Set(before_ ? before_->c_str() : nullptr); }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;
  static const char* Get() { return std::getenv("NVTX_INJECTION64_PATH"); }

 private:
  static void Set(const char* value) {
    if (value != nullptr)
      setenv("NVTX_INJECTION64_PATH", value, 1);
    else
      unsetenv("NVTX_INJECTION64_PATH");
  }
  std::optional<std::string> before_;
};

struct NvtxHost : session_test::Host {
  NvtxHost() {
    options.depth = pitot::Depth::kScopes;
    options.max_incidents_per_cause_and_hour = 1'000'000;
  }
  bool StartCapturing(const pitot::NvtxOptions& nvtx = {}) {
    return Start() && recorder.Add(pitot::MakeNvtxCollector(nvtx)).ok();
  }
  pitot::model::Trace Incident() { return TriggerAndFlush() ? traces().back() : pitot::model::Trace(); }
};

// Events of NVTX as "name(domain=x, bytes=3)", in the order of their beginnings.
inline std::vector<std::string> Captured(const pitot::model::Trace& trace) {
  std::vector<std::string> texts;
  for (const EventText& event : Events(trace)) {
    if (event.args.size() < 2 || event.args[1].first != "domain") continue;
    std::string text = event.name + "(";
    for (size_t i = 1; i < event.args.size(); ++i)
      text += (i > 1 ? ", " : "") + event.args[i].first + "=" + event.args[i].second;
    texts.push_back(text + ")");
  }
  return texts;
}

using Texts = std::vector<std::string>;

inline Emitter::Attributes Message(const char* text) {
  Emitter::Attributes attributes = {};
  attributes.version = 3;
  attributes.size = sizeof attributes;
  attributes.message_type = pitot::nvtx::abi::kAscii;
  attributes.message = text;
  return attributes;
}

inline Emitter::Attributes Registered(const void* handle) {
  Emitter::Attributes attributes = Message(nullptr);
  attributes.message_type = pitot::nvtx::abi::kRegistered;
  attributes.message = handle;
  return attributes;
}

}  // namespace fakes

#endif  // PITOT_TEST_COLLECT_NVTX_RIG_H_
