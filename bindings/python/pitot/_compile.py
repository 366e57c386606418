# SPDX-License-Identifier: Apache-2.0
"""Compilation at run time: torch.compile, Triton's kernels, and autotuning become scopes named "compile: <function>".

Verdicts call such a scope loading or compiling code, with the function's name. This module imports none of these libraries.
It puts a function around theirs once they are imported. The functions run only when something is compiled:

    torch._dynamo.callback: callback_handler.install_callbacks, around each compilation of Dynamo (PyTorch 2.4 and later). Its start
        and end callbacks count compilations of all threads together, so they do not tell which thread compiles.
    triton.runtime.jit: JITFunction._do_compile (Triton 3.4 and later)
    triton.compiler.compiler: CompiledKernel._init_handles, of a kernel not yet loaded: it compiles the launcher with a C compiler
    triton.runtime.autotuner: Autotuner._bench, around the measurement of one configuration
    torch._inductor.runtime.triton_heuristics: CachingAutotuner.benchmark_all_configs
"""

import functools
import logging
import os
import sys
import types
from typing import Any, Callable, List, Optional

from pitot import _library as lib
from pitot import _record

_log = logging.getLogger("pitot")

_MOST_TEXT = 100
_MOST_FRAMES = 8  # looked through for the code that Dynamo compiles


def _code_text(code: types.CodeType) -> str:
    return f"{getattr(code, 'co_qualname', code.co_name)} ({os.path.basename(code.co_filename)}:{code.co_firstlineno})"


def _of_dynamo(_owner: Any, trigger: Any = None, compile_id: Any = "", *_others: Any) -> str:
    """The compiled function; Dynamo's own frames have its code in a variable. Otherwise the reason and its number."""
    frame: Optional[types.FrameType] = sys._getframe(2)
    is_function = getattr(trigger, "name", "DYNAMO") == "DYNAMO"
    for _ in range(_MOST_FRAMES):
        if frame is None or not is_function:
            break
        code = frame.f_locals.get("code")
        if isinstance(code, types.CodeType):
            return _code_text(code)
        frame = frame.f_back
    return f"{getattr(trigger, 'name', 'torch.compile').lower().replace('_', ' ')} {compile_id}".strip()


def _of_kernel(kernel: Any, *_others: Any) -> str:
    return f"Triton kernel {kernel.fn.__name__}"


def _of_launcher(kernel: Any, *_others: Any) -> str:
    return f"launcher of Triton kernel {kernel.name}"


def _of_autotuner(tuner: Any, *_others: Any) -> str:
    return f"autotuning of {tuner.base_fn.__name__}"


def _of_inductor(tuner: Any, *_others: Any) -> str:
    name = tuner.inductor_meta.get("kernel_name") if getattr(tuner, "inductor_meta", None) else None
    return f"autotuning of {name or tuner.fn.__name__}"


def _name(text_of: Callable[..., str], *args: Any) -> int:
    try:
        text = text_of(*args)
    except Exception:  # pylint: disable=broad-except
        text = "code"  # of an object with other attributes
    name = f"compile: {text[:_MOST_TEXT]}"
    return _record.evidence_name(name, name)


class _Around:
    """A context manager, and a scope around it."""

    def __init__(self, inner: Any, name: int) -> None:
        self._inner = inner
        self._name = name

    def __enter__(self) -> Any:
        lib.scope_begin(self._name)
        try:
            return self._inner.__enter__()
        except BaseException:
            lib.scope_end()
            raise

    def __exit__(self, *exception: Any) -> Any:
        try:
            return self._inner.__exit__(*exception)
        finally:
            lib.scope_end()


def _around_context(original: Any, text_of: Callable[..., str]) -> Any:
    @functools.wraps(original)
    def install_callbacks(*args: Any, **kwargs: Any) -> _Around:
        return _Around(original(*args, **kwargs), _name(text_of, None, *args, *kwargs.values()))

    return install_callbacks


def _around_method(original: Any, text_of: Callable[..., str]) -> Any:
    @functools.wraps(original)
    def compile_in_scope(self: Any, *args: Any, **kwargs: Any) -> Any:
        lib.scope_begin(_name(text_of, self))
        try:
            return original(self, *args, **kwargs)
        finally:
            lib.scope_end()

    return compile_in_scope


def _around_load(original: Any, text_of: Callable[..., str]) -> Any:
    load = _around_method(original, text_of)

    @functools.wraps(original)
    def load_once(self: Any, *args: Any, **kwargs: Any) -> Any:
        is_loaded = getattr(self, "module", None) is not None
        return (original if is_loaded else load)(self, *args, **kwargs)

    return load_once


class _Wrapper:
    """One function of a library, and the one put around it."""

    def __init__(self, module: str, owner: str, function: str, around: Callable[..., Any], text_of: Callable[..., str]) -> None:
        self._place = (module, owner, function)
        self._around = around
        self._text_of = text_of
        self._owner: Any = None  # once it is wrapped
        self._original: Any = None
        self._wrapped: Any = None
        self._is_own = True  # the owner itself has the function, and not its class
        self._is_over = False

    def install(self) -> None:
        """Wraps the function, if its module has been imported. Does nothing after `remove`, or if that comes meanwhile."""
        module = sys.modules.get(self._place[0])
        if module is None or self._is_over or self._owner is not None:
            return
        owner, name = getattr(module, self._place[1], None), self._place[2]
        if owner is None:  # the import is under way
            return
        original = getattr(owner, name, None)
        if original is None:
            self._is_over = True
            _log.info("compile.not_recorded: %s has no %s.%s", *self._place)
            return
        self._original, self._is_own = original, name in vars(owner)
        self._wrapped = self._around(original, self._text_of)
        self._owner = owner
        setattr(owner, name, self._wrapped)
        if self._is_over:
            self._restore()

    def remove(self) -> None:
        self._is_over = True
        if self._owner is not None:
            self._restore()

    def _restore(self) -> None:
        """Takes the function away, unless somebody else has put one around it."""
        name = self._place[2]
        if vars(self._owner).get(name) is not self._wrapped:
            return
        if self._is_own:
            setattr(self._owner, name, self._original)
        else:
            delattr(self._owner, name)


class Compilations:
    """The wrappers of all libraries."""

    def __init__(self) -> None:
        self._wrappers: List[_Wrapper] = [
            _Wrapper("torch._dynamo.callback", "callback_handler", "install_callbacks", _around_context, _of_dynamo),
            _Wrapper("triton.runtime.jit", "JITFunction", "_do_compile", _around_method, _of_kernel),
            _Wrapper("triton.compiler.compiler", "CompiledKernel", "_init_handles", _around_load, _of_launcher),
            _Wrapper("triton.runtime.autotuner", "Autotuner", "_bench", _around_method, _of_autotuner),
            _Wrapper("torch._inductor.runtime.triton_heuristics", "CachingAutotuner", "benchmark_all_configs", _around_method,
                     _of_inductor),
        ]

    def install(self) -> None:
        """Wraps what has been imported since the last call. Makes no container."""
        at = len(self._wrappers)
        while at > 0:
            at -= 1
            self._wrappers[at].install()

    def remove(self) -> None:
        for wrapper in self._wrappers:
            wrapper.remove()
