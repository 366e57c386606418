// SPDX-License-Identifier: Apache-2.0
#include "gpu_common/sample.h"

#include <cuda_runtime.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <map>
#include <stdexcept>
#include <utility>

#include "pitot/collect/cupti.h"
#include "pitot/collect/nvml.h"

namespace gpu_common {
namespace {

constexpr double kMostSeconds = 60;
constexpr int kMostRequests = 1'000'000'000;

constexpr std::pair<const char*, pitot::Depth> kDepths[] = {{"scopes", pitot::Depth::kScopes},
                                                            {"graphs", pitot::Depth::kGraphs},
                                                            {"kernels", pitot::Depth::kKernels},
                                                            {"ops", pitot::Depth::kOps},
                                                            {"auto", pitot::Depth::kAuto}};

bool ReadNumber(const char* text, double* value) {
  char* end = nullptr;
  *value = std::strtod(text, &end);
  return end != text && *end == '\0' && std::isfinite(*value);
}

}  // namespace

Arguments::Arguments(const char* program, const char* about, double seconds)
    : program_(program), about_(about), seconds_(seconds) {
  options_.push_back(
      {"--incident-dir", "where the incident goes (default ./incidents)", "DIR", [this](const char* text) {
         incident_directory_ = text;
         return incident_directory_.empty() ? "a directory" : nullptr;
       }});
  options_.push_back({"--depth", "how deep to record: scopes, graphs, kernels (default), ops or auto", "DEPTH",
                      [this](const char* text) {
                        for (const auto& [name, depth] : kDepths) {
                          if (std::strcmp(name, text) != 0) continue;
                          depth_ = depth;
                          return static_cast<const char*>(nullptr);
                        }
                        return "scopes, graphs, kernels, ops or auto";
                      }});
  char help[80];
  std::snprintf(help, sizeof help, "how long to run, and what the incident holds (default %g)", seconds);
  options_.push_back({"--seconds", help, "S", [this](const char* text) {
                        return ReadNumber(text, &seconds_) && seconds_ > 0 && seconds_ <= kMostSeconds
                                   ? nullptr
                                   : "a number above 0 and up to 60";
                      }});
  Number("--requests", "stop after so many; 0: when the time is over (default)", 0, kMostRequests, &requests_);
}

void Arguments::Flag(const char* name, const char* help, bool* value) {
  options_.push_back({name, help, nullptr, [value](const char*) {
                        *value = true;
                        return nullptr;
                      }});
}

void Arguments::Number(const char* name, const char* help, int least, int most, int* value) {
  const std::string range = "a whole number from " + std::to_string(least) + " to " + std::to_string(most);
  options_.push_back({name, help, "N", [least, most, value, range](const char* text) {
                        double number = 0;
                        if (!ReadNumber(text, &number) || number != std::floor(number) || number < least ||
                            number > most)
                          return range.c_str();
                        *value = static_cast<int>(number);
                        return static_cast<const char*>(nullptr);
                      }});
}

void Arguments::Parse(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--help") == 0 || std::strcmp(argv[i], "-h") == 0) {
      Help();
      throw Exit{kDone};
    }
    const auto option =
        std::find_if(options_.begin(), options_.end(), [&](const Option& known) { return known.name == argv[i]; });
    if (option == options_.end()) {
      std::fprintf(stderr, "%s: unknown argument '%s'; --help says what there is\n", program_, argv[i]);
      throw Exit{kBadUsage};
    }
    const char* value = nullptr;
    if (option->value_name != nullptr) value = i + 1 < argc ? argv[++i] : "";
    if (const char* wanted = option->Assign(value); wanted != nullptr) {
      std::fprintf(stderr, "%s: %s needs %s\n", program_, option->name.c_str(), wanted);
      throw Exit{kBadUsage};
    }
  }
}

void Arguments::Help() const {
  std::printf("usage: %s [options]\n\n%s\n\n", program_, about_);
  for (const Option& option : options_) {
    const std::string head =
        option.name + (option.value_name != nullptr ? std::string(" ") + option.value_name : std::string());
    std::printf("  %-20s %s\n", head.c_str(), option.help.c_str());
  }
  std::printf(
      "\nExit codes: 0 done, 1 failed (CUDA, or a wrong result), 2 bad usage, 77 no GPU or nothing to record it.\n");
}

