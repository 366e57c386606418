// SPDX-License-Identifier: Apache-2.0
#include "cli/view/fill_lanes.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <type_traits>

#include "cli/view/counter_values.h"
#include "cli/view/levels.h"
#include "model/flatten.h"
#include "model/interpreter_watch.h"
#include "model/kernel_name.h"
#include "model/request_text.h"
#include "pitot/model/index.h"

namespace pitot::cli::view {
namespace {

using model::kNone;
using model::kOpen;
using model::StringId;
using model::Trace;

ItemKind KindOf(GpuKind kind) {
  switch (kind) {
    case GpuKind::kKernel:
      return ItemKind::kKernel;
    case GpuKind::kMemcpy:
      return ItemKind::kCopy;
    case GpuKind::kMemset:
      return ItemKind::kSet;
    case GpuKind::kGraph:
      return ItemKind::kGraph;
    case GpuKind::kSpan:
      break;
  }
  return ItemKind::kSpan;
}

class Filler {
 public:
  Filler(const Trace& trace, Texts* texts, std::unordered_map<uint32_t, std::string>* briefs, const TakeLane& take)
      : trace_(trace), texts_(*texts), briefs_(*briefs), take_(take), waiting_(trace) {
    const size_t rows[kSources] = {
        0, trace.events.size(), trace.calls.size(), trace.gpu.size(), trace.requests.size(), trace.batches.size()};
    for (size_t i = 0; i < kSources; ++i) out_.places[i].assign(rows[i], kNone);
  }

  Lanes Fill(const analyze::RequestBlame* walk) {
    if (walk != nullptr) Walk(*walk);
    Requests();
    Batches();
    Queues();
    Threads();
    Asyncs();
    Streams();
    Counters();
    return std::move(out_);
  }

 private:
  uint32_t Text(std::string_view text, const char* otherwise) { return texts_.Of(text.empty() ? otherwise : text); }
  uint32_t Text(StringId id, const char* otherwise) { return Text(trace_.strings[id], otherwise); }

  static bool IsBefore(const Item& a, const Item& b) {
    return a.begin_ns != b.begin_ns ? a.begin_ns < b.begin_ns : EndOf(a) > EndOf(b);
  }
  // An open item is around those that began with it.
  static int64_t EndOf(const Item& item) { return item.is_open ? INT64_MAX : item.end_ns; }

  // Takes the items of a lane; an empty one is left out.
  void AddLane(const std::string& group, const std::string& name, std::vector<Item> items, int64_t known_ns,
               bool nests = false) {
    if (items.empty()) return;
    for (const Item& item : items) {
      if (item.of.row != kNone) out_.places[static_cast<size_t>(item.of.source)][item.of.row] = out_.items;
      ++out_.items;
    }
    take_({group, name, nests, known_ns}, items);
  }
  template <class Levels> void AddLane(const std::string& group, const std::string& name, std::vector<Item> items,
                                       Levels levels, int64_t known_ns) {
    std::stable_sort(items.begin(), items.end(), IsBefore);
    for (Item& item : items) item.level = levels.LevelOf(item.begin_ns, item.end_ns);
    AddLane(group, name, std::move(items), known_ns, std::is_same_v<Levels, Nesting>);
  }

  void Walk(const analyze::RequestBlame& walk) {
    std::vector<Item> items;
    for (const analyze::BlameSegment& segment : walk.segments) {
      Item item;
      item.begin_ns = segment.begin_ns;
      item.end_ns = segment.end_ns;
      item.kind = ItemKind::kBlame;
      item.name = texts_.Of(BlameName(segment.blame));
      item.request = walk.request;
      item.cause = segment.gpu != kNone     ? Row{Source::kGpu, segment.gpu}
                   : segment.call != kNone  ? Row{Source::kCall, segment.call}
                   : segment.event != kNone ? Row{Source::kEvent, segment.event}
                                            : Row{Source::kBatch, segment.batch};
      items.push_back(item);
    }
    AddLane("Why it was slow", "request " + model::RequestName(trace_, walk.request), std::move(items),
            trace_.window_begin_ns);
  }

