// SPDX-License-Identifier: Apache-2.0
//
// The trace.json.gz of JAX's and XLA's profiler (jax.profiler.trace). Processes are planes, their threads are lines.
#include <string_view>

#include "read/chrome_file.h"
#include "read/formats.h"
#include "read/xla_rows.h"

namespace pitot::read {
namespace {

class JaxReader final : public ChromeTarget {
 public:
  JaxReader(model::Trace* trace, TraceReport* report) : rows_(trace, report) {}

  bool Take(const ChromeEvent& event) override {
    if (event.phase == "M") return TakeName(event), true;
    if (event.phase.empty() && event.name.empty()) return true;  // the list ends with an empty object
    if (event.phase != "X") return rows_.Skip(), true;
    if (!event.begin_ns || !event.duration_ns) return false;
    rows_.Take(rows_.builder().Number(event.pid), rows_.builder().Number(event.tid), event);
    return true;
  }

  void TakeMember(std::string_view, std::string_view, ChromeDecoder*) override {}

  void BeginDocument() override { rows_.ForgetNames(); }

  void Finish() { rows_.Finish(); }

 private:
  void TakeName(const ChromeEvent& event) {
    const int64_t plane = rows_.builder().Number(event.pid);
    if (event.name == "process_name") {
      rows_.NamePlane(plane, event.Text("name"));
    } else if (event.name == "thread_name") {
      rows_.NameLine(plane, rows_.builder().Number(event.tid), event.Text("name"));
    } else {
      rows_.Skip();  // the order of lines
    }
  }

  XlaRows rows_;
};

// By the names of its planes.
bool IsJax(const Head& head) {
  return head.json.HasProcess("/device:") || head.json.HasProcess("/host:CPU") ||
         head.json.HasProcess("/host:metadata");
}

Status ReadJax(const Input& input, model::Trace* trace, TraceReport* report) {
  JaxReader reader(trace, report);
  Status status = ReadChromeFile(input, &reader, report);
  if (status.ok() || status.code() == StatusCode::kDataLoss) reader.Finish();
  return status;
}

}  // namespace

const Format kJaxFormat = {"jax",
                           "XLA trace JSON",
                           "traces of JAX's profiler",
                           "JAX's profiler",
                           "profile while the program works, and block_until_ready() before the end",
                           {"requests and batches", "the date", "sizes of inputs", "losses"},
                           {{"op", "profile a program while it runs a function under jax.jit"},
                            {"kernel", "profile a program that runs on a GPU or TPU"},
                            {"call", "profile a program that runs on a GPU"},
                            {"scope", "name them with jax.profiler.TraceAnnotation"},
                            {"layer", "name them with jax.named_scope"}},
                           IsJax,
                           ReadJax};

}  // namespace pitot::read
