// SPDX-License-Identifier: Apache-2.0
#include "load_generator/pacing.h"

#include <sys/prctl.h>
#include <time.h>

#include <atomic>
#include <cerrno>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <httplib.h>  // compiled with `pkg-config --cflags cpp-httplib`: without, its classes have another layout

namespace load_generator {

uint64_t MonotonicNs() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000u + static_cast<uint64_t>(now.tv_nsec);
}

void SleepUntil(uint64_t ns) {
  const timespec until{static_cast<time_t>(ns / 1'000'000'000u), static_cast<long>(ns % 1'000'000'000u)};
  while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, nullptr) == EINTR) {}
}

void CheckServer(const Options& options) {
  httplib::Client client(options.host, options.port);
  client.set_connection_timeout(5);
  const httplib::Result result = client.Get("/healthz");
  if (!result || result->status != 200) {
    throw std::runtime_error("no healthy server on " + options.host + ":" + std::to_string(options.port) +
                             "; start one, or see --help for --port");
  }
}

void SendAtTheirTimes(std::span<const uint64_t> at_ns, size_t concurrency,
                      const std::function<void(size_t connection, size_t index)>& send) {
  std::atomic<size_t> next{0};
  std::vector<std::thread> threads;
  for (size_t connection = 0; connection < concurrency; ++connection) {
    threads.emplace_back([&, connection] {
      prctl(PR_SET_TIMERSLACK, 1);  // ns; by default every sleep may end 50 us late
      for (size_t at = next++; at < at_ns.size(); at = next++) {
        SleepUntil(at_ns[at]);
        send(connection, at);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace load_generator
