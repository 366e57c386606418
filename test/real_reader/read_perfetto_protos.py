# SPDX-License-Identifier: Apache-2.0
"""Prints what Perfetto's published messages know of a trace, as JSON: unknown fields and values, and events by type."""

import collections
import json
import sys

from google.protobuf.message import Message
from google.protobuf.unknown_fields import UnknownFieldSet
from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import Trace, TrackEvent


def unknown(message):
    fields = [f"{message.DESCRIPTOR.name}.{field.field_number}" for field in UnknownFieldSet(message)]
    for descriptor, value in message.ListFields():
        if descriptor.message_type is not None:
            for part in [value] if isinstance(value, Message) else value:
                fields += unknown(part)
    return fields


with open(sys.argv[1], "rb") as file:
    trace = Trace.FromString(file.read())
tracks = {packet.track_descriptor.uuid for packet in trace.packet if packet.HasField("track_descriptor")}
defaults, types, lost = {}, collections.Counter(), 0
for packet in trace.packet:
    sequence = packet.trusted_packet_sequence_id
    if packet.HasField("trace_packet_defaults"):
        defaults[sequence] = packet.trace_packet_defaults.track_event_defaults.track_uuid
    if packet.HasField("track_event"):
        types[TrackEvent.Type.Name(packet.track_event.type).removeprefix("TYPE_").lower()] += 1
        lost += (packet.track_event.track_uuid or defaults.get(sequence)) not in tracks
print(json.dumps({"unknown": sorted(set(unknown(trace))), "events": types, "without_track": lost}))
