// SPDX-License-Identifier: Apache-2.0
//
// Requests, tokens and batches: they join the events of many threads to one unit of service.
//
//   auto request = pitot::Request::Begin("/classify", traceparent);   // in the handler
//   queue.Push({image, request.Enqueue("images")});                   // a 32-byte token crosses threads
//   auto batch = pitot::Batch::Begin("resnet50");                     // on the executor thread
//   for (const Job& job : jobs) batch.Join(job.token);
//   request.Finish(pitot::Outcome::kOk);
//
// Requests overlap, do not nest on a stack, and may end on another thread than they began. Everything is inert and
// cheap while no recorder runs. Names are C strings, interned on use: routes, labels, queues and stages must come from
// small sets.
#ifndef PITOT_REQUEST_H_
#define PITOT_REQUEST_H_

#include <stddef.h>
#include <stdint.h>

#include "pitot/export.h"
#include "pitot/outcome.h"
#include "pitot/trace.h"

PITOT_NAMESPACE_BEGIN

// Why a batch was closed. The numbers are written to files.
enum class BatchClose : uint8_t { kUnknown = 0, kFull = 1, kTimeout = 2, kFlush = 3, kStep = 4 };
PITOT_EXPORT const char* BatchCloseName(BatchClose close) noexcept;

// A moment on the recorder's clock, for arrivals known before the request is. Zero means none.
struct Timestamp {
  uint64_t ticks = 0;
};
PITOT_EXPORT Timestamp Now() noexcept;  // zero while no recorder runs

// Represents a request in a queue, on another thread, or in another process of this machine. Plain bytes, free to copy.
// Valid while its request is open; a token whose request has ended is recognised as stale and does nothing. In another
// process it joins, adopts and begins children by the request's id; queue and thread have no meaning there.
struct Token {
  uint64_t request = 0;         // id; 0: no request
  uint64_t enqueued_ticks = 0;  // 0: was never enqueued
  uint32_t slot = 0;
  uint32_t process = 0;
  uint32_t queue = 0;   // Name index
  uint32_t thread = 0;  // that enqueued it
};
static_assert(sizeof(Token) == 32, "tokens cross process borders");

// Returns true if the token's request already exceeds its route's latency objective or its deadline.
// Threads: any.
// Cost: a clock read and two loads.
PITOT_EXPORT bool IsLate(const Token& token) noexcept;
// Begins the stage `name` of the token's request, which ends the previous stage.
// Threads: any, one at a time.
PITOT_EXPORT void Stage(const Token& token, const char* name) noexcept;
// Marks `count` output tokens of the request; time to first token and gaps between tokens are measured at these marks.
// Threads: any.
PITOT_EXPORT void Emit(const Token& token, uint32_t count = 1) noexcept;
// Records that the token's request was put into `queue` (again: deferred, preempted), and returns the token to put
// there: without a request if that has ended. In another process the queue is "(other)".
// Threads: any.
PITOT_EXPORT Token Enqueue(const Token& token, const char* queue) noexcept;
// Like the functions of the same names of Request; they do nothing in another process.
// Threads: any.
PITOT_EXPORT void SetLabel(const Token& token, const char* key, const char* value) noexcept;
PITOT_EXPORT void SetSize(const Token& token, const char* name, double value) noexcept;

// A unit of service. A movable handle, used by one thread at a time (its tokens by any). If it is destroyed without
// Finish, the request counts as abandoned.
class Request {
 public:
  // Further ones are ignored and counted. With more stages the last one is "(later stages)", from its beginning on.
  static constexpr int kMaxLabels = 4, kMaxSizes = 4, kMaxStages = 16;
  static constexpr int kMaxIdBytes = 64;

