// SPDX-License-Identifier: Apache-2.0
//
// The list of formats. The first that recognises a file reads it.
#ifndef PITOT_LIB_READ_FORMATS_H_
#define PITOT_LIB_READ_FORMATS_H_

#include "read/format.h"

namespace pitot::read {

extern const Format kDumpFormat, kOnnxFormat, kJaxFormat, kKinetoFormat, kChromeFormat;

inline constexpr const Format* kFormats[] = {
    &kDumpFormat,    //
    &kOnnxFormat,    // before Kineto: both have a category "Kernel"
    &kJaxFormat,     //
    &kKinetoFormat,  //
    &kChromeFormat,  // last: the others are dialects of it
};

}  // namespace pitot::read

#endif  // PITOT_LIB_READ_FORMATS_H_
