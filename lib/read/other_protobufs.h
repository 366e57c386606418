// SPDX-License-Identifier: Apache-2.0
//
// Names protobufs that begin like a trace and are none.
#ifndef PITOT_LIB_READ_OTHER_PROTOBUFS_H_
#define PITOT_LIB_READ_OTHER_PROTOBUFS_H_

#include <string_view>

namespace pitot::read {

// What a file is by its beginning: a set of descriptors, or OpenTelemetry's metrics or logs; "": none of these.
std::string_view OtherProtobuf(std::string_view bytes);

}  // namespace pitot::read

#endif  // PITOT_LIB_READ_OTHER_PROTOBUFS_H_
