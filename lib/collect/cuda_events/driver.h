// SPDX-License-Identifier: Apache-2.0
//
// The functions of the CUDA driver's API, found in the library loaded by the process.
#ifndef PITOT_LIB_COLLECT_CUDA_EVENTS_DRIVER_H_
#define PITOT_LIB_COLLECT_CUDA_EVENTS_DRIVER_H_

#include <cmath>
#include <cstddef>
#include <cstdint>

namespace pitot::cuda_events {

// Results, with the numbers of cuda.h.
enum Result : int {
  kSuccess = 0,
  kNotInitialized = 3,
  kDeinitialized = 4,
  kInvalidContext = 201,
  kInvalidHandle = 400,
  kNotReady = 600,
  kContextIsDestroyed = 709,
};
inline constexpr unsigned int kNonBlocking = 1;   // CU_STREAM_NON_BLOCKING
inline constexpr unsigned int kDefaultEvent = 0;  // CU_EVENT_DEFAULT: with a time
inline constexpr unsigned int kExternal = 1;      // CU_EVENT_RECORD_EXTERNAL: a node of the graph that is captured
inline constexpr unsigned int kAsynchronous = 1;  // CU_USER_OBJECT_NO_DESTRUCTOR_SYNC
inline constexpr unsigned int kMove = 1;          // CU_GRAPH_USER_OBJECT_MOVE
inline constexpr int kNotCapturing = 0;           // CU_STREAM_CAPTURE_STATUS_NONE
inline constexpr int kRelaxedCapture = 2;         // CU_STREAM_CAPTURE_MODE_RELAXED
inline constexpr int kBufferId = 7;               // CU_POINTER_ATTRIBUTE_BUFFER_ID

// Whether the context cannot be used any more.
inline bool IsContextGone(int result) {
  return result == kNotInitialized || result == kDeinitialized || result == kInvalidContext ||
         result == kContextIsDestroyed;
}

struct Driver {
  int (*get_context)(void** context);
  int (*push_context)(void* context);
  int (*pop_context)(void** context);
  int (*get_device)(int* device);
  int (*create_event)(void** event, unsigned int flags);
  int (*record_event)(void* event, void* stream);
  int (*query_event)(void* event);
  int (*elapsed_time)(float* ms, void* from, void* to);
  int (*destroy_event)(void* event);
  int (*create_stream)(void** stream, unsigned int flags);
  int (*destroy_stream)(void* stream);
  // Without it, our thread's calls would spoil every capture of the host.
  int (*exchange_capture_mode)(int* mode);

  // Null if the driver is older than the function.
  int (*is_capturing)(void* stream, int* status);
  int (*get_context_id)(void* context, unsigned long long* id);  // if null, the next three are not
  int (*allocate)(unsigned long long* memory, size_t bytes);
  int (*free)(unsigned long long memory);
  int (*get_pointer_attribute)(void* value, int attribute, unsigned long long memory);
  int (*get_stream_id)(void* stream, unsigned long long* id);
  int (*get_device_name)(char* name, int size, int device);
  // Null if the driver is older than CUDA 11.3. An object that a graph holds is destroyed once the graph and what was
  // made of it are gone.
  int (*record_node)(void* event, void* stream, unsigned int flags);
  int (*get_capture)(void* stream, int* status, unsigned long long* id, void** graph, void* const** nodes,
                     size_t* node_count);
  int (*create_object)(void** object, void* value, void (*destroy)(void* value), unsigned int references,
                       unsigned int flags);
  int (*release_object)(void* object, unsigned int references);
  int (*hold_object)(void* graph, void* object, unsigned int references, unsigned int flags);

  bool CanDivideGraphs() const noexcept {
    return record_node != nullptr && get_capture != nullptr && create_object != nullptr && release_object != nullptr &&
           hold_object != nullptr;
  }
};

// cuEventElapsedTime's unit.
inline int64_t NsOf(float ms) { return std::llround(static_cast<double>(ms) * 1e6); }

// Null: everything was found. Otherwise the name of the missing library (this never loads it) or function.
const char* FindDriver(const char* library, Driver* driver) noexcept;

}  // namespace pitot::cuda_events

#endif  // PITOT_LIB_COLLECT_CUDA_EVENTS_DRIVER_H_
