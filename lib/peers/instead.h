// SPDX-License-Identifier: Apache-2.0
//
// Makes a catalogue with other ways of counting.
#ifndef PITOT_LIB_PEERS_INSTEAD_H_
#define PITOT_LIB_PEERS_INSTEAD_H_

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "pitot/extend/analyzer.h"

namespace pitot::peers {

using Count = void (*)(Analysis& analysis);

// Returns the built-in catalogue. Analyzers named here run the given function instead; their names, titles and
// thresholds stay.
std::vector<std::unique_ptr<Analyzer>> With(const std::map<std::string, Count>& counts);

}  // namespace pitot::peers

#endif  // PITOT_LIB_PEERS_INSTEAD_H_
