// SPDX-License-Identifier: Apache-2.0
#include "session/options.h"

#include <errno.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "base/depth_name.h"
#include "base/message.h"
#include "base/text.h"
#include "trace/requests.h"

namespace pitot::session {
namespace {

using base::Error;

// Cost of each open request, and of names and routes once full. Checked against the tables by a test.
constexpr uint64_t kBytesPerRequest = 512;
constexpr uint64_t kNamesBytes = 1 << 20;
constexpr uint64_t kBudgetPerRing = 4;  // the budget is at least this many of the largest rings

constexpr uint64_t kMax = ~uint64_t{0};

// Limits of values that the environment may set, too: its messages give the same numbers.
constexpr uint64_t kLeastBudgetBytes = 4u << 20, kMostBudgetBytes = uint64_t{1} << 40;
constexpr uint64_t kLeastRingBytes = 4096, kMostRingBytes = 64u << 20;
constexpr uint64_t kLeastOpenRequests = 16, kMostOpenRequests = 65536;
constexpr uint64_t kLeastPreWindowMs = 1, kMostPreWindowMs = 3'600'000;
constexpr uint64_t kLeastPostWindowMs = 0, kMostPostWindowMs = 60'000;

bool IsPowerOfTwo(uint64_t value) { return value != 0 && (value & (value - 1)) == 0; }

// FromEnvironment turns an unreadable text into these.
constexpr auto kUnreadableClock = static_cast<ClockSource>(255);
constexpr auto kUnreadableDepth = static_cast<Depth>(254);
constexpr uint64_t kUnreadableNumber = ~uint64_t{0};

Status CheckRange(const char* field, uint64_t value, uint64_t least, uint64_t most) {
  using Long = unsigned long long;
  if (value >= least && value <= most) return {};
  if (most == kMax)
    return Error(StatusCode::kInvalidArgument, "Options::%s is %llu; it must be at least %llu", field,
                 static_cast<Long>(value), static_cast<Long>(least));
  return Error(StatusCode::kInvalidArgument, "Options::%s is %llu; it must be %llu to %llu", field,
               static_cast<Long>(value), static_cast<Long>(least), static_cast<Long>(most));
}

// Checks for values that FromEnvironment could not read.
Status CheckEnvironment(const Options& o) {
  struct Variable {
    const char* name;
    bool is_unreadable;
    const char* unit;
    uint64_t least, most;
  };
  const Variable numbers[] = {
      {"PITOT_MEMORY_BUDGET_BYTES", o.memory_budget_bytes == kUnreadableNumber, "bytes", kLeastBudgetBytes,
       kMostBudgetBytes},
      {"PITOT_MAX_RING_BYTES", o.max_ring_bytes == kUnreadableNumber, "bytes, a power of two", kLeastRingBytes,
       kMostRingBytes},
      {"PITOT_MAX_OPEN_REQUESTS", o.max_open_requests == ~0u, "requests", kLeastOpenRequests, kMostOpenRequests},
      {"PITOT_PRE_WINDOW_MS", o.pre_window_ms == ~0u, "milliseconds", kLeastPreWindowMs, kMostPreWindowMs},
      {"PITOT_POST_WINDOW_MS", o.post_window_ms == ~0u, "milliseconds", kLeastPostWindowMs, kMostPostWindowMs},
  };
  using Long = unsigned long long;
  for (const Variable& number : numbers) {
    // Without the variable the host itself set this value.
    const char* text = number.is_unreadable ? std::getenv(number.name) : nullptr;
    if (text != nullptr)
      return Error(StatusCode::kInvalidArgument, "%s is \"%s\"; it must be a number of %s, %llu to %llu", number.name,
                   text, number.unit, static_cast<Long>(number.least), static_cast<Long>(number.most));
  }
  if (const char* depth = o.depth == kUnreadableDepth ? std::getenv("PITOT_DEPTH") : nullptr)
    return Error(StatusCode::kInvalidArgument, "PITOT_DEPTH is \"%s\"; it must be auto, scopes, graphs, kernels or ops",
                 depth);
  const char* clock = o.clock == kUnreadableClock ? std::getenv("PITOT_CLOCK") : nullptr;
  if (clock == nullptr) return {};
  return Error(StatusCode::kInvalidArgument,
               "PITOT_CLOCK is \"%s\"; it must be auto, cycle_counter or operating_system", clock);
}

Status CheckRanges(const Options& o) {
  struct Range {
    const char* field;
    uint64_t value, least, most;
  };
  const Range ranges[] = {
      {"memory_budget_bytes", o.memory_budget_bytes, kLeastBudgetBytes, kMostBudgetBytes},
      {"max_ring_bytes", o.max_ring_bytes, kLeastRingBytes, kMostRingBytes},
      {"min_ring_bytes", o.min_ring_bytes, kLeastRingBytes, o.max_ring_bytes},
      {"max_grown_ring_bytes", o.max_grown_ring_bytes, kLeastRingBytes, kMostRingBytes},
      {"max_open_requests", o.max_open_requests, kLeastOpenRequests, kMostOpenRequests},
      {"clock", static_cast<uint64_t>(o.clock), 0, 2},
      {"pre_window_ms", o.pre_window_ms, kLeastPreWindowMs, kMostPreWindowMs},
      {"post_window_ms", o.post_window_ms, kLeastPostWindowMs, kMostPostWindowMs},
      {"max_incidents_per_cause_and_hour", o.max_incidents_per_cause_and_hour, 1, kMax},
      {"max_incidents_kept", o.max_incidents_kept, 1, kMax},
      {"max_incident_directory_bytes", o.max_incident_directory_bytes, 1, kMax},
      {"worker_cpu_percent", o.worker_cpu_percent, 1, 100},
      {"handle_ends", static_cast<uint64_t>(o.handle_ends), 0, 3},
      {"end_grace_ms", o.end_grace_ms, 1, 60'000},
  };
  for (const Range& range : ranges) {
    if (Status s = CheckRange(range.field, range.value, range.least, range.most); !s.ok()) return s;
  }
  if (o.depth > Depth::kOps && o.depth != Depth::kAuto)
    return Error(StatusCode::kInvalidArgument, "Options::depth is %d, not a depth", static_cast<int>(o.depth));
  if (!(o.overhead_budget_percent >= 0.1 && o.overhead_budget_percent <= 100))
    return Error(StatusCode::kInvalidArgument, "Options::overhead_budget_percent is %g; it must be 0.1 to 100",
                 o.overhead_budget_percent);
  return {};
}

// Checks sizes against each other.
Status CheckMemory(const Options& o) {
  if (!IsPowerOfTwo(o.max_ring_bytes))
    return Error(StatusCode::kInvalidArgument, "Options::max_ring_bytes must be a power of two");
  if (!IsPowerOfTwo(o.min_ring_bytes))
    return Error(StatusCode::kInvalidArgument, "Options::min_ring_bytes must be a power of two");
  if (!IsPowerOfTwo(o.max_grown_ring_bytes))
    return Error(StatusCode::kInvalidArgument, "Options::max_grown_ring_bytes must be a power of two");
  // Rings take a quarter; at least an eighth must be left for incidents.
  const uint64_t tables = RequestAndNameBytes(o), least = tables / 3 * 8 + 8;
  if (tables > o.memory_budget_bytes / 8 * 3)
    return Error(StatusCode::kInvalidArgument,
                 "Options::max_open_requests (512 bytes each, and 1 MiB for names) needs more than three eighths of "
                 "Options::memory_budget_bytes: make that %llu or more",
                 static_cast<unsigned long long>(least));
  if (o.max_ring_bytes > o.memory_budget_bytes / kBudgetPerRing)
    return Error(StatusCode::kInvalidArgument,
                 "Options::max_ring_bytes is %llu, more than a quarter of Options::memory_budget_bytes, which is %llu",
                 static_cast<unsigned long long>(o.max_ring_bytes),
                 static_cast<unsigned long long>(o.memory_budget_bytes));
  constexpr uint64_t kHeaderBytes = 4096;
  if (o.min_ring_bytes + kHeaderBytes > o.memory_budget_bytes / kBudgetPerRing)
    return Error(StatusCode::kInvalidArgument,
                 "Options::min_ring_bytes is %llu, which with its header of 4 KiB is more than a quarter of "
                 "Options::memory_budget_bytes, %llu: no thread could have a ring",
                 static_cast<unsigned long long>(o.min_ring_bytes),
                 static_cast<unsigned long long>(o.memory_budget_bytes));
  return {};
}

Status CheckDirectory(const char* name, const char* path) {
  if (path == nullptr) return {};
  if (std::strlen(path) > 3500)
    return Error(StatusCode::kInvalidArgument, "Options::%s is longer than 3,500 bytes", name);
  if (std::strstr(path, "/../") != nullptr)
    return Error(StatusCode::kInvalidArgument, "Options::%s must not contain \"/../\"", name);
  return {};
}

Status CheckDirectories(const Options& o) {
  if (Status s = CheckDirectory("incident_directory", o.incident_directory); !s.ok()) return s;
  return CheckDirectory("black_box_directory", o.black_box_directory);
}

Status CheckValues(const Options& options) {
  for (const auto check : {CheckEnvironment, CheckRanges, CheckMemory, CheckDirectories}) {
    if (Status s = check(options); !s.ok()) return s;
  }
  return {};
}

uint64_t NumberOf(const char* text) {
  if (text[0] < '0' || text[0] > '9') return kUnreadableNumber;
  char* end = nullptr;
  errno = 0;
  const unsigned long long value = std::strtoull(text, &end, 10);
  return errno == 0 && *end == '\0' ? value : kUnreadableNumber;
}
uint32_t SmallNumberOf(const char* text) {
  const uint64_t value = NumberOf(text);
  return static_cast<uint32_t>(value < ~0u ? value : ~0u);
}

Depth DepthOf(const char* text) {
  Depth depth;
  return base::ParseDepth(text, &depth) ? depth : kUnreadableDepth;
}

ClockSource ClockOf(const char* text) {
  if (std::strcmp(text, "auto") == 0) return ClockSource::kAuto;
  if (std::strcmp(text, "cycle_counter") == 0) return ClockSource::kCycleCounter;
  return std::strcmp(text, "operating_system") == 0 ? ClockSource::kOperatingSystem : kUnreadableClock;
}

constexpr EnvironmentVariable kVariables[] = {
    {"PITOT_INCIDENT_DIRECTORY", "the directory of incidents",
     [](const char* text, Options* options) { options->incident_directory = text; }},
    {"PITOT_BLACK_BOX_DIRECTORY", "the directory of the black box, which outlives the process",
     [](const char* text, Options* options) { options->black_box_directory = text; }},
    {"PITOT_PROCESS_NAME", "the name of the process in incidents",
     [](const char* text, Options* options) { options->process_name = text; }},
    {"PITOT_MEMORY_BUDGET_BYTES", "the most memory Pitot may hold",
     [](const char* text, Options* options) { options->memory_budget_bytes = NumberOf(text); }},
    {"PITOT_MAX_RING_BYTES", "the largest ring of a thread",
     [](const char* text, Options* options) { options->max_ring_bytes = NumberOf(text); }},
    {"PITOT_MAX_OPEN_REQUESTS", "the most requests open at once",
     [](const char* text, Options* options) { options->max_open_requests = SmallNumberOf(text); }},
    {"PITOT_PRE_WINDOW_MS", "the time an incident covers before its trigger",
     [](const char* text, Options* options) { options->pre_window_ms = SmallNumberOf(text); }},
    {"PITOT_POST_WINDOW_MS", "the time an incident covers after its trigger",
     [](const char* text, Options* options) { options->post_window_ms = SmallNumberOf(text); }},
    {"PITOT_CLOCK", "the clock that stamps events",
     [](const char* text, Options* options) { options->clock = ClockOf(text); }},
    {"PITOT_DEPTH", "the depth at which collectors record",
     [](const char* text, Options* options) { options->depth = DepthOf(text); }},
};

}  // namespace

std::span<const EnvironmentVariable> EnvironmentVariables() { return kVariables; }

Status CheckAndCopy(const Options& options, OwnedOptions* out) {
  if (Status s = CheckValues(options); !s.ok()) return s;
  out->values = options;
  out->incident_directory = options.incident_directory != nullptr ? options.incident_directory : "";
  out->process_name = options.process_name != nullptr ? options.process_name : program_invocation_short_name;
  out->black_box_directory = options.black_box_directory != nullptr ? options.black_box_directory : "";
  out->values.incident_directory = out->values.black_box_directory = out->values.process_name = nullptr;
  return {};
}

uint64_t RequestAndNameBytes(const Options& options) {
  return options.max_open_requests * kBytesPerRequest + kNamesBytes;
}

uint64_t LargestRingBytes(const Options& options) {
  const uint64_t most = std::bit_floor(options.memory_budget_bytes / kBudgetPerRing);
  return std::max(options.max_ring_bytes, std::min(options.max_grown_ring_bytes, most));
}

void CallLog(const Options& options, LogLevel level, const char* message) noexcept {
  if (options.log == nullptr) return;
  // Causes and routes are the host's: none of them may begin a line of its own.
  char line[1024];
  size_t size = 0;
  for (std::string_view left = message; !left.empty();) {
    const uint32_t sane = base::SaneCharacter(left), taken = std::max<uint32_t>(sane, 1);
    if (size + taken >= sizeof line) break;
    std::memcpy(line + size, sane != 0 ? left.data() : "?", taken);
    left.remove_prefix(taken), size += taken;
  }
  line[size] = '\0';
  try {
    options.log(options.log_context, level, line);
  } catch (...) {
    // The host's mistake; it must not end the host.
  }
}

bool IsSwitchedOff() {
  const char* off = std::getenv("PITOT_OFF");
  return off != nullptr && off[0] != '\0' && std::strcmp(off, "0") != 0;
}

}  // namespace pitot::session

PITOT_NAMESPACE_BEGIN

Options Options::FromEnvironment() noexcept {
  Options options;
  for (const session::EnvironmentVariable& variable : session::EnvironmentVariables()) {
    if (const char* text = std::getenv(variable.name)) variable.read(text, &options);
  }
  return options;
}

PITOT_NAMESPACE_END
