// SPDX-License-Identifier: Apache-2.0
//
// Texts made from the schema of a trace's tables: the content of a trace, and the columns for documents.
#ifndef PITOT_TEST_SERIALIZE_SCHEMA_TEXT_H_
#define PITOT_TEST_SERIALIZE_SCHEMA_TEXT_H_

#include <string>

#include "pitot/model/trace.h"

namespace pitot::test {

// The header and all rows of a trace, one row a line. Leaves out 0, "" and none, the values of a missing column: texts
// of old dumps stay the same when columns are added. Traces with the same text differ at most in the numbers of their
// strings and arguments.
std::string TextOf(const model::Trace& trace);

// The first difference between two traces, or "". The places of arguments are no difference; the numbers of strings
// are.
std::string FindDifference(const model::Trace& a, const model::Trace& b);

// Fills columns without values, except for enums and for columns with a begin. Tests then cover a new column before any
// maker of traces fills it.
void FillEmptyColumns(model::Trace* trace);

// The messages of all tables, for pitot_dump.proto.
std::string ProtoOfTables();

// All tables with their fields, and their order in dumps, for docs/reference/formats/dump.md.
std::string DocumentOfTables();

}  // namespace pitot::test

#endif  // PITOT_TEST_SERIALIZE_SCHEMA_TEXT_H_
