// SPDX-License-Identifier: Apache-2.0
//
// Status: the result of every Pitot function that can fail. One pointer wide and null when ok, so success costs
// nothing. The numbers of the codes never change.
#ifndef PITOT_STATUS_H_
#define PITOT_STATUS_H_

#include <stdint.h>

#include "pitot/export.h"

PITOT_NAMESPACE_BEGIN

enum class StatusCode : uint8_t {
  kOk = 0,
  kInvalidArgument = 1,    // an option or argument is wrong; the message names it
  kAlreadyRunning = 2,     // a recorder is running in this process; the message names its owner
  kNotRunning = 3,         // the recorder was stopped, never started, or belongs to the parent of a fork
  kResourceExhausted = 4,  // memory, threads, disk or an incident budget
  kUnavailable = 5,        // the machine does not support it: no such library, no permission
  kNotFound = 6,           // no such file, directory or request
  kDataLoss = 7,           // a file is truncated or corrupt
  kIoError = 8,            // a system call on a file failed
  kInternal = 9,           // a defect of Pitot; please report it
  kDisabled = 10,          // switched off by PITOT_OFF or PITOT_DISABLED
};

// Returns the code's name, "ok", "invalid_argument" and so on; never null.
PITOT_EXPORT const char* StatusCodeName(StatusCode code) noexcept;

class Status {
 public:
  // Ok.
  Status() noexcept = default;

  // An error with a message of at most 1,023 bytes, copied. Without memory for the message the code is kept, and the
  // message says so.
  PITOT_EXPORT Status(StatusCode code, const char* message) noexcept;
  PITOT_EXPORT Status(const Status& other) noexcept;
  PITOT_EXPORT Status& operator=(const Status& other) noexcept;
  Status(Status&& other) noexcept : rep_(other.rep_) { other.rep_ = nullptr; }
  Status& operator=(Status&& other) noexcept {
    Rep* mine = rep_;
    rep_ = other.rep_;
    other.rep_ = mine;
    return *this;
  }
  ~Status() {
    if (rep_ != nullptr) Release();
  }

  bool ok() const noexcept { return rep_ == nullptr; }
  PITOT_EXPORT StatusCode code() const noexcept;
  // Never null; "" when ok. Lives as long as this Status or a copy of it.
  PITOT_EXPORT const char* message() const noexcept;

 private:
  struct Rep;
  PITOT_EXPORT void Release() noexcept;
  Rep* rep_ = nullptr;
};

PITOT_NAMESPACE_END

#endif  // PITOT_STATUS_H_
