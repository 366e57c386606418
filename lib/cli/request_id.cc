// SPDX-License-Identifier: Apache-2.0
#include "cli/request_id.h"

#include <algorithm>
#include <cstdlib>
#include <set>
#include <string_view>

#include "base/columns.h"
#include "cli/command.h"
#include "cli/files.h"
#include "pitot/request.h"

namespace pitot::cli {
namespace {

// The hexadecimal digits of one of Pitot's ids or of its beginning, without 0x and in small letters. "" if it is
// another text.
std::string Digits(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 'a' - 'A') : c; });
  if (text.compare(0, 2, "0x") == 0) text.erase(0, 2);
  const bool is_id = text.size() <= 16 && text.find_first_not_of("0123456789abcdef") == std::string::npos;
  return is_id ? text : "";
}

bool BeginsWith(std::string_view text, std::string_view part) { return text.compare(0, part.size(), part) == 0; }

// Ids of the requests that the text may mean: those with this id, otherwise those with an id that begins so.
std::set<uint64_t> IdsOf(const model::Trace& trace, const std::string& text) {
  const std::string digits = Digits(text);
  const uint64_t id = std::strtoull(digits.c_str(), nullptr, 16);
  std::set<uint64_t> same, alike;
  for (const model::RequestRow& request : trace.requests) {
    if (request.id == 0) continue;  // no request
    const std::string_view own = trace.strings[request.host_id];
    // A longer id was cut at the end of a character, of four bytes at most.
    const bool is_cut = text.size() > Request::kMaxIdBytes && own.size() + 4 > Request::kMaxIdBytes;
    if (request.id == id || own == text || (is_cut && BeginsWith(text, own))) same.insert(request.id);
    if (BeginsWith(own, text) || (!digits.empty() && BeginsWith(base::RequestId(request.id), digits)))
      alike.insert(request.id);
  }
  return same.empty() ? alike : same;
}

}  // namespace

std::string IsSomeId(const std::string& text) {
  return text.empty() ? "the id is empty, as if a shell variable were not set" : "";
}

int FindId(const model::Trace& trace, const std::string& text, const std::string& input, uint64_t* id) {
  *id = 0;
  if (text.empty()) return kDone;
  const std::set<uint64_t> ids = IdsOf(trace, text);
  if (ids.empty()) {
    Complain("there is no request " + text + " in " + input + ". `pitot requests --limit 0` lists all.");
    return kNothingFound;
  }
  if (ids.size() > 1) {
    Complain("--request: the ids of " + base::Count(ids.size()) + " requests begin with " + text + ", such as " +
             base::RequestId(*ids.begin()) + " and " + base::RequestId(*ids.rbegin()) + ": give one of these.");
    return kUsage;
  }
  *id = *ids.begin();
  return kDone;
}

}  // namespace pitot::cli
