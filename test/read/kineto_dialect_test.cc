// SPDX-License-Identifier: Apache-2.0
//
// What PyTorch's profiler writes on other devices than CUDA's, on Windows, by several processes, and wrongly.
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "pitot/model/classes.h"
#include "read/kineto_json.h"

namespace {

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

std::string On(const std::string& pid, const std::string& tid, int begin_us, const std::string& args) {
  return "\"pid\":" + pid + ",\"tid\":" + tid + ",\"ts\":" + std::to_string(begin_us) + R"(,"dur":5,"args":{)" + args +
         "}";
}
std::string Arrow(const std::string& phase, int id, const std::string& pid, const std::string& tid, int at_us) {
  return "{\"ph\":\"" + phase + "\",\"id\":" + std::to_string(id) + ",\"pid\":" + pid + ",\"tid\":" + tid +
         ",\"ts\":" + std::to_string(at_us) + R"(,"cat":"ac2g","name":"ac2g"})";
}
std::string Joined(const std::vector<std::string>& events) {
  std::string all;
  for (const std::string& event : events) all += (all.empty() ? "" : ",") + event;
  return all;
}
std::string CallName(const Trace& trace, uint32_t gpu_row) {
  const uint32_t call = trace.gpu.call[gpu_row];
  return call == kNone ? "none" : std::string(trace.strings[trace.calls.name[call]]);
}
std::string_view GpuName(const Trace& trace, uint32_t gpu_row) { return trace.strings[trace.gpu.name[gpu_row]]; }

}  // namespace

TEST_CASE("work of ROCm without ids of correlation is tied by External id, in order", "[kineto]") {
  const auto call = [](const char* name, int begin_us) {
    return Event("cuda_runtime", name, On("10", "11", begin_us, R"("External id":7)"));
  };
  const auto kernel = [](int begin_us) { return Event("kernel", "k", On("2", "0", begin_us, R"("External id":7)")); };
  const Read read = ParseEvents(
      Joined({call("hipMalloc", 100), call("hipLaunchKernel", 110), call("hipExtModuleLaunchKernel", 120), kernel(200),
              kernel(210), Event("kernel", "other", On("2", "0", 220, R"("External id":8)"))}));

  const Trace& trace = read.trace;
  REQUIRE(trace.gpu.size() == 3);
  CHECK(CallName(trace, 0) == "hipLaunchKernel");
  CHECK(CallName(trace, 1) == "hipExtModuleLaunchKernel");
  CHECK(CallName(trace, 2) == "none");
  CHECK(read.report.gpu_unlinked == 1);
}

TEST_CASE("where there is correlation, External id is the operator's", "[kineto]") {
  const Read read = ParseEvents(
      Joined({Event("cuda_runtime", "hipLaunchKernel", On("10", "11", 100, R"("External id":7,"correlation":1)")),
              OnGpu("kernel", "k", "200", "5", R"("External id":7,"correlation":2)")}));

  CHECK(read.trace.gpu.call == std::vector<uint32_t>{kNone});
}

TEST_CASE("arrows tie work of ROCm to its calls before External id does", "[kineto]") {
  const std::string id = R"("External id":7)";
  const Read read = ParseEvents(Joined(
      {Event("cuda_runtime", "hipLaunchKernel", On("10", "11", 100, id)), Arrow("s", 31, "10", "11", 100),
       Event("cuda_runtime", "hipMemcpyAsync", On("10", "11", 110, id)), Arrow("s", 32, "10", "11", 110),
       Event("gpu_memcpy", "CopyHostToDevice", On("2", "1", 190, id)), Arrow("f", 32, "2", "1", 190),
       Event("kernel", "k", On("2", "0", 200, id)), Arrow("f", 31, "2", "0", 200), Arrow("f", 31, "2", "0", 1)}));

  const Trace& trace = read.trace;
  REQUIRE(trace.gpu.size() == 2);
  for (uint32_t row = 0; row < 2; ++row)
    CHECK(CallName(trace, row) == (trace.gpu.kind[row] == GpuKind::kKernel ? "hipLaunchKernel" : "hipMemcpyAsync"));
}

