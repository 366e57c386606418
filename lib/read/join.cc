// SPDX-License-Identifier: Apache-2.0
#include "pitot/read/join.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <new>
#include <set>
#include <tuple>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "base/gpu_counters.h"
#include "base/message.h"
#include "base/mix.h"
#include "model/lacking.h"
#include "model/one_start.h"
#include "model/parts.h"
#include "pitot/model/classes.h"
#include "read/join_devices.h"
#include "read/join_windows.h"

namespace pitot::read {
namespace {

using base::Error;
using base::Mix;
using model::kNone;
using model::StringId;
using model::Trace;

// On the clock of the first. The origin moves to the earliest moment, so all fit below kMaxTimeNs.
constexpr int64_t kEarliestNs = -(model::kMaxTimeNs / 4), kLatestNs = model::kMaxTimeNs + kEarliestNs - 1;

// Every moment of a trace. Lengths, and times after a begin, are none; nor is a 0 that stands for "not yet".
template <class F> void ForEachMoment(Trace* trace, const F& f) {
  const auto all = [&](std::vector<int64_t>* column) {
    for (int64_t& ns : *column) f(&ns);
  };
  const auto if_set = [&](int64_t* ns) {
    if (*ns != 0) f(ns);
  };
  f(&trace->window_begin_ns), f(&trace->window_end_ns), f(&trace->clock.monotonic_ns);
  for (auto& row : trace->threads) f(&row.history_begin_ns);
  for (auto& row : trace->requests) {
    f(&row.begin_ns);
    for (auto& stage : row.stages) f(&stage.begin_ns);
  }
  for (auto& row : trace->batches) f(&row.begin_ns);
  for (auto& row : trace->members) f(&row.join_ns), if_set(&row.leave_ns);
  for (auto& row : trace->handoffs) f(&row.enqueue_ns), if_set(&row.take_ns);
  for (auto& row : trace->asyncs) f(&row.begin_ns);
  for (auto& row : trace->tokens) f(&row.at_ns);
  for (auto& row : trace->losses) f(&row.begin_ns), f(&row.end_ns);
  for (auto& row : trace->gpu_losses) f(&row.begin_ns), f(&row.end_ns);
  for (auto& row : trace->overheads) f(&row.begin_ns);
  for (auto& row : trace->depths) f(&row.begin_ns), f(&row.end_ns);
  for (auto& row : trace->operator_depths) f(&row.begin_ns), f(&row.end_ns);
  for (auto& row : trace->firings) f(&row.at_ns);
  all(&trace->events.begin_ns), all(&trace->calls.begin_ns), all(&trace->gpu.begin_ns), all(&trace->samples.at_ns);
}

// Moves all parts to the clock of the first, and further if a moment would be before its origin.
Status JoinClocks(std::vector<TracePart>* parts) {
  const Trace& first = parts->front().trace;
  const int64_t origin_ns = first.clock.realtime_ns - first.clock.monotonic_ns;
  std::vector<int64_t> shifts;
  int64_t lowest_ns = INT64_MAX;
  for (TracePart& part : *parts) {
    if (part.trace.clock.realtime_ns == 0)
      return Error(StatusCode::kInvalidArgument, "%s has no date, so its clock cannot be joined to that of others",
                   part.name.c_str());
    const int64_t shift_ns = model::AreOfOneStart(first, part.trace)
                                 ? 0
                                 : part.trace.clock.realtime_ns - part.trace.clock.monotonic_ns - origin_ns;
    bool fits = std::abs(shift_ns) <= model::kMaxTimeNs;
    ForEachMoment(&part.trace, [&](const int64_t* ns) {
      fits = fits && *ns >= kEarliestNs - shift_ns && *ns <= kLatestNs - shift_ns;
      if (fits) lowest_ns = std::min(lowest_ns, *ns + shift_ns);
    });
    if (!fits)
      return Error(StatusCode::kInvalidArgument, "%s is from another time than %s", part.name.c_str(),
                   parts->front().name.c_str());
    shifts.push_back(shift_ns);
  }
  // 0 stands for "not yet" in some columns.
  const int64_t more_ns = lowest_ns < 1 ? 1 - lowest_ns : 0;
  for (size_t i = 0; i < parts->size(); ++i)
    ForEachMoment(&(*parts)[i].trace, [&](int64_t* ns) { *ns += shifts[i] + more_ns; });
  return {};
}

template <class T> void Append(const std::vector<T>& from, std::vector<T>* to) {
  to->insert(to->end(), from.begin(), from.end());
}
template <class Row> void SortByBegin(std::vector<Row>* rows) {
  std::stable_sort(rows->begin(), rows->end(), [](const Row& a, const Row& b) { return a.begin_ns < b.begin_ns; });
}

class Joiner {
 public:
  Joiner(std::vector<TracePart>* parts, Trace* joined, JoinReport* report)
      : parts_(*parts), joined_(*joined), report_(*report), maps_(parts->size()) {}

