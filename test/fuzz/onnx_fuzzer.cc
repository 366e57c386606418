// SPDX-License-Identifier: Apache-2.0
#include "fuzz/reader.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  return fuzz::ReadAs(pitot::read::kOnnxFormat, data, size);
}

#ifdef PITOT_CORPUS_WRITER
namespace {

constexpr const char* kSample = R"json([
{"cat" : "Session","pid" :7,"tid" :7,"dur" :90,"ts" :100,"ph" : "X","name" :"model_run","args" : {}},
{"cat" : "Node","pid" :7,"tid" :7,"dur" :1,"ts" :101,"ph" : "X","name" :"c_fence_before","args" : {"op_name" : "Conv"}},
{"cat" : "Node","pid" :7,"tid" :7,"dur" :20,"ts" :110,"ph" : "X","name" :"c_kernel_time","args" : {"op_name" : "Conv",
 "provider" : "CUDAExecutionProvider","input_type_shape" : [{"float":[1,3,4,4]},{"int64":[]}],"output_type_shape" : [{"float":[1,8]}]}},
{"cat" : "Kernel","pid" :-1,"tid" :-1,"dur" :8,"ts" :120,"ph" : "X","name" :"gemm","args" : {"stream" : "7","grid_x" : "8",
 "grid_y" : "1","grid_z" : "1","block_x" : "256","block_y" : "1","block_z" : "1","op_name" : "Conv"}},
{"cat" : "Kernel","pid" :-1,"tid" :-1,"dur" :1,"ts" :130,"ph" : "X","name" :"MemcpyHostToDevice","args" : {"stream" : "7"}},
{"cat" : "Api","pid" :7,"tid" :8,"dur" :1,"ts" :140,"ph" : "X","name" :"api","args" : {}}
])json";

}  // namespace

bool fuzz::WriteCorpus(const std::string& folder) {
  const std::string sample = kSample;
  return fuzz::WriteFile(folder + "/sample", sample) && fuzz::WriteFile(folder + "/cut", sample.substr(0, 500));
}
#endif
