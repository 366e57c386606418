# SPDX-License-Identifier: Apache-2.0
"""The calls of a server's hot path: of the extension `_native` where it is built, otherwise through ctypes.

PITOT_CALLS in the environment chooses: "native" (an import that fails raises) or "ctypes".
"""

import functools
import inspect
import os
import sys
from typing import TYPE_CHECKING, Any, Callable, Optional, TypeVar, Union, overload

from pitot import _contexts, _record, _request

if TYPE_CHECKING:
    from pitot._contexts import Current as Current, current as current, step_begin as step_begin, step_end as step_end, tick as tick
    from pitot._record import Wait as Wait, counter as counter, instant as instant, scope as scope
    from pitot._request import Batch as Batch, Request as Request, Token as Token, emit_many as emit_many, now as now

_Function = TypeVar("_Function", bound=Callable[..., Any])


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
    Wait, counter, instant, scope = _of.Wait, _of.counter, _of.instant, _of.scope
    _of = _native or _request
    Batch, Request, Token, emit_many, now = _of.Batch, _of.Request, _of.Token, _of.emit_many, _of.now


def set_enter(enter: Optional[Callable[[int], Any]]) -> None:
    """Sets the function that makes a request part of its task's context; None: no event loop is followed."""
    (_native or _request).set_enter(enter)


@overload
def traced(function: _Function) -> _Function: ...
@overload
def traced(function: Optional[str] = None) -> Callable[[_Function], _Function]: ...
def traced(function: Union[Callable[..., Any], str, None] = None) -> Any:
    """Records each call of a function as a scope: `@pitot.traced`, or `@pitot.traced("name")`. Default: the function's name.

    Raises TypeError for coroutine functions and generators, because they leave their thread's stack.
    """
    if function is None or isinstance(function, str):
        return lambda decorated: _traced(decorated, function)
    return _traced(function, None)


def _traced(function: Any, name: Optional[str]) -> Any:
    if inspect.iscoroutinefunction(function) or inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise TypeError(f"{function.__qualname__} can suspend, and a scope belongs to a thread's stack: trace what it calls")
    of_function = scope(name if name is not None else function.__qualname__)

    @functools.wraps(function)
    def traced_function(*args: Any, **kwargs: Any) -> Any:
        with of_function:
            return function(*args, **kwargs)

    return traced_function