  void Join() {
    Trace& first = parts_[0].trace;
    joined_.clock = first.clock;
    joined_.pid = first.pid;
    joined_.process_name = joined_.strings.Add(first.strings[first.process_name]);
    joined_.window_begin_ns = first.window_begin_ns;
    joined_.window_end_ns = first.window_end_ns;
    const std::string_view host = first.AttributeOf("host");
    for (size_t i = 0; i < parts_.size(); ++i) {
      are_of_one_host_ = are_of_one_host_ && !host.empty() && parts_[i].trace.AttributeOf("host") == host;
      joined_.window_begin_ns = std::min(joined_.window_begin_ns, parts_[i].trace.window_begin_ns);
      joined_.window_end_ns = std::max(joined_.window_end_ns, parts_[i].trace.window_end_ns);
      MapStrings(i);
    }
    for (TracePart& part : parts_) {
      if (part.trace.window_end_ns < joined_.window_end_ns) EndOpenRows(&part.trace);
    }
    AddParts();
    AddDevices();
    PlaceRows(&Trace::requests, &Map::requests);
    PlaceRows(&Trace::batches, &Map::batches);
    for (size_t i = 0; i < parts_.size(); ++i) AddTables(i);
    AddLacks();
    joined_.depths = JoinDepths(parts_);
    joined_.operator_depths = JoinOperatorDepths(parts_);
    AddRequests();
    AddBatches();
    AddCalls();
    for (size_t i = 0; i < parts_.size(); ++i) AddGpu(i);
    Sort();
  }

 private:
  static constexpr size_t kSeveral = SIZE_MAX;
  struct Owner {
    size_t part;  // or kSeveral
    StringId own_name;
  };

  // Where a part's rows are in the joined trace.
  struct Map {
    std::vector<StringId> strings;
    std::vector<uint32_t> requests, batches, calls, devices;
    uint32_t sites = 0, threads = 0, streams = 0, shapes = 0, counters = 0, args = 0, graphs = 0;
    std::unordered_map<uint64_t, uint64_t> ids;  // of requests that got another
  };

  static uint32_t Moved(uint32_t row, uint32_t by) { return row == kNone ? kNone : row + by; }
  static uint32_t At(const std::vector<uint32_t>& rows, uint32_t row) { return row == kNone ? kNone : rows[row]; }
  uint64_t IdOf(const Map& map, uint64_t id) const {
    const auto found = map.ids.find(id);
    return found != map.ids.end() ? found->second : id;
  }
  StringId Named(size_t part, StringId name) {
    const std::string_view own = parts_[part].trace.strings[name];
    return joined_.strings.Add(parts_[part].name + (own.empty() ? "" : ": ") + std::string(own));
  }

  void MapStrings(size_t part) {
    const model::StringTable& strings = parts_[part].trace.strings;
    for (StringId id = 0; id < strings.size(); ++id) maps_[part].strings.push_back(joined_.strings.Add(strings[id]));
  }

