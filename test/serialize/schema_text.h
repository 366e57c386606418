// SPDX-License-Identifier: Apache-2.0
//
// Texts made from the schema of a trace's tables: the content of a trace, and the columns for documents.
#ifndef PITOT_TEST_SERIALIZE_SCHEMA_TEXT_H_
#define PITOT_TEST_SERIALIZE_SCHEMA_TEXT_H_

#include <string>

#include "pitot/model/trace.h"

namespace pitot::test {

// The header and all rows of a trace, one row a line. Leaves out values of 0, "" and none, as which a column reads that
// a dump does not have: texts of old dumps stay the same when columns are added. Two traces with the same text differ
// at most in the numbers of their strings and arguments.
std::string TextOf(const model::Trace& trace);

// The first difference between two traces, or "". The places of arguments are no difference; the numbers of strings
// are.
std::string FindDifference(const model::Trace& a, const model::Trace& b);

// Gives values to the columns in which a trace has none, so that a new column is tested before a maker of traces knows
// it. Not to times of another column, nor to enums.
void FillEmptyColumns(model::Trace* trace);

// The messages of all tables, for pitot_dump.proto.
std::string ProtoOfTables();

// All tables with their fields, and their order in dumps, for docs/reference/formats/dump.md.
std::string DocumentOfTables();

}  // namespace pitot::test

#endif  // PITOT_TEST_SERIALIZE_SCHEMA_TEXT_H_
