// SPDX-License-Identifier: Apache-2.0
#include "pitot/read/dump.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <new>
#include <utility>

#include "serialize/crc32c.h"
#include "serialize/dump_format.h"
#include "serialize/proto/pitot_dump.pb.h"

PITOT_NAMESPACE_BEGIN
namespace {

namespace proto = ::pitot::dump::v1;
using model::kNone;
using model::Trace;
using schema::ChunkType;

// Finds the trace's row for a row's number in the file: not the same once a chunk is missing or rows were dropped.
class RowMap {
 public:
  // The next rows in the file are numbered from `first` on; false if that goes back. As many are to be added.
  bool Begin(uint64_t first, uint64_t count) {
    if (!runs_.empty() && first < runs_.back().first + runs_.back().count) return false;
    if (first > kNone || count > kNone - first) return false;
    runs_.push_back({first, count, rows_.size()});
    return true;
  }
  void Add(uint32_t row) { rows_.push_back(row); }
  // kNone if it is missing.
  uint32_t operator[](uint64_t in_file) const {
    auto run =
        std::upper_bound(runs_.begin(), runs_.end(), in_file, [](uint64_t row, const Run& r) { return row < r.first; });
    if (run == runs_.begin()) return kNone;
    --run;
    return in_file - run->first < run->count ? rows_[run->at + (in_file - run->first)] : kNone;
  }
  // The same for "row + 1", where 0 is none.
  uint32_t PlusOne(uint64_t in_file) const { return in_file == 0 ? kNone : (*this)[in_file - 1]; }

 private:
  struct Run {
    uint64_t first;
    uint64_t count;
    size_t at;
  };
  std::vector<Run> runs_;
  std::vector<uint32_t> rows_;
};

// Sums up a column of deltas; wraps rather than overflows.
class Deltas {
 public:
  int64_t Next(int64_t delta) {
    sum_ += static_cast<uint64_t>(delta);
    return static_cast<int64_t>(sum_);
  }

 private:
  uint64_t sum_ = 0;
};

int64_t Duration(uint64_t length) { return static_cast<int64_t>(length - 1); }
bool IsTime(int64_t ns) { return ns >= 0 && ns <= model::kMaxTimeNs; }

template <class... Columns> bool HaveSize(int size, const Columns&... columns) {
  return ((columns.size() == size) && ...);
}

// The sum of counts, one per row; they say how the elements of another column are divided among rows.
template <class Column> bool AddUpTo(const Column& counts, int size) {
  uint64_t sum = 0;
  for (const uint32_t count : counts) sum += count;
  return sum == static_cast<uint64_t>(size);
}

// Reads payloads of chunks into a trace. What it holds is consistent after every chunk but for the ranges that Finish
// sets.
class ChunkReader {
 public:
  explicit ChunkReader(Trace* trace) : trace_(*trace) {}

  // What is missing is of any kind, and how much is not known.
  void AddDamage(uint64_t bytes) {
    trace_.losses.push_back({model::kNone, model::LossReason::kDamaged, trace_.window_begin_ns,
                             std::max(trace_.window_begin_ns, trace_.window_end_ns), 0, bytes});
  }

  uint64_t rows_dropped() const { return rows_dropped_; }
  // Rows of each table in the chunks that were accepted, dropped ones included.
  const std::array<uint64_t, schema::kTypeCount>& rows() const { return rows_; }

  void Header(const proto::Header& header) {
    has_header_ = true;
    process_name_ = header.process_name();
    trace_.pid = header.pid();
    trace_.window_begin_ns = header.window_begin_ns();
    trace_.window_end_ns = header.window_end_ns();
    trace_.clock.monotonic_ns = header.monotonic_ns();
    trace_.clock.realtime_ns = header.realtime_ns();
    trace_.clock.boottime_ns = header.boottime_ns();
    trace_.clock.cycle_counter = header.cycle_counter();
    trace_.clock.ticks_per_ns = header.ticks_per_ns();
    trace_.clock.pair_width_ns = header.pair_width_ns();
  }

  // Each of these takes one chunk's payload; false, with nothing changed, if its columns do not fit together or its
  // rows are not after those before.
  bool Add(const proto::Strings& chunk) {
    if (!AddUpTo(chunk.size(), static_cast<int>(chunk.text().size()))) return false;
    if (!strings_.Begin(chunk.first_row(), static_cast<uint64_t>(chunk.size_size()))) return false;
    std::string_view text = chunk.text();
    for (const uint32_t size : chunk.size()) {
      strings_.Add(trace_.strings.Add(text.substr(0, size)));
      text.remove_prefix(size);
    }
    return Accept(ChunkType::kStrings, chunk.size_size());
  }

  bool Add(const proto::Sites& chunk) {
    const int size = chunk.kind_size();
    if (!HaveSize(size, chunk.name(), chunk.file(), chunk.function(), chunk.line(), chunk.flags(), chunk.arg_count()) ||
        !HaveSize(chunk.arg_name_size(), chunk.arg_type()) || !AddUpTo(chunk.arg_count(), chunk.arg_name_size()) ||
        !sites_.Begin(chunk.first_row(), static_cast<uint64_t>(size))) {
      return false;
    }
    int arg = 0;
    for (int i = 0; i < size; ++i) {
      model::SiteRow site;
      bool is_known = chunk.kind(i) >= static_cast<uint32_t>(SiteKind::kScope) &&
                      chunk.kind(i) <= static_cast<uint32_t>(kLastSiteKind);
      site.kind = static_cast<SiteKind>(chunk.kind(i));
      site.name = Text(chunk.name(i));
      site.file = Text(chunk.file(i));
      site.function = Text(chunk.function(i));
      site.line = chunk.line(i);
      site.unloaded = (chunk.flags(i) & 1) != 0;
      site.name_is_first_arg = (chunk.flags(i) & 2) != 0;
      const int count = static_cast<int>(chunk.arg_count(i));
      site.arg_names.reserve(chunk.arg_count(i));
      site.arg_types.reserve(chunk.arg_count(i));
      for (const int end = arg + count; arg < end; ++arg) {
        const uint32_t type = chunk.arg_type(arg);
        is_known =
            is_known && type >= static_cast<uint32_t>(ArgType::kInt) && type <= static_cast<uint32_t>(ArgType::kString);
        site.arg_names.push_back(Text(chunk.arg_name(arg)));
        site.arg_types.push_back(static_cast<ArgType>(type));
      }
      if (site.name_is_first_arg && (count == 0 || !model::IsText(site.arg_types[0]))) is_known = false;
      AddRow(is_known, std::move(site), &trace_.sites, &sites_);
    }
    return Accept(ChunkType::kSites, size);
  }

