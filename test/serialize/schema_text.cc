// SPDX-License-Identifier: Apache-2.0
#include "serialize/schema_text.h"

#include <stdio.h>

#include <algorithm>
#include <bit>
#include <map>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "model/schema.h"
#include "serialize/dump_format.h"

namespace pitot::test {
namespace {

using model::kNone;
using schema::ChunkType;

std::string Hex(uint64_t value) {
  char text[24];
  snprintf(text, sizeof text, "0x%llx", static_cast<unsigned long long>(value));
  return text;
}
// Different values have different texts.
std::string Exact(double value) {
  if (value != value) return "nan " + Hex(std::bit_cast<uint64_t>(value));
  char text[40];
  snprintf(text, sizeof text, "%.17g", value);
  return text;
}

class TraceText {
 public:
  explicit TraceText(const model::Trace& trace) : trace_(trace) {}

  std::string All() {
    const model::ClockInfo& clock = trace_.clock;
    text_ = "process " + String(trace_.process_name) + " pid " + std::to_string(trace_.pid) + " window " +
            std::to_string(trace_.window_begin_ns) + " " + std::to_string(trace_.window_end_ns) + " clock " +
            std::to_string(clock.monotonic_ns) + " " + std::to_string(clock.realtime_ns) + " " +
            std::to_string(clock.boottime_ns) + " " + std::to_string(clock.cycle_counter) + " " +
            Exact(clock.ticks_per_ns) + " " + std::to_string(clock.pair_width_ns) + "\n";
    schema::ForEachTable([&]<const auto & kTable>() {
      const auto& rows = trace_.*kTable.member;
      for (size_t row = 0; row < schema::SizeOf<schema::OfTable<kTable>>(rows); ++row) {
        text_.append(kTable.name).append(" ").append(std::to_string(row)).append(":");
        AddRow<schema::OfTable<kTable>>(rows, row);
        text_.append("\n");
      }
    });
    return std::move(text_);
  }

 private:
  std::string String(uint64_t id) const {
    return '"' + std::string(trace_.strings[static_cast<model::StringId>(id)]) + '"';
  }

  template <class Owner, class Rows> void AddRow(const Rows& rows, size_t row) {
    schema::ForEachColumn<Owner>([&](auto at) { Add<decltype(at)>(rows, row); });
  }
  template <class At, class Rows> void Add(const Rows& rows, size_t row) {
    constexpr const auto& kColumn = At::kColumn;
    if constexpr (At::kEncoding == schema::kList) {
      const auto& elements = schema::Elements(rows[row], kColumn);
      for (size_t i = 0; i < schema::SizeOf<schema::OfList<At>>(elements); ++i) {
        text_.append(" ").append(kColumn.name).append(" (");
        AddRow<schema::OfList<At>>(elements, i);
        text_.append(" )");
      }
    } else if (const std::string value = Value<At>(rows, row); !value.empty()) {
      text_.append(" ").append(kColumn.name).append(" ").append(value);
    }
  }

  // "" for a value to leave out.
  template <class At, class Rows> std::string Value(const Rows& rows, size_t row) {
    constexpr const auto& kColumn = At::kColumn;
    if constexpr (At::kEncoding == schema::kArgs) {
      return Args(row);
    } else if constexpr (At::kEncoding == schema::kRange) {
      const uint32_t first = rows[row].*kColumn.first, count = rows[row].*kColumn.count;
      return count == 0 ? "" : std::to_string(first) + "+" + std::to_string(count);
    } else if constexpr (At::kEncoding == schema::kFlags) {
      const int flags = (rows[row].*kColumn.member[0] ? 1 : 0) + (rows[row].*kColumn.member[1] ? 2 : 0);
      return flags == 0 ? "" : std::to_string(flags);
    } else if constexpr (At::kEncoding == schema::kTriple) {
      const auto& values = rows[row].*kColumn.member;
      return std::to_string(values[0]) + "," + std::to_string(values[1]) + "," + std::to_string(values[2]);
    } else if constexpr (At::kEncoding == schema::kUntil) {
      return std::to_string(rows[row].*kColumn.member - rows[row].*kColumn.begin);
    } else {
      return ValueText<At::kEncoding>(schema::Get(rows, kColumn.member, row));
    }
  }
  template <schema::Encoding kEncoding, class T> std::string ValueText(T value) const {
    if constexpr (std::is_enum_v<T>) {
      return std::to_string(static_cast<int>(value));
    } else if constexpr (std::is_floating_point_v<T>) {
      return Exact(value);
    } else if constexpr (kEncoding == schema::kRow || kEncoding == schema::kRun) {
      return std::to_string(value);
    } else if constexpr (kEncoding == schema::kRowOrNone || kEncoding == schema::kNearRow) {
      return value == kNone ? "" : std::to_string(value);
    } else if constexpr (kEncoding == schema::kLength) {
      return value == model::kOpen ? "open" : std::to_string(value);
    } else {
      if (value == 0) return "";
      return kEncoding == schema::kString  ? String(static_cast<uint64_t>(value))
             : kEncoding == schema::kFixed ? Hex(static_cast<uint64_t>(value))
                                           : std::to_string(value);
    }
  }
  std::string Args(size_t event) const {
    const uint32_t first = trace_.events.args[event];
    std::string text;
    const std::vector<ArgType>& types = trace_.sites[trace_.events.site[event]].arg_types;
    for (size_t i = 0; first != kNone && i < types.size(); ++i) {
      const model::ArgValue value = trace_.arg_values[first + i];
      text += (i == 0 ? "" : ", ");
      text += model::IsText(types[i])        ? String(value)
              : types[i] == ArgType::kDouble ? Exact(std::bit_cast<double>(value))
              : types[i] == ArgType::kInt    ? std::to_string(static_cast<int64_t>(value))
                                             : std::to_string(value);
    }
    return text;
  }

