// SPDX-License-Identifier: Apache-2.0
//
// One event of Kineto's JSON at a time.
#ifndef PITOT_LIB_SERIALIZE_KINETO_WRITER_H_
#define PITOT_LIB_SERIALIZE_KINETO_WRITER_H_

#include <stdint.h>

#include <string_view>
#include <type_traits>

#include "serialize/json_writer.h"

namespace pitot::serialize {

// Whose row an event is in.
struct KinetoPlace {
  int64_t pid;
  int64_t tid;
};

class KinetoWriter {
 public:
  explicit KinetoWriter(ByteSink* sink) : json(sink) {}

  // An event is Begin, its arguments, and End.
  void Begin(std::string_view phase, std::string_view category, std::string_view name, KinetoPlace place,
             int64_t at_ns) {
    json.NewLine();
    json.Open('{');
    Pair("ph", phase);
    if (!category.empty()) Pair("cat", category);
    Pair("name", name);
    Pair("pid", place.pid);
    Pair("tid", place.tid);
    json.Key("ts");
    json.Micros(at_ns);
  }
  void BeginSlice(std::string_view category, std::string_view name, KinetoPlace place, int64_t begin_ns,
                  int64_t duration_ns) {
    Begin("X", category, name, place, begin_ns);
    json.Key("dur");
    json.Micros(duration_ns);
    BeginArgs();
  }
  void BeginArgs() {
    json.Key("args");
    json.Open('{');
  }
  void End() {
    json.Close('}');
    json.Close('}');
  }
  // One end of an arrow.
  void Arrow(std::string_view phase, uint64_t id, KinetoPlace place, int64_t at_ns) {
    Begin(phase, "ac2g", "ac2g", place, at_ns);
    Pair("id", id);
    if (phase == "f") Pair("bp", "e");
    json.Close('}');
  }
  void Name(std::string_view what, KinetoPlace place, std::string_view key, std::string_view value) {
    Begin("M", "", what, place, 0);
    BeginArgs();
    Pair(key, value);
    End();
  }

  template <class Value> void Pair(std::string_view key, const Value& value) {
    json.Key(key);
    if constexpr (std::is_convertible_v<Value, std::string_view>) {
      json.Text(value);
    } else {
      json.Number(value);
    }
  }

  JsonWriter json;
};

}  // namespace pitot::serialize

#endif  // PITOT_LIB_SERIALIZE_KINETO_WRITER_H_
