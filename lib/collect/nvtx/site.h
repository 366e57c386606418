// SPDX-License-Identifier: Apache-2.0
//
// A site for NVTX's events: they come from no line of our code.
#ifndef PITOT_LIB_COLLECT_NVTX_SITE_H_
#define PITOT_LIB_COLLECT_NVTX_SITE_H_

#include "pitot/trace.h"

namespace pitot::nvtx {

template <class... Args> constexpr Site MakeSite(SiteKind kind, const char* text) {
  using List = detail::ArgList<Name, Name, Args...>;
  return {kSiteMagic, kind, List::kCount, kNameIsFirstArg, 0, List::Types(), "", "NVTX", "", text};
}

}  // namespace pitot::nvtx

#endif  // PITOT_LIB_COLLECT_NVTX_SITE_H_
