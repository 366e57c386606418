// SPDX-License-Identifier: Apache-2.0
#include "trace/names.h"

#include <cstring>
#include <new>

#include "base/mutex.h"
#include "trace/box.h"
#include "trace/parent_only.h"
#include "trace/process.h"

namespace pitot::trace {
namespace {

struct Entry {
  std::atomic<const char*> text{nullptr};  // size byte, then the bytes
  uint64_t hash = 0;                       // written before `text` is published
};

constexpr uint32_t kBuckets = kMaxNames * 2;
constexpr size_t kBlockBytes = 16384;
constexpr uint32_t kMaxBlocks = kMaxNameTextBytes / kBlockBytes;

// All zero until used: pages without names cost nothing.
constinit Entry g_entries[kMaxNames]{};
constinit std::atomic<uint32_t> g_buckets[kBuckets];
constinit std::atomic<uint32_t> g_count{1};  // 0 is "(other)"
constinit std::atomic<uint64_t> g_refused_names{0};
constinit base::Mutex g_names_mutex;  // held while a name is added
constinit char* g_block PITOT_GUARDED_BY(g_names_mutex) = nullptr;
constinit size_t g_block_left PITOT_GUARDED_BY(g_names_mutex) = 0;
constinit uint32_t g_blocks PITOT_GUARDED_BY(g_names_mutex) = 0;
constinit BoxLog g_names_log PITOT_GUARDED_BY(g_names_mutex);

uint64_t Hash(std::string_view text) {
  uint64_t hash = 0xcbf29ce484222325;  // FNV-1a
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return hash ^ hash >> 29;
}

std::string_view TextOf(const char* stored) { return {stored + 1, static_cast<unsigned char>(stored[0])}; }

// Returns the index of `text`, or 0; `*bucket` is its place, or the place for it.
uint32_t Find(std::string_view text, uint64_t hash, uint32_t* bucket) {
  for (uint32_t at = static_cast<uint32_t>(hash % kBuckets);; at = (at + 1) % kBuckets) {
    const uint32_t index = g_buckets[at].load(std::memory_order_acquire);
    *bucket = at;
    if (index == 0) return 0;
    if (g_entries[index].hash == hash && TextOf(g_entries[index].text.load(std::memory_order_relaxed)) == text)
      return index;
  }
}

}  // namespace

Name InternText(std::string_view text) noexcept {
  text = text.substr(0, kMaxNameBytes);
  const uint64_t hash = Hash(text);
  uint32_t bucket;
  if (const uint32_t index = Find(text, hash, &bucket)) return {index};
  if (IsUntoldChild()) BecomeChild();
  const base::MutexLock lock(&g_names_mutex);
  if (const uint32_t index = Find(text, hash, &bucket)) return {index};
  const uint32_t index = g_count.load(std::memory_order_relaxed);
  if (index < kMaxNames && g_block_left < text.size() + 1 && g_blocks < kMaxBlocks) {
    if (char* block = new (std::nothrow) char[kBlockBytes]) {
      g_block = block;
      g_block_left = kBlockBytes;
      ++g_blocks;
    }
  }
  if (index >= kMaxNames || g_block_left < text.size() + 1) {
    g_refused_names.fetch_add(1, std::memory_order_relaxed);
    return {0};
  }
  char* stored = g_block;
  stored[0] = static_cast<char>(text.size());
  if (!text.empty()) std::memcpy(stored + 1, text.data(), text.size());
  g_block += text.size() + 1;
  g_block_left -= text.size() + 1;
  g_entries[index].hash = hash;
  g_entries[index].text.store(stored, std::memory_order_release);
  g_count.store(index + 1, std::memory_order_release);
  g_names_log.Add(text.data(), static_cast<uint32_t>(text.size()));
  g_buckets[bucket].store(index, std::memory_order_release);  // publishes hash and text
  return {index};
}

Name FindName(std::string_view text) noexcept {
  text = text.substr(0, kMaxNameBytes);
  uint32_t bucket;
  return {Find(text, Hash(text), &bucket)};
}

std::string_view NameText(uint32_t index) noexcept {
  if (index == 0 || index >= g_count.load(std::memory_order_acquire)) return "(other)";
  return TextOf(g_entries[index].text.load(std::memory_order_acquire));
}

uint32_t CountNames() noexcept { return g_count.load(std::memory_order_relaxed); }

uint64_t NamesRefused() noexcept { return g_refused_names.load(std::memory_order_relaxed); }

uint64_t MostNameBytes() noexcept { return sizeof g_entries + sizeof g_buckets + kMaxNameTextBytes; }

bool WriteNamesTo(Box* box) noexcept {
  constexpr uint64_t kRoom = kMaxNameTextBytes + uint64_t{kMaxNames} * sizeof(uint32_t);
  const base::MutexLock lock(&g_names_mutex);
  g_names_log.End();
  if (box == nullptr) return true;
  if (!g_names_log.Begin(box, kRoom, &box->header()->names)) return false;
  for (uint32_t i = 1, count = g_count.load(std::memory_order_relaxed); i < count; ++i) {
    const std::string_view text = NameText(i);
    g_names_log.Add(text.data(), static_cast<uint32_t>(text.size()));
  }
  return true;
}

void ResetNamesAfterFork() noexcept {
  new (&g_names_mutex) base::Mutex;
  const base::MutexLock lock(&g_names_mutex);
  g_names_log.End();
  g_block_left = 0;  // it may exceed the room left
}

}  // namespace pitot::trace

PITOT_NAMESPACE_BEGIN
Name Intern(const char* text) noexcept { return trace::InternText(text == nullptr ? "" : text); }
PITOT_NAMESPACE_END
