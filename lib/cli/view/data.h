// SPDX-License-Identifier: Apache-2.0
//
// The data that the page of `pitot view` draws: traces as lanes of items, in columns.
#ifndef PITOT_LIB_CLI_VIEW_DATA_H_
#define PITOT_LIB_CLI_VIEW_DATA_H_

#include <string>
#include <vector>

#include "pitot/analyze/verdict.h"
#include "pitot/model/trace.h"

namespace pitot::cli::view {

struct ViewedFile {
  std::string name;    // "incidents/0001/dump.pitot"
  std::string format;  // "dump"
  bool is_damaged = false;
  model::Trace trace;
  bool is_judged = false;
  std::string why_not;  // reason, if it is not
  analyze::RequestBlame blame;
  analyze::Verdict verdict;
  std::string sentence;
  std::vector<analyze::TreeLine> tree;
};

// In parts: the size of the head (4 bytes, the lowest first), the head as JSON, and the columns.
// docs/reference/formats/view.md. Throws std::bad_alloc.
std::vector<std::string> ViewData(const std::vector<ViewedFile>& files);

}  // namespace pitot::cli::view

#endif  // PITOT_LIB_CLI_VIEW_DATA_H_
