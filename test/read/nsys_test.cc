// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <string>

#include "fakes/temp_directory.h"
#include "pitot/analyze/top.h"
#include "read/gzip.h"
#include "read/nsys_file.h"
#include "read/parse.h"
#include "read/sqlite_file.h"

using namespace read_test;
using pitot::SiteKind;
using pitot::StatusCode;
using pitot::model::GpuKind;
using pitot::model::kNone;

namespace {

Read ParseSql(const std::string& sql) { return Parse(Database(sql)); }

// "name call" of each row of `gpu`.
std::string Work(const Read& read) {
  std::string text;
  const auto& gpu = read.trace.gpu;
  for (uint32_t row = 0; row < gpu.size(); ++row)
    text += (row == 0 ? "" : ", ") + read.Name(gpu.name[row]) + " by " +
            (gpu.call[row] == kNone ? "-" : read.Name(read.trace.calls.name[gpu.call[row]]));
  return text;
}

std::string KernelRow(int64_t begin_ns, int64_t end_ns, int device, int stream, int correlation,
                      const std::string& process, const std::string& graph = "NULL, NULL") {
  return "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (" + std::to_string(begin_ns) + "," + std::to_string(end_ns) +
         "," + std::to_string(device) + ",1,NULL," + std::to_string(stream) + "," + std::to_string(correlation) + "," +
         process + ",1,2,3,40,8,2,1,256,1,1,0,0,0," + graph + ");";
}
std::string CallRow(int64_t begin_ns, int64_t end_ns, const std::string& thread, int correlation, int name) {
  return "INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (" + std::to_string(begin_ns) + "," + std::to_string(end_ns) +
         ",0," + thread + "," + std::to_string(correlation) + "," + std::to_string(name) + ",0,NULL);";
}

}  // namespace

TEST_CASE("work of an export has its call, stream, device and shape", "[nsys]") {
  const Read read = ParseSql(NsysSql());

  REQUIRE(read.status.ok());
  CHECK(read.report.format == "nsys");
  CHECK(read.report.problems == "");
  CHECK(Work(read) ==
        "void gemm<float>(float*) by cudaLaunchKernel, HtoD, pageable to device by cudaMemcpyAsync, Memset (device) by "
        "cudaMemsetAsync");
  const auto& gpu = read.trace.gpu;
  CHECK(gpu.begin_ns == std::vector<int64_t>{1500, 1950, 2110});
  CHECK(gpu.duration_ns == std::vector<int64_t>{400, 150, 10});
  CHECK(gpu.kind == std::vector<GpuKind>{GpuKind::kKernel, GpuKind::kMemcpy, GpuKind::kMemset});
  CHECK(gpu.bytes == std::vector<uint64_t>{0, 4096, 512});
  const auto& shape = read.trace.shapes.at(gpu.shape[0]);
  CHECK(shape.grid[0] == 8);
  CHECK(shape.block[0] == 256);
  CHECK(shape.static_shared_bytes == 16);
  CHECK(shape.dynamic_shared_bytes == 1024);
  CHECK(shape.local_bytes_per_thread == 8);
  CHECK(shape.registers_per_thread == 40);
  REQUIRE(read.trace.streams.size() == 1);
  CHECK(read.trace.streams[0].stream == 7);
  CHECK(read.trace.streams[0].context == 1);
  const auto& device = read.trace.devices.at(0);
  CHECK(read.Name(device.name) == "H100");
  CHECK(device.multiprocessors == 132);
  CHECK(device.threads_per_multiprocessor == 2048);
  CHECK(device.registers_per_multiprocessor == 65536);
  CHECK(device.shared_bytes_per_multiprocessor == 233472);
  CHECK(device.blocks_per_multiprocessor == 32);
}

TEST_CASE("an export has the host's threads, ranges, functions and date", "[nsys]") {
  const Read read = ParseSql(NsysSql());

  CHECK(read.Events() == "step 7 900+1600, aten::mm 950+400, first token 1000+0, poll 2310+90");
  const auto& sites = read.trace.sites;
  const auto kind = [&](const char* name) {
    for (const auto& site : sites) {
      if (read.Name(site.name) == name) return site.kind;
    }
    return SiteKind::kInternal;
  };
  CHECK(kind("step 7") == SiteKind::kScope);
  CHECK(kind("aten::mm") == SiteKind::kOperator);
  CHECK(kind("first token") == SiteKind::kInstant);
  REQUIRE(read.trace.arg_values.size() == 1);
  CHECK(read.Name(static_cast<uint32_t>(read.trace.arg_values[0])) == "[[2,3],[3,4]]");
  REQUIRE(read.trace.threads.size() == 1);
  CHECK(read.trace.threads[0].tid == 101);
  CHECK(read.Name(read.trace.threads[0].name) == "python");
  CHECK(read.trace.pid == 100);
  CHECK(read.Name(read.trace.process_name) == "python3");
  CHECK(read.trace.clock.realtime_ns - read.trace.clock.monotonic_ns == kNsysStartNs);
  CHECK(read.trace.AttributeOf("nsys.schema") == "3.28.1");
}

