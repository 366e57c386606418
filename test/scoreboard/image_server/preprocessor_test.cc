// SPDX-License-Identifier: Apache-2.0
#include "scoreboard/image_server/preprocessor.h"

#include <catch2/catch.hpp>
#include <stdexcept>
#include <thread>
#include <vector>

namespace image_server {
namespace {

TEST_CASE("without threads of its own a preprocessor works on the caller's", "[preprocessor]") {
  Preprocessor preprocessor(0, {});
  pitot::Request request;  // inert
  std::thread::id at;

  preprocessor.Run(request, 1, [&] { at = std::this_thread::get_id(); });

  CHECK(at == std::this_thread::get_id());
}

TEST_CASE("what a preprocessor's work throws its caller gets", "[preprocessor]") {
  Preprocessor preprocessor(1, {});
  pitot::Request request;

  CHECK_THROWS_AS(preprocessor.Run(request, 1, [] { throw std::logic_error("bad picture"); }), std::logic_error);
}

TEST_CASE("who waited for a preprocessor's thread is told for whom that was at work", "[preprocessor]") {
  std::vector<uint64_t> seen;
  std::promise<void> begun, go_on, queued;
  Preprocessor preprocessor(
      1, [&](uint64_t request, uint64_t queued_ns, uint64_t busy_until_ns, std::span<const uint64_t> others) {
        seen = {request, others[0], busy_until_ns >= queued_ns};
      });
  std::thread first([&] {
    pitot::Request request;
    preprocessor.Run(request, 5, [&] {
      begun.set_value();
      go_on.get_future().wait();
    });
  });
  begun.get_future().wait();
  std::thread second([&] {
    pitot::Request request;
    preprocessor.Run(request, 6, [] {});
  });
  while (!preprocessor.has_queued()) std::this_thread::yield();
  go_on.set_value();
  first.join();
  second.join();

  CHECK(seen == std::vector<uint64_t>{6, 5, 1});
}

}  // namespace
}  // namespace image_server