  bool Add(const proto::Threads& chunk) {
    const int size = chunk.number_size();
    if (!HaveSize(size, chunk.tid(), chunk.name(), chunk.exited(), chunk.history_begin_ns()) ||
        !threads_.Begin(chunk.first_row(), static_cast<uint64_t>(size))) {
      return false;
    }
    for (int i = 0; i < size; ++i) {
      model::ThreadRow thread;
      thread.number = chunk.number(i);
      thread.tid = chunk.tid(i);
      thread.name = Text(chunk.name(i));
      thread.exited = chunk.exited(i);
      thread.history_begin_ns = chunk.history_begin_ns(i);
      AddRow(IsTime(thread.history_begin_ns), thread, &trace_.threads, &threads_);
    }
    return Accept(ChunkType::kThreads, size);
  }

  bool Add(const proto::Requests& chunk) {
    const int size = chunk.id_size();
    if (!HaveSize(size, chunk.parent_id(), chunk.trace_id_high(), chunk.trace_id_low(), chunk.route(),
                  chunk.size_bucket(), chunk.begin(), chunk.length(), chunk.flags(), chunk.outcome(),
                  chunk.begin_thread(), chunk.end_thread(), chunk.deadline_ns(), chunk.output_tokens(),
                  chunk.first_token_ns(), chunk.max_token_gap_ns(), chunk.label_count(), chunk.size_count(),
                  chunk.stage_count()) ||
        !HaveSize(chunk.label_key_size(), chunk.label_value()) ||
        !HaveSize(chunk.size_name_size(), chunk.size_value()) ||
        !HaveSize(chunk.stage_name_size(), chunk.stage_begin(), chunk.stage_length()) ||
        !AddUpTo(chunk.label_count(), chunk.label_key_size()) || !AddUpTo(chunk.size_count(), chunk.size_name_size()) ||
        !AddUpTo(chunk.stage_count(), chunk.stage_name_size()) ||
        !requests_.Begin(chunk.first_row(), static_cast<uint64_t>(size))) {
      return false;
    }
    Deltas begin, stage_begin;
    int label = 0, named = 0, stage = 0;
    for (int i = 0; i < size; ++i) {
      model::RequestRow request;
      request.id = chunk.id(i);
      request.parent_id = chunk.parent_id(i);
      request.trace_id_high = chunk.trace_id_high(i);
      request.trace_id_low = chunk.trace_id_low(i);
      request.route = Text(chunk.route(i));
      request.size_bucket = chunk.size_bucket(i);
      request.begin_ns = begin.Next(chunk.begin(i));
      request.duration_ns = Duration(chunk.length(i));
      request.begin_known = (chunk.flags(i) & 1) != 0;
      request.end_known = (chunk.flags(i) & 2) != 0;
      request.outcome = static_cast<Outcome>(chunk.outcome(i));
      request.begin_thread = threads_.PlusOne(chunk.begin_thread(i));
      request.end_thread = threads_.PlusOne(chunk.end_thread(i));
      request.deadline_ns = chunk.deadline_ns(i);
      request.output_tokens = chunk.output_tokens(i);
      request.first_token_ns = chunk.first_token_ns(i);
      request.max_token_gap_ns = chunk.max_token_gap_ns(i);
      request.labels.reserve(chunk.label_count(i));
      for (const int end = label + static_cast<int>(chunk.label_count(i)); label < end; ++label) {
        request.labels.push_back({Text(chunk.label_key(label)), Text(chunk.label_value(label))});
      }
      request.sizes.reserve(chunk.size_count(i));
      for (const int end = named + static_cast<int>(chunk.size_count(i)); named < end; ++named) {
        request.sizes.push_back({Text(chunk.size_name(named)), chunk.size_value(named)});
      }
      bool stages_make_sense = true;
      request.stages.reserve(chunk.stage_count(i));
      for (const int end = stage + static_cast<int>(chunk.stage_count(i)); stage < end; ++stage) {
        const model::Stage row{Text(chunk.stage_name(stage)), stage_begin.Next(chunk.stage_begin(stage)),
                               Duration(chunk.stage_length(stage))};
        stages_make_sense = stages_make_sense && IsInterval(row.begin_ns, row.duration_ns) &&
                            (request.stages.empty() || (request.stages.back().duration_ns != model::kOpen &&
                                                        End(request.stages.back()) <= row.begin_ns));
        request.stages.push_back(row);
      }
      const bool makes_sense = stages_make_sense && IsInterval(request.begin_ns, request.duration_ns) &&
                               chunk.outcome(i) <= UINT8_MAX && IsTime(request.deadline_ns) &&
                               IsTime(request.first_token_ns) && IsTime(request.max_token_gap_ns) &&
                               (trace_.requests.empty() || trace_.requests.back().begin_ns <= request.begin_ns);
      AddRow(makes_sense, std::move(request), &trace_.requests, &requests_);
    }
    return Accept(ChunkType::kRequests, size);
  }

  bool Add(const proto::Batches& chunk) {
    const int size = chunk.id_size();
    if (!HaveSize(size, chunk.executor(), chunk.thread(), chunk.begin(), chunk.length(), chunk.submitted_ns(),
                  chunk.close()) ||
        !batches_.Begin(chunk.first_row(), static_cast<uint64_t>(size))) {
      return false;
    }
    Deltas begin;
    for (int i = 0; i < size; ++i) {
      model::BatchRow batch;
      batch.id = chunk.id(i);
      batch.executor = Text(chunk.executor(i));
      batch.thread = threads_.PlusOne(chunk.thread(i));
      batch.begin_ns = begin.Next(chunk.begin(i));
      batch.duration_ns = Duration(chunk.length(i));
      batch.submitted_ns = chunk.submitted_ns(i);
      batch.close = static_cast<uint8_t>(chunk.close(i));
      const bool makes_sense = IsInterval(batch.begin_ns, batch.duration_ns) && IsTime(batch.submitted_ns) &&
                               chunk.close(i) <= UINT8_MAX &&
                               (trace_.batches.empty() || trace_.batches.back().begin_ns <= batch.begin_ns);
      AddRow(makes_sense, batch, &trace_.batches, &batches_);
    }
    return Accept(ChunkType::kBatches, size);
  }

