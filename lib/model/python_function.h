// SPDX-License-Identifier: Apache-2.0
//
// Functions of Python in traces of PyTorch's profiler.
#ifndef PITOT_LIB_MODEL_PYTHON_FUNCTION_H_
#define PITOT_LIB_MODEL_PYTHON_FUNCTION_H_

#include <string_view>

#include "pitot/model/trace.h"

namespace pitot::model {

// "folder/file.py(12): function"; or one without a file, "<built-in function len>" and "nn.Module: Linear_0".
inline bool IsPythonFunction(const Trace& trace, const SiteRow& site) {
  const std::string_view name = trace.strings[site.name], file = trace.strings[site.file];
  if (file.empty()) return site.function != 0 && site.function == site.name;
  return name.starts_with(file) && name.substr(file.size(), 1) == "(";
}

}  // namespace pitot::model

#endif  // PITOT_LIB_MODEL_PYTHON_FUNCTION_H_
