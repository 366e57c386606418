// SPDX-License-Identifier: Apache-2.0
#include "model/kernel_name.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <iterator>
#include <random>
#include <string>

#include "serialize/sample_trace.h"

using pitot::model::ActivityName;
using pitot::model::BriefName;
using pitot::model::ReadKernelName;
using pitot::model::ShortName;

namespace {

// A compiled name's reference to its n-th part.
std::string NumberOf(int n) {
  constexpr const char* kDigits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ";
  std::string digits;
  for (--n; n >= 0; n = n / 36 - (n < 36)) digits.insert(digits.begin(), kDigits[n % 36]);
  return "S" + digits + "_";
}

}  // namespace

TEST_CASE("a compiled name becomes C++, with a brief name without types and arguments", "[kernel_name]") {
  const auto name = ReadKernelName("_ZN2at6native13reduce_kernelILi512ELi1EfEEvPT1_i");
  CHECK(name.full == "void at::native::reduce_kernel<512, 1, float>(float*, int)");
  CHECK(name.brief == "at::native::reduce_kernel");
  CHECK(ReadKernelName("_Z4gemmPf").full == "gemm(float*)");
  CHECK(ReadKernelName("_Z4gemmPf").brief == "gemm");
}

TEST_CASE("text that is not a C++ name is unchanged", "[kernel_name]") {
  for (const char* name :
       {"sm90_xmma_gemm_f16f16", "", "_Z", "_Znonsense", "_ZN", "ncclDevKernel_AllReduce", "_Z99x"}) {
    CHECK(ReadKernelName(name).full == name);
    CHECK(ReadKernelName(name).brief == name);
  }
}

TEST_CASE("a name too long for the demangler still has a brief name", "[kernel_name]") {
  std::string compiled = "_ZN7cutlass12_GLOBAL__N_113device_kernelIN4cute5tupleIJ";
  for (int i = 0; i < 20000; ++i) compiled += "Li1E";  // never closed
  const auto name = ReadKernelName(compiled);
  CHECK(name.full == compiled);
  CHECK(name.brief == "cutlass::device_kernel");
}

