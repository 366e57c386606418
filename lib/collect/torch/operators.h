// SPDX-License-Identifier: Apache-2.0
//
// What LibTorch says of its operators and ranges, as scopes of the thread that runs them. LibTorch calls plain
// functions without a context: whether they are called is all that is chosen here.
#ifndef PITOT_LIB_COLLECT_TORCH_OPERATORS_H_
#define PITOT_LIB_COLLECT_TORCH_OPERATORS_H_

#include <cstdint>

namespace pitot::libtorch {

enum class Detail { kRanges, kOperators, kShapes };

// Has LibTorch call us. One at a time.
class Operators {
 public:
  // Ranges only. Throws what LibTorch throws.
  Operators();
  ~Operators();  // throws nothing
  Operators(const Operators&) = delete;
  Operators& operator=(const Operators&) = delete;

  // What is recorded from now on; threads see it at their next operator. Throws what LibTorch throws: then operators
  // may be recorded without their shapes, or not be. Cost: a lock of LibTorch's. One call at a time.
  void Record(Detail detail);
  bool AreRecorded() const noexcept { return operators_ != 0; }

 private:
  uint64_t ranges_, operators_ = 0, inputs_ = 0;  // LibTorch's handles; 0: none
};

}  // namespace pitot::libtorch

#endif  // PITOT_LIB_COLLECT_TORCH_OPERATORS_H_
