# SPDX-License-Identifier: Apache-2.0
"""Prints the sums of a file of OTLP's profiles, as JSON: time by innermost function for each type, and GPU functions."""

import collections
import json
import sys

from google.protobuf.message import Message
from google.protobuf.unknown_fields import UnknownFieldSet
from opentelemetry.proto.profiles.v1development.profiles_pb2 import ProfilesData


def unknown(message):
    fields = [f"{message.DESCRIPTOR.name}.{field.field_number}" for field in UnknownFieldSet(message)]
    for descriptor, value in message.ListFields():
        if descriptor.message_type is not None:
            for part in [value] if isinstance(value, Message) else value:
                fields += unknown(part)
    return fields


with open(sys.argv[1], "rb") as file:
    data = ProfilesData.FromString(file.read())
tables = data.dictionary
for table in (tables.mapping_table, tables.location_table, tables.function_table, tables.link_table, tables.attribute_table,
              tables.stack_table):
    assert not table[0].ListFields()
assert tables.string_table[0] == ""


def name_of(location):
    return tables.string_table[tables.function_table[location.lines[0].function_index].name_strindex]


def attributes_of(message):
    rows = [tables.attribute_table[index] for index in message.attribute_indices]
    return {tables.string_table[row.key_strindex]: row.value.string_value for row in rows}


flat = {name: collections.Counter() for name in ("host", "wait", "gpu", "request_gpu")}
for group in data.resource_profiles:
    for scope in group.scope_profiles:
        for profile in scope.profiles:
            assert tables.string_table[profile.sample_type.unit_strindex] == "nanoseconds"
            sums = flat[tables.string_table[profile.sample_type.type_strindex]]
            for sample in profile.samples:
                innermost = tables.stack_table[sample.stack_index].location_indices[0]
                sums[name_of(tables.location_table[innermost])] += sum(sample.values)
print(json.dumps({
    "unknown": unknown(data),
    "flat": {name: list(sums.items()) for name, sums in flat.items()},
    "cuda": [name_of(location) for location in tables.location_table
             if attributes_of(location).get("profile.frame.type") == "cuda"],
}))
