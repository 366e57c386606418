// SPDX-License-Identifier: Apache-2.0
#include "snapshot/former_threads.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <utility>

#include "snapshot/record.h"
#include "trace/internal_sites.h"
#include "trace/rings.h"

namespace pitot::snapshot {
namespace {

constexpr uint32_t kThreadEndWords = trace::LeastWords(trace::Record::kThreadEnd);

// What the record of a thread's end says of the records before it. They end at `last`.
RingCopy OfFormer(const Record& end, const uint64_t* last) {
  RingCopy copy;
  copy.number = static_cast<uint32_t>(end.args[0]);
  copy.tid = static_cast<int64_t>(end.args[0] >> 32);
  copy.exited = true;
  copy.last = last;
  copy.attach_ticks = std::min(end.begin_ticks, end.end_ticks);
  copy.cut_ticks = copy.now_ticks = copy.exit_ticks = end.end_ticks;
  copy.events = end.args[1];
  copy.misnested = end.args[2];
  copy.request = end.args[3];
  copy.batch = end.args[4];
  const size_t name_bytes = (end.arg_words - kThreadEndWords) * sizeof *last;
  std::memcpy(copy.name, end.args + kThreadEndWords, std::min(name_bytes, sizeof copy.name));
  copy.name[trace::kThreadNameBytes - 1] = '\0';
  return copy;
}

}  // namespace

void SplitByThread(uint64_t end_site, size_t most, RingCopy* copy, std::vector<RingCopy>* formers) {
  if (end_site == 0) {
    copy->first = copy->last;
    copy->oldest = Oldest::kBroken;
    return;
  }
  const size_t before = formers->size();
  const uint64_t* record_end = copy->last;
  RecordCursor cursor(copy->first, copy->last, copy->now_ticks);
  Record record;
  for (; cursor.Next(&record); record_end = cursor.at()) {
    if (record.site != end_site || record.arg_words < kThreadEndWords) continue;
    RingCopy& part = formers->size() != before ? formers->back() : *copy;
    const uint64_t* const first = std::exchange(part.first, record_end);
    const Oldest oldest = std::exchange(part.oldest, Oldest::kAttach);
    const uint64_t lapped_words = std::exchange(part.lapped_words, 0);
    if (formers->size() - before == most) break;
    RingCopy former = OfFormer(record, cursor.at());
    former.first = first;
    former.oldest = oldest;
    former.lapped_words = lapped_words;
    const uint32_t former_threads = std::exchange(part.former_threads, 0);
    former.former_threads = former_threads - std::min(former_threads, uint32_t{1});
    formers->push_back(std::move(former));
  }
  if (formers->size() != before && (*formers)[before].number == copy->number) copy->number = 0;
}

void SplitByThreads(uint64_t end_site, std::vector<RingCopy>* copies) {
  // 4 MiB. With a small budget it is less: a thread has 13 words in the ring at least.
  constexpr size_t kMostFormers = 16384;
  const auto has_formers = [](const RingCopy& copy) { return copy.former_threads != 0; };
  const auto has_no_thread = [](const RingCopy& copy) { return copy.number == 0; };
  auto left = static_cast<size_t>(std::count_if(copies->begin(), copies->end(), has_formers));
  if (left == 0 && std::none_of(copies->begin(), copies->end(), has_no_thread)) return;
  std::vector<RingCopy> formers;
  for (RingCopy& copy : *copies) {
    if (has_formers(copy))
      SplitByThread(end_site, (kMostFormers - formers.size()) / std::max<size_t>(left--, 1), &copy, &formers);
  }
  std::move(formers.begin(), formers.end(), std::back_inserter(*copies));
  std::erase_if(*copies, has_no_thread);
  std::sort(copies->begin(), copies->end(), [](const RingCopy& a, const RingCopy& b) { return a.number < b.number; });
}

}  // namespace pitot::snapshot
