// SPDX-License-Identifier: Apache-2.0
//
// Writes a trace in Pitot's native format, without loss: docs/reference/formats/dump.md. pitot/read/dump.h reads it
// back.
#ifndef PITOT_SERIALIZE_DUMP_H_
#define PITOT_SERIALIZE_DUMP_H_

#include <memory>

#include "pitot/extend/serializer.h"

PITOT_NAMESPACE_BEGIN

PITOT_EXPORT std::unique_ptr<Serializer> MakeDumpSerializer(const char* file_name = "dump.pitot") noexcept;

PITOT_NAMESPACE_END

#endif  // PITOT_SERIALIZE_DUMP_H_
