// SPDX-License-Identifier: Apache-2.0
//
// Two copies of the library in one process.
#include <dlfcn.h>
#include <link.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>
#include <thread>

#include "contract/second_copy_plugin.h"
#include "pitot/recorder.h"
#include "pitot/trace.h"

namespace {

struct Visit {
  int (*visit)(dl_phdr_info*, size_t, void*);
  void* context;
};

int VisitWithNameOfTheCall(dl_phdr_info* info, size_t size, void* context) {
  const auto* outer = static_cast<const Visit*>(context);
  char name[4096];
  dl_phdr_info copy = *info;
  if (info->dlpi_name != nullptr && std::strlen(info->dlpi_name) < sizeof name)
    copy.dlpi_name = std::strcpy(name, info->dlpi_name);
  const int result = outer->visit(&copy, size, outer->context);
  std::memset(name, '?', sizeof name - 1);
  name[sizeof name - 1] = '\0';
  asm volatile("" : : "r"(name) : "memory");  // keeps the compiler from skipping the wipe
  return result;
}

struct Plugin {
  explicit Plugin(const char* path, int flags = 0) : library(dlopen(path, RTLD_NOW | RTLD_LOCAL | flags)) {
    INFO(dlerror());
    REQUIRE(library != nullptr);
    start = reinterpret_cast<decltype(&PluginStart)>(dlsym(library, "PluginStart"));
    record = reinterpret_cast<decltype(&PluginRecord)>(dlsym(library, "PluginRecord"));
    stop = reinterpret_cast<decltype(&PluginStop)>(dlsym(library, "PluginStop"));
  }
  ~Plugin() { Close(); }
  Plugin(const Plugin&) = delete;
  Plugin& operator=(const Plugin&) = delete;

  void Close() {
    if (library != nullptr) dlclose(library);
    library = nullptr;
  }

  pitot::StatusCode Start() { return static_cast<pitot::StatusCode>(start(message, sizeof message)); }

  void* library;
  decltype(&PluginStart) start;
  decltype(&PluginRecord) record;
  decltype(&PluginStop) stop;
  char message[1024] = "";
};

}  // namespace

// Replaces the C library's function: names live only during the call, as if another thread closed the objects then.
extern "C" int dl_iterate_phdr(int (*visit)(dl_phdr_info*, size_t, void*), void* context) {
  static const auto next = reinterpret_cast<decltype(&dl_iterate_phdr)>(dlsym(RTLD_NEXT, "dl_iterate_phdr"));
  Visit outer{visit, context};
  return next(VisitWithNameOfTheCall, &outer);
}

TEST_CASE("only one of two copies of the library records at a time", "[contract]") {
  Plugin plugin(PITOT_TEST_PLUGIN);

  SECTION("the plug-in's copy is refused while the host's records, and the message names that copy's file") {
    pitot::Recorder host = pitot::Recorder::Start(pitot::Options());
    REQUIRE(host.status().ok());

    CHECK(plugin.Start() == pitot::StatusCode::kAlreadyRunning);
    INFO(plugin.message);
    CHECK(std::string(plugin.message).find("second_copy_test") != std::string::npos);

    host.Stop();
    CHECK(plugin.Start() == pitot::StatusCode::kOk);
    CHECK(plugin.record() >= 10);
    plugin.stop();
  }

  SECTION("the host's copy is refused while the plug-in's records, and the message names that copy's file") {
    REQUIRE(plugin.Start() == pitot::StatusCode::kOk);

    pitot::Recorder host = pitot::Recorder::Start(pitot::Options());
    CHECK(host.status().code() == pitot::StatusCode::kAlreadyRunning);
    INFO(host.status().message());
    CHECK(std::string(host.status().message()).find("second_copy_plugin") != std::string::npos);

    plugin.stop();
    host = pitot::Recorder::Start(pitot::Options());
    CHECK(host.status().ok());
  }
}

TEST_CASE("a copy is found by its file if its symbol was not merged with the host's", "[contract]") {
  // A separate file, loaded with its own symbols before the host's.
  char path[] = "/tmp/second_copy_apart.XXXXXX";
  REQUIRE(mkstemp(path) >= 0);
  std::filesystem::copy_file(PITOT_TEST_PLUGIN, path, std::filesystem::copy_options::overwrite_existing);
  Plugin plugin(path, RTLD_DEEPBIND);
  REQUIRE(plugin.Start() == pitot::StatusCode::kOk);

  pitot::Recorder host = pitot::Recorder::Start(pitot::Options());
  CHECK(host.status().code() == pitot::StatusCode::kAlreadyRunning);
  INFO(host.status().message());
  CHECK(std::string(host.status().message()).find(path) != std::string::npos);

  plugin.stop();
  host = pitot::Recorder::Start(pitot::Options());
  CHECK(host.status().ok());
  std::filesystem::remove(path);
}

TEST_CASE("a thread that recorded in a plug-in's copy may exit after the plug-in is closed", "[contract]") {
  Plugin plugin(PITOT_TEST_PLUGIN);
  REQUIRE(plugin.Start() == pitot::StatusCode::kOk);

  unsigned long recorded = 0;
  std::thread([&] {
    recorded = plugin.record();
    plugin.stop();
    plugin.Close();
  }).join();  // runs the copy's exit callback

  CHECK(recorded >= 10);
  Dl_info info;
  CHECK(dladdr(reinterpret_cast<void*>(plugin.record), &info) != 0);  // still there
}

TEST_CASE("a copy without a recorder records nothing for the other copy", "[contract]") {
  Plugin plugin(PITOT_TEST_PLUGIN);
  pitot::Recorder host = pitot::Recorder::Start(pitot::Options());
  REQUIRE(host.status().ok());
  REQUIRE(plugin.Start() == pitot::StatusCode::kAlreadyRunning);

  CHECK(plugin.record() == 0);
}