  const model::Trace& trace_;
  std::string text_;
};

// Fills a column of a table if it has only the values of a missing column.
template <class At, class Rows> void FillIfEmpty(const model::Trace& trace, Rows* rows, size_t size) {
  using Value = schema::ValueOf<At>;
  constexpr bool kIsRow = At::kEncoding == schema::kRowOrNone || At::kEncoding == schema::kNearRow;
  const auto value = [&](size_t row) -> Value& {
    if constexpr (schema::kIsVector<Rows>) {
      return (*rows)[row].*At::kColumn.member;
    } else {
      return (rows->*At::kColumn.member)[row];
    }
  };
  if constexpr (!schema::kIsVector<Rows>)
    (rows->*At::kColumn.member).resize(size, static_cast<Value>(kIsRow ? kNone : 0));
  for (size_t row = 0; row < size; ++row) {
    if (value(row) != static_cast<Value>(kIsRow ? kNone : 0)) return;
  }
  size_t values = 100;
  if constexpr (kIsRow) values = schema::RowsOf<At::kColumn.table>(trace);
  if constexpr (At::kEncoding == schema::kString) values = trace.strings.size();
  for (size_t row = 0; row < size && values != 0; ++row) value(row) = static_cast<Value>((row + 1) % values);
}

// A field of a message: a column, or one of the columns of a list or of the arguments.
struct Field {
  uint32_t number;
  std::string type;  // without "repeated"
  std::string name;
  std::string note;
  bool is_repeated = true;
  uint32_t since = 0;
};

// Words in lines of at most 120 columns, the first line after `begin`, the others indented as much.
std::string Wrapped(std::string begin, const std::vector<std::string>& words) {
  std::string text, line = std::move(begin);
  const size_t indent = line.size();
  bool is_first = true;
  for (const std::string& word : words) {
    if (!is_first && line.size() + 1 + word.size() > 120) {
      text += line + "\n";
      line = std::string(indent, ' ');
      is_first = true;
    }
    line += (is_first ? "" : " ") + word;
    is_first = false;
  }
  return text + line + "\n";
}

template <class At> std::string TypeOf() {
  using Wire = schema::WireOf<At>;
  if (At::kEncoding == schema::kFixed) return "fixed64";
  if (At::kEncoding == schema::kMoment || At::kEncoding == schema::kNearRow) return "sint64";
  return std::is_same_v<Wire, bool>       ? "bool"
         : std::is_same_v<Wire, double>   ? "double"
         : std::is_same_v<Wire, int64_t>  ? "int64"
         : std::is_same_v<Wire, uint64_t> ? "uint64"
                                          : "uint32";
}

template <class At> std::string NoteOf() {
  std::string note;
  const auto add = [&](const std::string& text) { note += (note.empty() || text.empty() ? "" : "; ") + text; };
  if constexpr (schema::kRefers<At>) {
    constexpr bool kPlusOne = At::kEncoding == schema::kRowOrNone || At::kEncoding == schema::kNearRow;
    add(std::string(At::kEncoding == schema::kNearRow ? "delta of " : "") + (kPlusOne ? "row + 1 of " : "row of ") +
        schema::kTableOf<At::kColumn.table>.name);
  }
  if (At::kEncoding == schema::kString) add("string");
  if (At::kEncoding == schema::kMoment) add("delta");
  if (At::kEncoding == schema::kFinite) add("finite");
  if (At::kEncoding == schema::kTriple) add("x, y, z of each row");
  add(At::kColumn.note);
  if (At::kColumn.since != 0) add("from minor version " + std::to_string(At::kColumn.since) + " on");
  return note;
}

template <class Owner> void AddFields(const std::string& prefix, std::vector<Field>* fields) {
  schema::ForEachColumn<Owner>([&](auto at) {
    using At = decltype(at);
    const std::string name = prefix + at.kColumn.name;
    if constexpr (At::kEncoding == schema::kList) {
      fields->push_back({at.kField, "uint32", name + "_count", "of each row; the elements of all rows follow"});
      AddFields<schema::OfList<At>>(name + "_", fields);
    } else if constexpr (At::kEncoding == schema::kArgs) {
      fields->push_back({at.kField, "uint32", name + "_count", "of each row; the arguments of all rows follow"});
      fields->push_back({at.kField + 1, "uint64", name, "argument"});
    } else if constexpr (At::kEncoding != schema::kRange) {
      fields->push_back({at.kField, TypeOf<At>(), name, NoteOf<At>(), At::kEncoding != schema::kRun, at.kColumn.since});
    }
  });
}
template <const auto& kTable> std::vector<Field> FieldsOf() {
  std::vector<Field> fields;
  if (kTable.rows == schema::kNumbered) fields.push_back({1, "uint64", "first_row", "", false});
  AddFields<schema::OfTable<kTable>>("", &fields);
  return fields;
}

}  // namespace

std::string TextOf(const model::Trace& trace) { return TraceText(trace).All(); }

std::string FindDifference(const model::Trace& a, const model::Trace& b) {
  for (uint32_t i = 0; i < std::max(a.strings.size(), b.strings.size()); ++i) {
    if (i >= a.strings.size() || i >= b.strings.size() || a.strings[i] != b.strings[i])
      return "strings " + std::to_string(i);
  }
  const std::string text = TextOf(a), other = TextOf(b);
  const auto differ = std::mismatch(text.begin(), text.end(), other.begin(), other.end());
  if (differ.first == text.end() && differ.second == other.end()) return "";
  const auto line = [](const std::string& of, size_t at) {
    const size_t begin = at == 0 ? 0 : of.rfind('\n', at - 1) + 1;
    return of.substr(begin, of.find('\n', at) - begin);
  };
  const auto at = static_cast<size_t>(differ.first - text.begin());
  return line(text, at) + " | " + line(other, at);
}

void FillEmptyColumns(model::Trace* trace) {
  schema::ForEachTable([&]<const auto & kTable>() {
    auto& rows = trace->*kTable.member;
    const size_t size = schema::SizeOf<schema::OfTable<kTable>>(rows);
    schema::ForEachColumn<schema::OfTable<kTable>>([&](auto at) {
      constexpr schema::Encoding kIs = at.kEncoding;
      if constexpr (kIs == schema::kNumber || kIs == schema::kFixed || kIs == schema::kReal || kIs == schema::kFinite ||
                    kIs == schema::kString || kIs == schema::kRowOrNone || kIs == schema::kNearRow ||
                    kIs == schema::kTime)
        FillIfEmpty<decltype(at)>(*trace, &rows, size);
    });
  });
}

std::string ProtoOfTables() {
  std::map<ChunkType, std::string> messages;
  schema::ForEachTable([&]<const auto & kTable>() {
    std::string& text = messages[kTable.type];
    text = "\n// Type " + std::to_string(static_cast<int>(kTable.type));
    if (kTable.since != 0) text += ", from minor version " + std::to_string(kTable.since) + " on";
    text += (*kTable.note == '\0' ? "" : ": ") + std::string(kTable.note) + ".\n";
    text += "message " + dump_format::MessageName(kTable.name) + " {\n";
    for (const Field& field : FieldsOf<kTable>()) {
      text += "  " + std::string(field.is_repeated ? "repeated " : "") + field.type + " " + field.name + " = " +
              std::to_string(field.number) + ";" + (field.note.empty() ? "" : "  // ") + field.note + "\n";
    }
    text += "}\n";
  });
  std::string all;
  for (const auto& [type, text] : messages) all += text;
  return all;
}

std::string DocumentOfTables() {
  std::map<ChunkType, std::string> lines;
  std::vector<std::string> order = {"Version", "1." + std::to_string(schema::kNewestMinor) + ".",
                                    "The",     "order",
                                    "of",      "chunks",
                                    "in",      "a",
                                    "dump",    "is",
                                    "1,",      "2,"};
  schema::ForEachTable([&]<const auto & kTable>() {
    const std::string type = std::to_string(static_cast<int>(kTable.type));
    order.push_back(type + ",");
    std::string line = std::string(3 - type.size(), ' ') + type + "  " + dump_format::MessageName(kTable.name);
    line.resize(22, ' ');
    std::vector<std::string> words;
    for (const Field& field : FieldsOf<kTable>()) {
      if (!words.empty()) words.back() += ",";
      words.push_back(field.name + (field.since == 0 ? "" : " (1." + std::to_string(field.since) + ")"));
    }
    lines[kTable.type] = Wrapped(line + "1." + std::to_string(kTable.since) + "  ", words);
  });
  order.push_back("15.");
  std::string all = Wrapped("", order) + "\n```text\n";
  for (const auto& [type, text] : lines) all += text;
  return all + "```\n";
}

}  // namespace pitot::test
