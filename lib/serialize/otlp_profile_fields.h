// SPDX-License-Identifier: Apache-2.0
//
// Field numbers of OTLP's profiles (v1development) for the encoder, because it does not link protobuf. The real
// reader's test reads what is written with them.
#ifndef PITOT_LIB_SERIALIZE_OTLP_PROFILE_FIELDS_H_
#define PITOT_LIB_SERIALIZE_OTLP_PROFILE_FIELDS_H_

#include <stdint.h>

namespace pitot::serialize::otlp {

namespace profiles {
enum : uint32_t { kResourceProfiles = 1, kDictionary = 2 };
}
namespace dictionary {
enum : uint32_t {
  kMapping = 1,
  kLocation = 2,
  kFunction = 3,
  kLink = 4,
  kString = 5,
  kAttribute = 6,
  kStack = 7,
};
}  // namespace dictionary
namespace resource_profiles {
enum : uint32_t { kResource = 1, kScopeProfiles = 2 };
}
namespace scope_profiles {
enum : uint32_t { kScope = 1, kProfile = 2 };
}
namespace profile {
enum : uint32_t { kSampleType = 1, kSample = 2, kTime = 3, kDuration = 4, kAttributes = 11 };
}
namespace value_type {
enum : uint32_t { kType = 1, kUnit = 2 };
}
namespace sample {
enum : uint32_t { kStack = 1, kAttributes = 2, kLink = 3, kValues = 4 };
}
namespace stack {
enum : uint32_t { kLocations = 1 };
}
namespace location {
enum : uint32_t { kLine = 3, kAttributes = 4 };
}
namespace line {
enum : uint32_t { kFunction = 1, kNumber = 2 };
}
namespace function {
enum : uint32_t { kName = 1, kSystemName = 2, kFileName = 3, kStartLine = 4 };
}
namespace key_value {
enum : uint32_t { kKey = 1, kValue = 2 };
}

}  // namespace pitot::serialize::otlp

#endif  // PITOT_LIB_SERIALIZE_OTLP_PROFILE_FIELDS_H_
