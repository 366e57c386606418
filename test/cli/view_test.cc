// SPDX-License-Identifier: Apache-2.0
//
// The data in the page of `pitot view`. test/view reads whole pages, and opens them in a browser.
#include <zlib.h>

#include <catch2/catch.hpp>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "cli/folder.h"
#include "serialize/sample_trace.h"

namespace {

using cli_test::Dump;
using cli_test::Folder;
using nlohmann::json;
using pitot::model::kNone;
using pitot::test::TraceMaker;

std::string FromBase64(const std::string& text) {
  const std::string digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string bytes;
  uint32_t bits = 0, count = 0;
  for (const char c : text) {
    if (c == '=') break;
    bits = bits << 6 | static_cast<uint32_t>(digits.find(c));
    count += 6;
    if (count < 8) continue;
    count -= 8;
    bytes += static_cast<char>(bits >> count & 0xff);
  }
  return bytes;
}

std::string DataOf(const std::string& page) {
  const std::string mark = "id=\"data\">";
  const size_t begin = page.find(mark) + mark.size();
  const std::string packed = FromBase64(page.substr(begin, page.find('<', begin) - begin));
  std::string data(1 << 20, '\0');
  uLongf size = data.size();
  REQUIRE(uncompress(reinterpret_cast<Bytef*>(data.data()), &size, reinterpret_cast<const Bytef*>(packed.data()),
                     packed.size()) == Z_OK);
  data.resize(size);
  return data;
}
size_t HeadSize(const std::string& data) {
  uint32_t size = 0;
  for (size_t i = 0; i < 4; ++i) size |= static_cast<uint32_t>(static_cast<unsigned char>(data[i])) << (8 * i);
  return size;
}
json HeadOf(const std::string& page) {
  const std::string data = DataOf(page);
  return json::parse(data.substr(4, HeadSize(data)));
}

// The samples of each counter of a page, as text: "0:1 1000:? ". "?" is a value that is not known.
std::map<std::string, std::string> CountersOf(const std::string& page) {
  const std::string data = DataOf(page);
  const json head = HeadOf(page);
  size_t at = 4 + HeadSize(data), value = data.size() - head["columns"]["sample"].get<size_t>();
  for (const auto& [name, size] : head["columns"].items()) {
    if (name != "sample_at" && name != "sample") at += size.get<size_t>();
  }
  std::map<std::string, std::string> counters;
  for (const json& counter : head["counters"]) {
    std::string& text = counters[counter["name"].get<std::string>() + " " + counter["unit"].get<std::string>()];
    int64_t time = 0;
    for (size_t i = 0; i < counter["samples"].get<size_t>(); ++i) {
      uint64_t difference = 0;
      for (int shift = 0;; shift += 7) {
        const auto byte = static_cast<unsigned char>(data[at++]);
        difference |= static_cast<uint64_t>(byte & 0x7f) << shift;
        if (byte < 0x80) break;
      }
      time += static_cast<int64_t>(difference >> 1 ^ (0 - (difference & 1)));
      double number = 0;
      memcpy(&number, data.data() + value, sizeof number);
      value += sizeof number;
      std::ostringstream shown;
      shown << number;
      text += std::to_string(time) + ":" + (std::isnan(number) ? "?" : shown.str()) + " ";
    }
  }
  return counters;
}

// A trace with counters, from 0 to 10 s.
class Counted {
 public:
  Counted() {
    maker_.trace.window_end_ns = 10 * kSecond;
    maker_.trace.devices.resize(1);
    maker_.Event(maker_.Thread("worker"), maker_.Site(pitot::SiteKind::kScope, "work"), 0, kSecond);
  }
  void Counter(uint32_t device, const char* name, const char* unit,
               const std::vector<std::pair<double, double>>& samples) {
    pitot::model::Trace& trace = maker_.trace;
    for (const auto& [seconds, value] : samples) {
      trace.samples.counter.push_back(static_cast<uint32_t>(trace.counters.size()));
      trace.samples.at_ns.push_back(static_cast<int64_t>(seconds * kSecond));
      trace.samples.value.push_back(value);
    }
    trace.counters.push_back({device, maker_.String(name), maker_.String(unit)});
  }
  std::map<std::string, std::string> Viewed() {
    const Folder folder;
    folder.Write("dump.pitot", Dump(maker_.Finish()));
    CHECK(folder.Run("view dump.pitot -o page.html").exit_code == 0);
    return CountersOf(fakes::ReadFile(folder / "page.html"));
  }

