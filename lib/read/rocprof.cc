// SPDX-License-Identifier: Apache-2.0
//
// The JSON of rocprofv3: {"rocprofiler-sdk-tool": [...]} with an object for each process. Agents, names and kernels
// come before the records, whose kind and operation are numbers of names. Documents may follow each other.
#include <simdjson.h>

#include <algorithm>
#include <memory>
#include <new>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/columns.h"
#include "read/formats.h"
#include "read/json_cursor.h"
#include "read/repaired.h"
#include "read/rocprof_builder.h"

namespace pitot::read {
namespace {

namespace od = simdjson::ondemand;

constexpr std::string_view kRoot = "rocprofiler-sdk-tool";
constexpr int kMostDepth = 8;
constexpr size_t kMostPathBytes = 256;  // of names of members

// The numbers and texts of an object and of those within it, "dispatch_info.agent_id.handle". Lists are left out.
class Flat {
 public:
  // False if it is not an object in JSON.
  bool Decode(std::string_view json, size_t capacity) {
    for (bool is_repaired = false;; is_repaired = true) {
      count_ = 0;
      try {
        od::document document = parser_.iterate(json.data(), json.size(), capacity);
        Take(document.get_object(), 0);
        return true;
      } catch (const simdjson::simdjson_error& error) {
        if (error.error() == simdjson::MEMALLOC) throw std::bad_alloc();
        if (is_repaired || simdjson::validate_utf8(json.data(), json.size())) return false;
      }
      repaired_ = Repaired(json);
      const size_t size = repaired_.size();
      repaired_.append(JsonCursor::kPaddingBytes, '\0');
      json = {repaired_.data(), size};
      capacity = repaired_.size();
    }
  }
  std::string_view Text(std::string_view path) const {
    for (size_t i = 0; i < count_; ++i) {
      if (values_[i].path == path) return values_[i].text;
    }
    return {};
  }
  std::optional<int64_t> Whole(std::string_view path) const {
    const std::string_view text = Text(path);
    return text.empty() ? std::nullopt : ParseWhole(text);
  }
  int64_t Number(std::string_view path) const { return Whole(path).value_or(0); }

 private:
  struct Value {
    std::string path;
    std::string_view text;
  };

  // Handles have 64 bits without a sign.
  static std::optional<int64_t> ParseWhole(std::string_view text) {
    int64_t value = 0;
    const bool is_negative = text[0] == '-';
    for (const char c : text.substr(is_negative)) {
      if (c < '0' || c > '9') return std::nullopt;
      value = static_cast<int64_t>(static_cast<uint64_t>(value) * 10 + static_cast<uint64_t>(c - '0'));
    }
    return is_negative ? -value : value;
  }

  void Take(od::object object, int depth) {
    const size_t before = prefix_.size();
    for (auto field : object) {
      const std::string_view key = field.unescaped_key();
      od::value value = field.value();
      switch (value.type()) {
        case od::json_type::object:
          if (depth == kMostDepth) break;
          prefix_.append(key) += '.';
          Take(value.get_object(), depth + 1);
          prefix_.resize(before);
          break;
        case od::json_type::array:
          break;
        case od::json_type::string:
          Add(key, value.get_string());
          break;
        default: {
          const std::string_view token = value.raw_json_token();
          Add(key, token.substr(0, token.find_last_not_of(" \t\r\n") + 1));
        }
      }
    }
  }
  void Add(std::string_view key, std::string_view text) {
    if (prefix_.size() + key.size() > kMostPathBytes) return;  // of no use here
    if (count_ == values_.size()) values_.emplace_back();
    Value& value = values_[count_++];
    value.path.assign(prefix_).append(key);
    value.text = text;
  }

  od::parser parser_;
  std::string prefix_, repaired_;
  std::vector<Value> values_;  // the first count_ are of this object
  size_t count_ = 0;
};

class RocprofReader {
 public:
  RocprofReader(ByteSource* source, model::Trace* trace, TraceReport* report)
      : source_(*source), cursor_(source), report_(*report), builder_(trace, report) {}