  // Says which files the trace is of.
  void AddParts() {
    for (size_t i = 0; i < parts_.size(); ++i) {
      const Trace& from = parts_[i].trace;
      const std::string key = std::string(model::kJoinedKey) + std::to_string(i);
      const auto add = [&](std::string_view of, std::string_view value) {
        if (!value.empty() || of.empty())
          joined_.attributes.push_back({joined_.strings.Add(key + std::string(of)), joined_.strings.Add(value)});
      };
      add("", parts_[i].name);
      add(model::kPartFormat, parts_[i].format);
      add(model::kPartProcess, from.strings[from.process_name]);
      if (from.pid != 0) add(model::kPartPid, std::to_string(from.pid));
      add(model::kPartHost, from.AttributeOf("host"));
    }
  }

  // A GPU of several parts has one row, under its own name.
  void AddDevices() {
    std::unordered_map<std::string, uint32_t> rows;  // by UUID
    size_t parts_with_any = 0, without_uuid = 0;
    for (size_t i = 0; i < parts_.size(); ++i) {
      const Trace& from = parts_[i].trace;
      const std::vector<std::string> uuids = UuidsOf(from);
      parts_with_any += uuids.empty() ? 0 : 1;
      for (uint32_t at = 0; at < uuids.size(); ++at) {
        const auto next = static_cast<uint32_t>(joined_.devices.size());
        const uint32_t row = uuids[at].empty() ? next : rows.try_emplace(uuids[at], next).first->second;
        without_uuid += uuids[at].empty() ? 1 : 0;
        maps_[i].devices.push_back(row);
        if (row == next) {
          AddDevice(i, from.devices[at]);
        } else {
          ShareDevice(i, from.devices[at], row);
        }
      }
    }
    if (parts_with_any > 1) report_.devices_without_uuid = without_uuid;
  }
  void AddDevice(size_t part, model::DeviceRow row) {
    const StringId own_name = maps_[part].strings[row.name];
    row.ordinal = ordinals_.Take(row.ordinal);
    row.name = Named(part, row.name);
    joined_.devices.push_back(row);
    owners_.push_back({part, own_name});
  }
  void ShareDevice(size_t part, const model::DeviceRow& from, uint32_t row) {
    model::DeviceRow& device = joined_.devices[row];
    Owner& owner = owners_[row];
    const auto learn = [](uint32_t* fact, uint32_t told) {
      if (*fact == 0) *fact = told;
    };
    learn(&owner.own_name, maps_[part].strings[from.name]);
    if (owner.part != part) owner.part = kSeveral, device.name = owner.own_name;
    learn(&device.multiprocessors, from.multiprocessors);
    learn(&device.threads_per_multiprocessor, from.threads_per_multiprocessor);
    learn(&device.blocks_per_multiprocessor, from.blocks_per_multiprocessor);
    learn(&device.registers_per_multiprocessor, from.registers_per_multiprocessor);
    learn(&device.shared_bytes_per_multiprocessor, from.shared_bytes_per_multiprocessor);
    learn(&device.threads_per_warp, from.threads_per_warp);
  }
  bool IsShared(uint32_t device) const { return device != kNone && owners_[device].part == kSeveral; }

  // Whether a counter must say whose it is. The state of a GPU, as NVML numbers it, is the machine's.
  bool IsOfOnePart(const model::CounterRow& row, StringId name) {
    const bool is_state = row.device == kNone && are_of_one_host_ && base::SplitGpuCounter(joined_.strings[name]);
    if (row.device == kNone && !is_state) return true;
    return (is_state || IsShared(row.device)) && !counters_.insert({row.device, name}).second;
  }

  // Each process numbers its contexts.
  uint32_t ContextOf(size_t part, const model::StreamRow& row) {
    const auto [known, is_new] = contexts_.try_emplace({row.device, part, row.context}, row.context);
    if (is_new) known->second = free_contexts_[row.device].Take(row.context);
    return known->second;
  }

