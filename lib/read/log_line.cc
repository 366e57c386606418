// SPDX-License-Identifier: Apache-2.0
#include "read/log_line.h"

#include <algorithm>

namespace pitot::read {
namespace {

constexpr int64_t kSecondNs = 1'000'000'000, kDayNs = 86400 * kSecondNs;
constexpr int kDaysBefore[] = {0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334, 365};

// Walks through the beginning of a line. Colours are passed over.
class LineCursor {
 public:
  explicit LineCursor(std::string_view text) : rest_(text) {}

  std::string_view rest() const { return rest_; }
  bool Eat(std::string_view text) {
    PassColours();
    if (!rest_.starts_with(text)) return false;
    rest_.remove_prefix(text.size());
    return true;
  }
  // Exactly that many digits.
  bool EatDigits(size_t count, int* number) {
    PassColours();
    if (rest_.size() < count) return false;
    *number = 0;
    for (const char c : rest_.substr(0, count)) {
      if (c < '0' || c > '9') return false;
      *number = *number * 10 + (c - '0');
    }
    rest_.remove_prefix(count);
    return true;
  }
  bool EatNumber(int64_t* number) {
    PassColours();
    size_t size = 0;
    *number = 0;
    for (; size < rest_.size() && size < 18 && rest_[size] >= '0' && rest_[size] <= '9'; ++size)
      *number = *number * 10 + (rest_[size] - '0');
    rest_.remove_prefix(size);
    return size != 0;
  }
  // All up to `end`, which is taken, too. At most 128 bytes.
  bool EatUntil(std::string_view end, std::string_view* text) {
    PassColours();
    const size_t at = rest_.substr(0, 128 + end.size()).find(end);
    if (at == std::string_view::npos) return false;
    *text = rest_.substr(0, at);
    rest_.remove_prefix(at + end.size());
    return true;
  }

 private:
  void PassColours() {
    while (rest_.starts_with("\x1b[")) {
      const size_t end = rest_.find_first_not_of("0123456789;", 2);
      if (end == std::string_view::npos || rest_[end] != 'm') return;
      rest_.remove_prefix(end + 1);
    }
  }