TEST_CASE("copies have one name for each direction, whoever recorded them", "[kineto]") {
  const std::pair<const char*, const char*> names[] = {{"Memcpy HtoD (Pageable -> Device)", "HtoD, pageable to device"},
                                                       {"Memcpy DtoH (Device -> Host)", "DtoH, device to host"},
                                                       {"Memcpy PtoP (Device -> Device)", "PtoP, device to device"},
                                                       {"Memcpy D2M(DEVICE -> MEMORY)", "DtoH, device to memory"},
                                                       {"Memcpy M2D (MEMORY -> DEVICE)", "HtoD, memory to device"},
                                                       {"Memcpy H2S (HOST -> SHARED)", "HtoD, host to shared"},
                                                       {"CopyHostToDevice", "HtoD"},
                                                       {"CopyDeviceToHost2D", "DtoH"},
                                                       {"CopyDeviceToDevice", "DtoD"},
                                                       {"CopySomewhere", "CopySomewhere"},
                                                       {"Memcpy (", "Memcpy ("},
                                                       {"Memcpy (a -> b)", ", a to b"}};
  for (const auto& [name, expected] : names) {
    INFO(name);
    const Read read = ParseEvents(OnGpu("gpu_memcpy", name, "1", "2", R"("bytes":64)"));
    REQUIRE(read.trace.gpu.size() == 1);
    CHECK(GpuName(read.trace, 0) == expected);
  }
}

TEST_CASE("the limits of an MI300X are those of its compute units", "[kineto]") {
  for (const char* const block_registers : {"65536", "131072"}) {  // HIP 6 and 7
    const Read read = ParseEvents(
        Event("kernel", "gemm", On("2", "0", 130, R"("device":2,"stream":0)")),
        R"("deviceProperties":[{"id":0,"name":"AMD Instinct MI300X","computeMajor":9,"computeMinor":4,"warpSize":64,
           "maxThreadsPerMultiprocessor":2048,"regsPerBlock":)" +
            std::string(block_registers) + R"(,"numSms":304,"maxSharedMemoryPerMultiProcessor":65536}],)");

    // ROCm counts CPUs as devices, too: the GPU that works is the one listed.
    const auto& device = read.trace.devices[read.trace.streams[0].device];
    CHECK(device.ordinal == 2);
    CHECK(read.trace.strings[device.name] == "AMD Instinct MI300X");
    CHECK(device.multiprocessors == 304);
    CHECK(device.threads_per_warp == 64);
    CHECK(device.blocks_per_multiprocessor == 32);
    CHECK(device.registers_per_multiprocessor == 131072);
    CHECK(device.shared_bytes_per_multiprocessor == 65536);
  }
}

TEST_CASE("calls and work of Intel's XPU, of MTIA and of other backends are read", "[kineto]") {
  for (const char* const category : {"xpu_runtime", "xpu_driver", "mtia_runtime", "privateuse1_runtime",
                                     "privateuse1_driver", "glow_runtime", "hpu_op"}) {
    INFO(category);
    CHECK(ParseEvents(OnCpu(category, "f", "1", "2")).trace.calls.size() == 1);
  }
  CHECK(ParseEvents(OnGpu("mtia_ccp_events", "f", "1", "2", R"("a":1)")).trace.gpu.size() == 1);
  const Read read = ParseEvents(
      Joined(
          {OnCpu("xpu_runtime", "urEnqueueKernelLaunch", "100", "5", R"("correlation":1)"),
           Event("kernel", "gemm", On("0", "3", 130, R"("device":0,"correlation":1,"sycl queue":64,"l0 queue":"0x1")")),
           OnCpu("collective_comm", "xccl::allreduce", "140", "5")}),
      R"("deviceProperties":[{"id":0,"name":"Intel Data Center GPU Max 1550","maxComputeUnits":512}],)");

  const Trace& trace = read.trace;
  REQUIRE(trace.gpu.size() == 1);
  CHECK(CallName(trace, 0) == "urEnqueueKernelLaunch");
  CHECK(trace.streams[0].stream == 64);
  CHECK(trace.devices[0].multiprocessors == 512);
  CHECK(trace.EventName(0) == "xccl::allreduce");
}

TEST_CASE("a wait that Intel's tools recorded without a process is its thread's", "[kineto]") {
  const Read read = ParseEvents(Joined({OnCpu("xpu_runtime", "urEnqueueKernelLaunch", "100", "5"),
                                        Event("xpu_sync", "zeEventHostSynchronize", On("-1", "11", 110, "")),
                                        Event("xpu_sync", "zeEventHostSynchronize", On("-1", "12", 110, ""))}));

  CHECK(read.trace.threads.size() == 2);
  CHECK(read.trace.calls.thread == std::vector<uint32_t>{0, 0, 1});
}

