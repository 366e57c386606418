// SPDX-License-Identifier: Apache-2.0
//
// Profiles of kernels through C, over a fake driver and a fake CUPTI.
#include <dlfcn.h>

#include <catch2/catch.hpp>
#include <cstring>
#include <string>

#include "pitot/c.h"

namespace {

// A running server and its recorder.
class Server {
 public:
  Server() {
    static void* const driver = dlopen(PITOT_FAKE_DRIVER, RTLD_NOW | RTLD_LOCAL);
    static void* const library = driver != nullptr ? dlopen(PITOT_PROFILED_SERVER, RTLD_NOW | RTLD_LOCAL) : nullptr;
    INFO((library == nullptr ? dlerror() : ""));
    REQUIRE(library != nullptr);
    reinterpret_cast<void (*)()>(dlsym(library, "begin_server"))();
    end_ = reinterpret_cast<void (*)()>(dlsym(library, "end_server"));
    REQUIRE(pitot_recorder_start(nullptr, &recorder, nullptr, 0) == PITOT_OK);
    REQUIRE(pitot_recorder_add_cuda_calls(recorder, nullptr, nullptr, 0) == PITOT_OK);
    pitot_profile_options_init(&options, sizeof options);
    options.kernel = "FusedAttention";
    options.library = PITOT_FAKE_RANGE;
  }
  ~Server() {
    end_();
    pitot_profile_free(profile);
    pitot_recorder_free(recorder);
  }
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  pitot_status Profile() {
    pitot_profile_free(profile);
    return pitot_profile_kernels(recorder, &options, &profile, message, sizeof message);
  }
  pitot_profile_counts Counts() {
    pitot_profile_counts counts;
    counts.size = sizeof counts;
    CHECK(pitot_profile_count(profile, &counts, nullptr, 0) == PITOT_OK);
    return counts;
  }

  pitot_recorder* recorder = nullptr;
  pitot_profile_options options;
  pitot_profile* profile = nullptr;
  char message[256] = "";

 private:
  void (*end_)() = nullptr;
};

}  // namespace

TEST_CASE("a profile of C has the values of the chosen kernel", "[bindings]") {
  Server server;

  const pitot_status status = server.Profile();

  INFO(server.message);
  REQUIRE(status == PITOT_OK);
  CHECK(server.Counts().kernels == 1);
  CHECK(server.Counts().launches_measured == 33);
  CHECK(server.Counts().launches_seen > 33);
  pitot_kernel_profile kernel;
  kernel.size = sizeof kernel;
  REQUIRE(pitot_profile_kernel(server.profile, 0, &kernel, nullptr, 0) == PITOT_OK);
  CHECK_THAT(kernel.name, Catch::StartsWith("FusedAttention"));
  CHECK(kernel.launches == 33);
  CHECK((kernel.grid[0] == 128 && kernel.grid[2] == 1 && kernel.block[0] == 64));
  CHECK(kernel.registers_per_thread == 168);
  CHECK(kernel.static_shared_bytes == 0);
  for (const double value :
       {kernel.duration_ns, kernel.achieved_occupancy_percent, kernel.l2_hit_percent, kernel.dram_percent,
        kernel.dram_read_bytes, kernel.dram_written_bytes, kernel.tensor_percent, kernel.sm_percent})
    CHECK(value == 50);
  CHECK(pitot_profile_kernel(server.profile, 1, &kernel, nullptr, 0) == PITOT_NOT_FOUND);
}

TEST_CASE("a value that was not measured is negative in C", "[bindings]") {
  Server server;
  server.options.metrics = PITOT_PROFILE_METRICS_BASIC;
  server.options.launches = 1;
  REQUIRE(server.Profile() == PITOT_OK);
  pitot_kernel_profile kernel;
  kernel.size = sizeof kernel;
  REQUIRE(pitot_profile_kernel(server.profile, 0, &kernel, nullptr, 0) == PITOT_OK);
  CHECK(kernel.duration_ns == 50);
  CHECK(kernel.sm_percent < 0);
  CHECK(kernel.l2_hit_percent < 0);
}

