// SPDX-License-Identifier: Apache-2.0
#include "pitot/serialize/kineto.h"

#include <string.h>

#include <algorithm>
#include <charconv>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "model/depth_rows.h"
#include "model/loss_rows.h"
#include "model/moment.h"
#include "model/python_function.h"
#include "model/request_text.h"
#include "pitot/model/trace.h"
#include "pitot/request.h"
#include "pitot/wait.h"
#include "serialize/json_list.h"
#include "serialize/kineto_gpu.h"
#include "serialize/kineto_writer.h"
#include "serialize/texts.h"
#include "serialize/thread_ids.h"

PITOT_NAMESPACE_BEGIN
namespace {

using model::kNone;
using model::kOpen;
using model::StringId;
using model::Trace;
using serialize::Hex;
using serialize::KinetoGpu;
using serialize::KinetoPlace;
using serialize::KinetoWriter;
using serialize::OrElse;
using serialize::ThreadName;

// "8x3x64x64 f32, 64x3x7x7 f32", as pitot::torch records an operator's tensors.
struct Tensors {
  std::vector<std::pair<std::string_view, std::string_view>> sizes_and_types;
  explicit Tensors(std::string_view text) {
    for (size_t size; !text.empty(); text.remove_prefix(std::min(size + 2, text.size()))) {
      size = std::min(text.find(", "), text.size());
      const std::string_view tensor = text.substr(0, size);
      const size_t space = std::min(tensor.find(' '), tensor.size());
      sizes_and_types.emplace_back(tensor.substr(0, space), tensor.substr(std::min(space + 1, tensor.size())));
    }
  }
};

// PyTorch's name of a type.
std::string_view TypeName(std::string_view type) {
  constexpr std::pair<std::string_view, std::string_view> kTypes[] = {
      {"f64", "double"}, {"f32", "float"},     {"f16", "c10::Half"},  {"bf16", "c10::BFloat16"}, {"i64", "long int"},
      {"i32", "int"},    {"i16", "short int"}, {"i8", "signed char"}, {"u8", "unsigned char"}};
  const auto known =
      std::find_if(std::begin(kTypes), std::end(kTypes), [&](const auto& pair) { return pair.first == type; });
  return known == std::end(kTypes) ? type : known->second;
}

class KinetoTrace {
 public:
  KinetoTrace(const Trace& trace, ByteSink* sink)
      : trace_(trace), out_(sink), gpu_(trace, &out_), tids_(serialize::ThreadIds(trace)) {
    for (const model::SiteRow& site : trace.sites) {
      is_python_.push_back(model::IsPythonFunction(trace, site));
      for (uint32_t i = 0; i < site.arg_names.size(); ++i) {
        if (site.kind == SiteKind::kOperator && model::IsText(site.arg_types[i])) NoteInputs(site.arg_names[i]);
      }
    }
  }

  bool Write() {
    out_.json.Open('{');
    WriteHead();
    out_.json.Key("traceEvents");
    out_.json.Open('[');
    WriteNames();
    WriteThreads();
    gpu_.WriteWork();
    WriteRequests();
    WriteParts();
    WriteBatches();
    WriteMarks();
    out_.json.Close(']');
    out_.json.Close('}');
    out_.json.Flush();
    return out_.json.ok();
  }

 private:
  void NoteInputs(StringId name) {
    const std::string_view text = trace_.strings[name];
    if (text == "shapes") shapes_ = name;
    if (text == "types") types_ = name;
    if (text == "inputs") inputs_ = name;
  }

  void WriteHead() {
    out_.Pair("schemaVersion", uint32_t{1});
    gpu_.WriteDevices();
    out_.Pair("displayTimeUnit", "ms");
    // Unix time at the origin of the trace's clock.
    if (model::HasDate(trace_)) out_.Pair("baseTimeNanoseconds", trace_.clock.realtime_ns - trace_.clock.monotonic_ns);
    out_.Pair(model::kWindowBeginKey, trace_.window_begin_ns);
    out_.Pair(model::kWindowEndKey, trace_.window_end_ns);
    out_.Pair(model::kDepthsKey, model::DepthsText(trace_.depths));
    out_.Pair(model::kOperatorDepthsKey, model::DepthsText(trace_.operator_depths));
    out_.Pair(model::kLossesKey, model::LossesText(trace_, tids_));
    out_.Pair(model::kGpuLossesKey, model::GpuLossesText(trace_));
    for (const model::Attribute& attribute : trace_.attributes) {
      const std::string_view key = trace_.strings[attribute.key];
      constexpr std::string_view kOurs[] = {"schemaVersion",           "deviceProperties",     "displayTimeUnit",
                                            "baseTimeNanoseconds",     "traceEvents",          model::kDepthsKey,
                                            model::kOperatorDepthsKey, model::kWindowBeginKey, model::kWindowEndKey,
                                            model::kLossesKey,         model::kGpuLossesKey};
      if (std::find(std::begin(kOurs), std::end(kOurs), key) == std::end(kOurs))
        out_.Pair(key, trace_.strings[attribute.value]);
    }
  }

