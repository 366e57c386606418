// SPDX-License-Identifier: Apache-2.0
#include "cli/perfetto_archive.h"

#include <nlohmann/json.hpp>

#include "absl/strings/str_format.h"
#include "cli/command.h"
#include "cli/files.h"
#include "model/is_empty.h"

namespace pitot::cli {
namespace {

class StringSink final : public ByteSink {
 public:
  bool Write(const void* data, uint64_t size) noexcept override try {
    bytes.append(static_cast<const char*>(data), size);
    return true;
  } catch (...) {  // no memory
    return false;
  }
  std::string bytes;
};

constexpr size_t kBlockBytes = 512;

// The header of a file in POSIX's ustar format.
std::string HeaderOf(const std::string& name, uint64_t size) {
  std::string header(kBlockBytes, '\0');
  const auto put = [&](size_t at, const std::string& text) { header.replace(at, text.size(), text); };
  put(0, name);
  put(100, "0000644");
  put(108, "0000000");
  put(116, "0000000");
  put(124, absl::StrFormat("%011o", size));
  put(136, "00000000000");
  put(148, "        ");  // the sum is taken with blanks in its place
  put(156, "0");
  put(257, std::string("ustar\0"
                       "00",
                       8));
  uint32_t sum = 0;
  for (const char c : header) sum += static_cast<uint8_t>(c);
  put(148, absl::StrFormat("%06o", sum));
  header[154] = '\0';
  return header;
}

class Archive final : public Serializer {
 public:
  Archive(Serializer& perfetto, const std::vector<std::string>& dumps, const std::string& output)
      : perfetto_(perfetto), dumps_(dumps), output_(output) {}
  const char* FileName() const noexcept override { return "traces.tar"; }
  int loaded() const { return loaded_; }

  Status Serialize(const model::Trace&, ByteSink& sink) override {
    nlohmann::json files = nlohmann::json::array();
    bool is_written = true;
    for (size_t i = 0; i < dumps_.size() && is_written; ++i) {
      model::Trace trace;
      LoadReport report;
      int loaded = Load(dumps_[i], &trace, &report);
      if ((loaded == kDone || loaded == kDamaged) && IsEmpty(trace)) loaded = kNothingFound;
      if ((loaded == kDone || loaded == kDamaged) && !IsNoInput(report.paths, output_)) {
        loaded_ = kUsage;
        return Status(StatusCode::kInvalidArgument, ("it is in " + dumps_[i]).c_str());
      }
      if (loaded_ == kDone) loaded_ = loaded;
      if (loaded != kDone && loaded != kDamaged)
        return Status(StatusCode::kInvalidArgument,
                      (dumps_[i] + (loaded == kNothingFound ? " is empty" : " could not be read") +
                       ". Leave it out, or give another file in its place")
                          .c_str());
      StringSink member;
      if (Status status = perfetto_.Serialize(trace, member); !status.ok()) return status;
      const std::string name = absl::StrFormat("%d.pftrace", i + 1);
      nlohmann::json file = {{"path", name}};
      if (const std::string host(trace.AttributeOf("host")); !host.empty()) file["machine"] = {{"name", host}};
      files.push_back(std::move(file));
      is_written = Add(name, member.bytes, &sink);
    }
    const nlohmann::json manifest = {{"perfetto_manifest", {{"version", 1}, {"files", files}}}};
    const std::string end(2 * kBlockBytes, '\0');
    is_written = is_written && Add("perfetto_manifest.json", manifest.dump(-1, ' ', true), &sink) &&
                 sink.Write(end.data(), end.size());
    return is_written ? Status() : Status(StatusCode::kIoError, "the archive could not be written");
  }

 private:
  static bool Add(const std::string& name, const std::string& bytes, ByteSink* sink) {
    const std::string header = HeaderOf(name, bytes.size());
    const std::string padding((kBlockBytes - bytes.size() % kBlockBytes) % kBlockBytes, '\0');
    return sink->Write(header.data(), header.size()) && sink->Write(bytes.data(), bytes.size()) &&
           sink->Write(padding.data(), padding.size());
  }

  Serializer& perfetto_;
  const std::vector<std::string>& dumps_;
  const std::string& output_;
  int loaded_ = kDone;
};

}  // namespace

int WritePerfettoArchive(Serializer& perfetto, const std::vector<std::string>& dumps, const std::string& output,
                         uint64_t* bytes) {
  Archive archive(perfetto, dumps, output);
  const int written = WriteFile(archive, model::Trace(), output, bytes);
  return written == kDone || (archive.loaded() != kDone && archive.loaded() != kDamaged) ? archive.loaded() : written;
}

}  // namespace pitot::cli
