// SPDX-License-Identifier: Apache-2.0
//
// The catalogue of analyzers for those who compare Pitot with other tools: some analyzers count as the tool does, the
// rest are the ordinary ones. Called by `pitot analyze --compat`.
#ifndef PITOT_LIB_PEERS_CATALOGUE_H_
#define PITOT_LIB_PEERS_CATALOGUE_H_

#include <memory>
#include <vector>

#include "pitot/extend/analyzer.h"

namespace pitot::peers {

std::vector<std::unique_ptr<Analyzer>> MakeHtaCatalogue();
std::vector<std::unique_ptr<Analyzer>> MakeTraceLensCatalogue();
std::vector<std::unique_ptr<Analyzer>> MakeTbPluginCatalogue();

}  // namespace pitot::peers

#endif  // PITOT_LIB_PEERS_CATALOGUE_H_
