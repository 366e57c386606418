# SPDX-License-Identifier: Apache-2.0
"""Scopes, moments, values and waits of the calling thread, through ctypes. `_calls` chooses between these and `_native`."""

import enum
import logging
from ctypes import byref
from typing import Any, Callable, Dict, NamedTuple, Optional

from pitot import _library as lib

# As many as the library's own table holds: further names cost a call each.
_MOST_NAMES = 16384
_names: Dict[str, int] = {}


def _name(text: str, argument: str = "name") -> int:
    name = _names.get(text)
    if name is None:
        name = lib.intern(lib.text(argument, text))
        if len(_names) < _MOST_NAMES:
            _names[text] = name
    return name


# Names in evidence of the interpreter: places, functions, threads. Others are "(other)", so that the host's own fit into
# the library's table. Large programs have thousands of places, and far fewer functions and threads.
_MOST_EVIDENCE = 1000
_evidence: Dict[str, int] = {}
_rough_evidence: Dict[str, int] = {}


def evidence_name(text: str, rough: str = "") -> int:
    """The name of `text`; if there were too many, that of `rough`, which has a limit of its own."""
    name = _evidence.get(text)
    if name is not None:
        return name
    known, kept = (_evidence, text) if len(_evidence) < _MOST_EVIDENCE else (_rough_evidence, rough)
    name = known.get(kept) if kept else None
    if name is None:
        if not kept or len(known) >= _MOST_EVIDENCE:
            return _name("(other)" if text else "")
        name = known[kept] = int(lib.intern(lib.text("name", kept)))
    return name


class Scope:
    """The result of `scope`. Its only state is its name, so one object serves all threads and nests in itself."""

    __slots__ = ("_name",)

    def __init__(self, name: int) -> None:
        self._name = name

    def __enter__(self, _begin: Any = lib.scope_begin) -> None:
        _begin(self._name)

    def __exit__(self, *exception: object, _end: Any = lib.scope_end) -> None:
        _end()


_scopes: Dict[str, Scope] = {}


def scope(name: str) -> Scope:
    """Records the time of a block: `with pitot.scope("decode"):`. Names must come from a small set, like literals.

    A scope belongs to its thread's stack: do not `await` or `yield` in one. Use stages and requests instead.
    """
    try:
        return _scopes[name]
    except KeyError:
        made = Scope(_name(name))
        if len(_scopes) < _MOST_NAMES:
            _scopes[name] = made
        return made


def log_failure(error: Exception) -> None:
    logging.getLogger("pitot").error("what looks at a hook failed, and is called no more", exc_info=error)


def hook(function: Callable[..., Any], name: str, after: Optional[Callable[..., Any]] = None,
         failed: Optional[Callable[[Exception], Any]] = None) -> Callable[..., Any]:
    """Returns a function that calls `function` in a scope, and then `after` with its result and arguments.

    It is for the methods of a server that is not yours: `engine.step = pitot.hook(engine.step, "step", after=stepped)`. `after` is
    not called if `function` raises, and no more once it has returned True. An Exception that it raises goes to `failed`, by default
    to the logger "pitot". The server does not see it, and `after` is called no more.
    """
    of_function, then = scope(name), [after]

    def hooked(*args: Any, **kwargs: Any) -> Any:
        with of_function:
            result = function(*args, **kwargs)
        if then[0] is not None:
            try:
                if then[0](result, *args, **kwargs) is True:
                    then[0] = None
            except Exception as error:  # pylint: disable=broad-except
                then[0] = None
                (failed or log_failure)(error)
        return result

    hooked.__wrapped__ = function  # type: ignore[attr-defined]
    return hooked


def instant(name: str, detail: Optional[str] = None) -> None:
    """Records a moment, with a detail of at most 48 bytes (the rest is cut)."""
    lib.instant(_name(name), lib.encode("detail", detail))


def counter(name: str, value: float) -> None:
    """Records a value that holds until the next one of that name."""
    lib.counter(_name(name), lib.real("value", value))


def set_thread_name(name: str) -> None:
    """Names the calling thread in traces. The default is the operating system's name, which Python does not set."""
    lib.set_thread_name(lib.text("name", name))


class WaitKind(enum.IntEnum):
    """The kind of a wait."""

    LOCK = 1
    CONDITION = 2
    QUEUE = 3
    IO = 4
    FUTURE = 5
    SLEEP = 6
    DEVICE = 7
    OTHER = 8


class Owner(NamedTuple):
    """The holder of a resource: a thread, by Pitot's number, and the request it works for; 0 if unknown."""

    thread: int = 0
    request: int = 0


def this_owner() -> Owner:
    """Returns the calling thread and its request, to be stored next to the lock it took; zeros while no recorder runs."""
    owner = lib.this_owner()
    return Owner(owner.thread, owner.request)


def _owner(owner: Owner) -> Any:
    thread, request = owner
    return lib.OwnerStruct(lib.whole("thread", thread, 64), lib.whole("request", request, 64))


class CudaScope:
    """The result of `cuda_scope`."""

    __slots__ = ("_name", "_stream", "_scope")

    def __init__(self, name: int, stream: int) -> None:
        self._name = name
        self._stream = stream
        self._scope = lib.CudaScopeStruct()

    def __enter__(self) -> None:
        lib.cuda_scope_begin(byref(self._scope), self._stream, self._name)

    def __exit__(self, *exception: object) -> None:
        lib.cuda_scope_end(byref(self._scope))


def cuda_scope(name: str, stream: int = 0) -> CudaScope:
    """Times the GPU's work that a block enqueues on a CUDA stream; needs `Recorder.enable_gpu` or `add_cuda_events`.

    `stream` is the stream's handle: `torch.cuda.current_stream().cuda_stream`. 0 is the default stream. Unlike a `scope` it
    serves one block at a time.
    """
    return CudaScope(_name(name), lib.whole("stream", stream, 64))


def set_work_stream(stream: int) -> None:
    """Says on which stream the calling thread enqueues the work of its batch, or outside of batches of its request.

    `stream` is the stream's handle: `torch.cuda.current_stream().cuda_stream`. Not needed where `Recorder.add_cuda_calls` sees
    the launches, as it does PyTorch's.
    """
    lib.set_work_stream(lib.whole("stream", stream, 64))


class Wait:
    """Records a block as a wait: `with pitot.Wait(pitot.WaitKind.QUEUE, "jobs"): job = jobs.get()`.

    While it is open, incidents show the resource. It must end on the thread where it began. Put one around the whole
    loop of a condition: `with pitot.Wait(pitot.WaitKind.CONDITION, "jobs"): condition.wait_for(has_jobs)`.
    """

    __slots__ = ("_kind", "_resource", "_owner", "_wait")

    def __init__(self, kind: WaitKind, resource: str, owner: Owner = Owner()) -> None:
        self._kind = lib.constant("kind", kind)
        self._resource = _name(resource, "resource")
        self._owner = _owner(owner)
        self._wait = lib.WaitStruct()

    def set_owner(self, owner: Owner) -> None:
        """Sets the owner, if it is known only after the wait began."""
        lib.wait_set_owner(byref(self._wait), _owner(owner))

    def __enter__(self) -> "Wait":
        lib.wait_begin(byref(self._wait), self._kind, self._resource, self._owner)
        return self

    def __exit__(self, *exception: object) -> None:
        lib.wait_end(byref(self._wait))