  KinetoPlace PlaceOf(uint32_t thread) const { return {gpu_.HostPid(), thread == kNone ? 0 : tids_[thread]}; }

  void WriteNames() {
    out_.Name("process_name", PlaceOf(kNone), "name", OrElse(trace_.strings[trace_.process_name], "process"));
    out_.Name("process_labels", PlaceOf(kNone), "labels", "CPU");
    for (uint32_t thread = 0; thread < trace_.threads.size(); ++thread)
      out_.Name("thread_name", PlaceOf(thread), "name", ThreadName(trace_, thread));
    gpu_.WriteNames();
  }

  void WriteThreads() {
    for (uint32_t event = 0; event < trace_.events.size() && out_.json.ok(); ++event)
      WriteEvent(event, PlaceOf(trace_.events.thread[event]));
    for (uint32_t call = 0; call < trace_.calls.size() && out_.json.ok(); ++call)
      gpu_.WriteCall(call, PlaceOf(trace_.calls.thread[call]));
  }

  void WriteEvent(uint32_t event, KinetoPlace place) {
    const uint32_t site_row = trace_.events.site[event];
    const model::SiteRow& site = trace_.sites[site_row];
    const int64_t begin_ns = trace_.events.begin_ns[event];
    if (site.kind == SiteKind::kInternal) return;
    if (site.kind == SiteKind::kCounter) return WriteCounter(event, site, place);
    if (!model::IsScope(site.kind)) {
      out_.Begin("i", "instant", NameOf(event, site), place, begin_ns);
      out_.Pair("s", "t");
      out_.BeginArgs();
      WriteArgs(event, site);
      return out_.End();
    }
    const bool is_operator = site.kind == SiteKind::kOperator;
    const std::string_view category = is_operator            ? "cpu_op"
                                      : is_python_[site_row] ? "python_function"
                                                             : "user_annotation";
    out_.BeginSlice(category, NameOf(event, site), place, begin_ns, trace_.EventEnd(event) - begin_ns);
    out_.Pair("External id", uint64_t{event} + 1);
    if (trace_.events.duration_ns[event] == kOpen) out_.Pair("open", uint32_t{1});
    WriteContext(trace_.events.request[event], trace_.events.batch[event]);
    WriteArgs(event, site);
    out_.End();
  }

  std::string_view NameOf(uint32_t event, const model::SiteRow& site) {
    if (site.kind == SiteKind::kWait && trace_.events.args[event] != kNone && site.arg_types.size() >= 2 &&
        model::IsText(site.arg_types[1])) {
      const auto resource = static_cast<StringId>(trace_.arg_values[trace_.events.args[event] + 1]);
      if (resource != 0) {
        name_.assign(trace_.strings[site.name]).append(": ").append(trace_.strings[resource]);
        return name_;
      }
    }
    return OrElse(trace_.EventName(event), "(unnamed)");
  }

  void WriteContext(uint32_t request, uint32_t batch) {
    if (request != kNone) out_.Pair("request", Hex(trace_.requests[request].id, 16));
    if (batch != kNone) out_.Pair("batch", Hex(trace_.batches[batch].id, 16));
  }

  void WriteArgs(uint32_t event, const model::SiteRow& site) {
    const uint32_t first = trace_.events.args[event];
    if (first == kNone) return;
    if (site.kind == SiteKind::kWait && !site.arg_types.empty())
      return out_.Pair("kind", WaitKindName(static_cast<WaitKind>(trace_.arg_values[first])));
    for (size_t i = site.name_is_first_arg ? 1 : 0; i < site.arg_types.size(); ++i)
      WriteArg(site, i, trace_.arg_values[first + i]);
  }

  void WriteArg(const model::SiteRow& site, size_t which, model::ArgValue value) {
    const StringId name = site.arg_names[which];
    const ArgType type = site.arg_types[which];
    if (!model::IsText(type)) {
      out_.json.Key(OrElse(trace_.strings[name], "arg"));
      return WriteNumber(type, value);
    }
    const std::string_view text = trace_.strings[static_cast<StringId>(value)];
    const bool is_input = site.kind == SiteKind::kOperator && name != 0;
    if (is_input && name == shapes_) return WriteShapes(text);
    if (is_input && name == types_) return WriteList("Input type", text);
    if (is_input && name == inputs_) return WriteList("Concrete Inputs", text);
    out_.Pair(OrElse(trace_.strings[name], "arg"), text);
  }

