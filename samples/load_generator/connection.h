// SPDX-License-Identifier: Apache-2.0
//
// Common parts of all connections to a server.
#ifndef SAMPLES_LOAD_GENERATOR_CONNECTION_H_
#define SAMPLES_LOAD_GENERATOR_CONNECTION_H_

#include <cinttypes>
#include <cstdio>
#include <random>
#include <string>

#include <httplib.h>  // compiled with `pkg-config --cflags cpp-httplib`: without, its classes have another layout

namespace load_generator {

// Keeps the connection alive, and sends without delay.
inline void Prepare(httplib::Client* client, int read_timeout_s) {
  client->set_keep_alive(true);
  client->set_tcp_nodelay(true);
  client->set_connection_timeout(5);
  client->set_read_timeout(read_timeout_s);
}

// Makes a header of W3C's trace context with a new trace.
inline std::string MakeTraceparent(std::mt19937_64* random) {
  char text[56];
  const uint64_t high = (*random)(), low = (*random)(), parent = (*random)();
  std::snprintf(text, sizeof text, "00-%016" PRIx64 "%016" PRIx64 "-%016" PRIx64 "-01", high, low, parent);
  return text;
}

}  // namespace load_generator

#endif  // SAMPLES_LOAD_GENERATOR_CONNECTION_H_
