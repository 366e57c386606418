// SPDX-License-Identifier: Apache-2.0
#include "pitot/read/kineto.h"

#include <catch2/catch.hpp>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "read/gzip.h"
#include "read/kineto_json.h"

using pitot::KinetoReport;
using pitot::StatusCode;
using pitot::model::GpuKind;
using pitot::model::kNone;
using pitot::model::Trace;
using pitot::test::Event;
using pitot::test::OnCpu;
using pitot::test::OnGpu;
using pitot::test::Parse;
using pitot::test::ParseEvents;
using pitot::test::Read;
using read_test::Gzip;

namespace {

const std::string kOperator = OnCpu("cpu_op", "aten::add", "100", "50");

}  // namespace

TEST_CASE("operators, annotations and Python functions become events of their thread", "[kineto]") {
  const Read read = ParseEvents(OnCpu("cpu_op", "aten::mm", "120.5", "10.25", R"("Input Dims": [[2, 3], []])") + "," +
                                OnCpu("user_annotation", "ProfilerStep#1", "100", "50.001") + "," +
                                OnCpu("python_function", "torch/nn/module.py(1501): _call_impl", "110", "30") +
                                R"(,{"ph":"M","name":"thread_name","pid":10,"tid":11,"args":{"name":"main"}})"
                                R"(,{"ph":"M","name":"process_name","pid":10,"tid":0,"args":{"name":"python"}})");

  REQUIRE(read.status.ok());
  const Trace& trace = read.trace;
  REQUIRE(trace.threads.size() == 1);
  CHECK(trace.threads[0].tid == 11);
  CHECK(trace.strings[trace.threads[0].name] == "main");
  CHECK(trace.strings[trace.process_name] == "python");
  CHECK(trace.pid == 10);
  REQUIRE(trace.events.size() == 3);
  CHECK(trace.events.begin_ns == std::vector<int64_t>{100000, 110000, 120500});
  CHECK(trace.events.duration_ns == std::vector<int64_t>{50001, 30000, 10250});
  CHECK(trace.EventName(0) == "ProfilerStep#1");
  CHECK(trace.EventName(2) == "aten::mm");
  CHECK(trace.sites[trace.events.site[0]].kind == pitot::SiteKind::kScope);
  CHECK(trace.sites[trace.events.site[2]].kind == pitot::SiteKind::kOperator);
  CHECK(trace.strings[static_cast<uint32_t>(trace.arg_values[trace.events.args[2]])] == "[[2,3],[]]");
  const pitot::model::SiteRow& function = trace.sites[trace.events.site[1]];
  CHECK(trace.strings[function.file] == "torch/nn/module.py");
  CHECK(trace.strings[function.function] == "_call_impl");
  CHECK(function.line == 1501);
  CHECK(trace.window_begin_ns == 100000);
  CHECK(trace.window_end_ns == 150001);
}