  // An inert request.
  Request() noexcept = default;
  // Begins a request and makes it this thread's context: events recorded here from now on belong to it, until it is
  // finished, or another is begun or adopted here. `route` is the template ("/classify", never a path with ids). The
  // first 63 routes are kept apart, the rest become "(other)". `traceparent` is W3C's header; null or invalid starts a
  // new trace id. `arrival` is the time of arrival if earlier than now. If max_open_requests are open, the result is
  // inert and counted.
  // Cost: a fraction of a microsecond.
  PITOT_EXPORT static Request Begin(const char* route, const char* traceparent = nullptr,
                                    Timestamp arrival = {}) noexcept;
  // Begins a part of this request (a retry, a model of an ensemble, a call): a request of its own with this one as
  // parent. When the child is finished there, the parent is the thread's context again.
  PITOT_EXPORT Request BeginChild(const char* route) noexcept;
  // Begins a request with the token's as parent; it arrived when the token was enqueued. For a token of another process
  // it starts a new trace, since a token has no room for a trace id. To stay in the trace, also send WriteTraceparent's
  // text, and begin with Begin(route, traceparent, Timestamp{token.enqueued_ticks}); the parent is then the same.
  PITOT_EXPORT static Request BeginFrom(const Token& token, const char* route) noexcept;

  Request(Request&& other) noexcept : slot_(other.slot_), id_(other.id_) { other.id_ = 0; }
  PITOT_EXPORT Request& operator=(Request&& other) noexcept;
  ~Request() {
    if (id_ != 0) Finish(Outcome::kAbandoned);
  }

  // 0 when inert.
  uint64_t id() const noexcept { return id_; }
  // Writes the W3C traceparent for services called for this request: 55 characters and a zero; "" when inert. A trace
  // that came with `traceparent` stays sampled, or not sampled; one that began here is sampled.
  PITOT_EXPORT void WriteTraceparent(char (&out)[56]) const noexcept;

  // The host's own id of the request: "cmpl-123". Reports name the request by it, and `pitot why --request` takes it.
  // It is kept with this request only, so each request may have another one. It is cut at kMaxIdBytes. The first id
  // stays; cut ones and further ones are counted (Stats::details_refused). Null or "" changes nothing.
  PITOT_EXPORT void SetId(const char* id) noexcept;
  // A bounded dimension: model, version, tenant. The first 255 distinct values of a process are kept, the rest become
  // "(other)".
  PITOT_EXPORT void SetLabel(const char* key, const char* value) noexcept;
  // The amount of work: pixels, prompt tokens, bytes. The first size set divides a route into size buckets, one per
  // power of two. Triggers on tokens see it from then on, so set it early.
  PITOT_EXPORT void SetSize(const char* name, double value) noexcept;
  // The deadline, ns after its arrival; 0 changes nothing, values above 2^62 become 2^62.
  PITOT_EXPORT void SetDeadline(uint64_t ns) noexcept;
  // Like the functions of the same names that take tokens.
  PITOT_EXPORT void Stage(const char* name) noexcept;
  PITOT_EXPORT void Emit(uint32_t count = 1) noexcept;
  PITOT_EXPORT bool IsLate() const noexcept;

  // Returns a token without an enqueue time.
  PITOT_EXPORT Token token() const noexcept;
  // Records the hand-over to `queue` and returns the token to put there.
  PITOT_EXPORT Token Enqueue(const char* queue) noexcept;

  // Ends the request, calls the triggers, and makes the handle inert. An invalid outcome counts as kAbandoned.
  // `reason` says in a few words why it failed or was cancelled: "KV cache full", "client left". It must come from a
  // small set: the first 255 reasons of a process are kept, the rest become "(other)" (Stats::labels_folded). It is cut
  // at its first line break, and at 120 bytes. Null or "": none.
  // Threads: any.
  // Cost: if no trigger fires, a fraction of a microsecond.
  PITOT_EXPORT void Finish(Outcome outcome, const char* reason = nullptr) noexcept;

 private:
  uint32_t slot_ = 0;
  uint64_t id_ = 0;
};

// Makes the token's request this thread's context for a block. Records its leaving the queue, and restores the former
// context at the end. Must end on the thread it began on.
class Adopt {
 public:
  PITOT_EXPORT explicit Adopt(const Token& token) noexcept;
  PITOT_EXPORT ~Adopt();
  Adopt(const Adopt&) = delete;
  Adopt& operator=(const Adopt&) = delete;

 private:
  detail::Ring* ring_;
  uint64_t before_;
};

