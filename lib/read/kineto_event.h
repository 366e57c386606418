// SPDX-License-Identifier: Apache-2.0
//
// Decodes the JSON of one event of a Kineto trace, or of a member next to the events. Only this part uses simdjson.
#ifndef PITOT_LIB_READ_KINETO_EVENT_H_
#define PITOT_LIB_READ_KINETO_EVENT_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "pitot/model/gpu.h"

namespace pitot::read {

// The name of a process, thread or stream: a number or another text.
struct KinetoId {
  int64_t number = 0;
  std::string_view text;  // "" for a number
};

// Texts are valid until the next event is decoded.
struct KinetoEvent {
  static constexpr int64_t kNone = -1;

  std::string_view phase, category, name;
  model::StringId name_id = 0;  // of the name as a row has it, where it is in the trace's table already
  KinetoId pid, tid;
  std::optional<int64_t> begin_ns, duration_ns;
  // From its arguments.
  int64_t correlation = kNone, device = kNone, context = kNone, stream = kNone;
  int64_t external_id = kNone;  // of the operator, or of a call and what it caused
  int64_t bytes = 0, graph = 0, node = 0;
  int64_t arrow = kNone;  // the id of an arrow's begin or end
  int64_t total_allocated = kNone, total_reserved = kNone, device_type = kNone, device_id = kNone;
  bool has_shape = false;
  bool is_as_written = false;  // its texts have backslashes that are not escaped
  model::KernelShape shape;
  std::string_view thread_name;  // of metadata
  std::string_view dimensions;   // of an operator's inputs, as JSON
  std::string_view types;        // "Input type", likewise
  std::string_view inputs;       // "Concrete Inputs", likewise
};

struct KinetoDevice {
  int64_t id = 0;
  std::string name;
  int64_t multiprocessors = 0, threads = 0, registers = 0, shared_bytes = 0, warp = 0;
  int64_t block_registers = 0;
  int64_t compute_major = 0, compute_minor = 0;  // 0: no CUDA device
};

enum class Decoded { kOk, kNoJson, kNotText };

class KinetoDecoder {
 public:
  KinetoDecoder();
  ~KinetoDecoder();
  // `json` has `capacity` readable bytes, 64 or more beyond its end. kNotText: it may be JSON but is not UTF-8.
  Decoded Event(std::string_view json, size_t capacity, KinetoEvent* event);
  // The devices in "deviceProperties".
  std::vector<KinetoDevice> Devices(std::string_view json, size_t capacity);
  // The rank in "distributedInfo".
  std::optional<int64_t> Rank(std::string_view json, size_t capacity);
  // A string or number; nullopt for other values.
  std::optional<std::string> Scalar(std::string_view json);

 private:
  struct Parser;
  std::unique_ptr<Parser> parser_;
};

}  // namespace pitot::read

#endif  // PITOT_LIB_READ_KINETO_EVENT_H_
