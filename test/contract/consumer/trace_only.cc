// SPDX-License-Identifier: Apache-2.0
//
// An instrumented library: without a recorder in the process everything is inert.
#include <cstdio>

#include "pitot/phase.h"
#include "pitot/request.h"
#include "pitot/trace.h"
#include "pitot/wait.h"

int main() {
  PITOT_SCOPE("main", 1);
  pitot::Request request = pitot::Request::Begin("/consume");
  PITOT_PHASES(stages);
  PITOT_PHASE(stages, "only");
  PITOT_COUNTER("counter", 2.5);
  const bool inert = request.id() == 0;
  request.Finish(pitot::Outcome::kOk);
  std::puts(inert ? "inert" : "not inert");
  return inert ? 0 : 1;
}
