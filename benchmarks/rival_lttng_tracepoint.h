// SPDX-License-Identifier: Apache-2.0
//
// The tracepoints of rival_lttng.cc. LTTng's headers read this file several times, so it has no plain include guard.
#undef LTTNG_UST_TRACEPOINT_PROVIDER
#define LTTNG_UST_TRACEPOINT_PROVIDER rival
#undef LTTNG_UST_TRACEPOINT_INCLUDE
#define LTTNG_UST_TRACEPOINT_INCLUDE "benchmarks/rival_lttng_tracepoint.h"

#if !defined(PITOT_BENCHMARKS_RIVAL_LTTNG_TRACEPOINT_H_) || defined(LTTNG_UST_TRACEPOINT_HEADER_MULTI_READ)
#define PITOT_BENCHMARKS_RIVAL_LTTNG_TRACEPOINT_H_

#include <lttng/tracepoint.h>
#include <stdint.h>

// clang-format off
LTTNG_UST_TRACEPOINT_EVENT(rival, numbered,
  LTTNG_UST_TP_ARGS(uint64_t, thread, uint64_t, number),
  LTTNG_UST_TP_FIELDS(lttng_ust_field_integer(uint64_t, thread, thread)
                      lttng_ust_field_integer(uint64_t, number, number)))
LTTNG_UST_TRACEPOINT_EVENT(rival, end, LTTNG_UST_TP_ARGS(), LTTNG_UST_TP_FIELDS())
// clang-format on

#endif  // PITOT_BENCHMARKS_RIVAL_LTTNG_TRACEPOINT_H_

#include <lttng/tracepoint-event.h>
