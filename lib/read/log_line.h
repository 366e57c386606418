// SPDX-License-Identifier: Apache-2.0
//
// A line of the log of vLLM or SGLang: what is before the message, as their formatters of Python's logging write it.
#ifndef PITOT_LIB_READ_LOG_LINE_H_
#define PITOT_LIB_READ_LOG_LINE_H_

#include <cstdint>
#include <optional>
#include <string_view>

namespace pitot::read {

struct LogLine {
  enum class Writer : uint8_t { kVllm, kSglang };
  struct Time {
    int year = 0;  // 0: not in the line
    int month = 1, day = 1;
    int64_t of_day_ns = 0;
    bool is_coarse = false;  // whole seconds
  };

  Writer writer = Writer::kVllm;
  std::optional<Time> time;
  std::string_view place;    // of vLLM: the file whose code wrote it, "logger.py"
  std::string_view process;  // "APIServer", "TP0"; "": not in the line
  int64_t pid = 0;           // 0: not in the line
  std::string_view message;
};

// "2026-11-26 12:00:00", with "T" for the space, and with a fraction of a second.
std::optional<LogLine::Time> ParseLogTime(std::string_view text);

// nullopt: neither of them wrote it so. Lines of JSON have no more than their message, which begins with "{".
std::optional<LogLine> ParseLogLine(std::string_view line);

// Whether none but these servers write such a line.
bool IsServersLogLine(std::string_view line);

// Turns times of lines, which come almost in order, into ns since 1970 by the server's local clock. Without a year they
// count from the first line's year, which is called 1970. The 29th of February is there if a line has it.
class LogClock {
 public:
  // nullopt: not a date.
  std::optional<int64_t> At(const LogLine::Time& time);

 private:
  int month_ = 0;                            // of the last line
  int64_t year_days_ = 0;                    // before its year
  bool is_leap_ = false, was_leap_ = false;  // its year, and the one before
};

}  // namespace pitot::read

#endif  // PITOT_LIB_READ_LOG_LINE_H_
