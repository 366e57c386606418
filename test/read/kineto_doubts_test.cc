// SPDX-License-Identifier: Apache-2.0
//
// Records that the reader of Kineto's traces does not believe, and work that it misses. Each fault has a look-alike.
#include <catch2/catch.hpp>
#include <string>

#include "pitot/read/kineto.h"

namespace {

using pitot::KinetoReport;
using pitot::model::Trace;

constexpr int64_t kUs = 1000, kStart = 1'700'000'000'000'000;  // us

// A trace in microseconds from kStart on.
class Made {
 public:
  void Call(const std::string& name, int64_t begin_us, int64_t us, int64_t correlation, int thread = 11) {
    Add("cuda_runtime", name, begin_us, us, "\"pid\":10,\"tid\":" + std::to_string(thread),
        "\"correlation\":" + std::to_string(correlation));
  }
  void Kernel(int64_t begin_us, int64_t us, int64_t correlation, const std::string& more = "", int stream = 7,
              const std::string& name = "gemm") {
    Add("kernel", name, begin_us, us, "\"pid\":0,\"tid\":" + std::to_string(stream),
        R"("device":0,"context":1,"stream":)" + std::to_string(stream) +
            ",\"correlation\":" + std::to_string(correlation) + more);
  }
  void Launch(int64_t call_us, int64_t begin_us, int64_t us, const std::string& call = "cudaLaunchKernel") {
    Call(call, call_us, 5, ++correlation_);
    Kernel(begin_us, us, correlation_);
  }
  void Raw(const std::string& event) { json_ += (json_.empty() ? "" : ",") + event; }
  // A kernel whose `ts` and `dur` are these texts.
  void Odd(const std::string& ts, const std::string& us, int64_t correlation) {
    json_ += (json_.empty() ? "" : ",") +
             std::string(R"({"ph":"X","cat":"kernel","name":"odd","pid":0,"tid":7,"ts":)") + ts + ",\"dur\":" + us +
             R"(,"args":{"device":0,"context":1,"stream":7,"correlation":)" + std::to_string(correlation) + "}}";
  }
  void Annotation(int64_t begin_us, int64_t us) {
    Add("user_annotation", "step", begin_us, us, "\"pid\":10,\"tid\":11", "");
  }
  const Trace& Read() {
    const std::string json = "{\"traceEvents\":[" + json_ + "]}";
    REQUIRE(pitot::ParseKineto(json.data(), json.size(), &trace, &report).ok());
    REQUIRE(FindInconsistency(trace) == "");
    return trace;
  }
  std::string Reason(size_t loss) const { return std::string(trace.strings[trace.gpu_losses[loss].reason]); }
  int64_t BeginUs(size_t loss) const { return trace.gpu_losses[loss].begin_ns / kUs - kStart; }
  int64_t EndUs(size_t loss) const { return trace.gpu_losses[loss].end_ns / kUs - kStart; }

  Trace trace;
  KinetoReport report;

 private:
  void Add(const std::string& category, const std::string& name, int64_t begin_us, int64_t us, const std::string& where,
           const std::string& args) {
    json_ += (json_.empty() ? "" : ",") + (R"({"ph":"X","cat":")" + category + R"(","name":")" + name + "\"," + where +
                                           ",\"ts\":" + std::to_string(kStart + begin_us) +
                                           ",\"dur\":" + std::to_string(us) + ",\"args\":{" + args + "}}");
  }
  std::string json_;
  int64_t correlation_ = 0;
};

// Ten kernels of 50 us, each launched 20 us before it begins.
Made Steady() {
  Made made;
  made.Annotation(0, 1000);
  for (int64_t i = 0; i < 10; ++i) made.Launch(100 * i, 100 * i + 20, 50);
  return made;
}

}  // namespace