TEST_CASE("kernels and copies are tied to the calls with their correlation id", "[kineto]") {
  const Read read = ParseEvents(
      OnCpu("cuda_runtime", "cudaLaunchKernel", "100", "5", R"("correlation":3)") + "," +
          OnCpu("cuda_driver", "cuLaunchKernel", "110", "5", R"("correlation":4)") + "," +
          OnGpu("kernel", "gemm", "130", "20",
                R"("correlation":4,"grid":[8,2,1],"block":[128,1,1],"registers per thread":40,"shared memory":512)") +
          "," + OnGpu("kernel", "gemm", "120", "9", R"("correlation":3,"grid":[8,2,1],"block":[128,1,1])") + "," +
          OnGpu("gpu_memcpy", "Memcpy HtoD (Pageable -> Device)", "160", "2", R"("correlation":9,"bytes":64)") + "," +
          OnGpu("gpu_memset", "Memset (Device)", "170", "1", R"("correlation":-1,"bytes":32)"),
      R"("deviceProperties":[{"id":0,"name":"H100","computeMajor":9,"computeMinor":0,"numSms":132,"maxThreadsPerMultiProcessor":2048,
                              "regsPerMultiprocessor":65536,"sharedMemPerMultiprocessor":233472}],)");

  REQUIRE(read.status.ok());
  const Trace& trace = read.trace;
  REQUIRE(trace.gpu.size() == 4);
  CHECK(trace.gpu.kind == std::vector<GpuKind>{GpuKind::kKernel, GpuKind::kKernel, GpuKind::kMemcpy, GpuKind::kMemset});
  CHECK(trace.gpu.call == std::vector<uint32_t>{0, 1, kNone, kNone});
  CHECK(read.report.gpu_unlinked == 2);
  CHECK(trace.strings[trace.gpu.name[2]] == "HtoD, pageable to device");
  CHECK(trace.gpu.bytes[2] == 64);
  const pitot::model::KernelShape& shape = trace.shapes[trace.gpu.shape[1]];
  CHECK((shape.grid[0] == 8 && shape.grid[1] == 2 && shape.block[0] == 128));
  CHECK((shape.registers_per_thread == 40 && shape.dynamic_shared_bytes == 512));
  REQUIRE(trace.streams.size() == 1);
  CHECK((trace.streams[0].stream == 7 && trace.streams[0].context == 1));
  REQUIRE(trace.devices.size() == 1);
  CHECK(trace.strings[trace.devices[0].name] == "H100");
  CHECK(trace.devices[0].multiprocessors == 132);
  CHECK(trace.devices[0].threads_per_multiprocessor == 2048);
  CHECK(trace.devices[0].blocks_per_multiprocessor == 32);
}

TEST_CASE("a device's wavefront is read from ROCm's properties", "[kineto]") {
  const Read read =
      ParseEvents(OnGpu("kernel", "gemm", "130", "20", R"("correlation":4)"),
                  R"("deviceProperties":[{"id":0,"name":"AMD Instinct MI300X VF","computeMajor":9,"computeMinor":4,
                     "maxThreadsPerMultiprocessor":2048,"regsPerBlock":65536,"warpSize":64,"numSms":304}],)");

  REQUIRE(read.status.ok());
  REQUIRE(read.trace.devices.size() == 1);
  CHECK(read.trace.devices[0].threads_per_warp == 64);
}

TEST_CASE("the traces of PyTorch 1.8 and of ROCm are read, too", "[kineto]") {
  const Read read =
      ParseEvents(Event("Operator", "aten::empty", R"("pid":5,"tid":"5","ts":1,"dur":2)") + "," +
                  Event("Operator", "ProfilerStep#0", R"("pid":5,"tid":"5","ts":0,"dur":9)") + "," +
                  Event("Runtime", "hipLaunchKernel", R"("pid":5,"tid":"5","ts":3,"dur":1,"args":{"correlation":8})") +
                  "," + Event("Kernel", "k", R"("pid":2,"tid":"stream 3","ts":5,"dur":1,"args":{"correlation":8})"));

  REQUIRE(read.status.ok());
  CHECK(read.trace.threads.size() == 1);
  CHECK(read.trace.sites[read.trace.events.site[0]].kind == pitot::SiteKind::kScope);
  REQUIRE(read.trace.gpu.size() == 1);
  CHECK(read.trace.gpu.call[0] == 0);
  CHECK(read.trace.streams[0].stream == 3);
  CHECK(read.trace.devices[0].ordinal == 2);
}

