// SPDX-License-Identifier: Apache-2.0
//
// LibTorch's operators and ranges, as scopes of the threads running them. LibTorch calls plain functions without a
// context: only whether it calls them is chosen here.
#ifndef PITOT_LIB_COLLECT_TORCH_OPERATORS_H_
#define PITOT_LIB_COLLECT_TORCH_OPERATORS_H_

#include <cstdint>

namespace pitot::libtorch {

enum class Detail { kRanges, kOperators, kShapes };

// Has LibTorch call us. One instance at a time.
class Operators {
 public:
  // Records ranges only. Throws LibTorch's exceptions.
  Operators();
  ~Operators();  // throws nothing
  Operators(const Operators&) = delete;
  Operators& operator=(const Operators&) = delete;

  // Records this detail from now on; threads see it at their next operator. Throws LibTorch's exceptions: operators may
  // then be recorded without their shapes, or not at all. Cost: a lock of LibTorch's. One call at a time.
  void Record(Detail detail);
  bool AreRecorded() const noexcept { return operators_ != 0; }

 private:
  uint64_t ranges_, operators_ = 0, inputs_ = 0;  // LibTorch's handles; 0: none
};

}  // namespace pitot::libtorch

#endif  // PITOT_LIB_COLLECT_TORCH_OPERATORS_H_