  Status Read() {
    if (!cursor_.BeginObject()) return Status(StatusCode::kInvalidArgument, "it is not an object in JSON");
    do {
      ReadDocument();
    } while (cursor_.BeginObject());
    cursor_.End();
    const StatusCode code = source_.status().code();
    if (code != StatusCode::kOk && code != StatusCode::kDataLoss) return source_.status();
    const Status status =
        builder_.Finish(*cursor_.fault() == 0 ? Status() : Status(StatusCode::kDataLoss, cursor_.fault()));
    if (others_ != 0)
      AddProblem(base::Plural(others_, "document") + " without " + std::string(kRoot) +
                     (others_ == 1 ? " was" : " were") + " left out",
                 &report_);
    return status;
  }

 private:
  struct Kind {
    std::string name;
    std::vector<std::string> operations;
  };

  void ReadDocument() {
    bool has_root = false;
    while (cursor_.NextMember()) {
      if (cursor_.key() != kRoot) {
        cursor_.Skip();
        continue;
      }
      has_root = true;
      if (cursor_.BeginList()) {
        while (cursor_.NextElement()) ReadProcess();
      } else {
        ReadProcess();
      }
    }
    others_ += !has_root;
  }

  void ReadProcess() {
    if (!cursor_.BeginObject()) return void(cursor_.Skip());
    builder_.BeginPart();
    pid_ = 0;
    kinds_.clear();
    messages_.clear();
    while (cursor_.NextMember()) {
      const std::string key(cursor_.key());
      if (key == "metadata") {
        ReadMetadata();
      } else if (key == "agents") {
        ForEach([&] { AddAgent(); });
      } else if (key == "kernel_symbols") {
        ForEach([&] { AddKernel(); });
      } else if (key == "strings") {
        ReadStrings();
      } else if (key == "buffer_records") {
        ReadRecords();
      } else {
        cursor_.Skip();
      }
    }
  }

  // Takes the objects of a list into flat_.
  template <class F> void ForEach(const F& take) {
    if (!cursor_.BeginList()) return void(cursor_.Skip());
    while (cursor_.NextElement()) {
      if (cursor_.Take() && flat_.Decode(cursor_.text(), cursor_.capacity())) {
        take();
      } else if (*cursor_.fault() == 0) {
        builder_.AddBad();
      }
    }
  }

  void ReadMetadata() {
    if (cursor_.Take() && flat_.Decode(cursor_.text(), cursor_.capacity())) pid_ = flat_.Number("pid");
  }

  void AddAgent() {
    constexpr int64_t kGpu = 2;
    RocprofAgent agent;
    agent.is_gpu = flat_.Number("type") == kGpu;
    const std::string_view product = flat_.Text("product_name");
    agent.name = product.empty() ? flat_.Text("name") : product;
    agent.compute_units = flat_.Number("cu_count");
    agent.wave = flat_.Number("wave_front_size");
    agent.waves = std::clamp<int64_t>(flat_.Number("simd_per_cu"), 0, UINT16_MAX) *
                  std::clamp<int64_t>(flat_.Number("max_waves_per_simd"), 0, UINT16_MAX);
    agent.local_bytes = std::clamp<int64_t>(flat_.Number("lds_size_in_kb"), 0, INT32_MAX) << 10;
    agent.version = flat_.Number("gfx_target_version");
    builder_.AddAgent(flat_.Number("id.handle"), std::move(agent));
  }

  void AddKernel() {
    const std::string_view formatted = flat_.Text("formatted_kernel_name");
    const std::string_view name = formatted.empty() ? flat_.Text("kernel_name") : formatted;
    const auto registers = [&](const char* key) { return std::clamp<int64_t>(flat_.Number(key), 0, UINT16_MAX); };
    builder_.AddKernel(flat_.Number("kernel_id"), {std::string(name), flat_.Number("group_segment_size"),
                                                   registers("arch_vgpr_count") + registers("accum_vgpr_count")});
  }

  void ReadStrings() {
    if (!cursor_.BeginObject()) return void(cursor_.Skip());
    while (cursor_.NextMember()) {
      if (cursor_.key() == "buffer_records") {
        ReadKinds();
      } else if (cursor_.key() == "marker_api") {
        ForEach([&] { messages_[flat_.Number("key")] = flat_.Text("value"); });
      } else {
        cursor_.Skip();
      }
    }
  }

  // A name, which needs no escapes.
  std::string Word() {
    if (!cursor_.Take()) return {};
    const std::string_view text = cursor_.text();
    return std::string(text.size() >= 2 && text[0] == '"' ? text.substr(1, text.size() - 2) : text);
  }

