// SPDX-License-Identifier: Apache-2.0
#include "cli/request_id.h"

#include <algorithm>
#include <cstdlib>
#include <set>

#include "base/columns.h"
#include "cli/files.h"

namespace pitot::cli {

bool ReadDigits(const std::string& text, std::string* digits) {
  *digits = text;
  std::transform(digits->begin(), digits->end(), digits->begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 'a' - 'A') : c; });
  if (digits->compare(0, 2, "0x") == 0) digits->erase(0, 2);
  const bool is_hexadecimal = digits->find_first_not_of("0123456789abcdef") == std::string::npos;
  if (text.empty() || (is_hexadecimal && !digits->empty() && digits->size() <= 16)) return true;
  Complain("--request: " + text + " is not a request id: ids are hexadecimal, and `pitot requests` lists them.");
  return false;
}

std::string IsSomeId(const std::string& text) {
  return text.empty() ? "the id is empty, as if a shell variable were not set" : "";
}

bool FindId(const model::Trace& trace, const std::string& digits, uint64_t* id) {
  *id = std::strtoull(digits.c_str(), nullptr, 16);
  std::set<uint64_t> ids;
  for (const model::RequestRow& request : trace.requests) {
    if (request.id == 0) continue;  // no request
    if (request.id == *id) return true;
    if (base::RequestId(request.id).compare(0, digits.size(), digits) == 0) ids.insert(request.id);
  }
  *id = ids.empty() ? 0 : *ids.begin();
  if (ids.size() <= 1) return true;
  Complain("--request: the ids of " + base::Count(ids.size()) + " requests begin with " + digits + ", such as " +
           base::RequestId(*ids.begin()) + " and " + base::RequestId(*ids.rbegin()) + ": give more digits.");
  return false;
}

std::string NoSuchRequest(const std::string& text, const std::string& input) {
  return "there is no request " + text + " in " + input + ". `pitot requests --limit 0` lists all.";
}

}  // namespace pitot::cli
