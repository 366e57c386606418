// SPDX-License-Identifier: Apache-2.0
#include "cli/view/data.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <nlohmann/json.hpp>
#include <unordered_map>
#include <utility>

#include "base/columns.h"
#include "cli/view/fill_lanes.h"
#include "cli/view/lanes.h"
#include "cli/view/packed.h"
#include "model/request_text.h"
#include "pitot/analyze/verdict.h"
#include "pitot/wait.h"

namespace pitot::cli::view {
namespace {

using model::kNone;
using model::StringId;
using model::Trace;
using nlohmann::ordered_json;

constexpr size_t kMostLosses = 1000;  // of a file; the page says how many more there are

// A time on the page's axis.
struct Axis {
  int64_t origin_ns = 0;
  int64_t offset_ns = 0;
  int64_t Of(int64_t at_ns) const { return at_ns - origin_ns + offset_ns; }
};

int64_t WallOf(const Trace& trace) {
  return trace.clock.realtime_ns == 0 ? 0 : trace.window_begin_ns - trace.clock.monotonic_ns + trace.clock.realtime_ns;
}

// Files of one time lie where their wall clocks put them. Otherwise each begins at 0.
std::vector<Axis> AxesOf(const std::vector<ViewedFile>& files, bool* is_one_clock) {
  std::vector<Axis> axes;
  std::vector<std::pair<int64_t, int64_t>> windows;
  for (const ViewedFile& file : files) {
    axes.push_back({file.trace.window_begin_ns, 0});
    const int64_t begin_ns = WallOf(file.trace);
    windows.emplace_back(begin_ns, begin_ns + file.trace.window_end_ns - file.trace.window_begin_ns);
  }
  std::sort(windows.begin(), windows.end());
  *is_one_clock = windows[0].first != 0;
  int64_t until_ns = windows[0].second;
  for (const auto& [begin_ns, end_ns] : windows) {
    *is_one_clock = *is_one_clock && begin_ns <= until_ns;
    until_ns = std::max(until_ns, end_ns);
  }
  for (size_t i = 0; *is_one_clock && i < files.size(); ++i)
    axes[i].offset_ns = WallOf(files[i].trace) - windows[0].first;
  return axes;
}

class DataWriter {
 public:
  explicit DataWriter(const std::vector<ViewedFile>& files) : files_(files) {}

  std::vector<std::string> Write() {
    const std::vector<Axis> axes = AxesOf(files_, &is_one_clock_);
    head_["version"] = 1;
    head_["one_clock"] = is_one_clock_;
    for (size_t i = 0; i < files_.size(); ++i) AddFile(i, axes[i]);
    ordered_json& strings = head_["strings"] = ordered_json::array();
    for (const std::string* text : texts_.all()) strings.push_back(*text);
    ordered_json& briefs = head_["briefs"] = ordered_json::object();
    for (const auto& [text, brief] : briefs_) briefs[std::to_string(text)] = brief;
    head_["items"] = items_;
    std::vector<std::string> parts(2);
    ordered_json& sizes = head_["columns"] = ordered_json::object();
    for (const auto& [name, column] : {std::pair{"begin", &begin_},
                                       {"duration", &duration_},
                                       {"name", &name_},
                                       {"kind", &kind_},
                                       {"level", &level_},
                                       {"request", &request_},
                                       {"batch", &batch_},
                                       {"site", &site_},
                                       {"cause", &cause_},
                                       {"arg_bytes", &arg_bytes_},
                                       {"args", &args_},
                                       {"sample_at", &sample_at_},
                                       {"sample", &sample_}}) {
      sizes[name] = column->size();
      parts.push_back(column->Take());
    }
    parts[1] = head_.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
    for (int shift = 0; shift < 32; shift += 8) parts[0] += static_cast<char>(parts[1].size() >> shift & 0xff);
    return parts;
  }

 private:
  uint32_t Text(const Trace& trace, StringId id) { return texts_.Of(trace.strings[id]); }

