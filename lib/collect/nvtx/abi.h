// SPDX-License-Identifier: Apache-2.0
//
// The used part of NVTX 3's binary interface between an emitting library and a tool, in our own declarations. Each
// emitting library carries code of NVIDIA's headers, and hands the tool tables of function pointers ("slots") to fill.
// A test in test/collect/nvtx compares this with the headers if they are installed.
#ifndef PITOT_LIB_COLLECT_NVTX_ABI_H_
#define PITOT_LIB_COLLECT_NVTX_ABI_H_

#include <cstddef>
#include <cstdint>

namespace pitot::nvtx::abi {

inline constexpr char kVariable[] = "NVTX_INJECTION64_PATH";  // the file of the tool
inline constexpr char kEntryPoint[] = "InitializeInjectionNvtx2";

using Slot = void (*)();
using SlotTable = Slot**;  // pointers to slots
using GetExportTable = const void* (*)(uint32_t id);
using EntryPoint = int (*)(GetExportTable get);  // 0: the tool does not want this library

enum ExportTable : uint32_t { kCallbacks = 1, kVersionInfo = 3 };
struct Callbacks {
  size_t struct_size;
  int (*get_module_table)(uint32_t module, SlotTable* table, unsigned* size);  // 0: no such module
};
struct VersionInfo {
  size_t struct_size;
  uint32_t version;
  uint32_t reserved;
  void (*set_tool_version)(uint32_t version);
};
inline constexpr uint32_t kVersion = 3;

enum Module : uint32_t { kCore = 1, kCore2 = 5, kModules = 7 };
inline constexpr unsigned kModuleSizes[kModules] = {0, 16, 9, 15, 7, 16, 7};
// clang-format off
enum Core : uint32_t {
  kMarkEx = 1, kMarkA, kMarkW, kRangeStartEx, kRangeStartA, kRangeStartW, kRangeEnd, kRangePushEx, kRangePushA,
  kRangePushW, kRangePop
};
enum Core2 : uint32_t {
  kDomainMarkEx = 1, kDomainRangeStartEx, kDomainRangeEnd, kDomainRangePushEx, kDomainRangePop,
  kDomainRegisterStringA = 10, kDomainRegisterStringW, kDomainCreateA, kDomainCreateW
};
// clang-format on

// The result of pushes and pops if nobody counts their depth.
inline constexpr int kNoTracking = -2;

// clang-format off
enum PayloadType : int32_t {
  kNoPayload = 0, kUint64 = 1, kInt64 = 2, kDouble = 3, kUint32 = 4, kInt32 = 5, kFloat = 6,
  kPayloadExtension = static_cast<int32_t>(0xdfbd0009)  // `payload` is the address of `payload_count` PayloadData
};
// clang-format on
enum MessageType : int32_t { kNoMessage = 0, kAscii = 1, kWide = 2, kRegistered = 3 };

struct Attributes {
  uint16_t version;
  uint16_t size;  // as the emitter's compiler knew it: fields beyond it are absent
  uint32_t category;
  int32_t color_type;
  uint32_t color;
  int32_t payload_type;
  int32_t payload_count;
  uint64_t payload;
  int32_t message_type;
  const void* message;
};

// The payload extension: slots of its own, filled by a second entry point.
struct PayloadData {
  uint64_t schema;
  size_t size;
  const void* data;
};
inline constexpr uint64_t kFirstStaticSchema = 1 << 24;

struct Segment {
  size_t id;
  size_t slot_count;
  intptr_t* slots;
};
struct ExtensionModule {
  uint16_t version;
  uint16_t struct_size;
  uint16_t module;
  uint16_t compatibility;
  size_t segment_count;
  Segment* segments;
  intptr_t (*get_export)(uint32_t id);
  const void* info;
};
inline constexpr uint16_t kPayloadModule = 2;
// clang-format off
enum Payload : uint32_t {
  kMarkPayload = 2, kRangePushPayload, kRangePopPayload, kRangeStartPayload, kRangeEndPayload, kDomainIsEnabled
};
// clang-format on

}  // namespace pitot::nvtx::abi

// NVTX looks up these functions in the tool.
extern "C" {
[[gnu::visibility("default")]] int InitializeInjectionNvtx2(pitot::nvtx::abi::GetExportTable get);
[[gnu::visibility("default")]] int InitializeInjectionNvtxExtension(pitot::nvtx::abi::ExtensionModule* module);
}

#endif  // PITOT_LIB_COLLECT_NVTX_ABI_H_