TEST_CASE("texts of C are cut at the caller's room, and have their full length", "[bindings]") {
  Server server;
  REQUIRE(server.Profile() == PITOT_OK);
  const size_t length = pitot_profile_text(server.profile, nullptr, 0);
  std::string text(length + 1, 'x');
  CHECK(pitot_profile_text(server.profile, text.data(), text.size()) == length);
  CHECK_THAT(text, Catch::StartsWith("FusedAttention"));
  CHECK(text.find('\0') == length);
  char few[6] = "xxxxx";
  CHECK(pitot_profile_text(server.profile, few, sizeof few) == length);
  CHECK(std::string(few) == "Fused");
  char compared[512] = "";
  const size_t whole = pitot_profile_compare("one", server.profile, "other", server.profile, compared, sizeof compared);
  CHECK(whole == std::strlen(compared));
  CHECK_THAT(compared, Catch::Contains("one") && Catch::Contains("other"));
}

TEST_CASE("a profile with too few launches says so and has what was measured", "[bindings]") {
  Server server;
  server.options.kernel = "NoSuchKernel";
  server.options.timeout_ms = 50;
  CHECK(server.Profile() == PITOT_UNAVAILABLE);
  CHECK_THAT(server.message, Catch::Contains("NoSuchKernel"));
  REQUIRE(server.profile != nullptr);
  CHECK(server.Counts().kernels == 0);
  CHECK(server.Counts().launches_seen > 0);
}

TEST_CASE("a wrong option of a profile is named in C", "[bindings]") {
  Server server;
  const auto is_refused = [&](const char* word) {
    const bool is_it = server.Profile() == PITOT_INVALID_ARGUMENT && server.profile == nullptr &&
                       std::strstr(server.message, word) != nullptr;
    pitot_profile_options_init(&server.options, sizeof server.options);
    return is_it;
  };
  server.options.launches = 0;
  CHECK(is_refused("launches"));
  server.options.timeout_ms = 600'001;
  CHECK(is_refused("timeout_ms"));
  server.options.replay = 2;
  CHECK(is_refused("replay"));
  server.options.replay = 256;
  CHECK(is_refused("replay"));
  server.options.metrics = -1;
  CHECK(is_refused("metrics"));
  server.options.reserved = 1;
  CHECK(is_refused("reserved"));
  server.options.size = 0;
  CHECK(is_refused("_init"));
  CHECK(pitot_profile_kernels(server.recorder, nullptr, nullptr, nullptr, 0) == PITOT_INVALID_ARGUMENT);
}

TEST_CASE("functions of profiles accept NULL", "[bindings]") {
  pitot_profile* profile = nullptr;
  CHECK(pitot_profile_kernels(nullptr, nullptr, &profile, nullptr, 0) == PITOT_NOT_RUNNING);
  CHECK(profile == nullptr);
  pitot_profile_counts counts;
  counts.size = sizeof counts;
  CHECK(pitot_profile_count(nullptr, &counts, nullptr, 0) == PITOT_OK);
  CHECK((counts.size == sizeof counts && counts.kernels == 0 && counts.launches_seen == 0));
  CHECK(pitot_profile_count(nullptr, nullptr, nullptr, 0) == PITOT_INVALID_ARGUMENT);
  CHECK(pitot_profile_kernel(nullptr, 0, nullptr, nullptr, 0) == PITOT_INVALID_ARGUMENT);
  pitot_kernel_profile kernel;
  kernel.size = sizeof kernel;
  CHECK(pitot_profile_kernel(nullptr, 0, &kernel, nullptr, 0) == PITOT_NOT_FOUND);
  char text[4] = "xxx";
  CHECK(pitot_profile_text(nullptr, text, sizeof text) == 0);
  CHECK(text[0] == '\0');
  CHECK(pitot_profile_compare(nullptr, nullptr, nullptr, nullptr, text, sizeof text) == 0);
  pitot_profile_free(nullptr);
}
