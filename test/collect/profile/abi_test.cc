// SPDX-License-Identifier: Apache-2.0
//
// Compares abi.h with NVIDIA's headers of the range profiler.
#include "collect/profile/abi.h"

#include <catch2/catch.hpp>
#include <cstddef>

#if __has_include(<cupti_range_profiler.h>)
#include <cupti_profiler_host.h>
#include <cupti_profiler_target.h>
#include <cupti_range_profiler.h>

namespace {

using namespace pitot::profile;

template <auto ours, auto theirs> constexpr bool kSame = static_cast<long>(ours) == static_cast<long>(theirs);

static_assert(kSame<kRangeProfiler, CUPTI_PROFILER_TYPE_RANGE_PROFILER>);
static_assert(kSame<kAutoRange, CUPTI_AutoRange>);
static_assert(kSame<kKernelReplay, CUPTI_KernelReplay>);
static_assert(kSame<kUserReplay, CUPTI_UserReplay>);

#define PITOT_SAME_OFFSET(ours, member, theirs, their_member) \
  static_assert(offsetof(ours, member) == offsetof(theirs, their_member))
PITOT_SAME_OFFSET(ContextAvailabilityParams, context, CUpti_Profiler_GetCounterAvailability_Params, ctx);
PITOT_SAME_OFFSET(ContextAvailabilityParams, image_bytes, CUpti_Profiler_GetCounterAvailability_Params,
                  counterAvailabilityImageSize);
PITOT_SAME_OFFSET(ContextAvailabilityParams, image, CUpti_Profiler_GetCounterAvailability_Params,
                  pCounterAvailabilityImage);
PITOT_SAME_OFFSET(RangeEnableParams, profiler, CUpti_RangeProfiler_Enable_Params, pRangeProfilerObject);
PITOT_SAME_OFFSET(RangeParams, profiler, CUpti_RangeProfiler_Start_Params, pRangeProfilerObject);
PITOT_SAME_OFFSET(RangeConfigParams, config, CUpti_RangeProfiler_SetConfig_Params, pConfig);
PITOT_SAME_OFFSET(RangeConfigParams, data, CUpti_RangeProfiler_SetConfig_Params, pCounterDataImage);
PITOT_SAME_OFFSET(RangeConfigParams, range, CUpti_RangeProfiler_SetConfig_Params, range);
PITOT_SAME_OFFSET(RangeConfigParams, replay, CUpti_RangeProfiler_SetConfig_Params, replayMode);
PITOT_SAME_OFFSET(RangeConfigParams, most_ranges, CUpti_RangeProfiler_SetConfig_Params, maxRangesPerPass);
PITOT_SAME_OFFSET(RangeConfigParams, levels, CUpti_RangeProfiler_SetConfig_Params, numNestingLevels);
PITOT_SAME_OFFSET(RangeConfigParams, least_level, CUpti_RangeProfiler_SetConfig_Params, minNestingLevel);
PITOT_SAME_OFFSET(RangeConfigParams, pass, CUpti_RangeProfiler_SetConfig_Params, passIndex);
PITOT_SAME_OFFSET(RangeStopParams, is_all_submitted, CUpti_RangeProfiler_Stop_Params, isAllPassSubmitted);
PITOT_SAME_OFFSET(RangeDecodeParams, dropped, CUpti_RangeProfiler_DecodeData_Params, numOfRangeDropped);
PITOT_SAME_OFFSET(RangeDataSizeParams, most_ranges, CUpti_RangeProfiler_GetCounterDataSize_Params, maxNumOfRanges);
PITOT_SAME_OFFSET(RangeDataSizeParams, most_nodes, CUpti_RangeProfiler_GetCounterDataSize_Params, maxNumRangeTreeNodes);
PITOT_SAME_OFFSET(RangeDataSizeParams, bytes, CUpti_RangeProfiler_GetCounterDataSize_Params, counterDataSize);
PITOT_SAME_OFFSET(RangeDataInitializeParams, data, CUpti_RangeProfiler_CounterDataImage_Initialize_Params,
                  pCounterData);
PITOT_SAME_OFFSET(RangeDataInfoParams, ranges, CUpti_RangeProfiler_GetCounterDataInfo_Params, numTotalRanges);
#undef PITOT_SAME_OFFSET

}  // namespace

TEST_CASE("parameters of the range profiler have the sizes of NVIDIA's headers", "[profile]") {
  CHECK(MakeRange<ContextAvailabilityParams>().size == CUpti_Profiler_GetCounterAvailability_Params_STRUCT_SIZE);
  CHECK(MakeRange<RangeEnableParams>().size == CUpti_RangeProfiler_Enable_Params_STRUCT_SIZE);
  CHECK(MakeRange<RangeParams>().size == CUpti_RangeProfiler_Disable_Params_STRUCT_SIZE);
  CHECK(MakeRange<RangeParams>().size == CUpti_RangeProfiler_Start_Params_STRUCT_SIZE);
  CHECK(MakeRange<RangeConfigParams>().size == CUpti_RangeProfiler_SetConfig_Params_STRUCT_SIZE);
  CHECK(MakeRange<RangeStopParams>().size == CUpti_RangeProfiler_Stop_Params_STRUCT_SIZE);
  CHECK(MakeRange<RangeDecodeParams>().size == CUpti_RangeProfiler_DecodeData_Params_STRUCT_SIZE);
  CHECK(MakeRange<RangeDataSizeParams>().size == CUpti_RangeProfiler_GetCounterDataSize_Params_STRUCT_SIZE);
  CHECK(MakeRange<RangeDataInitializeParams>().size ==
        CUpti_RangeProfiler_CounterDataImage_Initialize_Params_STRUCT_SIZE);
  CHECK(MakeRange<RangeDataInfoParams>().size == CUpti_RangeProfiler_GetCounterDataInfo_Params_STRUCT_SIZE);
}
#endif
