// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <memory>
#include <string>

#include "pitot/read/dump.h"
#include "read/formats.h"
#include "serialize/dump_format.h"

namespace pitot::read {
namespace {

// A damaged dump has the mark of a chunk somewhere; a cut one may have a part of its first.
bool IsDump(const Head& head) {
  std::string mark;
  for (int byte = 0; byte < 4; ++byte) mark += static_cast<char>(dump_format::kMagic >> 8 * byte & 255);
  const bool is_beginning =
      !head.bytes.empty() && head.bytes.size() < mark.size() && mark.compare(0, head.bytes.size(), head.bytes) == 0;
  return is_beginning || head.bytes.find(mark) != std::string::npos;
}

// Reads all of it, in steps: a damaged gzip file gives what was whole.
Status Unpack(const Input& input, std::string* bytes) {
  constexpr size_t kStep = 64 << 10, kMost = size_t{1} << 30;
  bool is_gzip = false;
  const std::unique_ptr<ByteSource> source = input.Open(&is_gzip);
  for (size_t got = 1; got > 0 && bytes->size() < kMost;) {
    const size_t at = bytes->size();
    bytes->resize(at + kStep);
    got = source->Read(bytes->data() + at, kStep);
    bytes->resize(at + got);
  }
  if (bytes->size() >= kMost)
    return Status(StatusCode::kResourceExhausted, "unpacked it has more than 1 GiB: unpack it first");
  const StatusCode code = source->status().code();
  return code == StatusCode::kDataLoss ? Status() : source->status();
}

Status ReadDumpFormat(const Input& input, model::Trace* trace, TraceReport* report) {
  Status status;
  if (report->is_gzip) {
    std::string bytes;
    status = Unpack(input, &bytes);
    if (status.ok()) status = ParseDump(bytes.data(), bytes.size(), trace, &report->dump);
  } else {
    status = input.IsFile() ? ReadDump(input.path, trace, &report->dump)
                            : ParseDump(input.data, input.size, trace, &report->dump);
  }
  report->complete = report->dump.complete;
  return status;
}

}  // namespace

const Format kDumpFormat = {"dump", "dump", "Pitot's dumps", "Pitot", "", {}, {}, IsDump, ReadDumpFormat};

}  // namespace pitot::read