  // Each on two lines, the second for its stages.
  void Requests() {
    std::vector<Item> items;
    Packing levels;
    const bool has_stages = std::any_of(trace_.requests.begin(), trace_.requests.end(),
                                        [](const model::RequestRow& request) { return !request.stages.empty(); });
    for (uint32_t row = 0; row < trace_.requests.size(); ++row) {
      const model::RequestRow& request = trace_.requests[row];
      Item item;
      item.begin_ns = request.begin_ns;
      item.end_ns = trace_.RequestEnd(request);
      item.is_open = request.duration_ns == kOpen;
      item.kind = ItemKind::kRequest;
      item.name = Text(request.route, "request");
      item.request = row;
      item.of = {Source::kRequest, row};
      item.level = levels.LevelOf(item.begin_ns, item.end_ns) * (has_stages ? 2 : 1);
      items.push_back(item);
      for (const model::Stage& stage : request.stages) {
        Item part;
        part.begin_ns = stage.begin_ns;
        part.is_open = stage.duration_ns == kOpen;
        part.end_ns = part.is_open ? item.end_ns : stage.begin_ns + stage.duration_ns;
        part.kind = ItemKind::kStage;
        part.name = Text(stage.name, "(unnamed)");
        part.level = item.level + 1;
        part.request = row;
        items.push_back(part);
      }
    }
    std::stable_sort(items.begin(), items.end(), IsBefore);
    AddLane("Requests", "requests", std::move(items), trace_.window_begin_ns);
  }

  void Batches() {
    std::map<StringId, std::vector<Item>> lanes;
    for (uint32_t row = 0; row < trace_.batches.size(); ++row) {
      const model::BatchRow& batch = trace_.batches[row];
      Item item;
      item.begin_ns = batch.begin_ns;
      item.end_ns = trace_.BatchEnd(batch);
      item.is_open = batch.duration_ns == kOpen;
      item.kind = ItemKind::kBatch;
      item.name = Text(batch.executor, "batch");
      item.batch = row;
      item.of = {Source::kBatch, row};
      lanes[batch.executor].push_back(item);
    }
    for (auto& [executor, items] : lanes)
      AddLane("Batches", Name(executor, "batches"), std::move(items), Packing(), trace_.window_begin_ns);
  }

  void Queues() {
    std::map<StringId, std::vector<Item>> lanes;
    for (const model::HandoffRow& handoff : trace_.handoffs) {
      Item item;
      item.begin_ns = handoff.enqueue_ns;
      item.is_open = handoff.take_ns == 0;
      item.end_ns = item.is_open ? std::max(trace_.RequestEnd(trace_.requests[handoff.request]), handoff.enqueue_ns)
                                 : handoff.take_ns;
      item.kind = ItemKind::kQueue;
      item.name = Text(handoff.queue, "queue");
      item.request = handoff.request;
      item.batch = handoff.batch;
      lanes[handoff.queue].push_back(item);
    }
    for (auto& [queue, items] : lanes)
      AddLane("Queues", Name(queue, "queue"), std::move(items), Packing(), trace_.window_begin_ns);
  }

  std::string Name(StringId id, const char* otherwise) const {
    return std::string(trace_.strings[id].empty() ? otherwise : trace_.strings[id]);
  }

  // A thread without a name goes by its tid.
  std::string ThreadName(const model::ThreadRow& thread) const {
    const bool has_name = !trace_.strings[thread.name].empty();
    if (!has_name && thread.tid > 0) return "thread " + std::to_string(thread.tid);
    return Name(thread.name, "thread") + " #" + std::to_string(thread.number);
  }
  std::vector<std::string> ThreadNames() const {
    std::vector<std::string> names;
    for (const model::ThreadRow& thread : trace_.threads) names.push_back(ThreadName(thread));
    TellApart([&](size_t row) { return names[row]; },
              [&](size_t row) { return " #" + std::to_string(trace_.threads[row].number); }, &names);
    return names;
  }
  std::vector<std::string> StreamNames() const {
    std::vector<std::string> names;
    for (const model::StreamRow& stream : trace_.streams)
      names.push_back(stream.name != 0 ? Name(stream.name, "stream") : "stream " + std::to_string(stream.stream));
    const auto in_group = [&](size_t row) { return std::to_string(trace_.streams[row].device) + " " + names[row]; };
    const auto stream = [&](size_t row) { return ", stream " + std::to_string(trace_.streams[row].stream); };
    const auto context = [&](size_t row) { return ", context " + std::to_string(trace_.streams[row].context); };
    TellApart(in_group, stream, &names);
    TellApart(in_group, context, &names);
    return names;
  }
  // Adds a detail to those names whose keys are equal, if it differs among them.
  template <class Key, class Detail> static void TellApart(Key key, Detail detail, std::vector<std::string>* names) {
    std::map<std::string, std::vector<size_t>> equal;
    for (size_t row = 0; row < names->size(); ++row) equal[key(row)].push_back(row);
    for (const auto& [of, rows] : equal) {
      const std::string first = detail(rows[0]);
      if (std::all_of(rows.begin(), rows.end(), [&](size_t row) { return detail(row) == first; })) continue;
      for (const size_t row : rows) (*names)[row] += detail(row);
    }
  }