TEST_CASE("a kernel without a time is set aside, and the window is that of the others", "[kineto]") {
  Made made = Steady();
  made.Call("cudaLaunchKernel", 350, 5, 500);
  made.Odd("0", "0", 500);
  made.Odd("0", "1700000000000000", 501);  // only its end is known
  const Trace& trace = made.Read();

  CHECK(trace.window_end_ns - trace.window_begin_ns == 1000 * kUs);
  CHECK(trace.gpu.size() == 10);
  CHECK(made.report.gpu_no_time == 2);
  CHECK(made.report.launches_without_work == 0);
  CHECK(made.report.Problems().find("2 GPU records had no time and were set aside") != std::string::npos);
  REQUIRE(trace.gpu_losses.size() == 1);  // the second may have been at any time
  CHECK(made.Reason(0) == "no time");
  CHECK(trace.gpu_losses[0].records == 2);
}

TEST_CASE("a kernel without a time was between its launch and the next work of its stream", "[kineto]") {
  Made made = Steady();
  made.Call("cudaLaunchKernel", 350, 5, 500);
  made.Odd("0", "0", 500);
  made.Read();

  REQUIRE(made.trace.gpu_losses.size() == 1);
  CHECK(made.BeginUs(0) == 350);
  CHECK(made.EndUs(0) == 420);
}

TEST_CASE("a kernel at the beginning of a trace that begins at 0 is kept", "[kineto]") {
  const std::string json =
      R"({"traceEvents":[{"ph":"X","cat":"kernel","name":"k","pid":0,"tid":7,"ts":0,"dur":5,"args":{"stream":7}},)"
      R"({"ph":"X","cat":"kernel","name":"k","pid":0,"tid":7,"ts":7,"dur":5,"args":{"stream":7}}]})";
  Trace trace;
  KinetoReport report;
  REQUIRE(pitot::ParseKineto(json.data(), json.size(), &trace, &report).ok());

  CHECK(trace.gpu.size() == 2);
  CHECK(report.gpu_no_time == 0);
}

TEST_CASE("a kernel at 0 that ended before its call has no time, also in a trace with times since its begin",
          "[kineto]") {
  const auto read = [](int64_t early_us) {
    std::string json = R"({"traceEvents":[)";
    const auto add = [&](int64_t call_us, int64_t begin_us, int64_t correlation) {
      const std::string args = ",\"correlation\":" + std::to_string(correlation) + "}}";
      json += (correlation == 1 ? "" : ",") +
              std::string(R"({"ph":"X","cat":"cuda_runtime","name":"cudaLaunchKernel","pid":1,"tid":1,"dur":5,"ts":)") +
              std::to_string(call_us) + R"(,"args":{"cbid":211)" + args +
              R"(,{"ph":"X","cat":"kernel","name":"k","pid":0,"tid":7,"dur":20,"ts":)" + std::to_string(begin_us) +
              R"(,"args":{"stream":7)" + args;
    };
    for (int64_t i = 0; i < 8; ++i) add(1000 + 500 * i, 1020 + 500 * i - early_us, i + 1);
    add(1300, 0, 9);
    json += "]}";
    Trace trace;
    KinetoReport report;
    REQUIRE(pitot::ParseKineto(json.data(), json.size(), &trace, &report).ok());
    return report.gpu_no_time;
  };
  CHECK(read(0) == 1);
  CHECK(read(900) == 0);  // the clock is early: work at 0 is as likely as any
}

TEST_CASE("a kernel an hour away is set aside, unless the whole GPU is", "[kineto]") {
  constexpr int64_t kHourUs = 3'600'000'000;
  Made one = Steady();
  one.Call("cudaLaunchKernel", 350, 5, 500);
  one.Kernel(kHourUs, 50, 500);
  one.Read();
  CHECK(one.report.gpu_no_time == 1);
  CHECK(one.trace.window_end_ns - one.trace.window_begin_ns == 1000 * kUs);

  Made all;
  for (int64_t i = 0; i < 10; ++i) all.Launch(100 * i, kHourUs + 100 * i, 50);
  all.Read();
  CHECK(all.report.gpu_no_time == 0);
  CHECK(all.trace.gpu.size() == 10);

  Made queued = Steady();  // work that was queued for seconds
  queued.Call("cudaLaunchKernel", 350, 5, 500);
  queued.Kernel(9'000'000, 50, 500);
  queued.Read();
  CHECK(queued.report.gpu_no_time == 0);
}