  bool Add(const proto::Members& chunk) {
    const int size = chunk.batch_size();
    if (!HaveSize(size, chunk.request(), chunk.join(), chunk.leave_ns())) return false;
    Deltas join;
    for (int i = 0; i < size; ++i) {
      const model::MemberRow member{batches_[chunk.batch(i)], requests_[chunk.request(i)], join.Next(chunk.join(i)),
                                    chunk.leave_ns(i)};
      const model::MemberRow* last = trace_.members.empty() ? nullptr : &trace_.members.back();
      const bool makes_sense =
          member.batch != kNone && member.request != kNone && IsTime(member.join_ns) && IsTime(member.leave_ns) &&
          (last == nullptr || std::pair(last->batch, last->join_ns) <= std::pair(member.batch, member.join_ns));
      AddRow(makes_sense, member, &trace_.members);
    }
    return Accept(ChunkType::kMembers, size);
  }

  bool Add(const proto::Handoffs& chunk) {
    const int size = chunk.request_size();
    if (!HaveSize(size, chunk.queue(), chunk.from_thread(), chunk.to_thread(), chunk.enqueue(), chunk.take_ns(),
                  chunk.batch())) {
      return false;
    }
    Deltas enqueue;
    for (int i = 0; i < size; ++i) {
      model::HandoffRow handoff;
      handoff.request = requests_[chunk.request(i)];
      handoff.queue = Text(chunk.queue(i));
      handoff.from_thread = threads_.PlusOne(chunk.from_thread(i));
      handoff.to_thread = threads_.PlusOne(chunk.to_thread(i));
      handoff.enqueue_ns = enqueue.Next(chunk.enqueue(i));
      handoff.take_ns = chunk.take_ns(i);
      handoff.batch = batches_.PlusOne(chunk.batch(i));
      const bool makes_sense = handoff.request != kNone && IsTime(handoff.enqueue_ns) && IsTime(handoff.take_ns) &&
                               (trace_.handoffs.empty() || trace_.handoffs.back().enqueue_ns <= handoff.enqueue_ns);
      AddRow(makes_sense, handoff, &trace_.handoffs);
    }
    return Accept(ChunkType::kHandoffs, size);
  }

  bool Add(const proto::Asyncs& chunk) {
    const int size = chunk.site_size();
    if (!HaveSize(size, chunk.request(), chunk.begin_thread(), chunk.end_thread(), chunk.begin(), chunk.length())) {
      return false;
    }
    Deltas begin;
    for (int i = 0; i < size; ++i) {
      model::AsyncRow async;
      async.site = sites_[chunk.site(i)];
      async.request = requests_[chunk.request(i)];
      async.begin_thread = threads_.PlusOne(chunk.begin_thread(i));
      async.end_thread = threads_.PlusOne(chunk.end_thread(i));
      async.begin_ns = begin.Next(chunk.begin(i));
      async.duration_ns = Duration(chunk.length(i));
      const bool makes_sense = async.site != kNone && async.request != kNone &&
                               IsInterval(async.begin_ns, async.duration_ns) &&
                               (trace_.asyncs.empty() || trace_.asyncs.back().begin_ns <= async.begin_ns);
      AddRow(makes_sense, async, &trace_.asyncs);
    }
    return Accept(ChunkType::kAsyncs, size);
  }

  bool Add(const proto::Tokens& chunk) {
    const int size = chunk.request_size();
    if (!HaveSize(size, chunk.thread(), chunk.at(), chunk.count())) return false;
    Deltas at;
    for (int i = 0; i < size; ++i) {
      const model::TokenRow token{requests_[chunk.request(i)], threads_.PlusOne(chunk.thread(i)), at.Next(chunk.at(i)),
                                  chunk.count(i)};
      const bool makes_sense = token.request != kNone && IsTime(token.at_ns) &&
                               (trace_.tokens.empty() || trace_.tokens.back().at_ns <= token.at_ns);
      AddRow(makes_sense, token, &trace_.tokens);
    }
    return Accept(ChunkType::kTokens, size);
  }

  bool Add(const proto::Losses& chunk) {
    const int size = chunk.thread_size();
    if (!HaveSize(size, chunk.reason(), chunk.begin_ns(), chunk.end_ns(), chunk.events(), chunk.bytes())) return false;
    for (int i = 0; i < size; ++i) {
      const model::LossRow loss{threads_.PlusOne(chunk.thread(i)),
                                static_cast<model::LossReason>(chunk.reason(i)),
                                chunk.begin_ns(i),
                                chunk.end_ns(i),
                                chunk.events(i),
                                chunk.bytes(i)};
      const bool makes_sense =
          chunk.reason(i) <= UINT8_MAX && IsTime(loss.begin_ns) && IsTime(loss.end_ns) && loss.begin_ns <= loss.end_ns;
      AddRow(makes_sense, loss, &trace_.losses);
    }
    return Accept(ChunkType::kLosses, size);
  }

  bool Add(const proto::Firings& chunk) {
    const int size = chunk.at_ns_size();
    if (!HaveSize(size, chunk.request_id(), chunk.cause(), chunk.detail())) return false;
    for (int i = 0; i < size; ++i) {
      const model::FiringRow firing{chunk.at_ns(i), chunk.request_id(i), Text(chunk.cause(i)), Text(chunk.detail(i))};
      const bool makes_sense =
          IsTime(firing.at_ns) && (trace_.firings.empty() || trace_.firings.back().at_ns <= firing.at_ns);
      AddRow(makes_sense, firing, &trace_.firings);
    }
    return Accept(ChunkType::kFirings, size);
  }

