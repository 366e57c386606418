# SPDX-License-Identifier: Apache-2.0
"""Prints the spans of files of OTLP's protobuf as JSON, one list for each file. Needs opentelemetry-proto."""

import json
import sys

from google.protobuf.json_format import MessageToDict
from opentelemetry.proto.trace.v1.trace_pb2 import TracesData

for name in sys.argv[1:]:
    with open(name, "rb") as file:
        print(json.dumps(MessageToDict(TracesData.FromString(file.read()), preserving_proto_field_name=True)))
