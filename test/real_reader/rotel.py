# SPDX-License-Identifier: Apache-2.0
"""Sends OTLP to rotel, a collector, and takes the forwarded messages. Everything is on the loopback interface."""

import gzip
import http.server
import socket
import subprocess
import threading
import time
import urllib.error
import urllib.request

LIMIT_S = 60


class Sink(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        is_packed = self.headers.get("Content-Encoding") == "gzip"
        self.server.bodies.append(gzip.decompress(body) if is_packed else body)
        self.send_response(200)
        self.send_header("Content-Type", "application/x-protobuf")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def post(port, body, agent):
    """Retries until the agent listens."""
    request = urllib.request.Request(f"http://127.0.0.1:{port}/v1/traces", body,
                                     {"Content-Type": "application/x-protobuf"})
    deadline = time.monotonic() + LIMIT_S
    while True:
        try:
            with urllib.request.urlopen(request, timeout=LIMIT_S) as answer:
                return answer.status
        except urllib.error.HTTPError as error:
            return error.code
        except urllib.error.URLError:
            if agent.poll() is not None or time.monotonic() > deadline:
                raise
            time.sleep(0.05)


def forwarded(program, body):
    """Returns the status of the answer and the forwarded messages, one after the other: that is one message again."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Sink) as sink:
        sink.bodies = []
        threading.Thread(target=sink.serve_forever, daemon=True).start()
        http_port = free_port()
        agent = subprocess.Popen(
            [program, "start", "--otlp-http-endpoint", f"127.0.0.1:{http_port}", "--otlp-grpc-endpoint",
             f"127.0.0.1:{free_port()}", "--disable-batching", "--exporter", "otlp", "--otlp-exporter-protocol", "http",
             "--otlp-exporter-endpoint", f"http://127.0.0.1:{sink.server_port}"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            status = post(http_port, body, agent)
        finally:
            agent.terminate()  # it forwards what it has, and ends
            agent.wait(LIMIT_S)
        sink.shutdown()
        return status, b"".join(sink.bodies)
