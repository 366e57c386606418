// SPDX-License-Identifier: Apache-2.0
//
// load_generator: loads an image server or a decode server on this machine, and reports how long its requests took,
// measured from outside.
#include <cstdio>
#include <exception>
#include <stdexcept>
#include <string>

#include "load_generator/generate.h"
#include "load_generator/generate_results.h"
#include "load_generator/load.h"
#include "load_generator/options.h"
#include "load_generator/results.h"

namespace load_generator {
namespace {

void WriteFile(const std::string& name, const std::string& text) {
  std::FILE* const file = name == "-" ? stdout : std::fopen(name.c_str(), "w");
  if (file == nullptr) throw std::runtime_error("cannot write " + name);
  const bool is_written = std::fwrite(text.data(), 1, text.size(), file) == text.size();
  const bool is_closed = file == stdout ? std::fflush(file) == 0 : std::fclose(file) == 0;
  if (!is_written || !is_closed) throw std::runtime_error("cannot write " + name);
}

int Generate(const Options& options) {
  const GenerateRun run = SendPrompts(options);
  if (!options.json_file.empty()) WriteFile(options.json_file, ToJson(options, run) + "\n");
  if (!options.fault_log.empty()) WriteFile(options.fault_log, ToFaultLog(options, run));
  std::fputs(ToText(run).c_str(), options.json_file == "-" ? stderr : stdout);
  for (const GenerateSample& sample : run.samples) {
    if (sample.is_ok()) return 0;
  }
  throw std::runtime_error("no request was answered with all its tokens");
}

// Fails if no request got a correct answer.
int Main(int argc, char** argv) {
  const Options options = ParseOptions(argc, argv);
  if (options.is_generating) return Generate(options);
  const Run run = SendLoad(options);
  if (!options.json_file.empty()) WriteFile(options.json_file, ToJson(options, run) + "\n");
  if (!options.fault_log.empty()) WriteFile(options.fault_log, ToFaultLog(options, run));
  std::fputs(ToText(run).c_str(), options.json_file == "-" ? stderr : stdout);
  for (const Sample& sample : run.samples) {
    if (sample.status == 200) return 0;
  }
  throw std::runtime_error("no request was answered with 200");
}

}  // namespace
}  // namespace load_generator

int main(int argc, char** argv) {
  try {
    return load_generator::Main(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "load_generator: %s\n", error.what());
    return 1;
  }
}
