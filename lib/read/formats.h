// SPDX-License-Identifier: Apache-2.0
//
// The list of formats. The first that recognises a file reads it.
#ifndef PITOT_LIB_READ_FORMATS_H_
#define PITOT_LIB_READ_FORMATS_H_

#include "read/format.h"

namespace pitot::read {

extern const Format kDumpFormat, kOnnxFormat, kJaxFormat, kOtlpFormat, kKinetoFormat, kChromeFormat;
extern const Format kNsysFormat, kPerfettoFormat, kRocpdFormat, kRocprofFormat, kXSpaceFormat, kRequestLogFormat;

inline constexpr const Format* kFormats[] = {
    &kDumpFormat,        //
    &kXSpaceFormat,      //
    &kPerfettoFormat,    //
    &kNsysFormat,        //
    &kRocpdFormat,       //
    &kRocprofFormat,     //
    &kRequestLogFormat,  //
    &kOnnxFormat,        // before KinetokOnnxFormat,      // before Kineto: both have a category "Kernel"
    &kJaxFormat,         //
    &kOtlpFormat,        //
    &kKinetoFormat,      //
    &kChromeFormat,      // last: the others are dialects of it
};

// Reads it as this format, whatever its content is, for fuzzers; otherwise like ParseTrace.
Status ParseAs(const Format& format, const void* data, uint64_t size, model::Trace* trace,
               TraceReport* report) noexcept;

}  // namespace pitot::read

#endif  // PITOT_LIB_READ_FORMATS_H_
