// SPDX-License-Identifier: Apache-2.0
#include "fuzz/reader.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  return fuzz::ReadAs(pitot::read::kJaxFormat, data, size);
}

#ifdef PITOT_CORPUS_WRITER
namespace {

constexpr const char* kSample = R"json({"displayTimeUnit":"ns","metadata":{"highres-ticks":true},"traceEvents":[
{"ph":"M","pid":701,"name":"process_name","args":{"name":"/host:CPU"}},
{"ph":"M","pid":701,"tid":9,"name":"thread_name","args":{"name":"python"}},
{"ph":"M","pid":1,"name":"process_name","args":{"name":"/device:GPU:0"}},
{"ph":"M","pid":1,"tid":20,"name":"thread_name","args":{"name":"Stream #20(Compute,MemcpyH2D)"}},
{"ph":"M","pid":1,"tid":2,"name":"thread_name","args":{"name":"XLA Ops"}},
{"ph":"M","pid":3,"name":"process_name","args":{"name":"/device:TPU:0"}},
{"ph":"M","pid":3,"tid":2,"name":"thread_name","args":{"name":"XLA Ops"}},
{"ph":"X","pid":701,"tid":9,"ts":90,"dur":50,"name":"train","args":{"step_num":"0","_src":"a.cc"}},
{"ph":"X","pid":701,"tid":9,"ts":100,"dur":5,"name":"cuLaunchKernel","args":{"correlation_id":"77"}},
{"ph":"X","pid":701,"tid":9,"ts":106,"dur":5,"name":"dot.3","args":{"hlo_op":"dot.3","hlo_module":"jit_f"}},
{"ph":"X","pid":1,"tid":20,"ts":110.5,"dur":20,"name":"fusion_1","args":{"correlation_id":"77","hlo_module":"jit_f",
 "hlo_op":"fusion.1","kernel_details":"regs:40 static_shared:16 dynamic_shared:1024 grid:8,2,1 block:256,1,1 occ_pct:50"}},
{"ph":"X","pid":1,"tid":20,"ts":131,"dur":2,"name":"MemcpyH2D","args":{"correlation_id":"78",
 "memcpy_details":"kind_src:pageable kind_dst:device size:4096 dest:0 async:1"}},
{"ph":"X","pid":1,"tid":2,"ts":110.5,"dur":20,"name":"fusion.1"},
{"ph":"X","pid":3,"tid":2,"ts":110,"dur":20,"name":"fusion.2"},{}]})json";

}  // namespace

bool fuzz::WriteCorpus(const std::string& folder) {
  const std::string sample = kSample;
  return fuzz::WriteFile(folder + "/sample", sample) && fuzz::WriteFile(folder + "/cut", sample.substr(0, 1500));
}
#endif