  void ReadKinds() {
    if (!cursor_.BeginList()) return void(cursor_.Skip());
    while (cursor_.NextElement()) {
      kinds_.emplace_back();
      if (!cursor_.BeginObject()) {
        cursor_.Skip();
        continue;
      }
      while (cursor_.NextMember()) {
        if (cursor_.key() == "kind") {
          kinds_.back().name = Word();
        } else if (cursor_.key() == "operations" && cursor_.BeginList()) {
          while (cursor_.NextElement()) kinds_.back().operations.push_back(Word());
        } else {
          cursor_.Skip();
        }
      }
    }
  }

  void ReadRecords() {
    if (!cursor_.BeginObject()) return void(cursor_.Skip());
    while (cursor_.NextMember()) {
      const std::string list(cursor_.key());
      ForEach([&] { AddRecord(list); });
    }
  }

  void AddRecord(std::string_view list) {
    const auto kind_number = static_cast<size_t>(flat_.Number("kind"));
    const auto operation = static_cast<size_t>(flat_.Number("operation"));
    const Kind* const kind = kind_number < kinds_.size() ? &kinds_[kind_number] : nullptr;
    RocprofRecord record;
    record.kind = list == "kernel_dispatch" ? "KERNEL_DISPATCH" : list == "memory_copy" ? "MEMORY_COPY" : "";
    if (kind != nullptr && record.kind.empty()) record.kind = kind->name;
    if (kind != nullptr && operation < kind->operations.size()) record.name = kind->operations[operation];
    record.begin_ns = flat_.Whole("start_timestamp");
    record.end_ns = flat_.Whole("end_timestamp");
    record.pid = pid_;
    record.thread = flat_.Number("thread_id");
    record.correlation = flat_.Number("correlation_id.internal");
    record.stream = flat_.Number("stream_id.handle");
    record.bytes = flat_.Number("bytes");
    if (list == "memory_copy") {
      record.agent = flat_.Number("dst_agent_id.handle");
      record.source_agent = flat_.Number("src_agent_id.handle");
    } else if (list == "kernel_dispatch") {
      record.agent = flat_.Number("dispatch_info.agent_id.handle");
      record.queue = flat_.Number("dispatch_info.queue_id.handle");
      record.kernel = flat_.Number("dispatch_info.kernel_id");
      record.local_bytes = flat_.Number("dispatch_info.group_segment_size");
      static constexpr const char* kBlock[] = {"dispatch_info.workgroup_size.x", "dispatch_info.workgroup_size.y",
                                               "dispatch_info.workgroup_size.z"};
      static constexpr const char* kThreads[] = {"dispatch_info.grid_size.x", "dispatch_info.grid_size.y",
                                                 "dispatch_info.grid_size.z"};
      for (int i = 0; i < 3; ++i) {
        record.block[i] = flat_.Number(kBlock[i]);
        record.threads[i] = flat_.Number(kThreads[i]);
      }
    } else if (const auto message = messages_.find(record.correlation); message != messages_.end()) {
      if (record.kind.substr(0, 7) == "MARKER_") record.message = message->second;
    }
    builder_.Add(record);
  }

  ByteSource& source_;
  JsonCursor cursor_;
  Flat flat_;
  TraceReport& report_;
  RocprofBuilder builder_;
  int64_t pid_ = 0;
  std::vector<Kind> kinds_;
  std::unordered_map<int64_t, std::string> messages_;  // of marks, by their id of correlation
  uint64_t others_ = 0;                                // documents of something else
};

bool IsRocprof(const Head& head) { return head.json.is_json && head.json.HasMember(kRoot); }

Status ReadRocprof(const Input& input, model::Trace* trace, TraceReport* report) {
  bool is_gzip = false;
  const std::unique_ptr<ByteSource> source = input.Open(&is_gzip);
  const Status status = RocprofReader(source.get(), trace, report).Read();
  report->is_gzip = is_gzip;
  return status;
}

}  // namespace

const Format kRocprofFormat = {
    "rocprof",
    "JSON of rocprofv3",
    "JSON of rocprofv3",
    "rocprofv3",
    "record while the program works, with `rocprofv3 --sys-trace --output-format json`",
    {"requests and batches", "operators", "sizes of inputs", "the date", "names of threads", "losses"},
    {{"kernel", "record with --kernel-trace"},
     {"call", "record with --hip-trace"},
     {"scope", "name them with roctx, and record with --marker-trace"},
     {"layer", "name them with roctx, and record with --marker-trace"}},
    IsRocprof,
    ReadRocprof};

}  // namespace pitot::read