TEST_CASE("a kernel that goes on while later ones of its stream begin and end is set aside", "[kineto]") {
  Made made = Steady();
  made.Launch(330, 380, 3'400'000);
  made.Read();

  CHECK(made.report.gpu_impossible == 1);
  CHECK(made.trace.window_end_ns - made.trace.window_begin_ns == 1000 * kUs);
  REQUIRE(made.trace.gpu_losses.size() == 1);
  CHECK(made.Reason(0) == "impossible duration, 3.40 s in all");
  CHECK(made.BeginUs(0) == 380);
  CHECK(made.EndUs(0) == 420);  // the next began
  CHECK(made.report.launches_without_work == 0);
}

TEST_CASE("kernels that overlap the next one, or run in one graph or in several queues, are kept", "[kineto]") {
  Made next;  // programmatic dependent launch
  for (int64_t i = 0; i < 10; ++i) next.Launch(100 * i, 100 * i + 20, 110);
  next.Read();
  CHECK(next.report.gpu_impossible == 0);

  Made inside;  // the second ends first
  for (int64_t i = 0; i < 10; ++i) inside.Launch(100 * i, 100 * i + 20, i == 4 ? 160 : 50);
  inside.Read();
  CHECK(inside.report.gpu_impossible == 0);

  Made pairs;  // work next to each other, and once more of it
  for (int64_t i = 0; i < 10; ++i) {
    pairs.Launch(100 * i, 100 * i + 20, 70);
    pairs.Launch(100 * i + 5, 100 * i + 30, 10);
    if (i == 4) pairs.Launch(100 * i + 10, 100 * i + 50, 10);
  }
  pairs.Read();
  CHECK(pairs.report.gpu_impossible == 0);

  Made graph = Steady();  // branches of one launch
  graph.Call("cudaGraphLaunch", 965, 5, 500);
  graph.Kernel(1000, 500, 500);
  for (int64_t i = 0; i < 4; ++i) graph.Kernel(1010 + 20 * i, 10, 500);
  graph.Read();
  CHECK(graph.report.gpu_impossible == 0);

  Made queues;  // two queues under one number: long and short work next to each other, all the time
  for (int64_t i = 0; i < 10; ++i) {
    queues.Launch(1000 * i, 1000 * i + 20, 900);
    for (int64_t k = 0; k < 4; ++k) queues.Launch(1000 * i + 200 * k + 10, 1000 * i + 200 * k + 30, 150);
  }
  queues.Read();
  CHECK(queues.report.gpu_impossible == 0);
}

TEST_CASE("a kernel longer than the wait for it is set aside, whatever the clocks", "[kineto]") {
  const auto read = [](int64_t us, int64_t late_us) {
    Made made;
    for (int64_t i = 0; i < 10; ++i) made.Launch(100 * i, 100 * i + 20 + late_us, 50);
    made.Launch(1000, 1020 + late_us, us);
    made.Call("cudaDeviceSynchronize", 1010, 290, 500);
    made.Read();
    return made;
  };
  CHECK(read(280, 0).report.gpu_impossible == 0);
  CHECK(read(280, 700).report.gpu_impossible == 0);  // a late clock
  CHECK(read(400, 0).report.gpu_impossible == 1);
  CHECK(read(400, 700).report.gpu_impossible == 1);
}

