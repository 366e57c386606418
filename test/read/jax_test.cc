// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch.hpp>
#include <string>

#include "pitot/analyze/top.h"
#include "read/parse.h"

using pitot::SiteKind;
using pitot::model::GpuKind;
using read_test::Parse;
using read_test::Read;

namespace {

std::string Named(const std::string& what, const std::string& pid, const std::string& tid, const std::string& name) {
  return R"({"ph":"M","pid":)" + pid + R"(,"tid":)" + tid + R"(,"name":")" + what + R"(","args":{"name":")" + name +
         "\"}},";
}
std::string Event(const std::string& pid, const std::string& tid, const std::string& name, const std::string& begin_us,
                  const std::string& duration_us, const std::string& args = "") {
  return R"({"ph":"X","pid":)" + pid + R"(,"tid":)" + tid + R"(,"ts":)" + begin_us + R"(,"dur":)" + duration_us +
         R"(,"name":")" + name + R"(","args":{)" + args + "}},";
}
Read ParseEvents(const std::string& events) {
  return Parse(R"({"displayTimeUnit":"ns","metadata":{"highres-ticks":true},"traceEvents":[)" + events + "{}]}");
}

const std::string kHost = Named("process_name", "701", "0", "/host:CPU") + Named("thread_name", "701", "9", "python");
const std::string kGpu = Named("process_name", "1", "0", "/device:GPU:0") +
                         Named("thread_name", "1", "20", "Stream #20(Compute,MemcpyD2D)") +
                         Named("thread_name", "1", "2", "XLA Ops") + Named("thread_name", "1", "1", "Steps");

}  // namespace

TEST_CASE("a GPU's kernel has its launch, shape, module and operation", "[jax]") {
  const Read read = ParseEvents(
      kHost + kGpu + Event("701", "9", "cuLaunchKernel", "100", "5", R"("correlation_id":"77")") +
      Event("1", "20", "fusion_1", "110.5", "20",
            R"("correlation_id":"77","hlo_module":"jit_f","hlo_op":"fusion.1",)"
            R"("kernel_details":"regs:40 static_shared:16 dynamic_shared:1024 grid:8,2,1 block:256,1,1 occ_pct:50")") +
      Event("1", "2", "fusion.1", "110.5", "20") + Event("1", "1", "0", "100", "40"));

  REQUIRE(read.status.ok());
  const auto& gpu = read.trace.gpu;
  REQUIRE(gpu.size() == 1);
  CHECK(gpu.begin_ns[0] == 110500);
  CHECK(read.Name(read.trace.calls.name.at(gpu.call[0])) == "cuLaunchKernel");
  CHECK(read.Name(gpu.scope_path[0]) == "jit_f / fusion.1");
  const auto& shape = read.trace.shapes.at(gpu.shape[0]);
  CHECK(shape.grid[1] == 2);
  CHECK(shape.block[0] == 256);
  CHECK(shape.static_shared_bytes == 16);
  CHECK(shape.dynamic_shared_bytes == 1024);
  CHECK(shape.registers_per_thread == 40);
  CHECK(read.trace.streams[0].stream == 20);
  CHECK(read.Name(read.trace.devices[0].name) == "GPU:0");
  CHECK(read.Count("derived") == 2);  // the lines that repeat the stream's work
}

TEST_CASE("an operation on a GPU is an operator in the table of costs", "[jax]") {
  const Read read = ParseEvents(
      kHost + kGpu + Event("701", "9", "cuLaunchKernel", "100", "5", R"("correlation_id":"77")") +
      Event("1", "20", "fusion_1", "110", "20", R"("correlation_id":"77","hlo_module":"jit_f","hlo_op":"fusion.1")"));

  pitot::analyze::TopTable table;
  REQUIRE(FindTop(read.trace, {}, &table).ok());
  REQUIRE(table.rows.size() == 1);
  CHECK(table.rows[0].name == "fusion.1");
  CHECK(table.rows[0].self_gpu_ns == 20000);
}

TEST_CASE("a copy has its direction, kinds of memory and size", "[jax]") {
  const Read read =
      ParseEvents(kHost + kGpu +
                  Event("1", "20", "MemcpyH2D", "1", "2",
                        R"("memcpy_details":"kind_src:pageable kind_dst:device size:4096 dest:0 async:1")"));

  REQUIRE(read.trace.gpu.size() == 1);
  CHECK(read.trace.gpu.kind[0] == GpuKind::kMemcpy);
  CHECK(read.trace.gpu.bytes[0] == 4096);
  CHECK(read.Name(read.trace.gpu.name[0]) == "HtoD, pageable to device");
}

