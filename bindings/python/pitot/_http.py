# SPDX-License-Identifier: Apache-2.0
"""Shared by the middleware of ASGI and WSGI: routes, outcomes, and stages of a response."""

import threading
from typing import Callable, Optional, Set, Tuple

from pitot._calls import Request
from pitot._request import Outcome

NO_ROUTE = "(no route)"
_OTHER = "(other)"
_MOST_PATHS = 100  # of applications without templates
_LONGEST_SEGMENT = 32
_MOST_SENDS = 4  # with a stage: a request has room for 16, most of them for the application's own
DISCONNECTED = "client disconnected"

_paths: Set[str] = set()
_lock = threading.Lock()


def template_of(path: str) -> str:
    """A template for a path of an application without any: segments with a digit, and long ones, become {}.

    Later templates than the first 100 of a process are "(other)".
    """
    template = "/".join("{}" if len(part) > _LONGEST_SEGMENT or any(map(str.isdigit, part)) else part for part in path.split("/"))
    if template in _paths:
        return template
    with _lock:
        if len(_paths) >= _MOST_PATHS:
            return _OTHER
        _paths.add(template)
    return template


def named(method: str, find: Callable[[], Optional[str]], path: str) -> str:
    """The name of a route: "GET /items/{id}". A mistake of `find`, which is the host's or a framework's, costs the template."""
    try:
        template = find()
    except Exception:  # pylint: disable=broad-except
        template = None
    return f"{method if method.isalpha() and len(method) <= 8 else 'OTHER'} {template or template_of(path)}"


def outcome_of(status: int) -> Tuple[Outcome, Optional[str]]:
    """The outcome of a response: a client's mistake is not a failure of the server."""
    if status in (408, 504):
        return Outcome.TIMED_OUT, f"HTTP {status}"
    if status in (429, 503):
        return Outcome.SHED, f"HTTP {status}"
    return (Outcome.FAILED, f"HTTP {status}") if status >= 500 else (Outcome.OK, None)


class Response:
    """A request while it is answered. Stages: "respond" from the first byte on, "send" while the client does not read."""

    __slots__ = ("request", "status", "has_begun", "is_over", "_sends")

    def __init__(self, request: Request) -> None:
        self.request = request
        self.status = 200
        self.has_begun = self.is_over = False
        self._sends = 0

    def begin(self, status: int) -> None:
        self.status = status
        if not self.has_begun:
            self.has_begun = True
            self.request.stage("respond")

    def blocked(self) -> bool:
        """The client does not read. False: there is no room for the stage."""
        self._sends += 1
        if self._sends > _MOST_SENDS:
            return False
        self.request.stage("send")
        return True

    def released(self) -> None:
        self.request.stage("respond")

    def cancel(self) -> None:
        """The client has gone."""
        self._finish(Outcome.CANCELLED, DISCONNECTED)

    def fail(self, error: BaseException) -> None:
        """The application raised."""
        if not self.is_over:
            self.is_over = True
            self.request.__exit__(type(error), error, error.__traceback__)

    def end(self) -> None:
        self._finish(*outcome_of(self.status))

    def _finish(self, outcome: Outcome, reason: Optional[str]) -> None:
        if not self.is_over:
            self.is_over = True
            if self.has_begun:
                self.request.set_label("status", str(self.status))
            self.request.finish(outcome, reason)