TEST_CASE("a context's synchronisation has its device, and a stream's wait for an event is not a thread's wait",
          "[kineto]") {
  const auto event = [](const char* name, int64_t stream, int correlation) {
    return Event("cuda_sync", name,
                 R"("pid":0,"tid":7,"ts":110,"dur":30,"args":{"device":0,"stream":)" + std::to_string(stream) +
                     R"(,"correlation":)" + std::to_string(correlation) + "}");
  };
  const Read read = ParseEvents(OnCpu("cuda_runtime", "cudaDeviceSynchronize", "100", "50", R"("correlation":3)") +
                                "," + OnCpu("cuda_runtime", "cudaStreamWaitEvent", "200", "1", R"("correlation":4)") +
                                "," + OnCpu("cuda_runtime", "cudaEventSynchronize", "300", "1", R"("correlation":5)") +
                                "," + event("Context Sync", UINT32_MAX, 3) + "," + event("Stream Wait Event", 7, 4) +
                                "," + event("Event Sync", UINT32_MAX, 5));

  REQUIRE(read.status.ok());
  CHECK(read.trace.calls.stream == std::vector<uint32_t>{kNone, kNone, kNone});
  CHECK(read.trace.calls.device == std::vector<uint32_t>{0, kNone, kNone});
}

TEST_CASE("a stream's synchronisation has its stream, and the GPU's part becomes a counter", "[kineto]") {
  const Read read = ParseEvents(OnCpu("cuda_runtime", "cudaStreamSynchronize", "100", "50", R"("correlation":3)") +
                                "," + OnGpu("cuda_sync", "Stream Sync", "110", "30", R"("correlation":3)"));

  REQUIRE(read.status.ok());
  const Trace& trace = read.trace;
  CHECK(trace.calls.stream == std::vector<uint32_t>{0});
  CHECK(trace.gpu.size() == 0);
  REQUIRE(trace.counters.size() == 1);
  CHECK(trace.strings[trace.counters[0].name] == "waits for stream 7");
  CHECK(trace.samples.at_ns == std::vector<int64_t>{110000, 140000});
  CHECK(trace.samples.value == std::vector<double>{1, 0});
}

TEST_CASE("allocated memory becomes counters", "[kineto]") {
  const auto memory = [](const char* begin, const char* args) {
    return std::string(R"({"ph":"i","name":"[memory]","pid":1,"tid":1,"ts":)") + begin + ",\"args\":{" + args + "}}";
  };
  const Read read = ParseEvents(
      kOperator + "," + memory("5", R"("Device Type":1,"Device Id":0,"Total Allocated":4096,"Total Reserved":8192)") +
      "," + memory("6", R"("Device Type":0,"Device Id":-1,"Total Allocated":64)") + "," +
      memory("7", R"("Device Type":0,"Device Id":-1,"Bytes":64)") + "," +
      memory("8", R"("Device Type":0,"Device Id":-1,"Bytes":-24)") + "," +
      memory("9", R"("Device Type":0,"Device Id":-1)"));

  const Trace& trace = read.trace;
  REQUIRE(trace.counters.size() == 4);
  CHECK(trace.strings[trace.counters[0].name] == "LibTorch allocated");
  CHECK(trace.strings[trace.counters[1].name] == "LibTorch reserved");
  CHECK(trace.strings[trace.counters[2].name] == "LibTorch CPU allocated");
  // Before PyTorch 1.10 only the changes were recorded.
  CHECK(trace.strings[trace.counters[3].name] == "LibTorch CPU allocated since the first record");
  CHECK(trace.samples.value == std::vector<double>{4096, 8192, 64, 64, 40});
  CHECK(read.report.events_unused == 1);
}

TEST_CASE("baseTimeNanoseconds is the offset to Unix time", "[kineto]") {
  const Read read = ParseEvents(kOperator, R"("baseTimeNanoseconds": 1711964646000000000, "traceName": "a.json",)");

  CHECK(read.trace.clock.realtime_ns - read.trace.clock.monotonic_ns == 1711964646000000000);
  REQUIRE(read.trace.attributes.size() == 1);
  CHECK(read.trace.strings[read.trace.attributes[0].value] == "a.json");
}

TEST_CASE("a gzipped trace, in one member or several, reads as a plain one", "[kineto]") {
  const std::string json = "{\"traceEvents\":[" + kOperator + "]}";
  for (const std::string& packed :
       {Gzip(json), Gzip(json.substr(0, 20)) + Gzip(json.substr(20)), Gzip(json) + "\0\0"}) {
    const Read read = Parse(packed);
    CHECK(read.status.ok());
    CHECK(read.report.is_gzip);
    CHECK(read.trace.events.size() == 1);
  }
}

