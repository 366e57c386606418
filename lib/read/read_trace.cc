// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <memory>
#include <new>
#include <string>

#include "base/columns.h"
#include "base/text.h"
#include "model/fill_columns.h"
#include "model/is_empty.h"
#include "model/lacking.h"
#include "pitot/read/trace.h"
#include "read/formats.h"
#include "read/known_files.h"
#include "read/sqlite_database.h"

namespace pitot::read {
namespace {

// The first chunk of a dump may be damaged; its second begins within these bytes.
constexpr size_t kHeadBytes = (2 << 20) + 64;

void LookAtTables(const Input& input, Head* head) {
  if (head->is_gzip) return void(head->database_problem = "unpack it by gunzip first");
  const SqliteDatabase database(input);
  head->tables = database.tables();
  const Status& status = database.status();
  if (status.code() == StatusCode::kInvalidArgument || (!status.ok() && head->tables.empty()))
    head->database_problem = status.message();
}

Status ReadHead(const Input& input, Head* head) {
  const std::unique_ptr<ByteSource> source = input.Open(&head->is_gzip);
  head->bytes.resize(kHeadBytes);
  size_t have = 0;
  for (size_t got = 1; got != 0 && have < kHeadBytes; have += got)
    got = source->Read(head->bytes.data() + have, kHeadBytes - have);
  head->bytes.resize(have);
  head->is_whole = have < kHeadBytes;
  if (source->status().code() == StatusCode::kDataLoss && have == 0)
    return Status(StatusCode::kInvalidArgument, "it begins like gzip, but its compressed data is damaged");
  if (!source->status().ok() && source->status().code() != StatusCode::kDataLoss) return source->status();
  head->json = LookAtJson(head->bytes);
  head->is_database = SqliteDatabase::Looks(head->bytes);
  if (head->is_database) LookAtTables(input, head);
  return {};
}

// "Node 12, Session 7".
std::string CategoriesText(const JsonHead& json) {
  std::string text;
  for (const auto& [category, count] : json.categories)
    text += (text.empty() ? "" : ", ") + base::Cut(base::SanitizeText(category), 40) + " " + base::Count(count);
  return base::Cut(text, 200);
}

// Why a file that was recognised gave nothing.
std::string WhyNothing(const Format& format, const Head& head, uint64_t events) {
  if (events == 0) return std::string(format.name) + " without an event: " + format.advice;
  const std::string categories = CategoriesText(head.json);
  return "it has " + base::Plural(events, "event") + ", none of a kind that " + format.tool + " writes for a timeline" +
         (categories.empty() ? "" : " (categories: " + categories + ")") + ": " + format.advice;
}

// A file that was converted before has the attributes of that reading. It lacks what the first file lacked, too.
void NoteLacks(const TraceReport& report, model::Trace* trace) {
  constexpr std::string_view kFormat = "format", kLacks = model::kNotRecorded;
  std::vector<std::string_view> all = model::LacksOf(*trace);
  for (const std::string& lack : report.lacks) model::AddLack(lack, &all);
  const std::string lacks = model::LacksText(all);
  std::erase_if(trace->attributes, [&](const model::Attribute& attribute) {
    const std::string_view key = trace->strings[attribute.key];
    return key == kFormat || key == kLacks;
  });
  const auto add = [&](std::string_view key, const std::string& value) {
    if (!value.empty()) trace->attributes.push_back({trace->strings.Add(key), trace->strings.Add(value)});
  };
  add(kFormat, report.name + ", by " + report.tool);
  add(kLacks, lacks);
}

Status ReadAs(const Format& format, const Head& head, const Input& input, model::Trace* trace, TraceReport* report) {
  report->format = format.id;
  report->name = format.name;
  report->tool = format.tool;
  report->is_gzip = head.is_gzip;
  report->lacks.assign(format.lacks.begin(), format.lacks.end());
  report->how.assign(format.how.begin(), format.how.end());
  Status status = format.read(input, trace, report);
  if (!status.ok() && status.code() != StatusCode::kDataLoss) return status;
  const bool is_foreign = &format != &kDumpFormat;
  if (is_foreign && status.ok() && IsEmpty(*trace) && trace->losses.empty()) {
    report->is_empty = report->events == 0;
    return Status(StatusCode::kInvalidArgument, WhyNothing(format, head, report->events).c_str());
  }
  if (is_foreign) NoteLacks(*report, trace);
  schema::FillColumns(trace);
  const std::string wrong = model::FindInconsistency(*trace);
  if (wrong.empty()) return status;
  return Status(StatusCode::kInternal, ("the reader made an inconsistent trace: " + wrong).c_str());
}

const Format* const* FormatOf(const Head& head) {
  return std::find_if(std::begin(kFormats), std::end(kFormats),
                      [&](const Format* one) { return one->recognizes(head); });
}

Status ReadAny(const Input& input, model::Trace* trace, TraceReport* report) {
  Head head;
  if (Status status = ReadHead(input, &head); !status.ok()) return status;
  const auto format = FormatOf(head);
  if (format == std::end(kFormats)) return Status(StatusCode::kInvalidArgument, WhatItIs(head, input.path).c_str());
  const Status status = ReadAs(**format, head, input, trace, report);
  // The mark of a dump's chunk may be in any binary file, and large JSON without events is no trace.
  const bool is_guess = head.IsCutJson() && *format != &kRocprofFormat;
  const bool is_trace = *format == &kDumpFormat ? report->dump.version_major != 0 : report->events != 0 || !is_guess;
  if (is_trace || status.code() != StatusCode::kInvalidArgument) return status;
  *report = TraceReport();
  return Status(StatusCode::kInvalidArgument, WhatItIs(head, input.path).c_str());
}

// Runs a reader, and leaves the trace empty after an error.
template <class F> Status Guard(model::Trace* trace, TraceReport* report, const F& read) noexcept {
  Status status;
  try {
    *trace = model::Trace();
    *report = TraceReport();
    status = read();
    if (status.ok() || status.code() == StatusCode::kDataLoss) return status;
  } catch (const std::bad_alloc&) {
    status = Status(StatusCode::kResourceExhausted, "no memory for the trace");
  } catch (...) {
    status = Status(StatusCode::kInternal, "the trace could not be read");
  }
  *trace = model::Trace();
  return status;
}

}  // namespace

Status ParseAs(const Format& format, const void* data, uint64_t size, model::Trace* trace,
               TraceReport* report) noexcept {
  return Guard(trace, report, [&] {
    const Input input = {"", data, size};
    Head head;
    const Status status = ReadHead(input, &head);
    return status.ok() ? ReadAs(format, head, input, trace, report) : status;
  });
}

}  // namespace pitot::read

PITOT_NAMESPACE_BEGIN

Status ReadTrace(const std::string& path, model::Trace* trace, TraceReport* report) noexcept {
  return read::Guard(trace, report, [&] { return read::ReadAny({path, nullptr, 0}, trace, report); });
}

Status ParseTrace(const void* data, uint64_t size, model::Trace* trace, TraceReport* report) noexcept {
  return read::Guard(trace, report, [&] { return read::ReadAny({"", data, size}, trace, report); });
}

bool LooksLikeTrace(const std::string& path) noexcept try {
  read::Head head;
  if (!read::ReadHead({path, nullptr, 0}, &head).ok()) return false;
  return read::FormatOf(head) != std::end(read::kFormats);
} catch (...) {
  return false;
}

std::string ReadableFormats() {
  std::string list;
  const size_t count = std::size(read::kFormats);
  for (size_t i = 0; i < count; ++i)
    list += std::string(i == 0 ? "" : i + 1 == count ? " and " : ", ") + read::kFormats[i]->plural;
  return list;
}

PITOT_NAMESPACE_END
