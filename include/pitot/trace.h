// SPDX-License-Identifier: Apache-2.0
//
// Instrument code: scopes, leaves, instants and counters, recorded into the calling thread's ring.
//
//   { PITOT_SCOPE("decode", bytes); image = Decode(body); }
//
// When off, a macro is one load and one branch. When on, a scope is two clock reads and a 16-byte store (8 more per
// argument). After a thread's first event there is no lock, allocation or system call. Nothing here starts a recorder:
// without one (recorder.h) every macro does nothing. If PITOT_DISABLED is defined before this header, every macro
// compiles to no instruction.
//
// Names are string literals (anything else does not compile; see Intern). At most 7 arguments: integers, bool, enums,
// floating point, Name, PITOT_LITERAL("text"), and strings (const char*, or anything with data() and size()). The first
// 48 bytes of a string are kept. An argument is named by its source text. docs/guide/instrument.md lists the macros'
// limits in the language: they are two declarations (no unbraced `if`, no `case` before another label) with a static
// (no constexpr functions).
#ifndef PITOT_TRACE_H_
#define PITOT_TRACE_H_

#include <stdint.h>

#include "pitot/export.h"

PITOT_NAMESPACE_BEGIN

// The meaning of a site's records. The numbers are written to files: never change one.
// clang-format off
enum class SiteKind : uint8_t {
  kScope = 1, kLeaf = 2, kPhase = 3, kInstant = 4, kCounter = 5, kWait = 6, kAsyncBegin = 7, kAsyncEnd = 8,
  kInternal = 9,  // requests, batches and context: lib/trace/internal_sites.h
  kOperator = 10,  // a scope that a framework's own instrumentation opened: aten::conv2d
};
enum class ArgType : uint8_t {
  kNone = 0, kInt = 1, kUint = 2, kDouble = 3, kBool = 4, kLiteral = 5, kName = 6, kString = 7
};
// clang-format on

// A place in the code: one static constant per macro use; records point at it. `arg_text` is the macro's arguments as
// written, including the name; `arg_types` holds one ArgType per 4 bits, first argument lowest.
struct Site {
  uint32_t magic;  // kSiteMagic: tells a site from other data mapped over an unloaded library
  SiteKind kind;
  uint8_t arg_count;
  uint16_t flags;  // kNameIsFirstArg
  uint32_t line;
  uint32_t arg_types;
  const char* name;
  const char* file;
  const char* function;
  const char* arg_text;
};
inline constexpr SiteKind kLastSiteKind = SiteKind::kOperator;
inline constexpr uint32_t kSiteMagic = 0x50495431;  // "PIT1"
inline constexpr uint16_t kNameIsFirstArg = 1;

// A name made at run time. Index 0 is "(other)", for new names once the table is full.
struct Name {
  uint32_t index;
};

// Returns the name equal to `text` (cut at 120 bytes), adding it to the process's table if new. The table holds 16,384
// names of 640 KiB together, for the life of the process. When it is full the result is Name{0}, counted in
// Stats::names_refused. Works without a recorder. Null counts as "".
// Threads: any.
// Cost: a hash and a compare (tens of ns) if known; a lock if new. Keep the result.
PITOT_EXPORT Name Intern(const char* text) noexcept;

// Names the calling thread in traces (cut at 63 bytes, copied). The default is the operating system's name.
PITOT_EXPORT void SetThreadName(const char* name) noexcept;