  // The calls of a thread after its scopes, so that at one moment the scope is around the call.
  void Threads() {
    const std::vector<std::string> names = ThreadNames();
    std::vector<std::vector<uint32_t>> calls(trace_.threads.size() + 1);
    for (uint32_t call = 0; call < trace_.calls.size(); ++call)
      calls[std::min<size_t>(trace_.calls.thread[call], trace_.threads.size())].push_back(call);
    for (uint32_t row = 0; row < trace_.threads.size(); ++row) {
      const model::ThreadRow& thread = trace_.threads[row];
      std::vector<Item> items;
      model::VisitNested(
          trace_, thread.first_event, thread.first_event + thread.event_count, [](uint32_t) { return true; },
          [&](uint32_t event) { AddEvent(event, &items); });
      for (const uint32_t call : calls[row]) items.push_back(Call(call));
      AddLane("Threads", names[row], std::move(items), Nesting(),
              std::clamp(thread.history_begin_ns, trace_.window_begin_ns, trace_.window_end_ns));
    }
    std::vector<Item> items;
    for (const uint32_t call : calls.back()) items.push_back(Call(call));
    AddLane("Threads", "calls of unknown threads", std::move(items), Packing(), trace_.window_begin_ns);
  }

  void AddEvent(uint32_t event, std::vector<Item>* items) {
    const model::SiteRow& site = trace_.sites[trace_.events.site[event]];
    if (site.kind == SiteKind::kCounter && AddSample(event, site)) return;
    Item item;
    item.begin_ns = trace_.events.begin_ns[event];
    item.is_open = model::IsScope(site.kind) && trace_.events.duration_ns[event] == kOpen;
    item.end_ns = model::IsScope(site.kind) ? trace_.EventEnd(event) : item.begin_ns;
    item.kind = model::IsInterpreterWatch(trace_, site) ? ItemKind::kWatch
                : site.kind == SiteKind::kWait          ? ItemKind::kWait
                : site.kind == SiteKind::kOperator      ? ItemKind::kOperator
                : model::IsScope(site.kind)             ? ItemKind::kScope
                                                        : ItemKind::kInstant;
    item.name = Text(trace_.EventName(event), "(unnamed)");
    if (const StringId resource = ResourceOf(event, site); resource != 0)
      item.name = texts_.Of(std::string(trace_.EventName(event)).append(": ").append(trace_.strings[resource]));
    item.request = trace_.events.request[event];
    item.batch = trace_.events.batch[event];
    item.site = trace_.events.site[event];
    item.of = {Source::kEvent, event};
    items->push_back(item);
  }
  // What a wait is for; 0: not known.
  StringId ResourceOf(uint32_t event, const model::SiteRow& site) const {
    const uint32_t args = trace_.events.args[event];
    const bool has_one =
        site.kind == SiteKind::kWait && args != kNone && site.arg_types.size() >= 4 && model::IsText(site.arg_types[1]);
    return has_one ? static_cast<StringId>(trace_.arg_values[args + 1]) : 0;
  }

  Item Call(uint32_t call) {
    Item item;
    item.begin_ns = trace_.calls.begin_ns[call];
    item.end_ns = trace_.CallEnd(call);
    item.is_open = trace_.calls.duration_ns[call] == kOpen;
    item.kind = waiting_.Has(call) ? ItemKind::kWaitingCall : ItemKind::kCall;
    item.name = Text(trace_.calls.name[call], "(unnamed)");
    item.request = trace_.calls.request[call];
    item.batch = trace_.calls.batch[call];
    item.of = {Source::kCall, call};
    return item;
  }

  void Asyncs() {
    std::vector<Item> items;
    for (const model::AsyncRow& async : trace_.asyncs) {
      Item item;
      item.begin_ns = async.begin_ns;
      item.is_open = async.duration_ns == kOpen;
      item.end_ns = item.is_open ? trace_.window_end_ns : async.begin_ns + async.duration_ns;
      item.kind = ItemKind::kAsync;
      item.name = Text(trace_.sites[async.site].name, "(unnamed)");
      item.request = async.request;
      item.site = async.site;
      items.push_back(item);
    }
    AddLane("Threads", "on no thread", std::move(items), Packing(), trace_.window_begin_ns);
  }

