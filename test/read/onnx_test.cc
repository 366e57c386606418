// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch.hpp>
#include <string>

#include "read/parse.h"

using pitot::SiteKind;
using pitot::StatusCode;
using pitot::model::GpuKind;
using read_test::Parse;
using read_test::Read;

namespace {

std::string Event(const std::string& category, const std::string& name, const std::string& begin_us,
                  const std::string& duration_us, const std::string& args = "") {
  return R"({"cat" : ")" + category + R"(","pid" :7,"tid" :7,"dur" :)" + duration_us + R"(,"ts" :)" + begin_us +
         R"(,"ph" : "X","name" :")" + name + R"(","args" : {)" + args + "}}";
}
const std::string kRun = Event("Session", "model_run", "100", "50");

}  // namespace

TEST_CASE("a node becomes an operator by its type, within its session's scope", "[onnx]") {
  const Read read = Parse(
      "[" + kRun + "," +
      Event(
          "Node", "conv1_kernel_time", "110", "20",
          R"("op_name" : "Conv","provider" : "CPUExecutionProvider","input_type_shape" : [{"float":[1,3,4,4]},{"int64":[]}],)"
          R"("output_type_shape" : [{"float":[1, 8]}])") +
      "]");

  REQUIRE(read.status.ok());
  CHECK(read.Events() == "model_run 100000+50000, Conv 110000+20000");
  const auto& site = read.trace.sites[1];
  CHECK(site.kind == SiteKind::kOperator);
  std::string args;
  for (size_t i = 0; i < site.arg_names.size(); ++i)
    args += read.Name(site.arg_names[i]) + "=" + read.Name(static_cast<uint32_t>(read.trace.arg_values[i])) + " ";
  CHECK(args ==
        R"(shapes=[[1,3,4,4],[]] types=["float","int64"] outputs=[[1,8]] node=conv1 provider=CPUExecutionProvider )");
}

TEST_CASE("fences around a node are scopes, not operators", "[onnx]") {
  const Read read =
      Parse("[" + kRun + "," + Event("Node", "c_fence_before", "101", "2", R"("op_name" : "Conv")") + "]");

  REQUIRE(read.trace.sites.size() == 2);
  CHECK(read.trace.sites[1].kind == SiteKind::kScope);
  CHECK(read.Name(read.trace.sites[1].name) == "c_fence_before");
}

TEST_CASE("a kernel becomes GPU work on its stream, and a copy a copy", "[onnx]") {
  const Read read = Parse(
      "[" + kRun + "," +
      Event(
          "Kernel", "gemm", "120", "8",
          R"("stream" : "7","grid_x" : "8","grid_y" : "1","grid_z" : "1","block_x" : "256","block_y" : "1","block_z" : "1","op_name" : "Conv")") +
      "," + Event("Kernel", "MemcpyHostToDevice", "129", "1", R"("stream" : "7","grid_x" : "-1")") + "]");

  REQUIRE(read.status.ok());
  const auto& gpu = read.trace.gpu;
  REQUIRE(gpu.size() == 2);
  CHECK(gpu.kind == std::vector<GpuKind>{GpuKind::kKernel, GpuKind::kMemcpy});
  CHECK(read.trace.streams[0].stream == 7);
  CHECK(read.trace.shapes[gpu.shape[0]].block[0] == 256);
  CHECK(read.Name(gpu.scope_path[0]) == "Conv");
  for (const std::string& lack : read.report.lacks) CHECK(lack.find("GPU work (") == std::string::npos);
}

TEST_CASE("a profile without sizes of inputs or GPU work says so", "[onnx]") {
  const Read read = Parse("[" + kRun + "," + Event("Node", "c_kernel_time", "101", "2", R"("op_name" : "Conv")") + "]");

  std::string lacks;
  for (const std::string& lack : read.report.lacks) lacks += lack + "|";
  CHECK(lacks.find("sizes of inputs") != std::string::npos);
  CHECK(lacks.find("GPU work (") != std::string::npos);
}

TEST_CASE("events at impossible times of a profile are named", "[onnx]") {
  const Read read = Parse("[" + kRun + "," + Event("Session", "a", "-1", "2") + "]");

  CHECK(read.Events() == "model_run 100000+50000");
  CHECK(read.report.problems == "1 event had a time before 0 or beyond 2^62 ns");
}

TEST_CASE("a profile that was cut off gives its whole events", "[onnx]") {
  const Read read = Parse("[" + kRun + ",\n{\"cat\" : \"Node\",\"pid\" :7");

  CHECK(read.status.code() == StatusCode::kDataLoss);
  CHECK(read.Events() == "model_run 100000+50000");
}