  bool Add(const proto::Attributes& chunk) {
    if (!HaveSize(chunk.key_size(), chunk.value())) return false;
    for (int i = 0; i < chunk.key_size(); ++i) {
      trace_.attributes.push_back({Text(chunk.key(i)), Text(chunk.value(i))});
    }
    return Accept(ChunkType::kAttributes, chunk.key_size());
  }

  bool Add(const proto::Events& chunk) {
    const int size = chunk.begin_size();
    if (!HaveSize(size, chunk.length(), chunk.site(), chunk.request(), chunk.batch(), chunk.arg_count()) ||
        !AddUpTo(chunk.arg_count(), chunk.arg_size())) {
      return false;
    }
    model::EventColumns& events = trace_.events;
    const uint32_t thread = threads_[chunk.thread()];
    if (thread != kNone && events.size() != 0 && events.thread.back() > thread) return false;
    Deltas begin, request, batch;
    int arg = 0;
    for (int i = 0; i < size; ++i) {
      const int64_t begin_ns = begin.Next(chunk.begin(i)), duration_ns = Duration(chunk.length(i));
      const uint64_t request_plus_one = static_cast<uint64_t>(request.Next(chunk.request(i)));
      const uint64_t batch_plus_one = static_cast<uint64_t>(batch.Next(chunk.batch(i)));
      const uint32_t site = sites_[chunk.site(i)], arg_count = chunk.arg_count(i);
      const int first_arg = arg;
      arg += static_cast<int>(arg_count);
      const bool follows = events.size() == 0 || events.thread.back() != thread ||
                           model::InOrder(events.begin_ns.back(), events.duration_ns.back(), begin_ns, duration_ns);
      if (thread == kNone || site == kNone || !follows || !IsInterval(begin_ns, duration_ns) ||
          (arg_count != 0 && arg_count != trace_.sites[site].arg_types.size()) || events.size() >= kNone - 1 ||
          trace_.arg_values.size() + arg_count >= kNone) {
        ++rows_dropped_;
        continue;
      }
      events.begin_ns.push_back(begin_ns);
      events.duration_ns.push_back(duration_ns);
      events.site.push_back(site);
      events.thread.push_back(thread);
      events.request.push_back(requests_.PlusOne(request_plus_one));
      events.batch.push_back(batches_.PlusOne(batch_plus_one));
      events.args.push_back(arg_count == 0 ? kNone : static_cast<uint32_t>(trace_.arg_values.size()));
      for (uint32_t k = 0; k < arg_count; ++k) {
        trace_.arg_values.push_back(Arg(trace_.sites[site].arg_types[k], chunk.arg(first_arg + static_cast<int>(k))));
      }
    }
    return Accept(ChunkType::kEvents, size);
  }

  bool Add(const proto::Devices& chunk) {
    const int size = chunk.ordinal_size();
    if (!HaveSize(size, chunk.name(), chunk.multiprocessors(), chunk.threads(), chunk.blocks(), chunk.registers(),
                  chunk.shared_bytes()) ||
        !devices_.Begin(chunk.first_row(), static_cast<uint64_t>(size))) {
      return false;
    }
    for (int i = 0; i < size; ++i) {
      AddRow(true,
             model::DeviceRow{chunk.ordinal(i), Text(chunk.name(i)), chunk.multiprocessors(i), chunk.threads(i),
                              chunk.blocks(i), chunk.registers(i), chunk.shared_bytes(i)},
             &trace_.devices, &devices_);
    }
    return Accept(ChunkType::kDevices, size);
  }

  bool Add(const proto::Streams& chunk) {
    const int size = chunk.device_size();
    if (!HaveSize(size, chunk.context(), chunk.stream(), chunk.name()) ||
        !streams_.Begin(chunk.first_row(), static_cast<uint64_t>(size))) {
      return false;
    }
    for (int i = 0; i < size; ++i) {
      AddRow(true,
             model::StreamRow{devices_.PlusOne(chunk.device(i)), chunk.context(i), chunk.stream(i), Text(chunk.name(i)),
                              0, 0},
             &trace_.streams, &streams_);
    }
    return Accept(ChunkType::kStreams, size);
  }

  bool Add(const proto::Shapes& chunk) {
    const int size = chunk.static_shared_bytes_size();
    if (chunk.grid_size() != size * 3 || chunk.block_size() != size * 3 ||
        !HaveSize(size, chunk.dynamic_shared_bytes(), chunk.local_bytes_per_thread(), chunk.registers_per_thread()) ||
        !shapes_.Begin(chunk.first_row(), static_cast<uint64_t>(size))) {
      return false;
    }
    for (int i = 0; i < size; ++i) {
      model::KernelShape shape;
      for (int axis = 0; axis < 3; ++axis) {
        shape.grid[axis] = chunk.grid(i * 3 + axis);
        shape.block[axis] = chunk.block(i * 3 + axis);
      }
      shape.static_shared_bytes = chunk.static_shared_bytes(i);
      shape.dynamic_shared_bytes = chunk.dynamic_shared_bytes(i);
      shape.local_bytes_per_thread = chunk.local_bytes_per_thread(i);
      shape.registers_per_thread = chunk.registers_per_thread(i);
      AddRow(true, shape, &trace_.shapes, &shapes_);
    }
    return Accept(ChunkType::kShapes, size);
  }

  bool Add(const proto::Calls& chunk) {
    const int size = chunk.thread_size();
    const bool has_devices = chunk.device_size() != 0;  // not before version 1.6
    if (!HaveSize(size, chunk.begin(), chunk.length(), chunk.request(), chunk.batch(), chunk.name(), chunk.stream()) ||
        (has_devices && chunk.device_size() != size) || !calls_.Begin(chunk.first_row(), static_cast<uint64_t>(size))) {
      return false;
    }
    model::CallColumns& calls = trace_.calls;
    Deltas begin, request, batch;
    for (int i = 0; i < size; ++i) {
      const uint32_t thread = threads_.PlusOne(chunk.thread(i));
      const int64_t begin_ns = begin.Next(chunk.begin(i)), duration_ns = Duration(chunk.length(i));
      const auto request_plus_one = static_cast<uint64_t>(request.Next(chunk.request(i)));
      const auto batch_plus_one = static_cast<uint64_t>(batch.Next(chunk.batch(i)));
      const bool follows =
          calls.size() == 0 || std::pair(calls.thread.back(), calls.begin_ns.back()) <= std::pair(thread, begin_ns);
      if (!follows || !IsInterval(begin_ns, duration_ns) || calls.size() >= kNone - 1) {
        calls_.Add(kNone);
        ++rows_dropped_;
        continue;
      }
      calls_.Add(calls.size());
      calls.begin_ns.push_back(begin_ns);
      calls.duration_ns.push_back(duration_ns);
      calls.thread.push_back(thread);
      calls.request.push_back(requests_.PlusOne(request_plus_one));
      calls.batch.push_back(batches_.PlusOne(batch_plus_one));
      calls.name.push_back(Text(chunk.name(i)));
      calls.stream.push_back(streams_.PlusOne(chunk.stream(i)));
      calls.device.push_back(has_devices ? devices_.PlusOne(chunk.device(i)) : kNone);
    }
    return Accept(ChunkType::kCalls, size);
  }