namespace detail {
inline namespace layout_2 {  // headers and library of different layouts do not link

struct OpenScope {
  const Site* site;
  uint64_t begin;  // ticks; 0: closed
};
inline constexpr uint32_t kMaxOpen = 62, kMaxRecordWords = 64, kMaxStringBytes = 48;

// The part of a thread's ring used by inline code. Only the owner writes; docs/design.md, "The ring". From `head` on it
// may lie in a file that outlives the process. The line before is the process's own, and all zero in a child that would
// otherwise write into that file.
struct alignas(64) Ring {
  uint64_t *words, mask;
  uint32_t gate;              // equals g_gate while this ring belongs to the running recorder
  void* entry;                // the registry's
  alignas(64) uint64_t head;  // words ever written; readers acquire it
  uint64_t events;            // records ever written
  uint64_t request, batch;    // the thread's context: ids, 0 for none
  uint32_t depth;
  OpenScope open[kMaxOpen];
};

// The purpose of a clock read.
enum class Edge : uint32_t { kNone, kBegin, kEnd, kNext };  // kNext: one scope ends where the next begins

// 0: off. Otherwise the recorder's generation times two, plus kFastClock unless clocks are read by ClockSlow().
inline constexpr uint32_t kFastClock = 1;
PITOT_EXPORT extern uint32_t g_gate;
PITOT_EXPORT extern uint64_t g_ticks_per_ns_q32;
PITOT_EXPORT extern __thread Ring* t_ring __attribute__((tls_model("initial-exec")));
PITOT_EXPORT Ring* Attach(uint32_t gate) noexcept;  // null: no ring for this thread
// Reads the clock out of line: if it is the operating system's, while scopes are mirrored to a tool
// (lib/trace/mirror.h), or in a child that must leave its parent's ring. `name` is for a site that is named at run
// time.
PITOT_EXPORT uint64_t ClockSlow(Edge edge, const Site* site, uint32_t name) noexcept;
// Before Push: dumps then show the first 4 words of arguments while the scope is open. Before Pop: `begin` is 0.
PITOT_EXPORT void ShowArgs(Ring* ring, uint32_t depth, uint64_t begin, const uint64_t* words, uint32_t count) noexcept;
PITOT_EXPORT void CloseElsewhere() noexcept;
PITOT_EXPORT void CloseMisnested(Ring* ring, uint32_t depth) noexcept;

#define PITOT_DETAIL_INLINE [[gnu::always_inline]] inline

PITOT_DETAIL_INLINE uint64_t Clock(uint32_t gate, Edge edge = Edge::kNone, const Site* site = 0, uint32_t name = 0) {
  if (__builtin_expect((gate & kFastClock) == 0, 0)) return ClockSlow(edge, site, name);
#if defined(__x86_64__)
  return __builtin_ia32_rdtsc();
#elif defined(__aarch64__)
  uint64_t ticks;
  asm volatile("mrs %0, cntvct_el0" : "=r"(ticks));
  return ticks;
#else
  return ClockSlow(edge, site, name);
#endif
}

// The thread's ring while recording is on, otherwise null.
PITOT_DETAIL_INLINE Ring* Enter() {
  const uint32_t gate = __atomic_load_n(&g_gate, __ATOMIC_RELAXED);
  if (__builtin_expect(gate == 0, 0)) return nullptr;
  Ring* ring = t_ring;
  if (__builtin_expect(ring->gate != gate, 0)) ring = Attach(gate);
  return ring;
}

struct Literal {
  const char* text;
};

// clang-format off
template <class T> struct TypeOf {
  static constexpr ArgType Get() {
    if constexpr (__is_enum(T)) return ArgType::kInt;
    else if constexpr (__is_class(T)) return ArgType::kString;
    else if constexpr (T(2) == T(1)) return ArgType::kBool;
    else if constexpr (T(1) / T(2) != T(0)) return ArgType::kDouble;
    else return T(-1) < T(0) ? ArgType::kInt : ArgType::kUint;
  }
};
template <class T> struct TypeOf<T*> { static constexpr ArgType Get() { return ArgType::kString; } };
template <class T, uint64_t kSize> struct TypeOf<T[kSize]> : TypeOf<T*> {};
template <> struct TypeOf<Literal> { static constexpr ArgType Get() { return ArgType::kLiteral; } };
template <> struct TypeOf<Name> { static constexpr ArgType Get() { return ArgType::kName; } };
template <class T> inline constexpr ArgType kTypeOf = TypeOf<T>::Get();
// clang-format on

// An argument takes one word; a string takes its full size, then up to 6 words of bytes.
PITOT_DETAIL_INLINE uint32_t StoreString(uint64_t* out, const char* data, uint64_t size) {
  const uint64_t kept = size < kMaxStringBytes ? size : kMaxStringBytes, words = (kept + 7) / 8;
  out[0] = size;
  out[words] = 0;  // clears unused bytes of the last word (for an empty string: the size itself)
  if (kept != 0) __builtin_memcpy(out + 1, data, kept);  // without bytes `data` may be null
  return static_cast<uint32_t>(words + 1);
}
template <class T> PITOT_DETAIL_INLINE uint32_t Store(uint64_t* out, const T& value) {
  if constexpr (kTypeOf<T> == ArgType::kString && __is_class(T)) {
    return StoreString(out, value.data(), value.size());
  } else if constexpr (kTypeOf<T> == ArgType::kString) {
    const char* const text = value;
    return StoreString(out, text, text ? __builtin_strlen(text) : 0);
  } else if constexpr (kTypeOf<T> == ArgType::kDouble) {
    const double wide = static_cast<double>(value);
    __builtin_memcpy(out, &wide, sizeof wide);
  } else if constexpr (__is_class(T)) {
    uint64_t word = 0;  // Literal, Name: in one store, as they are read again
    __builtin_memcpy(&word, &value, sizeof value), *out = word;
  } else {
    *out = static_cast<uint64_t>(static_cast<int64_t>(value));
  }
  return 1;
}

// The arguments of an event: their types, known at compile time, and their words.
template <class... Args> struct ArgList {
  static_assert(sizeof...(Args) <= 7, "PITOT: an event takes at most 7 arguments");
  static constexpr uint8_t kCount = sizeof...(Args);
  static constexpr bool kFixed =
      kCount < 7 && ((kTypeOf<Args> != ArgType::kString) && ...);  // one word each, fewer than 7
  static constexpr uint32_t kMaxWords = ((kTypeOf<Args> == ArgType::kString ? 1 + kMaxStringBytes / 8 : 1) + ... + 0);
  static constexpr uint32_t Types() {
    uint32_t types = 0, shift = 0;
    ((types |= static_cast<uint32_t>(kTypeOf<Args>) << shift, shift += 4), ...);
    return types;
  }
  PITOT_DETAIL_INLINE void Set(const Args&... args) { used = 0, ((used += Store(words + used, args)), ...); }
  PITOT_DETAIL_INLINE uint32_t Words() const { return kFixed ? kCount : used; }
  uint32_t used;  // words
  uint64_t words[kMaxWords + 1];
};
template <class Skipped, class... Args> ArgList<Args...> ArgsAfterName(const Skipped&, const Args&...);

#pragma GCC diagnostic push  // g++ cannot see that a scope without a ring never reads its arguments
#ifndef __clang__
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
// Appends one record, header last: [args] [arg words if kind is 7] [duration if long] [end:40 | duration:24] [site:48 |
// end:12 | long:1 | kind:3]. Kind is the number of argument words; 7 means a word holds it. Every word is a release
// store: a reader that saw a word of a later record then knows from the head that it was overtaken.
template <class List>
PITOT_DETAIL_INLINE void Append(Ring* ring, const Site* site, uint64_t begin, uint64_t end, const List& args) {
  uint64_t* const words = ring->words;
  const uint64_t mask = ring->mask, count = args.Words(), duration = end - begin;
  uint64_t at = ring->head, kind = List::kFixed ? count : 7;
  const auto put = [&](uint64_t word) __attribute__((always_inline)) {
    __atomic_store_n(&words[at++ & mask], word, __ATOMIC_RELEASE);
  };
  for (uint64_t i = 0; i < count; ++i) put(args.words[i]);
  if constexpr (!List::kFixed) put(count);
  if (__builtin_expect(duration >> 24 != 0, 0)) {
    put(duration);
    put(end << 24);
    kind |= 8;
  } else {
    put(end << 24 | duration);
  }
  put(reinterpret_cast<uintptr_t>(site) << 16 | (end >> 40 & 0xfff) << 4 | kind);
  __atomic_store_n(&ring->events, ring->events + 1, __ATOMIC_RELAXED);
  __atomic_store_n(&ring->head, at, __ATOMIC_RELEASE);
}
#pragma GCC diagnostic pop

PITOT_DETAIL_INLINE void Push(Ring* ring, const Site* site, uint64_t begin) {
  const uint32_t depth = ring->depth++;
  if (__builtin_expect(depth >= kMaxOpen, 0)) return;
  __atomic_store_n(&ring->open[depth].site, site, __ATOMIC_RELEASE);
  __atomic_store_n(&ring->open[depth].begin, begin, __ATOMIC_RELEASE);
}
PITOT_DETAIL_INLINE void Pop(Ring* ring, uint32_t depth) {
  if (__builtin_expect(ring->depth != depth + 1, 0)) return CloseMisnested(ring, depth);
  ring->depth = depth;
  if (__builtin_expect(depth < kMaxOpen, 1)) __atomic_store_n(&ring->open[depth].begin, 0, __ATOMIC_RELEASE);
}
PITOT_DETAIL_INLINE uint64_t TicksOf(uint64_t ns) {
  __extension__ typedef unsigned __int128 Wide;
  return static_cast<uint64_t>(static_cast<Wide>(ns) * __atomic_load_n(&g_ticks_per_ns_q32, __ATOMIC_RELAXED) >> 32);
}

// kOpen: dumps show it while open. kNamed: with its name, too. kSlow: recorded only if it takes at least as many ns as
// its first argument says.
enum class Keep { kOpen, kNamed, kLeaf, kSlow };

template <Keep kKeep, class List> class Scope {
 public:
  template <class Skipped, class... Args>
  PITOT_DETAIL_INLINE explicit Scope(const Site* site, const Skipped&, const Args&... args) : ring_(Enter()) {
    if (ring_ == nullptr) return;
    args_.Set(args...);
    const uint64_t name = kKeep == Keep::kNamed ? args_.words[0] : 0;
    site_ = site, begin_ = Clock(ring_->gate, Edge::kBegin, site, static_cast<uint32_t>(name)), depth_ = ring_->depth;
    if constexpr (kKeep == Keep::kNamed) ShowArgs(ring_, depth_, begin_, args_.words, args_.Words());
    if constexpr (kKeep != Keep::kLeaf) Push(ring_, site, begin_);
  }
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;
  PITOT_DETAIL_INLINE ~Scope() {
    Ring* ring = ring_;
    if (ring == nullptr) return;
    // Opened on another thread, or under a former recorder: the ring may be gone and must not be touched.
    if (__builtin_expect(ring != t_ring, 0)) {
      CloseElsewhere();
      return;
    }
    const uint64_t end = Clock(ring->gate, Edge::kEnd);
    // Recorded before it leaves the open stack: a concurrent snapshot finds it in one of the two.
    if (kKeep != Keep::kSlow || end - begin_ >= TicksOf(args_.words[0])) Append(ring, site_, begin_, end, args_);
    if constexpr (kKeep == Keep::kNamed) ShowArgs(ring, depth_, 0, nullptr, 0);
    if constexpr (kKeep != Keep::kLeaf) Pop(ring, depth_);
  }

 private:
  Ring* ring_;
  const Site* site_ = nullptr;
  uint64_t begin_ = 0;
  uint32_t depth_ = 0;
  List args_;
};

template <class Skipped, class... Args>
PITOT_DETAIL_INLINE void EmitNow(const Site* site, const Skipped&, const Args&... args) {
  Ring* ring = Enter();
  if (ring == nullptr) return;
  ArgList<Args...> list;
  list.Set(args...);
  const uint64_t now = Clock(ring->gate);
  Append(ring, site, now, now, list);
}

}  // namespace layout_2
}  // namespace detail
PITOT_NAMESPACE_END

