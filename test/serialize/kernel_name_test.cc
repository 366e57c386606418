// SPDX-License-Identifier: Apache-2.0
#include "serialize/kernel_name.h"

#include <catch2/catch.hpp>

#include "serialize/sample_trace.h"

using pitot::serialize::ActivityName;
using pitot::serialize::BriefName;
using pitot::serialize::ReadKernelName;

TEST_CASE("a compiled name becomes C++, and its brief name has neither types nor arguments", "[kernel_name]") {
  const auto name = ReadKernelName("_ZN2at6native13reduce_kernelILi512ELi1EfEEvPT1_i");
  CHECK(name.full == "void at::native::reduce_kernel<512, 1, float>(float*, int)");
  CHECK(name.brief == "at::native::reduce_kernel");
  CHECK(ReadKernelName("_Z4gemmPf").full == "gemm(float*)");
  CHECK(ReadKernelName("_Z4gemmPf").brief == "gemm");
}

TEST_CASE("what is no C++ name is left as it is", "[kernel_name]") {
  for (const char* name :
       {"sm90_xmma_gemm_f16f16", "", "_Z", "_Znonsense", "_ZN", "ncclDevKernel_AllReduce", "_Z99x"}) {
    CHECK(ReadKernelName(name).full == name);
    CHECK(ReadKernelName(name).brief == name);
  }
}

TEST_CASE("a name that is too long for the demangler is brief all the same", "[kernel_name]") {
  std::string compiled = "_ZN7cutlass12_GLOBAL__N_113device_kernelIN4cute5tupleIJ";
  for (int i = 0; i < 20000; ++i) compiled += "Li1E";  // never closed
  const auto name = ReadKernelName(compiled);
  CHECK(name.full == compiled);
  CHECK(name.brief == "cutlass::device_kernel");
}

TEST_CASE("a name that would fill the memory is not written out", "[kernel_name]") {
  // f(a<a<a<int, int>, a<int, int> >, ...>): each level says twice what the one before is.
  for (const int levels : {2, 12, 34}) {
    std::string compiled = "_Z1f1aIiiE";
    for (int level = 0; level < levels; ++level) {
      const std::string before = std::string("S") + "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"[level] + "_";
      compiled += "S_I" + before + before + "E";
    }
    const auto name = ReadKernelName(compiled);
    CHECK(name.full.size() < 20000);
    CHECK((name.full == compiled) == (levels > 10));
    CHECK(name.brief == "f");
  }
}

TEST_CASE("copies, sets and graphs are named after their kind, spans as the host calls them", "[kernel_name]") {
  pitot::test::TraceMaker maker;
  maker.trace.streams.push_back({});
  const auto name = [&](pitot::model::GpuKind kind, const char* text, uint32_t graph) {
    maker.Gpu(0, kind, text, 0, 1, pitot::model::kNone, pitot::model::kNone, 0, graph);
    return ActivityName(maker.trace, maker.trace.gpu.size() - 1);
  };
  CHECK(name(pitot::model::GpuKind::kMemcpy, "HtoD, pinned to device", 0) == "memcpy HtoD, pinned to device");
  CHECK(name(pitot::model::GpuKind::kMemset, "", 0) == "memset");
  CHECK(name(pitot::model::GpuKind::kGraph, "graph", 5) == "graph 5");
  CHECK(name(pitot::model::GpuKind::kGraph, "", 5) == "graph 5");
  CHECK(name(pitot::model::GpuKind::kGraph, "decode 16", 5) == "decode 16");
  CHECK(name(pitot::model::GpuKind::kGraph, "", 0) == "graph");
  CHECK(name(pitot::model::GpuKind::kSpan, "forward", 0) == "forward");
  CHECK(name(pitot::model::GpuKind::kSpan, "", 0) == "span");
}

TEST_CASE("brief names of odd kinds", "[kernel_name]") {
  CHECK(BriefName("f(int)") == "f");
  CHECK(BriefName("f") == "f");
  CHECK(BriefName("") == "");
  CHECK(BriefName("void f<(E)1, void (*)(int)>(int)") == "f");
  CHECK(BriefName("std::enable_if<(sizeof(int) > 4), void>::type f<int>(int)") == "f");
  CHECK(BriefName("decltype (a+b) f<int>(int)") == "f");
  CHECK(BriefName("decltype(a+b) f<int>(int)") == "f");
  CHECK(BriefName("void (anonymous namespace)::f<int>(int)") == "f");
  CHECK(BriefName("void a::(anonymous namespace)::f(int)") == "a::f");
  CHECK(BriefName("a::b(int) const::{lambda(int)#2}::operator()(int) const") == "a::b::{lambda}::operator()");
  CHECK(BriefName("void a::b<int>(int)::c<x>(float) const") == "a::b::c");
  CHECK(BriefName("bool a::operator< <int>(int)") == "a::operator<");
  CHECK(BriefName("my_operator(int)") == "my_operator");
  CHECK(BriefName("void f<a->b>(int)") == "f");
  CHECK(BriefName("unsigned long f<") == "f");
  CHECK(BriefName("f(((") == "f");
}
