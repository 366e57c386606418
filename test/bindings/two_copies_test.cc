// SPDX-License-Identifier: Apache-2.0
//
// A program with a C++ copy of the library that links libpitot_c.so, another copy.
#include <catch2/catch.hpp>
#include <string>
#include <thread>

#include "pitot/c.h"
#include "pitot/recorder.h"
#include "pitot/request.h"

TEST_CASE("only one copy records at a time, C++ or C", "[bindings]") {
  char message[512] = "";
  pitot_recorder* of_c = nullptr;

  SECTION("C is refused while C++ records, and the message names that copy's file") {
    pitot::Recorder of_cpp = pitot::Recorder::Start(pitot::Options());
    REQUIRE(of_cpp.status().ok());

    CHECK(pitot_recorder_start(nullptr, &of_c, message, sizeof message) == PITOT_ALREADY_RUNNING);
    CHECK(of_c == nullptr);
    INFO(message);
    CHECK(std::string(message).find("two_copies_test") != std::string::npos);

    of_cpp.Stop();
    CHECK(pitot_recorder_start(nullptr, &of_c, message, sizeof message) == PITOT_OK);
  }

  SECTION("C++ is refused while C records, and the message names that copy's file") {
    REQUIRE(pitot_recorder_start(nullptr, &of_c, message, sizeof message) == PITOT_OK);

    pitot::Recorder of_cpp = pitot::Recorder::Start(pitot::Options());
    CHECK(of_cpp.status().code() == pitot::StatusCode::kAlreadyRunning);
    INFO(of_cpp.status().message());
    CHECK(std::string(of_cpp.status().message()).find("libpitot_c") != std::string::npos);

    pitot_recorder_stop(of_c, 5000);
    of_cpp = pitot::Recorder::Start(pitot::Options());
    CHECK(of_cpp.status().ok());
  }
  pitot_recorder_free(of_c);
}

TEST_CASE("each copy's threads and requests are its own", "[bindings]") {
  pitot::Recorder of_cpp = pitot::Recorder::Start(pitot::Options());
  REQUIRE(of_cpp.status().ok());

  std::thread([] {
    CHECK(pitot_request_begin("/c", nullptr, 0) == nullptr);
    pitot_scope_begin(pitot_intern("c"));
    pitot::Request request = pitot::Request::Begin("/cpp");
    CHECK(request.id() != 0);
    CHECK(pitot_this_owner().request == 0);
    request.Finish(pitot::Outcome::kOk);
    pitot_scope_end();
  }).join();

  CHECK(of_cpp.Stats().requests_finished == 1);
  CHECK(of_cpp.Stats().threads_retired == 1);
}