TEST_CASE("a device without streams has its operations as work", "[jax]") {
  const Read read = ParseEvents(Named("process_name", "3", "0", "/device:TPU:0") +
                                Named("thread_name", "3", "1", "Steps") + Named("thread_name", "3", "2", "XLA Ops") +
                                Event("3", "1", "0", "1", "9") + Event("3", "2", "fusion.2", "2", "3"));

  REQUIRE(read.trace.gpu.size() == 1);
  CHECK(read.Name(read.trace.gpu.name[0]) == "fusion.2");
  CHECK(read.Name(read.trace.devices[0].name) == "TPU:0");
}

TEST_CASE("a Python function has its file and line", "[jax]") {
  const Read read = ParseEvents(kHost + Event("701", "9", "$serve.py:12 Model.step", "1", "9") +
                                Event("701", "9", "$builtins any", "2", "3") + Event("701", "9", "", "5", "1"));

  REQUIRE(read.trace.sites.size() == 3);
  CHECK(read.Name(read.trace.sites[0].file) == "serve.py");
  CHECK(read.trace.sites[0].line == 12);
  CHECK(read.Name(read.trace.sites[0].function) == "Model.step");
  CHECK(read.trace.sites[1].file == 0);
}

TEST_CASE("an operation on a thread of the CPU is an operator, and an annotation a scope", "[jax]") {
  const Read read =
      ParseEvents(kHost + Event("701", "9", "train", "1", "9", R"("step_num":"0")") +
                  Event("701", "9", "dot.3", "2", "3", R"("hlo_op":"dot.3","hlo_module":"jit_f","_src":"x.cc")"));

  REQUIRE(read.status.ok());
  CHECK(read.Events() == "train 1000+9000, dot.3 2000+3000");
  CHECK(read.trace.sites[0].kind == SiteKind::kScope);
  CHECK(read.trace.sites[1].kind == SiteKind::kOperator);
  CHECK(read.trace.sites[1].arg_names.size() == 2);
  CHECK(read.trace.pid == 0);
  CHECK(read.Name(read.trace.threads[0].name) == "python");
}

TEST_CASE("events at impossible times of a JAX trace are named", "[jax]") {
  const Read read = ParseEvents(kHost + Event("701", "9", "a", "-1", "9") + Event("701", "9", "b", "1", "-2") +
                                Event("701", "9", "c", "1", "2"));

  CHECK(read.Events() == "c 1000+2000, b 1000+0");
  CHECK(read.Count("times_out_of_range") == 1);
  CHECK(read.report.problems ==
        "1 event had a time before 0 or beyond 2^62 ns; 1 event had a negative duration, taken as 0");
}

TEST_CASE("a device's work is counted once if its lines are named before it", "[jax]") {
  const Read read =
      ParseEvents(Named("thread_name", "1", "20", "Stream #20(Compute)") + Named("thread_name", "1", "2", "XLA Ops") +
                  Named("process_name", "1", "0", "/device:GPU:0") + Event("1", "20", "fusion_1", "110", "20") +
                  Event("1", "2", "fusion.1", "110", "20"));

  CHECK(read.trace.gpu.size() == 1);
  CHECK(read.Count("derived") == 1);
}

TEST_CASE("a document after the end of a JAX trace has planes of its own", "[jax]") {
  const std::string gpu = kGpu + Event("1", "20", "fusion_1", "110", "20") + Event("1", "2", "fusion.1", "110", "20");
  const std::string tpu = Named("process_name", "1", "0", "/device:TPU:0") + Named("thread_name", "1", "2", "XLA Ops") +
                          Event("1", "2", "fusion.2", "110", "20");
  const Read read = Parse(R"({"traceEvents":[)" + gpu + R"({}]}{"traceEvents":[)" + tpu + "{}]}");

  CHECK(read.trace.gpu.size() == 2);
  CHECK(read.Count("derived") == 1);
}

TEST_CASE("a copy of 4 GiB and more has its bytes", "[jax]") {
  const Read read = ParseEvents(kGpu + Event("1", "20", "MemcpyH2D", "1", "9",
                                             R"("memcpy_details":"kind_src:pinned kind_dst:device size:8589934592")"));

  REQUIRE(read.trace.gpu.size() == 1);
  CHECK(read.trace.gpu.bytes[0] == 8589934592);
}