TEST_CASE("a name that would fill the memory is not demangled", "[kernel_name]") {
  // f(a<a<a<int, int>, a<int, int> >, ...>): each level contains the level before it twice.
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

// PyTorch's batch_norm_transform_input_kernel<Half, Half, float, false, int> as compiled by g++. Its accessors of
// tensors make 33 references.
TEST_CASE("a name of many references is demangled like by any demangler", "[kernel_name]") {
  const auto name = ReadKernelName(
      "_ZN2at6native33batch_norm_transform_input_kernelIN3c104HalfES3_fLb0EiEEvRKNS_27GenericPackedTensorAc"
      "cessorIKT_Lm3ENS_16DefaultPtrTraitsET3_EERNS4_IS5_Lm3ES7_S8_EERKNS4_INSt11conditionalIXT2_ET1_T0_E4t"
      "ypeELm1ES7_S8_EEPSK_RKNS4_IKSG_Lm1ES7_S8_EEPSP_SF_PNS4_INS4_IS5_Lm2ES7_S8_EELm2ES7_S8_EEPFvSD_S8_SG_"
      "SO_E");
  CHECK(name.full ==
        "void at::native::batch_norm_transform_input_kernel<c10::Half, c10::Half, float, false, int>(at::Gene"
        "ricPackedTensorAccessor<c10::Half const, 3ul, at::DefaultPtrTraits, int> const&, at::GenericPackedTe"
        "nsorAccessor<c10::Half, 3ul, at::DefaultPtrTraits, int>&, at::GenericPackedTensorAccessor<std::condi"
        "tional<false, float, c10::Half>::type, 1ul, at::DefaultPtrTraits, int> const&, at::GenericPackedTens"
        "orAccessor<std::conditional<false, float, c10::Half>::type, 1ul, at::DefaultPtrTraits, int> const*, "
        "at::GenericPackedTensorAccessor<c10::Half const, 1ul, at::DefaultPtrTraits, int> const&, at::Generic"
        "PackedTensorAccessor<c10::Half const, 1ul, at::DefaultPtrTraits, int> const*, float, at::GenericPack"
        "edTensorAccessor<at::GenericPackedTensorAccessor<c10::Half, 2ul, at::DefaultPtrTraits, int>, 2ul, at"
        "::DefaultPtrTraits, int>*, void (*)(at::GenericPackedTensorAccessor<c10::Half, 3ul, at::DefaultPtrTr"
        "aits, int>&, int, c10::Half, at::GenericPackedTensorAccessor<c10::Half const, 1ul, at::DefaultPtrTra"
        "its, int>))");
  CHECK(name.brief == "at::native::batch_norm_transform_input_kernel");
}

TEST_CASE("a name that doubles with every reference is not demangled", "[kernel_name]") {
  // f(n<n<n<n<int, int>, 1st>, 2nd>, ...>): one reference a level.
  for (const int levels : {4, 22, 40}) {
    std::string compiled = "_Z1f", close = "1aIiiE";
    for (int level = 0; level < levels; ++level) compiled += "1nI";
    compiled += close;
    // The parts are 1n of each level, 1a and 1aIiiE. The last part is the first to be referred to.
    for (int level = 0; level < levels; ++level) compiled += NumberOf(levels + 1 + level) + "E";
    const auto name = ReadKernelName(compiled);
    CHECK(name.full.size() < 20000);
    CHECK((name.full == compiled) == (levels > 10));
    CHECK(name.brief == "f");
  }
}

TEST_CASE("damaged and invented names are read within bounds", "[kernel_name]") {
  const std::string names[] = {
      "_ZN2at6native13reduce_kernelILi512ELi1EfEEvPT1_i",
      "_ZN2at6native18elementwise_kernelILi128ELi4EZNS0_22gpu_kernel_impl_nocastIZZZNS0_23direct_copy_kernel_cudaERNS_"
      "18TensorIteratorBaseEENKUlvE1_clEvENKUlvE5_clEvEUlfE_EEvS4_RKT_EUliE_EEviT1_",
      "_Z1fIJifdEEvDpT_", "_ZN1AcvT_IiEEv", "_Z1fI1aIS_S0_ES1_EvT_T0_S2_"};
  std::mt19937 random(7);
  const auto any = [&](size_t below) { return std::uniform_int_distribution<size_t>(0, below - 1)(random); };
  const std::string parts[] = {"S_", "S0_", "S1_", "T_", "T0_", "DpT_", "I",  "E",
                               "N",  "J",   "1a",  "P",  "F",   "Z",    "St", "i"};
  for (int i = 0; i < 20000; ++i) {
    std::string compiled = names[any(std::size(names))];
    for (size_t changes = 1 + any(12); changes > 0; --changes) {
      const size_t at = 2 + any(compiled.size() - 2);
      compiled.replace(at, any(3), any(4) == 0 ? compiled.substr(2, any(60)) : parts[any(std::size(parts))]);
      if (compiled.size() < 4) compiled = names[0];
    }
    const auto name = ReadKernelName(compiled);
    REQUIRE(name.full.size() <= std::max<size_t>(compiled.size(), 16 << 10));
    REQUIRE(name.brief.size() <= size_t{1} << 20);
    REQUIRE(name.full.find_first_of("\1\2") == std::string::npos);
  }
}

TEST_CASE("copies, sets and graphs are named after their kind, spans by the host's name", "[kernel_name]") {
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

TEST_CASE("a long name is cut in its middle, one of Python's own functions at its end", "[kernel_name]") {
  CHECK(ShortName("torch/nn/modules/module.py(1743): _call_impl", 20) == "torch/nn/...all_impl");
  CHECK(ShortName("<built-in method linear of type object>", 28) == "<built-in method linear o...");
}

TEST_CASE("unusual names have brief names, too", "[kernel_name]") {
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
