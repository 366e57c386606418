// SPDX-License-Identifier: Apache-2.0
//
// Runs calls that may crash or hang (drivers, vendors' libraries) in a separate, expendable process.
#ifndef PITOT_LIB_CLI_CHILD_H_
#define PITOT_LIB_CLI_CHILD_H_

#include <stdint.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace pitot::cli {

// The child's way to report its findings.
class Teller {
 public:
  explicit Teller(int fd) : fd_(fd) {}
  void Tell(const std::string& key, std::string value) const;
  void Tell(const std::string& key, int64_t value) const { Tell(key, std::to_string(value)); }
  // Names the next step, for a message in case it does not return: "in cuInit".
  void Begin(const std::string& step) const { Tell("step", step); }

 private:
  const int fd_;
};

// All that the child reported before it ended, in whatever way.
struct Told {
  std::vector<std::pair<std::string, std::string>> all;
  std::string failure;  // "" if it ended well; otherwise "crashed (Aborted) in cuInit"

  bool Has(const std::string& key) const;
  // The last value of this key; "" if there is none.
  std::string Get(const std::string& key) const;
  int64_t Number(const std::string& key) const;  // 0 if there is none
  std::vector<std::string> Each(const std::string& key) const;
};

// Runs `ask` in the child of a fork without input and output, and kills it after `patience_ns`; findings until then are
// kept. Call it while the process has only one thread.
Told AskInChild(const std::function<void(const Teller&)>& ask, int64_t patience_ns);

}  // namespace pitot::cli

#endif  // PITOT_LIB_CLI_CHILD_H_
