// SPDX-License-Identifier: Apache-2.0
//
// Text for people in at most 100 columns: padding, numbers with units, UTC times.
#ifndef PITOT_LIB_BASE_COLUMNS_H_
#define PITOT_LIB_BASE_COLUMNS_H_

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <time.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <string_view>

namespace pitot::base {

inline constexpr size_t kColumns = 100;

// Columns of valid UTF-8, one per character.
inline size_t Width(std::string_view text) {
  return static_cast<size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }));
}

// The text cut to `width` columns, with "..." in place of the rest.
inline std::string Cut(std::string_view text, size_t width) {
  if (Width(text) <= width) return std::string(text);
  const size_t keep = width > 3 ? width - 3 : 0;
  size_t bytes = 0, columns = 0;
  for (; bytes < text.size(); ++bytes) {
    if ((static_cast<unsigned char>(text[bytes]) & 0xc0) != 0x80 && columns++ == keep) break;
  }
  return std::string(text.substr(0, bytes)) + std::string(std::min<size_t>(3, width), '.');
}
// The same, but cut in the middle: the end is kept.
inline std::string CutMiddle(std::string_view text, size_t width) {
  const size_t has = Width(text);
  if (has <= width || width <= 3) return Cut(text, width);
  size_t at = text.size();
  for (size_t columns = 0; columns < (width - 3) / 2; ++columns) {
    do --at;
    while ((static_cast<unsigned char>(text[at]) & 0xc0) == 0x80);
  }
  return Cut(text, width - (width - 3) / 2).append(text.substr(at));
}
inline std::string PadRight(std::string_view text, size_t width) {
  std::string cut = Cut(text, width);
  cut.append(width - std::min(width, Width(cut)), ' ');
  return cut;
}
inline std::string PadLeft(std::string_view text, size_t width) {
  const std::string cut = Cut(text, width);
  return std::string(width - std::min(width, Width(cut)), ' ') + cut;
}

[[gnu::format(printf, 1, 2)]] inline std::string Format(const char* format, ...) {
  char text[512];
  va_list args;
  va_start(args, format);
  const int size = vsnprintf(text, sizeof text, format, args);
  va_end(args);
  return std::string(text, size < 0 ? 0 : std::min(static_cast<size_t>(size), sizeof text - 1));
}

inline std::string Count(uint64_t count) {
  std::string digits = std::to_string(count);
  for (size_t i = digits.size(); i > 3; i -= 3) digits.insert(i - 3, ",");
  return digits;
}
// "1,203", "50.5".
inline std::string Amount(double number) {
  const bool is_whole = number >= 0 && number < 1e15 && number == std::floor(number);
  return is_whole ? Count(static_cast<uint64_t>(number)) : Format("%.4g", number);
}
// "1 request", "1,203 requests", "2 losses", "3 stretches".
inline std::string Plural(uint64_t count, std::string_view noun) {
  const bool hisses = noun.back() == 's' || noun.substr(noun.size() - std::min<size_t>(2, noun.size())) == "ch";
  return Count(count).append(" ").append(noun).append(count == 1 ? "" : hisses ? "es" : "s");
}
inline std::string Duration(int64_t ns) {
  const double us = static_cast<double>(ns) * 1e-3, size = us < 0 ? -us : us;
  if (ns == 0) return "0 us";
  if (size < 9.995) return Format("%.2f us", us);
  if (size < 999.5) return Format("%.0f us", us);
  if (size < 9995) return Format("%.2f ms", us * 1e-3);
  if (size < 999950) return Format("%.1f ms", us * 1e-3);
  return Format("%.2f s", us * 1e-6);
}
// The covered share of a whole, to the nearest 0.1 %. Never 100 if something is missing, and never 0 if something is
// there; 0 for an empty whole.
inline std::string Coverage(int64_t covered, int64_t whole) {
  if (whole <= 0) return "0.0 %";
  if (covered == whole) return "100 %";
  const double percent = 100.0 * static_cast<double>(covered) / static_cast<double>(whole);
  if (covered > 0 && percent < 0.1) return "less than 0.1 %";
  return Format("%.1f %%", std::min(percent, 99.9));
}
inline double Ms(int64_t ns) { return static_cast<double>(ns) * 1e-6; }
inline std::string Milliseconds(int64_t ns) { return Format("%.2f ms", Ms(ns)); }
inline std::string Bytes(uint64_t bytes) {
  if (bytes < 10240) return Count(bytes) + " B";
  if (bytes < 10240 * 1024) return Count(bytes >> 10) + " KiB";
  return Count(bytes >> 20) + " MiB";
}
inline std::string Number(double value) { return Format("%.10g", value); }
inline std::string RequestId(uint64_t id) { return Format("%016llx", static_cast<unsigned long long>(id)); }

