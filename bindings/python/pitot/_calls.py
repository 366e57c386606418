# SPDX-License-Identifier: Apache-2.0
"""The calls of a server's hot path: of the extension `_native` where it is built, otherwise through ctypes.

PITOT_CALLS in the environment chooses: "native" (an import that fails raises) or "ctypes".
"""

import os
import sys
from typing import TYPE_CHECKING, Any, Callable, Optional

from pitot import _contexts, _record, _request

if TYPE_CHECKING:
    from pitot._contexts import Current as Current, current as current, step_begin as step_begin, step_end as step_end, tick as tick
    from pitot._record import Wait as Wait, counter as counter, hook as hook, instant as instant, scope as scope
    from pitot._request import Batch as Batch, Request as Request, Token as Token, emit_many as emit_many, now as now


def _load() -> Any:
    """The extension, or None. It is not for interpreters without a lock, and only for the main one of a process."""
    chosen = os.environ.get("PITOT_CALLS", "")
    if chosen == "ctypes" or not getattr(sys, "_is_gil_enabled", lambda: True)():
        return None
    try:
        from pitot import _native  # pylint: disable=import-outside-toplevel
    except ImportError:
        if chosen == "native":
            raise
        return None
    return _native


_native = _load()
is_native = _native is not None

if not TYPE_CHECKING:
    _of = _native or _contexts
    Current, current, step_begin, step_end, tick = _of.Current, _of.current, _of.step_begin, _of.step_end, _of.tick
    _of = _native or _record
    Wait, counter, hook, instant, scope = _of.Wait, _of.counter, _of.hook, _of.instant, _of.scope
    _of = _native or _request
    Batch, Request, Token, emit_many, now = _of.Batch, _of.Request, _of.Token, _of.emit_many, _of.now


def set_enter(enter: Optional[Callable[[int], Any]]) -> None:
    """Sets the function that makes a request part of its task's context; None: no event loop is followed."""
    (_native or _request).set_enter(enter)
