// SPDX-License-Identifier: Apache-2.0
//
// Finds calls that the host forgot, or makes in vain: nothing fails then, but verdicts stay poor. It looks at the
// traces of incidents and samples, so it costs the host's threads nothing.
#ifndef PITOT_LIB_SESSION_SELF_CHECK_H_
#define PITOT_LIB_SESSION_SELF_CHECK_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/mutex.h"
#include "pitot/extend/trigger.h"
#include "pitot/model/trace.h"

namespace pitot::session {

class SelfCheck {
 public:
  // Fewer requests show nothing.
  static constexpr uint64_t kFewestRequests = 20;

  // The route whose tokens a trigger watches, "" for all; none: it watches no tokens.
  static std::optional<std::string> TokensOf(const Trigger* trigger);
  // Such a trigger was added. Without memory its tokens are not missed. Threads: any.
  void NoteTokens(const std::string& route) noexcept PITOT_EXCLUDES(mutex_);

  // Adds what is missing to the trace, as attributes "missing_call.NAME" with the remedy. Returns those that no trace
  // had before, for the log. One thread at a time. May throw bad_alloc.
  std::vector<std::string> Look(model::Trace* trace) PITOT_EXCLUDES(mutex_);

 private:
  enum Kind : uint8_t { kOutcomes, kTokens, kBatches, kStages, kThreads, kKinds };
  struct Found {
    uint64_t count = 0;      // requests or threads that lack it
    bool is_called = false;  // by some: the host knows the call
    bool is_logged = false;
  };
  void LookAtRequests(const model::Trace& trace);
  void LookAtBatches(const model::Trace& trace);
  void LookAtThreads(const model::Trace& trace);
  bool IsWatched(std::string_view route) PITOT_EXCLUDES(mutex_);
  void Note(Kind kind, bool has_it);
  std::string TextOf(Kind kind) const;

  std::array<Found, kKinds> found_;
  int64_t looked_until_ns_ = INT64_MIN;  // windows overlap

  base::Mutex mutex_;
  std::vector<std::string> token_routes_ PITOT_GUARDED_BY(mutex_);
};

}  // namespace pitot::session

#endif  // PITOT_LIB_SESSION_SELF_CHECK_H_