  void AddFile(size_t file, const Axis& axis) {
    const ViewedFile& viewed = files_[file];
    const Trace& trace = viewed.trace;
    std::vector<std::pair<uint32_t, Row>> causes;  // by item
    std::unordered_map<StringId, uint32_t> known;  // texts of arguments
    uint32_t item = 0;
    const Lanes lanes = FillLanes(trace, viewed.is_judged ? &viewed.blame : nullptr, &texts_, &briefs_,
                                  [&](const Lane& lane, const std::vector<Item>& items) {
                                    head_["lanes"].push_back({{"file", file},
                                                              {"group", lane.group},
                                                              {"name", lane.name},
                                                              {"nests", lane.nests},
                                                              {"items", items.size()},
                                                              {"known", axis.Of(lane.known_ns)}});
                                    AddItems(trace, items, axis, &known);
                                    for (const Item& one : items) {
                                      if (one.cause.row != kNone) causes.emplace_back(item, one.cause);
                                      ++item;
                                    }
                                  });
    ordered_json one;
    one["name"] = viewed.name;
    one["format"] = viewed.format;
    one["process"] = trace.strings[trace.process_name];
    one["pid"] = trace.pid;
    one["window"] = {axis.Of(trace.window_begin_ns), axis.Of(trace.window_end_ns)};
    // Unix time at 0 of the axis. A text, because it has too many digits for the page.
    const int64_t wall_ns = WallOf(trace);
    one["wall"] = wall_ns == 0 ? "" : std::to_string(wall_ns - axis.offset_ns);
    one["damaged"] = viewed.is_damaged;
    one["requests"] = Requests(trace, lanes);
    one["batches"] = Batches(trace, lanes);
    one["sites"] = Sites(trace);
    one["firings"] = ordered_json::array();
    for (const model::FiringRow& firing : trace.firings)
      one["firings"].push_back({axis.Of(firing.at_ns), trace.strings[firing.cause], trace.strings[firing.detail]});
    one["losses"] = Losses(trace, axis);
    one["loss_count"] = trace.losses.size() + trace.gpu_losses.size();
    one["verdict"] = Verdict(viewed, lanes, axis);
    head_["files"].push_back(std::move(one));
    AddCauses(causes, lanes);
    AddCounters(file, lanes, axis);
    items_ += lanes.items;
    requests_ += static_cast<uint32_t>(trace.requests.size());
    batches_ += static_cast<uint32_t>(trace.batches.size());
    sites_ += static_cast<uint32_t>(trace.sites.size());
  }

  // The number of an item on the page; null: it is not drawn.
  ordered_json ItemOf(const Lanes& lanes, Row row) const {
    const uint32_t place = lanes.Place(row);
    return place == kNone ? ordered_json() : ordered_json(items_ + place);
  }

  ordered_json Requests(const Trace& trace, const Lanes& lanes) const {
    ordered_json requests = ordered_json::array();
    for (uint32_t row = 0; row < trace.requests.size(); ++row) {
      const model::RequestRow& request = trace.requests[row];
      ordered_json facts = ordered_json::array();
      for (const model::Label& label : request.labels)
        facts.push_back({trace.strings[label.key], trace.strings[label.value]});
      for (const model::Size& size : request.sizes)
        facts.push_back({trace.strings[size.name], base::Amount(size.value)});
      if (request.output_tokens != 0) facts.push_back({"output tokens", base::Count(request.output_tokens)});
      if (request.first_token_ns != 0) facts.push_back({"first token after", base::Duration(request.first_token_ns)});
      requests.push_back({model::RequestName(trace, request), model::EndText(trace, request),
                          ItemOf(lanes, {Source::kRequest, row}), facts});
    }
    return requests;
  }
  ordered_json Batches(const Trace& trace, const Lanes& lanes) const {
    ordered_json batches = ordered_json::array();
    for (uint32_t row = 0; row < trace.batches.size(); ++row) {
      const model::BatchRow& batch = trace.batches[row];
      ordered_json members = ordered_json::array();
      for (uint32_t i = batch.first_member; i < batch.first_member + batch.member_count; ++i) {
        const uint32_t request = trace.members[i].request;
        if (request != kNone) members.push_back(requests_ + request);
      }
      batches.push_back({base::Format("%016llx", static_cast<unsigned long long>(batch.id)),
                         ItemOf(lanes, {Source::kBatch, row}), members});
    }
    return batches;
  }
  static ordered_json Sites(const Trace& trace) {
    ordered_json sites = ordered_json::array();
    for (const model::SiteRow& site : trace.sites) {
      ordered_json args = ordered_json::array();
      for (size_t i = 0; i < site.arg_types.size(); ++i)
        args.push_back({i < site.arg_names.size() ? trace.strings[site.arg_names[i]] : "",
                        IsWaitKind(site, i) ? ArgType::kName : site.arg_types[i]});
      sites.push_back({trace.strings[site.file], site.line, trace.strings[site.function], args});
    }
    return sites;
  }
  static bool IsWaitKind(const model::SiteRow& site, size_t i) {
    return site.kind == SiteKind::kWait && i == 0 && site.arg_types[0] == ArgType::kUint;
  }

