# SPDX-License-Identifier: Apache-2.0
"""One line for servers on WSGI: `app = pitot.wsgi.Middleware(app)`; with Flask `app.wsgi_app = pitot.wsgi.Middleware(app.wsgi_app)`."""

from typing import Any, Callable, Dict, Iterable, Iterator, Optional

from pitot import _http
from pitot._calls import Request

Environ = Dict[str, Any]
App = Callable[[Environ, Any], Iterable[bytes]]


class Middleware:
    """Records each request of an application of WSGI, from its arrival until the server closes the response.

    `tokens`: each part of a response that is not a list is an output token. `route` returns the template for an environ; None:
    Flask's, as in "GET /items/<int:id>", otherwise one made of the path.

    Threads: each request on its server's own. Exceptions are the application's and pass through.
    """

    def __init__(self, app: App, *, tokens: bool = False, route: Optional[Callable[[Environ], Optional[str]]] = None) -> None:
        self.app = app
        self._tokens = tokens
        self._route = route

    def __call__(self, environ: Environ, start_response: Any) -> Iterable[bytes]:
        template = self._route or self._template_of
        name = _http.named(environ["REQUEST_METHOD"], lambda: template(environ), environ.get("SCRIPT_NAME", "") + environ.get("PATH_INFO", ""))
        response = _http.Response(Request(name, environ.get("HTTP_TRACEPARENT"), id=environ.get("HTTP_X_REQUEST_ID")))

        def start_for(status: str, headers: Any, *exception: Any) -> Any:
            response.begin(int(status[:3]))
            return start_response(status, headers, *exception)

        try:
            parts = self.app(environ, start_for)
        except BaseException as error:
            response.fail(error)
            raise
        wrapper = environ.get("wsgi.file_wrapper")
        if isinstance(wrapper, type) and isinstance(parts, wrapper):
            response.end()  # the server sends the file by itself, and knows it by its type
            return parts
        return _Sized(parts, response) if isinstance(parts, (list, tuple)) else _Parts(parts, response, self._tokens)

    def _template_of(self, environ: Environ) -> Optional[str]:
        flask = getattr(self.app, "__self__", self.app)
        urls = getattr(flask, "url_map", None)
        if urls is None:
            return None
        try:
            return str(urls.bind_to_environ(environ).match(return_rule=True)[0].rule)
        except Exception as error:  # pylint: disable=broad-except
            if hasattr(error, "code"):  # of a response: not found, not allowed, a redirection
                return _http.NO_ROUTE
            raise


class _Parts:
    """A response. Between two parts the server sends, and waits for a client that does not read."""

    def __init__(self, parts: Iterable[bytes], response: _http.Response, tokens: bool = False) -> None:
        self._inner = parts
        self._parts: Optional[Iterator[bytes]] = None
        self._response = response
        self._tokens = tokens
        self._is_sent = self._is_sending = False

    def __iter__(self) -> "_Parts":
        return self

    def __next__(self) -> bytes:
        if self._is_sending:
            self._response.released()
            self._is_sending = False
        try:
            if self._parts is None:
                self._parts = iter(self._inner)
            part = next(self._parts)
        except StopIteration:
            self._is_sent = True
            raise
        except BaseException as error:
            self._response.fail(error)
            raise
        if self._tokens and part:
            self._response.request.emit()
        self._is_sending = self._response.blocked()
        return part

    def close(self) -> None:
        """Called by the server, once, at the end or when the client has gone."""
        try:
            if hasattr(self._inner, "close"):
                self._inner.close()
        except BaseException as error:
            self._response.fail(error)
            raise
        finally:
            if self._is_sent:
                self._response.end()
            else:
                self._response.cancel()


class _Sized(_Parts):
    """A list of parts. Servers look at its length, to know that of the response."""

    def __len__(self) -> int:
        return len(self._inner)  # type: ignore[arg-type]
