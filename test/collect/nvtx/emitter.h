// SPDX-License-Identifier: Apache-2.0
//
// An emitting library: the functions it exports for tests. One is built with NVIDIA's headers if they are installed,
// one without their code.
#ifndef PITOT_TEST_COLLECT_NVTX_EMITTER_H_
#define PITOT_TEST_COLLECT_NVTX_EMITTER_H_

#include <cstddef>
#include <cstdint>

#include "collect/nvtx/abi.h"

struct Emitter {
  using Attributes = pitot::nvtx::abi::Attributes;
  using PayloadData = pitot::nvtx::abi::PayloadData;
  void (*mark_a)(const char*);
  void (*mark_ex)(const Attributes*);
  int (*push_a)(const char*);
  int (*push_w)(const wchar_t*);
  int (*push_ex)(const Attributes*);
  int (*pop)();
  uint64_t (*start_a)(const char*);
  void (*end)(uint64_t);
  void* (*create_domain)(const char*);
  void* (*register_string)(void* domain, const char*);
  void (*domain_mark)(void* domain, const Attributes*);
  int (*domain_push)(void* domain, const Attributes*);
  int (*domain_pop)(void* domain);
  uint64_t (*domain_start)(void* domain, const Attributes*);
  void (*domain_end)(void* domain, uint64_t);
  // The library's own, not a call of NVTX: whether slots that no tool of ours fills are null.
  bool (*leaves_others_null)();
  // For the payload extension; null if the library does not have it.
  int (*push_payload)(void* domain, const PayloadData*, size_t count);
  int (*pop_payload)(void* domain, const PayloadData*, size_t count);
  uint8_t (*is_enabled)(void* domain);
};

extern "C" [[gnu::visibility("default")]] const Emitter* GetEmitter();

#endif  // PITOT_TEST_COLLECT_NVTX_EMITTER_H_