  void WriteNumber(ArgType type, model::ArgValue value) {
    if (type == ArgType::kBool) return out_.json.Bool(value != 0);
    if (type == ArgType::kUint) return out_.json.Number(uint64_t{value});
    if (type != ArgType::kDouble) return out_.json.Number(static_cast<int64_t>(value));
    double number;
    memcpy(&number, &value, sizeof number);
    out_.json.Number(number);
  }

  // Lists in the notation of PyTorch's profiler are JSON already, unless they were cut.
  void WriteList(std::string_view key, std::string_view text) {
    out_.json.Key(key);
    serialize::IsJsonList(text) ? out_.json.Raw(text) : out_.json.Text(text);
  }
  void WriteShapes(std::string_view text) {
    if (!text.empty() && text[0] == '[') return WriteList("Input Dims", text);
    const Tensors tensors(text);
    out_.json.Key("Input Dims");
    out_.json.Open('[');
    for (const auto& [sizes, type] : tensors.sizes_and_types) {
      out_.json.Open('[');
      for (std::string_view rest = sizes; !rest.empty();) {
        const size_t end = std::min(rest.find('x'), rest.size());
        int64_t size = 0;
        if (std::from_chars(rest.data(), rest.data() + end, size).ec == std::errc()) out_.json.Number(size);
        rest.remove_prefix(std::min(end + 1, rest.size()));
      }
      out_.json.Close(']');
    }
    out_.json.Close(']');
    out_.json.Key("Input type");
    out_.json.Open('[');
    for (const auto& [sizes, type] : tensors.sizes_and_types) out_.json.Text(TypeName(type));
    out_.json.Close(']');
  }

  void WriteCounter(uint32_t event, const model::SiteRow& site, KinetoPlace place) {
    const uint32_t first = trace_.events.args[event];
    const size_t which = site.name_is_first_arg ? 1 : 0;
    if (first == kNone || site.arg_types.size() <= which || model::IsText(site.arg_types[which])) return;
    out_.Begin("C", "counter", NameOf(event, site), place, trace_.events.begin_ns[event]);
    out_.BeginArgs();
    out_.json.Key("value");
    WriteNumber(site.arg_types[which], trace_.arg_values[first + which]);
    out_.End();
  }

