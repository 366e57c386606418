// SPDX-License-Identifier: Apache-2.0
#include "load_generator/options.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <cstdlib>

#include <CLI/CLI.hpp>

namespace load_generator {
namespace {

bool IsLoopback(const std::string& host) {
  in_addr v4{};
  in6_addr v6{};
  if (inet_pton(AF_INET, host.c_str(), &v4) == 1) return (ntohl(v4.s_addr) >> 24) == 127;
  return inet_pton(AF_INET6, host.c_str(), &v6) == 1 && IN6_IS_ADDR_LOOPBACK(&v6);
}

// CLI11's own check prints the range, and both ends have hundreds of digits.
const CLI::Validator kAboveZero(
    [](const std::string& text) {
      double value = 0;
      return CLI::detail::lexical_cast(text, value) && value > 0 ? std::string() : text + " is not above 0";
    },
    "POSITIVE");

}  // namespace

Options ParseOptions(int argc, char** argv) {
  Options options;
  ArrivalOptions& arrivals = options.arrivals;
  double duration_s = arrivals.duration_s;

  CLI::App app(
      "Sends JPEGs that it makes itself to an image server on this machine, or prompts to a decode server, and "
      "measures latency from outside.");
  app.get_formatter()->column_width(34);
  app.option_defaults()->always_capture_default();
  app.add_option("--port", options.port, "The server's port")->required()->check(CLI::Range(1, 65535));
  app.add_option("--host", options.host, "A loopback address; any other host is refused");
  app.add_option("--duration", duration_s, "Seconds that are measured")->check(kAboveZero);
  app.add_option("--warm-up", options.warm_up_s, "Seconds before that")->check(CLI::NonNegativeNumber);
  app.add_option("--json", options.json_file, "File for the results; -: standard output");
  app.add_option("--fault-log", options.fault_log,
                 "File for a JSON line for each request of a burst or of a big picture");
  app.add_option("--slowest", options.slowest, "How many requests to list in it, slowest first");
  app.add_flag("--list-latencies", options.list_latencies, "List every latency in it, in order of arrival");
  app.add_option("--seed", arrivals.seed, "Of arrivals, pictures and lengths");

  auto* const load = "Load";
  app.add_option("--rate", arrivals.rate, "Arrivals a second, Poisson")->check(kAboveZero)->group(load);
  app.add_flag("--closed", options.is_closed_loop, "Closed loop: each connection sends when it has its reply")
      ->group(load);
  app.add_option("--concurrency", options.concurrency, "Connections")->check(CLI::Range(1, 4096))->group(load);
  app.add_option("--burst", arrivals.burst, "This many more at one instant...")->group(load);
  app.add_option("--burst-every", arrivals.burst_every_s, "...every so many seconds")->check(kAboveZero)->group(load);

  auto* const pictures = "Pictures";
  app.add_option("--image-size", options.image_size, "Side of the pictures")
      ->check(CLI::Range(8, 8192))
      ->group(pictures);
  app.add_option("--big-share", arrivals.big_share, "Share of requests with a big picture, or a long prompt")
      ->check(CLI::Range(0.0, 1.0))
      ->group(pictures);
  app.add_option("--big-size", options.big_size, "Side of those")->check(CLI::Range(8, 8192))->group(pictures);

  auto* const text = "Text";
  app.add_flag("--generate", options.is_generating, "Send prompts to /generate in place of pictures; open loop")
      ->group(text);
  app.add_option("--prompt-mean", options.prompt.mean, "Tokens of a prompt, log-normal")
      ->check(kAboveZero)
      ->group(text);
  app.add_option("--prompt-max", options.prompt.most, "At most")->check(kAboveZero)->group(text);
  app.add_option("--output-mean", options.output.mean, "Tokens to generate, log-normal")
      ->check(kAboveZero)
      ->group(text);
  app.add_option("--output-max", options.output.most, "At most")->check(kAboveZero)->group(text);
  app.add_option("--long-prompt", options.long_prompt, "Tokens of the prompts that --big-share is the share of")
      ->check(kAboveZero)
      ->group(text);
  app.add_option("--cancel-share", options.cancel_share, "Share of requests whose client leaves half-way")
      ->check(CLI::Range(0.0, 1.0))
      ->group(text);

  try {
    app.parse(argc, argv);
    if (options.host == "localhost") options.host = "127.0.0.1";
    if (!IsLoopback(options.host)) {
      throw CLI::ValidationError("--host",
                                 options.host + " is not a loopback address: this tool loads this machine only");
    }
    if (options.is_generating && options.is_closed_loop) {
      throw CLI::ValidationError("--generate", "there is no --closed loop of it");
    }
  } catch (const CLI::ParseError& error) {
    std::exit(app.exit(error) == 0 ? 0 : 2);
  }
  arrivals.duration_s = duration_s + options.warm_up_s;
  return options;
}

}  // namespace load_generator
