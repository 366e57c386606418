// SPDX-License-Identifier: Apache-2.0
#include "snapshot/box_reader.h"

#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <new>
#include <string_view>
#include <unordered_set>
#include <utility>

#include "base/text.h"
#include "snapshot/site_log.h"
#include "trace/bus_guard.h"
#include "trace/internal_sites.h"

namespace pitot::snapshot {
namespace {

using trace::BoxHeader;
using trace::BoxPulse;
using trace::kBoxPage;

constexpr size_t kOwnLineBytes = offsetof(detail::Ring, head);
// The newest record of a ring may be this much later than the watcher's last look, ticks. Completing stamps needs a
// moment that is later than all, by less than a turn of them (2^52).
constexpr uint64_t kLaterThanAll = uint64_t{1} << 44;
constexpr uint64_t kMostLogBytes = 8 << 20;

template <size_t kSize> std::string TextOf(const char (&text)[kSize]) {
  return std::string(text, strnlen(text, kSize));
}

// A part of a file, mapped to be read. Null: it cannot be.
void* MapPart(int fd, uint64_t offset, uint64_t bytes) {
  void* at = mmap(nullptr, bytes, PROT_READ, MAP_SHARED, fd, static_cast<off_t>(offset));
  if (at == MAP_FAILED) return nullptr;
  if (trace::GuardRange(at, bytes)) return at;
  munmap(at, bytes);
  return nullptr;
}
void UnmapPart(void* at, uint64_t bytes) {
  trace::UnguardRange(at);
  munmap(at, bytes);
}

bool IsWhole(const BoxPulse& pulse) { return pulse.turn.load(std::memory_order_acquire) % 2 == 0; }

// Whether clocks may have gone from one reading to the other. Torn ones may have anything.
bool IsClockLater(const trace::ClockReading& first, const trace::ClockReading& last) {
  return last.ticks >= first.ticks && first.monotonic_ns >= 0 && last.monotonic_ns >= first.monotonic_ns;
}

void CopyPulse(const BoxPulse& pulse, BoxFacts* facts) {
  constexpr auto kAcquire = std::memory_order_acquire;  // a look at its turn after them stays after them
  facts->last.ticks = pulse.ticks.load(kAcquire);
  facts->last.monotonic_ns = static_cast<int64_t>(pulse.monotonic_ns.load(kAcquire));
  facts->last.realtime_ns = static_cast<int64_t>(pulse.realtime_ns.load(kAcquire));
  facts->last.boottime_ns = static_cast<int64_t>(pulse.boottime_ns.load(kAcquire));
  facts->triggers_fired = pulse.triggers_fired.load(kAcquire);
  facts->incidents_written = pulse.incidents_written.load(kAcquire);
  facts->requests_begun = pulse.requests_begun.load(kAcquire);
  facts->requests_finished = pulse.requests_finished.load(kAcquire);
  facts->rings_outside = pulse.rings_outside.load(kAcquire);
  facts->pages_lost = pulse.pages_lost.load(kAcquire);
  facts->open_batches = pulse.open_batches.load(kAcquire);
}

uint64_t LogBytes(const BoxHeader& header) {
  return header.names.written.load(std::memory_order_acquire) + header.sites.written.load(std::memory_order_acquire);
}

// The memory of a ring's first line, and of its page in the file.
struct alignas(trace::ThreadRing) RingPage {
  char bytes[kOwnLineBytes + kBoxPage] = {};
  char* page() { return bytes + kOwnLineBytes; }
  const trace::ThreadRing& ring() const { return *reinterpret_cast<const trace::ThreadRing*>(bytes); }
};

// Reads entries of a log, each with its size before it.
class LogCursor {
 public:
  explicit LogCursor(std::string_view bytes) : left_(bytes) {}
  bool Next(std::string_view* entry) {
    uint32_t size = 0;
    if (left_.size() < sizeof size) return false;
    std::memcpy(&size, left_.data(), sizeof size);
    left_.remove_prefix(sizeof size);
    if (size > left_.size()) return false;
    *entry = left_.substr(0, size);
    left_.remove_prefix(size);
    return true;
  }