 private:
  static constexpr int64_t kSecond = 1'000'000'000;
  TraceMaker maker_;
};

std::vector<std::string> LaneNames(const Folder& folder) {
  CHECK(folder.Run("view dump.pitot -o page.html").exit_code == 0);
  std::vector<std::string> names;
  const json head = HeadOf(fakes::ReadFile(folder / "page.html"));
  for (const json& lane : head["lanes"])
    names.push_back(lane["group"].get<std::string>() + ": " + lane["name"].get<std::string>());
  return names;
}

TEST_CASE("a page lists the first thousand losses and counts all", "[cli]") {
  pitot::model::Trace trace = incident::MakeTrace();
  const size_t losses = trace.losses.size() + trace.gpu_losses.size();
  for (int64_t i = 0; i < 1500; ++i) {
    pitot::model::LossRow loss;
    loss.begin_ns = trace.window_begin_ns + i;
    loss.end_ns = loss.begin_ns + 1;
    trace.losses.push_back(loss);
  }
  const Folder folder;
  folder.Write("dump.pitot", Dump(trace));

  CHECK(folder.Run("view dump.pitot -o page.html").exit_code == 0);

  const json file = HeadOf(fakes::ReadFile(folder / "page.html"))["files"][0];
  CHECK(file["losses"].size() == 1000);
  CHECK(file["loss_count"] == losses + 1500);
}

TEST_CASE("a thread without a name goes by its tid", "[cli]") {
  const Folder folder;
  folder.Write("a.json", R"([{"ph":"X","name":"a","pid":1,"tid":4711,"ts":5,"dur":2}])");

  CHECK(folder.Run("view a.json -o page.html").exit_code == 0);

  const std::string lanes = HeadOf(fakes::ReadFile(folder / "page.html")).dump();
  CHECK(lanes.find("\"thread 4711\"") != std::string::npos);
  CHECK(lanes.find("thread #1") == std::string::npos);
}

TEST_CASE("lanes of equal names are told apart by what differs", "[cli]") {
  TraceMaker maker;
  maker.trace.window_end_ns = 1000;
  maker.trace.devices.resize(2);
  maker.trace.devices[1].ordinal = 1;
  const auto compute = maker.String("compute");
  // Device, context, number, name.
  maker.trace.streams = {{0, 1, 7, 0}, {0, 2, 7, 0},        {0, 1, 8, 0},
                         {1, 1, 7, 0}, {1, 1, 20, compute}, {1, 1, 21, compute}};
  for (uint32_t stream = 0; stream < maker.trace.streams.size(); ++stream)
    maker.Gpu(stream, pitot::model::GpuKind::kKernel, "gemm", 10, 20, kNone);
  const auto site = maker.Site(pitot::SiteKind::kScope, "work");
  for (int i = 0; i < 2; ++i) maker.Event(maker.Thread(""), site, 10, 20);
  for (pitot::model::ThreadRow& thread : maker.trace.threads) thread.tid = 4711;
  const Folder folder;
  folder.Write("dump.pitot", Dump(maker.Finish()));

  CHECK(LaneNames(folder) == std::vector<std::string>{"Threads: thread 4711 #1", "Threads: thread 4711 #2",
                                                      "GPU 0: stream 7, context 1", "GPU 0: stream 7, context 2",
                                                      "GPU 0: stream 8", "GPU 1: stream 7", "GPU 1: compute, stream 20",
                                                      "GPU 1: compute, stream 21"});
}

TEST_CASE("a running sum is viewed as its rate", "[cli]") {
  Counted trace;
  trace.Counter(kNone, "thread 7: on-CPU time", "ns", {{1, 5e8}, {2, 1e9}, {4, 1e9}, {5, 1.25e9}});
  trace.Counter(kNone, "rank 0: host: minor faults", "", {{1, 100}, {3, 140}, {4, 7}, {5, 9}});
  trace.Counter(kNone, "GPU 0 (H100): PCIe sent", "bytes", {{1, 0}, {1.5, 4096}});
  trace.Counter(kNone, "host: major faults", "", {{1, 100}});  // one sample has no rate
  trace.Counter(kNone, "host: resident memory", "bytes", {{1, 10}, {2, 30}});
  trace.Counter(kNone, "GPU 0 (H100): XID errors", "", {{1, 0}, {2, 1}});

  CHECK(trace.Viewed() ==
        std::map<std::string, std::string>{
            {"thread 7: on-CPU time %", "1000000000:50 2000000000:0 4000000000:25 5000000000:? "},
            {"rank 0: host: minor faults /s", "1000000000:20 3000000000:? 4000000000:2 5000000000:? "},
            {"GPU 0 (H100): PCIe sent bytes/s", "1000000000:8192 1500000000:? "},
            {"host: resident memory bytes", "1000000000:10 2000000000:30 "},
            {"GPU 0 (H100): XID errors ", "1000000000:0 2000000000:1 4500000000:? "}});
}

TEST_CASE("counters of a GPU have gaps where they were not read", "[cli]") {
  Counted trace;
  trace.Counter(0, "SM active", "%", {{1, 10}, {2, 20}, {6, 60}});
  trace.Counter(0, "sampled", "", {{0, 0}, {1, 1}, {3, 0}, {5, 1}, {8, 0}});
  trace.Counter(0, "LibTorch allocated", "bytes", {{1, 10}});
  trace.Counter(kNone, "GPU 0 (H100): power", "W", {{1, 100}, {2, 200}, {5, 500}});

  CHECK(trace.Viewed() ==
        std::map<std::string, std::string>{
            {"SM active %", "1000000000:10 2000000000:20 3000000000:? 5000000000:20 6000000000:60 8000000000:? "},
            {"sampled ", "0:0 1000000000:1 3000000000:0 5000000000:1 8000000000:0 "},
            {"LibTorch allocated bytes", "1000000000:10 "},
            {"GPU 0 (H100): power W", "1000000000:100 2000000000:200 4500000000:? 5000000000:500 7500000000:? "}});
}

}  // namespace