  std::string_view rest_;
};

bool EatClock(LineCursor* cursor, LogLine::Time* time) {
  int hour, minute, second;
  if (!cursor->EatDigits(2, &hour) || !cursor->Eat(":") || !cursor->EatDigits(2, &minute) || !cursor->Eat(":") ||
      !cursor->EatDigits(2, &second))
    return false;
  time->of_day_ns = (hour * 3600 + minute * 60 + second) * kSecondNs;
  return hour < 24 && minute < 60 && second <= 60;
}

bool EatMonthAndDay(LineCursor* cursor, LogLine::Time* time) {
  return cursor->EatDigits(2, &time->month) && cursor->Eat("-") && cursor->EatDigits(2, &time->day);
}

bool EatDate(LineCursor* cursor, LogLine::Time* time) {
  return cursor->EatDigits(4, &time->year) && cursor->Eat("-") && EatMonthAndDay(cursor, time);
}

void EatFraction(LineCursor* cursor, LogLine::Time* time) {
  time->is_coarse = !cursor->Eat(".") && !cursor->Eat(",");
  int digit;
  for (int64_t unit_ns = kSecondNs / 10; !time->is_coarse && cursor->EatDigits(1, &digit); unit_ns /= 10)
    time->of_day_ns += digit * unit_ns;
}

// "(APIServer pid=12) INFO 11-26 12:00:00 [logger.py:42] message". Old ones have no "[".
std::optional<LogLine> ParseVllm(std::string_view text) {
  LineCursor cursor(text);
  LogLine line;
  if (cursor.Eat("(") &&
      !(cursor.EatUntil(" pid=", &line.process) && cursor.EatNumber(&line.pid) && cursor.Eat(")") && cursor.Eat(" ")))
    return {};
  constexpr std::string_view kLevels[] = {"INFO", "DEBUG", "WARNING", "ERROR", "CRITICAL"};
  if (std::none_of(std::begin(kLevels), std::end(kLevels), [&](std::string_view level) { return cursor.Eat(level); }))
    return {};
  LogLine::Time time;
  time.is_coarse = true;
  if (!cursor.Eat(" ") || !EatMonthAndDay(&cursor, &time) || !cursor.Eat(" ") || !EatClock(&cursor, &time) ||
      !cursor.Eat(" "))
    return {};
  cursor.Eat("[");
  int64_t number;
  if (!cursor.EatUntil(".py:", &line.place) || !cursor.EatNumber(&number) || !cursor.Eat("]") || !cursor.Eat(" "))
    return {};
  line.place.remove_prefix(line.place.rfind('/') + 1);  // npos + 1 is 0
  line.time = time;
  line.message = cursor.rest();
  return line;
}

// "[2026-11-26 12:00:00 TP0] message", with SGLANG_LOG_MS=1 "[2026-11-26 12:00:00.123 TP0]".
std::optional<LogLine> ParseSglang(std::string_view text) {
  LineCursor cursor(text);
  LogLine line;
  line.writer = LogLine::Writer::kSglang;
  LogLine::Time time;
  if (!cursor.Eat("[") || !EatDate(&cursor, &time) || !cursor.Eat(" ") || !EatClock(&cursor, &time)) return {};
  EatFraction(&cursor, &time);
  if (cursor.Eat(" ") ? !cursor.EatUntil("] ", &line.process) : !cursor.Eat("] ")) return {};
  line.time = time;
  line.message = cursor.rest();
  return line;
}

// Docker Compose writes "NAME  | " before each line.
std::string_view WithoutService(std::string_view text) {
  const size_t name_end = text.substr(0, 128).find_first_of(" ([{\x1b");
  if (name_end == 0 || name_end == std::string_view::npos || text[name_end] != ' ') return text;
  const size_t bar = text.find_first_not_of(' ', name_end);
  const bool is_there = bar != std::string_view::npos && text.substr(bar).starts_with("| ");
  return is_there ? text.substr(bar + 2) : text;
}

bool IsSglangMessage(std::string_view message) {
  constexpr std::string_view kBegins[] = {
      "Receive: obj=",    "Finish: obj=",    R"({"timestamp": ")",     R"({"request_parameters": ")",
      "Prefill batch, #", "Decode batch, #", "Prefill batch. #",       "Decode batch. #",
      "Prefill batch [",  "Decode batch [",  "server_args=ServerArgs("};
  return std::any_of(std::begin(kBegins), std::end(kBegins),
                     [&](std::string_view begin) { return message.starts_with(begin); });
}

}  // namespace

std::optional<LogLine::Time> ParseLogTime(std::string_view text) {
  LineCursor cursor(text);
  LogLine::Time time;
  if (!EatDate(&cursor, &time) || !(cursor.Eat(" ") || cursor.Eat("T")) || !EatClock(&cursor, &time)) return {};
  EatFraction(&cursor, &time);
  return time;
}

std::optional<LogLine> ParseLogLine(std::string_view text) {
  text = WithoutService(text);
  if (auto line = ParseVllm(text)) return line;
  if (auto line = ParseSglang(text)) return line;
  const bool is_vllm = text.starts_with(R"({"asctime": ")");
  if (!is_vllm && !IsSglangMessage(text)) return {};
  LogLine line;
  line.writer = is_vllm ? LogLine::Writer::kVllm : LogLine::Writer::kSglang;
  line.message = text;
  return line;
}

bool IsServersLogLine(std::string_view text) {
  const std::optional<LogLine> line = ParseLogLine(text);
  if (!line) return false;
  const std::string_view begin = line->message.substr(0, 512);
  if (begin.starts_with(R"({"asctime": ")")) return begin.find(R"("name": "vllm)") != std::string_view::npos;
  if (begin.starts_with(R"({"timestamp": ")")) return begin.find(R"("event": "request.)") != std::string_view::npos;
  return line->writer == LogLine::Writer::kVllm || IsSglangMessage(line->message);
}

std::optional<int64_t> LogClock::At(const LogLine::Time& time) {
  if (time.month < 1 || time.month > 12 || time.day < 1 || time.day > 31) return {};
  int64_t days = kDaysBefore[time.month - 1] + time.day - 1;
  if (time.year != 0) {
    if (time.year < 1970 || time.year > 2099) return {};
    const int64_t year = time.year, before = year - 1;
    const auto leaps = [](int64_t years) { return years / 4 - years / 100 + years / 400; };
    const bool is_leap = leaps(year) != leaps(before);
    days += (year - 1970) * 365 + leaps(before) - leaps(1969) + (is_leap && time.month > 2);
    return days * kDayNs + time.of_day_ns;
  }
  if (month_ == 12 && time.month == 1) {
    year_days_ += 365 + is_leap_;
    was_leap_ = is_leap_;
    is_leap_ = false;
  } else if (month_ == 1 && time.month == 12 && year_days_ != 0) {  // a line that is a little late
    year_days_ -= 365 + was_leap_;
    is_leap_ = was_leap_;
  }
  month_ = time.month;
  is_leap_ |= time.month == 2 && time.day == 29;
  days += year_days_ + (is_leap_ && time.month > 2);
  if (days > 36500) return {};
  return days * kDayNs + time.of_day_ns;
}

}  // namespace pitot::read