TEST_CASE("a wait without a process is that of its rank's thread, where the file has several ranks", "[kineto]") {
  const auto rank = [](const std::string& label) {
    return Event("xpu_runtime", "urEnqueueKernelLaunch", On("\"[" + label + "] 50\"", "11", 100, "")) + "," +
           Event("xpu_sync", "zeEventHostSynchronize", On("\"[" + label + "] -1\"", "11", 110, ""));
  };
  const Read read = ParseEvents(rank("TP00") + "," + rank("TP01"));

  CHECK(read.trace.threads.size() == 2);
  CHECK(read.trace.calls.thread == std::vector<uint32_t>{0, 0, 1, 1});
}

TEST_CASE("kinds of events that the reader does not know are counted and named", "[kineto]") {
  const Read read = ParseEvents(Joined({OnCpu("quantum", "a", "1", "2"), OnCpu("quantum", "b", "1", "2"),
                                        OnCpu("gpu_user_annotation", "c", "1", "2"), OnCpu("cpu_op", "d", "1", "2")}));

  CHECK(read.report.events_unknown == 2);
  CHECK(read.report.events_unused == 3);
  CHECK(read.report.Problems() == "2 events were of unknown kinds (quantum)");
}

TEST_CASE("ranges of CUPTI's range profiler are overheads", "[kineto]") {
  const Read read = ParseEvents(Event("cuda_profiler_range", "gemm", On("0", "0", 100, R"("sm__cycles.sum":12)")));

  REQUIRE(read.trace.overheads.size() == 1);
  CHECK(read.trace.strings[read.trace.overheads[0].name] == "gemm");
}

TEST_CASE("Python's own functions have no address in their names", "[kineto]") {
  const auto name_of = [](const char* name) {
    const Read read = ParseEvents(OnCpu("python_function", name, "1", "2"));
    return std::string(read.trace.EventName(0));
  };

  CHECK(name_of("<built-in method linear of type object at 0x7499b741df60>") ==
        "<built-in method linear of type object>");
  CHECK(name_of("<function f at 0x7F00> <g at 0x12>") == "<function f> <g>");
  CHECK(name_of("<built-in function at 0x") == "<built-in function");
  CHECK(name_of("a.py(12): meet at 0x7f") == "a.py(12): meet at 0x7f");
}

TEST_CASE("functions of Python are no scopes of the host, with a file or without", "[kineto]") {
  for (const char* const name : {"a.py(12): f", "<built-in function len>", "nn.Module: Linear_0"}) {
    INFO(name);
    const auto is_python = [&](const char* category) {
      const Trace trace = ParseEvents(OnCpu(category, name, "1", "2")).trace;
      return pitot::model::IntervalSets(trace).Host(pitot::model::HostClass::kScope).empty();
    };
    CHECK(is_python("python_function"));
    CHECK(is_python("user_annotation") == (name[0] == 'a'));
  }
}

TEST_CASE("paths of Windows are read as they are written, although their backslashes are not escaped", "[kineto]") {
  const char* const names[] = {R"(torch\cuda\__init__.py(219): _lazy_init)", R"(app\net\use.py(3): run)",
                               R"(app\new\test.py(4): run)"};
  for (const char* const name : names) {
    const Read read = ParseEvents(OnCpu("python_function", name, "1", "2"));
    REQUIRE(read.status.ok());
    REQUIRE(read.trace.events.size() == 1);
    CHECK(read.trace.EventName(0) == name);
    CHECK(read.trace.sites[0].line != 0);
    CHECK(read.report.events_as_written == 1);
  }
  const Read escaped = ParseEvents(OnCpu("cpu_op", R"(a\\b \"c\" \u0041)", "1", "2"));
  CHECK(escaped.trace.EventName(0) == R"(a\b "c" A)");
  CHECK(escaped.report.events_as_written == 0);
}

TEST_CASE("a quote that is not escaped costs one event", "[kineto]") {
  const std::string good = OnCpu("cpu_op", "aten::mm", "100", "5");
  for (const char* const name : {R"(@"sP(0): flat)", R"({"device": "cpu"}(1): f)", R"(a"{"b"{)"}) {
    INFO(name);
    const Read read =
        ParseEvents("\n" + good + ",\n" + OnCpu("python_function", name, "1", "2") + ",\n" + good + ",\n" + good);

    CHECK(read.status.code() == StatusCode::kDataLoss);
    CHECK(read.trace.events.size() == 3);
    CHECK(read.report.events_bad == 1);
    CHECK(std::string(read.status.message()) == "1 event made no sense, of 4");
  }
}

