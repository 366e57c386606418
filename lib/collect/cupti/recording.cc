// SPDX-License-Identifier: Apache-2.0
#include "collect/cupti/recording.h"

#include <pthread.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <iterator>
#include <utility>

#include "base/clock.h"
#include "base/message.h"
#include "collect/cupti/strides.h"

namespace pitot::cupti {
namespace {

using base::ClockNs;
using base::Error;
using std::chrono::nanoseconds;
using std::chrono::steady_clock;

constexpr int64_t kTickNs = 20'000'000;       // the newest record is then 10 ms old at the median
constexpr int64_t kForgetNs = 1'000'000'000;  // how long the name behind a pointer is believed
constexpr int64_t kWatchNs = 2'000'000;       // between looks at PyTorch's profiler, if it is in the process
constexpr uint64_t kSilentSubmissions = 1000;
constexpr int64_t kLongestWorkNs = 10'000'000'000;        // of a GPU; its records may still come
constexpr int64_t kBetweenLaterLooksNs = 10'000'000'000;  // at the calls, once enough was seen
constexpr size_t kDepthsKept = 4096, kClockStepsKept = 64;

enum class Owner : uint8_t { kNobody, kCollector, kLeftBehind };
// CUPTI's owner, among all recordings in the process.
constinit std::atomic<Owner> g_owner{Owner::kNobody};

bool IsWork(const GpuRecord& record) { return record.activity <= Activity::kGraph; }
bool IsCall(const GpuRecord& record) { return record.activity == Activity::kCall; }
uint64_t HeardOf(const BufferCounts& counts) { return counts.requested + counts.completed; }

Status DoesNotAnswer(const char* consequence) {
  return Error(StatusCode::kUnavailable, "CUPTI does not answer: a call of it hangs, or other work keeps it busy; %s",
               consequence);
}

}  // namespace

bool IsLeftBehind() noexcept { return g_owner.load() == Owner::kLeftBehind; }

Recording::Recording(const CuptiOptions& options, const Environment& environment, Attach attach)
    : library_(options.library != nullptr ? options.library : ""),
      memory_bytes_(options.memory_bytes),
      graph_level_(options.graph_level),
      attach_(attach),
      lasting_cost_percent_(options.lasting_cost_percent),
      environment_(environment),
      tables_(options.memory_bytes) {}

Status Recording::Claim() noexcept {
  Owner owner = Owner::kNobody;
  if (g_owner.load() != Owner::kNobody && !IsOfThisProcess())
    return Status(
        StatusCode::kUnavailable,
        "the parent of this fork records GPUs, and its CUPTI cannot be used in a child: fork before adding the "
        "collector");
  if (g_owner.compare_exchange_strong(owner, Owner::kCollector)) return {};
  if (owner == Owner::kLeftBehind) return DoesNotAnswer("a stopped collector still waits for it");
  return Status(StatusCode::kAlreadyRunning, "this process has a CUPTI collector already");
}

void Recording::Release() noexcept {
  const base::MutexLock lock(&mutex_);
  is_over_ = true;
  marked_ns_.store(0);
  g_owner.store(Owner::kNobody);
  changed_.NotifyAll();
}

void Recording::LeaveBehind() noexcept {
  const base::MutexLock lock(&mutex_);
  if (!is_over_) g_owner.store(Owner::kLeftBehind);
}

Status Recording::Open() { return LoadCupti(library_, &api_); }

Status Recording::Take() {
  const Strides strides = ProbeStrides(api_);
  if (strides[kConcurrentKernel] == 0)
    return Error(StatusCode::kUnavailable,
                 "%s: its kernel records are not readable: install the libcupti of CUDA 11.8, 12 or 13",
                 api_.path.c_str());
  history_ = History::Make(memory_bytes_ - memory_bytes_ / 4);
  if (history_ == nullptr) return Status(StatusCode::kResourceExhausted, "no memory for the records of GPUs");
  const auto buffers = static_cast<uint32_t>(memory_bytes_ / 4 / kBufferBytes);
  if (Status status = FindEngine(api_, strides, buffers, &engine_); !status.ok()) return status;
  // Buffers given out for an earlier collector may never come back.
  engine_->pool->BeginEra();
  write_off_ns_ = ClockNs(CLOCK_MONOTONIC) + environment_.surroundings.long_idle_ns;
  engine_->calls.lasting_cost().Forget();
  missed_before_ = engine_->calls.missed(), forgotten_before_ = engine_->scopes.forgotten();
  decoder_ = std::make_unique<Decoder>(&engine_->api, strides, &pairs_, &tables_, &engine_->scopes);
  PayForTables();
  ReadClocks();
  control_ = AddControl(engine_, environment_.surroundings);
  if (Status status = control_->Start(attach_, graph_level_); !status.ok()) return status;
  before_ = seen_ = engine_->pool->counts();
  drained_ns_ = silent_since_ns_ = ClockNs(CLOCK_MONOTONIC);
  NoteDepth();
  return {};
}

void Recording::Run() noexcept {
  pthread_setname_np(pthread_self(), "pitot-cupti");
  Mark();
  Status taken;
  try {
    taken = Take();
  } catch (const std::exception& e) {
    taken = Error(StatusCode::kResourceExhausted, "cannot start the CUPTI collector: %s", e.what());
  }
  bool is_awaited;
  {
    const base::MutexLock lock(&mutex_);
    taken_ = taken, has_taken_ = true;
    is_awaited = !is_ending_;
    changed_.NotifyAll();
  }
  if (taken.ok()) Work();
  Mark();
  if (control_ != nullptr) control_->Stop();
  // If nobody waits for this thread any more, the process may be ending.
  if (!taken.ok() && engine_ != nullptr && is_awaited) ForgetUnused(engine_);
  Release();
}

Status Recording::AwaitStart() noexcept {
  const auto deadline = steady_clock::now() + nanoseconds(environment_.start_patience_ns);
  {
    const base::MutexLock lock(&mutex_);
    while (!IsStartKnown() && changed_.WaitUntil(&mutex_, deadline)) {}
    if (IsStartKnown()) return taken_;
  }
  return DoesNotAnswer("or the collector was added while a library was being loaded: no GPU is recorded");
}

void Recording::End() noexcept {
  const base::MutexLock lock(&mutex_);
  is_ending_ = true;
  changed_.NotifyAll();
}

void Recording::Work() noexcept {
  for (bool is_last = false; !is_last;) {
    uint64_t asked;
    {
      const base::MutexLock lock(&mutex_);
      asked = rounds_asked_;
      is_last = is_ending_;
    }
    Mark();
    const int64_t now_ns = ClockNs(CLOCK_MONOTONIC);
    try {
      Round(now_ns);
    } catch (const std::bad_alloc&) {
      history_->AddLoss({drained_ns_, now_ns, kNoDevice, "no memory", 0});
    }
    {
      const base::MutexLock lock(&mutex_);
      counts_ = decoder_->counts();
      names_refused_ = tables_.names.refused();
      shapes_refused_ = tables_.shapes.refused();
      streams_refused_ = tables_.streams.refused();
      rounds_done_ = asked;
      is_round_whole_ = has_flushed_;
      changed_.NotifyAll();
    }
    if (!is_last) Wait(asked, now_ns + kTickNs);
  }
}

// Waits for the next round, and obeys orders meanwhile.
void Recording::Wait(uint64_t round, int64_t due_ns) noexcept {
  base::MutexLock lock(&mutex_);
  for (int64_t left_ns; !IsRoundAsked(round) && (left_ns = due_ns - ClockNs(CLOCK_MONOTONIC)) > 0;) {
    const int64_t nap_ns = control_->IsBesideProfiler() ? std::min(left_ns, kWatchNs) : left_ns;
    marked_ns_.store(0);
    const auto until = steady_clock::now() + nanoseconds(nap_ns);
    while (!IsRoundAsked(round) && ordered_ == obeyed_ && changed_.WaitUntil(&mutex_, until)) {}
    Mark();
    lock.Unlock();
    Obey();
    if (control_->HasProfilerSwitched()) due_ns = 0;
    lock.Lock();
  }
}

void Recording::Mark() noexcept {
  may_begin_.store(control_ != nullptr && control_->mode() == Mode::kReady);
  marked_ns_.store(ClockNs(CLOCK_MONOTONIC));
}

int64_t Recording::HangingNs() const noexcept {
  const int64_t marked_ns = marked_ns_.load();
  const int64_t ns = marked_ns != 0 ? ClockNs(CLOCK_MONOTONIC) - marked_ns : 0;
  return ns >= (may_begin_.load() ? environment_.start_patience_ns : environment_.patience_ns) ? ns : 0;
}

bool Recording::AwaitOrder(uint64_t order, int64_t ns) noexcept {
  const auto deadline = steady_clock::now() + nanoseconds(ns);
  while (!is_over_ && obeyed_ < order && changed_.WaitUntil(&mutex_, deadline)) {}
  return is_over_ || obeyed_ >= order;
}

bool Recording::AwaitRound(uint64_t round, int64_t ns) noexcept {
  const auto deadline = steady_clock::now() + nanoseconds(ns);
  while (rounds_done_ < round && changed_.WaitUntil(&mutex_, deadline)) {}
  return rounds_done_ >= round;
}

Status Recording::Order(const Orders& orders) noexcept {
  const base::MutexLock lock(&mutex_);
  if (orders.depth) orders_.depth = orders.depth;
  if (orders.hand != nullptr) orders_.hand = orders.hand;
  const uint64_t order = ++ordered_;
  changed_.NotifyAll();
  bool has_answered = HangingNs() == 0 && AwaitOrder(order, environment_.patience_ns);
  if (!has_answered && HangingNs() == 0 && may_begin_.load())
    has_answered = AwaitOrder(order, environment_.start_patience_ns);
  if (!has_answered) return DoesNotAnswer("the request takes effect when it answers");
  return obeyed_ >= order ? answer_ : NotRunning();
}

// Carries out the orders of other threads.
void Recording::Obey() noexcept {
  base::MutexLock lock(&mutex_);
  while (obeyed_ != ordered_) {
    const Orders orders = std::exchange(orders_, {});
    const uint64_t order = ordered_;
    lock.Unlock();
    Mark();
    Status answer;
    const uint32_t registrations = control_->registrations();
    if (orders.hand != nullptr) answer = (control_->*orders.hand)();
    if (control_->registrations() != registrations) NoteUnheard(silent_since_ns_, ClockNs(CLOCK_MONOTONIC));
    if (orders.depth) control_->SetDepth(*orders.depth, TakesAnyCost());
    NoteDepth();
    lock.Lock();
    if (orders.hand != nullptr) answer_ = std::move(answer);
    obeyed_ = order;
    changed_.NotifyAll();
  }
}

void Recording::SetDepth(Depth depth) noexcept { Order({depth, nullptr}); }
Status Recording::Pause() noexcept { return Order({{}, &Control::Pause}); }
Status Recording::Resume() noexcept { return Order({{}, &Control::Resume}); }

// Notes from when on it records how deeply, for incidents.
void Recording::NoteDepth() noexcept {
  const base::MutexLock lock(&mutex_);
  const Depth depth = control_->depth();
  if (!depths_.empty() && depths_.back().depth == depth) return;
  const bool rises = depths_.empty() || depths_.back().depth == Depth::kScopes;
  if (!rises && depth == Depth::kScopes) control_->NoteSilence(!depths_.back().is_heard);
  try {
    const bool is_heard = rises ? !control_->MayMissProfile() : depths_.back().is_heard;
    depths_.push_back({ClockNs(CLOCK_MONOTONIC), depth, is_heard});
    if (rises) heard_ = HeardOf(engine_->pool->counts());
    if (depths_.size() > kDepthsKept) depths_.pop_front();
  } catch (const std::bad_alloc&) {
    depths_.clear();  // nothing rather than something wrong
  }
}

// Notes that CUPTI answers us: nobody else's callbacks are in place of ours, nor were since ours were registered.
void Recording::NoteHeard(const BufferCounts& counts) noexcept {
  const base::MutexLock lock(&mutex_);
  if (!depths_.empty() && HeardOf(counts) != heard_) depths_.back().is_heard = true;
}

// Notes that CUPTI did not answer from `since_ns` on. `registered_ns`, unless 0: callbacks were registered again then,
// and later answers tell nothing about the time before.
void Recording::NoteUnheard(int64_t since_ns, int64_t registered_ns) noexcept {
  const base::MutexLock lock(&mutex_);
  if (depths_.empty() || depths_.back().depth == Depth::kScopes) return;
  try {
    auto after = depths_.end();
    while (after != depths_.begin() && std::prev(after)->at_ns >= since_ns) (--after)->is_heard = false;
    // The beginning is within a stretch with answers.
    if (after != depths_.begin() && std::prev(after)->is_heard && (after == depths_.end() || after->at_ns > since_ns))
      depths_.insert(after, {since_ns, std::prev(after)->depth, false});
    if (registered_ns != 0) depths_.push_back({registered_ns, depths_.back().depth, false});
    heard_ = HeardOf(registered_ns != 0 ? engine_->pool->counts() : seen_);
    while (depths_.size() > kDepthsKept) depths_.pop_front();
  } catch (const std::bad_alloc&) {
    depths_.clear();
  }
}

// Gives up on buffers that another may have got. `switched`: they are lost already.
void Recording::WriteOffBuffers(int64_t now_ns, bool switched) {
  if (const uint32_t registrations = control_->registrations(); registrations != registrations_seen_) {
    registrations_seen_ = registrations;
    // Another may have got these buffers, and nobody can count on their return.
    if (!switched && withheld_ns_ < now_ns)
      history_->AddLoss({withheld_ns_, now_ns, kNoDevice, "not handed over by CUPTI", 0});
    write_off_ns_ = now_ns + environment_.surroundings.long_idle_ns;
  }
  // CUPTI gives back its buffers when it is called.
  if (control_->mode() == Mode::kReady) write_off_ns_ = now_ns + environment_.surroundings.long_idle_ns;
  if (now_ns >= write_off_ns_ && control_->mode() == Mode::kOn) {
    engine_->pool->WriteOff(now_ns);
    const bool is_done = engine_->pool->counts().unplaced == 0;
    write_off_ns_ = is_done ? INT64_MAX : now_ns + environment_.surroundings.long_idle_ns;
  }
}

void Recording::Round(int64_t now_ns) {
  ReadClocks();
  if (now_ns - forgot_ns_ >= kForgetNs) forgot_ns_ = now_ns, tables_.names.Forget();
  const BufferCounts before = engine_->pool->counts();
  const Mode mode_before = control_->mode();
  control_->Tick(now_ns, before.requested != before_.requested);
  // Lost are the records in another's buffers, and the work until this was noticed.
  const bool switched =
      control_->mode() != mode_before && (mode_before == Mode::kAside || control_->mode() == Mode::kAside);
  if (switched) history_->AddLoss({drained_ns_, now_ns, kNoDevice, "PyTorch's profiler had CUPTI", 0});
  WriteOffBuffers(now_ns, switched);
  NoteDepth();
  // The driver and PyTorch's profiler register handlers later than we do, and so are torn down earlier.
  CloseAtExitOf((before.requested != before_.requested ? kOfDriver : 0u) |
                (control_->IsBesideProfiler() ? kOfProfiler : 0u));
  // If nothing is out, or nothing was recorded for long, there is nothing to hand over. CUPTI may still be filling
  // written-off buffers.
  if (control_->depth() != Depth::kScopes || is_looking_ || before.requested != seen_.requested) recorded_ns_ = now_ns;
  const bool may_have_some = before.out() + before.written_off != 0 && now_ns - recorded_ns_ < kLongestWorkNs;
  has_flushed_ = !may_have_some || control_->Flush();
  Mark();
  Obey();
  DecodeAll(now_ns);
  LookForSilence(now_ns);
  LookForLongSilence(now_ns);
  ForecastLastingCost(now_ns);
}

// Reads the clocks. A step changes nothing for stamps of the CPU's cycle counter.
void Recording::ReadClocks() {
  const ClockPair pair = environment_.read_clocks();
  const int64_t by_ns = pairs_.Add(pair);
  clock_error_ns_.store(pairs_.MostErrorNs(), std::memory_order_relaxed);
  if (by_ns == 0 || decoder_->counts().is_by_cycles) return;
  const base::MutexLock lock(&mutex_);
  clock_steps_.push_back({pair.monotonic_ns, by_ns, 0, pair.monotonic_ns});
  if (clock_steps_.size() > kClockStepsKept) clock_steps_.pop_front();
}

void Recording::NoteUnplaced(uint64_t records, int64_t now_ns) {
  const base::MutexLock lock(&mutex_);
  if (clock_steps_.empty()) return;
  clock_steps_.back().records += records;
  clock_steps_.back().until_ns = now_ns;
}

void Recording::DecodeBuffer(const uint8_t* buffer, uint64_t valid, int64_t now_ns) {
  decoded_.clear();
  ReadClocks();  // the buffer's contents were stamped before
  decoder_->Decode(buffer, valid, &decoded_);
  PayForTables();
  const bool asks_for_calls = control_->call_source() == CallSource::kRecords && control_->depth() >= Depth::kKernels;
  if (asks_for_calls && !awaits_calls_.load() && std::any_of(decoded_.begin(), decoded_.end(), IsWork))
    awaited_since_ns_ = now_ns, awaits_calls_.store(true);
  // While whole kinds of calls are switched on, the calls about to be left out come, too.
  std::erase_if(decoded_, [this](const GpuRecord& record) {
    return IsCall(record) && !engine_->calls.IsRecorded(DomainOf(record), CallbackOf(record));
  });
  if (!control_->has_recorded()) TakeCalls();
  AddDecoded();
  if (environment_.on_records != nullptr) environment_.on_records(decoded_.data(), decoded_.size());
}

// Adds the decoded records to the history in runs of one device: nearly always all are one run.
void Recording::AddDecoded() {
  const auto device = [this](size_t at) { return tables_.streams.rows()[decoded_[at].stream].device; };
  for (size_t i = 0, first = 0; i <= decoded_.size(); ++i) {
    if (i == first || (i < decoded_.size() && device(i) == device(first))) continue;
    NoteDevice(device(first));
    history_->Add(device(first), &decoded_[first], i - first);
    first = i;
  }
  last_work_.Add(decoded_);
}

void Recording::DecodeAll(int64_t now_ns) {
  if (control_->is_closed()) return;  // stepping over an unknown record takes CUPTI
  PayForTables();
  engine_->pool->Drain([this, now_ns](const uint8_t* buffer, uint64_t valid) {
    DecodeBuffer(buffer, valid, now_ns);
    Mark();
    Obey();
  });
  engine_->unread.FreeAll();
  // Calls may come in a later buffer than their work.
  if (awaits_calls_.load() && decoder_->counts().calls == 0 && now_ns - awaited_since_ns_ >= environment_.silence_ns)
    control_->OnMissingCalls();
  const BufferCounts counts = engine_->pool->counts();
  NoteLosses(counts, now_ns);
  if (HeardOf(counts) != HeardOf(seen_)) buffer_seen_ns_ = silent_since_ns_ = now_ns;
  NoteHeard(counts);
  seen_ = counts;
  // CUPTI withholds a buffer as long as one record in it belongs to unfinished work.
  withheld_ns_ = engine_->pool->OldestUnreadNs();
  if (has_flushed_) drained_ns_ = std::min(now_ns, withheld_ns_);
}

// Adds the losses since the last round.
void Recording::NoteLosses(const BufferCounts& counts, int64_t now_ns) {
  const auto lost = [&](uint64_t now, uint64_t before, const char* reason, bool is_number) {
    if (now != before) history_->AddLoss({drained_ns_, now_ns, kNoDevice, reason, is_number ? now - before : 0});
  };
  lost(counts.overwritten, seen_.overwritten, "decoded too late", false);
  lost(counts.refused, seen_.refused, "no buffer for CUPTI", false);
  // Calls that were only looked at are not missing.
  if (control_->has_recorded()) lost(decoder_->counts().bad_timestamps, bad_seen_, "without a valid time", true);
  bad_seen_ = decoder_->counts().bad_timestamps;
  // It is unknown how many records these are.
  lost(decoder_->counts().unreadable_bytes, unreadable_seen_, "not readable", false);
  unreadable_seen_ = decoder_->counts().unreadable_bytes;
  const uint64_t unplaced = decoder_->counts().unplaced;
  if (control_->has_recorded() && unplaced != unplaced_seen_) {
    lost(unplaced, unplaced_seen_, "the clock stepped", true);
    NoteUnplaced(unplaced - unplaced_seen_, now_ns);
  }
  unplaced_seen_ = unplaced;
  if (counts.requested != 0) lost(control_->TakeDropped(), 0, "dropped by CUPTI", true);
}

// Growing tables take the place of records, so that all stays within memory_bytes. If incidents have pinned all, the
// next round tries again.
void Recording::PayForTables() noexcept {
  const uint64_t owed_bytes = tables_.bytes() + engine_->scopes.bytes() + engine_->pool->place_bytes();
  while (paid_bytes_ < owed_bytes && history_->GiveBackChunk()) paid_bytes_ += History::kChunkBytes;
}

// Asked on this thread, because the driver may hang, too.
void Recording::NoteDevice(uint32_t device) {
  if (device == kNoDevice) return;
  {
    const base::MutexLock lock(&mutex_);
    if (devices_.count(device) != 0) return;
  }
  DeviceFacts facts = DescribeDevice(device);
  const base::MutexLock lock(&mutex_);
  devices_.emplace(device, std::move(facts));
}

// Takes the calls out of the records: before kernels are recorded, calls are only looked at.
void Recording::TakeCalls() {
  for (const GpuRecord& call : decoded_) {
    if (!IsCall(call)) continue;
    engine_->calls.lasting_cost().Add(call.value, engine_->calls.ClassOf(DomainOf(call), CallbackOf(call)),
                                      call.begin_ns, call.begin_ns + call.duration_ns);
  }
  std::erase_if(decoded_, IsCall);
}

// Whether the host accepts any lasting cost: by the depth it fixes, or altogether.
bool Recording::TakesAnyCost() const noexcept {
  return lasting_cost_percent_ >= kAnyLastingCost || expected_.load(std::memory_order_relaxed) != Depth::kAuto;
}

bool Recording::MayRecord() const noexcept {
  if (lasting_cost_percent_ >= kAnyLastingCost) return true;
  if (control_->needs_whole_kinds()) return false;
  if (control_->has_recorded()) return true;
  const double percent = lasting_percent_.load(std::memory_order_relaxed);
  return percent >= 0 && percent <= lasting_cost_percent_;
}

// Only a governor of depth asks this; if the host fixes the depth, nothing needs to be known.
uint32_t Recording::Depths() const noexcept {
  const Mode mode = control_->mode();
  if (HangingNs() != 0 || mode != Mode::kOn) return 0;
  asked_.fetch_add(1, std::memory_order_relaxed);
  return MayRecord() ? BitOf(Depth::kGraphs) | BitOf(Depth::kKernels) : 0;
}

// Looks at the calls for a while, now and then, until kernels are recorded. A look never calls CUPTI first, because
// that costs from then on.
void Recording::ForecastLastingCost(int64_t now_ns) {
  if (now_ns < look_due_ns_) return;
  LastingCost& cost = engine_->calls.lasting_cost();
  const bool was_looking = std::exchange(is_looking_, false);
  if (was_looking) {
    control_->SetLook(false);
    cost.EndLook(now_ns - look_begin_ns_);
    if (cost.is_known()) lasting_percent_.store(cost.percent(), std::memory_order_relaxed);
    look_due_ns_ = now_ns + (cost.is_known() ? kBetweenLaterLooksNs : environment_.between_looks_ns);
    return;
  }
  const uint32_t asked = asked_.load(std::memory_order_relaxed);
  const bool is_wanted = std::exchange(asked_seen_, asked) != asked;
  look_due_ns_ = now_ns + (is_wanted ? environment_.look_ns : environment_.between_looks_ns);
  if (!control_->has_given()) return;
  if (!is_wanted || lasting_cost_percent_ >= kAnyLastingCost || control_->has_recorded()) return;
  if (control_->needs_whole_kinds()) return;  // a look leaves as much behind
  is_looking_ = true;
  look_begin_ns_ = now_ns;
  control_->SetLook(true);
}

// Looks for work on GPUs without a request for a buffer: somebody else registered callbacks then.
void Recording::LookForSilence(int64_t now_ns) {
  const uint64_t submissions = engine_->calls.submissions();
  const bool records = control_->mode() == Mode::kOn && control_->depth() >= Depth::kKernels;
  if (!records || buffer_seen_ns_ == 0 || now_ns == buffer_seen_ns_) {
    buffer_seen_ns_ = now_ns;
    submissions_seen_ = submissions;
    return;
  }
  // A buffer being filled takes as long as a kernel, or went to another.
  const bool is_waiting = seen_.out() != 0 && now_ns - buffer_seen_ns_ < 3 * environment_.silence_ns;
  if (is_waiting || now_ns - buffer_seen_ns_ < environment_.silence_ns ||
      submissions - submissions_seen_ < kSilentSubmissions)
    return;
  history_->AddLoss({buffer_seen_ns_, now_ns, kNoDevice, "another profiler took the buffers", 0});
  control_->Reclaim();
  buffer_seen_ns_ = now_ns;
  submissions_seen_ = submissions;
}

// Next to LibTorch no callback reports work, because its records would come in the same buffers as those of kernels. In
// a silence, nobody knows whether GPUs had no work, or another took the buffers. So it is not claimed that there was no
// work, and nobody is blamed. A buffer requested without registering callbacks again shows that there was no work.
void Recording::LookForLongSilence(int64_t now_ns) noexcept {
  const bool could_come = control_->mode() == Mode::kOn && control_->depth() != Depth::kScopes;
  if (!could_come || !control_->MayMissProfile()) silent_since_ns_ = now_ns;
  const int64_t since_ns = std::max(silent_since_ns_, silence_noted_ns_);
  if (silent_since_ns_ == now_ns || now_ns - since_ns < environment_.surroundings.long_idle_ns) return;
  silence_noted_ns_ = now_ns;
  const bool is_renewed = control_->Renew(now_ns - silent_since_ns_);
  NoteUnheard(silent_since_ns_, is_renewed ? now_ns : 0);
  if (is_renewed) silent_since_ns_ = now_ns;
}

}  // namespace pitot::cupti
