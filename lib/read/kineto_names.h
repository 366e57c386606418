// SPDX-License-Identifier: Apache-2.0
//
// The words of Kineto's traces: kinds of events, and names that other recorders and other runs write differently.
#ifndef PITOT_LIB_READ_KINETO_NAMES_H_
#define PITOT_LIB_READ_KINETO_NAMES_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "read/kineto_event.h"

namespace pitot::read {

inline constexpr size_t kMostNameBytes = 64 << 10;

enum class Category : uint8_t {
  kUnknown,  // to this reader
  kUnused,
  kOperator,
  kScope,
  kInstant,  // of other tools
  kCall,
  kKernel,
  kMemcpy,
  kMemset,
  kGraph,  // of other tools
  kSync,
  kHostSync,  // a call of its thread, which the file only knows by its number
  kOverhead
};

// By Kineto's names of kinds (libkineto/include/ActivityType.h), and those of PyTorch 1.8.
Category CategoryOf(const KinetoEvent& event);
// Whether a kind of this name shows that the file is Kineto's. General names ("kernel") only do next to an argument
// that Kineto writes.
bool IsKinetoKind(std::string_view name, bool has_kineto_argument);
// Returns "HtoD, pageable to device" for "Memcpy HtoD (Pageable -> Device)", "DtoH, device to memory" for Intel's
// "Memcpy D2M(DEVICE -> MEMORY)" and "HtoD" for roctracer's "CopyHostToDevice" and "CopyHostToDevice2D". Other names
// are unchanged.
std::string CopyName(std::string_view name);
// Returns "<built-in method linear of type object>" for "<built-in method linear of type object at 0x7499b741df60>":
// addresses differ from process to process.
std::string WithoutAddresses(std::string_view name);
// The label of a process in a file of several ranks, "[TP00]" of "[TP00] 5000"; "" if there is none.
std::string_view LabelOf(std::string_view pid);

}  // namespace pitot::read

#endif  // PITOT_LIB_READ_KINETO_NAMES_H_
