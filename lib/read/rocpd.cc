// SPDX-License-Identifier: Apache-2.0
//
// The database of rocprofv3 ("rocpd", schemas 3 and 4). Its tables end with an id of the process that wrote them, such
// as rocpd_region_0190..., so that databases can be joined. The views over them are not used.
#include <algorithm>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "read/chrome_event.h"
#include "read/formats.h"
#include "read/rocprof_builder.h"
#include "read/sqlite_database.h"

namespace pitot::read {
namespace {

using Rows = SqliteDatabase::Rows;

constexpr std::string_view kProcessTable = "rocpd_info_process";

// Values by the id of a row. Tables are nearly always read in the order of ids.
template <class T> class ById {
 public:
  void Add(int64_t id, T value) {
    is_sorted_ &= rows_.empty() || rows_.back().first < id;
    rows_.push_back({id, std::move(value)});
  }
  void Sort() {
    const auto is_before = [](const auto& a, const auto& b) { return a.first < b.first; };
    if (!is_sorted_) std::stable_sort(rows_.begin(), rows_.end(), is_before);
  }
  const T* Find(std::optional<int64_t> id) const {
    if (!id) return nullptr;
    const auto found = std::lower_bound(rows_.begin(), rows_.end(), *id,
                                        [](const auto& row, int64_t wanted) { return row.first < wanted; });
    return found != rows_.end() && found->first == *id ? &found->second : nullptr;
  }

 private:
  std::vector<std::pair<int64_t, T>> rows_;
  bool is_sorted_ = true;
};

// The tables with one ending.
class Part {
 public:
  Part(SqliteDatabase* database, std::string ending, RocprofBuilder* builder)
      : database_(*database), ending_(std::move(ending)), builder_(*builder) {}

  void Read() {
    builder_.BeginPart();
    ReadNames();
    ReadAgents();
    ReadKernels();
    ReadEvents();
    ReadRegions();
    ReadMarks();
    ReadDispatches();
    ReadCopies();
  }

 private:
  struct Event {
    int64_t correlation, category;
  };
  // Schema 4 has them in a table of their own.
  struct Track {
    int64_t pid, thread, agent, queue, stream, name;
  };

  Rows Of(const char* table, std::initializer_list<const char*> columns) {
    return database_.Read(table + ending_, columns);
  }
  std::string_view String(std::optional<int64_t> id) const {
    const std::string* const found = strings_.Find(id);
    return found == nullptr ? std::string_view() : *found;
  }

  void ReadNames() {
    for (Rows rows = Of("rocpd_string", {"id", "string"}); rows.Next();)
      strings_.Add(rows.Number(0, 0), std::string(rows.Text(1)));
    strings_.Sort();
    for (Rows rows = Of("rocpd_info_category", {"id", "name"}); rows.Next();)
      categories_.Add(rows.Number(0, 0), std::string(rows.Text(1)));
    categories_.Sort();
    for (Rows rows = Of("rocpd_info_process", {"id", "pid", "command"}); rows.Next();) {
      pids_.Add(rows.Number(0, 0), rows.Number(1, 0));
      builder_.AddAttribute("command", rows.Text(2));
    }
    pids_.Sort();
    for (Rows rows = Of("rocpd_info_thread", {"id", "tid", "pid", "name"}); rows.Next();) {
      threads_.Add(rows.Number(0, 0), rows.Number(1, 0));
      builder_.NameThread(Pid(rows.Number(2)), rows.Number(1, 0), rows.Text(3));
    }
    threads_.Sort();
    for (Rows rows = Of("rocpd_timestamp", {"id", "value"}); rows.Next();)
      if (const auto value = rows.Number(1)) times_.Add(rows.Number(0, 0), *value);
    times_.Sort();
    for (Rows rows = Of("rocpd_track", {"id", "pid", "tid", "agent_id", "queue_id", "stream_id", "name_id"});
         rows.Next();)
      tracks_.Add(rows.Number(0, 0), {rows.Number(1, 0), rows.Number(2, 0), rows.Number(3, 0), rows.Number(4, 0),
                                      rows.Number(5, 0), rows.Number(6, 0)});
    tracks_.Sort();
  }

