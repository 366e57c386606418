// SPDX-License-Identifier: Apache-2.0
//
// Incidents with the same verdict. The first, the worst and the last of each signature are kept whole; others are
// counted, with their times.
#ifndef PITOT_LIB_SESSION_FOLDING_H_
#define PITOT_LIB_SESSION_FOLDING_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace pitot::session {

// An incident with a verdict.
struct JudgedIncident {
  uint64_t number = 0;
  std::string path;           // "": it is not on disk
  int64_t at_ns = 0;          // CLOCK_REALTIME
  int64_t excess_ns = 0;      // how bad it was
  uint64_t requests = 0;      // that fired
  uint64_t more_like_it = 0;  // events of its trigger and route since the incident of its cause before: they began none
  std::string cause;
};

// All incidents of a signature so far.
struct Repeats {
  std::string signature;
  JudgedIncident first, worst, last;
  uint64_t again = 0;          // incidents after the first
  uint64_t requests = 0;       // that fired, in all
  uint64_t more_like_it = 0;   // between incidents of its cause that both had this verdict
  std::vector<int64_t> at_ns;  // of the newest 64 incidents
};

// Not thread-safe.
class Folding {
 public:
  static constexpr size_t kMostSignatures = 256, kMostTimes = 64;
  static constexpr int64_t kForgetNs = 3'600'000'000'000;  // after the last incident of a signature

  // Whether an incident would repeat one before, and be no worse than the worst so far.
  bool IsMilderRepeat(const std::string& signature, int64_t at_ns, int64_t excess_ns) const;
  // Adds an incident, which is the last of its signature from now on. `folded` becomes the paths of those that are not
  // kept any more, two at most. The result is valid until the next call. Throws bad_alloc, and then nothing is added.
  const Repeats& Add(const std::string& signature, const JudgedIncident& incident, std::vector<std::string>* folded);

 private:
  // Whether no incident of its cause came later with another verdict.
  bool IsNewestOfCause(const Repeats& it) const;

  std::vector<Repeats> all_;
};

// The lines of a report: "again       23 times in 20.1 s ...", with their end; and the member "again" of verdict.json.
std::string AgainText(const Repeats& repeats);
std::string AgainJson(const Repeats& repeats);

// The text with those lines at the end of its first paragraph, in place of those that are there; and the object with
// that member first.
std::string WithAgain(const std::string& report, const std::string& lines);
// Removes those lines, and returns them; "" if there are none.
std::string TakeAgain(std::string* report);
std::string WithAgainMember(const std::string& json, const std::string& member);

}  // namespace pitot::session

#endif  // PITOT_LIB_SESSION_FOLDING_H_
