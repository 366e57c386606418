// SPDX-License-Identifier: Apache-2.0
//
// Several files as one trace: those of a folder, or those that are named. For Load in files.cc.
#ifndef PITOT_LIB_CLI_SEVERAL_FILES_H_
#define PITOT_LIB_CLI_SEVERAL_FILES_H_

#include <string>
#include <vector>

#include "cli/files.h"
#include "pitot/model/trace.h"

namespace pitot::cli {

// The incidents of the newest moment below a folder, or else all traces in it, such as those of ranks or workers. Other
// files are left out. The same as Load.
int LoadFolder(const std::string& folder, model::Trace* trace, LoadReport* report);

// Two paths or more, each as for Load.
int LoadSeveral(const std::vector<std::string>& paths, model::Trace* trace, LoadReport* report);

// The version of a dump, or the name of another format: "1.0", "Kineto JSON, gzip".
std::string FormatName(const LoadReport& report);

}  // namespace pitot::cli

#endif  // PITOT_LIB_CLI_SEVERAL_FILES_H_
