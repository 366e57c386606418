# SPDX-License-Identifier: Apache-2.0
"""Prints the spans of a file of OTLP's protobuf, as JSON. Open ones are left out: they have no end."""

import json
import sys

from google.protobuf.message import Message
from google.protobuf.unknown_fields import UnknownFieldSet
from opentelemetry.proto.trace.v1.trace_pb2 import Span, TracesData


def unknown(message):
    fields = [f"{message.DESCRIPTOR.name}.{field.field_number}" for field in UnknownFieldSet(message)]
    for descriptor, value in message.ListFields():
        if descriptor.message_type is not None:
            for part in [value] if isinstance(value, Message) else value:
                fields += unknown(part)
    return fields


with open(sys.argv[1], "rb") as file:
    traces = TracesData.FromString(file.read())
spans = [span for group in traces.resource_spans for scope in group.scope_spans for span in scope.spans]
attributes = {span.span_id: {a.key: a.value for a in span.attributes} for span in spans}
closed = [span for span in spans if "pitot.open" not in attributes[span.span_id]]
servers = {span.span_id: span for span in spans if span.kind == Span.SPAN_KIND_SERVER}
batches = [span for span in spans if "pitot.batch.members" in attributes[span.span_id]]
assert all(len(span.trace_id) == 16 and len(span.span_id) == 8 and any(span.trace_id) and any(span.span_id) for span in spans)
assert all(span.end_time_unix_nano >= span.start_time_unix_nano for span in spans)
for span in batches:
    assert all(servers[link.span_id].trace_id == link.trace_id for link in span.links)


def times(span):
    return [span.start_time_unix_nano, span.end_time_unix_nano - span.start_time_unix_nano]


print(json.dumps({
    "unknown": unknown(traces),
    "requests": [[span.name, span.span_id.hex(), *times(span)] for span in closed if span.span_id in servers],
    "stages": [[span.parent_span_id.hex(), span.name, *times(span)] for span in closed
               if span.parent_span_id in servers and span.kind == Span.SPAN_KIND_INTERNAL and not span.name.startswith("queued ")],
    "batches": [[*times(span), attributes[span.span_id]["pitot.batch.members"].int_value]
                for span in closed if "pitot.batch.members" in attributes[span.span_id]],
    "links": sum(len(span.links) for span in batches),
}))
