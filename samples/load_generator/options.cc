// SPDX-License-Identifier: Apache-2.0
#include "load_generator/options.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include "server_common/command_line.h"

namespace load_generator {
namespace {

bool IsLoopback(const std::string& host) {
  in_addr v4{};
  in6_addr v6{};
  if (inet_pton(AF_INET, host.c_str(), &v4) == 1) return (ntohl(v4.s_addr) >> 24) == 127;
  return inet_pton(AF_INET6, host.c_str(), &v6) == 1 && IN6_IS_ADDR_LOOPBACK(&v6);
}

}  // namespace

Options ParseOptions(int argc, char** argv) {
  using server_common::kAboveZero;
  Options options;
  ArrivalOptions& arrivals = options.arrivals;
  double duration_s = arrivals.duration_s;

  server_common::CommandLine command_line(
      "Sends JPEGs that it makes itself to an image server on this machine, or prompts to a decode server, and "
      "measures latency from outside.");
  command_line.Add("--port", &options.port, "The server's port", {1, 65535});
  command_line.Require();
  command_line.Add("--host", &options.host, "A loopback address; any other host is refused");
  command_line.Add("--duration", &duration_s, "Seconds that are measured", kAboveZero);
  command_line.Add("--warm-up", &options.warm_up_s, "Seconds before that", server_common::kNotNegative);
  command_line.Add("--json", &options.json_file, "File for the results; -: standard output");
  command_line.Add("--fault-log", &options.fault_log,
                   "File for a JSON line for each request of a burst or of a big picture");
  command_line.Add("--slowest", &options.slowest, "How many requests to list in it, slowest first");
  command_line.AddFlag("--list-latencies", &options.list_latencies, "List every latency in it, in order of arrival");
  command_line.Add("--seed", &arrivals.seed, "Of arrivals, pictures and lengths");

  command_line.Group("Load");
  command_line.Add("--rate", &arrivals.rate, "Arrivals a second, Poisson", kAboveZero);
  command_line.AddFlag("--closed", &options.is_closed_loop, "Closed loop: each connection sends when it has its reply");
  command_line.Add("--concurrency", &options.concurrency, "Connections", {1, 4096});
  command_line.Add("--burst", &arrivals.burst, "This many more at one instant...");
  command_line.Add("--burst-every", &arrivals.burst_every_s, "...every so many seconds", kAboveZero);

  command_line.Group("Pictures");
  command_line.Add("--image-size", &options.image_size, "Side of the pictures", {8, 8192});
  command_line.Add("--big-share", &arrivals.big_share, "Share of requests with a big picture, or a long prompt",
                   {0, 1});
  command_line.Add("--big-size", &options.big_size, "Side of those", {8, 8192});

  command_line.Group("Text");
  command_line.AddFlag("--generate", &options.is_generating,
                       "Send prompts to /generate in place of pictures; open loop");
  command_line.Add("--prompt-mean", &options.prompt.mean, "Tokens of a prompt, log-normal", kAboveZero);
  command_line.Add("--prompt-max", &options.prompt.most, "At most", kAboveZero);
  command_line.Add("--output-mean", &options.output.mean, "Tokens to generate, log-normal", kAboveZero);
  command_line.Add("--output-max", &options.output.most, "At most", kAboveZero);
  command_line.Add("--long-prompt", &options.long_prompt, "Tokens of the prompts that --big-share is the share of",
                   kAboveZero);
  command_line.Add("--cancel-share", &options.cancel_share, "Share of requests whose client leaves half-way", {0, 1});

  command_line.Parse(argc, argv, [&] {
    if (options.host == "localhost") options.host = "127.0.0.1";
    if (!IsLoopback(options.host)) {
      throw server_common::BadOption("--host",
                                     options.host + " is not a loopback address: this tool loads this machine only");
    }
    if (options.is_generating && options.is_closed_loop) {
      throw server_common::BadOption("--generate", "there is no --closed loop of it");
    }
  });
  arrivals.duration_s = duration_s + options.warm_up_s;
  return options;
}

}  // namespace load_generator
