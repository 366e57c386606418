# SPDX-License-Identifier: Apache-2.0
"""One line for servers on ASGI: `app = pitot.asgi.Middleware(app)`; with FastAPI `app.add_middleware(pitot.asgi.Middleware)`."""

from typing import Any, Awaitable, Callable, Dict, Generator, MutableMapping, Optional, Tuple

from pitot import _http
from pitot._calls import Request

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

KEY = "pitot.request"  # of a scope with a request: of several middlewares, the outermost records
_MOST_FOUND = 1024

is_used = False  # by the host itself: then PITOT_AUTO leaves its applications alone


class Middleware:
    """Records each HTTP request of an application of ASGI, from its arrival until its response was handed to the server.

    `tokens`: each part of a streamed response is an output token, so that the first one's time and gaps are measured. `route`
    returns the template for a scope; None: the framework's, as in "GET /items/{id}", otherwise one made of the path. Lifespans
    and WebSockets go through untouched.

    Threads: of the event loop. Exceptions are the application's and pass through.
    """

    def __init__(self, app: App, *, tokens: bool = False, route: Optional[Callable[[Scope], Optional[str]]] = None) -> None:
        global is_used  # pylint: disable=global-statement
        is_used = True
        self.app = app
        self._tokens = tokens
        self._route = route
        self._found: Dict[Tuple[str, str], str] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and KEY not in scope:
            route = self._route
            await record(self.app, scope, receive, send, self._tokens, self._found, route or self._template_of, route is None)
        else:
            await self.app(scope, receive, send)

    def _template_of(self, scope: Scope) -> Optional[str]:
        return template_of(scope.get("app") or self.app, scope)


async def record(app: App, scope: Scope, receive: Receive, send: Send, tokens: bool, found: Dict[Tuple[str, str], str],
                 template_for: Callable[[Scope], Optional[str]], is_kept: bool = True) -> None:
    """Runs the application for a scope of HTTP, as a request. `found` keeps names of routes of paths."""
    method, path = scope["method"], scope["path"]
    name = found.get((method, path))
    if name is None:
        name = _http.named(method, lambda: template_for(scope), path)
        if is_kept and len(found) < _MOST_FOUND and name.endswith(" " + path):  # the paths of a template are many
            found[method, path] = name
    parent = own_id = None
    for header, value in scope["headers"]:
        if header == b"traceparent":
            parent = value.decode("latin-1")
        elif header == b"x-request-id":
            own_id = value.decode("latin-1")
    request = Request(name, parent, id=own_id)
    response = _http.Response(request)
    scope[KEY] = request
    is_streamed = False

    async def receive_for() -> Message:
        message = await receive()
        if message["type"] == "http.disconnect":
            response.cancel()  # nothing, after the response
        return message

    async def send_for(message: Message) -> None:
        nonlocal is_streamed
        kind, more = message["type"], message.get("more_body", False)
        if kind == "http.response.start":
            response.begin(message["status"])
        elif tokens and kind == "http.response.body" and message.get("body") and (more or is_streamed):
            is_streamed = True
            request.emit()
        try:
            await _Sending(send(message), response)
        except OSError:  # of the server, which has lost its client
            response.cancel()
            raise
        if kind == "http.response.body" and not more and response.status < 500:
            response.end()  # what the application does now is not the client's; after a failure its exception may follow

    try:
        await app(scope, receive_for, send_for)
    except BaseException as error:
        response.fail(error)
        raise
    response.end()


class _Sending:
    """Waits for the server's send. If that suspends, the client does not read, and this is a stage."""

    __slots__ = ("_sent", "_response")

    def __init__(self, sent: Awaitable[None], response: _http.Response) -> None:
        self._sent = sent
        self._response = response

    def __await__(self) -> Generator[Any, Any, None]:
        steps = self._sent.__await__()
        try:
            item = next(steps)
        except StopIteration:
            return
        is_stage = self._response.blocked()
        try:
            yield from _resumed(steps, item)
        finally:
            if is_stage:
                self._response.released()


def _resumed(steps: Any, item: Any) -> Generator[Any, Any, None]:
    """The rest of an awaitable that has made its first step."""
    while True:
        try:
            value, error = (yield item), None
        except GeneratorExit:
            steps.close()
            raise
        except BaseException as thrown:  # pylint: disable=broad-except
            value, error = None, thrown
        try:
            if error is not None:
                item = steps.throw(error)
            elif value is None:
                item = next(steps)
            else:
                item = steps.send(value)
        except StopIteration:
            return


def template_of(app: Any, scope: Scope) -> Optional[str]:
    """The template of the route to which an application of Starlette or FastAPI will send a scope; None: of another framework."""
    routes = None
    while routes is None and app is not None:  # through other middleware
        routes, app = getattr(app, "routes", None), getattr(app, "app", None)
    return None if routes is None else _match(routes, scope, "") or _http.NO_ROUTE


def _match(routes: Any, scope: Scope, prefix: str) -> Optional[str]:
    partial = None
    for route in routes:
        match, child = route.matches(scope)
        if match.value == 0:
            continue
        template = prefix + getattr(route, "path", "")
        inner = getattr(route, "routes", None)
        if inner:  # a mount or a host
            template = _match(inner, {**scope, **child}, template) or template
        if match.value == 2:
            return template
        partial = partial or template  # another method of the same path
    return partial