  bool Add(const proto::Gpu& chunk) {
    const int size = chunk.begin_size();
    if (!HaveSize(size, chunk.duration_ns(), chunk.kind(), chunk.name(), chunk.call(), chunk.shape(), chunk.bytes(),
                  chunk.graph(), chunk.node())) {
      return false;
    }
    const bool has_paths = chunk.scope_path_size() != 0;  // not before version 1.2
    if (has_paths && chunk.scope_path_size() != size) return false;
    model::GpuColumns& gpu = trace_.gpu;
    const uint32_t stream = streams_[chunk.stream()];
    if (stream != kNone && gpu.size() != 0 && gpu.stream.back() > stream) return false;
    Deltas begin, call;
    for (int i = 0; i < size; ++i) {
      const int64_t begin_ns = begin.Next(chunk.begin(i)), duration_ns = chunk.duration_ns(i);
      const auto call_plus_one = static_cast<uint64_t>(call.Next(chunk.call(i)));
      const bool is_known = chunk.kind(i) >= static_cast<uint32_t>(model::GpuKind::kKernel) &&
                            chunk.kind(i) <= static_cast<uint32_t>(model::GpuKind::kSpan);
      const bool follows = gpu.size() == 0 || gpu.stream.back() != stream || gpu.begin_ns.back() <= begin_ns;
      if (stream == kNone || !is_known || !follows || duration_ns < 0 || !IsInterval(begin_ns, duration_ns) ||
          gpu.size() >= kNone - 1) {
        ++rows_dropped_;
        continue;
      }
      gpu.begin_ns.push_back(begin_ns);
      gpu.duration_ns.push_back(duration_ns);
      gpu.kind.push_back(static_cast<model::GpuKind>(chunk.kind(i)));
      gpu.stream.push_back(stream);
      gpu.name.push_back(Text(chunk.name(i)));
      gpu.call.push_back(calls_.PlusOne(call_plus_one));
      gpu.shape.push_back(shapes_.PlusOne(chunk.shape(i)));
      gpu.bytes.push_back(chunk.bytes(i));
      gpu.graph.push_back(chunk.graph(i));
      gpu.node.push_back(chunk.node(i));
      gpu.scope_path.push_back(has_paths ? Text(chunk.scope_path(i)) : 0);
    }
    return Accept(ChunkType::kGpu, size);
  }

  bool Add(const proto::Overheads& chunk) {
    const int size = chunk.begin_size();
    if (!HaveSize(size, chunk.duration_ns(), chunk.name())) return false;
    Deltas begin;
    for (int i = 0; i < size; ++i) {
      const model::OverheadRow overhead{begin.Next(chunk.begin(i)), chunk.duration_ns(i), Text(chunk.name(i))};
      const bool makes_sense = overhead.duration_ns >= 0 && IsInterval(overhead.begin_ns, overhead.duration_ns) &&
                               (trace_.overheads.empty() || trace_.overheads.back().begin_ns <= overhead.begin_ns);
      AddRow(makes_sense, overhead, &trace_.overheads);
    }
    return Accept(ChunkType::kOverheads, size);
  }

  template <class Chunk> bool AddDepths(const Chunk& chunk, ChunkType type, std::vector<model::DepthRow>* rows) {
    const int size = chunk.begin_size();
    if (!HaveSize(size, chunk.duration_ns(), chunk.depth())) return false;
    Deltas begin;
    for (int i = 0; i < size; ++i) {
      const int64_t begin_ns = begin.Next(chunk.begin(i)), duration_ns = chunk.duration_ns(i);
      const bool makes_sense = chunk.depth(i) <= static_cast<uint32_t>(Depth::kOps) && IsSpan(begin_ns, duration_ns) &&
                               (rows->empty() || rows->back().begin_ns <= begin_ns);
      AddRow(makes_sense,
             makes_sense ? model::DepthRow{begin_ns, begin_ns + duration_ns, static_cast<Depth>(chunk.depth(i))}
                         : model::DepthRow(),
             rows);
    }
    return Accept(type, size);
  }

  bool Add(const proto::Depths& chunk) { return AddDepths(chunk, ChunkType::kDepths, &trace_.depths); }
  bool Add(const proto::OperatorDepths& chunk) {
    return AddDepths(chunk, ChunkType::kOperatorDepths, &trace_.operator_depths);
  }

  bool Add(const proto::GpuLosses& chunk) {
    const int size = chunk.stream_size();
    if (!HaveSize(size, chunk.reason(), chunk.begin_ns(), chunk.end_ns(), chunk.records())) return false;
    const bool has_devices = chunk.device_size() != 0;  // from minor version 4 on
    if (has_devices && !HaveSize(size, chunk.device())) return false;
    for (int i = 0; i < size; ++i) {
      const model::GpuLossRow loss{streams_.PlusOne(chunk.stream(i)),
                                   Text(chunk.reason(i)),
                                   chunk.begin_ns(i),
                                   chunk.end_ns(i),
                                   chunk.records(i),
                                   has_devices ? devices_.PlusOne(chunk.device(i)) : kNone};
      AddRow(IsTime(loss.begin_ns) && IsTime(loss.end_ns) && loss.begin_ns <= loss.end_ns, loss, &trace_.gpu_losses);
    }
    return Accept(ChunkType::kGpuLosses, size);
  }

