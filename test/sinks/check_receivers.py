#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs samples/otlp_sink against a receiver by others: check_receivers.py --receiver rotel|ddapm OTLP_SINK

The receiver must have got exactly the spans that the incident's own file has. rotel forwards them, and Datadog's test agent shows
them. Everything is on the loopback interface. Exit: 0 equal, 1 different, 77 the receiver is not installed.
"""

import argparse
import contextlib
import http.server
import json
import os
import pathlib
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "test/real_reader"))
from rotel import LIMIT_S, Sink, free_port  # noqa: E402

PARTS = ("trace_id", "span_id", "parent_span_id", "name", "kind", "start_time_unix_nano", "end_time_unix_nano", "status")


def listens(port, agent):
    deadline = time.monotonic() + LIMIT_S
    while time.monotonic() < deadline and agent.poll() is None:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)):
            return
        time.sleep(0.05)
    raise RuntimeError(f"the receiver does not listen; exit code {agent.poll()}")


@contextlib.contextmanager
def running(command, port):
    agent = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        listens(port, agent)
        yield
    finally:
        agent.terminate()
        agent.wait(LIMIT_S)


def send(program, folder, port):
    environment = {**os.environ, "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{port}", "OTEL_SERVICE_NAME": "ranker"}
    subprocess.run([program], cwd=folder, env=environment, check=True, timeout=LIMIT_S, stdout=subprocess.DEVNULL)


def read(readers, *paths):
    out = subprocess.run([readers / "otlp/bin/python", pathlib.Path(__file__).parent / "read_spans.py", *paths], check=True,
                         capture_output=True, text=True)
    return [json.loads(line) for line in out.stdout.splitlines()]


def through_rotel(readers, program, folder):
    """rotel forwards what it has when it ends."""
    agent = next(readers.glob("rotel/lib/*/site-packages/rotel/rotel-agent"))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Sink) as sink:
        sink.bodies = []
        threading.Thread(target=sink.serve_forever, daemon=True).start()
        port = free_port()
        command = [agent, "start", "--otlp-http-endpoint", f"127.0.0.1:{port}", "--otlp-grpc-endpoint",
                   f"127.0.0.1:{free_port()}", "--disable-batching", "--exporter", "otlp", "--otlp-exporter-protocol", "http",
                   "--otlp-exporter-endpoint", f"http://127.0.0.1:{sink.server_port}"]
        with running(command, port):
            send(program, folder, port)
        sink.shutdown()
        forwarded = folder / "forwarded.pb"
        forwarded.write_bytes(b"".join(sink.bodies))
    return read(readers, forwarded)


def through_ddapm(readers, program, folder):
    port = free_port()
    command = [readers / "ddapm/bin/ddapm-test-agent", "--port", str(free_port()), "--otlp-http-port", str(port),
               "--otlp-grpc-port", str(free_port())]
    with running(command, port):
        send(program, folder, port)
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/test/session/traces", timeout=LIMIT_S) as answer:
            return json.load(answer)


def spans_of(messages):
    """What can be compared, in an order of its own."""
    spans = []
    for message in messages:
        for group in message["resource_spans"]:
            resource = sorted(json.dumps(attribute) for attribute in group["resource"]["attributes"])
            for span in group["scope_spans"][0]["spans"]:
                lists = [sorted(json.dumps(part, sort_keys=True) for part in span.get(name, []))
                         for name in ("attributes", "events", "links")]
                spans.append(json.dumps([resource, *(span.get(part) for part in PARTS), *lists], sort_keys=True))
    return sorted(spans)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", type=pathlib.Path)
    parser.add_argument("--receiver", choices=["rotel", "ddapm"], required=True)
    parser.add_argument("--readers", type=pathlib.Path, default=ROOT / "build/readers", help="as tools/readers installs them")
    args = parser.parse_args()
    readers = args.readers.resolve()
    for needed in ("otlp", args.receiver):
        if not (readers / needed / "installed").exists():
            print(f"{needed} is not installed: run tools/readers {needed}")
            return 77
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        receive = through_rotel if args.receiver == "rotel" else through_ddapm
        found = spans_of(receive(readers, args.program.resolve(), folder))
        expected = spans_of(read(readers, *folder.glob("otlp_sink_incidents/2*/trace.otlp.pb")))
    verdicts = sum('"pitot.verdict"' in span.replace('\\', '') for span in found)
    print(f"{len(expected)} spans sent, {len(found)} received, {verdicts} with a verdict")
    return 0 if expected == found and len(found) > 3 * 200 and verdicts >= 1 else 1


if __name__ == "__main__":
    sys.exit(main())
