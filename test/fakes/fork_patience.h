// SPDX-License-Identifier: Apache-2.0
#ifndef PITOT_TEST_FAKES_FORK_PATIENCE_H_
#define PITOT_TEST_FAKES_FORK_PATIENCE_H_

#include <stdint.h>

#include "base/loader_lock.h"

namespace fakes {

// How long forks wait for Pitot's threads inside the loader, until the end of the scope. By default for as long as it
// takes on a busy machine: a server's fork does not wait so long, and its child may then hang in the loader.
class ForkPatience {
 public:
  explicit ForkPatience(int64_t ns = 60'000'000'000) : before_(pitot::base::g_fork_patience_ns.exchange(ns)) {}
  ~ForkPatience() { pitot::base::g_fork_patience_ns = before_; }
  ForkPatience(const ForkPatience&) = delete;
  ForkPatience& operator=(const ForkPatience&) = delete;

 private:
  const int64_t before_;
};

}  // namespace fakes

#endif  // PITOT_TEST_FAKES_FORK_PATIENCE_H_
