// SPDX-License-Identifier: Apache-2.0
//
// The sites of a trace; each address is read once.
#ifndef PITOT_LIB_ASSEMBLE_SITES_H_
#define PITOT_LIB_ASSEMBLE_SITES_H_

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "pitot/model/trace.h"
#include "trace/internal_sites.h"

namespace pitot::assemble {

struct KnownSite {
  SiteKind kind = SiteKind::kScope;
  trace::Record record{};  // for internal sites
  uint32_t row = model::kNone;
  uint8_t arg_count = 0;
  bool unloaded = false;
  ArgType arg_types[7] = {};
};

class Sites {
 public:
  explicit Sites(model::Trace* trace) : trace_(trace) {}
  // The site at `address`. Valid until the next call.
  const KnownSite& At(uint64_t address);
  // The same with its first `count` arguments, if no more are known.
  const KnownSite& WithArgs(uint64_t address, uint8_t count);
  // The literal at `address` as a string of the trace; "(unloaded)" if it is gone.
  model::StringId Literal(uint64_t address);

 private:
  model::Trace* trace_;
  std::unordered_map<uint64_t, uint32_t> index_;
  std::vector<KnownSite> sites_;
  std::unordered_map<uint64_t, model::StringId> literals_;
  uint64_t last_address_ = 0;
  uint32_t last_ = 0;
};

// The argument names in a macro's argument text: the parts between its top-level commas, after the first (the name).
std::vector<std::string_view> SplitArgText(std::string_view text);

}  // namespace pitot::assemble

#endif  // PITOT_LIB_ASSEMBLE_SITES_H_
