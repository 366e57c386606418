// SPDX-License-Identifier: Apache-2.0
#include "snapshot/signs.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "snapshot/record.h"
#include "snapshot/ring_reader.h"
#include "snapshot/site_reader.h"
#include "snapshot/snapshot.h"
#include "trace/clock.h"
#include "trace/internal_sites.h"

namespace pitot::snapshot {
namespace {

constexpr int kMostParents = 8;  // a child's work counts for so many of them

// The number of stages in words of a request, and where the last one is.
uint64_t LastStage(const trace::RecordWords& words) {
  const uint64_t numbers = words.words[4];
  const uint64_t labels = numbers >> 48 & 15, sizes = numbers >> 52 & 15, stages = numbers >> 56;
  const uint64_t at = trace::kRequestFixedWords + labels + 2 * sizes + stages;
  return stages != 0 && at <= words.count ? words.words[at - 1] : 0;
}

// Reads sites once for a look.
class OwnKinds {
 public:
  SignKind operator()(uint64_t site) {
    const auto [known, is_new] = known_.try_emplace(site, SignKind::kWork);
    if (is_new) known->second = SignKindOf(ReadSite(site));
    return known->second;
  }

 private:
  std::unordered_map<uint64_t, SignKind> known_;
};

void AddWorkOf(const trace::ThreadRing& ring, uint64_t now_ticks, const KindOf& kind_of,
               std::vector<ThreadSign>* threads) {
  const uint64_t head = Acquire(&ring.head);
  const trace::RingShape shape = trace::ShapeOf(ring);
  const uint64_t count = std::min(head - std::max(ring.first_word, shape.OldestAt(head)), kSignWords);
  uint64_t words[kSignWords];
  for (uint64_t i = 0; i < count; ++i) words[i] = Acquire(&ring.words[shape.PlaceOf(head - count + i)]);
  // Words overwritten meanwhile are left out.
  const uint64_t intact = trace::ShapeOf(ring).OldestAt(Acquire(&ring.head) + detail::kMaxRecordWords);
  const uint64_t first = std::clamp(intact, head - count, head) - (head - count);
  AddWork(ring, words + first, words + count, now_ticks, kind_of, threads);
}

}  // namespace

SignKind SignKindOf(const SiteText& site) {
  if (site.kind == SiteKind::kWait) return SignKind::kWait;
  if (site.kind != SiteKind::kInternal) return SignKind::kWork;
  if (site.flags == static_cast<uint16_t>(trace::Record::kContext)) return SignKind::kContext;
  if (site.flags == static_cast<uint16_t>(trace::Record::kBatchContext)) return SignKind::kBatchContext;
  if (site.flags == static_cast<uint16_t>(trace::Record::kThreadEnd)) return SignKind::kThreadEnd;
  return SignKind::kWork;
}

void AddWork(const trace::ThreadRing& ring, const uint64_t* first, const uint64_t* last, uint64_t now_ticks,
             const KindOf& kind_of, std::vector<ThreadSign>* threads) {
  ThreadSign context{Acquire(&ring.request), Acquire(&ring.batch)};
  if (context.request != 0 || context.batch != 0) threads->push_back({context.request, context.batch, 0, ring.tid});
  const auto add = [&](uint64_t ticks) {
    // The newest work in a context comes first.
    if (context.work_ticks != 0) return;
    context.work_ticks = std::min(ticks, now_ticks);
    threads->push_back(context);
  };
  uint64_t newest_open = 0;
  for (const detail::OpenScope& open : ring.open) {
    const uint64_t begin = Acquire(&open.begin);
    if (begin == 0 || begin > now_ticks) continue;
    const Site* const site = __atomic_load_n(&open.site, __ATOMIC_ACQUIRE);
    if (kind_of(reinterpret_cast<uintptr_t>(site)) == SignKind::kWork) newest_open = std::max(newest_open, begin);
  }
  if (newest_open != 0) threads->push_back({context.request, context.batch, newest_open});
  RecordCursor cursor(first, last, now_ticks);
  Record record;
  while (cursor.Next(&record)) {
    const SignKind kind = kind_of(record.site);
    if (kind == SignKind::kWait) continue;
    if (kind == SignKind::kThreadEnd) {
      // The records before are those of the ring's former thread.
      context = record.arg_words >= trace::LeastWords(trace::Record::kThreadEnd)
                    ? ThreadSign{record.args[3], record.args[4]}
                    : ThreadSign{};
      continue;
    }
    add(record.end_ticks);
    if (record.arg_words < 2) continue;
    const uint64_t before = record.args[0];
    if (kind == SignKind::kContext) context = {before, context.batch};
    if (kind == SignKind::kBatchContext) context = {context.request, before};
    if (kind != SignKind::kWork) add(record.end_ticks);
  }
}

void AddRequest(const trace::OpenRequest& open, Signs* signs) {
  if (open.is_ending) return;
  OpenSign sign;
  sign.id = open.words.words[0];
  sign.parent = open.words.words[1];
  sign.batch = open.batch;
  sign.route = static_cast<uint32_t>(open.words.words[4] & trace::kNameMask);
  sign.begin_ticks = open.begin_ticks;
  sign.late_ticks = open.late_ticks;
  sign.sign_ticks = std::max({open.begin_ticks, open.token_ticks, open.taken_ticks});
  if (const uint64_t stage = LastStage(open.words); stage != 0) {
    sign.stage = static_cast<uint32_t>(stage >> 48);
    sign.sign_ticks = std::max(sign.sign_ticks, open.begin_ticks + (stage & trace::kStageTicksMask));
  }
  signs->requests.push_back(sign);
}

void Combine(const std::vector<ThreadSign>& threads, Signs* signs) {
  std::unordered_map<uint64_t, uint64_t> by_request, by_batch;
  for (const ThreadSign& thread : threads) {
    if (thread.tid != 0) signs->workers.push_back(thread);
    signs->life_ticks = std::max(signs->life_ticks, thread.work_ticks);
    for (auto [id, newest] : {std::pair(thread.request, &by_request), std::pair(thread.batch, &by_batch)}) {
      if (id == 0) continue;
      uint64_t& ticks = (*newest)[id];
      ticks = std::max(ticks, thread.work_ticks);
    }
    if (thread.batch != 0) signs->batch_ticks = std::max(signs->batch_ticks, thread.work_ticks);
  }
  const auto newest_of = [](const std::unordered_map<uint64_t, uint64_t>& newest, uint64_t id) {
    const auto found = newest.find(id);
    return found != newest.end() ? found->second : 0;
  };
  std::unordered_map<uint64_t, OpenSign*> by_id;
  for (OpenSign& request : signs->requests) {
    request.sign_ticks = std::max({request.sign_ticks, newest_of(by_request, request.id),
                                   request.batch != 0 ? newest_of(by_batch, request.batch) : 0});
    by_id[request.id] = &request;
  }
  for (const OpenSign& request : signs->requests) {
    uint64_t parent = request.parent;
    for (int i = 0; i < kMostParents && parent != 0; ++i) {
      const auto found = by_id.find(parent);
      if (found == by_id.end()) break;
      found->second->sign_ticks = std::max(found->second->sign_ticks, request.sign_ticks);
      parent = found->second->parent;
    }
  }
}

void NoteRunning(const std::vector<int64_t>& tids, Signs* signs) {
  std::unordered_map<uint64_t, OpenSign*> by_id;
  for (OpenSign& request : signs->requests) by_id[request.id] = &request;
  const auto note = [&](OpenSign* request) {
    for (int i = 0; i <= kMostParents && !request->is_running; ++i) {
      request->is_running = true;
      const auto parent = by_id.find(request->parent);
      if (parent == by_id.end()) break;
      request = parent->second;
    }
  };
  for (const ThreadSign& worker : signs->workers) {
    if (std::find(tids.begin(), tids.end(), worker.tid) == tids.end()) continue;
    for (OpenSign& request : signs->requests) {
      if (request.id == worker.request || (worker.batch != 0 && request.batch == worker.batch)) note(&request);
    }
  }
}

Signs OwnSigns(bool slow_clock) {
  Signs signs;
  signs.now_ticks = signs.life_ticks = trace::NowTicks(slow_clock);
  VisitOpen({}, [&signs](const trace::OpenRequest& open) { AddRequest(open, &signs); });
  for (uint32_t i = 0; i < trace::kMaxRoutes; ++i) signs.routes.push_back(trace::ProgressOfRoute(i));
  signs.open_batches = trace::CountOpenBatches();
  std::vector<ThreadSign> threads;
  OwnKinds kinds;
  const KindOf kind_of = std::ref(kinds);
  {
    const trace::PinnedRings rings;
    for (const trace::ThreadRing* ring : rings) AddWorkOf(*ring, signs.now_ticks, kind_of, &threads);
  }
  Combine(threads, &signs);
  return signs;
}

}  // namespace pitot::snapshot