  static ordered_json Losses(const Trace& trace, const Axis& axis) {
    ordered_json losses = ordered_json::array();
    const auto add = [&](const std::string& who, std::string_view reason, int64_t begin_ns, int64_t end_ns) {
      if (losses.size() < kMostLosses) losses.push_back({who, reason, axis.Of(begin_ns), axis.Of(end_ns)});
    };
    for (const model::LossRow& loss : trace.losses)
      add(loss.thread == kNone ? "process" : "thread #" + std::to_string(trace.threads[loss.thread].number),
          LossReasonName(loss.reason), loss.begin_ns, loss.end_ns);
    for (const model::GpuLossRow& loss : trace.gpu_losses)
      add("GPU", trace.strings[loss.reason], loss.begin_ns, loss.end_ns);
    return losses;
  }

  ordered_json Verdict(const ViewedFile& viewed, const Lanes& lanes, const Axis& axis) const {
    if (!viewed.is_judged) return {{"why_not", viewed.why_not}};
    const analyze::Verdict& verdict = viewed.verdict;
    ordered_json tree = ordered_json::array();
    for (const analyze::TreeLine& line : viewed.tree) {
      const analyze::VerdictNode& node = verdict.tree[line.node];
      int64_t begin_ns = node.at.begin_ns, end_ns = node.at.end_ns;
      ordered_json item = ItemOf(lanes, EvidenceOf(node, lanes));
      if (item.is_null() && end_ns <= begin_ns) begin_ns = viewed.blame.begin_ns, end_ns = viewed.blame.end_ns;
      tree.push_back({{"text", line.text},
                      {"category", line.category},
                      {"depth", line.depth},
                      {"tenths", line.tenths},
                      {"is_root", line.node == verdict.root.node},
                      {"item", item},
                      {"at", {axis.Of(begin_ns), axis.Of(end_ns)}}});
    }
    std::string advice = verdict.root.advice.text;
    if (advice.empty() && !verdict.causes.empty()) advice = verdict.causes[0].advice.text;
    return {{"sentence", viewed.sentence},
            {"advice", advice},
            {"request", ItemOf(lanes, {Source::kRequest, viewed.blame.request})},
            {"at", {axis.Of(viewed.blame.begin_ns), axis.Of(viewed.blame.end_ns)}},
            {"tree", tree}};
  }
  // Whatever shows a node best: the culprit's activity, batch or request, otherwise the place of the part.
  static Row EvidenceOf(const analyze::VerdictNode& node, const Lanes& lanes) {
    const Row rows[] = {{Source::kGpu, node.by.gpu},     {Source::kEvent, node.by.event},
                        {Source::kBatch, node.by.batch}, {Source::kRequest, node.by.request},
                        {Source::kGpu, node.at.gpu},     {Source::kCall, node.at.call},
                        {Source::kEvent, node.at.event}, {Source::kBatch, node.at.batch}};
    const bool is_part = node.kind == analyze::NodeKind::kPart;
    for (size_t i = 0; i < std::size(rows); ++i) {
      // A part has a place of its own; its culprit is in the nodes below.
      const Row row = rows[(i + (is_part ? 4 : 0)) % std::size(rows)];
      if (lanes.Place(row) != kNone) return row;
    }
    return {};
  }

