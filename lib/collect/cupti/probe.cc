// SPDX-License-Identifier: Apache-2.0
#include "collect/cupti/probe.h"

#include "base/message.h"
#include "collect/cupti/calls.h"
#include "collect/cupti/control.h"
#include "collect/cupti/driver.h"
#include "collect/cupti/kineto.h"

namespace pitot::cupti {
namespace {

// Never read. An old CUPTI crashes without a buffer.
alignas(8) uint8_t g_unread[64 << 10];

void GiveUnread(uint8_t** buffer, size_t* size, size_t* most_records) {
  *buffer = g_unread;
  *size = sizeof g_unread;
  *most_records = 0;
}

}  // namespace

Status TryCupti(const Api& api) {
  ApiCalls calls;
  calls.Find(api);
  base::UntilExit until_exit;
  const Control::Callbacks callbacks{[](void*, int, uint32_t, const void*) {}, nullptr, GiveUnread,
                                     [](void*, uint32_t, uint8_t*, size_t, size_t) {}, [](void*, bool) {}};
  Control control(&api, &until_exit, &calls, callbacks, {AskKineto, AskCuda});
  if (Status status = control.Start(Attach::kAtStart, false); !status.ok()) return status;
  control.SetDepth(Depth::kKernels, true);
  const bool is_recording = control.mode() == Mode::kOn && control.depth() == Depth::kKernels;
  const std::string reason = control.Reason();
  control.Stop();
  return is_recording ? Status() : base::Error(StatusCode::kUnavailable, "%s", reason.c_str());
}

}  // namespace pitot::cupti