// One execution that serves several requests; used by one thread at a time. That thread works for it until it ends.
class Batch {
 public:
  Batch() noexcept = default;
  // Begins a batch on the executor of that name. `work_unit` is the unit of its members' work, in the plural: "tokens",
  // "pixels". Without it the unit is "tokens" if members put out tokens.
  PITOT_EXPORT static Batch Begin(const char* executor) noexcept;
  PITOT_EXPORT static Batch Begin(const char* executor, const char* work_unit) noexcept;
  Batch(Batch&& other) noexcept
      : id_(other.id_), begin_(other.begin_), submitted_(other.submitted_), info_(other.info_) {
    other.id_ = 0;
  }
  PITOT_EXPORT Batch& operator=(Batch&& other) noexcept;
  // Finishes it.
  ~Batch() {
    if (id_ != 0) Finish();
  }

  uint64_t id() const noexcept { return id_; }
  // Join makes a request a member and records its leaving the queue. Leave ends its membership early (continuous
  // batching). Members that never left leave at the end.
  PITOT_EXPORT void Join(const Token& token) noexcept;
  // `work`: how much the member brings to this batch or step (tokens of its prompt, or 1 for its next token; bytes,
  // rows). A verdict then tells whose work made a batch long. Say it for every member, because one without it makes the
  // batch's work unknown. Work that is not finite, or not above 0, is unknown.
  // Cost: as without work (tens of ns).
  PITOT_EXPORT void Join(const Token& token, double work) noexcept;
  // Joins `count` members at the same moment. `work` has as many values; null: all unknown.
  // Cost: as one Join each, with one clock reading for all.
  PITOT_EXPORT void JoinMany(const Token* tokens, const double* work, size_t count) noexcept;
  PITOT_EXPORT void Leave(const Token& token) noexcept;
  // The reason for accepting no more members.
  PITOT_EXPORT void Close(BatchClose why) noexcept;
  // The host has launched all of its work (GPU work may still run).
  PITOT_EXPORT void Submitted() noexcept;
  // The results are available.
  PITOT_EXPORT void Finish() noexcept;

 private:
  uint64_t id_ = 0;
  uint64_t begin_ = 0;      // ticks
  uint64_t submitted_ = 0;  // ticks; 0: not set
  uint64_t info_ = 0;       // executor name, unit of work, close reason, number of joins
};

// A part of a request that suspends or moves between threads (coroutines, asynchronous calls). It belongs to the
// request, not to a thread's stack. Made by PITOT_ASYNC_SCOPE; movable; ends with End() or its destructor, on any
// thread.
class AsyncScope {
 public:
  AsyncScope() noexcept = default;
  PITOT_EXPORT AsyncScope(const Site* begin_site, const Site* end_site, const Token& token) noexcept;
  AsyncScope(AsyncScope&& other) noexcept : end_site_(other.end_site_), id_(other.id_), request_(other.request_) {
    other.id_ = 0;
  }
  PITOT_EXPORT AsyncScope& operator=(AsyncScope&& other) noexcept;
  ~AsyncScope() {
    if (id_ != 0) End();
  }
  PITOT_EXPORT void End() noexcept;

 private:
  const Site* end_site_ = nullptr;
  uint64_t id_ = 0;
  uint64_t request_ = 0;
};

namespace detail {
// The result of PITOT_ASYNC_SCOPE under PITOT_DISABLED: empty, with the same members.
struct [[maybe_unused]] NoAsyncScope {
  void End() noexcept {}
  operator AsyncScope() const noexcept { return {}; }
};
}  // namespace detail

PITOT_NAMESPACE_END

// An expression: `auto call = PITOT_ASYNC_SCOPE("embed call", request.token());`
#ifndef PITOT_DISABLED
#define PITOT_ASYNC_SCOPE(name, token)                                                            \
  [](const ::pitot::Token& pitot_token) {                                                         \
    using PitotIds = ::pitot::detail::ArgList<uint64_t, uint64_t>;                                \
    PITOT_DETAIL_SITE(pitot_begin, PitotIds, kAsyncBegin, 0, "" name, "\"\", request, async_id"); \
    PITOT_DETAIL_SITE(pitot_end, PitotIds, kAsyncEnd, 0, "" name, "\"\", request, async_id");     \
    return ::pitot::AsyncScope(&pitot_begin, &pitot_end, pitot_token);                            \
  }(token)
#else
#define PITOT_ASYNC_SCOPE(name, token) (static_cast<void>(sizeof(token)), ::pitot::detail::NoAsyncScope{})
#endif

#endif  // PITOT_REQUEST_H_