#define PITOT_DETAIL_CAT2(a, b) a##b
#define PITOT_DETAIL_CAT(a, b) PITOT_DETAIL_CAT2(a, b)
#define PITOT_DETAIL_FIRST(first, ...) first
// The `""` rejects a name that is not a literal.
#define PITOT_DETAIL_NAME(...) "" PITOT_DETAIL_FIRST(__VA_ARGS__, )
#define PITOT_DETAIL_SITE(variable, list, kind, flags, name, text)                                              \
  static constexpr ::pitot::Site variable {                                                                     \
    ::pitot::kSiteMagic, ::pitot::SiteKind::kind, list::kCount, flags, __LINE__, list::Types(), name, __FILE__, \
        __func__, text                                                                                          \
  }
#define PITOT_DETAIL_LIST(...) decltype(::pitot::detail::ArgsAfterName(__VA_ARGS__))
#define PITOT_DETAIL_SCOPE(keep, kind, flags, name, text, ...)                                                         \
  PITOT_DETAIL_SITE(PITOT_DETAIL_CAT(pitot_site_, __LINE__), PITOT_DETAIL_LIST(__VA_ARGS__), kind, flags, name, text); \
  ::pitot::detail::Scope<::pitot::detail::Keep::keep, PITOT_DETAIL_LIST(__VA_ARGS__)> PITOT_DETAIL_CAT(                \
      pitot_scope_, __LINE__)(&PITOT_DETAIL_CAT(pitot_site_, __LINE__), __VA_ARGS__)
