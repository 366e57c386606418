// SPDX-License-Identifier: Apache-2.0
//
// Signs of progress: the newest event of each open request, from the table of open requests and the newest records of
// its threads. session/health.h judges them. They are this process's, or another living one's, from its black box.
#ifndef PITOT_LIB_SNAPSHOT_SIGNS_H_
#define PITOT_LIB_SNAPSHOT_SIGNS_H_

#include <cstdint>
#include <functional>
#include <vector>

#include "snapshot/site_reader.h"
#include "trace/requests.h"
#include "trace/rings.h"

namespace pitot::snapshot {

// An open request. Names are indices; 0: there is none.
struct OpenSign {
  uint64_t id = 0, parent = 0, batch = 0;
  uint32_t route = 0, stage = 0;
  uint64_t begin_ticks = 0;
  uint64_t late_ticks = 0;  // when it becomes late; ~0: never
  uint64_t sign_ticks = 0;  // the newest: its beginning, stage, token or take, or work of a thread, batch or child
  bool is_running = false;  // a thread that is at work for it, its batch or a child uses a CPU
};

// Work of a thread, perhaps for a request or a batch.
struct ThreadSign {
  uint64_t request = 0, batch = 0;
  uint64_t work_ticks = 0;
  int64_t tid = 0;  // of a thread that is at it now
};

struct Signs {
  uint64_t now_ticks = 0;
  uint64_t life_ticks = 0;  // the watcher's last look, or the newest event of any thread
  bool are_requests_known = true;
  std::vector<OpenSign> requests;
  std::vector<trace::RouteProgress> routes;
  uint64_t open_batches = 0;
  uint64_t batch_ticks = 0;         // the newest work of a thread with a batch; 0: none is known
  std::vector<ThreadSign> workers;  // those with a tid
};

// What a record says of progress, by the address of its site.
enum class SignKind : uint8_t {
  kWork,
  kWait,  // none: a thread that waits again and again makes no progress
  kContext,
  kBatchContext,
  kThreadEnd,
};
using KindOf = std::function<SignKind(uint64_t site)>;
SignKind SignKindOf(const SiteText& site);

// How many of a ring's newest words are read.
inline constexpr uint64_t kSignWords = 512;
// Adds the work in a ring: in its newest words [first, last), with their contexts, and on its open stack. Throws
// bad_alloc.
void AddWork(const trace::ThreadRing& ring, const uint64_t* first, const uint64_t* last, uint64_t now_ticks,
             const KindOf& kind_of, std::vector<ThreadSign>* threads);

// Throw bad_alloc.
void AddRequest(const trace::OpenRequest& open, Signs* signs);
// Threads and children count for the requests that they work for.
void Combine(const std::vector<ThreadSign>& threads, Signs* signs);
// The workers with these numbers use a CPU.
void NoteRunning(const std::vector<int64_t>& tids, Signs* signs);

// This process's. Throws bad_alloc. Cost: some us for each thread with a context.
Signs OwnSigns(bool slow_clock);

}  // namespace pitot::snapshot

#endif  // PITOT_LIB_SNAPSHOT_SIGNS_H_