  bool Add(const proto::Counters& chunk) {
    const int size = chunk.device_size();
    if (!HaveSize(size, chunk.name(), chunk.unit()) ||
        !counters_.Begin(chunk.first_row(), static_cast<uint64_t>(size))) {
      return false;
    }
    for (int i = 0; i < size; ++i) {
      AddRow(true, model::CounterRow{devices_.PlusOne(chunk.device(i)), Text(chunk.name(i)), Text(chunk.unit(i))},
             &trace_.counters, &counters_);
    }
    return Accept(ChunkType::kCounters, size);
  }

  bool Add(const proto::Samples& chunk) {
    const int size = chunk.counter_size();
    if (!HaveSize(size, chunk.at(), chunk.value())) return false;
    model::SampleColumns& samples = trace_.samples;
    Deltas at;
    for (int i = 0; i < size; ++i) {
      const uint32_t counter = counters_[chunk.counter(i)];
      const int64_t at_ns = at.Next(chunk.at(i));
      const bool follows =
          samples.size() == 0 || std::pair(samples.counter.back(), samples.at_ns.back()) <= std::pair(counter, at_ns);
      if (counter == kNone || !follows || !IsTime(at_ns) || !std::isfinite(chunk.value(i)) ||
          samples.size() >= kNone - 1) {
        ++rows_dropped_;
        continue;
      }
      samples.counter.push_back(counter);
      samples.at_ns.push_back(at_ns);
      samples.value.push_back(chunk.value(i));
    }
    return Accept(ChunkType::kSamples, size);
  }

  // Sets what follows from rows; to be called once, after the last chunk.
  void Finish() {
    trace_.process_name = Text(process_name_);
    for (const uint32_t thread : trace_.events.thread) ++trace_.threads[thread].event_count;
    uint32_t first = 0;
    for (model::ThreadRow& thread : trace_.threads) {
      thread.first_event = first;
      first += thread.event_count;
    }
    for (const model::MemberRow& member : trace_.members) ++trace_.batches[member.batch].member_count;
    first = 0;
    for (model::BatchRow& batch : trace_.batches) {
      batch.first_member = first;
      first += batch.member_count;
    }
    for (const uint32_t stream : trace_.gpu.stream) ++trace_.streams[stream].event_count;
    first = 0;
    for (model::StreamRow& stream : trace_.streams) {
      stream.first_event = first;
      first += stream.event_count;
    }
    if (!has_header_) GuessWindow();
  }

 private:
  model::StringId Text(uint64_t in_file) const {
    const uint32_t id = strings_[in_file];
    return id == kNone ? 0 : id;
  }
  model::ArgValue Arg(ArgType type, uint64_t encoded) const {
    if (type == ArgType::kInt) return encoded >> 1 ^ (0 - (encoded & 1));
    if (type == ArgType::kDouble) return __builtin_bswap64(encoded);
    return model::IsText(type) ? Text(encoded) : encoded;
  }
  static int64_t End(const model::Stage& stage) { return stage.begin_ns + stage.duration_ns; }
  bool IsInterval(int64_t begin_ns, int64_t duration_ns) const {
    if (!IsTime(begin_ns)) return false;
    if (duration_ns == model::kOpen) return !has_header_ || begin_ns <= trace_.window_end_ns;
    return duration_ns >= 0 && duration_ns <= model::kMaxTimeNs - begin_ns;
  }
  // Of what is never open.
  static bool IsSpan(int64_t begin_ns, int64_t duration_ns) {
    return IsTime(begin_ns) && duration_ns >= 0 && duration_ns <= model::kMaxTimeNs - begin_ns;
  }
  template <class Row> void AddRow(bool makes_sense, Row row, std::vector<Row>* table, RowMap* map) {
    map->Add(makes_sense ? static_cast<uint32_t>(table->size()) : kNone);
    AddRow(makes_sense, std::move(row), table);
  }
  template <class Row> void AddRow(bool makes_sense, Row row, std::vector<Row>* table) {
    if (makes_sense && table->size() < kNone - 1) {
      table->push_back(std::move(row));
    } else {
      ++rows_dropped_;
    }
  }
  bool Accept(ChunkType type, int rows) {
    rows_[static_cast<size_t>(type)] += static_cast<uint64_t>(rows);
    return true;
  }

  // Without a header: from the first to the last moment of anything.
  void GuessWindow() {
    int64_t begin_ns = model::kMaxTimeNs, end_ns = 0;
    const auto cover = [&](int64_t from_ns, int64_t duration_ns) {
      begin_ns = std::min(begin_ns, from_ns);
      end_ns = std::max(end_ns, duration_ns == model::kOpen ? from_ns : from_ns + duration_ns);
    };
    for (uint32_t i = 0; i < trace_.events.size(); ++i) cover(trace_.events.begin_ns[i], trace_.events.duration_ns[i]);
    for (const model::RequestRow& request : trace_.requests) {
      cover(request.begin_ns, request.duration_ns);
      for (const model::Stage& stage : request.stages) cover(stage.begin_ns, stage.duration_ns);
    }
    for (const model::BatchRow& batch : trace_.batches) cover(batch.begin_ns, batch.duration_ns);
    for (const model::AsyncRow& async : trace_.asyncs) cover(async.begin_ns, async.duration_ns);
    for (uint32_t i = 0; i < trace_.calls.size(); ++i) cover(trace_.calls.begin_ns[i], trace_.calls.duration_ns[i]);
    for (uint32_t i = 0; i < trace_.gpu.size(); ++i) cover(trace_.gpu.begin_ns[i], trace_.gpu.duration_ns[i]);
    trace_.window_begin_ns = std::min(begin_ns, end_ns);
    trace_.window_end_ns = end_ns;
  }

