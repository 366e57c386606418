// SPDX-License-Identifier: Apache-2.0
#include "model/loss_rows.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <unordered_map>

namespace pitot::model {
namespace {

constexpr std::string_view kBetween = "; ";
constexpr uint64_t kAny = UINT64_MAX;

// Appends to a row; the reason comes last.
class RowWriter {
 public:
  explicit RowWriter(std::string* text) : text_(*text) {
    if (!text_.empty()) text_ += kBetween;
  }
  void Add(bool is_known, int64_t number) { text_ += is_known ? std::to_string(number) + " " : "- "; }
  void Add(int64_t number) { Add(true, number); }
  void AddCount(uint64_t count) { text_ += std::to_string(count) + " "; }
  void End(std::string_view reason) {
    if (reason.empty()) reason = "unknown";
    for (const char letter : reason) text_ += letter == ';' ? ',' : letter;
  }

 private:
  std::string& text_;
};

// Reads such a row.
class RowReader {
 public:
  explicit RowReader(std::string_view row) : rest_(row) {}
  template <class T> T Next() {
    T value = 0;
    const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), value);
    Advance(error == std::errc() ? static_cast<size_t>(end - rest_.data()) : 0);
    return value;
  }
  // kAny for "-".
  uint64_t NextOrAny() {
    if (!rest_.starts_with("- ")) return static_cast<uint64_t>(Next<int64_t>());
    Advance(1);
    return kAny;
  }
  // Two times with their order, within those of a trace.
  bool NextTimes(int64_t later_ns, int64_t* begin_ns, int64_t* end_ns) {
    *begin_ns = Next<int64_t>();
    *end_ns = Next<int64_t>();
    if (!is_good_ || *begin_ns < 0 || *begin_ns > *end_ns || *end_ns > kMaxTimeNs) return false;
    for (int64_t* ns : {begin_ns, end_ns}) *ns += std::clamp<int64_t>(later_ns, -*ns, kMaxTimeNs - *ns);
    return true;
  }
  bool is_good() const { return is_good_ && !rest_.empty(); }
  std::string_view reason() const { return rest_; }

 private:
  void Advance(size_t size) {
    is_good_ = is_good_ && size != 0 && size < rest_.size() && rest_[size] == ' ';
    rest_.remove_prefix(is_good_ ? size + 1 : 0);
  }

  std::string_view rest_;
  bool is_good_ = true;
};

// Calls `take(row)` for each row, until it returns false.
template <class Take> void ForEachRow(std::string_view text, const Take& take) {
  while (!text.empty()) {
    const size_t size = std::min(text.find(kBetween), text.size());
    if (!take(RowReader(text.substr(0, size)))) return;
    text.remove_prefix(std::min(size + kBetween.size(), text.size()));
  }
}

}  // namespace

std::string LossesText(const Trace& trace, const std::vector<int64_t>& thread_ids) {
  std::string text;
  for (const LossRow& loss : trace.losses) {
    RowWriter row(&text);
    row.Add(loss.begin_ns);
    row.Add(loss.end_ns);
    row.AddCount(loss.events);
    row.AddCount(loss.bytes);
    row.Add(loss.thread != kNone, loss.thread != kNone ? thread_ids[loss.thread] : 0);
    row.End(LossReasonName(loss.reason));
  }
  return text;
}

std::string GpuLossesText(const Trace& trace) {
  std::string text;
  for (const GpuLossRow& loss : trace.gpu_losses) {
    const StreamRow stream = loss.stream != kNone ? trace.streams[loss.stream] : StreamRow();
    const uint32_t device = loss.stream != kNone ? stream.device : loss.device;
    RowWriter row(&text);
    row.Add(loss.begin_ns);
    row.Add(loss.end_ns);
    row.AddCount(loss.records);
    row.Add(device != kNone, device != kNone ? trace.devices[device].ordinal : 0);
    row.Add(loss.stream != kNone, stream.context);
    row.Add(loss.stream != kNone, stream.stream);
    row.End(trace.strings[loss.reason]);
  }
  return text;
}

void AddLosses(std::string_view text, int64_t later_ns, Trace* trace) {
  std::unordered_map<int64_t, uint32_t> threads;
  for (uint32_t row = 0; row < trace->threads.size(); ++row) threads.try_emplace(trace->threads[row].tid, row);
  ForEachRow(text, [&](RowReader row) {
    LossRow loss;
    if (!row.NextTimes(later_ns, &loss.begin_ns, &loss.end_ns)) return false;
    loss.events = row.Next<uint64_t>();
    loss.bytes = row.Next<uint64_t>();
    const uint64_t id = row.NextOrAny();
    if (!row.is_good()) return false;
    const auto thread = id == kAny ? threads.end() : threads.find(static_cast<int64_t>(id));
    if (thread != threads.end()) loss.thread = thread->second;
    for (int value = 1; value <= static_cast<int>(LossReason::kTooDeepToBegin); ++value) {
      loss.reason = static_cast<LossReason>(value);
      if (row.reason() != LossReasonName(loss.reason)) continue;
      trace->losses.push_back(loss);
      return true;
    }
    return false;
  });
}

void AddGpuLosses(std::string_view text, int64_t later_ns, Trace* trace) {
  std::map<uint64_t, uint32_t> devices;                 // by number
  std::map<std::array<uint64_t, 3>, uint32_t> streams;  // by device, number and context
  for (uint32_t row = 0; row < trace->devices.size(); ++row) devices.try_emplace(trace->devices[row].ordinal, row);
  for (uint32_t row = 0; row < trace->streams.size(); ++row) {
    const StreamRow& stream = trace->streams[row];
    streams.try_emplace({stream.device, stream.stream, stream.context}, row);
  }
  ForEachRow(text, [&](RowReader row) {
    GpuLossRow loss;
    if (!row.NextTimes(later_ns, &loss.begin_ns, &loss.end_ns)) return false;
    loss.records = row.Next<uint64_t>();
    const uint64_t ordinal = row.NextOrAny(), context = row.NextOrAny(), number = row.NextOrAny();
    if (!row.is_good()) return false;
    if (const auto device = devices.find(ordinal); device != devices.end()) loss.device = device->second;
    auto stream = streams.find({loss.device, number, context});
    if (stream == streams.end()) stream = streams.lower_bound({loss.device, number, 0});  // a file without contexts
    if (stream != streams.end() && stream->first[0] == loss.device && stream->first[1] == number)
      loss.stream = stream->second;
    loss.reason = trace->strings.Add(row.reason());
    trace->gpu_losses.push_back(loss);
    return true;
  });
}

}  // namespace pitot::model