  // The places of rows that others refer to, by begin.
  template <class Row> void PlaceRows(std::vector<Row> Trace::*table, std::vector<uint32_t> Map::*places) {
    std::vector<std::pair<size_t, uint32_t>> order;
    for (size_t i = 0; i < parts_.size(); ++i) {
      const auto& rows = parts_[i].trace.*table;
      (maps_[i].*places).resize(rows.size());
      for (uint32_t row = 0; row < rows.size(); ++row) order.emplace_back(i, row);
    }
    std::stable_sort(order.begin(), order.end(), [&](const auto& a, const auto& b) {
      return (parts_[a.first].trace.*table)[a.second].begin_ns < (parts_[b.first].trace.*table)[b.second].begin_ns;
    });
    for (uint32_t place = 0; place < order.size(); ++place)
      (maps_[order[place].first].*places)[order[place].second] = place;
  }

  void AddTables(size_t part) {
    Trace& from = parts_[part].trace;
    Map& map = maps_[part];
    const auto text = [&](StringId id) { return map.strings[id]; };
    map.sites = static_cast<uint32_t>(joined_.sites.size());
    map.threads = static_cast<uint32_t>(joined_.threads.size());
    map.streams = static_cast<uint32_t>(joined_.streams.size());
    map.shapes = static_cast<uint32_t>(joined_.shapes.size());
    map.counters = static_cast<uint32_t>(joined_.counters.size());
    map.args = static_cast<uint32_t>(joined_.arg_values.size());
    for (model::SiteRow row : from.sites) {
      row.name = text(row.name), row.file = text(row.file), row.function = text(row.function);
      for (StringId& name : row.arg_names) name = text(name);
      joined_.sites.push_back(std::move(row));
    }
    for (model::ThreadRow row : from.threads) {
      row.number = static_cast<uint32_t>(joined_.threads.size()) + 1;
      row.name = Named(part, row.name);
      row.first_event += joined_.events.size();
      joined_.threads.push_back(row);
    }
    for (model::StreamRow row : from.streams) {
      row.device = At(map.devices, row.device);
      row.name = IsShared(row.device) ? Named(part, row.name) : text(row.name);
      if (IsShared(row.device)) row.context = ContextOf(part, row);
      row.first_event += joined_gpu_;
      joined_.streams.push_back(row);
    }
    joined_gpu_ += from.gpu.size();
    Append(from.shapes, &joined_.shapes);
    for (model::CounterRow row : from.counters) {
      row.device = At(map.devices, row.device);
      row.name = IsOfOnePart(row, text(row.name)) ? Named(part, row.name) : text(row.name);
      row.unit = text(row.unit);
      joined_.counters.push_back(row);
    }
    for (const uint32_t counter : from.samples.counter) joined_.samples.counter.push_back(counter + map.counters);
    Append(from.samples.at_ns, &joined_.samples.at_ns);
    Append(from.samples.value, &joined_.samples.value);
    AddEvents(from, map);
    AddLosses(from, map);
    for (model::Attribute row : from.attributes) {
      const std::string_view key = from.strings[row.key];
      if (key == model::kNotRecorded || key.starts_with(model::kJoinedKey)) continue;
      const bool is_of_all =
          part == 0 || (key == model::kStepArgumentKey && joined_.AttributeOf(model::kStepArgumentKey).empty());
      joined_.attributes.push_back({is_of_all ? text(row.key) : Named(part, row.key), text(row.value)});
    }
    if (part != 0) return;
    for (model::NormRow row : from.norms) {
      row.name = text(row.name);
      joined_.norms.push_back(std::move(row));
    }
  }