  void AddItems(const Trace& trace, const std::vector<Item>& items, const Axis& axis,
                std::unordered_map<StringId, uint32_t>* known) {
    int64_t before_ns = 0;
    for (const Item& item : items) {
      const int64_t begin_ns = axis.Of(item.begin_ns);
      begin_.AddSigned(begin_ns - before_ns);
      before_ns = begin_ns;
      // One that is open at the window's end may begin after it.
      duration_.Add(static_cast<uint64_t>(std::max<int64_t>(0, item.end_ns - item.begin_ns)));
      name_.Add(item.name);
      kind_.Add(static_cast<uint64_t>(item.kind) << 1 | static_cast<uint64_t>(item.is_open));
      level_.Add(item.level);
      request_.Add(item.request == kNone ? 0 : requests_ + item.request + 1);
      batch_.Add(item.batch == kNone ? 0 : batches_ + item.batch + 1);
      site_.Add(item.site == kNone ? 0 : sites_ + item.site + 1);
      const size_t size = args_.size();
      if (item.of.source == Source::kEvent) AddArgs(trace, item.of.row, known);
      arg_bytes_.Add(args_.size() - size);
    }
  }
  // The times of all items of a file come first: a cause may be in a later lane.
  void AddCauses(const std::vector<std::pair<uint32_t, Row>>& causes, const Lanes& lanes) {
    auto next = causes.begin();
    for (uint32_t item = 0; item < lanes.items; ++item) {
      const uint32_t cause = next != causes.end() && next->first == item ? lanes.Place((next++)->second) : kNone;
      // Near the one before: calls and their work are in the same order.
      cause_.Add(cause == kNone ? 0 : Zigzag(int64_t{items_} + cause - last_cause_) + 1);
      if (cause != kNone) last_cause_ = int64_t{items_} + cause;
    }
  }
  static uint64_t Zigzag(int64_t value) {
    return static_cast<uint64_t>(value) << 1 ^ static_cast<uint64_t>(value >> 63);
  }

  void AddArgs(const Trace& trace, uint32_t event, std::unordered_map<StringId, uint32_t>* known) {
    const uint32_t first = trace.events.args[event];
    if (first == kNone) return;
    const model::SiteRow& site = trace.sites[trace.events.site[event]];
    for (size_t i = 0; i < site.arg_types.size(); ++i) {
      const model::ArgValue value = trace.arg_values[first + i];
      if (IsWaitKind(site, i)) {
        args_.Add(texts_.Of(WaitKindName(static_cast<WaitKind>(value))));
      } else if (model::IsText(site.arg_types[i])) {
        const auto [found, is_new] = known->try_emplace(static_cast<StringId>(value), 0);
        if (is_new) found->second = Text(trace, static_cast<StringId>(value));
        args_.Add(found->second);
      } else if (site.arg_types[i] == ArgType::kDouble) {
        args_.AddRaw(value);
      } else if (site.arg_types[i] == ArgType::kInt) {
        args_.AddSigned(static_cast<int64_t>(value));
      } else {
        args_.Add(value);
      }
    }
  }

  void AddCounters(size_t file, const Lanes& lanes, const Axis& axis) {
    for (const ViewedCounter& counter : lanes.counters) {
      head_["counters"].push_back({{"file", file},
                                   {"group", counter.group},
                                   {"name", counter.name},
                                   {"unit", counter.unit},
                                   {"samples", counter.samples.size()}});
      int64_t before_ns = 0;
      for (const auto& [at_ns, value] : counter.samples) {
        sample_at_.AddSigned(axis.Of(at_ns) - before_ns);
        before_ns = axis.Of(at_ns);
        uint64_t bits;
        memcpy(&bits, &value, sizeof bits);
        sample_.AddRaw(bits);
      }
    }
  }

  const std::vector<ViewedFile>& files_;
  bool is_one_clock_ = false;
  Texts texts_;
  std::unordered_map<uint32_t, std::string> briefs_;
  ordered_json head_ = {{"version", 1},
                        {"one_clock", false},
                        {"items", 0},
                        {"columns", ordered_json::object()},
                        {"files", ordered_json::array()},
                        {"lanes", ordered_json::array()},
                        {"counters", ordered_json::array()}};
  uint32_t items_ = 0, requests_ = 0, batches_ = 0, sites_ = 0;  // of earlier files
  int64_t last_cause_ = 0;
  Packed begin_, duration_, name_, kind_, level_, request_, batch_, site_, cause_, arg_bytes_, args_, sample_at_,
      sample_;
};

}  // namespace

std::vector<std::string> ViewData(const std::vector<ViewedFile>& files) { return DataWriter(files).Write(); }

}  // namespace pitot::cli::view
