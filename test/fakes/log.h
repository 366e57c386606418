// SPDX-License-Identifier: Apache-2.0
//
// A host's log that keeps its lines.
#ifndef PITOT_TEST_FAKES_LOG_H_
#define PITOT_TEST_FAKES_LOG_H_

#include <mutex>
#include <string>
#include <vector>

#include "pitot/options.h"

namespace fakes {

struct LogLine {
  pitot::LogLevel level;
  std::string text;
};

class Log {
 public:
  // Directs the log of `options` here. This object must outlive the recorder.
  void Listen(pitot::Options* options) {
    options->log_context = this;
    options->log = [](void* context, pitot::LogLevel level, const char* message) {
      auto* log = static_cast<Log*>(context);
      const std::lock_guard lock(log->mutex_);
      log->lines_.push_back({level, message});
    };
  }
  std::vector<LogLine> lines() const {
    const std::lock_guard lock(mutex_);
    return lines_;
  }
  // Whether a line of `level` contains `part`.
  bool Has(pitot::LogLevel level, const std::string& part) const {
    for (const LogLine& line : lines()) {
      if (line.level == level && line.text.find(part) != std::string::npos) return true;
    }
    return false;
  }

 private:
  mutable std::mutex mutex_;
  std::vector<LogLine> lines_;
};

}  // namespace fakes

#endif  // PITOT_TEST_FAKES_LOG_H_