TEST_CASE("a truncated trace is read up to its end, with a status", "[kineto]") {
  const std::string json = "{\"traceEvents\":[" + kOperator + "," + kOperator + "]}";

  const Read plain = Parse(json.substr(0, json.size() - 10));
  CHECK(plain.status.code() == StatusCode::kDataLoss);
  CHECK(std::string(plain.status.message()) == "it ends in the middle of an event");
  CHECK(plain.trace.events.size() == 1);
  REQUIRE(plain.trace.losses.size() == 1);
  CHECK(plain.trace.losses[0].reason == pitot::model::LossReason::kDamaged);

  std::string packed = Gzip(json);
  packed.resize(packed.size() - 12);
  const Read unpacked = Parse(packed);
  CHECK(unpacked.status.code() == StatusCode::kDataLoss);
  CHECK(std::string(unpacked.status.message()) == "its compressed data is cut off");
}

TEST_CASE("senseless events are left out and counted", "[kineto]") {
  const std::string deep = std::string(10000, '[') + std::string(10000, ']');
  const Read read = ParseEvents(kOperator + ",7,{]," + OnCpu("cpu_op", "deep", "1", "2", "\"a\":" + deep) + "," +
                                Event("cpu_op", "no time", R"("pid":1,"tid":1)") + "," +
                                Event("cpu_op", "no number", R"("pid":1,"tid":1,"ts":NaN,"dur":1)") + "," + kOperator);

  CHECK(read.status.code() == StatusCode::kDataLoss);
  CHECK(std::string(read.status.message()) == "5 events made no sense, of 7 (nested more than 500 deep)");
  CHECK(read.trace.events.size() == 2);
  CHECK(read.report.events_bad == 5);
}

TEST_CASE("a member nested too deep is left out and named", "[kineto]") {
  const std::string deep = std::string(10000, '[') + std::string(10000, ']');
  const Read read = Parse("{\"stacks\": " + deep + ", \"traceEvents\": [" + kOperator + "], \"schemaVersion\": 1}");

  CHECK(read.status.code() == StatusCode::kDataLoss);
  CHECK(std::string(read.status.message()) == "its \"stacks\" is left out (nested more than 500 deep)");
  CHECK(read.trace.events.size() == 1);
}

TEST_CASE("invalid UTF-8 is replaced, and the event is kept", "[kineto]") {
  const Read read = ParseEvents(OnCpu("cpu_op", "a\xff\x01z", "1", "2"));

  REQUIRE(read.trace.events.size() == 1);
  CHECK(read.trace.EventName(0).substr(0, 4) == "a\xef\xbf\xbd");
  CHECK(read.trace.EventName(0).back() == 'z');
}

TEST_CASE("senseless times are corrected or left out", "[kineto]") {
  const Read read =
      ParseEvents(OnCpu("cpu_op", "backwards", "100", "-5") + "," + OnCpu("cpu_op", "point", "100", "0") + "," +
                  OnCpu("cpu_op", "before", "-1", "5") + "," + OnCpu("cpu_op", "after", "9223372036854775", "1"));

  CHECK(read.status.ok());
  REQUIRE(read.trace.events.size() == 2);
  CHECK(read.trace.events.duration_ns == std::vector<int64_t>{0, 0});
  CHECK(read.report.durations_negative == 1);
  CHECK(read.report.times_out_of_range == 2);
  CHECK(read.report.Problems() ==
        "2 events had a time before 0 or beyond 2^62 ns; 1 event had a negative duration, taken as 0");
}

