// SPDX-License-Identifier: Apache-2.0
//
// Reports with a short part first: a line "APPENDIX" separates it from the rest. An opening with such a line is put
// before both parts.
#ifndef PITOT_LIB_BASE_APPENDIX_H_
#define PITOT_LIB_BASE_APPENDIX_H_

#include <stddef.h>

#include <algorithm>
#include <string>
#include <string_view>

#include "base/columns.h"

namespace pitot::base {

inline constexpr std::string_view kAppendix = "APPENDIX";

// Where the line begins; the size of the text if there is none.
inline size_t FindAppendix(std::string_view text) {
  for (size_t at = text.find(kAppendix); at != std::string_view::npos; at = text.find(kAppendix, at + 1)) {
    const size_t end = at + kAppendix.size();
    if ((at == 0 || text[at - 1] == '\n') && end < text.size() && text[end] == '\n') return at;
  }
  return text.size();
}

// Adds to the part before the line.
inline void AddToFront(std::string* text, std::string_view lines) { text->insert(FindAppendix(*text), lines); }

// The first lines of a text, at most `most` of them. "..." ends the last if there are more.
inline std::string FirstLines(std::string_view text, size_t most, size_t columns) {
  size_t begin = 0, end = 0;
  for (; most > 0 && end < text.size(); --most) {
    begin = end;
    end = std::min(text.find('\n', end), text.size() - 1) + 1;
  }
  if (end == text.size() || end == 0) return std::string(text.substr(0, end));
  const std::string last(text.substr(begin, end - begin - 1));
  return std::string(text.substr(0, begin)).append(Cut(last + " ...", columns)) + '\n';
}

// Bytes of an opening in a report.
struct OpeningSize {
  size_t front = 0, appendix = 0;
};

// Puts an opening into a report, in place of the one before with this `size`, which becomes the new one's. A blank line
// follows its front.
inline void Open(std::string* report, std::string_view opening, OpeningSize* size) {
  constexpr size_t kLine = kAppendix.size() + 1;
  const size_t end = FindAppendix(opening);
  std::string front(opening.substr(0, end));
  const std::string_view appendix = opening.substr(end < opening.size() ? end + kLine : end);
  if (front.size() >= 2 && front.compare(front.size() - 2, 2, "\n\n") != 0) front += '\n';
  report->replace(0, size->front, front);
  const size_t line = FindAppendix(*report);
  if (line == report->size() && !appendix.empty()) report->append(kAppendix).append("\n");
  if (line < report->size()) report->replace(line + kLine, size->appendix, appendix);
  *size = {front.size(), appendix.size()};
}

}  // namespace pitot::base

#endif  // PITOT_LIB_BASE_APPENDIX_H_