  // A fact is unknown in the joined trace if one part's file could not say it.
  void AddLacks() {
    std::vector<std::string_view> lacks;
    for (const TracePart& part : parts_) {
      for (const std::string_view lack : model::LacksOf(part.trace)) model::AddLack(lack, &lacks);
    }
    if (!lacks.empty())
      joined_.attributes.push_back(
          {joined_.strings.Add(model::kNotRecorded), joined_.strings.Add(model::LacksText(lacks))});
  }

  void AddEvents(const Trace& from, const Map& map) {
    Append(from.arg_values, &joined_.arg_values);
    model::EventColumns& events = joined_.events;
    for (uint32_t row = 0; row < from.events.size(); ++row) {
      const model::SiteRow& site = from.sites[from.events.site[row]];
      const uint32_t args = Moved(from.events.args[row], map.args);
      for (size_t i = 0; args != kNone && i < site.arg_types.size(); ++i) {
        const auto text = static_cast<StringId>(from.arg_values[from.events.args[row] + i]);
        if (model::IsText(site.arg_types[i])) joined_.arg_values[args + i] = map.strings[text];
      }
      events.site.push_back(from.events.site[row] + map.sites);
      events.thread.push_back(from.events.thread[row] + map.threads);
      events.request.push_back(At(map.requests, from.events.request[row]));
      events.batch.push_back(At(map.batches, from.events.batch[row]));
      events.args.push_back(args);
    }
    Append(from.events.begin_ns, &events.begin_ns);
    Append(from.events.duration_ns, &events.duration_ns);
  }

  void AddLosses(const Trace& from, const Map& map) {
    for (model::LossRow row : from.losses) {
      row.thread = Moved(row.thread, map.threads);
      joined_.losses.push_back(row);
    }
    for (model::GpuLossRow row : from.gpu_losses) {
      row.stream = Moved(row.stream, map.streams);
      row.device = At(map.devices, row.device);
      row.reason = map.strings[row.reason];
      joined_.gpu_losses.push_back(row);
    }
    for (model::OverheadRow row : from.overheads) {
      row.name = map.strings[row.name];
      joined_.overheads.push_back(row);
    }
  }

  // The label of requests of another process than the first's: its name, or the part's if both have one name.
  StringId ServiceOf(size_t part) {
    const Trace &first = parts_[0].trace, &own = parts_[part].trace;
    const std::string_view host = own.AttributeOf("host"), name = own.strings[own.process_name];
    const bool is_first = own.pid != 0 && own.pid == first.pid && (host.empty() || host == first.AttributeOf("host"));
    if (part == 0 || is_first) return 0;
    return joined_.strings.Add(name.empty() || name == first.strings[first.process_name] ? parts_[part].name : name);
  }

