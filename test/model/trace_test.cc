// SPDX-License-Identifier: Apache-2.0
#include "pitot/model/trace.h"

#include <catch2/catch.hpp>
#include <limits>
#include <utility>

#include "base/text.h"
#include "serialize/sample_trace.h"

namespace pitot::test {

using model::kNone;
using model::kOpen;
using model::StringTable;
using model::Trace;

TEST_CASE("valid UTF-8 without control characters is unchanged", "[text]") {
  for (const std::string text :
       {"", "plain", "\xc3\xa9\xe2\x82\xac\xf0\x9f\x9a\x80", "\xef\xbf\xbd", "\xed\x9f\xbf", "\xf4\x8f\xbf\xbf"}) {
    CHECK(base::IsSaneText(text));
    CHECK(base::SanitizeText(text) == text);
  }
}

TEST_CASE("control characters and invalid UTF-8 become U+FFFD", "[text]") {
  const std::string bad = "\xef\xbf\xbd";
  CHECK(base::SanitizeText("a\nb") == "a" + bad + "b");
  CHECK(base::SanitizeText(std::string_view("\0\x1f\x7f", 3)) == bad + bad + bad);
  CHECK(base::SanitizeText("\xc2\x80") == bad + bad);                      // U+0080, a control character
  CHECK(base::SanitizeText("\xc2\x9b") == bad + bad);                      // U+009B, which begins terminals' commands
  CHECK(base::SanitizeText("\xe2\x80\xae") == bad + bad + bad);            // U+202E, from right to left
  CHECK(base::SanitizeText("\xe2\x80\xa8") == bad + bad + bad);            // U+2028, a new line
  CHECK(base::SanitizeText("\xe2\x81\xa6") == bad + bad + bad);            // U+2066
  CHECK(base::SanitizeText("\xc0\xaf") == bad + bad);                      // overlong
  CHECK(base::SanitizeText("\xe0\x80\x80") == bad + bad + bad);            // overlong
  CHECK(base::SanitizeText("\xed\xa0\x80") == bad + bad + bad);            // surrogate
  CHECK(base::SanitizeText("\xf4\x90\x80\x80") == bad + bad + bad + bad);  // beyond U+10FFFF
  CHECK(base::SanitizeText("\xff") == bad);
  CHECK(base::SanitizeText("x\xe2\x82") == "x" + bad + bad);  // cut
  CHECK(base::SanitizeText("\xe2(") == bad + "(");
}

TEST_CASE("a string table holds each string once and the empty one first", "[model]") {
  StringTable table;
  CHECK(table.size() == 1);
  CHECK(table[0] == "");
  const model::StringId a = table.Add("a");
  CHECK(table.Add("b") != a);
  CHECK(table.Add("a") == a);
  CHECK(table.Add("") == 0);
  CHECK(table[a] == "a");
  CHECK(table[12345] == "");
  CHECK(table.Add("x\x01") == table.Add("x\x02"));
}

TEST_CASE("a copied or moved string table is independent", "[model]") {
  StringTable table;
  for (int i = 0; i < 5000; ++i) table.Add("string " + std::to_string(i));
  table.Add(std::string(100000, 'x'));
  auto copy = std::make_unique<StringTable>(table);
  StringTable second = *copy;
  StringTable moved = std::move(*copy);
  copy.reset();
  for (uint32_t i = 0; i < table.size(); ++i) {
    REQUIRE(moved[i] == table[i]);
    REQUIRE(second[i] == table[i]);
  }
  CHECK(moved.Add("string 7") == table.Add("string 7"));
  second = second;
  second = moved;
  CHECK(second.size() == moved.size());
}

TEST_CASE("a string table fills any number of blocks", "[model]") {
  constexpr uint32_t kStringBytes = 256, kStrings = 6400;
  const auto text = [](uint32_t i) {
    const std::string number = std::to_string(i);
    return std::string(kStringBytes - number.size(), '.') + number;
  };
  StringTable table;
  for (uint32_t i = 1; i <= kStrings; ++i) REQUIRE(table.Add(text(i)) == i);

  // A string directly after the one before it is in the same block.
  std::vector<uint32_t> blocks;
  for (uint32_t i = 1; i <= kStrings; ++i) {
    REQUIRE(table[i] == text(i));
    if (i > 1 && table[i].data() == table[i - 1].data() + kStringBytes) {
      ++blocks.back();
    } else {
      blocks.push_back(1);
    }
  }
  REQUIRE(blocks.size() > 64);
  // The first blocks are small, so that small tables are small.
  CHECK(blocks.front() == 1);
  for (size_t i = 10; i + 1 < blocks.size(); ++i) CHECK(blocks[i] == (16 << 10) / kStringBytes);
}

TEST_CASE("losses have names", "[model]") {
  CHECK(std::string(LossReasonName(model::LossReason::kDepth)) == "too deep");
  CHECK(std::string(LossReasonName(static_cast<model::LossReason>(99))) == "unknown");
}

TEST_CASE("a consistent trace has no inconsistency", "[model]") {
  CHECK(FindInconsistency(Trace()) == "");
  CHECK(FindInconsistency(SampleTrace()) == "");
  CHECK(FindInconsistency(LargeTrace(1000)) == "");
}

TEST_CASE("every planted inconsistency is found", "[model]") {
  struct Plant {
    const char* what;
    void (*change)(Trace*);
  };
  constexpr int64_t kMax = INT64_MAX, kMin = INT64_MIN;
  static constexpr uint32_t kWrong = 100000;
  const Plant plants[] = {
      {"header", [](Trace* t) { t->process_name = kWrong; }},
      {"header", [](Trace* t) { t->window_begin_ns = t->window_end_ns + 1; }},
      {"header", [](Trace* t) { t->window_begin_ns = -1; }},
      {"header", [](Trace* t) { t->clock.realtime_ns = kMin; }},
      {"sites", [](Trace* t) { t->sites[0].kind = static_cast<SiteKind>(0); }},
      {"sites",
       [](Trace* t) { t->sites[0].kind = static_cast<SiteKind>(static_cast<uint8_t>(pitot::kLastSiteKind) + 1); }},
      {"sites", [](Trace* t) { t->sites[0].name = kWrong; }},
      {"sites", [](Trace* t) { t->sites[0].file = kNone; }},
      {"sites", [](Trace* t) { t->sites[0].function = t->strings.size(); }},
      {"sites", [](Trace* t) { t->sites[1].arg_names.pop_back(); }},
      {"sites", [](Trace* t) { t->sites[1].arg_names[0] = kWrong; }},
      {"sites", [](Trace* t) { t->sites[1].arg_types[0] = ArgType::kNone; }},
      {"sites", [](Trace* t) { t->sites[1].name_is_first_arg = true; }},
      {"sites", [](Trace* t) { t->sites[0].name_is_first_arg = true; }},
      {"threads", [](Trace* t) { t->threads[0].name = kWrong; }},
      {"threads", [](Trace* t) { t->threads[0].history_begin_ns = kMin; }},
      {"threads", [](Trace* t) { t->threads[0].event_count = kNone; }},
      {"threads", [](Trace* t) { t->threads[1].first_event = kNone; }},
      {"events", [](Trace* t) { --t->threads[1].event_count; }},
      {"threads", [](Trace* t) { --t->threads[1].first_event; }},
      {"events", [](Trace* t) { t->threads.clear(); }},
      {"events", [](Trace* t) { t->events.duration_ns.pop_back(); }},
      {"events", [](Trace* t) { t->events.args.push_back(kNone); }},
      {"events", [](Trace* t) { t->events.thread[0] = 1; }},
      {"events", [](Trace* t) { t->events.site[3] = kNone; }},
      {"events", [](Trace* t) { t->events.request[3] = 3; }},
      {"events", [](Trace* t) { t->events.batch[3] = 2; }},
      {"events", [](Trace* t) { t->events.begin_ns[1] = t->events.begin_ns[2] + 1; }},
      {"events", [](Trace* t) { std::swap(t->events.duration_ns[0], t->events.duration_ns[1]); }},
      {"events", [](Trace* t) { t->events.begin_ns[0] = -1; }},
      {"events", [](Trace* t) { t->events.duration_ns[0] = -2; }},
      {"events", [](Trace* t) { t->events.duration_ns[0] = kMax; }},
      {"events", [](Trace* t) { t->events.begin_ns[t->events.size() - 1] = kMax; }},
      {"events", [](Trace* t) { t->events.begin_ns[11] = t->window_end_ns + 1; }},  // it is open
      {"requests",
       [](Trace* t) { t->window_begin_ns = t->window_end_ns = 1060000000; }},  // open requests begin after it
      {"events", [](Trace* t) { t->events.args[1] = static_cast<uint32_t>(t->arg_values.size()) - 5; }},
      {"events", [](Trace* t) { t->events.args[1] = kNone - 1; }},
      {"events", [](Trace* t) { t->arg_values[t->events.args[1] + 4] = kWrong; }},
      {"events", [](Trace* t) { t->arg_values[t->events.args[1] + 5] = uint64_t{1} << 32; }},
      {"requests", [](Trace* t) { t->requests[1].begin_ns = 0; }},
      {"requests", [](Trace* t) { t->requests[0].duration_ns = kMax; }},
      {"requests", [](Trace* t) { t->requests[0].duration_ns = -2; }},
      {"requests", [](Trace* t) { t->requests[0].route = kWrong; }},
      {"requests", [](Trace* t) { t->requests[0].begin_thread = 3; }},
      {"requests", [](Trace* t) { t->requests[0].end_thread = 3; }},
      {"requests", [](Trace* t) { t->requests[0].deadline_ns = -1; }},
      {"requests", [](Trace* t) { t->requests[0].first_token_ns = kMax; }},
      {"requests", [](Trace* t) { t->requests[0].max_token_gap_ns = kMin; }},
      {"requests", [](Trace* t) { t->requests[0].labels[0].key = kWrong; }},
      {"requests", [](Trace* t) { t->requests[0].labels[0].value = kWrong; }},
      {"requests", [](Trace* t) { t->requests[0].sizes[0].name = kWrong; }},
      {"requests", [](Trace* t) { t->requests[0].stages[0].name = kWrong; }},
      {"requests", [](Trace* t) { t->requests[0].stages[0].duration_ns = kOpen; }},
      {"requests", [](Trace* t) { ++t->requests[0].stages[0].duration_ns; }},
      {"requests", [](Trace* t) { t->requests[0].stages[1].begin_ns = kMin; }},
      {"requests", [](Trace* t) { t->requests[0].stages[1].duration_ns = kMax; }},
      {"batches", [](Trace* t) { t->batches[0].begin_ns = kMax; }},
      {"batches", [](Trace* t) { t->batches[1].begin_ns = 0; }},
      {"batches", [](Trace* t) { t->batches[0].duration_ns = kMin; }},
      {"batches", [](Trace* t) { t->batches[0].submitted_ns = -1; }},
      {"batches", [](Trace* t) { t->batches[0].executor = kWrong; }},
      {"batches", [](Trace* t) { t->batches[0].thread = 3; }},
      {"batches", [](Trace* t) { t->batches[0].member_count = 3; }},
      {"batches", [](Trace* t) { t->batches[0].first_member = 1; }},
      {"batches", [](Trace* t) { t->batches[0].first_member = kNone; }},
      {"members", [](Trace* t) { t->batches[0].member_count = 1; }},
      {"members", [](Trace* t) { t->members[1].batch = 1; }},
      {"members", [](Trace* t) { t->members[0].request = kNone; }},
      {"members", [](Trace* t) { t->members[0].join_ns = t->members[1].join_ns + 1; }},
      {"members", [](Trace* t) { t->members[0].leave_ns = -1; }},
      {"handoffs", [](Trace* t) { t->handoffs[0].request = kNone; }},
      {"handoffs", [](Trace* t) { t->handoffs[0].queue = kWrong; }},
      {"handoffs", [](Trace* t) { t->handoffs[0].from_thread = 3; }},
      {"handoffs", [](Trace* t) { t->handoffs[0].to_thread = 3; }},
      {"handoffs", [](Trace* t) { t->handoffs[0].batch = 2; }},
      {"handoffs", [](Trace* t) { t->handoffs[0].take_ns = -1; }},
      {"handoffs", [](Trace* t) { t->handoffs[1].enqueue_ns = 0; }},
      {"asyncs", [](Trace* t) { t->asyncs[0].site = kNone; }},
      {"asyncs", [](Trace* t) { t->asyncs[0].request = kNone; }},
      {"asyncs", [](Trace* t) { t->asyncs[0].begin_thread = 3; }},
      {"asyncs", [](Trace* t) { t->asyncs[0].end_thread = 3; }},
      {"asyncs", [](Trace* t) { t->asyncs[0].duration_ns = kMax; }},
      {"asyncs", [](Trace* t) { t->asyncs[1].begin_ns = 0; }},
      {"tokens", [](Trace* t) { t->tokens[0].request = 3; }},
      {"tokens", [](Trace* t) { t->tokens[0].thread = 3; }},
      {"tokens", [](Trace* t) { t->tokens[0].at_ns = t->tokens[1].at_ns + 1; }},
      {"tokens", [](Trace* t) { t->tokens[0].at_ns = -1; }},
      {"devices", [](Trace* t) { t->devices[0].name = kWrong; }},
      {"streams", [](Trace* t) { t->streams[0].device = 1; }},
      {"streams", [](Trace* t) { t->streams[0].name = kWrong; }},
      {"streams", [](Trace* t) { t->streams[1].event_count = 2; }},
      {"streams", [](Trace* t) { t->streams[1].first_event = 0; }},
      {"gpu", [](Trace* t) { t->streams.pop_back(); }},
      {"calls", [](Trace* t) { t->calls.duration_ns.pop_back(); }},
      {"calls", [](Trace* t) { t->calls.thread[2] = 3; }},
      {"calls", [](Trace* t) { t->calls.thread[0] = kNone; }},
      {"calls", [](Trace* t) { t->calls.begin_ns[0] = t->calls.begin_ns[1] + 1; }},
      {"calls", [](Trace* t) { t->calls.duration_ns[0] = -2; }},
      {"calls", [](Trace* t) { t->calls.request[0] = 3; }},
      {"calls", [](Trace* t) { t->calls.batch[0] = 2; }},
      {"calls", [](Trace* t) { t->calls.name[0] = kWrong; }},
      {"calls", [](Trace* t) { t->calls.stream[0] = 2; }},
      {"gpu", [](Trace* t) { t->gpu.node.pop_back(); }},
      {"gpu", [](Trace* t) { t->gpu.stream[2] = 1; }},
      {"gpu", [](Trace* t) { t->gpu.kind[0] = static_cast<model::GpuKind>(6); }},
      {"gpu", [](Trace* t) { t->gpu.kind[0] = static_cast<model::GpuKind>(0); }},
      {"gpu", [](Trace* t) { t->gpu.begin_ns[0] = t->gpu.begin_ns[1] + 1; }},
      {"gpu", [](Trace* t) { t->gpu.duration_ns[0] = kOpen; }},
      {"gpu", [](Trace* t) { t->gpu.duration_ns[0] = kMax; }},
      {"gpu", [](Trace* t) { t->gpu.name[0] = kWrong; }},
      {"gpu", [](Trace* t) { t->gpu.call[0] = 3; }},
      {"gpu", [](Trace* t) { t->gpu.shape[0] = 1; }},
      {"overheads", [](Trace* t) { t->overheads[0].begin_ns = t->overheads[1].begin_ns + 1; }},
      {"overheads", [](Trace* t) { t->overheads[0].duration_ns = kOpen; }},
      {"overheads", [](Trace* t) { t->overheads[0].name = kWrong; }},
      {"gpu", [](Trace* t) { t->gpu.scope_path[0] = kWrong; }},
      {"gpu", [](Trace* t) { t->gpu.scope_path.pop_back(); }},
      {"depths", [](Trace* t) { t->depths[0].depth = static_cast<Depth>(4); }},
      {"depths", [](Trace* t) { t->depths[0].depth = Depth::kAuto; }},
      {"depths", [](Trace* t) { t->depths[0].begin_ns = -1; }},
      {"depths", [](Trace* t) { t->depths[0].end_ns = t->depths[0].begin_ns - 1; }},
      {"depths", [](Trace* t) { t->depths[1].end_ns = kMax; }},
      {"depths", [](Trace* t) { std::swap(t->depths[0], t->depths[1]); }},
      {"gpu_losses", [](Trace* t) { t->gpu_losses[0].stream = 2; }},
      {"gpu_losses", [](Trace* t) { t->gpu_losses[0].device = 9; }},
      {"gpu_losses", [](Trace* t) { t->gpu_losses[0].reason = kWrong; }},
      {"gpu_losses", [](Trace* t) { t->gpu_losses[0].begin_ns = -1; }},
      {"gpu_losses", [](Trace* t) { t->gpu_losses[0].end_ns = t->gpu_losses[0].begin_ns - 1; }},
      {"counters", [](Trace* t) { t->counters[0].device = 1; }},
      {"counters", [](Trace* t) { t->counters[0].name = kWrong; }},
      {"counters", [](Trace* t) { t->counters[0].unit = kWrong; }},
      {"samples", [](Trace* t) { t->samples.value.pop_back(); }},
      {"samples", [](Trace* t) { t->samples.counter.pop_back(); }},
      {"samples", [](Trace* t) { t->samples.counter[2] = 2; }},
      {"samples", [](Trace* t) { t->samples.at_ns[0] = -1; }},
      {"samples", [](Trace* t) { t->samples.at_ns[0] = t->samples.at_ns[1] + 1; }},
      {"samples", [](Trace* t) { std::swap(t->samples.counter[0], t->samples.counter[2]); }},
      {"samples", [](Trace* t) { t->samples.value[0] = std::numeric_limits<double>::infinity(); }},
      {"samples", [](Trace* t) { t->samples.value[0] = std::numeric_limits<double>::quiet_NaN(); }},
      {"losses", [](Trace* t) { t->losses[0].thread = 3; }},
      {"losses", [](Trace* t) { t->losses[0].begin_ns = -1; }},
      {"losses", [](Trace* t) { t->losses[0].end_ns = 0; }},
      {"firings", [](Trace* t) { t->firings[0].cause = kWrong; }},
      {"firings", [](Trace* t) { t->firings[0].detail = kWrong; }},
      {"firings", [](Trace* t) { t->firings[0].at_ns = -1; }},
      {"firings", [](Trace* t) { t->firings.push_back({0, 0, 0, 0}); }},
      {"attributes", [](Trace* t) { t->attributes[0].key = kWrong; }},
      {"attributes", [](Trace* t) { t->attributes[0].value = kWrong; }},
  };
  int number = 0;
  for (const Plant& plant : plants) {
    Trace trace = SampleTrace();
    plant.change(&trace);
    const std::string wrong = FindInconsistency(trace);
    INFO("plant " << number++ << " of " << plant.what << ": \"" << wrong << '"');
    CHECK(wrong.rfind(plant.what, 0) == 0);
  }
}

}  // namespace pitot::test