#define PITOT_DETAIL_UNUSED(...) static_cast<void>(sizeof(PITOT_DETAIL_LIST(__VA_ARGS__)))

// A string literal as an argument, recorded by address (8 bytes) rather than copied.
#define PITOT_LITERAL(text) (::pitot::detail::Literal{"" text})

#ifndef PITOT_DISABLED

// Records the time from here to the end of the block: PITOT_SCOPE("name", args...).
#define PITOT_SCOPE(...) PITOT_DETAIL_SCOPE(kOpen, kScope, 0, PITOT_DETAIL_NAME(__VA_ARGS__), #__VA_ARGS__, __VA_ARGS__)
// The same for short work that never blocks: a little cheaper, but not shown in a dump taken while it runs.
#define PITOT_LEAF(...) PITOT_DETAIL_SCOPE(kLeaf, kLeaf, 0, PITOT_DETAIL_NAME(__VA_ARGS__), #__VA_ARGS__, __VA_ARGS__)
// PITOT_SCOPE named by the enclosing function.
#define PITOT_FUNCTION() PITOT_DETAIL_SCOPE(kOpen, kScope, 0, __func__, "", "")
// PITOT_SCOPE named at run time by a pitot::Name, which takes the place of one argument: PITOT_SCOPE_NAMED(name,
// args...). While it is open dumps show its name and the arguments that fit into 3 words (a string takes 1 and its
// bytes / 8).
#define PITOT_SCOPE_NAMED(...) \
  PITOT_DETAIL_SCOPE(kNamed, kScope, ::pitot::kNameIsFirstArg, "", "\"\", " #__VA_ARGS__, "", __VA_ARGS__)
// PITOT_SCOPE that is recorded only if it took at least `ns` nanoseconds; `ns` takes the place of one argument:
// PITOT_SCOPE_IF_SLOWER("name", ns, args...).
#define PITOT_SCOPE_IF_SLOWER(...) \
  PITOT_DETAIL_SCOPE(kSlow, kScope, 0, PITOT_DETAIL_NAME(__VA_ARGS__), #__VA_ARGS__, __VA_ARGS__)
// Records a moment: PITOT_INSTANT("name", args...).
#define PITOT_INSTANT(...) PITOT_DETAIL_EMIT(kInstant, #__VA_ARGS__, __VA_ARGS__)
// Records a value that holds until the next one: PITOT_COUNTER("name", value).
#define PITOT_COUNTER(name, value) PITOT_DETAIL_EMIT(kCounter, "", name, value)
#define PITOT_DETAIL_EMIT(kind, text, ...)                                                                        \
  do {                                                                                                            \
    PITOT_DETAIL_SITE(pitot_site, PITOT_DETAIL_LIST(__VA_ARGS__), kind, 0, PITOT_DETAIL_NAME(__VA_ARGS__), text); \
    ::pitot::detail::EmitNow(&pitot_site, __VA_ARGS__);                                                           \
  } while (0)

#else

#define PITOT_SCOPE(...) PITOT_DETAIL_UNUSED(__VA_ARGS__)
#define PITOT_LEAF(...) PITOT_DETAIL_UNUSED(__VA_ARGS__)
#define PITOT_FUNCTION() static_cast<void>(0)
#define PITOT_SCOPE_NAMED(...) PITOT_DETAIL_UNUSED("", __VA_ARGS__)
#define PITOT_SCOPE_IF_SLOWER(...) PITOT_DETAIL_UNUSED(__VA_ARGS__)
#define PITOT_INSTANT(...) PITOT_DETAIL_UNUSED(__VA_ARGS__)
#define PITOT_COUNTER(name, value) PITOT_DETAIL_UNUSED(name, value)

#endif  // PITOT_DISABLED

#endif  // PITOT_TRACE_H_