  Trace& trace_;
  bool has_header_ = false;
  uint32_t process_name_ = 0;
  RowMap strings_, sites_, threads_, requests_, batches_, devices_, streams_, shapes_, calls_, counters_;
  std::array<uint64_t, schema::kTypeCount> rows_{};
  uint64_t rows_dropped_ = 0;
};

constexpr uint8_t kMagicBytes[] = {dump_format::kMagic & 255, dump_format::kMagic >> 8 & 255,
                                   dump_format::kMagic >> 16 & 255, dump_format::kMagic >> 24};

constexpr const char* kNoChunk = "not a pitot dump: no whole chunk in it";

bool MakesSense(const proto::Header& header) {
  return IsTime(header.window_begin_ns()) && IsTime(header.window_end_ns()) && IsTime(header.monotonic_ns()) &&
         IsTime(header.realtime_ns()) && IsTime(header.boottime_ns()) &&
         header.window_begin_ns() <= header.window_end_ns();
}

// Finds the chunks of a file and gives their payloads to a ChunkReader.
class DumpParser {
 public:
  DumpParser(const void* data, uint64_t size, Trace* trace, DumpReport* report)
      : data_(static_cast<const uint8_t*>(data)), size_(size), reader_(trace), report_(*report) {}

  Status Parse() {
    uint64_t at = 0;
    while (at < size_ && !has_trailer_) {
      if (!FindChunk(&at)) break;
      if (Status status = Take(at); !status.ok()) return status;
      at += dump_format::kChunkHeaderBytes + payload_size_;
    }
    if (!IsDump()) return Status(StatusCode::kInvalidArgument, kNoChunk);
    report_.bytes_skipped += size_ - std::min(at, size_);
    reader_.Finish();
    report_.rows_dropped = reader_.rows_dropped();
    report_.complete = has_trailer_ && trailer_agrees_;
    if (report_.complete && report_.chunks_bad == 0 && report_.rows_dropped == 0) return Status();
    reader_.AddDamage(report_.bytes_skipped);
    return Status(StatusCode::kDataLoss, !has_trailer_             ? "the dump is truncated"
                                         : report_.chunks_bad != 0 ? "the dump has bad chunks"
                                                                   : "the dump is incomplete");
  }

 private:
  uint32_t Load(uint64_t at, uint32_t bytes) const {
    uint32_t value = 0;
    for (uint32_t i = 0; i < bytes; ++i) value |= uint32_t{data_[at + i]} << (8 * i);
    return value;
  }
  // A file that ends within its first chunk may have become one.
  bool IsDump() const {
    if (report_.chunks + report_.chunks_unknown != 0) return true;
    return size_ == 0 || memcmp(data_, kMagicBytes, std::min<uint64_t>(size_, sizeof kMagicBytes)) == 0;
  }

  // True if a chunk with a right CRC begins at `at`; reads its header.
  bool IsChunk(uint64_t at) {
    if (size_ - at < dump_format::kChunkHeaderBytes || Load(at, 4) != dump_format::kMagic) return false;
    type_ = Load(at + 4, 2);
    flags_ = Load(at + 6, 2);
    payload_size_ = Load(at + 8, 4);
    sequence_ = Load(at + 12, 4);
    if (payload_size_ > size_ - at - dump_format::kChunkHeaderBytes) return false;
    const bool is_strings = type_ == static_cast<uint32_t>(ChunkType::kStrings);
    if (payload_size_ > (is_strings ? uint64_t{INT_MAX} : dump_format::kPayloadMaxBytes)) return false;
    // Where magics abound, each claiming a long chunk, trying all would take for ever.
    bytes_tried_ += payload_size_;
    if (bytes_tried_ > kMaxTries * size_) return false;
    const uint32_t crc = serialize::ExtendCrc32c(serialize::ExtendCrc32c(0, data_ + at, 16),
                                                 data_ + at + dump_format::kChunkHeaderBytes, payload_size_);
    return crc == Load(at + 16, 4);
  }

  // Moves `at` on to the next whole chunk that has not been before; false if there is none.
  bool FindChunk(uint64_t* at) {
    const uint64_t begin = *at;
    for (uint64_t next = begin; next < size_;) {
      if (IsChunk(next) && sequence_ >= next_sequence_) {
        *at = next;
        if (next != begin || sequence_ != next_sequence_) {
          // As many are missing as the numbers say, unless they say what cannot be.
          report_.chunks_bad +=
              std::min<uint64_t>(sequence_ - next_sequence_, (next - begin) / dump_format::kChunkHeaderBytes + 1);
        }
        report_.bytes_skipped += next - begin;
        next_sequence_ = uint64_t{sequence_} + 1;
        return true;
      }
      const void* found = memchr(data_ + next + 1, dump_format::kMagic & 255, size_ - next - 1);
      next = found == nullptr ? size_ : static_cast<uint64_t>(static_cast<const uint8_t*>(found) - data_);
    }
    // The rest holds a chunk that is there but bad, or the beginning of one.
    if (size_ - begin >= dump_format::kChunkHeaderBytes &&
        Load(begin + 8, 4) <= size_ - begin - dump_format::kChunkHeaderBytes) {
      ++report_.chunks_bad;
    }
    return false;
  }

  // Reads the chunk at `at`, whose header was read. Fails only where reading must not go on.
  Status Take(uint64_t at) {
    payload_ = data_ + at + dump_format::kChunkHeaderBytes;
    const ChunkType type = static_cast<ChunkType>(type_);
    if (flags_ != 0 || type_ == 0 || type_ > static_cast<uint32_t>(ChunkType::kOperatorDepths)) {
      ++report_.chunks_unknown;
      return Status();
    }
    bool is_good = (type == ChunkType::kHeader) == (sequence_ == 0);
    if (is_good && type == ChunkType::kHeader) {
      proto::Header header;
      is_good = Parse(&header);
      if (is_good) {
        report_.version_major = header.version_major();
        report_.version_minor = header.version_minor();
        if (header.version_major() != dump_format::kVersionMajor) {
          const std::string message = "a dump of version " + std::to_string(header.version_major()) +
                                      "; this reader knows " + std::to_string(dump_format::kVersionMajor);
          return Status(StatusCode::kInvalidArgument, message.c_str());
        }
        is_good = MakesSense(header);
        if (is_good) reader_.Header(header);
      }
    } else if (is_good && type == ChunkType::kTrailer) {
      proto::Trailer trailer;
      is_good = Parse(&trailer);
      if (is_good) TakeTrailer(trailer);
    } else if (is_good) {
      is_good = TakeTable(type);
    }
    ++(is_good ? report_.chunks : report_.chunks_bad);
    return Status();
  }