  void AddRequests() {
    std::unordered_set<uint64_t> taken;
    for (size_t i = 0; i < parts_.size(); ++i) {
      std::unordered_set<uint64_t> own;
      for (const model::RequestRow& row : parts_[i].trace.requests) {
        if (!own.insert(row.id).second) continue;
        uint64_t id = row.id;
        while (!taken.insert(id).second) id = Mix(id + i);
        if (id != row.id) maps_[i].ids.emplace(row.id, id);
      }
    }
    size_t count = 0;
    for (const TracePart& part : parts_) count += part.trace.requests.size();
    joined_.requests.resize(count);
    for (size_t i = 0; i < parts_.size(); ++i) {
      Trace& from = parts_[i].trace;
      const Map& map = maps_[i];
      const StringId service = ServiceOf(i);
      for (uint32_t at = 0; at < from.requests.size(); ++at) {
        model::RequestRow row = std::move(from.requests[at]);
        row.id = IdOf(map, row.id);
        row.parent_id = IdOf(map, row.parent_id);
        row.host_id = map.strings[row.host_id], row.route = map.strings[row.route];
        row.reason = map.strings[row.reason];
        row.begin_thread = Moved(row.begin_thread, map.threads);
        row.end_thread = Moved(row.end_thread, map.threads);
        for (model::Label& label : row.labels) label = {map.strings[label.key], map.strings[label.value]};
        const StringId service_key = joined_.strings.Add("service.name");
        if (service != 0 && std::none_of(row.labels.begin(), row.labels.end(),
                                         [&](const model::Label& label) { return label.key == service_key; }))
          row.labels.push_back({service_key, service});
        for (model::Size& size : row.sizes) size.name = map.strings[size.name];
        for (model::Stage& stage : row.stages) stage.name = map.strings[stage.name];
        joined_.requests[map.requests[at]] = std::move(row);
      }
      for (const model::FiringRow& row : from.firings)
        joined_.firings.push_back(
            {row.at_ns, IdOf(map, row.request_id), map.strings[row.cause], map.strings[row.detail]});
      for (model::HandoffRow row : from.handoffs) {
        row.request = map.requests[row.request];
        row.queue = map.strings[row.queue];
        row.from_thread = Moved(row.from_thread, map.threads);
        row.to_thread = Moved(row.to_thread, map.threads);
        row.batch = At(map.batches, row.batch);
        joined_.handoffs.push_back(row);
      }
      for (model::AsyncRow row : from.asyncs) {
        row.site += map.sites;
        row.request = map.requests[row.request];
        row.begin_thread = Moved(row.begin_thread, map.threads);
        row.end_thread = Moved(row.end_thread, map.threads);
        joined_.asyncs.push_back(row);
      }
      for (model::TokenRow row : from.tokens) {
        row.request = map.requests[row.request];
        row.thread = Moved(row.thread, map.threads);
        joined_.tokens.push_back(row);
      }
    }
  }

  void AddBatches() {
    std::vector<std::pair<size_t, uint32_t>> order;
    for (size_t i = 0; i < parts_.size(); ++i)
      for (uint32_t at = 0; at < maps_[i].batches.size(); ++at) order.emplace_back(i, at);
    std::sort(order.begin(), order.end(), [&](const auto& a, const auto& b) {
      return maps_[a.first].batches[a.second] < maps_[b.first].batches[b.second];
    });
    for (const auto& [part, at] : order) {
      const Trace& from = parts_[part].trace;
      const Map& map = maps_[part];
      model::BatchRow row = from.batches[at];
      row.executor = map.strings[row.executor], row.work_unit = map.strings[row.work_unit];
      row.thread = Moved(row.thread, map.threads);
      row.first_member = static_cast<uint32_t>(joined_.members.size());
      for (uint32_t i = from.batches[at].first_member; i < from.batches[at].first_member + row.member_count; ++i) {
        model::MemberRow member = from.members[i];
        member.batch = static_cast<uint32_t>(joined_.batches.size());
        member.request = map.requests[member.request];
        joined_.members.push_back(member);
      }
      joined_.batches.push_back(row);
    }
  }

  // By thread; those of unknown threads come last, by begin.
  void AddCalls() {
    std::vector<std::pair<size_t, uint32_t>> order, unknown;
    for (size_t i = 0; i < parts_.size(); ++i) {
      const model::CallColumns& calls = parts_[i].trace.calls;
      maps_[i].calls.resize(calls.size());
      for (uint32_t row = 0; row < calls.size(); ++row)
        (calls.thread[row] == kNone ? unknown : order).emplace_back(i, row);
    }
    std::stable_sort(unknown.begin(), unknown.end(), [&](const auto& a, const auto& b) {
      return parts_[a.first].trace.calls.begin_ns[a.second] < parts_[b.first].trace.calls.begin_ns[b.second];
    });
    order.insert(order.end(), unknown.begin(), unknown.end());
    model::CallColumns& calls = joined_.calls;
    for (const auto& [part, row] : order) {
      const model::CallColumns& from = parts_[part].trace.calls;
      Map& map = maps_[part];
      map.calls[row] = calls.size();
      calls.begin_ns.push_back(from.begin_ns[row]);
      calls.duration_ns.push_back(from.duration_ns[row]);
      calls.thread.push_back(Moved(from.thread[row], map.threads));
      calls.request.push_back(At(map.requests, from.request[row]));
      calls.batch.push_back(At(map.batches, from.batch[row]));
      calls.name.push_back(map.strings[from.name[row]]);
      calls.stream.push_back(Moved(from.stream[row], map.streams));
      calls.device.push_back(At(map.devices, from.device[row]));
    }
  }