TEST_CASE("a call that waits for a stream has its stream", "[nsys]") {
  const Read read = ParseSql(NsysSql());

  const auto& calls = read.trace.calls;
  REQUIRE(calls.size() == 4);
  CHECK(read.Name(calls.name[3]) == "cudaStreamSynchronize");
  CHECK(calls.stream[3] == 0);
  CHECK(calls.stream[0] == kNone);
}

TEST_CASE("the table of costs has operators of emit_nvtx with the time of their kernels", "[nsys]") {
  const Read read = ParseSql(NsysSql());

  pitot::analyze::TopTable table;
  REQUIRE(FindTop(read.trace, {}, &table).ok());
  REQUIRE_FALSE(table.rows.empty());
  CHECK(table.rows[0].name == "aten::mm");
  CHECK(table.rows[0].self_gpu_ns == 560);
}

TEST_CASE("processes have ids of correlation and devices of their own", "[nsys]") {
  const std::string a = Thread(100, 100), b = Thread(200, 201);
  const Read read = ParseSql(kNsysNames + kNsysRuntime + kNsysKernel + kNsysGpu +
                             "INSERT INTO TARGET_INFO_CUDA_DEVICE VALUES (1,0,100), (0,0,200);" +
                             CallRow(10, 20, a, 1, 4) + CallRow(12, 22, b, 1, 6) +
                             KernelRow(30, 40, 0, 7, 1, Process(100)) + KernelRow(50, 70, 0, 7, 1, Process(200)));

  REQUIRE(read.status.ok());
  CHECK(Work(read) == "void gemm<float>(float*) by cudaLaunchKernel, void gemm<float>(float*) by cuLaunchKernel");
  REQUIRE(read.trace.devices.size() == 2);
  CHECK(read.Name(read.trace.devices[0].name) == "[pid 100] L4");
  CHECK(read.Name(read.trace.devices[1].name) == "[pid 200] H100");
  CHECK(read.report.problems.find("2 processes are in the file") != std::string::npos);
}

TEST_CASE("processes of two machines with one number are kept apart", "[nsys]") {
  const Read read = ParseSql(kNsysNames + kNsysRuntime + CallRow(10, 20, Thread(100, 100, 1), 1, 4) +
                             CallRow(12, 22, Thread(100, 100, 2), 1, 4));

  CHECK(read.trace.threads.size() == 2);
  CHECK(read.Count("processes") == 2);
}

TEST_CASE("nodes of graphs have their graph, and whole graphs are work", "[nsys]") {
  const std::string t = Thread(100, 101);
  const Read read = ParseSql(
      kNsysNames + kNsysRuntime + kNsysKernel + CallRow(10, 20, t, 1, 10) + CallRow(100, 120, t, 2, 10) +
      KernelRow(30, 40, 0, 7, 1, Process(100), std::to_string((int64_t{5} << 32) + 3) + ", NULL") +
      KernelRow(45, 50, 0, 7, 1, Process(100), std::to_string((int64_t{5} << 32) + 4) + ", 9") +
      "CREATE TABLE CUPTI_ACTIVITY_KIND_GRAPH_TRACE (start INTEGER, end INTEGER, deviceId INTEGER, contextId INTEGER, "
      "streamId INTEGER, correlationId INTEGER, globalPid INTEGER, graphId INTEGER, graphExecId INTEGER);"
      "INSERT INTO CUPTI_ACTIVITY_KIND_GRAPH_TRACE VALUES (130, 190, 0, 1, 7, 2, " +
      Process(100) + ", 5, 6);");

  REQUIRE(read.status.ok());
  CHECK(read.trace.gpu.graph == std::vector<uint32_t>{5, 9, 6});
  CHECK(read.trace.gpu.node == std::vector<uint32_t>{3, 4, 0});
  CHECK(read.trace.gpu.kind[2] == GpuKind::kGraph);
  CHECK(Work(read).find("CUDA graph by cudaGraphLaunch") != std::string::npos);
}

TEST_CASE("an old export without processes, graphs and memory kinds is read", "[nsys]") {
  const Read read = ParseSql(
      "CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT); INSERT INTO StringIds VALUES "
      "(1,'gemm'),(2,'cudaMemcpy');"
      "CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INT, end INT, globalTid INT, correlationId INT, nameId INT);"
      "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INT, end INT, deviceId INT, contextId INT, streamId INT, "
      "correlationId INT, shortName INT);"
      "CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY (start INT, end INT, deviceId INT, contextId INT, streamId INT, "
      "correlationId INT, bytes INT, copyKind INT);"
      "INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (1, 5, " +
      Thread(100, 101) +
      ", 3, 2);"
      "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (10, 20, 0, 1, 7, 2, 1);"
      "INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY VALUES (22, 24, 0, 1, 7, 3, 64, 2);");

  REQUIRE(read.status.ok());
  CHECK(Work(read) == "gemm by -, DtoH by cudaMemcpy");
  CHECK(read.trace.gpu.shape[0] == kNone);
  CHECK(read.trace.pid == 100);
  CHECK(read.report.lacks.back() == "the date");
  CHECK(read.trace.clock.realtime_ns == 0);
}