  // Requests and batches belong to no thread: they are asynchronous events, found by category and id.
  void BeginAsync(std::string_view phase, std::string_view category, std::string_view name, uint64_t id,
                  uint32_t thread, int64_t at_ns) {
    out_.Begin(phase, category, name, PlaceOf(thread), at_ns);
    out_.Pair("id", Hex(id, 16));
    out_.BeginArgs();
  }
  // A name that the host gave, which may be that of a field.
  std::string HostsName(model::StringId name, std::string_view kind) const {
    const std::string_view text = trace_.strings[name];
    for (const std::string_view field : {"", "host_id", "trace_id", "outcome", "reason", "output_tokens"}) {
      if (text == field) return std::string(kind) + (text.empty() ? "" : ".") + std::string(text);
    }
    return std::string(text);
  }
  void WriteRequests() {
    for (const model::RequestRow& request : trace_.requests) {
      if (!out_.json.ok()) return;
      const std::string_view route = OrElse(trace_.strings[request.route], "request");
      BeginAsync("b", "request", route, request.id, request.begin_thread, request.begin_ns);
      if (request.host_id != 0) out_.Pair("host_id", trace_.strings[request.host_id]);
      if ((request.trace_id_high | request.trace_id_low) != 0)
        out_.Pair("trace_id", Hex(request.trace_id_high, 16) + Hex(request.trace_id_low, 16));
      out_.Pair("outcome", model::OutcomeText(request));
      if (request.reason != 0) out_.Pair("reason", trace_.strings[request.reason]);
      if (request.output_tokens != 0) out_.Pair("output_tokens", request.output_tokens);
      for (const model::Size& size : request.sizes) out_.Pair(HostsName(size.name, "size"), size.value);
      for (const model::Label& label : request.labels)
        out_.Pair(HostsName(label.key, "label"), trace_.strings[label.value]);
      out_.End();
      for (const model::Stage& stage : request.stages) {
        const std::string_view name = OrElse(trace_.strings[stage.name], "stage");
        const int64_t end_ns =
            stage.duration_ns == kOpen ? trace_.RequestEnd(request) : stage.begin_ns + stage.duration_ns;
        BeginAsync("b", "request", name, request.id, request.begin_thread, stage.begin_ns);
        out_.End();
        BeginAsync("e", "request", name, request.id, request.begin_thread, end_ns);
        out_.End();
      }
      BeginAsync("e", "request", route, request.id, request.end_thread, trace_.RequestEnd(request));
      out_.End();
    }
  }
  // Parts of requests outside of threads. They may overlap without nesting, so each has an id of its own.
  void WriteParts() {
    for (uint32_t row = 0; row < trace_.asyncs.size() && out_.json.ok(); ++row) {
      const model::AsyncRow& part = trace_.asyncs[row];
      const std::string_view name = OrElse(trace_.strings[trace_.sites[part.site].name], "part");
      const bool is_open = part.duration_ns == kOpen;
      const int64_t end_ns = is_open ? std::max(trace_.window_end_ns, part.begin_ns) : part.begin_ns + part.duration_ns;
      BeginAsync("b", "part", name, row + 1, part.begin_thread, part.begin_ns);
      WriteContext(part.request, kNone);
      if (is_open) out_.Pair("open", uint32_t{1});
      out_.End();
      BeginAsync("e", "part", name, row + 1, part.end_thread, end_ns);
      out_.End();
    }
  }
  void WriteBatches() {
    for (const model::BatchRow& batch : trace_.batches) {
      const std::string_view executor = OrElse(trace_.strings[batch.executor], "executor");
      BeginAsync("b", "batch", executor, batch.id, batch.thread, batch.begin_ns);
      out_.Pair("close_reason", BatchCloseName(static_cast<BatchClose>(batch.close)));
      out_.json.Key("members");
      out_.json.Open('[');
      for (uint32_t row = batch.first_member; row < batch.first_member + batch.member_count; ++row) {
        if (trace_.members[row].request != kNone)
          out_.json.Text(Hex(trace_.requests[trace_.members[row].request].id, 16));
      }
      out_.json.Close(']');
      out_.End();
      BeginAsync("e", "batch", executor, batch.id, batch.thread, trace_.BatchEnd(batch));
      out_.End();
    }
  }

  void WriteMarks() {
    for (const model::FiringRow& firing : trace_.firings) {
      out_.Begin("i", "trigger", "trigger: " + std::string(trace_.strings[firing.cause]), PlaceOf(kNone), firing.at_ns);
      out_.Pair("s", "g");
      out_.BeginArgs();
      out_.Pair("detail", trace_.strings[firing.detail]);
      out_.Pair("request", Hex(firing.request_id, 16));
      out_.End();
    }
    for (const model::LossRow& loss : trace_.losses)
      WriteLoss(LossReasonName(loss.reason), PlaceOf(loss.thread), loss.begin_ns, loss.end_ns, loss.events);
    for (const model::GpuLossRow& loss : trace_.gpu_losses)
      WriteLoss(trace_.strings[loss.reason], PlaceOf(kNone), loss.begin_ns, loss.end_ns, loss.records);
  }
  void WriteLoss(std::string_view reason, KinetoPlace place, int64_t begin_ns, int64_t end_ns, uint64_t count) {
    out_.Begin("i", "loss", "lost: " + std::string(reason), place, begin_ns);
    out_.Pair("s", place.tid == 0 ? "p" : "t");
    out_.BeginArgs();
    out_.Pair("until_ns", end_ns);
    if (count != 0) out_.Pair("count", count);
    out_.End();
  }

  const Trace& trace_;
  KinetoWriter out_;
  KinetoGpu gpu_;
  const std::vector<int64_t> tids_;
  std::vector<bool> is_python_;                   // by site
  StringId shapes_ = 0, types_ = 0, inputs_ = 0;  // names of operators' arguments; 0: none has it
  std::string name_;
};

class KinetoSerializer final : public Serializer {
 public:
  explicit KinetoSerializer(const char* file_name) : file_name_(file_name) {}
  const char* FileName() const noexcept override { return file_name_.c_str(); }
  Status Serialize(const Trace& trace, ByteSink& sink) override {
    if (KinetoTrace(trace, &sink).Write()) return Status();
    return Status(StatusCode::kIoError, "the JSON could not be written");
  }

 private:
  std::string file_name_;
};

}  // namespace

std::unique_ptr<Serializer> MakeKinetoSerializer(const char* file_name) noexcept try {
  return std::make_unique<KinetoSerializer>(file_name);
} catch (...) {  // no memory
  return nullptr;
}

PITOT_NAMESPACE_END
