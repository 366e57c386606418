// SPDX-License-Identifier: Apache-2.0
#include "cli/request_id.h"

#include <algorithm>
#include <cstdlib>
#include <set>

#include "base/columns.h"
#include "cli/command.h"
#include "cli/files.h"

namespace pitot::cli {
namespace {

// Without 0x and in small letters.
std::string Digits(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 'a' - 'A') : c; });
  if (text.compare(0, 2, "0x") == 0) text.erase(0, 2);
  return text;
}

// Ids of the requests that the digits may mean: the one with this id, otherwise those that begin so.
std::set<uint64_t> IdsOf(const model::Trace& trace, const std::string& digits) {
  const uint64_t id = std::strtoull(digits.c_str(), nullptr, 16);
  std::set<uint64_t> ids;
  for (const model::RequestRow& request : trace.requests) {
    if (request.id == 0) continue;  // no request
    if (request.id == id) return {id};
    if (base::RequestId(request.id).compare(0, digits.size(), digits) == 0) ids.insert(request.id);
  }
  return ids;
}

}  // namespace

bool AcceptsId(const std::string& text) {
  const std::string digits = Digits(text);
  const bool is_hexadecimal = digits.find_first_not_of("0123456789abcdef") == std::string::npos;
  if (text.empty() || (is_hexadecimal && !digits.empty() && digits.size() <= 16)) return true;
  Complain("--request: " + text + " is not a request id: ids are hexadecimal, and `pitot requests` lists them.");
  return false;
}

std::string IsSomeId(const std::string& text) {
  return text.empty() ? "the id is empty, as if a shell variable were not set" : "";
}

int FindId(const model::Trace& trace, const std::string& text, const std::string& input, uint64_t* id) {
  *id = 0;
  if (text.empty()) return kDone;
  const std::string digits = Digits(text);
  const std::set<uint64_t> ids = IdsOf(trace, digits);
  if (ids.empty()) {
    Complain("there is no request " + text + " in " + input + ". `pitot requests --limit 0` lists all.");
    return kNothingFound;
  }
  if (ids.size() > 1) {
    Complain("--request: the ids of " + base::Count(ids.size()) + " requests begin with " + digits + ", such as " +
             base::RequestId(*ids.begin()) + " and " + base::RequestId(*ids.rbegin()) + ": give more digits.");
    return kUsage;
  }
  *id = *ids.begin();
  return kDone;
}

}  // namespace pitot::cli
