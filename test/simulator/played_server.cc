// SPDX-License-Identifier: Apache-2.0
//
// Plays a server with faults that no real one may be given (the clock of a card is never changed), or that need a GPU.
// It leaves the scoreboard's input of a run: a dump, and the simulator's truth about each request.
#include <sys/stat.h>

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <fstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "fakes/string_sink.h"
#include "pitot/serialize/dump.h"
#include "simulator/simulator.h"
#include "simulator/slow.h"

namespace simulator {
namespace {

constexpr int64_t kUs = 1'000, kMs = 1'000 * kUs;
// The quiet time before each dose, and the dose. Requests are compared with the 512 around them: a tenth of these is
// hit.
constexpr int64_t kQuietNs = 5'000 * kMs, kStruckNs = 600 * kMs;
constexpr int64_t kMeanIntervalNs = 12 * kMs;
constexpr uint32_t kRequests = 1'100;  // 13.2 s of them
constexpr double kClocks[] = {0.6, 0.4};
constexpr double kLeftOfCpus[] = {0.6, 0.4};

struct Faults {
  bool is_clock_low = false, is_crowded = false, has_neighbour = false, is_slower = false, has_more = false;
};

// A server that decodes, and runs three kernels for each batch.
ServerSpec Server(uint64_t seed, const Faults& faults) {
  ServerSpec spec;
  spec.seed = seed;
  spec.requests = kRequests;
  spec.mean_interval_ns = kMeanIntervalNs;
  spec.streams = 1;
  for (const auto& [name, threads] : {std::pair("http", 3u), std::pair("reply", 2u)}) {
    Pool pool;
    pool.name = pool.queue.name = name;
    pool.threads = threads;
    spec.pools.push_back(pool);
  }
  const Time conv{(faults.is_slower ? 1'500 : 1'000) * kUs, 10 * kUs}, api{20 * kUs, kUs};
  std::vector<Step> kernels(faults.has_more ? 3 : 2, Step::Launch(0, "conv", conv, api));
  kernels.push_back(Step::Launch(0, "gemm", {kMs, 10 * kUs}, api));
  kernels.push_back(Step::Sync(0, {8 * kUs, kUs}));
  Model model;
  model.name = "resnet50";
  model.queue = {.name = "images"};
  model.max_batch = 4;
  model.max_delay_ns = 200 * kUs;
  model.steps = {Step::Compute("forward", {200 * kUs, 10 * kUs}, kernels)};
  spec.models = {model};
  spec.routes.resize(faults.has_neighbour ? 2 : 1);
  spec.routes[0].name = "/classify";
  spec.routes[0].weight = 25;
  spec.routes[0].steps = {Step::Compute("decode", {2 * kMs, 20 * kUs}), Step::Infer(0, 1),
                          Step::Compute("respond", {200 * kUs, 10 * kUs})};
  if (faults.has_neighbour) {
    spec.routes[1].name = "/neighbour";
    spec.routes[1].weight = 2;
    spec.routes[1].steps = {Step::Compute(
        "segment", {100 * kUs, kUs}, {Step::Launch(0, "unet", {10 * kMs, kMs}, api), Step::Sync(0, {8 * kUs, kUs})})};
  }
  for (size_t i = 0; i < 2; ++i) {
    const int64_t begin_ns = kQuietNs + static_cast<int64_t>(i) * (kQuietNs + kStruckNs);
    if (faults.is_clock_low) spec.slow_clocks.push_back({begin_ns, begin_ns + kStruckNs, kClocks[i]});
    if (faults.is_crowded) spec.taken_cpus.push_back({begin_ns, begin_ns + kStruckNs, kLeftOfCpus[i]});
  }
  return spec;
}

std::string Hexadecimal(uint64_t id) {
  char text[17];
  std::snprintf(text, sizeof text, "%016" PRIx64, id);
  return text;
}

class Log {
 public:
  void Write(const TrueRequest& request, const char* fault, const std::string& dose, int64_t injected_ns,
             const std::string& more = {}) {
    text_ += "{\"time_ns\":" + std::to_string(request.begin_ns) + ",\"request\":\"" + Hexadecimal(request.id) +
             "\",\"fault\":\"" + fault + "\",\"injected_ns\":" + std::to_string(injected_ns) + ",\"as\":\"" + fault +
             ":" + dose + "\"" + more + "}\n";
  }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

// How much longer the request's own way was, for each dose.
void WriteSlow(const TrueRequest& request, Cause cause, const std::vector<Slow>& slows, const char* fault, Log* log) {
  for (const Slow& slow : slows) {
    int64_t lost_ns = 0;
    for (const Segment& segment : request.path) {
      if (segment.cause == cause) lost_ns += LostNs(segment.begin_ns, segment.end_ns, {slow});
    }
    if (lost_ns > 0) log->Write(request, fault, "dose_speed=" + std::to_string(slow.speed).substr(0, 4), lost_ns);
  }
}

std::string InjectionsOf(const Truth& truth) {
  Log log;
  for (const TrueRequest& request : truth.requests) {
    if (request.route != "/classify") continue;
    WriteSlow(request, Cause::kKernel, truth.slow_clocks, "gpu_clock_low", &log);
    WriteSlow(request, Cause::kOnCpu, truth.taken_cpus, "cpu_crowded", &log);
    for (const Segment& segment : request.path) {
      const int64_t ns = segment.end_ns - segment.begin_ns;
      if (segment.cause == Cause::kGpuQueueWait && segment.culprit.request != 0)
        log.Write(request, "neighbour", "dose_ms=10", ns,
                  ",\"holder\":\"" + Hexadecimal(segment.culprit.request) + "\"");
      // Not a fault of its own, but true: its executor was at work for others.
      if (segment.cause == Cause::kQueueWait) log.Write(request, "queued", "", ns, ",\"others\":[]");
    }
  }
  return log.text();
}

void WriteFile(const std::string& path, const std::string& bytes) {
  std::ofstream file(path, std::ios::binary);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  file.close();
  if (!file) throw std::runtime_error("cannot write " + path);
}

int Main(int argc, char** argv) {
  CLI::App app(
      "Plays a server with a fault; leaves its dump and the truth of each request where the scoreboard reads them.");
  uint64_t seed = 1;
  std::string out;
  std::vector<std::string> asked;
  app.add_option("--out", out, "An existing folder")->required()->check(CLI::ExistingDirectory);
  app.add_option("--seed", seed, "Of arrivals and times")->capture_default_str();
  app.add_option("--fault", asked, "What is slow; repeatable")
      ->check(CLI::IsMember({"gpu_clock_low", "cpu_crowded", "neighbour", "slower_kernel", "more_kernels"}));
  CLI11_PARSE(app, argc, argv);

  const auto is_asked = [&](const char* fault) { return std::find(asked.begin(), asked.end(), fault) != asked.end(); };
  const Run run = Simulate(Server(seed, {is_asked("gpu_clock_low"), is_asked("cpu_crowded"), is_asked("neighbour"),
                                         is_asked("slower_kernel"), is_asked("more_kernels")}));
  fakes::StringSink sink;
  if (const pitot::Status status = pitot::MakeDumpSerializer()->Serialize(run.trace, sink); !status.ok())
    throw std::runtime_error(status.message());
  for (const char* folder : {"/incidents", "/incidents/played"}) mkdir((out + folder).c_str(), 0700);
  WriteFile(out + "/incidents/played/dump.pitot", sink.bytes);
  WriteFile(out + "/injected.jsonl", InjectionsOf(run.truth));
  return 0;
}

}  // namespace
}  // namespace simulator

int main(int argc, char** argv) {
  try {
    return simulator::Main(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "played_server: %s\n", error.what());
    return 1;
  }
}
