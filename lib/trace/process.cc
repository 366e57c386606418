// SPDX-License-Identifier: Apache-2.0
#include "trace/process.h"

#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <cstring>
#include <new>

#include "base/mutex.h"
#include "pitot/version.h"
#include "trace/bus_guard.h"
#include "trace/last_rows.h"
#include "trace/lateness.h"
#include "trace/names.h"
#include "trace/parent_only.h"
#include "trace/requests.h"
#include "trace/rest.h"
#include "trace/rings.h"

extern "C" {
// In the dynamic symbol table, so that the linker may merge the copies it sees into one. Others (a plug-in opened with
// RTLD_LOCAL) are found by walking the loaded objects.
pitot_process_info pitot_process = {sizeof(pitot_process_info), 0, PITOT_VERSION_STRING, nullptr};
}

namespace pitot::trace {
namespace {

// The files of the loaded objects, each ended by a zero; "" is the program. Room for a thousand paths of Python's
// length.
struct Objects {
  char paths[128 * 1024];
  size_t bytes = 0;
};

constinit base::Mutex g_process_mutex;
constinit bool g_claimed PITOT_GUARDED_BY(g_process_mutex) = false;  // by this copy
constinit bool g_watching_forks PITOT_GUARDED_BY(g_process_mutex) = false;
constinit std::atomic<uint32_t> g_fork_epoch{0};
constinit std::atomic<pid_t> g_claimed_by{0};  // the process with the claim

bool IsRecording(pitot_process_info* info) { return __atomic_load_n(&info->recording, __ATOMIC_ACQUIRE) != 0; }

// The file of the copy with the running recorder.
const char* FileOf(const pitot_process_info& info) {
  const void* recorder =
      info.size > offsetof(pitot_process_info, recorder) ? __atomic_load_n(&info.recorder, __ATOMIC_ACQUIRE) : nullptr;
  Dl_info where;
  const bool known = dladdr(recorder != nullptr ? recorder : &info, &where) != 0 && where.dli_fname != nullptr;
  return known ? where.dli_fname : "this process";
}

// Copies the name, because closing the object meanwhile would free it. A name without room is left out.
int AddObject(dl_phdr_info* info, size_t, void* context) {
  auto* objects = static_cast<Objects*>(context);
  const char* path = info->dlpi_name != nullptr ? info->dlpi_name : "";
  const size_t bytes = std::strlen(path) + 1;
  if (bytes > sizeof objects->paths - objects->bytes) return 0;
  std::memcpy(objects->paths + objects->bytes, path, bytes);
  objects->bytes += bytes;
  return 0;
}

// Returns the file of another copy that records, or null.
const char* FindRecordingCopy() PITOT_REQUIRES(g_process_mutex) {
  static Objects objects;  // too large for a small stack
  objects.bytes = 0;
  dl_iterate_phdr(AddObject, &objects);
  for (const char* path = objects.paths; path < objects.paths + objects.bytes; path += std::strlen(path) + 1) {
    void* object = dlopen(path[0] == '\0' ? nullptr : path, RTLD_LAZY | RTLD_NOLOAD);
    if (object == nullptr) continue;
    auto* info = static_cast<pitot_process_info*>(dlsym(object, "pitot_process"));
    const bool is_recording = info != nullptr && info != &pitot_process && IsRecording(info);
    const char* file = is_recording ? FileOf(*info) : nullptr;
    dlclose(object);                   // only now: our handle may have been the last one
    if (file != nullptr) return file;  // remains valid: a copy is never unloaded (-z nodelete)
  }
  return nullptr;
}

void AfterForkInChild() {
  MakeParentOnlyAfterFork();
  g_fork_epoch.fetch_add(1, std::memory_order_relaxed);
  g_claimed_by.store(0);
  __atomic_store_n(&detail::g_gate, 0, __ATOMIC_RELAXED);
  __atomic_store_n(&pitot_process.recording, 0, __ATOMIC_RELAXED);
  new (&g_process_mutex) base::Mutex;
  {
    const base::MutexLock lock(&g_process_mutex);
    g_claimed = false;
  }
  ResetNamesAfterFork();
  ResetLastRowsAfterFork();
  ForgetRequestsAfterFork();
  ForgetLatenessAfterFork();
  ForgetRestsAfterFork();
  ForgetRingsAfterFork();
  ForgetGuardedAfterFork();
}

}  // namespace

void BecomeChild() noexcept { AfterForkInChild(); }

const char* ClaimProcess() noexcept {
  // A child that was made without the C library's handlers (clone, _Fork).
  const pid_t claimed_by = g_claimed_by.load();
  if (claimed_by != 0 && claimed_by != getpid()) AfterForkInChild();
  const base::MutexLock lock(&g_process_mutex);
  uint32_t idle = 0;
  if (!__atomic_compare_exchange_n(&pitot_process.recording, &idle, 1, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
    return FileOf(pitot_process);
  }
  if (const char* other = FindRecordingCopy()) {
    __atomic_store_n(&pitot_process.recording, 0, __ATOMIC_RELEASE);
    return other;
  }
  g_claimed = true;
  g_claimed_by.store(getpid());
  __atomic_store_n(&pitot_process.recorder, &g_claimed, __ATOMIC_RELEASE);
  return nullptr;
}

void ReleaseProcess() noexcept {
  const base::MutexLock lock(&g_process_mutex);
  if (!g_claimed) return;
  g_claimed = false;
  g_claimed_by.store(0);
  __atomic_store_n(&pitot_process.recording, 0, __ATOMIC_RELEASE);
}

uint32_t ForkEpoch() noexcept { return g_fork_epoch.load(std::memory_order_relaxed); }

bool WatchForks() noexcept {
  const base::MutexLock lock(&g_process_mutex);
  if (!g_watching_forks) g_watching_forks = pthread_atfork(nullptr, nullptr, AfterForkInChild) == 0;
  return g_watching_forks;
}

}  // namespace pitot::trace
