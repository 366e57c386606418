// SPDX-License-Identifier: Apache-2.0
//
// The sites of a trace; each address is read once.
#ifndef PITOT_LIB_ASSEMBLE_SITES_H_
#define PITOT_LIB_ASSEMBLE_SITES_H_

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "pitot/model/trace.h"
#include "snapshot/modules.h"
#include "snapshot/site_reader.h"
#include "snapshot/texts.h"
#include "trace/internal_sites.h"

namespace pitot::assemble {

struct KnownSite {
  SiteKind kind = SiteKind::kScope;
  trace::Record record{};  // for internal sites
  uint32_t row = model::kNone;
  uint8_t arg_count = 0;
  bool unloaded = false;
  uint64_t since_ticks = 0;  // events before that are of another library's site
  ArgType arg_types[7] = {};
};

class Sites {
 public:
  // `modules` may be null. All outlive it.
  Sites(const snapshot::Texts& texts, model::Trace* trace, snapshot::Modules* modules, bool slow_clock)
      : texts_(texts), trace_(trace), modules_(modules), slow_clock_(slow_clock) {}
  // The site that was at `address` at a time. Valid until the next call.
  const KnownSite& At(uint64_t address, uint64_t ticks);
  // The same with its first `count` arguments, if no more are known.
  const KnownSite& WithArgs(uint64_t address, uint64_t ticks, uint8_t count);
  // The literal that was at `address` at a time as a string of the trace; "(unloaded)" if it is gone.
  model::StringId Literal(uint64_t address, uint64_t ticks);

 private:
  struct KnownLiteral {
    model::StringId text;
    uint64_t since_ticks;
  };

  // The site that is at `address` now.
  const KnownSite& Present(uint64_t address);
  const KnownSite& Unloaded(uint64_t address);
  // Asked after the memory at `address` was read.
  uint64_t LoadedSince(uint64_t address);
  KnownSite Add(const snapshot::SiteText& text);

  const snapshot::Texts& texts_;
  model::Trace* trace_;
  snapshot::Modules* modules_;
  const bool slow_clock_;
  std::unordered_map<uint64_t, uint32_t> index_;
  std::vector<KnownSite> sites_;
  std::unordered_map<uint64_t, KnownLiteral> literals_;
  uint64_t last_address_ = 0;
  uint32_t last_ = 0;
};

// The argument names in a macro's argument text: the parts between its top-level commas, after the first (the name).
std::vector<std::string_view> SplitArgText(std::string_view text);

}  // namespace pitot::assemble

#endif  // PITOT_LIB_ASSEMBLE_SITES_H_