  void Streams() {
    const std::vector<std::string> names = StreamNames();
    for (size_t i = 0; i < trace_.streams.size(); ++i) {
      const model::StreamRow& stream = trace_.streams[i];
      std::vector<Item> items;
      for (uint32_t row = stream.first_event; row < stream.first_event + stream.event_count; ++row)
        items.push_back(GpuWork(row));
      AddLane(GroupOf(stream.device), names[i], std::move(items), Packing(), trace_.window_begin_ns);
    }
    std::vector<Item> items;
    for (const model::OverheadRow& row : trace_.overheads) {
      Item item;
      item.begin_ns = row.begin_ns;
      item.end_ns = row.begin_ns + row.duration_ns;
      item.kind = ItemKind::kOverhead;
      item.name = Text(row.name, "(unnamed)");
      items.push_back(item);
    }
    AddLane("GPU driver", "driver and profiler", std::move(items), Packing(), trace_.window_begin_ns);
  }
  std::string GroupOf(uint32_t device) const {
    if (device == kNone) return "GPU";
    const model::DeviceRow& row = trace_.devices[device];
    return "GPU " + std::to_string(row.ordinal) + (row.name == 0 ? "" : ", " + std::string(trace_.strings[row.name]));
  }
  Item GpuWork(uint32_t row) {
    Item item;
    item.begin_ns = trace_.gpu.begin_ns[row];
    item.end_ns = item.begin_ns + trace_.gpu.duration_ns[row];
    item.kind = KindOf(trace_.gpu.kind[row]);
    item.name = GpuName(row);
    item.of = {Source::kGpu, row};
    const uint32_t call = trace_.gpu.call[row];
    if (call != kNone) {
      item.request = trace_.calls.request[call];
      item.batch = trace_.calls.batch[call];
      item.cause = {Source::kCall, call};
    }
    return item;
  }
  // As `pitot top --by kernel` has it.
  uint32_t GpuName(uint32_t row) {
    if (trace_.gpu.kind[row] == GpuKind::kSpan) return Text(trace_.gpu.name[row], "(unnamed)");
    if (trace_.gpu.kind[row] != GpuKind::kKernel) return texts_.Of(model::ActivityName(trace_, row));
    const auto [found, is_new] = kernels_.try_emplace(trace_.gpu.name[row], 0);
    if (is_new) {
      const model::KernelName name = model::ReadKernelName(trace_.strings[trace_.gpu.name[row]]);
      found->second = Text(name.full, "(unnamed)");
      if (!name.brief.empty() && name.brief != name.full) briefs_.try_emplace(found->second, name.brief);
    }
    return found->second;
  }

  // False if there is no number.
  bool AddSample(uint32_t event, const model::SiteRow& site) {
    const uint32_t args = trace_.events.args[event];
    const size_t which = site.name_is_first_arg ? 1 : 0;
    if (args == kNone || site.arg_types.size() <= which || model::IsText(site.arg_types[which])) return false;
    const model::ArgValue value = trace_.arg_values[args + which];
    double number = static_cast<double>(value);
    if (site.arg_types[which] == ArgType::kDouble) memcpy(&number, &value, sizeof number);
    if (site.arg_types[which] == ArgType::kInt) number = static_cast<double>(static_cast<int64_t>(value));
    own_counters_[std::string(trace_.EventName(event))].emplace_back(trace_.events.begin_ns[event], number);
    return true;
  }
  void Counters() {
    for (auto& [name, samples] : own_counters_) {
      std::stable_sort(samples.begin(), samples.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
      out_.counters.push_back({"Counters", name, "", std::move(samples)});
    }
    std::vector<ViewedCounter> counters = CounterValues(trace_);
    for (uint32_t row = 0; row < counters.size(); ++row) {
      ViewedCounter& counter = counters[row];
      const auto is_known = [](const auto& sample) { return !std::isnan(sample.second); };
      if (std::none_of(counter.samples.begin(), counter.samples.end(), is_known)) continue;
      const uint32_t device = trace_.counters[row].device;
      counter.group = device == kNone ? "Counters" : "Counters of " + GroupOf(device);
      if (counter.name.empty()) counter.name = "counter";
      out_.counters.push_back(std::move(counter));
    }
  }

  const Trace& trace_;
  Texts& texts_;
  std::unordered_map<uint32_t, std::string>& briefs_;
  const TakeLane& take_;
  const model::WaitingCalls waiting_;
  std::unordered_map<StringId, uint32_t> kernels_;  // texts, by compiled name
  std::map<std::string, std::vector<std::pair<int64_t, double>>> own_counters_;
  Lanes out_;
};

}  // namespace

Lanes FillLanes(const Trace& trace, const analyze::RequestBlame* walk, Texts* texts,
                std::unordered_map<uint32_t, std::string>* briefs, const TakeLane& take) {
  return Filler(trace, texts, briefs, take).Fill(walk);
}

}  // namespace pitot::cli::view
