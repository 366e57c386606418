// SPDX-License-Identifier: Apache-2.0
//
// Takes evidence out of a dump, or moves the times of its GPUs, for the scoreboard to compare the answers.
#include <cstdio>
#include <fstream>
#include <iterator>
#include <limits>
#include <stdexcept>
#include <string>

#include "CLI/CLI.hpp"
#include "analyze/ablations.h"
#include "fakes/string_sink.h"
#include "pitot/read/dump.h"
#include "pitot/serialize/dump.h"

namespace pitot::test {
namespace {

model::Trace Read(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  model::Trace trace;
  DumpReport report;
  if (const Status status = ParseDump(bytes.data(), bytes.size(), &trace, &report); !status.ok())
    throw std::runtime_error(path + ": " + status.message());
  return trace;
}

void Write(const model::Trace& trace, const std::string& path) {
  if (const std::string wrong = FindInconsistency(trace); !wrong.empty()) throw std::runtime_error(wrong);
  fakes::StringSink sink;
  if (const Status status = MakeDumpSerializer()->Serialize(trace, sink); !status.ok())
    throw std::runtime_error(status.message());
  std::ofstream file(path, std::ios::binary);
  file.write(sink.bytes.data(), static_cast<std::streamsize>(sink.bytes.size()));
  file.close();
  if (!file) throw std::runtime_error("cannot write " + path);
}

int Main(int argc, char** argv) {
  CLI::App app("Makes a dump with less in it, or with GPUs' times moved.");
  std::string from, to;
  std::vector<std::string> without, names;
  int64_t later_us = 0;
  for (const Ablation& ablation : Ablations()) names.emplace_back(ablation.name);
  app.add_option("from", from, "A dump")->required()->check(CLI::ExistingFile);
  app.add_option("to", to, "Where to")->required();
  app.add_option("--without", without, "What is taken out, by commas")->delimiter(',')->check(CLI::IsMember(names));
  app.add_option("--gpu-later-us", later_us, "What GPUs did is so much later than it was; less than 0: earlier")
      ->capture_default_str();
  CLI11_PARSE(app, argc, argv);

  model::Trace trace = Read(from);
  for (const Ablation& ablation : Ablations()) {
    if (std::find(without.begin(), without.end(), ablation.name) != without.end()) ablation.drop(&trace);
  }
  for (int64_t& begin_ns : trace.gpu.begin_ns) begin_ns += later_us * 1000;
  Write(trace, to);
  return 0;
}

}  // namespace
}  // namespace pitot::test

int main(int argc, char** argv) {
  try {
    return pitot::test::Main(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "alter_dump: %s\n", error.what());
    return 1;
  }
}
