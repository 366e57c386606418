// SPDX-License-Identifier: Apache-2.0
//
// Extend: a serializer turns a trace into the bytes of one file of an incident. The built-in ones (pitot/serialize/)
// use this interface.
#ifndef PITOT_EXTEND_SERIALIZER_H_
#define PITOT_EXTEND_SERIALIZER_H_

#include <stdint.h>

#include "pitot/export.h"
#include "pitot/status.h"

PITOT_NAMESPACE_BEGIN

namespace model {
struct Trace;
}

// Takes a file's bytes in order.
class ByteSink {
 public:
  // False once writing failed; the rest may be skipped. The caller of Serialize knows the reason.
  virtual bool Write(const void* data, uint64_t size) noexcept = 0;

 protected:
  ~ByteSink() = default;
};

class PITOT_EXPORT Serializer {
 public:
  virtual ~Serializer();
  // The file's name in the incident directory: letters, digits, '.', '_' and '-'.
  virtual const char* FileName() const noexcept = 0;
  // Writes `trace`. Runs on Pitot's worker at idle priority, or for dump.pitot on its writer; may allocate. Exceptions
  // are caught and fail only this file.
  virtual Status Serialize(const model::Trace& trace, ByteSink& sink) = 0;
};

PITOT_NAMESPACE_END

#endif  // PITOT_EXTEND_SERIALIZER_H_
