// SPDX-License-Identifier: Apache-2.0
//
// Which libcupti is taken. What is loaded stays: each choice is made in a child of its own.
#include <dlfcn.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <string>

#include "collect/cupti/api.h"
#include "fakes/child.h"

namespace {

namespace cupti = pitot::cupti;
namespace fs = std::filesystem;
using pitot::Status;
using pitot::StatusCode;

// Where the loader finds what is asked for by name: it was there when the program began, or the loader would not look.
const fs::path kFolder = PITOT_CHOICE_FOLDER;

// A library of that name there, for as long as this.
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

TEST_CASE("the file that is named is taken where it is the one that is loaded, by whatever path", "[cupti]") {
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

TEST_CASE("the file that is named is loaded where no other is", "[cupti]") {
  const Installed library("some_cupti.so");
  CHECK(fakes::InChild([&] {
          cupti::Api api;
          HOLDS(cupti::LoadCupti(library.path(), &api).ok());
          HOLDS(api.path == library.path());
          HOLDS(cupti::LoadCupti(library.path() + ".1", &api).code() == StatusCode::kNotFound);
          return 0;
        }) == 0);
}

}  // namespace