// "2026-11-21 02:31:17.123 UTC" and "02:31:17.123".
inline std::string TimeOfDay(int64_t realtime_ns) {
  const time_t seconds = static_cast<time_t>(realtime_ns / 1000000000);
  tm utc = {};
  gmtime_r(&seconds, &utc);
  return Format("%02d:%02d:%02d.%03d", utc.tm_hour, utc.tm_min, utc.tm_sec,
                static_cast<int>(realtime_ns / 1000000 % 1000));
}
inline std::string DateTime(int64_t realtime_ns) {
  const time_t seconds = static_cast<time_t>(realtime_ns / 1000000000);
  tm utc = {};
  gmtime_r(&seconds, &utc);
  return Format("%04d-%02d-%02d ", utc.tm_year + 1900, utc.tm_mon + 1, utc.tm_mday) + TimeOfDay(realtime_ns) + " UTC";
}

// Collects lines. Words are wrapped at `width`. Rows of tables are cut at 100 columns, or at `width` if that is more.
class Lines {
 public:
  explicit Lines(size_t width = kColumns) : width_(width) {}
  void Add(size_t indent, const std::string& text) {
    const size_t most = std::max(kColumns, width_);
    std::string line = Cut(text, most - std::min(indent, most));
    line.erase(line.find_last_not_of(' ') + 1);
    if (!line.empty()) text_.append(indent, ' ').append(line);
    text_ += '\n';
  }
  // Adds words, which continue on the next line if there is no room.
  void AddWrapped(size_t indent, const std::string& first, std::string_view words) {
    const size_t lead = Width(first);
    std::string line = first;
    bool is_empty = true;
    while (!words.empty()) {
      const size_t size = std::min(words.find(' '), words.size());
      const std::string_view word = words.substr(0, size);
      words.remove_prefix(std::min(size + 1, words.size()));
      if (!is_empty && Width(line) + 1 + Width(word) > width_ - std::min(indent, width_)) {
        Add(indent, line);
        line.assign(lead, ' ');
        is_empty = true;
      }
      if (!is_empty) line += ' ';
      line += word;
      is_empty = false;
    }
    Add(indent, line);
  }
  // Adds a command, whole: it continues before an option, after a backslash. Only a long argument exceeds the width.
  void AddCommand(size_t indent, const std::string& first, std::string_view command) {
    constexpr std::string_view kOption = " --", kMore = " \\";
    std::string line = first;
    for (bool is_first = true; !command.empty(); is_first = false) {
      const size_t size = std::min(command.find(kOption, 1), command.size());
      const std::string_view part = command.substr(is_first ? 0 : 1, size - (is_first ? 0 : 1));
      command.remove_prefix(size);
      if (!is_first && indent + Width(line) + 1 + Width(part) + kMore.size() > width_) {
        text_.append(indent, ' ').append(line).append(kMore) += '\n';
        line.assign(Width(first), ' ');
      } else if (!is_first) {
        line += ' ';
      }
      line += part;
    }
    text_.append(indent, ' ').append(line) += '\n';
  }
  void Blank() { text_ += '\n'; }
  const std::string& text() const { return text_; }

 private:
  const size_t width_;
  std::string text_;
};

}  // namespace pitot::base

#endif  // PITOT_LIB_BASE_COLUMNS_H_