  void AddGpu(size_t part) {
    const model::GpuColumns& from = parts_[part].trace.gpu;
    const Map& map = maps_[part];
    model::GpuColumns& gpu = joined_.gpu;
    uint32_t most = graphs_;
    for (uint32_t row = 0; row < from.size(); ++row) {
      const uint32_t graph = from.graph[row] == 0 ? 0 : from.graph[row] + graphs_;
      most = std::max(most, graph);
      gpu.stream.push_back(from.stream[row] + map.streams);
      gpu.name.push_back(map.strings[from.name[row]]);
      gpu.call.push_back(At(map.calls, from.call[row]));
      gpu.shape.push_back(Moved(from.shape[row], map.shapes));
      gpu.graph.push_back(graph);
      gpu.scope_path.push_back(map.strings[from.scope_path[row]]);
    }
    graphs_ = most;
    Append(from.begin_ns, &gpu.begin_ns);
    Append(from.duration_ns, &gpu.duration_ns);
    Append(from.kind, &gpu.kind);
    Append(from.bytes, &gpu.bytes);
    Append(from.node, &gpu.node);
  }

  void Sort() {
    const auto by_at = [](const auto& a, const auto& b) { return a.at_ns < b.at_ns; };
    std::stable_sort(joined_.firings.begin(), joined_.firings.end(), by_at);
    std::stable_sort(joined_.tokens.begin(), joined_.tokens.end(), by_at);
    std::stable_sort(joined_.handoffs.begin(), joined_.handoffs.end(),
                     [](const auto& a, const auto& b) { return a.enqueue_ns < b.enqueue_ns; });
    SortByBegin(&joined_.asyncs);
    SortByBegin(&joined_.overheads);
  }

  std::vector<TracePart>& parts_;
  Trace& joined_;
  JoinReport& report_;
  std::vector<Map> maps_;
  std::vector<Owner> owners_;                                            // by row of devices
  FreeNumbers ordinals_;                                                 // of devices
  std::map<std::tuple<uint32_t, size_t, uint32_t>, uint32_t> contexts_;  // of shared devices, by part and its number
  std::unordered_map<uint32_t, FreeNumbers> free_contexts_;              // by device
  std::set<std::pair<uint32_t, StringId>> counters_;  // of shared devices, and the state of a machine's GPUs
  bool are_of_one_host_ = true;
  uint32_t joined_gpu_ = 0;  // rows of work whose streams were added
  uint32_t graphs_ = 0;      // the highest number so far
};

}  // namespace
}  // namespace pitot::read

PITOT_NAMESPACE_BEGIN

Status JoinTraces(std::vector<TracePart>* parts, model::Trace* joined, JoinReport* report) noexcept try {
  JoinReport unread;
  if (report == nullptr) report = &unread;
  *report = {};
  *joined = model::Trace();
  if (parts->empty()) return Status(StatusCode::kInvalidArgument, "there is nothing to join");
  if (Status status = read::JoinClocks(parts); !status.ok()) return status;
  if (Status status = read::CheckProcesses(*parts); !status.ok()) return status;
  report->apart = read::PartsApart(*parts);
  read::Joiner(parts, joined, report).Join();
  const std::string wrong = FindInconsistency(*joined);
  if (wrong.empty()) return {};
  *joined = model::Trace();
  return base::Error(StatusCode::kInvalidArgument, "they do not fit into one trace: %s", wrong.c_str());
} catch (const std::bad_alloc&) {
  *joined = model::Trace();
  return Status(StatusCode::kResourceExhausted, "no memory to join traces");
}

PITOT_NAMESPACE_END
