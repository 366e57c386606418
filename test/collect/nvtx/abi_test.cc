// SPDX-License-Identifier: Apache-2.0
//
// Compares our declarations of NVTX with NVIDIA's headers, if they are installed.
#include "collect/nvtx/abi.h"

#define NVTX_NO_IMPL
#include <nvtx3/nvToolsExt.h>
#if __has_include(<nvtx3/nvToolsExtPayload.h>)
#include <nvtx3/nvToolsExtPayload.h>
#endif

namespace {

namespace abi = pitot::nvtx::abi;

#define SAME(ours, real) static_assert(static_cast<long long>(ours) == static_cast<long long>(real))
#define SAME_PLACE(our_struct, ours, real_struct, real)               \
  SAME(offsetof(abi::our_struct, ours), offsetof(real_struct, real)); \
  SAME(sizeof(abi::our_struct::ours), sizeof(real_struct::real))

SAME(sizeof(abi::Attributes), sizeof(nvtxEventAttributes_t));
SAME_PLACE(Attributes, version, nvtxEventAttributes_t, version);
SAME_PLACE(Attributes, size, nvtxEventAttributes_t, size);
SAME_PLACE(Attributes, category, nvtxEventAttributes_t, category);
SAME_PLACE(Attributes, color_type, nvtxEventAttributes_t, colorType);
SAME_PLACE(Attributes, color, nvtxEventAttributes_t, color);
SAME_PLACE(Attributes, payload_type, nvtxEventAttributes_t, payloadType);
SAME_PLACE(Attributes, payload_count, nvtxEventAttributes_t, reserved0);
SAME_PLACE(Attributes, payload, nvtxEventAttributes_t, payload);
SAME_PLACE(Attributes, message_type, nvtxEventAttributes_t, messageType);
SAME_PLACE(Attributes, message, nvtxEventAttributes_t, message);

SAME(abi::kUint64, NVTX_PAYLOAD_TYPE_UNSIGNED_INT64);
SAME(abi::kInt64, NVTX_PAYLOAD_TYPE_INT64);
SAME(abi::kDouble, NVTX_PAYLOAD_TYPE_DOUBLE);
SAME(abi::kUint32, NVTX_PAYLOAD_TYPE_UNSIGNED_INT32);
SAME(abi::kInt32, NVTX_PAYLOAD_TYPE_INT32);
SAME(abi::kFloat, NVTX_PAYLOAD_TYPE_FLOAT);
SAME(abi::kNoMessage, NVTX_MESSAGE_UNKNOWN);
SAME(abi::kAscii, NVTX_MESSAGE_TYPE_ASCII);
SAME(abi::kWide, NVTX_MESSAGE_TYPE_UNICODE);
SAME(abi::kRegistered, NVTX_MESSAGE_TYPE_REGISTERED);
SAME(abi::kNoTracking, NVTX_NO_PUSH_POP_TRACKING);
SAME(abi::kVersion, NVTX_VERSION);

// The types of tools: in the headers together with any of their functions.
SAME(abi::kCallbacks, NVTX_ETID_CALLBACKS);
SAME(abi::kVersionInfo, NVTX_ETID_VERSIONINFO);
SAME(sizeof(abi::Callbacks), sizeof(NvtxExportTableCallbacks));
SAME_PLACE(Callbacks, get_module_table, NvtxExportTableCallbacks, GetModuleFunctionTable);
SAME(sizeof(abi::VersionInfo), sizeof(NvtxExportTableVersionInfo));
SAME_PLACE(VersionInfo, version, NvtxExportTableVersionInfo, version);
SAME_PLACE(VersionInfo, set_tool_version, NvtxExportTableVersionInfo, SetInjectionNvtxVersion);
SAME(abi::kCore, NVTX_CB_MODULE_CORE);
SAME(abi::kCore2, NVTX_CB_MODULE_CORE2);
SAME(abi::kModules, NVTX_CB_MODULE_SIZE);
SAME(abi::kModuleSizes[NVTX_CB_MODULE_CORE], NVTX_CBID_CORE_SIZE);
SAME(abi::kModuleSizes[NVTX_CB_MODULE_CUDA], NVTX_CBID_CUDA_SIZE);
SAME(abi::kModuleSizes[NVTX_CB_MODULE_OPENCL], NVTX_CBID_OPENCL_SIZE);
SAME(abi::kModuleSizes[NVTX_CB_MODULE_CUDART], NVTX_CBID_CUDART_SIZE);
SAME(abi::kModuleSizes[NVTX_CB_MODULE_CORE2], NVTX_CBID_CORE2_SIZE);
SAME(abi::kModuleSizes[NVTX_CB_MODULE_SYNC], NVTX_CBID_SYNC_SIZE);
SAME(abi::kMarkEx, NVTX_CBID_CORE_MarkEx);
SAME(abi::kRangeStartEx, NVTX_CBID_CORE_RangeStartEx);
SAME(abi::kRangeEnd, NVTX_CBID_CORE_RangeEnd);
SAME(abi::kRangePushEx, NVTX_CBID_CORE_RangePushEx);
SAME(abi::kRangePop, NVTX_CBID_CORE_RangePop);
SAME(abi::kDomainMarkEx, NVTX_CBID_CORE2_DomainMarkEx);
SAME(abi::kDomainRangePushEx, NVTX_CBID_CORE2_DomainRangePushEx);
SAME(abi::kDomainRangePop, NVTX_CBID_CORE2_DomainRangePop);
SAME(abi::kDomainRegisterStringA, NVTX_CBID_CORE2_DomainRegisterStringA);
SAME(abi::kDomainCreateW, NVTX_CBID_CORE2_DomainCreateW);

#ifdef NVTX3EXT_CBID_nvtxDomainIsEnabled
SAME(abi::kPayloadExtension, NVTX_PAYLOAD_TYPE_EXT);
SAME(abi::kPayloadModule, NVTX_EXT_PAYLOAD_MODULEID);
SAME(sizeof(abi::PayloadData), sizeof(nvtxPayloadData_t));
SAME_PLACE(PayloadData, schema, nvtxPayloadData_t, schemaId);
SAME_PLACE(PayloadData, size, nvtxPayloadData_t, size);
SAME_PLACE(PayloadData, data, nvtxPayloadData_t, payload);
SAME(abi::kMarkPayload, NVTX3EXT_CBID_nvtxMarkPayload);
SAME(abi::kRangePushPayload, NVTX3EXT_CBID_nvtxRangePushPayload);
SAME(abi::kRangeEndPayload, NVTX3EXT_CBID_nvtxRangeEndPayload);
SAME(abi::kDomainIsEnabled, NVTX3EXT_CBID_nvtxDomainIsEnabled);
SAME(sizeof(abi::ExtensionModule), sizeof(nvtxExtModuleInfo_t));
SAME_PLACE(ExtensionModule, segments, nvtxExtModuleInfo_t, segments);
SAME_PLACE(ExtensionModule, segment_count, nvtxExtModuleInfo_t, segmentsCount);
SAME(sizeof(abi::Segment), sizeof(nvtxExtModuleSegment_t));
SAME_PLACE(Segment, slots, nvtxExtModuleSegment_t, functionSlots);
SAME(abi::kFirstStaticSchema, NVTX_PAYLOAD_SCHEMA_ID_STATIC_START);
#endif

}  // namespace