 private:
  std::string_view left_;
};

bool TakeText(std::string_view* entry, std::string* text) {
  uint16_t size = 0;
  if (entry->size() < sizeof size) return false;
  std::memcpy(&size, entry->data(), sizeof size);
  entry->remove_prefix(sizeof size);
  if (size > entry->size()) return false;
  text->assign(entry->substr(0, size));
  entry->remove_prefix(size);
  return true;
}

constexpr uint64_t kMostLog2 = 23;  // words of a ring: 64 MiB
// Whether both sizes may be a ring's. A page that was never written has none.
bool IsShape(uint64_t bits) { return bits != 0 && (bits & 63) <= kMostLog2 && (bits >> 6 & 63) <= kMostLog2; }

// How many rows there are in so many bytes. The oldest does not count: a writer may be writing in its place.
template <class Row> uint64_t RowsHeld(uint64_t bytes) {
  const uint64_t slots = bytes / sizeof(trace::LastSlot<Row>);
  return slots - std::min(slots, uint64_t{1});
}

// The rows in these slots. Those with another number than their place are torn.
template <class Row> std::vector<Row> RowsIn(std::string_view slots, const trace::BoxRowsPart& part) {
  using Slot = trace::LastSlot<Row>;
  const uint64_t written = part.written.load(std::memory_order_acquire), held = RowsHeld<Row>(slots.size());
  const uint64_t count = std::min(written, held), before = written - count;
  std::vector<Row> rows;
  rows.reserve(count);
  for (uint64_t i = 0; i < count; ++i) {
    const char* const at = slots.data() + (before + i) % (held + 1) * sizeof(Slot);
    uint64_t there = 0;
    std::memcpy(&there, at + offsetof(Slot, number), sizeof there);
    if (there == before + i + 1) std::memcpy(&rows.emplace_back(), at + offsetof(Slot, row), sizeof(Row));
  }
  return rows;
}

bool IsSiteKind(SiteKind kind) { return kind >= SiteKind::kScope && kind <= kLastSiteKind; }
bool IsThreadEnd(const SiteText& site) {
  return site.kind == SiteKind::kInternal && site.flags == static_cast<uint16_t>(trace::Record::kThreadEnd);
}

}  // namespace

std::string BoxTexts::Name(uint32_t index) const {
  // A loss of power may leave an entry without its text.
  return index != 0 && index <= names_.size() && !names_[index - 1].empty() ? names_[index - 1] : "(other)";
}

SiteText BoxTexts::Site(uint64_t address) const {
  const auto site = sites_.find(address);
  if (site != sites_.end()) return site->second;
  SiteText text;
  text.unloaded = true;
  text.name = "(not named before the process ended)";
  return text;
}

bool BoxTexts::Literal(uint64_t address, std::string* text) const {
  const auto literal = literals_.find(address);
  if (literal == literals_.end()) return false;
  *text = literal->second;
  return true;
}

// Records of Pitot's own, of waits and of frameworks may end some time before they are written.
SiteOrder BoxTexts::OrderOf(uint64_t address) const {
  const auto site = sites_.find(address);
  if (site == sites_.end()) return sites_.empty() ? SiteOrder::kAnyOrder : SiteOrder::kUnknown;
  const SiteText& text = site->second;
  const bool is_hosts = text.file.rfind("pitot/", 0) != 0;
  return is_hosts && text.kind <= SiteKind::kCounter ? SiteOrder::kInOrder : SiteOrder::kAnyOrder;
}

BoxReader::~BoxReader() {
  for (const MappedRing& ring : rings_) UnmapPart(ring.memory, ring.bytes);
  if (header_ != nullptr) UnmapPart(header_, kBoxPage);
}

bool BoxReader::HasBytes(uint64_t offset, uint64_t bytes) const {
  return bytes <= file_bytes_ && offset <= file_bytes_ - bytes;
}

const char* BoxReader::Open(int fd) noexcept {
  struct stat file {};
  if (fstat(fd, &file) != 0 || !S_ISREG(file.st_mode)) return "not a file";
  file_bytes_ = static_cast<uint64_t>(file.st_size);
  fd_ = fd;
  if (!HasBytes(0, kBoxPage)) return "not a black box: it is too short";
  header_ = static_cast<BoxHeader*>(MapPart(fd, 0, kBoxPage));
  if (header_ == nullptr) return "it cannot be mapped";
  if (std::memcmp(header_->magic, trace::kBoxMagic, sizeof header_->magic) != 0) return "not a black box of Pitot";
  if (header_->version != trace::kBoxVersion || header_->bytes < sizeof(BoxHeader))
    return "a black box of another version of Pitot: read it with that one";
  return ReadHeader() ? "" : "no memory to read it";
}

bool BoxReader::ReadHeader() noexcept {
  try {
    facts_.state = header_->state.load(std::memory_order_acquire);
    facts_.is_clock_slow = header_->is_clock_slow != 0;
    facts_.library = TextOf(header_->library);
    facts_.boot_id = TextOf(header_->boot_id);
    facts_.process_name = base::SanitizeText(TextOf(header_->process_name));
    facts_.incident_directory = TextOf(header_->incident_directory);
  } catch (const std::bad_alloc&) {
    return false;
  }
  facts_.pid = header_->pid;
  facts_.process_start = header_->process_start;
  facts_.process_space = header_->process_space;
  facts_.start = facts_.last = header_->start;
  facts_.most_incidents = std::max(header_->most_incidents, uint64_t{1});
  facts_.most_incident_bytes = std::max(header_->most_incident_bytes, uint64_t{1});
  ReadPulse();
  return true;
}

// A living process may write to the half that is being read; then the other one is newer and whole.
void BoxReader::ReadPulse() noexcept {
  constexpr int kLooks = 4;
  const BoxPulse& a = header_->pulse[0];
  const BoxPulse& b = header_->pulse[1];
  for (int look = 0; look < kLooks; ++look) {
    const bool is_b_later = !IsWhole(a) || (IsWhole(b) && b.turn.load() > a.turn.load());
    const BoxPulse& later = is_b_later ? b : a;
    const uint64_t turn = later.turn.load(std::memory_order_acquire);
    if (turn % 2 != 0 || turn == 0) return;
    CopyPulse(later, &facts_);
    if (!IsClockLater(facts_.start, facts_.last)) facts_.last = facts_.start;
    if (later.turn.load(std::memory_order_relaxed) == turn) return;
  }
}

void BoxReader::ReadSize() noexcept {
  struct stat file {};
  if (fstat(fd_, &file) == 0) file_bytes_ = static_cast<uint64_t>(file.st_size);
}

// The size is read later: the ring of a living process may just have been added.
uint64_t BoxReader::NewestRing() noexcept {
  const uint64_t offset = header_->newest_ring.load(std::memory_order_acquire);
  ReadSize();
  return offset;
}

void BoxReader::Refresh() noexcept {
  ReadSize();
  facts_.state = header_->state.load(std::memory_order_acquire);
  ReadPulse();
  if (LogBytes(*header_) != texts_bytes_) texts_.reset();
}

bool BoxReader::ReadRingPage(uint64_t offset, char* page) const {
  return offset % kBoxPage == 0 && HasBytes(offset, kBoxPage) &&
         pread(fd_, page, kBoxPage, static_cast<off_t>(offset)) == static_cast<ssize_t>(kBoxPage);
}

// Adds the work in the ring at `offset`, and finds the ring before it. False: it cannot be read.
bool BoxReader::AddWorkAt(uint64_t offset, const KindOf& kind_of, uint64_t now_ticks, uint64_t* next,
                          std::vector<ThreadSign>* threads) const {
  RingPage copy, later;
  if (!ReadRingPage(offset, copy.page())) return false;
  const trace::ThreadRing& ring = copy.ring();
  *next = ring.box_next;
  const uint64_t bits = ring.shape.load(std::memory_order_relaxed), head = ring.head;
  if (!IsShape(bits)) return true;
  const trace::RingShape shape(bits);
  const uint64_t oldest = std::max(ring.first_word, shape.OldestAt(head));
  const uint64_t count = std::min(head > oldest ? head - oldest : 0, kSignWords), begin = head - count;
  uint64_t words[kSignWords];
  for (uint64_t done = 0; done < count;) {
    const uint64_t word = begin + done, place = shape.PlaceOf(word);
    const uint64_t same_size = word < shape.changed_at() ? shape.changed_at() - word : count;
    const uint64_t block = std::min({count - done, same_size, shape.MaskAt(word) + 1 - place});
    const auto at = static_cast<off_t>(offset + kBoxPage + 8 * place);
    if (pread(fd_, words + done, 8 * block, at) != static_cast<ssize_t>(8 * block)) return true;
    done += block;
  }
  if (!ReadRingPage(offset, later.page())) return true;
  const uint64_t later_bits = later.ring().shape.load(std::memory_order_relaxed);
  if (!IsShape(later_bits)) return true;
  // Words overwritten meanwhile are left out.
  const uint64_t intact = trace::RingShape(later_bits).OldestAt(later.ring().head + detail::kMaxRecordWords);
  const uint64_t first = std::clamp(intact, begin, head) - begin;
  AddWork(ring, words + first, words + count, now_ticks, kind_of, threads);
  return true;
}

void BoxReader::ExpectTornPages() noexcept {
  struct stat info {};
  may_be_torn_ = true;
  torn_bytes_left_ = fstat(fd_, &info) == 0 ? static_cast<uint64_t>(info.st_blocks) * 512 : 0;
}

bool BoxReader::IsInMemory() const noexcept {
  struct statfs system {};
  return fstatfs(fd_, &system) == 0 && (system.f_type == TMPFS_MAGIC || system.f_type == RAMFS_MAGIC);
}

// The chain of rings, from the newest. It ends at one that was there before, or is no ring.
void BoxReader::MapRings() {
  if (std::exchange(has_rings_, true)) return;
  std::unordered_set<uint64_t> seen;
  // Before the size of the file is read: a living process adds rings.
  std::vector<uint64_t> listed;
  for (const std::atomic<uint32_t>& page : header_->ring_pages)
    listed.push_back(page.load(std::memory_order_acquire) * kBoxPage);
  uint64_t offset = NewestRing();
  while (offset != 0 && rings_.size() < kMostRings && seen.insert(offset).second) {
    uint64_t next = 0;
    if (!MapRing(offset, &next)) ++rings_damaged_;
    offset = next;
  }
  // Those behind a page that is missing.
  for (const uint64_t ring : listed) {
    uint64_t next = 0;
    if (ring != 0 && seen.insert(ring).second && !MapRing(ring, &next)) ++rings_damaged_;
  }
  std::sort(rings_.begin(), rings_.end(), [](const MappedRing& a, const MappedRing& b) { return a.number < b.number; });
}

// Maps a page of ours, whose end is the ring's first line, and after it the ring's page and its words.
bool BoxReader::MapRing(uint64_t offset, uint64_t* next) {
  // Read before it is mapped: how much to map depends on it.
  RingPage copy;
  if (!ReadRingPage(offset, copy.page())) return false;
  const trace::ThreadRing& page = copy.ring();
  *next = page.box_next;
  const uint64_t bits = page.shape.load(std::memory_order_relaxed);
  const trace::RingShape shape(bits);
  if (!IsShape(bits)) return false;
  const uint64_t words_bytes = std::max(shape.words(), shape.former_words()) * 8;
  if (!HasBytes(offset, kBoxPage + words_bytes)) return false;
  // Rings do not overlap, and are allocated. One that may be torn is searched whole, so a hostile file must not have
  // more of them than it has bytes.
  if (may_be_torn_ && words_bytes > torn_bytes_left_) return false;
  if (may_be_torn_) torn_bytes_left_ -= words_bytes;
  const uint64_t room_bytes = may_grow_ ? uint64_t{8} << kMostLog2 : words_bytes;
  MappedRing mapped{nullptr, nullptr, 2 * kBoxPage + room_bytes, page.number.load(std::memory_order_relaxed),
                    may_be_torn_};
  rings_.reserve(rings_.size() + 1);
  void* const memory = mmap(nullptr, mapped.bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  mapped.memory = static_cast<char*>(memory);
  char* const own = mapped.memory + kBoxPage;
  const int access = may_be_torn_ ? PROT_READ | PROT_WRITE : PROT_READ, flags = may_be_torn_ ? MAP_PRIVATE : MAP_SHARED;
  void* const there = mmap(own, kBoxPage + room_bytes, access, flags | MAP_FIXED, fd_, static_cast<off_t>(offset));
  if (there == MAP_FAILED || !trace::GuardRange(mapped.memory, mapped.bytes)) {
    munmap(memory, mapped.bytes);
    return false;
  }
  auto* const line = reinterpret_cast<detail::Ring*>(own - kOwnLineBytes);
  line->words = reinterpret_cast<uint64_t*>(own + kBoxPage);
  line->mask = shape.words() - 1;
  mapped.ring = static_cast<trace::ThreadRing*>(line);
  rings_.push_back(mapped);
  const uint64_t head = __atomic_load_n(&mapped.ring->head, __ATOMIC_ACQUIRE);
  words_held_ += head - std::min(head, std::max(mapped.ring->first_word, shape.OldestAt(head)));
  return true;
}

std::string BoxReader::ReadPart(uint64_t offset, uint64_t bytes) const {
  std::string text;
  if (!HasBytes(offset, bytes)) return text;
  text.resize(bytes);
  const ssize_t got = pread(fd_, text.data(), bytes, static_cast<off_t>(offset));
  text.resize(got > 0 ? static_cast<size_t>(got) : 0);
  return text;
}

std::string BoxReader::ReadLog(const trace::BoxLogPart& part) const {
  const uint64_t written = part.written.load(std::memory_order_acquire);
  return ReadPart(part.room.offset, std::min({written, part.room.bytes, kMostLogBytes}));
}

std::string BoxReader::DeathNote() const {
  return ReadPart(header_->death_note.offset, std::min(header_->death_note.bytes, kMostLogBytes));
}

std::string BoxReader::ReadRows(const trace::BoxRowsPart& part) const {
  return ReadPart(part.room.offset, std::min(part.room.bytes, kMostLogBytes));
}

std::vector<trace::LastWork> BoxReader::LastWork() const {
  const std::string slots = ReadRows(header_->last_work);
  return RowsIn<trace::LastWork>(slots, header_->last_work);
}

std::vector<trace::LastValue> BoxReader::LastValues() const {
  const std::string slots = ReadRows(header_->last_values);
  return RowsIn<trace::LastValue>(slots, header_->last_values);
}

std::vector<trace::LastDepth> BoxReader::LastDepths() const {
  const std::string slots = ReadRows(header_->last_depths);
  return RowsIn<trace::LastDepth>(slots, header_->last_depths);
}

std::vector<std::string> BoxReader::LastTexts() const {
  std::vector<std::string> texts;
  std::string_view entry;
  const std::string log = ReadLog(header_->last_texts);
  for (LogCursor cursor(log); cursor.Next(&entry);) texts.emplace_back(entry);
  return texts;
}

uint64_t BoxReader::LastWorkLost() const {
  const uint64_t written = header_->last_work.written.load(std::memory_order_acquire);
  return written - std::min(written, RowsHeld<trace::LastWork>(header_->last_work.room.bytes));
}

const Texts& BoxReader::texts() {
  if (texts_ != nullptr) return *texts_;
  texts_bytes_ = LogBytes(*header_);
  std::vector<std::string> names;
  std::unordered_map<uint64_t, SiteText> sites;
  std::unordered_map<uint64_t, std::string> literals;
  uint64_t thread_end_site = 0;
  std::string_view entry;
  const std::string names_log = ReadLog(header_->names), sites_log = ReadLog(header_->sites);
  for (LogCursor log(names_log); log.Next(&entry);) names.emplace_back(entry);
  for (LogCursor log(sites_log); log.Next(&entry);) {
    SiteLogEntry head;
    if (entry.size() < sizeof head) continue;
    std::memcpy(&head, entry.data(), sizeof head);
    entry.remove_prefix(sizeof head);
    SiteText text;
    if (head.is_literal != 0) {
      if (TakeText(&entry, &text.name)) literals[head.address] = std::move(text.name);
      continue;
    }
    text.kind = head.kind;
    text.flags = head.flags;
    text.line = head.line;
    text.arg_types = head.arg_types;
    text.arg_count = head.arg_count;
    const bool is_whole = TakeText(&entry, &text.name) && TakeText(&entry, &text.file) &&
                          TakeText(&entry, &text.function) && TakeText(&entry, &text.arg_text);
    if (!is_whole || !IsSiteKind(head.kind) || head.arg_count > 7) continue;
    if (IsThreadEnd(text)) thread_end_site = head.address;
    sites[head.address] = std::move(text);
  }
  texts_ = std::make_unique<BoxTexts>(std::move(names), std::move(sites), std::move(literals), thread_end_site);
  return *texts_;
}

// The table of open requests, while this object lives. Without it, `table` is null.
class BoxReader::MappedRequests {
 public:
  explicit MappedRequests(const BoxReader& box) {
    const trace::BoxPart part = box.header_->requests;
    if (part.bytes == 0 || box.header_->slot_bytes != trace::RequestSlotBytes() ||
        !box.HasBytes(part.offset, part.bytes))
      return;
    table = {MapPart(box.fd_, part.offset, part.bytes), part.bytes};
  }
  ~MappedRequests() {
    if (table.table != nullptr) UnmapPart(const_cast<void*>(table.table), table.bytes);
  }
  MappedRequests(const MappedRequests&) = delete;
  MappedRequests& operator=(const MappedRequests&) = delete;

  RequestTable table;
};

void BoxReader::ReadRequests(Reserve* reserve, Snapshot* out) {
  const MappedRequests mapped(*this);
  if (mapped.table.table == nullptr) return;
  CopyOpenRequests({}, mapped.table, reserve, &out->open_requests);
  has_requests_ = true;
}

namespace {
void AddFailing(const trace::BoxFailing& failing, std::vector<trace::RouteProgress>* routes) {
  const uint64_t failing_ticks = failing.failing_ticks.load(std::memory_order_acquire);
  if (failing_ticks == 0) return;
  const uint32_t name = failing.name.load(std::memory_order_acquire);  // each before what is read after it
  const uint32_t failed = failing.failed.load(std::memory_order_acquire);
  const uint64_t failed_ticks = failing.failed_ticks.load(std::memory_order_acquire);
  if (failing.failing_ticks.load(std::memory_order_relaxed) != failing_ticks) return;
  const auto route = std::find_if(routes->begin(), routes->end(), [name](const auto& it) { return it.name == name; });
  if (route == routes->end()) return;
  route->failing_ticks = failing_ticks;
  route->failed_ticks = failed_ticks;
  route->failed = failed;
}
}  // namespace

Signs BoxReader::ReadSigns(uint64_t now_ticks) {
  Signs signs;
  signs.now_ticks = now_ticks;
  signs.life_ticks = facts_.last.ticks;
  signs.open_batches = facts_.open_batches;
  for (const trace::BoxRoute& route : header_->routes)
    signs.routes.push_back({route.name.load(std::memory_order_relaxed), route.ok_ticks.load(std::memory_order_relaxed),
                            uint64_t{route.longest_us.load(std::memory_order_relaxed)} * 1000});
  for (const trace::BoxFailing& failing : header_->failing) AddFailing(failing, &signs.routes);
  const MappedRequests mapped(*this);
  signs.are_requests_known = mapped.table.table != nullptr;
  if (signs.are_requests_known)
    VisitOpen(mapped.table, [&signs](const trace::OpenRequest& open) { AddRequest(open, &signs); });
  const Texts& names = texts();
  const KindOf kind_of = [&names](uint64_t site) { return SignKindOf(names.Site(site)); };
  std::vector<ThreadSign> threads;
  std::unordered_set<uint64_t> seen;
  uint64_t offset = NewestRing();
  while (offset != 0 && seen.size() < kMostRings && seen.insert(offset).second) {
    if (!AddWorkAt(offset, kind_of, now_ticks, &offset, &threads)) break;
  }
  Combine(threads, &signs);
  return signs;
}

void BoxReader::Read(uint64_t window_begin_ticks, Reserve reserve, Snapshot* out) {
  out->texts = &texts();
  out->requests_ticks = facts_.last.ticks;
  ReadRequests(&reserve, out);
  MapRings();
  out->rings.resize(rings_.size());
  // What is open may be newer than all records.
  const uint64_t latest = facts_.last.ticks + kLaterThanAll;
  const auto is_later = [latest](const auto& open) { return open.begin_ticks > latest; };
  uint64_t newest = facts_.last.ticks;
  std::erase_if(out->open_requests, is_later);
  for (const OpenRequestCopy& request : out->open_requests) newest = std::max(newest, request.begin_ticks);
  const OrderOf order_of = [this](uint64_t site) { return texts_->OrderOf(site); };
  for (size_t i = 0; i < rings_.size(); ++i) {
    RingCopy& copy = out->rings[i];
    const trace::ThreadRing& ring = *rings_[i].ring;
    const auto left = static_cast<uint64_t>(reserve.last - reserve.first);
    Reserve share{reserve.last - left / (rings_.size() - i), reserve.last};
    const bool may_be_torn = rings_[i].is_copy;
    if (may_be_torn) rings_[i].ring->head = NewestReadable(ring, facts_.start.ticks, latest, order_of);
    CopyRingOfOther(ring, window_begin_ticks, latest, &share, &copy);
    if (may_be_torn) LeaveOutTorn(ring, facts_.start.ticks, order_of, &copy);
    reserve.last = share.last;
    RecordCursor cursor(copy.first, copy.last, copy.now_ticks);
    Record record;
    if (cursor.Next(&record)) newest = std::max(newest, record.end_ticks);
    std::erase_if(copy.open, is_later);
    for (const OpenScopeCopy& scope : copy.open) newest = std::max(newest, scope.begin_ticks);
    ++(copy.exited ? out->ring_counts.retired : out->ring_counts.live);
    out->ring_counts.events += copy.events;
  }
  for (RingCopy& copy : out->rings) {
    copy.now_ticks = newest;
    copy.cut_ticks = std::min(copy.cut_ticks, newest);
  }
  out->window_begin_ticks = window_begin_ticks;
  out->window_end_ticks = newest;
  out->cycle_counter = !facts_.is_clock_slow;
  out->clock = {facts_.start, facts_.last};
  out->request_counts.begun = facts_.requests_begun;
  out->request_counts.finished = facts_.requests_finished;
  out->request_counts.open = out->open_requests.size();
}

}  // namespace pitot::snapshot
