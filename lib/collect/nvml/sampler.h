// SPDX-License-Identifier: Apache-2.0
//
// Asks the driver for all values, round by round. Belongs to one thread; its values go to a History. A failure is noted
// there. The call is then repeated never (not supported), each minute (no permission, GPM) or each second. A call above
// kDearNs is made once a second.
#ifndef PITOT_LIB_COLLECT_NVML_SAMPLER_H_
#define PITOT_LIB_COLLECT_NVML_SAMPLER_H_

#include <stdint.h>
#include <sys/types.h>

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "base/timer.h"
#include "collect/nvml/api.h"
#include "collect/nvml/counters.h"
#include "collect/nvml/history.h"
#include "pitot/status.h"

namespace pitot::nvml {

// The process as the driver knows it.
struct OwnProcess {
  pid_t pid = 0;
  // False in a PID namespace, because the driver's numbers may differ there.
  bool has_global_pid = true;
};
OwnProcess FindOwnProcess();

class Sampler {
 public:
  Sampler(const OwnProcess& own, uint32_t rate_hz, base::Timer* timer, History* history)
      : own_(own), rate_hz_(rate_hz), timer_(timer), history_(history) {}

  // Loads and initialises NVML, and finds its devices. Throws when out of memory. After a failure there is nothing to
  // Close.
  Status Open(const std::string& library);
  void Round() noexcept;
  void Close() noexcept;

 private:
  struct Written {
    double value = 0;
    int64_t at_ns = 0;
    bool is_valid = false;
  };

  // The growth of a driver's counter since the first look.
  struct Growth {
    unsigned long long last = 0, total = 0;
    bool has_last = false;
  };

  struct Gpm {
    GpmSample samples[2] = {nullptr, nullptr};
    uint32_t newest = 0;
    int64_t at_ns = 0;          // time of the newest
    bool has_newest = false;    // a pair needs a first
    bool is_supported = false;  // and samples were allocated
  };

  struct DeviceEntry {
    uint32_t index = 0;
    nvml::Device handle = nullptr;  // null: there is no handle
    DeviceState state;
    std::array<int64_t, kSourceCount> retry_at_ns{};
    std::array<int64_t, kSourceCount> last_took_ns{};
    std::array<Written, kCounterCount> written;
    std::array<Growth, 6> fields;  // from kFirstField on
    uint64_t xid_errors = 0, last_xid = 0;
    bool has_xid_events = false;
    Gpm gpm;
  };

  std::vector<DeviceInfo> FindDevices(uint32_t count);
  void LeaveOutMissingFunctions(DeviceEntry* device) noexcept;
  bool IsDue(const DeviceEntry& device, Source source) const noexcept;
  void NoteTime(DeviceEntry* device, Source source, int64_t took_ns) noexcept;
  void Fail(DeviceEntry* device, Source source, Result result) noexcept;
  // Notes a call's result; true if it succeeded.
  bool Note(DeviceEntry* device, Source source, Result result) noexcept;
  // Makes the call if `source` is due; true if it succeeded.
  template <class Function> bool Ask(DeviceEntry* device, Source source, Function call) noexcept;
  void Write(DeviceEntry* device, Counter counter, double value, uint32_t age_us = 0) noexcept;

  void RegisterEvents() noexcept;
  void FailEvents(Result result) noexcept;
  void TakeEvents() noexcept;
  void AskState(DeviceEntry* device) noexcept;
  void AskField(DeviceEntry* device, Source source, unsigned int field) noexcept;
  void AskProcesses(DeviceEntry* device) noexcept;
  void AskEcc(DeviceEntry* device) noexcept;
  void AskGpm(DeviceEntry* device) noexcept;
  bool OpenGpm(DeviceEntry* device) noexcept;
  void AskGpmMetrics(DeviceEntry* device, int64_t before_ns) noexcept;

  const OwnProcess own_;
  const uint32_t rate_hz_;
  base::Timer* const timer_;
  History* const history_;
  Api api_{};
  SlowdownFields slowdown_fields_{};
  std::vector<DeviceEntry> devices_;
  std::vector<ProcessInfo> processes_;
  std::unique_ptr<GpmMetricsGet> gpm_;
  EventSet events_ = nullptr;
  int64_t events_retry_at_ns_ = 0;
  std::vector<Sample> samples_;  // of one device in one round
  int64_t now_ns_ = 0;
  int64_t due_ns_ = 0;  // when the round began; retries due by then are made
  uint64_t round_ = 0;
};

}  // namespace pitot::nvml

#endif  // PITOT_LIB_COLLECT_NVML_SAMPLER_H_