void RequireGpu(const char* program) {
  int devices = 0;
  const cudaError_t error = cudaGetDeviceCount(&devices);
  if (error == cudaSuccess && devices > 0) return;
  std::printf("%s: skipped, there is no GPU to run on (%s).\n", program,
              error == cudaSuccess ? "CUDA counts none" : cudaGetErrorString(error));
  throw Exit{kSkipped};
}

Recording::Recording(const Arguments& arguments) : program_(arguments.program()) {
  pitot::Options options = pitot::Options::FromEnvironment();
  options.incident_directory = arguments.incident_directory().c_str();
  options.depth = arguments.depth();
  // The incident is triggered right after the run, and covers the run without CUDA's start before it.
  options.pre_window_ms = static_cast<uint32_t>(std::ceil(arguments.seconds() * 1000));
  options.post_window_ms = 0;
  options.perfetto_file = true;  // to look at
  // A sample makes as many calls as it can on one thread; these sizes keep all of them.
  options.memory_budget_bytes = 512ull << 20;
  options.max_ring_bytes = 16ull << 20;
  options.log = [](void*, pitot::LogLevel level, const char* message) {
    if (level != pitot::LogLevel::kInfo) std::fprintf(stderr, "recorder: %s\n", message);
  };
  pitot::SetThreadName("server");
  recorder_ = pitot::Recorder::Start(options);
  if (recorder_.status().ok()) {
    pitot::Hooks hooks;
    hooks.on_incident = OnIncident;
    hooks.context = this;
    recorder_.SetHooks(hooks);
    pitot::CuptiOptions cupti;
    cupti.attach = pitot::CuptiAttach::kAtStart;
    cupti.graph_level = arguments.depth() == pitot::Depth::kGraphs;
    has_cupti_ = recorder_.Add(pitot::MakeCuptiCollector(cupti)).ok();
    recorder_.Add(pitot::MakeNvmlCollector());
  }
  RequireGpu(program_);
}

void Recording::OnIncident(void* context, const pitot::IncidentInfo& incident) {
  auto* const self = static_cast<Recording*>(context);
  const std::lock_guard lock(self->mutex_);
  if (incident.directory != nullptr) self->directory_ = incident.directory;
}

int Recording::Incident(const char* reason, const char* look_at) {
  pitot::Status status = recorder_.Trigger(reason);
  if (status.ok()) status = recorder_.Flush(60'000);
  const std::lock_guard lock(mutex_);
  if (directory_.empty()) {
    std::printf("%s: no incident was written: %s\n", program_, status.ok() ? "see above" : status.message());
    return status.code() == pitot::StatusCode::kDisabled ? kSkipped : 1;
  }
  std::printf("incident: %s\n", directory_.c_str());
  if (!has_cupti_) {
    std::printf("%s: skipped, without CUPTI the incident holds nothing of the GPU.\n", program_);
    return kSkipped;
  }
  std::printf("%s\n", look_at);
  return kDone;
}

void Serve(const Arguments& arguments, const std::function<const char*(int number)>& serve) {
  using Clock = std::chrono::steady_clock;
  std::map<std::string, std::vector<double>> routes;  // ms of each request
  int requests = 0;
  const Clock::time_point begin = Clock::now();
  const auto end = begin + std::chrono::duration<double>(arguments.seconds());
  Clock::time_point now = begin;
  do {
    const char* const route = serve(requests++);
    const Clock::time_point done = Clock::now();
    routes[route].push_back(std::chrono::duration<double, std::milli>(done - now).count());
    now = done;
  } while (now < end && (arguments.requests() == 0 || requests < arguments.requests()));
  for (auto& [route, ms] : routes) {
    std::sort(ms.begin(), ms.end());
    std::printf("%s: %zu requests, median %.3f ms, longest %.3f ms\n", route.c_str(), ms.size(), ms[ms.size() / 2],
                ms.back());
  }
}

void CheckClose(const char* what, const float* values, const float* expected, size_t size, float tolerance) {
  for (size_t i = 0; i < size; ++i) {
    // The comparison is written so that a NaN fails.
    if (std::fabs(values[i] - expected[i]) <= tolerance * std::max(1.0f, std::fabs(expected[i]))) continue;
    char text[160];
    std::snprintf(text, sizeof text, "wrong result: %s %zu is %g, the CPU says %g", what, i,
                  static_cast<double>(values[i]), static_cast<double>(expected[i]));
    throw std::runtime_error(text);
  }
}

int RunSample(const char* program, const std::function<int()>& sample) {
  try {
    return sample();
  } catch (const Exit& exit) {
    return exit.code;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s: %s\n", program, error.what());
    return 1;
  }
}

}  // namespace gpu_common