TEST_CASE("the first of calls with the same correlation id is the cause", "[kineto]") {
  const Read read = ParseEvents(OnCpu("cuda_driver", "cuLaunchKernel", "102", "1", R"("correlation":3)") + "," +
                                OnCpu("cuda_runtime", "cudaLaunchKernel", "100", "5", R"("correlation":3)") + "," +
                                OnGpu("kernel", "k", "120", "20", R"("correlation":3)"));

  CHECK(read.report.correlations_shared == 1);
  const uint32_t call = read.trace.gpu.call[0];
  CHECK(read.trace.strings[read.trace.calls.name[call]] == "cudaLaunchKernel");
}

TEST_CASE("a trace without events is a valid trace", "[kineto]") {
  const Read read = ParseEvents("");

  CHECK(read.status.ok());
  CHECK(read.report.complete);
  CHECK(read.trace.events.size() == 0);
}

TEST_CASE("a file that is not a trace is refused with a reason", "[kineto]") {
  const auto reason = [](const std::string& text) {
    const Read read = Parse(text);
    CHECK(read.status.code() == StatusCode::kInvalidArgument);
    return std::string(read.status.message());
  };

  CHECK(reason("") == "it is empty");
  CHECK(reason("PITOT") == "it is not JSON");
  CHECK(reason("{\"a\":1}") == "it has no traceEvents");
  CHECK(reason("{\"a\":1,") == "it ends before its events begin");
}

TEST_CASE("events in any order are sorted, each with all it has", "[kineto]") {
  std::mt19937 random(7);
  std::string events;
  for (int i = 0; i < 500; ++i) {
    const std::string begin = std::to_string(random() % 200 + 1), duration = std::to_string(random() % 9);
    const std::string thread = std::to_string(random() % 5), name = thread + " " + begin + " " + duration;
    const std::string where = R"("pid":10,"tid":)" + thread + ",\"ts\":" + begin + ",\"dur\":" + duration;
    events += Event("cpu_op", name, where + R"(,"args":{"Input Dims":[[)" + begin + "]]}") + "," +
              Event("cuda_runtime", name, where) + ",";
  }

  const Read read = ParseEvents(events);

  const Trace& trace = read.trace;
  const auto name_of = [&](uint32_t thread, int64_t begin_ns, int64_t duration_ns) {
    return std::to_string(trace.threads[thread].tid) + " " + std::to_string(begin_ns / 1000) + " " +
           std::to_string(duration_ns / 1000);
  };
  REQUIRE(trace.events.size() == 500);
  REQUIRE(trace.calls.size() == 500);
  for (uint32_t row = 0; row < 500; ++row) {
    const auto& of = trace.events;
    REQUIRE(trace.EventName(row) == name_of(of.thread[row], of.begin_ns[row], of.duration_ns[row]));
    REQUIRE(trace.strings[static_cast<uint32_t>(trace.arg_values[of.args[row]])] ==
            "[[" + std::to_string(of.begin_ns[row] / 1000) + "]]");
    const auto& calls = trace.calls;
    REQUIRE(trace.strings[calls.name[row]] == name_of(calls.thread[row], calls.begin_ns[row], calls.duration_ns[row]));
  }
}

TEST_CASE("a million names of threads without events do not become rows", "[kineto]") {
  std::string events = kOperator;
  for (int i = 0; i < 1000000; ++i)
    events += R"(,{"ph":"M","name":"thread_name","pid":10,"tid":)" + std::to_string(1000 + i) +
              R"(,"args":{"name":"worker )" + std::to_string(i) + "\"}}";

  const Read read = ParseEvents(events);

  CHECK(read.status.ok());
  CHECK(read.trace.threads.size() == 1);
  CHECK(read.trace.strings.size() < 10);
  CHECK(read.report.names_unused == 1000000);
}

TEST_CASE("a missing file is reported as not found", "[kineto]") {
  Trace trace;
  KinetoReport report;
  CHECK(pitot::ReadKineto("/nowhere/a.json", &trace, &report).code() == StatusCode::kNotFound);
  CHECK(pitot::ReadKineto("/", &trace, &report).code() == StatusCode::kInvalidArgument);
}
