// SPDX-License-Identifier: Apache-2.0
//
// Names of incidents about late tokens, in front of the route. trigger/tokens.cc writes them, and
// analyze/verdict/tokens.cc reads them.
#ifndef PITOT_LIB_BASE_TOKEN_CAUSES_H_
#define PITOT_LIB_BASE_TOKEN_CAUSES_H_

namespace pitot::base {

inline constexpr char kTokenGap[] = "token_gap", kFirstToken[] = "first_token";

}  // namespace pitot::base

#endif  // PITOT_LIB_BASE_TOKEN_CAUSES_H_
