// SPDX-License-Identifier: Apache-2.0
//
// Asks what may crash or hang (drivers, vendors' libraries) in a process of its own, which may be lost.
#ifndef PITOT_LIB_CLI_CHILD_H_
#define PITOT_LIB_CLI_CHILD_H_

#include <stdint.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace pitot::cli {

// How the child tells what it finds out.
class Teller {
 public:
  explicit Teller(int fd) : fd_(fd) {}
  void Tell(const std::string& key, std::string value) const;
  void Tell(const std::string& key, int64_t value) const { Tell(key, std::to_string(value)); }
  // What comes next, in words, for who hears that it did not return: "in cuInit".
  void Begin(const std::string& step) const { Tell("step", step); }

 private:
  const int fd_;
};

// What it told before it ended, in whatever way.
struct Told {
  std::vector<std::pair<std::string, std::string>> all;
  std::string failure;  // "" where it ended well; else "crashed (Aborted) in cuInit"

  bool Has(const std::string& key) const;
  // The last of this key; "" if none.
  std::string Get(const std::string& key) const;
  int64_t Number(const std::string& key) const;  // 0 if none
  std::vector<std::string> Each(const std::string& key) const;
};

// Runs `ask` in the child of a fork without input and output, and kills it after `patience_ns`; what it had told is
// kept. Call it while the process has one thread.
Told AskInChild(const std::function<void(const Teller&)>& ask, int64_t patience_ns);

}  // namespace pitot::cli

#endif  // PITOT_LIB_CLI_CHILD_H_
