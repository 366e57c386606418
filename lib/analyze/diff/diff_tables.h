// SPDX-License-Identifier: Apache-2.0
//
// Makes a table of two ledgers: matched rows of both sides, how much each changed, and how sure that is.
#ifndef PITOT_LIB_ANALYZE_DIFF_DIFF_TABLES_H_
#define PITOT_LIB_ANALYZE_DIFF_DIFF_TABLES_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "analyze/diff/diff_units.h"

namespace pitot::diff {

// A kernel's name without its build-dependent parts: template arguments, parameters, and numbers, hashes and size hints
// at its end ("triton_poi_fused_add_0d1d2d", "gemm_3f9a21bc").
std::string NormalName(std::string_view kernel);

// A Python function's name without the line of its file: "module.py: _call_impl" for "module.py(1743): _call_impl".
// Other names are unchanged.
std::string WithoutLine(std::string_view scope);

enum class Align { kExactly, kByNormalName, kWithoutLines };
enum class JudgedPart { kRows, kNothing };

// Makes the table. Rows match by name; those without a match then match by their normal names, or by their names
// without lines. Several functions of a file that have one name match in the order of their lines.
DiffTable MakeTable(const char* name, const Ledger& before, const Ledger& after, uint64_t requests_before,
                    uint64_t requests_after, const DiffOptions& options, Align align, JudgedPart judge);

}  // namespace pitot::diff

#endif  // PITOT_LIB_ANALYZE_DIFF_DIFF_TABLES_H_
