// SPDX-License-Identifier: Apache-2.0
//
// The choice of a libcupti. A loaded library stays, so each choice is made in a child of its own.
#include <dlfcn.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <string>
#include <string_view>

#include "collect/cupti/api.h"
#include "collect/cupti/fake_driver.h"
#include "fakes/child.h"

namespace {

namespace cupti = pitot::cupti;
namespace fs = std::filesystem;
using pitot::Status;
using pitot::StatusCode;

// Where the loader finds libraries by name. It was there when the program began; otherwise the loader would not look.
const fs::path kFolder = PITOT_CHOICE_FOLDER;

// A library of that name there, for as long as this lives.
class Installed {
 public:
  explicit Installed(const char* name, const char* library = PITOT_FAKE_CUPTI) : path_(kFolder / name) {
    fs::remove(path_);
    fs::copy_file(library, path_);
  }
  ~Installed() { fs::remove(path_); }
  Installed(const Installed&) = delete;
  Installed& operator=(const Installed&) = delete;
  std::string path() const { return path_; }

 private:
  const fs::path path_;
};

bool Contains(const Status& status, const std::string& part) {
  return std::string(status.message()).find(part) != std::string::npos;
}

TEST_CASE("a second copy of CUPTI is refused, and both are named", "[cupti]") {
  const Installed first("libcupti.so.12"), second("other_libcupti.so.13", PITOT_FAKE_CUPTI_OLD);
  CHECK(fakes::InChild([&] {
          HOLDS(dlopen(first.path().c_str(), RTLD_NOW | RTLD_LOCAL) != nullptr);
          cupti::Api api;
          const Status status = cupti::LoadCupti(second.path(), &api);
          HOLDS(status.code() == StatusCode::kUnavailable);
          HOLDS(Contains(status, first.path()) && Contains(status, second.path()));
          HOLDS(Contains(status, "; to record kernels: leave the option out"));
          HOLDS(dlopen(second.path().c_str(), RTLD_NOW | RTLD_NOLOAD) == nullptr);
          return 0;
        }) == 0);
}

TEST_CASE("a named file is taken if it is the loaded one, by whatever path", "[cupti]") {
  const Installed library("libcupti.so.12");
  const fs::path link = kFolder / "link_to_libcupti.so";
  fs::remove(link);
  fs::create_symlink(library.path(), link);
  CHECK(fakes::InChild([&] {
          HOLDS(dlopen(library.path().c_str(), RTLD_NOW | RTLD_LOCAL) != nullptr);
          for (const std::string& path : {library.path(), link.string(), std::string("libcupti.so.12")}) {
            cupti::Api api;
            HOLDS(cupti::LoadCupti(path, &api).ok());
            HOLDS(api.path == library.path());
          }
          return 0;
        }) == 0);
  fs::remove(link);
}

TEST_CASE("a named file is loaded if no other is", "[cupti]") {
  const Installed library("some_cupti.so");
  CHECK(fakes::InChild([&] {
          cupti::Api api;
          HOLDS(cupti::LoadCupti(library.path(), &api).ok());
          HOLDS(api.path == library.path());
          HOLDS(cupti::LoadCupti(library.path() + ".1", &api).code() == StatusCode::kNotFound);
          return 0;
        }) == 0);
}

// Whether this one is taken with such a driver loaded and, unless null, this runtime.
bool IsTaken(std::string_view name, int driver_version, const char* runtime = nullptr) {
  const auto take = [&] {
    void* const driver = dlopen(PITOT_FAKE_DRIVER, RTLD_NOW | RTLD_LOCAL);
    HOLDS(driver != nullptr);
    reinterpret_cast<fakes::FakeDriver* (*)()>(dlsym(driver, "fake_driver"))()->version = driver_version;
    if (runtime != nullptr) HOLDS(dlopen(runtime, RTLD_NOW | RTLD_LOCAL) != nullptr);
    cupti::Api api;
    HOLDS(cupti::LoadCupti("", &api).ok());
    HOLDS(fs::path(api.path).filename() == name);
    return 0;
  };
  return fakes::InChild(take) == 0;
}

// Whether the machine has an older one.
bool HasOther() {
  const auto has = [] {
    return dlopen("libcupti.so.12", RTLD_LAZY) != nullptr || dlopen("libcupti.so.11.8", RTLD_LAZY);
  };
  return fs::exists("/usr/local/cuda") || fakes::InChild(has) != 0;
}

TEST_CASE("the CUPTI of the driver's CUDA, or the newest before it, is taken without a loaded runtime", "[cupti]") {
  const Installed of_12("libcupti.so.12"), of_13("libcupti.so.13", PITOT_FAKE_CUPTI_OLD);
  CHECK(IsTaken("libcupti.so.12", 12'040));
  CHECK(IsTaken("libcupti.so.13", 13'000));
  CHECK(IsTaken("libcupti.so.13", 14'010));
}

TEST_CASE("a CUPTI newer than the driver comes after all others, and is taken if there is no other", "[cupti]") {
  const Installed of_13("libcupti.so.13");
  if (!HasOther()) CHECK(IsTaken("libcupti.so.13", 11'080));
  const Installed of_11("libcupti.so.11.8", PITOT_FAKE_CUPTI_OLD);
  CHECK(IsTaken("libcupti.so.11.8", 11'080));
}

TEST_CASE("a loaded runtime decides which CUPTI is taken, whatever the driver", "[cupti]") {
  const Installed of_12("libcupti.so.12"), of_13("libcupti.so.13", PITOT_FAKE_CUPTI_OLD);
  const Installed runtime("libcudart.so.12");  // no question is put to it
  CHECK(IsTaken("libcupti.so.12", 13'000, runtime.path().c_str()));
}

}  // namespace
