# SPDX-License-Identifier: Apache-2.0
"""The decorator `traced`: a scope for each call of a function, or for each step of one that can suspend."""

import functools
import inspect
import types
from typing import Any, AsyncGenerator, Callable, Generator, Optional, TypeVar, Union, overload

from pitot._calls import scope

_Function = TypeVar("_Function", bound=Callable[..., Any])


@overload
def traced(function: _Function) -> _Function: ...
@overload
def traced(function: Optional[str] = None) -> Callable[[_Function], _Function]: ...
def traced(function: Union[Callable[..., Any], str, None] = None) -> Any:
    """Records each call of a function as a scope: `@pitot.traced`, or `@pitot.traced("name")`. Default: the function's name.

    Coroutines and generators leave their thread's stack while they are suspended. They have a scope for each step between two
    suspensions, so that the work of other tasks is not theirs.
    """
    if function is None or isinstance(function, str):
        return lambda decorated: _traced(decorated, function)
    return _traced(function, None)


def _traced(function: Any, name: Optional[str]) -> Any:
    of_function = scope(name if name is not None else function.__qualname__)

    def traced_function(*args: Any, **kwargs: Any) -> Any:
        with of_function:
            return function(*args, **kwargs)

    async def traced_coroutine(*args: Any, **kwargs: Any) -> Any:
        return await _awaited_steps(of_function, function(*args, **kwargs))

    def traced_generator(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
        return (yield from _steps(of_function, function(*args, **kwargs)))

    async def traced_async_generator(*args: Any, **kwargs: Any) -> AsyncGenerator[Any, Any]:
        inner = function(*args, **kwargs)
        step = inner.asend(None)
        try:
            while True:
                try:
                    item = await _awaited_steps(of_function, step)
                except StopAsyncIteration:
                    return
                try:
                    step = inner.asend((yield item))
                except GeneratorExit:
                    raise
                except BaseException as error:  # pylint: disable=broad-except
                    step = inner.athrow(error)
        finally:
            await _awaited_steps(of_function, inner.aclose())

    around: Any = traced_function  # of the function's own kind: frameworks look at it
    if inspect.iscoroutinefunction(function):
        around = traced_coroutine
    elif inspect.isasyncgenfunction(function):
        around = traced_async_generator
    elif inspect.isgeneratorfunction(function):
        around = traced_generator
    return functools.wraps(function)(around)


def _steps(of_function: Any, inner: Any) -> Generator[Any, Any, Any]:
    """Runs a generator or coroutine, each step in the scope."""
    value, error = None, None
    while True:
        try:
            with of_function:
                item = inner.send(value) if error is None else inner.throw(error)
        except StopIteration as stop:
            return stop.value
        try:
            value, error = (yield item), None
        except GeneratorExit:
            with of_function:
                inner.close()
            raise
        except BaseException as thrown:  # pylint: disable=broad-except
            value, error = None, thrown


_awaited_steps = types.coroutine(_steps)
