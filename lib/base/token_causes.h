// SPDX-License-Identifier: Apache-2.0
//
// What incidents of late tokens are called, before their route: who names them (trigger/tokens.cc) and who asks which
// token it was (analyze/verdict/tokens.cc) agree here.
#ifndef PITOT_LIB_BASE_TOKEN_CAUSES_H_
#define PITOT_LIB_BASE_TOKEN_CAUSES_H_

namespace pitot::base {

inline constexpr char kTokenGap[] = "token_gap", kFirstToken[] = "first_token";

}  // namespace pitot::base

#endif  // PITOT_LIB_BASE_TOKEN_CAUSES_H_
