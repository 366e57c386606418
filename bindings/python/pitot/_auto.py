# SPDX-License-Identifier: Apache-2.0
"""PITOT_AUTO: starts a recorder with sensible triggers before the program runs, and in children that it forks."""

import inspect
import logging
import os
import sys
import threading
from typing import Any, Dict, Optional, Tuple

from pitot import _evidence, _recorder, asgi
from pitot._recorder import Recorder, StatusCode

_log = logging.getLogger("pitot")

_VARIABLE, _QUIET = "PITOT_AUTO", "quiet"
_FORK_S = 0.2  # a child that calls exec is over by then
_DRIVERS = ("/dev/nvidiactl", "/dev/dxg")
_QUANTILE = 0.99  # of latencies and first tokens
_GAP_QUANTILE = 0.999  # gaps are many

_lock = threading.RLock()  # of starts
_name: Optional[str] = None
_is_starting = False
_recorder_of_auto: Optional[Recorder] = None


def directory() -> str:
    """Where incidents go."""
    return os.environ.get("PITOT_INCIDENT_DIRECTORY") or f"/var/tmp/pitot-{os.geteuid()}"


def begin(name: str, children_only: bool = False) -> None:
    """Starts the recorder of this process, and later those of children that it forks."""
    global _name  # pylint: disable=global-statement
    _name = None if not name or os.environ.get("PITOT_PROCESS_NAME") else name
    _recorder.before_start = _give_way
    os.register_at_fork(after_in_child=_after_fork)
    if not children_only:
        _start()


def _start() -> None:
    global _is_starting, _recorder_of_auto  # pylint: disable=global-statement
    with _lock:
        if _recorder.before_start is None:  # the program has started its own
            return
        _is_starting = True
        try:
            recorder = _recorder.start(directory(), process_name=_name, from_environment=True, gpu=any(map(os.path.exists, _DRIVERS)))
        finally:
            _is_starting = False
        status = recorder.status
        if status.code in (StatusCode.DISABLED, StatusCode.ALREADY_RUNNING):
            return
        if not status:
            _tell(f"PITOT_AUTO records nothing: {status.message}")
            return
        _recorder_of_auto = recorder
        for added in (recorder.add_host(), recorder.add_why(), recorder.add_latency_trigger(or_above_quantile=_QUANTILE),
                      recorder.add_tokens_trigger(first_token_or_above_quantile=_QUANTILE, gap_or_above_quantile=_GAP_QUANTILE),
                      recorder.add_failure_trigger()):
            if not added:
                _log.warning("%s", added.message)
        _evidence.add(_Starlette())
        _tell(f"incidents go to {directory()} (PITOT_INCIDENT_DIRECTORY)")


def _tell(text: str) -> None:
    """Says it by logging, on stderr: the program has no handler yet. Once: children are quiet."""
    if os.environ.get(_VARIABLE) != _QUIET:
        os.environ[_VARIABLE] = _QUIET
        handler = logging.StreamHandler()
        _log.addHandler(handler)
        _log.warning("pitot: %s", text)
        _log.removeHandler(handler)


def _give_way() -> None:
    """The program starts a recorder of its own: from now on this module does nothing."""
    global _recorder_of_auto  # pylint: disable=global-statement
    with _lock:
        if _is_starting:
            return
        _recorder.before_start = None
        if _recorder_of_auto is not None:
            _recorder_of_auto.stop()
            _recorder_of_auto = None


def _after_fork() -> None:
    global _lock, _is_starting, _recorder_of_auto  # pylint: disable=global-statement
    _lock, _is_starting, _recorder_of_auto = threading.RLock(), False, None
    _evidence.after_fork()
    if _recorder.before_start is not None:
        timer = threading.Timer(_FORK_S, _start_in_child)
        timer.daemon = True
        timer.start()


def _start_in_child() -> None:
    try:
        _start()
    except Exception:  # pylint: disable=broad-except
        _log.exception("PITOT_AUTO records nothing in process %d", os.getpid())


class _Starlette:
    """The middleware around each application of Starlette and FastAPI, unless the program has put it there itself."""

    def __init__(self) -> None:
        self._class: Any = None
        self._original: Any = None
        self._around: Any = None
        self._is_over = False

    def install(self) -> None:
        """Does so once Starlette has been imported."""
        if self._class is not None or self._is_over:
            return
        found = getattr(sys.modules.get("starlette.applications"), "Starlette", None)
        if found is None:
            return
        self._class, original = found, vars(found).get("__call__")
        if not inspect.iscoroutinefunction(original) or list(inspect.signature(original).parameters) != ["self", "scope", "receive", "send"]:
            _log.warning("starlette.not_recorded: this version calls applications in another way; add pitot.asgi.Middleware yourself")
            return
        self._original, self._around = original, _around(original)
        found.__call__ = self._around

    def remove(self) -> None:
        """Takes it away, unless somebody else has put a function around it."""
        self._is_over = True
        if self._original is not None and vars(self._class).get("__call__") is self._around:
            self._class.__call__ = self._original


def _around(original: Any) -> Any:
    names: Dict[Tuple[str, str], str] = {}

    async def __call__(self: Any, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http" or asgi.is_used or asgi.KEY in scope:
            await original(self, scope, receive, send)
            return

        async def app(*arguments: Any) -> None:
            await original(self, *arguments)

        await asgi.record(app, scope, receive, send, False, names, lambda it: asgi.template_of(self, it))

    return __call__
