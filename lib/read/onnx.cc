// SPDX-License-Identifier: Apache-2.0
//
// ONNX Runtime's profile (SessionOptions.enable_profiling): a list of events of the categories Session, Node, Api and
// Kernel. Its arguments are texts, also the numbers.
#include <string>
#include <string_view>
#include <vector>

#include "base/columns.h"
#include "read/chrome_file.h"
#include "read/formats.h"
#include "read/trace_builder.h"

namespace pitot::read {
namespace {

// The types and sizes of [{"float":[1,3]},{"int64":[]}] as two lists: ["float","int64"] and [[1,3],[]]. Empty for
// another form.
struct TensorLists {
  std::string sizes, types;
};
TensorLists TensorsOf(std::string_view json) {
  TensorLists lists = {"[", "["};
  for (size_t at = json.find('{'); at != std::string_view::npos; at = json.find('{', at)) {
    const size_t type = json.find('"', at), type_end = json.find('"', type + 1);
    const size_t sizes = json.find('[', type_end), sizes_end = json.find(']', sizes);
    if (type == std::string_view::npos || type_end == std::string_view::npos || sizes == std::string_view::npos ||
        sizes_end == std::string_view::npos)
      return {};
    const char* const comma = lists.sizes.size() > 1 ? "," : "";
    lists.types.append(comma).append(json.substr(type, type_end + 1 - type));
    lists.sizes.append(comma);
    for (const char c : json.substr(sizes, sizes_end + 1 - sizes)) {
      if (c != ' ') lists.sizes += c;
    }
    at = sizes_end;
  }
  if (lists.sizes == "[") return {};
  return {lists.sizes + "]", lists.types + "]"};
}

class OnnxReader final : public ChromeTarget {
 public:
  OnnxReader(model::Trace* trace, TraceReport* report) : builder_(trace), report_(*report) {}

  bool Take(const ChromeEvent& event) override {
    if (event.phase != "X") return ++unused_, true;
    if (!event.begin_ns || !event.duration_ns) return false;
    const TraceBuilder::Span span = {*event.begin_ns, *event.duration_ns};
    if (event.category == "Node") {
      TakeNode(event, span);
    } else if (event.category == "Kernel") {
      TakeKernel(event, span);
    } else if (event.category == "Session" || event.category == "Api") {
      builder_.AddEvent(Thread(event), builder_.Site(SiteKind::kScope, event.name), span);
    } else {
      ++unused_;
    }
    return true;
  }

  void TakeMember(std::string_view, std::string_view, ChromeDecoder*) override {}

  void Finish() {
    builder_.Finish(!report_.complete);
    report_.counts = {
        {"unused", unused_}, {"nodes", nodes_}, {"nodes_without_shapes", nodes_without_shapes_}, {"kernels", kernels_}};
    builder_.ReportTimes(&report_);
    if (kernels_ == 0) report_.lacks.push_back("GPU work (a provider has to record it)");
    if (nodes_ != 0 && nodes_without_shapes_ == nodes_) report_.lacks.push_back("sizes of inputs (the file has none)");
  }

 private:
  uint32_t Thread(const ChromeEvent& event) {
    return builder_.Thread(builder_.Number(event.pid), builder_.Number(event.tid));
  }

  // "conv1_kernel_time" is the operator; "conv1_fence_before" is waiting around it.
  void TakeNode(const ChromeEvent& event, const TraceBuilder::Span& span) {
    constexpr std::string_view kKernelTime = "_kernel_time";
    const std::string_view op = event.Text("op_name");
    const bool is_kernel = event.name.size() >= kKernelTime.size() &&
                           event.name.substr(event.name.size() - kKernelTime.size()) == kKernelTime;
    if (op.empty() || !is_kernel) {
      builder_.AddEvent(Thread(event), builder_.Site(SiteKind::kScope, event.name), span);
      return;
    }
    ++nodes_;
    std::vector<ChromeValue> args;
    const auto add = [&](std::string_view key, std::string_view text) {
      if (!text.empty()) args.push_back({key, text, true});
    };
    const TensorLists inputs = TensorsOf(event.Text("input_type_shape")),
                      outputs = TensorsOf(event.Text("output_type_shape"));
    nodes_without_shapes_ += inputs.sizes.empty();
    add("shapes", inputs.sizes);
    add("types", inputs.types);
    add("outputs", outputs.sizes);
    add("node", event.name.substr(0, event.name.size() - kKernelTime.size()));
    add("provider", event.Text("provider"));
    builder_.AddEvent(Thread(event), builder_.Site(SiteKind::kOperator, op, args), span, args);
  }

  void TakeKernel(const ChromeEvent& event, const TraceBuilder::Span& span) {
    ++kernels_;
    TraceBuilder::Work work;
    const bool is_copy = event.name.substr(0, 6) == "Memcpy";
    work.kind = is_copy ? model::GpuKind::kMemcpy : model::GpuKind::kKernel;
    work.name = event.name;
    work.stream = builder_.Stream(builder_.Device("0", ""), event.Number("stream", 0));
    // The node is named in the kernel's arguments: there is no call to tie it by.
    work.scope_path = event.Text("op_name");
    const auto size = [&](const char* key) {
      return static_cast<uint32_t>(std::clamp<int64_t>(event.Number(key, 0), 0, UINT32_MAX));
    };
    work.shape.grid[0] = size("grid_x"), work.shape.grid[1] = size("grid_y"), work.shape.grid[2] = size("grid_z");
    work.shape.block[0] = size("block_x"), work.shape.block[1] = size("block_y"), work.shape.block[2] = size("block_z");
    work.has_shape = !is_copy && work.shape.block[0] != 0;
    builder_.AddGpu(span, work);
  }

  TraceBuilder builder_;
  TraceReport& report_;
  uint64_t unused_ = 0, nodes_ = 0, nodes_without_shapes_ = 0, kernels_ = 0;
};

// By the category of its sessions; or of nodes, with nothing of Kineto's.
bool IsOnnx(const Head& head) {
  return head.json.is_bare && (head.json.HasCategory("Session") || head.json.HasCategory("Node"));
}

Status ReadOnnx(const Input& input, model::Trace* trace, TraceReport* report) {
  OnnxReader reader(trace, report);
  Status status = ReadChromeFile(input, &reader, report);
  if (status.ok() || status.code() == StatusCode::kDataLoss) reader.Finish();
  return status;
}

}  // namespace

const Format kOnnxFormat = {"onnxruntime",
                            "ONNX Runtime profile",
                            "ONNX Runtime's profiles",
                            "ONNX Runtime",
                            "run the session between enable_profiling and end_profiling",
                            {"requests and batches", "the date", "the calls that launched GPU work", "losses"},
                            {{"op", "run the session between enable_profiling and end_profiling"},
                             {"scope", "run the session between enable_profiling and end_profiling"},
                             {"shapes", "use a version of ONNX Runtime that writes input_type_shape"},
                             {"kernel", "use a provider that records its kernels, such as CUDAExecutionProvider"},
                             {"layer", "an ONNX model has none"}},
                            IsOnnx,
                            ReadOnnx};

}  // namespace pitot::read
