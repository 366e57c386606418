#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Requests by the middleware of ASGI and WSGI, decorated functions, and records of logging, as incidents show them.

Environment: PITOT_LIBRARY, PITOT_PROGRAM, PITOT_PACKAGE (the package's folder; unset: the sources), PITOT_CALLS, PITOT_WEB (a
folder with Starlette and FastAPI for the import; unset: the interpreter's, if it has them)
"""

import asyncio
import contextlib
import inspect
import logging
import os
import sys
import tempfile
import unittest
import unittest.mock
from wsgiref.util import FileWrapper, setup_testing_defaults

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.environ.get("PITOT_WEB", HERE))
sys.path.insert(0, os.environ.get("PITOT_PACKAGE", os.path.join(HERE, "..", "..", "bindings", "python")))

import incident  # noqa: E402
import pitot  # noqa: E402
from pitot import _http  # noqa: E402

try:
    import fastapi
    import starlette.applications
    import starlette.responses
    import starlette.routing
except ImportError:
    fastapi = None
try:
    import flask
except ImportError:
    flask = None

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
HEADERS = [(b"traceparent", f"00-{TRACE}-00f067aa0ba902b7-01".encode()), (b"x-request-id", b"cmpl-1")]


class Recorded(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.recorder = pitot.start(temporary.name, memory_budget_bytes=16 << 20, stacks=False, interpreter_lock=False)
        self.assertTrue(self.recorder.status)
        self.addCleanup(self.recorder.stop)
        self.incidents = []
        self.recorder.on_incident(self.incidents.append)

    def dump(self):
        self.recorder.trigger("look")
        self.assertTrue(self.recorder.flush())
        return self.incidents[-1].directory

    def requests(self):
        return incident.requests_of(self.dump())

    def rows(self):
        return [(it["route"], it["outcome"], it.get("reason") or "") for it in self.requests()]


async def answer(send, status=200, *parts):
    await send({"type": "http.response.start", "status": status, "headers": []})
    for part in parts:
        await send({"type": "http.response.body", "body": part, "more_body": True})
    await send({"type": "http.response.body", "body": b""})


def call(app, path="/", *, method="GET", messages=(), send=None, kind="http", **more):
    """One call as a server makes it. Returns what the application sent."""
    sent, left = [], [{"type": "http.request", "body": b"", "more_body": False}, *messages]

    async def receive():
        return left.pop(0) if left else await asyncio.get_running_loop().create_future()  # the client waits

    async def keep(message):
        sent.append(message)

    scope = {"type": kind, "method": method, "path": path, "headers": HEADERS, "root_path": "", "query_string": b"", **more}
    with contextlib.suppress(RuntimeError, asyncio.CancelledError, ConnectionResetError):
        asyncio.run(app(scope, receive, send or keep))
    return sent


class Asgi(Recorded):
    def test_a_request_has_its_route_trace_id_and_status(self):
        async def app(_scope, _receive, send):
            await answer(send, 201, b"x")

        sent = call(pitot.asgi.Middleware(app), "/items/17", method="POST")
        self.assertEqual([message["type"] for message in sent], ["http.response.start"] + 2 * ["http.response.body"])
        (request,) = self.requests()
        self.assertEqual((request["route"], request["outcome"], request["trace_id"]), ("POST /items/{}", "ok", TRACE))
        self.assertEqual(request["labels"], {"status": "201"})
        self.assertEqual([stage["name"] for stage in request["stages"]], ["respond"])
        self.assertEqual(request["host_id"], "cmpl-1")

    def test_outcomes_follow_the_status_the_exception_and_the_client(self):
        def of_status(status):
            async def app(_scope, _receive, send):
                await answer(send, status)
            return app

        async def failing(_scope, _receive, _send):
            raise RuntimeError("x")

        async def failing_late(_scope, _receive, send):  # as Starlette does after it has answered
            await answer(send, 500)
            raise RuntimeError("x")

        async def cancelled(_scope, _receive, _send):
            raise asyncio.CancelledError

        async def left(_scope, receive, send):
            while (await receive())["type"] != "http.disconnect":
                pass
            await answer(send)

        async def listening(_scope, receive, send):
            await answer(send)
            while (await receive())["type"] != "http.disconnect":
                pass

        async def lost(_message):
            raise ConnectionResetError

        for status in (200, 404, 429, 500, 504):
            call(pitot.asgi.Middleware(of_status(status), route=lambda _, status=status: f"/{status}"))
        gone = [{"type": "http.disconnect"}]
        for app in (failing, failing_late, cancelled, left, listening):
            call(pitot.asgi.Middleware(app, route=lambda _, app=app: app.__name__), messages=gone)
        call(pitot.asgi.Middleware(of_status(200), route=lambda _: "lost"), send=lost)
        self.assertEqual(self.rows(), [
            ("GET /200", "ok", ""), ("GET /404", "ok", ""), ("GET /429", "shed", "HTTP 429"), ("GET /500", "failed", "HTTP 500"),
            ("GET /504", "timed_out", "HTTP 504"), ("GET failing", "failed", "RuntimeError"),
            ("GET failing_late", "failed", "RuntimeError"), ("GET cancelled", "cancelled", "CancelledError"),
            ("GET left", "cancelled", "client disconnected"), ("GET listening", "ok", ""),
            ("GET lost", "cancelled", "client disconnected")])

    def test_time_in_which_the_client_does_not_read_is_a_stage(self):
        async def app(_scope, _receive, send):
            await answer(send, 200, *8 * [b"part"])

        async def slow(message):
            if message["type"] == "http.response.body":
                await asyncio.sleep(0)

        call(pitot.asgi.Middleware(app), send=slow)
        (request,) = self.requests()
        self.assertEqual([stage["name"] for stage in request["stages"]], ["respond"] + 4 * ["send", "respond"])

    def test_parts_are_tokens_only_if_asked(self):
        async def app(_scope, _receive, send):
            await answer(send, 200, b"a", b"b")

        call(pitot.asgi.Middleware(app), "/without")
        call(pitot.asgi.Middleware(app, tokens=True), "/with")
        self.assertEqual([(it["route"], (it["tokens"] or {"count": 0})["count"]) for it in self.requests()], [("GET /without", 0), ("GET /with", 2)])

    def test_other_scopes_go_through_untouched_and_the_outermost_middleware_records(self):
        seen = []

        async def app(scope, receive, send):
            seen.append((scope["type"], receive, send))
            if scope["type"] == "http":
                await answer(send)

        async def receive():
            return {"type": "lifespan.startup"}

        async def send(_message):
            pass

        twice = pitot.asgi.Middleware(pitot.asgi.Middleware(app))
        for kind in ("lifespan", "websocket"):
            asyncio.run(twice({"type": kind, "path": "/", "headers": []}, receive, send))
            self.assertEqual(seen.pop(), (kind, receive, send))
        call(twice, "/once")
        self.assertEqual(self.rows(), [("GET /once", "ok", "")])

    def test_work_in_a_request_belongs_to_it(self):
        async def app(_scope, _receive, send):
            await asyncio.sleep(0)
            logging.getLogger("app").warning("it is %s", "late")
            await answer(send)

        handler = pitot.LogHandler()
        logging.getLogger("app").addHandler(handler)
        self.addCleanup(logging.getLogger("app").removeHandler, handler)
        self.addCleanup(setattr, logging.getLogger("app"), "propagate", True)
        logging.getLogger("app").propagate = False
        call(pitot.asgi.Middleware(app))
        directory = self.dump()
        trace = incident.perfetto_of(directory)
        self.assertIn(b"log: WARNING app", trace)
        self.assertIn(b"it is late", trace)

    def test_paths_without_templates_are_few(self):
        self.addCleanup(_http._paths.clear)
        _http._paths.clear()
        self.assertEqual(_http.template_of("/v1/users/17/" + 40 * "a"), "/{}/users/{}/{}")
        made = {_http.template_of("/" + chr(0x4e00 + number)) for number in range(1000)}
        self.assertEqual(len(made), 100)
        self.assertIn("(other)", made)


@unittest.skipUnless(fastapi, "there is no FastAPI: name a folder with it in PITOT_WEB")
class Frameworks(Recorded):
    def test_fastapi_has_templates_streams_and_failures(self):
        app, inner = fastapi.FastAPI(), fastapi.FastAPI()

        @app.get("/items/{item}")
        async def item(item: int):
            return item

        @app.post("/items/{item}")
        async def put(item: int):
            raise fastapi.HTTPException(status_code=503)

        @app.get("/fail")
        async def fail():
            raise RuntimeError("x")

        @app.get("/stream")
        async def stream():
            return starlette.responses.StreamingResponse(iter([b"a", b"b"]))

        @inner.get("/models/{name}")
        async def model(name: str):
            return name

        app.mount("/v2", inner)
        app.add_middleware(pitot.asgi.Middleware, tokens=True)
        self.check(app, [("GET /items/{item}", "ok", ""), ("POST /items/{item}", "shed", "HTTP 503"), ("GET /fail", "failed", "RuntimeError"),
                         ("GET /stream", "ok", ""), ("GET /v2/models/{name}", "ok", ""), ("GET (no route)", "ok", ""),
                         ("PUT /items/{item}", "ok", "")])

    def test_starlette_is_wrapped_from_outside(self):
        async def item(_request):
            return starlette.responses.PlainTextResponse("x")

        async def fail(_request):
            raise RuntimeError("x")

        async def stream(_request):
            return starlette.responses.StreamingResponse(iter([b"a"]))

        route = starlette.routing.Route
        app = starlette.applications.Starlette(routes=[
            route("/items/{item:int}", item), route("/fail", fail), route("/stream", stream),
            starlette.routing.Mount("/v2", routes=[route("/models/{name}", item)])])
        self.check(pitot.asgi.Middleware(app), [
            ("GET /items/{item:int}", "ok", ""), ("POST /items/{item:int}", "ok", ""), ("GET /fail", "failed", "RuntimeError"),
            ("GET /stream", "ok", ""), ("GET /v2/models/{name}", "ok", ""), ("GET (no route)", "ok", ""),
            ("PUT /items/{item:int}", "ok", "")])

    def check(self, app, rows):
        for method, path in (("GET", "/items/1"), ("POST", "/items/2"), ("GET", "/fail"), ("GET", "/stream"), ("GET", "/v2/models/m"),
                             ("GET", "/nowhere"), ("PUT", "/items/3")):
            call(app, path, method=method, raw_path=path.encode(), scheme="http", server=("x", 80), client=("y", 1), http_version="1.1",
                 asgi={"version": "3.0", "spec_version": "2.3"})
        self.assertEqual(self.rows(), rows)


class Wsgi(Recorded):
    def call(self, app, path="/", stop_after=None, **more):
        environ = {"PATH_INFO": path, "HTTP_TRACEPARENT": HEADERS[0][1].decode(), **more}
        setup_testing_defaults(environ)
        taken = []
        with contextlib.suppress(RuntimeError):
            parts = app(environ, lambda status, headers, *exception: taken.append(status))
            try:
                for part in parts:
                    taken.append(part)
                    if len(taken) == stop_after:
                        break
            finally:
                if hasattr(parts, "close"):
                    parts.close()
        return taken

    def test_a_request_ends_when_the_server_closes_the_response(self):
        def app(environ, start_response):
            start_response("200 OK" if environ["PATH_INFO"] != "/busy" else "503 Service Unavailable", [])
            if environ["PATH_INFO"] == "/fail":
                raise RuntimeError("x")
            return (part for part in (b"a", b"b"))

        app = pitot.wsgi.Middleware(app, tokens=True)
        self.assertEqual(self.call(app), ["200 OK", b"a", b"b"])
        for path in ("/busy", "/fail"):
            self.call(app, path)
        self.call(app, "/left", stop_after=2)
        requests = self.requests()
        self.assertEqual([(it["route"], it["outcome"], (it["tokens"] or {"count": 0})["count"]) for it in requests],
                         [("GET /", "ok", 2), ("GET /busy", "shed", 2), ("GET /fail", "failed", 0), ("GET /left", "cancelled", 1)])
        self.assertEqual(requests[0]["trace_id"], TRACE)
        self.assertEqual([stage["name"] for stage in requests[0]["stages"]], ["respond", "send", "respond", "send", "respond"])

    def test_a_list_keeps_its_length_and_a_file_its_type(self):
        def app(environ, start_response):
            start_response("200 OK", [])
            return [b"a"] if environ["PATH_INFO"] == "/list" else environ["wsgi.file_wrapper"](open(__file__, "rb"))

        app = pitot.wsgi.Middleware(app)
        environ = {"PATH_INFO": "/list", "wsgi.file_wrapper": FileWrapper}
        setup_testing_defaults(environ)
        parts = app(environ, lambda *_: None)
        self.assertEqual((len(parts), list(parts)), (1, [b"a"]))
        parts.close()
        parts = app({**environ, "PATH_INFO": "/file"}, lambda *_: None)
        self.assertIsInstance(parts, FileWrapper)
        parts.close()
        self.assertEqual(self.rows(), [("GET /list", "ok", ""), ("GET /file", "ok", "")])

    @unittest.skipUnless(flask, "there is no Flask")
    def test_flask_has_templates(self):
        app = flask.Flask("app")

        @app.route("/items/<int:item>")
        def item(item):
            return str(item)

        outside = pitot.wsgi.Middleware(app)
        app.wsgi_app = pitot.wsgi.Middleware(app.wsgi_app)
        self.assertEqual(self.call(app, "/items/7")[0], "200 OK")
        self.call(app, "/nowhere")
        self.assertEqual(outside._template_of({**self.environ(), "PATH_INFO": "/items/7"}), "/items/<int:item>")
        self.assertEqual(self.rows(), [("GET /items/<int:item>", "ok", ""), ("GET (no route)", "ok", "")])

    @staticmethod
    def environ():
        environ = {}
        setup_testing_defaults(environ)
        return environ


class Decorators(Recorded):
    def test_each_step_of_a_coroutine_is_a_scope(self):
        @pitot.traced
        async def work():
            await asyncio.sleep(0)
            return 7

        self.assertTrue(inspect.iscoroutinefunction(work))
        before = self.recorder.stats()
        coroutine = work()
        with self.assertRaises(StopIteration) as stopped:
            coroutine.send(None)
            coroutine.send(None)
        after = self.recorder.stats()
        self.assertEqual(stopped.exception.value, 7)
        self.assertEqual(after.events_recorded - before.events_recorded, 2)
        self.assertEqual(after.scopes_closed_elsewhere, 0)
        self.assertIn(b"work", incident.perfetto_of(self.dump()))

    def test_generators_take_values_exceptions_and_their_end(self):
        seen = []

        @pitot.traced("steps")
        def steps():
            try:
                seen.append((yield 1))
                try:
                    yield 2
                except KeyError as error:
                    seen.append(error.args)
                yield 3
            finally:
                seen.append("closed")

        self.assertTrue(inspect.isgeneratorfunction(steps))
        before = self.recorder.stats().events_recorded
        generator = steps()
        self.assertEqual([next(generator), generator.send("sent"), generator.throw(KeyError("x"))], [1, 2, 3])
        generator.close()
        self.assertEqual(seen, ["sent", ("x",), "closed"])
        self.assertEqual(self.recorder.stats().events_recorded - before, 4)

    def test_async_generators_take_values_exceptions_and_their_end(self):
        seen = []

        @pitot.traced
        async def steps():
            try:
                seen.append((yield 1))
                try:
                    yield 2
                except KeyError as error:
                    seen.append(error.args)
                await asyncio.sleep(0)
                yield 3
            finally:
                seen.append("closed")

        async def use():
            generator = steps()
            taken = [await generator.__anext__(), await generator.asend("sent"), await generator.athrow(KeyError("x"))]
            await generator.aclose()
            return taken, [item async for item in steps()]

        self.assertTrue(inspect.isasyncgenfunction(steps))
        self.assertEqual(asyncio.run(use()), ([1, 2, 3], [1, 2, 3]))
        self.assertEqual(seen, ["sent", ("x",), "closed", None, "closed"])


class Logs(Recorded):
    def test_records_are_bounded_and_pitots_own_are_left_out(self):
        handler = pitot.LogHandler(most_per_second=10**6)
        before = self.recorder.stats().events_recorded

        def log(name, level=logging.WARNING):
            record = logging.LogRecord(name, level, __file__, 1, "odd \0 \ud800 %s", ("x",), None)
            if level >= handler.level:
                handler.handle(record)

        for number in range(300):
            log(f"logger {number}")
        log("app", logging.INFO)
        log("pitot")
        self.assertEqual(self.recorder.stats().events_recorded - before, 300)
        self.assertEqual(len(handler._loggers), 256)

        few = pitot.LogHandler(most_per_second=2)
        with unittest.mock.patch("time.monotonic", return_value=float(2**60)):
            few._second = 2**60
            for _ in range(5):
                few.handle(logging.LogRecord("app", logging.ERROR, __file__, 1, "x", (), None))
        self.assertEqual(few.left_out, 3)


if __name__ == "__main__":
    unittest.main()
