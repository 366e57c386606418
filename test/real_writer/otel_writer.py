# SPDX-License-Identifier: Apache-2.0
"""Exports spans with OpenTelemetry's SDK to a server on the loopback interface, and writes them as otel.pb and otel.json.

Writes what was exported as otel_spans.json. The file otel.json is made of the same messages, with ids in hexadecimal as OTLP has them.
In otel_base64.json they are in base64, as protobuf writes them.
"""

import base64
import gzip
import http.server
import json
import threading

from google.protobuf.json_format import MessageToDict
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.proto.trace.v1.trace_pb2 import TracesData
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.trace import SpanKind, Status, StatusCode


class Sink(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.bodies.append(gzip.decompress(body) if self.headers.get("Content-Encoding") == "gzip" else body)
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


def hexadecimal(value):
    """OTLP's JSON has ids in hexadecimal, and protobuf's in base64."""
    if isinstance(value, list):
        return [hexadecimal(part) for part in value]
    if not isinstance(value, dict):
        return value
    return {key: base64.b64decode(part).hex() if key in ("traceId", "spanId", "parentSpanId") else hexadecimal(part)
            for key, part in value.items()}


with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Sink) as sink:
    sink.bodies = []
    threading.Thread(target=sink.serve_forever, daemon=True).start()
    provider = TracerProvider(resource=Resource({"service.name": "shop", "process.pid": 77}))
    exporter = OTLPSpanExporter(f"http://127.0.0.1:{sink.server_port}/v1/traces")
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    tracer = provider.get_tracer("checkout")
    spans = []
    for number in range(20):
        with tracer.start_as_current_span("GET /cart", kind=SpanKind.SERVER, attributes={"number": number}) as request:
            with tracer.start_as_current_span("redis", kind=SpanKind.CLIENT) as part:
                part.add_event("miss")
            if number == 7:
                request.set_status(Status(StatusCode.ERROR, "no cart"))
        spans += [request, part]
    provider.shutdown()
    sink.shutdown()

with open("otel.pb", "wb") as file:
    file.write(b"".join(sink.bodies))
with open("otel.json", "w", encoding="utf-8") as file, open("otel_base64.json", "w", encoding="utf-8") as base64_file:
    for body in sink.bodies:
        message = MessageToDict(TracesData.FromString(body))
        file.write(json.dumps(hexadecimal(message)) + "\n")
        base64_file.write(json.dumps(message) + "\n")
with open("otel_spans.json", "w", encoding="utf-8") as file:
    json.dump([[span.name, f"{span.context.span_id:016x}", span.end_time - span.start_time, span.status.is_ok]
               for span in spans], file)