  void ReadAgents() {
    ChromeDecoder decoder;
    Rows rows = Of("rocpd_info_agent", {"id", "type", "product_name", "name", "extdata"});
    while (rows.Next()) {
      RocprofAgent agent;
      agent.is_gpu = rows.Text(1) == "GPU";
      agent.name = rows.Text(2).empty() ? rows.Text(3) : rows.Text(2);
      int64_t simds = 0, waves = 0;
      for (const ChromeValue& value : decoder.Object(rows.Text(4))) {
        const int64_t number = value.Number().value_or(0);
        if (value.key == "cu_count") agent.compute_units = number;
        if (value.key == "simd_per_cu") simds = number;
        if (value.key == "max_waves_per_simd") waves = number;
        if (value.key == "wave_front_size") agent.wave = number;
        if (value.key == "lds_size_in_kb") agent.local_bytes = std::clamp<int64_t>(number, 0, INT32_MAX) << 10;
        if (value.key == "gfx_target_version") agent.version = number;
      }
      agent.waves = std::clamp<int64_t>(simds, 0, UINT16_MAX) * std::clamp<int64_t>(waves, 0, UINT16_MAX);
      builder_.AddAgent(rows.Number(0, 0), std::move(agent));
    }
  }

  void ReadKernels() {
    Rows rows = Of("rocpd_info_kernel_symbol",
                   {"id", "display_name", "kernel_name", "group_segment_size", "arch_vgpr_count", "accum_vgpr_count"});
    while (rows.Next()) {
      const std::string_view name = rows.Text(1).empty() ? rows.Text(2) : rows.Text(1);
      const auto registers = [&](int column) { return std::clamp<int64_t>(rows.Number(column, 0), 0, UINT16_MAX); };
      builder_.AddKernel(rows.Number(0, 0), {std::string(name), rows.Number(3, 0), registers(4) + registers(5)});
    }
  }

  void ReadEvents() {
    ChromeDecoder decoder;
    Rows rows = Of("rocpd_event", {"id", "stack_id", "category_id", "extdata"});
    while (rows.Next()) {
      const int64_t id = rows.Number(0, 0);
      events_.Add(id, {rows.Number(1, 0), rows.Number(2, 0)});
      const std::string_view details = rows.Text(3);
      if (details.find("\"message\"") == std::string_view::npos) continue;
      for (const ChromeValue& value : decoder.Object(details))
        if (value.key == "message") messages_[id] = value.text;
    }
    events_.Sort();
  }

  int64_t Pid(std::optional<int64_t> id) const {
    const int64_t* const found = pids_.Find(id);
    return found == nullptr ? id.value_or(0) : *found;
  }
  int64_t Thread(int64_t id) const {
    const int64_t* const found = threads_.Find(id);
    return found == nullptr ? id : *found;
  }
  std::optional<int64_t> Time(std::optional<int64_t> at_ns, std::optional<int64_t> id) const {
    const int64_t* const found = at_ns ? nullptr : times_.Find(id);
    return found == nullptr ? at_ns : *found;
  }

  // The columns start, end, start_id, end_id, event_id, track_id, pid, tid, queue_id and stream_id of a row.
  RocprofRecord RecordOf(const Rows& rows) const {
    RocprofRecord record;
    record.begin_ns = Time(rows.Number(0), rows.Number(2));
    record.end_ns = Time(rows.Number(1), rows.Number(3));
    const Track* const track = tracks_.Find(rows.Number(5));
    const Track of = track == nullptr ? Track() : *track;
    record.pid = Pid(rows.Number(6, of.pid));
    record.thread = Thread(rows.Number(7, of.thread));
    record.agent = of.agent;
    record.queue = rows.Number(8, of.queue);
    record.stream = rows.Number(9, of.stream);
    if (const Event* const event = events_.Find(rows.Number(4))) {
      record.correlation = event->correlation;
      const std::string* const category = categories_.Find(event->category);
      record.kind = category == nullptr ? String(event->category) : std::string_view(*category);
    }
    if (const auto message = messages_.find(rows.Number(4, 0)); message != messages_.end())
      record.message = message->second;
    return record;
  }

