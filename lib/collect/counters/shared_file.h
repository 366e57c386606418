// SPDX-License-Identifier: Apache-2.0
//
// The samples of one GPU, shared by the processes of one user. The hardware has one sampler at a time: its process
// writes a file in shared memory, and the others read it. The same file asks the sampler to give the GPU away, or to
// fetch samples that a reader needs.
//
// The file is read and written by calls, never mapped: a file cut short cannot crash a host. Each part has a checksum,
// so a torn or forged part is a loss, and nothing more.
#ifndef PITOT_LIB_COLLECT_COUNTERS_SHARED_FILE_H_
#define PITOT_LIB_COLLECT_COUNTERS_SHARED_FILE_H_

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "collect/counters/metrics.h"

namespace pitot::counters {

// A process, also after another one got its number.
struct Process {
  uint32_t pid = 0;
  uint64_t started = 0;       // clock ticks since the machine's start; 0: unknown
  uint64_t namespace_id = 0;  // of its number
  std::string name;
};
Process ThisProcess();
// False if it has ended. A process of another namespace counts as running.
bool IsRunning(const Process& process);
// "process 1234 (server)".
std::string TextOf(const Process& process);

enum class SharedState : uint32_t { kEnded = 0, kSampling = 1, kReleased = 2 };

// Times are CLOCK_REALTIME ns, as CUPTI's are: containers may differ in the other clocks.
struct SharedView {
  bool is_there = false;
  std::string failure;  // why a file there cannot be used
  Process sampler;
  uint64_t session = 0;  // another one for each start of a sampler; its samples count from 0
  SharedState state = SharedState::kEnded;
  int64_t heartbeat_ns = 0;
  uint32_t interval_us = 0;
  uint64_t written = 0;           // samples so far
  uint64_t lost = 0;              // by the sampler
  int64_t newest_end_ns = 0;      // of its samples; 0: none
  std::vector<uint32_t> columns;  // for each published value, its column in a Sample; kColumns: not known here

  // The last wish to have the GPU; release_until_ns 0: none.
  int64_t asked_ns = 0, release_until_ns = 0;
  Process asked_by;

  int64_t needed_ns = 0;  // when a reader needed samples last; another value each time
};

// A sampler without a sign of life for this long is given up.
inline constexpr int64_t kHeartbeatNs = 3'000'000'000;
// The longest that a GPU is given away for one wish.
inline constexpr int64_t kLongestReleaseNs = 3'600'000'000'000;
inline constexpr uint32_t kSharedSlots = 8192;  // 33 s at 4 ms, 0.8 s at 100 us

// Whether the view's sampler is alive and samples.
bool IsSampling(const SharedView& view, int64_t realtime_ns);
// Whether a wish holds now.
bool IsReleaseAsked(const SharedView& view, int64_t realtime_ns);
// For how long it asks; 0 if the file does not say.
int64_t AskedSeconds(const SharedView& view);

// Belongs to one thread.
class SharedFile {
 public:
  // Without a user: this process's. An administrator may write another user's, for processes that may not sample.
  SharedFile(const std::string& directory, const std::string& gpu_id);
  SharedFile(const std::string& directory, const std::string& gpu_id, uint32_t user);
  ~SharedFile();
  SharedFile(const SharedFile&) = delete;
  SharedFile& operator=(const SharedFile&) = delete;

  const std::string& path() const { return path_; }
  SharedView Look() const;
  // Appends the samples from number `*next` on, in CLOCK_REALTIME, and advances it. Returns how many are lost.
  uint64_t Read(const SharedView& view, uint64_t* next, std::vector<Sample>* samples) const;

  // For the sampler. Each returns why it failed; empty: it did not. SetState leaves the file to another sampler that
  // has begun meanwhile.
  std::string Begin(const Process& sampler, uint32_t interval_us, int64_t realtime_ns);
  std::string Write(const std::vector<Sample>& samples, uint64_t lost, int64_t realtime_ns);
  std::string SetState(SharedState state, int64_t realtime_ns);
  // 0 before the first Begin.
  uint64_t session() const { return session_; }

  // Asks whoever samples to give the GPU away.
  std::string AskForRelease(const Process& by, int64_t now_ns, int64_t until_ns) const;
  // Tells the sampler that a reader needs samples now.
  std::string AskForSamples(int64_t realtime_ns) const;

 private:
  std::string WriteHeader(int64_t realtime_ns);
  template <class Part> std::string WriteAsReader(Part part, off_t at) const;
  std::string OpenToWrite();

  int Open(int flags, std::string* failure) const;

  const uint32_t user_;
  const std::string path_;
  int fd_ = -1;  // of the sampler
  Process sampler_;
  SharedState state_ = SharedState::kEnded;
  uint64_t session_ = 0, written_ = 0, lost_ = 0;
  int64_t newest_end_ns_ = 0;
  uint32_t interval_us_ = 0;
};

// The GPUs with a file of this user, by their ids; 64 at most.
std::vector<std::string> FindShared(const std::string& directory);

inline constexpr const char* kSharedDirectory = "/dev/shm";

}  // namespace pitot::counters

#endif  // PITOT_LIB_COLLECT_COUNTERS_SHARED_FILE_H_