  bool TakeTable(ChunkType type) {
    switch (type) {
      case ChunkType::kStrings:
        return Add<proto::Strings>();
      case ChunkType::kSites:
        return Add<proto::Sites>();
      case ChunkType::kThreads:
        return Add<proto::Threads>();
      case ChunkType::kRequests:
        return Add<proto::Requests>();
      case ChunkType::kBatches:
        return Add<proto::Batches>();
      case ChunkType::kMembers:
        return Add<proto::Members>();
      case ChunkType::kHandoffs:
        return Add<proto::Handoffs>();
      case ChunkType::kAsyncs:
        return Add<proto::Asyncs>();
      case ChunkType::kTokens:
        return Add<proto::Tokens>();
      case ChunkType::kLosses:
        return Add<proto::Losses>();
      case ChunkType::kFirings:
        return Add<proto::Firings>();
      case ChunkType::kAttributes:
        return Add<proto::Attributes>();
      case ChunkType::kEvents:
        return AddEvents();
      case ChunkType::kDevices:
        return Add<proto::Devices>();
      case ChunkType::kStreams:
        return Add<proto::Streams>();
      case ChunkType::kShapes:
        return Add<proto::Shapes>();
      case ChunkType::kCalls:
        return Add<proto::Calls>();
      case ChunkType::kGpu:
        return Add<proto::Gpu>();
      case ChunkType::kOverheads:
        return Add<proto::Overheads>();
      case ChunkType::kDepths:
        return Add<proto::Depths>();
      case ChunkType::kGpuLosses:
        return Add<proto::GpuLosses>();
      case ChunkType::kCounters:
        return Add<proto::Counters>();
      case ChunkType::kSamples:
        return Add<proto::Samples>();
      case ChunkType::kOperatorDepths:
        return Add<proto::OperatorDepths>();
      default:
        return false;
    }
  }
  template <class Message> bool Add() {
    Message message;
    return Parse(&message) && reader_.Add(message);
  }
  // Most chunks are these; the message keeps its memory from one to the next.
  bool AddEvents() { return Parse(&events_) && reader_.Add(events_); }
  template <class Message> bool Parse(Message* message) const {
    return message->ParseFromArray(payload_, static_cast<int>(payload_size_));
  }

  void TakeTrailer(const proto::Trailer& trailer) {
    has_trailer_ = true;
    trailer_agrees_ = trailer.chunks() == report_.chunks + report_.chunks_unknown;
    const int tables = std::min(trailer.rows_size(), static_cast<int>(schema::kTypeCount));
    for (int i = 0; i < tables; ++i) {
      if (trailer.rows(i) != reader_.rows()[static_cast<size_t>(i)]) trailer_agrees_ = false;
    }
  }

  static constexpr uint64_t kMaxTries = 8;

  const uint8_t* data_;
  uint64_t size_;
  ChunkReader reader_;
  DumpReport& report_;
  proto::Events events_;
  uint64_t bytes_tried_ = 0;
  uint64_t next_sequence_ = 0;
  bool has_trailer_ = false;
  bool trailer_agrees_ = false;
  // Of the chunk at hand.
  uint32_t type_ = 0;
  uint32_t flags_ = 0;
  uint32_t sequence_ = 0;
  uint64_t payload_size_ = 0;
  const uint8_t* payload_ = nullptr;
};

class File {
 public:
  // A pipe without a writer must not keep the reader waiting.
  explicit File(const char* path) : descriptor_(open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC)) {}
  ~File() {
    if (descriptor_ >= 0) close(descriptor_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  int descriptor() const { return descriptor_; }

 private:
  int descriptor_;
};

Status FileError(const std::string& path, int error) {
  const StatusCode code = error == ENOENT ? StatusCode::kNotFound : StatusCode::kIoError;
  return Status(code, (path + ": " + strerror(error)).c_str());
}

// Of a dump whose first chunk is damaged the second, at the latest, begins within these bytes.
constexpr size_t kFirstBytes = 2 * (dump_format::kPayloadMaxBytes + dump_format::kChunkHeaderBytes);

// Not mapped: a file that shrinks under a mapping kills its reader. What cannot be a dump is not read on.
Status ReadAll(const std::string& path, std::string* contents) {
  const File file(path.c_str());
  struct stat facts {};
  if (file.descriptor() < 0 || fstat(file.descriptor(), &facts) != 0) return FileError(path, errno);
  if (!S_ISREG(facts.st_mode)) return Status(StatusCode::kInvalidArgument, (path + ": not a regular file").c_str());
  const auto size = static_cast<size_t>(facts.st_size);
  contents->resize(std::min(size, kFirstBytes));
  size_t have = 0;
  while (have < size) {
    if (have == kFirstBytes) {
      if (memmem(contents->data(), have, kMagicBytes, sizeof kMagicBytes) == nullptr)
        return Status(StatusCode::kInvalidArgument, kNoChunk);
      contents->resize(size);
    }
    const ssize_t got = read(file.descriptor(), contents->data() + have, contents->size() - have);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return FileError(path, errno);
    if (got == 0) break;
    have += static_cast<size_t>(got);
  }
  contents->resize(have);
  return Status();
}

}  // namespace

Status ParseDump(const void* data, uint64_t size, Trace* trace, DumpReport* report) try {
  *trace = Trace();
  *report = DumpReport();
  Status status = DumpParser(data, size, trace, report).Parse();
  if (!status.ok() && status.code() != StatusCode::kDataLoss) {
    *trace = Trace();
    return status;
  }
  if (const std::string wrong = model::FindInconsistency(*trace); !wrong.empty()) {
    *trace = Trace();
    return Status(StatusCode::kInternal, ("the reader made an inconsistent trace: " + wrong).c_str());
  }
  return status;
} catch (const std::bad_alloc&) {
  return Status(StatusCode::kResourceExhausted, "no memory for the dump");
}

Status ReadDump(const std::string& path, Trace* trace, DumpReport* report) try {
  *trace = Trace();
  *report = DumpReport();
  std::string contents;
  if (Status status = ReadAll(path, &contents); !status.ok()) return status;
  return ParseDump(contents.data(), contents.size(), trace, report);
} catch (const std::bad_alloc&) {
  return Status(StatusCode::kResourceExhausted, "no memory for the dump");
}

PITOT_NAMESPACE_END
