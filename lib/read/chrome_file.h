// SPDX-License-Identifier: Apache-2.0
//
// Reads a file of Chrome's JSON event by event, for the readers of its dialects.
#ifndef PITOT_LIB_READ_CHROME_FILE_H_
#define PITOT_LIB_READ_CHROME_FILE_H_

#include <string_view>

#include "pitot/read/trace.h"
#include "pitot/status.h"
#include "read/chrome_event.h"
#include "read/input.h"

namespace pitot::read {

// Takes what is in the file, in its order.
class ChromeTarget {
 public:
  virtual ~ChromeTarget() = default;
  // Another document follows in the file.
  virtual void BeginDocument() {}
  // False for an event that is incomplete for its kind.
  virtual bool Take(const ChromeEvent& event) = 0;
  // A member next to the events: `json` is its value.
  virtual void TakeMember(std::string_view key, std::string_view json, ChromeDecoder* decoder) = 0;
};

// Fills the report's complete, events, events_bad and problems. kDataLoss, with the reason, if the file is cut off or
// events are not readable. A list that ends after a whole event but without its bracket is complete: programs write
// such lists on purpose. Limits: 500 levels of nesting, 64 MiB an event.
Status ReadChromeFile(const Input& input, ChromeTarget* target, TraceReport* report);

}  // namespace pitot::read

#endif  // PITOT_LIB_READ_CHROME_FILE_H_
