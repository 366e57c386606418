// SPDX-License-Identifier: Apache-2.0
//
// Common parts of the GPU samples: arguments, a recorder with its collectors, a loop of requests, an incident at the
// end, exit codes. In the order of a sample's main:
//
//   Arguments arguments("vector_add", "Adds vectors.", 2);
//   arguments.Flag("--fixed", "...", &is_fixed);
//   arguments.Parse(argc, argv);
//   Recording recording(arguments);      // before CUDA is touched
//   ...
//   Serve(arguments, [&](int number) { ...; return "/add"; });
//   return recording.Incident("...", "...");
#ifndef PITOT_SAMPLES_GPU_COMMON_SAMPLE_H_
#define PITOT_SAMPLES_GPU_COMMON_SAMPLE_H_

#include <functional>
#include <mutex>
#include <string>
#include <vector>

#include "pitot/pitot.h"

namespace gpu_common {

// 1 is any other failure: a CUDA error or a wrong result.
constexpr int kDone = 0, kBadUsage = 2;
// No GPU, or no way to record one: there is nothing to show.
constexpr int kSkipped = 77;

// Ends the program; all messages have been printed.
struct Exit {
  int code;
};

// The command line: options of every sample, and those that a sample adds.
class Arguments {
 public:
  // `seconds` is the default duration of the sample.
  Arguments(const char* program, const char* about, double seconds);
  void Flag(const char* name, const char* help, bool* value);
  void Number(const char* name, const char* help, int least, int most, int* value);
  // Throws Exit: kDone after --help, kBadUsage after an unknown option.
  void Parse(int argc, char** argv);

  const char* program() const { return program_; }
  const std::string& incident_directory() const { return incident_directory_; }
  pitot::Depth depth() const { return depth_; }
  double seconds() const { return seconds_; }
  int requests() const { return requests_; }  // 0: as many as fit

 private:
  struct Option {
    std::string name, help;
    const char* value_name;  // null: takes no value
    // Returns the problem with the value, or null if it is valid.
    std::function<const char*(const char*)> Assign;
  };
  void Help() const;

  const char* const program_;
  const char* const about_;
  std::vector<Option> options_;
  std::string incident_directory_ = "incidents";
  pitot::Depth depth_ = pitot::Depth::kKernels;
  double seconds_;
  int requests_ = 0;
};

// Prints a line and throws Exit(kSkipped) without a GPU.
void RequireGpu(const char* program);

// A recorder with room for the whole run, and with the collectors for CUPTI and NVML.
class Recording {
 public:
  // Make it before CUDA is used. Prints to stderr anything that cannot be recorded. Throws Exit(kSkipped) without a
  // GPU.
  explicit Recording(const Arguments& arguments);
  // Writes an incident of the run so far, and prints its place and `look_at`. Returns the sample's exit code.
  int Incident(const char* reason, const char* look_at);

 private:
  static void OnIncident(void* context, const pitot::IncidentInfo& incident);

  const char* const program_;
  bool has_cupti_ = false;
  std::mutex mutex_;
  std::string directory_;  // of the newest incident
  pitot::Recorder recorder_;
};

// Calls `serve` with 0, 1, 2 and so on until the arguments' seconds or requests are over. `serve` returns the route it
// served, a literal. Prints the duration of the calls for each route.
void Serve(const Arguments& arguments, const std::function<const char*(int number)>& serve);

// Throws unless each value is within `tolerance` of the expected one, relative to values above one.
void CheckClose(const char* what, const float* values, const float* expected, size_t size, float tolerance);

// Returns main's result: that of `sample`, or the code of its exception.
int RunSample(const char* program, const std::function<int()>& sample);

}  // namespace gpu_common

#endif  // PITOT_SAMPLES_GPU_COMMON_SAMPLE_H_
