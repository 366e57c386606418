// SPDX-License-Identifier: Apache-2.0
//
// Field numbers of pprof's profile.proto for the encoder, because it does not link protobuf. The real reader's test
// reads what is written with them.
#ifndef PITOT_LIB_SERIALIZE_PPROF_FIELDS_H_
#define PITOT_LIB_SERIALIZE_PPROF_FIELDS_H_

#include <stdint.h>

namespace pitot::pprof {

namespace profile {
enum : uint32_t {
  kSampleType = 1,
  kSample = 2,
  kMapping = 3,
  kLocation = 4,
  kFunction = 5,
  kString = 6,
  kTime = 9,
  kDuration = 10,
  kComment = 13,
  kDefaultSampleType = 14,
};
}  // namespace profile
namespace value_type {
enum : uint32_t { kType = 1, kUnit = 2 };
}  // namespace value_type
namespace sample {
enum : uint32_t { kLocations = 1, kValues = 2, kLabel = 3 };
}  // namespace sample
namespace label {
enum : uint32_t { kKey = 1, kText = 2 };
}  // namespace label
namespace mapping {
enum : uint32_t { kId = 1, kFileName = 5, kHasFunctions = 7, kHasFileNames = 8, kHasLineNumbers = 9 };
}  // namespace mapping
namespace location {
enum : uint32_t { kId = 1, kMapping = 2, kLine = 4 };
}  // namespace location
namespace line {
enum : uint32_t { kFunction = 1, kNumber = 2 };
}  // namespace line
namespace function {
enum : uint32_t { kId = 1, kName = 2, kSystemName = 3, kFileName = 4, kStartLine = 5 };
}  // namespace function

}  // namespace pitot::pprof

#endif  // PITOT_LIB_SERIALIZE_PPROF_FIELDS_H_