TEST_CASE("ranks in one file are kept apart by the labels of their processes", "[kineto]") {
  const auto rank = [](const std::string& label, int call_us, int kernel_us) {
    const std::string process = "\"[" + label + "] 5000\"", device = "\"[" + label + "] 0\"";
    return Event("cuda_runtime", "launch of " + label, On(process, "5", call_us, R"("correlation":1)")) + "," +
           Event("kernel", "k", On(device, "7", kernel_us, R"("device":0,"context":1,"stream":7,"correlation":1)")) +
           R"(,{"ph":"M","name":"thread_name","pid":)" + process + R"(,"tid":5,"args":{"name":"main"}})";
  };
  const Read read =
      ParseEvents(rank("TP00", 100, 110) + "," + rank("TP01", 101, 112),
                  R"("deviceProperties":[{"id":0,"name":"A","numSms":1},{"id":0,"name":"B","numSms":2}],)");

  const Trace& trace = read.trace;
  CHECK(read.report.processes == 2);
  CHECK(read.report.correlations_shared == 0);
  REQUIRE(trace.gpu.size() == 2);
  REQUIRE(trace.devices.size() == 2);
  for (uint32_t row = 0; row < 2; ++row) {
    const auto& device = trace.devices[trace.streams[trace.gpu.stream[row]].device];
    const bool is_first = trace.strings[device.name] == "[TP00] A";
    CHECK((is_first || trace.strings[device.name] == "[TP01] B"));
    CHECK(device.ordinal == (is_first ? 0 : 1));
    CHECK(device.multiprocessors == (is_first ? 1 : 2));
    CHECK(CallName(trace, row) == (is_first ? "launch of TP00" : "launch of TP01"));
    CHECK(trace.strings[trace.threads[trace.calls.thread[trace.gpu.call[row]]].name] ==
          (is_first ? "[TP00] main" : "[TP01] main"));
  }
}

TEST_CASE("ranks without labels are told to be mixed", "[kineto]") {
  const auto launch = [](const char* pid, int begin_us) {
    return Event("cuda_runtime", "cudaLaunchKernel", On(pid, "5", begin_us, R"("correlation":1)"));
  };

  CHECK(ParseEvents(launch("1", 100) + "," + launch("2", 110)).report.correlations_mixed == 1);
  CHECK(ParseEvents(launch("1", 100) + "," + launch("1", 110)).report.correlations_mixed == 0);
}

TEST_CASE("documents one after the other are kept apart, named by rank and put on one clock", "[kineto]") {
  const auto document = [](const std::string& rank, const std::string& base_ns) {
    return "{\"baseTimeNanoseconds\": " + base_ns + R"(, "distributedInfo": {"backend": "nccl", "rank": )" + rank +
           R"(}, "deviceProperties":[{"id":0,"name":"GPU"}], "traceEvents":[)" +
           OnCpu("cuda_runtime", "launch of " + rank, "100", "5", R"("correlation":1)") + "," +
           OnGpu("kernel", "k", "110", "5", R"("correlation":1)") + "]}\n";
  };
  const Read read = Parse(document("3", "1000000000") + document("4", "1000500000"));

  REQUIRE(read.status.ok());
  const Trace& trace = read.trace;
  CHECK(read.report.documents == 2);
  CHECK(read.report.Problems() ==
        "2 documents were read: it goes on after its end; 2 processes are in the file and were kept apart");
  REQUIRE(trace.threads.size() == 2);
  CHECK(trace.strings[trace.threads[0].name] == "[rank 3]");
  CHECK(trace.strings[trace.threads[1].name] == "[rank 4]");
  REQUIRE(trace.devices.size() == 2);
  CHECK(trace.strings[trace.devices[1].name] == "[rank 4] GPU");
  CHECK(trace.devices[1].ordinal == 1);
  CHECK(CallName(trace, 0) == "launch of 3");
  CHECK(CallName(trace, 1) == "launch of 4");
  CHECK(trace.gpu.begin_ns == std::vector<int64_t>{110000, 610000});
  CHECK(trace.clock.realtime_ns - trace.clock.monotonic_ns == 1000000000);
}

TEST_CASE("what follows a trace and is none is said", "[kineto]") {
  const Read read = Parse("{\"traceEvents\":[" + OnCpu("cpu_op", "a", "1", "2") + "]} and more");

  CHECK(read.status.code() == StatusCode::kDataLoss);
  CHECK(std::string(read.status.message()) == "it goes on after its end, and not with a trace");
  CHECK(read.trace.events.size() == 1);
}
