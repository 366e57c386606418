// SPDX-License-Identifier: Apache-2.0
//
// Completes fake_cupti.cc: functions of CUPTI's activity and callback API without a use in Pitot. They count their
// calls.
#include <atomic>

#define EXPORT extern "C" [[gnu::visibility("default")]]

namespace {

std::atomic<int> g_calls{0};

int Count() {
  ++g_calls;
  return 0;
}

}  // namespace

EXPORT int rest_of_cupti_calls() { return g_calls.load(); }

#define COUNTED(name) \
  EXPORT int name() { return Count(); }

COUNTED(cuptiFinalize)
COUNTED(cuptiEnableDomain)
COUNTED(cuptiEnableAllDomains)
COUNTED(cuptiGetCallbackState)
COUNTED(cuptiSupportedDomains)
COUNTED(cuptiGetContextId)
COUNTED(cuptiGetDeviceId)
COUNTED(cuptiGetGraphId)
COUNTED(cuptiGetGraphExecId)
COUNTED(cuptiGetStreamId)
COUNTED(cuptiGetThreadIdType)
COUNTED(cuptiGetTimestamp)
COUNTED(cuptiGetLastError)
COUNTED(cuptiActivityConfigurePCSampling)
COUNTED(cuptiActivityConfigureUnifiedMemoryCounter)
COUNTED(cuptiActivityDisableContext)
COUNTED(cuptiActivityEnableAllocationSource)
COUNTED(cuptiActivityEnableAndDump)
COUNTED(cuptiActivityEnableContext)
COUNTED(cuptiActivityEnableCudaEventDeviceTimestamps)
COUNTED(cuptiActivityEnableDeviceGraph)
COUNTED(cuptiActivityEnableHWTrace)
COUNTED(cuptiActivityEnableLatencyTimestamps)
COUNTED(cuptiActivityEnableLaunchAttributes)
COUNTED(cuptiActivityFlush)
COUNTED(cuptiActivityGetAttribute)
COUNTED(cuptiActivityPopExternalCorrelationId)
COUNTED(cuptiActivityPushExternalCorrelationId)
COUNTED(cuptiActivityRegisterTimestampCallback)
