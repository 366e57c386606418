// SPDX-License-Identifier: Apache-2.0
#include "read/known_files.h"

#include <algorithm>
#include <string_view>

#include "base/columns.h"
#include "base/text.h"
#include "read/other_protobufs.h"
#include "read/texts.h"

namespace pitot::read {
namespace {

using namespace std::string_view_literals;

constexpr char kNsysReport[] = "a report of Nsight Systems: export it by `nsys export --type sqlite REPORT`";
constexpr char kNsysStream[] =
    "a raw file of Nsight Systems: import it by `QdstrmImporter -i FILE`, then `nsys export --type sqlite REPORT`";

struct KnownFile {
  size_t at;
  std::string_view bytes;
  const char* name;
};

// The marks of files that people have next to traces.
constexpr KnownFile kKnownFiles[] = {
    {0,
     "\x7f"
     "ELF"sv,
     "an ELF program or library"},
    {0, "!<arch>\n"sv, "a library archive"},
    {0, "MZ"sv, "a Windows program"},
    {0, "\xcf\xfa\xed\xfe"sv, "a macOS program"},
    {0, "PK\x03\x04"sv, "a ZIP archive: unpack it first"},
    {0, "\x28\xb5\x2f\xfd"sv,
     "a zstd file: unpack it by `zstd -d FILE`, or pass it on by `zstd -dc FILE | pitot ... -`"},
    {0,
     "\xfd"
     "7zXZ"sv,
     "an xz file: unpack it by `xz -d FILE`"},
    {0, "BZh"sv, "a bzip2 file: unpack it by `bzip2 -d FILE`"},
    {257, "ustar"sv, "a tar archive: unpack it first"},
    {0, "%PDF"sv, "a PDF"},
    {0, "\x89PNG"sv, "a PNG picture"},
    {0, "\xff\xd8\xff"sv, "a JPEG picture"},
    {0, "GIF8"sv, "a GIF picture"},
    {0, "PAR1"sv, "a Parquet file"},
    {0, "ARROW1"sv, "an Arrow file"},
    {0, "\x89HDF"sv, "an HDF5 file"},
    {0, "\x93NUMPY"sv, "a NumPy array"},
    {0, "PERFILE2"sv, "a perf.data file of Linux perf"},
    {0, "NVIDIA Tegra Profiler Report"sv, kNsysReport},
    {0, "QDSTRM"sv, kNsysStream},
    {0, "NVR\0"sv, "a report of Nsight Compute"},
    {0, "\0asm"sv, "a WebAssembly module"},
    {0, "\x80\x02"sv, "a Python pickle"},
    {0, "\x80\x04"sv, "a Python pickle"},
};

std::string DatabaseName(const Head& head) {
  if (!head.database_problem.empty()) return "a SQLite database: " + head.database_problem;
  const auto has = [&](std::string_view begin) {
    const auto found = head.tables.lower_bound(std::string(begin));
    return found != head.tables.end() && std::string_view(*found).substr(0, begin.size()) == begin;
  };
  if (has("CUPTI_ACTIVITY_KIND_") && has("StringTable")) return "a SQLite database of nvprof: record with nsys instead";
  if (has("rocpd_api") || has("rocpd_op"))
    return "a SQLite database of rpd: record with `rocprofv3 --sys-trace` instead";
  return "a SQLite database that neither nsys nor rocprofv3 wrote: export a report by `nsys export --type sqlite`";
}

std::string JsonName(const JsonHead& json) {
  if (json.is_bare) return "JSON, but not a trace: it has no readable event: none of its members has a phase (\"ph\")";
  if (!json.has_events) {
    if (json.HasMember("resourceSpans")) return "OpenTelemetry's spans as JSON, without a span";
    if (json.HasMember("resourceMetrics")) return "OpenTelemetry's metrics as JSON: export spans";
    if (json.HasMember("resourceLogs")) return "OpenTelemetry's logs as JSON: export spans";
    return "JSON, but not a trace: it has no traceEvents";
  }
  if (json.values == 0 && json.is_cut) return "a trace that ends before its first event does";
  if (json.values == 0) return "a trace without events, of no known tool: its traceEvents are empty. Record again";
  return "JSON, but not a trace: none of its " + base::Count(json.values) + " traceEvents has a phase (\"ph\")";
}

// Whether it is a sequence of messages in fields below 16, as far as the first eight go.
bool IsFramed(std::string_view bytes) {
  constexpr int kFrames = 8;
  size_t at = 0;
  for (int frame = 0; frame < kFrames && at < bytes.size(); ++frame) {
    const auto tag = static_cast<unsigned char>(bytes[at++]);
    if (tag < 0x0a || tag >= 0x80 || (tag & 7) != 2) return false;
    uint64_t size = 0;
    for (int shift = 0;; shift += 7) {
      if (at >= bytes.size() || shift > 56) return false;
      const auto byte = static_cast<unsigned char>(bytes[at++]);
      size |= uint64_t{byte & 0x7fu} << shift;
      if (byte < 0x80) break;
    }
    if (size == 0 || size > uint64_t{1} << 40) return false;
    at += std::min<uint64_t>(size, bytes.size() - at);
  }
  return true;
}

std::string ProtobufName(std::string_view bytes) {
  if (const std::string_view other = OtherProtobuf(bytes); !other.empty()) return std::string(other);
  if (bytes.substr(0, 1) != "\x0a"sv || !IsFramed(bytes)) return {};
  return "a protobuf, neither a Perfetto trace nor an XSpace";
}

std::string TextName(std::string_view bytes) {
  const std::string lower = Lowered(bytes.substr(0, 512));
  const size_t first = std::min(lower.find_first_not_of(" \t\r\n"), lower.size());
  const std::string_view text = std::string_view(lower).substr(first);
  const auto begins = [&](std::string_view with) { return text.substr(0, with.size()) == with; };
  if (begins("<!doctype html") || begins("<html")) return "an HTML page, not the file it links to";
  if (begins("<?xml") || begins("<svg")) return "XML";
  if (begins("version https://git-lfs")) return "a pointer of Git LFS: fetch the file by `git lfs pull`";
  if (begins("#!")) return "a script";
  if (begins("==prof==") || begins("==error==")) return "printed output of Nsight Compute";
  return "plain text";
}

bool IsText(std::string_view bytes) {
  bytes = bytes.substr(0, 4096);
  return std::none_of(bytes.begin(), bytes.end(), [](char c) {
    return static_cast<unsigned char>(c) < 0x20 && std::string_view("\t\r\n\f\x1b").find(c) == std::string_view::npos;
  });
}

// Files that others name so, in case their content begins in a new way.
const char* NameByPath(std::string_view path) {
  if (path.ends_with(".nsys-rep") || path.ends_with(".qdrep")) return kNsysReport;
  return path.ends_with(".qdstrm") ? kNsysStream : nullptr;
}

std::string ContentName(const Head& head, std::string_view path) {
  const std::string_view bytes = head.bytes;
  if (head.is_database) return DatabaseName(head);
  for (const KnownFile& known : kKnownFiles) {
    if (bytes.size() > known.at && bytes.substr(known.at, known.bytes.size()) == known.bytes) return known.name;
  }
  if (const char* const name = NameByPath(path); name != nullptr) return name;
  if (head.json.is_json) return JsonName(head.json);
  if (IsText(bytes)) return TextName(bytes);
  const std::string name = ProtobufName(bytes);
  return name.empty() ? "binary data of no known kind" : name;
}

}  // namespace

std::string WhatItIs(const Head& head, std::string_view path) {
  if (head.bytes.empty()) return head.is_gzip ? "it is a gzip file with nothing in it" : "it is empty";
  return (head.is_gzip ? "it is, in gzip, " : "it is ") + ContentName(head, path);
}

}  // namespace pitot::read
