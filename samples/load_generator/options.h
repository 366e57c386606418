// SPDX-License-Identifier: Apache-2.0
//
// The load generator's command line.
#ifndef SAMPLES_LOAD_GENERATOR_OPTIONS_H_
#define SAMPLES_LOAD_GENERATOR_OPTIONS_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "load_generator/arrivals.h"
#include "load_generator/lengths.h"

namespace load_generator {

struct Options {
  std::string host = "127.0.0.1";  // a loopback address
  int port = 0;
  bool is_closed_loop = false;
  // Number of connections. Open loop: the limit for requests in flight. An arrival without a free connection is sent
  // late; its latency counts from its intended time.
  size_t concurrency = 32;
  ArrivalOptions arrivals;  // duration_s includes the warm-up
  double warm_up_s = 2;     // excluded from the statistics
  int image_size = 224;
  int big_size = 1024;
  size_t slowest = 20;
  bool list_latencies = false;

  // Text generation instead of pictures.
  bool is_generating = false;
  LengthOptions prompt{.mean = 48, .most = 192};
  LengthOptions output{.mean = 24, .most = 96};
  size_t long_prompt = 384;  // length of the prompts in arrivals.big_share
  double cancel_share = 0;   // share of requests whose client leaves half-way

  std::string json_file;
  std::string fault_log;
};

// Exits the process for --help and for errors, including a host other than this machine.
Options ParseOptions(int argc, char** argv);

}  // namespace load_generator

#endif  // SAMPLES_LOAD_GENERATOR_OPTIONS_H_