TEST_CASE("a read-back ends after the kernels before it, so that they cannot be longer", "[kineto]") {
  const auto read = [](int64_t us) {
    Made made = Steady();
    made.Launch(1000, 1020, us);
    made.Call("cudaMemcpyAsync", 1010, 500, 600);
    const std::string copy =
        R"x({"ph":"X","cat":"gpu_memcpy","name":"Memcpy DtoH (Device -> Pageable)","pid":0,"tid":7,"ts":)x" +
        std::to_string(kStart + 1500) +
        R"x(,"dur":2,"args":{"device":0,"context":1,"stream":7,"correlation":600,"bytes":8}})x";
    made.Raw(copy);
    made.Read();
    return made.report.gpu_impossible;
  };
  CHECK(read(470) == 0);
  CHECK(read(900) == 1);
}

TEST_CASE(
    "a copy that goes on while kernels of its stream begin and end is set aside, and so is a last kernel longer than "
    "the wait for it",
    "[kineto]") {
  Made made;
  for (int64_t i = 0; i < 24; ++i) made.Launch(150 * i, 150 * i + 20, 120);
  made.Call("cudaMemcpyAsync", 1000, 5, 600);
  made.Raw(R"x({"ph":"X","cat":"gpu_memcpy","name":"Memcpy HtoD (Pageable -> Device)","pid":0,"tid":7,"ts":)x" +
           std::to_string(kStart + 1142) +
           R"x(,"dur":1700000,"args":{"device":0,"context":1,"stream":7,"correlation":600,"bytes":4096}})x");
  made.Call("cudaLaunchKernel", 3700, 5, 601);
  made.Kernel(3720, 90'000, 601);
  made.Call("cudaDeviceSynchronize", 3710, 60, 602);
  made.Read();

  CHECK(made.report.gpu_impossible == 2);
  CHECK(made.trace.gpu.size() == 24);
  CHECK(made.trace.window_end_ns - made.trace.window_begin_ns == 3770 * kUs);
}

TEST_CASE("times that stand for none are no times: less than 0, and the largest number", "[kineto]") {
  Made made = Steady();
  for (int64_t i = 0; i < 3; ++i) made.Call("cudaLaunchKernel", 100 * i + 60, 5, 500 + i);
  made.Odd("-0.001", "0", 500);
  made.Odd("0", "9223372036854775", 501);
  made.Odd("9223372036854775", "0", 502);
  made.Read();

  CHECK(made.report.gpu_no_time == 3);
  CHECK(made.trace.gpu.size() == 10);
  CHECK(made.trace.window_end_ns - made.trace.window_begin_ns == 1000 * kUs);
}

TEST_CASE("a kernel with a negative duration is set aside, and one much longer than the rest", "[kineto]") {
  Made made = Steady();
  made.Call("cudaLaunchKernel", 970, 5, 500);
  made.Odd(std::to_string(kStart + 990), "-12", 500);
  made.Read();
  CHECK(made.report.gpu_impossible == 1);
  CHECK(made.trace.gpu.size() == 10);
  CHECK(made.Reason(0) == "impossible duration");

  Made last = Steady();
  last.Launch(970, 990, 5'000'000);
  last.Read();
  CHECK(last.report.gpu_impossible == 1);
  CHECK(last.trace.window_end_ns - last.trace.window_begin_ns == 1000 * kUs);
  Made longest = Steady();  // the longest part of a small trace
  longest.Launch(970, 990, 9'000);
  longest.Read();
  CHECK(longest.report.gpu_impossible == 0);
}

TEST_CASE("launches without kernels are lost GPU records", "[kineto]") {
  Made none;
  none.Annotation(0, 1000);
  for (int64_t i = 0; i < 10; ++i) none.Call("cudaLaunchKernel", 100 * i, 5, i + 1);
  none.Read();
  CHECK(none.report.launches_without_work == 10);
  REQUIRE(none.trace.gpu_losses.size() == 1);
  CHECK(none.Reason(0) == "launch without work");
  CHECK(none.trace.gpu_losses[0].records == 10);
  CHECK(none.EndUs(0) == 1000);

  Made some = Steady();
  some.Call("cuLaunchKernelEx", 250, 5, 500);
  some.Read();
  CHECK(some.report.launches_without_work == 1);
  REQUIRE(some.trace.gpu_losses.size() == 1);
  CHECK(some.BeginUs(0) == 250);
  CHECK(some.EndUs(0) == 300);  // the next launch
}

TEST_CASE("captured launches, those at the end, and the driver's inside the runtime's need no kernels", "[kineto]") {
  Made captured = Steady();
  captured.Call("cudaStreamBeginCapture", 210, 5, 500);
  captured.Call("cudaLaunchKernel", 220, 5, 501);
  captured.Call("cudaLaunchKernel", 225, 5, 502, 12);  // of autograd's thread
  captured.Call("cudaStreamEndCapture", 240, 5, 503);
  captured.Read();
  CHECK(captured.report.launches_without_work == 0);

  Made late = Steady();
  late.Call("cudaLaunchKernel", 985, 5, 500);  // its kernel would begin at 1005
  late.Read();
  CHECK(late.report.launches_without_work == 0);
  Made early = Steady();
  early.Call("cudaLaunchKernel", 950, 5, 500);
  early.Read();
  CHECK(early.report.launches_without_work == 1);

  Made inside = Steady();
  inside.Call("cuLaunchKernel", 201, 3, 500);
  inside.Read();
  CHECK(inside.report.launches_without_work == 0);
}

TEST_CASE("a launch with the id of an earlier one may have had its work", "[kineto]") {
  Made made = Steady();
  for (int64_t i = 0; i < 5; ++i) made.Call("cudaLaunchKernel", 100 * i + 50, 5, i + 1, 12);  // another process's
  made.Read();
  CHECK(made.report.correlations_shared == 5);
  CHECK(made.report.launches_without_work == 0);
}

TEST_CASE("kernels without a call may be those of launches before them", "[kineto]") {
  Made after = Steady();
  after.Call("hipGraphLaunch", 250, 5, 500);
  after.Kernel(280, 10, 0);
  after.Kernel(291, 10, 0);
  after.Read();
  CHECK(after.report.launches_without_work == 0);

  Made before = Steady();
  before.Kernel(80, 10, 0);
  before.Call("hipGraphLaunch", 250, 5, 500);
  before.Read();
  CHECK(before.report.launches_without_work == 1);
  CHECK(before.Reason(0) == "graph without work");
}

TEST_CASE("one failed launch of many loses nothing, but a graph among them does", "[kineto]") {
  const auto read = [](const std::string& call) {
    Made made;
    for (int64_t i = 0; i < 200; ++i) made.Launch(100 * i, 100 * i + 20, 50);
    made.Call(call, 250, 5, 500);
    made.Read();
    return made;
  };
  CHECK(read("cudaLaunchKernel").trace.gpu_losses.empty());
  CHECK(read("cudaGraphLaunch").trace.gpu_losses.size() == 1);
}

TEST_CASE("a graph with less than half of the work of another launch is recorded in part", "[kineto]") {
  const auto read = [](int64_t second, int64_t id) {
    Made made;
    const int64_t nodes[] = {10, second, 10, 10};
    for (int64_t launch = 0; launch < 4; ++launch) {
      made.Call("cudaGraphLaunch", 1000 * launch, 5, launch + 1);
      for (int64_t node = 0; node < nodes[launch]; ++node)
        made.Kernel(1000 * launch + 50 + 20 * node, 10, launch + 1,
                    ",\"graph id\":" + std::to_string(launch == 1 ? id : 5));
    }
    made.Read();
    return made;
  };
  const Made part = read(3, 5);
  REQUIRE(part.trace.gpu_losses.size() == 1);
  CHECK(part.Reason(0) == "graph in part");
  CHECK(part.trace.gpu_losses[0].records == 7);
  CHECK(part.BeginUs(0) == 1000);
  CHECK(part.EndUs(0) == 2000);
  CHECK(read(8, 5).trace.gpu_losses.empty());
  CHECK(read(3, 6).trace.gpu_losses.empty());  // another graph
}

TEST_CASE("without ids, parts of a graph that differ are missing work, and equal ones are another graph", "[kineto]") {
  const auto read = [](bool differ) {
    Made made;
    for (int64_t launch = 0; launch < 8; ++launch) {
      made.Call("hipGraphLaunch", 1000 * launch, 5, launch + 1);
      const int64_t first = differ ? launch : 0, nodes = launch % 4 == 0 ? 12 : 3;
      for (int64_t node = 0; node < nodes; ++node)
        made.Kernel(1000 * launch + 50 + 20 * node, 10, launch + 1, "", 7,
                    "node" + std::to_string(nodes == 12 ? node : first + node));
    }
    made.Read();
    return made;
  };
  Made by_chance;  // no launch is whole
  for (int64_t launch = 0; launch < 8; ++launch) {
    by_chance.Call("hipGraphLaunch", 1000 * launch, 5, launch + 1);
    for (int64_t node = 0; node < 3; ++node)
      by_chance.Kernel(1000 * launch + 50 + 20 * node, 10, launch + 1, "", 7,
                       "node" + std::to_string((5 * launch + node) % 20));
  }
  by_chance.Read();
  CHECK(by_chance.trace.gpu_losses.size() == 1);
  const Made parts = read(true);
  REQUIRE(parts.trace.gpu_losses.size() == 2);
  CHECK(parts.trace.gpu_losses[0].records + parts.trace.gpu_losses[1].records == 5 * 9);  // the last may be cut
  CHECK(read(false).trace.gpu_losses.empty());

  Made several;  // four graphs in turn
  for (int64_t launch = 0; launch < 16; ++launch) {
    several.Call("hipGraphLaunch", 1000 * launch, 5, launch + 1);
    for (int64_t node = 0; node < (launch % 4 == 0 ? 12 : 3); ++node)
      several.Kernel(1000 * launch + 50 + 20 * node, 10, launch + 1, "", 7,
                     "node" + std::to_string(3 * (launch % 4) + node));
  }
  several.Read();
  CHECK(several.trace.gpu_losses.empty());
}

TEST_CASE("what threads did at time 0 is left out if all else was long after", "[kineto]") {
  Made made = Steady();
  made.Raw(R"({"ph":"X","cat":"cpu_op","name":"aten::mm","pid":10,"tid":11,"ts":0,"dur":0})");
  made.Raw(R"({"ph":"X","cat":"cuda_runtime","name":"cudaFree","pid":10,"tid":11,"ts":0,"dur":3,"args":{}})");
  made.Raw(R"({"ph":"X","cat":"overhead","name":"Flush","pid":-1,"tid":0,"ts":0,"dur":3})");
  made.Read();
  CHECK(made.report.host_no_time == 2);
  CHECK(made.trace.window_end_ns - made.trace.window_begin_ns == 1000 * kUs);
  CHECK(made.trace.events.size() == 1);
  CHECK(made.trace.calls.size() == 10);
  CHECK(made.trace.overheads.empty());
}

TEST_CASE("an empty trace, and one with the widest times, have nothing to set aside", "[kineto]") {
  Made empty;
  CHECK(empty.Read().gpu.size() == 0);
  CHECK(empty.trace.gpu_losses.empty());
  Made wide;  // sums of such times overflow
  wide.Raw(R"({"ph":"X","cat":"cpu_op","name":"a","pid":1,"tid":1,"ts":-9e12,"dur":1})");
  wide.Raw(R"({"ph":"X","cat":"cpu_op","name":"b","pid":1,"tid":1,"ts":9e12,"dur":9e12})");
  wide.Odd("-9e12", "9e12", 1);
  wide.Odd("9e12", "9e12", 2);
  wide.Read();
}
