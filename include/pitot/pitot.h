// SPDX-License-Identifier: Apache-2.0
//
// Everything a server needs: instrument, control, triggers.
#ifndef PITOT_PITOT_H_
#define PITOT_PITOT_H_

#include "pitot/manual.h"
#include "pitot/phase.h"
#include "pitot/recorder.h"
#include "pitot/request.h"
#include "pitot/trace.h"
#include "pitot/trigger/drift.h"
#include "pitot/trigger/failure.h"
#include "pitot/trigger/latency.h"
#include "pitot/trigger/predicate.h"
#include "pitot/trigger/stall.h"
#include "pitot/trigger/tokens.h"
#include "pitot/wait.h"

#endif  // PITOT_PITOT_H_
