// SPDX-License-Identifier: Apache-2.0
//
// The UUIDs by which GPUs of several processes are told apart: their text, and the attributes of a trace that hold
// them. lib/assemble and readers write these; lib/read/join.cc reads them.
#ifndef PITOT_LIB_BASE_GPU_UUID_H_
#define PITOT_LIB_BASE_GPU_UUID_H_

#include <cstdint>
#include <string>

namespace pitot::base {

// As nvidia-smi writes it: "GPU-5c0f...".
inline std::string GpuUuidText(const unsigned char (&uuid)[16]) {
  std::string text = "GPU";
  for (int i = 0; i < 16; ++i) {
    if (i == 0 || i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    text += "0123456789abcdef"[uuid[i] >> 4];
    text += "0123456789abcdef"[uuid[i] & 15];
  }
  return text;
}

// The attribute of the device with this ordinal: "gpu.0.uuid".
inline std::string GpuUuidKey(uint32_t ordinal) { return "gpu." + std::to_string(ordinal) + ".uuid"; }

}  // namespace pitot::base

#endif  // PITOT_LIB_BASE_GPU_UUID_H_
