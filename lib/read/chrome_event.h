// SPDX-License-Identifier: Apache-2.0
//
// Decodes the JSON of one event of a Chrome trace, or of a member next to the events, with all arguments.
#ifndef PITOT_LIB_READ_CHROME_EVENT_H_
#define PITOT_LIB_READ_CHROME_EVENT_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace pitot::read {

// A value of an object. Texts are without quotes and escapes; of other values it is the JSON.
struct ChromeValue {
  std::string_view key, text;
  bool is_text = false;
  std::optional<int64_t> whole = std::nullopt;  // a whole number; `text` may be empty then
  std::optional<int64_t> Number() const;        // a whole number, also one in quotes
};

// Views are valid until the next event is decoded.
struct ChromeEvent {
  std::string_view phase, category, name;
  ChromeValue pid, tid, id, scope;  // `id` is that of the process or of all: see is_local_id
  bool is_local_id = false;
  std::optional<int64_t> begin_ns, duration_ns;
  bool has_duration = false;  // maybe one that is not a number
  std::vector<ChromeValue> args;

  const ChromeValue* Find(std::string_view key) const;
  std::string_view Text(std::string_view key) const;  // of an argument; "": missing
  // A whole number of an argument; `otherwise` if it is missing or something else.
  int64_t Number(std::string_view key, int64_t otherwise) const;
};

class ChromeDecoder {
 public:
  ChromeDecoder();
  ~ChromeDecoder();
  // `json` has `capacity` readable bytes, 64 or more beyond its end. False if it is not an object in JSON. Bytes that
  // are not UTF-8 become U+FFFD.
  bool Event(std::string_view json, size_t capacity, ChromeEvent* event);
  // The values of an object; empty for anything else.
  std::vector<ChromeValue> Object(std::string_view json);
  uint64_t repaired() const { return repaired_count_; }  // events that were not UTF-8

 private:
  struct Parser;
  std::unique_ptr<Parser> parser_;
  std::string repaired_, object_;
  uint64_t repaired_count_ = 0;
};

}  // namespace pitot::read

#endif  // PITOT_LIB_READ_CHROME_EVENT_H_