  void ReadRegions() {
    Rows rows = Of("rocpd_region",
                   {"start", "end", "start_id", "end_id", "event_id", "track_id", "pid", "tid", "", "", "name_id"});
    while (rows.Next()) {
      RocprofRecord record = RecordOf(rows);
      record.name = String(rows.Number(10));
      builder_.Add(record);
    }
  }

  void ReadMarks() {
    Rows rows =
        Of("rocpd_sample", {"timestamp", "", "timestamp_id", "", "event_id", "track_id", "", "", "", "", "name_id"});
    while (rows.Next()) {
      RocprofRecord record = RecordOf(rows);
      record.end_ns = record.begin_ns;
      record.name = String(rows.Number(10));
      builder_.Add(record);
    }
  }

  void ReadDispatches() {
    Rows rows = Of("rocpd_kernel_dispatch",
                   {"start", "end", "start_id", "end_id", "event_id", "track_id", "pid", "tid", "queue_id", "stream_id",
                    "agent_id", "kernel_id", "group_segment_size", "workgroup_size_x", "workgroup_size_y",
                    "workgroup_size_z", "grid_size_x", "grid_size_y", "grid_size_z"});
    while (rows.Next()) {
      RocprofRecord record = RecordOf(rows);
      record.kind = "KERNEL_DISPATCH";
      record.agent = rows.Number(10, record.agent);
      record.kernel = rows.Number(11, 0);
      record.local_bytes = rows.Number(12, 0);
      for (int i = 0; i < 3; ++i) {
        record.block[i] = rows.Number(13 + i, 0);
        record.threads[i] = rows.Number(16 + i, 0);
      }
      builder_.Add(record);
    }
  }

  void ReadCopies() {
    Rows rows = Of("rocpd_memory_copy", {"start", "end", "start_id", "end_id", "event_id", "track_id", "pid", "tid",
                                         "queue_id", "stream_id", "name_id", "dst_agent_id", "src_agent_id", "size"});
    while (rows.Next()) {
      RocprofRecord record = RecordOf(rows);
      record.kind = "MEMORY_COPY";
      record.name = String(rows.Number(10));
      record.agent = rows.Number(11, 0);
      record.source_agent = rows.Number(12, 0);
      record.bytes = rows.Number(13, 0);
      builder_.Add(record);
    }
  }

  SqliteDatabase& database_;
  std::string ending_;
  RocprofBuilder& builder_;
  ById<std::string> strings_, categories_;
  ById<int64_t> pids_, threads_, times_;
  ById<Track> tracks_;
  ById<Event> events_;
  std::unordered_map<int64_t, std::string> messages_;  // by event
};

bool IsRocpd(const Head& head) {
  const auto found = head.tables.lower_bound(std::string(kProcessTable));
  return found != head.tables.end() && std::string_view(*found).substr(0, kProcessTable.size()) == kProcessTable;
}

Status ReadRocpd(const Input& input, model::Trace* trace, TraceReport* report) {
  SqliteDatabase database(input);
  if (database.status().code() == StatusCode::kInvalidArgument) return database.status();
  RocprofBuilder builder(trace, report);
  std::vector<std::string> endings;
  for (const std::string& table : database.tables()) {
    if (std::string_view(table).substr(0, kProcessTable.size()) == kProcessTable)
      endings.push_back(table.substr(kProcessTable.size()));
  }
  for (const std::string& ending : endings) Part(&database, ending, &builder).Read();
  return builder.Finish(database.status());
}

}  // namespace

const Format kRocpdFormat = {"rocpd",
                             "database of rocprofv3",
                             "databases of rocprofv3",
                             "rocprofv3",
                             "record while the program works, with `rocprofv3 --sys-trace`",
                             {"requests and batches", "operators", "sizes of inputs", "the date", "losses"},
                             {{"kernel", "record with --kernel-trace"},
                              {"call", "record with --hip-trace"},
                              {"scope", "name them with roctx, and record with --marker-trace"},
                              {"layer", "name them with roctx, and record with --marker-trace"}},
                             IsRocpd,
                             ReadRocpd};

}  // namespace pitot::read
