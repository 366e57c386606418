// SPDX-License-Identifier: Apache-2.0
#include "serialize/kernel_name.h"

#include <catch2/catch.hpp>

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
