// SPDX-License-Identifier: Apache-2.0
//
// For tests that this machine does not allow. Their cases have the tag [platform], and are a CTest of their own, which
// is skipped then (catch_main.cc, pitot_add_test).
#ifndef PITOT_TEST_FAKES_NOT_RUN_H_
#define PITOT_TEST_FAKES_NOT_RUN_H_

#include <catch2/catch.hpp>

namespace fakes {

inline int cases_not_run = 0;

#define NOT_RUN(why)          \
  do {                        \
    WARN("not run: " << why); \
    ++fakes::cases_not_run;   \
  } while (false)

}  // namespace fakes

#endif  // PITOT_TEST_FAKES_NOT_RUN_H_
