// SPDX-License-Identifier: Apache-2.0
#include <unordered_map>

#include "pitot/wait.h"
#include "tables/nesting.h"
#include "tables/tables.h"

namespace pitot::tables {
namespace {

using model::kNone;
using model::Trace;

const char* SiteKindName(SiteKind kind) {
  switch (kind) {
    case SiteKind::kScope:
      return "scope";
    case SiteKind::kLeaf:
      return "leaf";
    case SiteKind::kPhase:
      return "phase";
    case SiteKind::kInstant:
      return "instant";
    case SiteKind::kCounter:
      return "counter";
    case SiteKind::kWait:
      return "wait";
    case SiteKind::kAsyncBegin:
      return "async_begin";
    case SiteKind::kAsyncEnd:
      return "async_end";
    case SiteKind::kInternal:
      return "internal";
    case SiteKind::kOperator:
      return "operator";
  }
  return "unknown";
}

Table Processes(const Trace& trace) {
  Table table{"processes", "one row", 1, {}};
  Add(&table, Integer("pid", [&](uint64_t) { return trace.pid; }),
      Text(trace, "name", [&](uint64_t) { return trace.process_name; }));
  AddMoment(
      trace, "window_begin", [&](uint64_t) { return trace.window_begin_ns; }, &table);
  AddMoment(
      trace, "window_end", [&](uint64_t) { return trace.window_end_ns; }, &table);
  Add(&table,
      Integer(
          "clock_ns", [&](uint64_t) { return trace.clock.monotonic_ns; },
          "the clock of all `_ns`, and at that moment:"),
      NotZero(
          "unix_ns", [&](uint64_t) { return trace.clock.realtime_ns; }, "nanoseconds since 1970"));
  return table;
}

Table Threads(const Trace& trace) {
  const auto& rows = trace.threads;
  Table table{"threads", "", rows.size(), {}};
  Add(&table, Id("thread_id"),
      Integer(
          "number", [&](uint64_t row) { return rows[row].number; }, "Pitot's own"),
      Integer("tid", [&](uint64_t row) { return rows[row].tid; }),
      Text(trace, "name", [&](uint64_t row) { return rows[row].name; }),
      Bool("exited", [&](uint64_t row) { return rows[row].exited; }));
  AddMoment(
      trace, "history_begin", [&](uint64_t row) { return rows[row].history_begin_ns; }, &table);
  Add(&table, Integer("events", [&](uint64_t row) { return rows[row].event_count; }));
  return table;
}

Table Sites(const Trace& trace) {
  const auto& rows = trace.sites;
  Table table{"sites", "places in the code", rows.size(), {}};
  Add(&table, Id("site_id"),
      Name(
          "kind", [&](uint64_t row) { return rows[row].kind; }, SiteKindName),
      Text(trace, "name", [&](uint64_t row) { return rows[row].name; }),
      Text(trace, "file", [&](uint64_t row) { return rows[row].file; }),
      Text(trace, "function", [&](uint64_t row) { return rows[row].function; }),
      NotZero("line", [&](uint64_t row) { return rows[row].line; }),
      Bool(
          "unloaded", [&](uint64_t row) { return rows[row].unloaded; }, "its library was gone"));
  return table;
}

// The name of an event, as a string of the trace.
model::StringId NameOf(const Trace& trace, uint64_t event) {
  const model::SiteRow& site = trace.sites[trace.events.site[event]];
  const uint32_t args = trace.events.args[event];
  return site.name_is_first_arg && args != kNone ? static_cast<model::StringId>(trace.arg_values[args]) : site.name;
}

// The resource of a wait; 0: unknown, or it is none.
model::StringId ResourceOf(const Trace& trace, uint64_t event) {
  const model::SiteRow& site = trace.sites[trace.events.site[event]];
  const uint32_t args = trace.events.args[event];
  const bool has_it =
      site.kind == SiteKind::kWait && args != kNone && site.arg_types.size() >= 2 && model::IsText(site.arg_types[1]);
  return has_it ? static_cast<model::StringId>(trace.arg_values[args + 1]) : 0;
}

// "wait: journal".
Column ShownName(const Trace& trace) {
  constexpr int kNameBits = 32;
  const auto key = [&trace](uint64_t event) {
    return uint64_t{ResourceOf(trace, event)} << kNameBits | NameOf(trace, event);
  };
  const auto text = [&trace](uint64_t both, std::string* room) {
    const auto name = static_cast<model::StringId>(both), resource = static_cast<model::StringId>(both >> kNameBits);
    if (resource == 0) return trace.strings[name];
    room->assign(trace.strings[name]).append(": ").append(trace.strings[resource]);
    return std::string_view(*room);
  };
  return TextOf("name", key, text);
}

Table Events(const Trace& trace) {
  const model::EventColumns& events = trace.events;
  const Lazy<Nesting> nesting([&trace] { return Nesting(trace); });
  Table table{"events", "scopes, waits, operators, instants and counters of threads", events.size(), {}};
  Add(&table, Id("event_id"), RowOf("thread_id", [&](uint64_t row) { return events.thread[row]; }),
      Name(
          "kind", [&](uint64_t row) { return trace.sites[events.site[row]].kind; }, SiteKindName),
      ShownName(trace));
  AddMoment(
      trace, "begin", [&](uint64_t row) { return events.begin_ns[row]; }, &table);
  Add(&table, Duration("duration_ns", [&](uint64_t row) { return events.duration_ns[row]; }),
      Integer(
          "self_ns", [nesting](uint64_t row) { return nesting->SelfNs(static_cast<uint32_t>(row)); },
          "outside of inner scopes, in the window, as `pitot top --by scope`"));
  Column parent = RowOf(
      "parent_event_id", [nesting](uint64_t row) { return nesting->Parent(static_cast<uint32_t>(row)); },
      "the scope around it");
  parent.type = Type::kInteger;  // there are many different ones
  Add(&table, std::move(parent), RowOf("site_id", [&](uint64_t row) { return events.site[row]; }),
      RowOf("request_id", [&](uint64_t row) { return events.request[row]; }),
      RowOf("batch_id", [&](uint64_t row) { return events.batch[row]; }));
  return table;
}

// One row for each argument of an event.
Table EventArgs(const Trace& trace) {
  const auto elements = std::make_shared<std::vector<Element>>();
  for (uint32_t event = 0; event < trace.events.size(); ++event) {
    if (trace.events.args[event] == kNone) continue;
    const size_t count = trace.sites[trace.events.site[event]].arg_types.size();
    for (uint32_t place = 0; place < count; ++place) elements->push_back({event, place});
  }
  const auto site = [&trace, elements](uint64_t row) -> const model::SiteRow& {
    return trace.sites[trace.events.site[(*elements)[row].row]];
  };
  const auto type = [site, elements](uint64_t row) { return site(row).arg_types[(*elements)[row].place]; };
  const auto value = [&trace, elements](uint64_t row) {
    return trace.arg_values[trace.events.args[(*elements)[row].row] + (*elements)[row].place];
  };
  Table table{"event_args", "arguments of events", elements->size(), {}};
  Add(&table, Integer("event_id", [elements](uint64_t row) { return (*elements)[row].row; }),
      Text(trace, "name", [site, elements](uint64_t row) { return site(row).arg_names[(*elements)[row].place]; }),
      Integer("integer",
              [type, value](uint64_t row) -> std::optional<int64_t> {
                const bool is_it = !model::IsText(type(row)) && type(row) != ArgType::kDouble;
                return is_it ? std::optional(static_cast<int64_t>(value(row))) : std::nullopt;
              }),
      Make(Type::kReal, "real",
           [type, value](uint64_t row) -> std::optional<uint64_t> {  // its bits
             return type(row) == ArgType::kDouble ? std::optional(value(row)) : std::nullopt;
           }),
      Text(trace, "text", [type, value](uint64_t row) {
        return model::IsText(type(row)) ? static_cast<model::StringId>(value(row)) : model::StringId{0};
      }));
  return table;
}

std::shared_ptr<std::vector<uint32_t>> EventsOf(const Trace& trace, SiteKind kind) {
  auto rows = std::make_shared<std::vector<uint32_t>>();
  for (uint32_t event = 0; event < trace.events.size(); ++event) {
    if (trace.sites[trace.events.site[event]].kind == kind) rows->push_back(event);
  }
  return rows;
}

void AddEvent(const Trace& trace, const std::shared_ptr<std::vector<uint32_t>>& rows, Table* table) {
  const model::EventColumns& events = trace.events;
  Add(table, Integer("event_id", [rows](uint64_t row) { return (*rows)[row]; }),
      RowOf("thread_id", [&events, rows](uint64_t row) { return events.thread[(*rows)[row]]; }),
      RowOf("request_id", [&events, rows](uint64_t row) { return events.request[(*rows)[row]]; }),
      RowOf("batch_id", [&events, rows](uint64_t row) { return events.batch[(*rows)[row]]; }));
  AddMoment(
      trace, "begin", [&events, rows](uint64_t row) { return events.begin_ns[(*rows)[row]]; }, table);
  Add(table, Duration("duration_ns", [&events, rows](uint64_t row) { return events.duration_ns[(*rows)[row]]; }));
}

// Arguments of PITOT_WAIT: kind, resource, and the owner's thread and request.
Table Waits(const Trace& trace) {
  const auto rows = EventsOf(trace, SiteKind::kWait);
  // The number at a place; 0 if the event has none there.
  const auto arg = [&trace, rows](uint64_t row, size_t place) -> model::ArgValue {
    const uint32_t event = (*rows)[row], first = trace.events.args[event];
    const std::vector<ArgType>& types = trace.sites[trace.events.site[event]].arg_types;
    if (first == kNone || place >= types.size() || model::IsText(types[place])) return 0;
    return trace.arg_values[first + place];
  };
  using RowById = std::unordered_map<uint64_t, uint32_t>;
  const Lazy<RowById> requests([&trace] {
    RowById by_id;
    for (uint32_t row = 0; row < trace.requests.size(); ++row) by_id.try_emplace(trace.requests[row].id, row);
    return by_id;
  });
  const Lazy<RowById> threads([&trace] {
    RowById by_number;
    for (uint32_t row = 0; row < trace.threads.size(); ++row) by_number.try_emplace(trace.threads[row].number, row);
    return by_number;
  });
  const auto find = [](const RowById& by_id, uint64_t id) {
    const auto found = by_id.find(id);
    return id == 0 || found == by_id.end() ? kNone : found->second;
  };
  Table table{"waits", "waits of threads: the events of kind `wait`, with their arguments", rows->size(), {}};
  AddEvent(trace, rows, &table);
  Add(&table,
      Name(
          "kind", [arg](uint64_t row) { return static_cast<WaitKind>(arg(row, 0)); }, WaitKindName),
      Text(trace, "resource", [&trace, rows](uint64_t row) { return ResourceOf(trace, (*rows)[row]); }),
      RowOf(
          "owner_thread_id", [arg, find, threads](uint64_t row) { return find(*threads, arg(row, 2)); }, "who had it"),
      RowOf("owner_request_id", [arg, find, requests](uint64_t row) { return find(*requests, arg(row, 3)); }));
  return table;
}

Table Operators(const Trace& trace) {
  const auto rows = EventsOf(trace, SiteKind::kOperator);
  const auto text = [&trace, rows](const char* name, const char* note) {
    return Text(
        trace, name,
        [&trace, rows, name](uint64_t row) -> model::StringId {
          const uint32_t event = (*rows)[row], first = trace.events.args[event];
          const model::SiteRow& site = trace.sites[trace.events.site[event]];
          for (size_t i = 0; first != kNone && i < site.arg_types.size(); ++i) {
            if (model::IsText(site.arg_types[i]) && trace.strings[site.arg_names[i]] == name)
              return static_cast<model::StringId>(trace.arg_values[first + i]);
          }
          return 0;
        },
        note);
  };
  Table table{"operators", "a framework's operators: the events of kind `operator`", rows->size(), {}};
  AddEvent(trace, rows, &table);
  Add(&table, Text(trace, "name", [&trace, rows](uint64_t row) { return NameOf(trace, (*rows)[row]); }),
      text("shapes", "of its inputs, if they were recorded"));
  return table;
}

Table Calls(const Trace& trace) {
  const model::CallColumns& calls = trace.calls;
  Table table{"calls", "calls of a GPU's API", calls.size(), {}};
  Add(&table, Id("call_id"), RowOf("thread_id", [&](uint64_t row) { return calls.thread[row]; }),
      Text(trace, "name", [&](uint64_t row) { return calls.name[row]; }));
  AddMoment(
      trace, "begin", [&](uint64_t row) { return calls.begin_ns[row]; }, &table);
  Add(&table, Duration("duration_ns", [&](uint64_t row) { return calls.duration_ns[row]; }),
      RowOf("request_id", [&](uint64_t row) { return calls.request[row]; }),
      RowOf("batch_id", [&](uint64_t row) { return calls.batch[row]; }),
      RowOf("waits_for_stream_id", [&](uint64_t row) { return calls.stream[row]; }),
      RowOf("waits_for_device_id", [&](uint64_t row) { return calls.device[row]; }));
  return table;
}

}  // namespace

void AddHostTables(const Trace& trace, std::vector<Table>* tables) {
  tables->push_back(Processes(trace));
  tables->push_back(Threads(trace));
  tables->push_back(Sites(trace));
  tables->push_back(Events(trace));
  tables->push_back(EventArgs(trace));
  tables->push_back(Waits(trace));
  tables->push_back(Operators(trace));
  tables->push_back(Calls(trace));
}

}  // namespace pitot::tables
