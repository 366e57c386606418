// SPDX-License-Identifier: Apache-2.0
//
// The seam to CUPTI: its functions, found at run time. Tests pass a library of their own.
#ifndef PITOT_LIB_COLLECT_CUPTI_API_H_
#define PITOT_LIB_COLLECT_CUPTI_API_H_

#include <string>

#include "collect/cupti/abi.h"
#include "pitot/status.h"

namespace pitot::cupti {

// Stands between the reason for unrecorded kernels and the remedy, in all messages about it.
inline constexpr char kRemedy[] = "; to record kernels: ";
inline constexpr char kNotAsked[] =
    "CUPTI was not called, because this costs every launch for the life of the process; to record kernels: "
    "Recorder::SetDepth(pitot::Depth::kKernels), or CuptiOptions::attach = kAtStart";

// CUPTI's functions. Some may be null: the library is older than they are.
struct Api {
  Result (*get_version)(uint32_t* version);
  Result (*get_result_string)(Result result, const char** text);
  Result (*subscribe)(Subscriber* subscriber, CallbackFunction callback, void* context);
  Result (*subscribe_v2)(Subscriber* subscriber, CallbackFunction callback, void* context, SubscriberParams* params);
  Result (*unsubscribe)(Subscriber subscriber);
  Result (*enable_callback)(uint32_t enable, Subscriber subscriber, int domain, uint32_t callback_id);
  Result (*get_callback_name)(int domain, uint32_t callback_id, const char** name);  // may be null
  Result (*activity_enable)(uint32_t kind);
  Result (*activity_disable)(uint32_t kind);
  Result (*activity_enable_runtime_api)(uint32_t callback_id, uint8_t enable);  // may be null
  Result (*activity_enable_driver_api)(uint32_t callback_id, uint8_t enable);   // may be null
  Result (*activity_register_callbacks)(RequestBuffer request, CompleteBuffer complete);
  Result (*activity_flush_all)(uint32_t flags);
  Result (*activity_get_next_record)(uint8_t* buffer, size_t valid, uint8_t** record);
  Result (*activity_set_attribute)(int attribute, size_t* size, void* value);
  Result (*activity_get_dropped)(void* context, uint32_t stream, size_t* dropped);            // may be null
  Result (*set_thread_id_type)(int type);                                                     // may be null
  Result (*get_graph_node_id)(void* node, uint64_t* id);                                      // may be null
  Result (*get_stream_id)(void* context, void* stream, uint8_t is_per_thread, uint32_t* id);  // may be null

  uint32_t version = 0;  // from cuptiGetVersion
  std::string path;      // of the library
};

// Finds CUPTI and fills `api`: the library loaded in this process, otherwise the one for its CUDA. That is the CUDA of
// its runtime or, if this is linked statically, of its driver. Never loads a second copy next to a loaded one, because
// two would fight for the driver. A `path`, if not empty, is the only file tried, and refused if another is loaded.
// Nothing is unloaded again. kNotFound: there is none; kUnavailable: it cannot be used, with the reason.
Status LoadCupti(const std::string& path, Api* api);

// The result's name, "CUPTI_ERROR_NOT_INITIALIZED", or its number.
std::string ResultName(const Api& api, Result result);

}  // namespace pitot::cupti

#endif  // PITOT_LIB_COLLECT_CUPTI_API_H_