TEST_CASE("an open range lasts until the last event, and one of two threads is left out", "[nsys]") {
  const std::string t = Thread(100, 101), other = Thread(100, 102);
  const Read read = ParseSql(
      kNsysNames + kNsysRuntime + kNsysNvtx + CallRow(10, 500, t, 1, 4) +
      "INSERT INTO NVTX_EVENTS (start, end, eventType, text, globalTid, endGlobalTid) VALUES (20, NULL, 59, 'open', " +
      t + ", NULL), (30, -1, 59, 'older', " + t + ", NULL), (40, 90, 60, 'crossing', " + t + ", " + other +
      "), (50, 600, 60, 'same', " + t + ", " + t + "), (0, NULL, 75, 'NCCL', " + t + ", NULL);");

  CHECK(read.Events() == "open 20+580, older 30+570, same 50+550");
  CHECK(read.Count("ranges_of_threads") == 1);
  CHECK(read.report.problems.find("1 NVTX range from one thread to another were left out") != std::string::npos);
}

TEST_CASE("warnings of nsys are said", "[nsys]") {
  const Read read = ParseSql(NsysSql() +
                             "CREATE TABLE DIAGNOSTIC_EVENT (timestamp INTEGER, severity INTEGER, text TEXT);"
                             "INSERT INTO DIAGNOSTIC_EVENT VALUES (1, 1, 'started'), (2, 2, 'events were dropped');");

  CHECK(read.report.problems == "nsys warned: events were dropped");
}

TEST_CASE("a row without sense is counted, and the others are read", "[nsys]") {
  const Read read = ParseSql(kNsysNames + kNsysRuntime + CallRow(10, 20, Thread(100, 101), 1, 4) +
                             "INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES ('soon', 20, 0, 1, 1, 4, 0, NULL);");

  CHECK(read.status.code() == StatusCode::kDataLoss);
  CHECK(read.report.events_bad == 1);
  CHECK(read.trace.calls.size() == 1);
  CHECK_FALSE(read.report.complete);
}

TEST_CASE("an export without an event is empty", "[nsys]") {
  const Read read = ParseSql(kNsysNames + kNsysRuntime);

  CHECK(read.status.code() == StatusCode::kInvalidArgument);
  CHECK(read.report.is_empty);
  CHECK(std::string(read.status.message()).find("nsys profile --trace=cuda") != std::string::npos);
}

TEST_CASE("other databases are refused by name", "[nsys]") {
  const auto why_not = [](const std::string& bytes) { return std::string(Parse(bytes).status.message()); };

  CHECK(why_not(Database("CREATE TABLE notes (text TEXT);"))
            .find("a SQLite database that neither nsys nor rocprofv3 wrote") != std::string::npos);
  CHECK(why_not(Database("CREATE TABLE StringTable (id INT); CREATE TABLE CUPTI_ACTIVITY_KIND_DRIVER (id INT);"))
            .find("a SQLite database of nvprof") != std::string::npos);
  CHECK(why_not(Database("CREATE TABLE rocpd_api (id INT);")).find("a SQLite database of rpd") != std::string::npos);
  CHECK(why_not(Gzip(Database(NsysSql()))).find("unpack it by gunzip first") != std::string::npos);
  CHECK(why_not("SQLite format 3" + std::string(200, '\0')).find("it is a SQLite database: ") == 0);
  CHECK(why_not("NVIDIA Tegra Profiler Report 1.").find("`nsys export --type sqlite REPORT`") != std::string::npos);
  CHECK(why_not("QDSTRM 1").find("`QdstrmImporter -i FILE`") != std::string::npos);
}

TEST_CASE("a report of Nsight Systems with unknown content is known by its name", "[nsys]") {
  const fakes::TempDirectory folder;
  const std::string path = folder / "run.nsys-rep";
  std::ofstream(path, std::ios::binary) << "something new";
  pitot::model::Trace trace;
  pitot::TraceReport report;

  const pitot::Status status = pitot::ReadTrace(path, &trace, &report);

  CHECK(status.code() == StatusCode::kInvalidArgument);
  CHECK(std::string(status.message()).find("`nsys export --type sqlite REPORT`") != std::string::npos);
}

TEST_CASE("a file's name does not matter, and the file is not changed", "[nsys]") {
  const std::filesystem::path folder = std::filesystem::temp_directory_path() / "pitot nsys %41?#";
  std::filesystem::create_directories(folder);
  const std::string path = folder / "a trace.json";
  const std::string bytes = Database(NsysSql());
  std::ofstream(path, std::ios::binary) << bytes;
  pitot::model::Trace trace;
  pitot::TraceReport report;

  REQUIRE(ReadTrace(path, &trace, &report).ok());

  CHECK(trace.gpu.size() == 3);
  std::ifstream file(path, std::ios::binary);
  CHECK(std::string(std::istreambuf_iterator<char>(file), {}) == bytes);
  CHECK(std::distance(std::filesystem::directory_iterator(folder), {}) == 1);
  std::filesystem::remove_all(folder);
}
