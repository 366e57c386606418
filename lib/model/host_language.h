// SPDX-License-Identifier: Apache-2.0
//
// The language that a host calls Pitot in, and advice in its words.
#ifndef PITOT_LIB_MODEL_HOST_LANGUAGE_H_
#define PITOT_LIB_MODEL_HOST_LANGUAGE_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "pitot/model/trace.h"

namespace pitot::model {

// As pitot::Language, which this layer does not know.
enum class HostLanguage : uint8_t { kCpp = 0, kC = 1, kPython = 2 };

// Notes the language in the trace, as the attribute "host.language".
void SetHostLanguage(HostLanguage language, Trace* trace);

// `text`, written for C++, with the names of the calls in the language of the trace's host. Dumps from before the
// attribute: Python if the interpreter's name or its records are there, otherwise C if calls of C recorded something.
std::string InHostLanguage(const Trace& trace, std::string_view text);
// The same for the values of all attributes.
void PutAttributesInHostLanguage(Trace* trace);

}  // namespace pitot::model

#endif  // PITOT_LIB_MODEL_HOST_LANGUAGE_H_
