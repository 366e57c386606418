# SPDX-License-Identifier: Apache-2.0
"""Requests, tokens and batches: what joins the events of many threads to one unit of service."""

import ctypes
import enum
from ctypes import byref
from typing import Any, Optional

from pitot import _library as lib


class Outcome(lib.OpenEnum):
    """How a request ended. A later library may have more: UNKNOWN_7."""

    OK = 1
    FAILED = 2
    CANCELLED = 3
    TIMED_OUT = 4
    SHED = 5
    ABANDONED = 6


class BatchClose(enum.IntEnum):
    """Why a batch awaited no more members."""

    UNKNOWN = 0
    FULL = 1
    TIMEOUT = 2
    FLUSH = 3
    STEP = 4


def now() -> int:
    """A moment on the recorder's clock, for a request's `arrival`; 0 while no recorder runs."""
    return int(lib.now())


class Adopt:
    """What `Token.adopt` returns."""

    __slots__ = ("_adopt", "_token")

    def __init__(self, token: "Token") -> None:
        self._adopt = lib.AdoptStruct()
        self._token = token

    def __enter__(self) -> None:
        lib.adopt_begin(byref(self._adopt), byref(self._token._token))

    def __exit__(self, *exception: object) -> None:
        lib.adopt_end(byref(self._adopt))


class Token:
    """Stands for a request in a queue, on another thread, or (pickled, or as 32 bytes) in another process of this machine.

    Valid for as long as its request is open; after that it does nothing. Threads: any.
    """

    __slots__ = ("_token",)

    def __init__(self, data: bytes = bytes(32)) -> None:
        self._token = lib.TokenStruct.from_buffer_copy(data)

    @classmethod
    def _of(cls, token: Any) -> "Token":
        self = cls.__new__(cls)
        self._token = token
        return self

    def __bytes__(self) -> bytes:
        return bytes(self._token)

    def __reduce__(self) -> Any:
        return Token, (bytes(self),)

    @property
    def request_id(self) -> int:
        """The id of its request; 0: of none."""
        return int(lib.token_request(byref(self._token)))

    @property
    def is_late(self) -> bool:
        """Whether the request is later than its route's latency objective or its deadline."""
        return bool(lib.token_is_late(byref(self._token)))

    def stage(self, name: str) -> None:
        """Begins the stage `name`, which ends the stage before it."""
        lib.token_stage(byref(self._token), lib.text(name))

    def emit(self, count: int = 1) -> None:
        """Marks output tokens: time to first token and gaps between tokens are measured on these."""
        lib.token_emit(byref(self._token), lib.whole("count", count))

    def adopt(self) -> Adopt:
        """Makes the request this thread's context for a block, and stamps the taking from the queue."""
        return Adopt(self)


class Request:
    """A unit of service; as a context manager it ends with the block: ok, or failed where an exception leaves it (a
    CancelledError: cancelled).

    `route` is a template of a small set. `traceparent` is W3C's header. `arrival` is an earlier `now()`. Begins on this
    thread, whose events from now on belong to it; may be finished on any other. Dropped without an end it counts as
    abandoned.

    Threads: one at a time, which hands it to the next (by a queue, say); its tokens any. What it is asked for after its end
    does nothing, but an end on one thread must not meet another use on a second.
    """

    __slots__ = ("_handle", "_id")
    _finish = staticmethod(lib.request_finish)  # still there when the interpreter tears its modules down

    def __init__(self, route: str, traceparent: Optional[str] = None, *, arrival: int = 0) -> None:
        self._take(lib.request_begin(lib.text(route), lib.encode(traceparent),
                                     lib.whole("arrival", arrival, 64)))

    @classmethod
    def from_token(cls, token: Token, route: str) -> "Request":
        """Begins a request with the token's as parent, arrived when that was enqueued."""
        return cls.__new__(cls)._take(lib.request_begin_from(byref(token._token), lib.text(route)))

    def child(self, route: str) -> "Request":
        """Begins a part of this request, which is the thread's context again once the part is finished there."""
        part, text = Request.__new__(Request), lib.text(route)
        return part._take(lib.request_begin_child(self._handle, text))

    def _take(self, handle: Optional[int]) -> "Request":
        self._handle = handle
        self._id = int(lib.request_id(handle))
        return self

    @property
    def id(self) -> int:
        """0 where none was begun: no recorder runs, or too many are open. The command line shows it as f"{id:016x}"."""
        return self._id

    @property
    def traceparent(self) -> str:
        """What to send to services called for this request; "" when it is inert or has ended."""
        out = ctypes.create_string_buffer(56)
        lib.request_write_traceparent(self._handle, out)
        return lib.decode(out.value)

    @property
    def is_late(self) -> bool:
        """Whether it is later than its route's latency objective or its deadline."""
        return bool(lib.request_is_late(self._handle))

    @property
    def token(self) -> Token:
        """A token that is not stamped as enqueued."""
        return Token._of(lib.request_token(self._handle))

    def enqueue(self, queue: str) -> Token:
        """Stamps the hand-over to `queue` and returns the token that goes there."""
        text = lib.text(queue)
        return Token._of(lib.request_enqueue(self._handle, text))

    def stage(self, name: str) -> None:
        """Begins the stage `name`, which ends the stage before it. At most 16."""
        text = lib.text(name)
        lib.request_stage(self._handle, text)

    def emit(self, count: int = 1) -> None:
        """Marks output tokens."""
        number = lib.whole("count", count)
        lib.request_emit(self._handle, number)

    def set_label(self, key: str, value: str) -> None:
        """A bounded dimension: model, version, tenant. At most 4."""
        key_text, value_text = lib.text(key), lib.text(value)
        lib.request_set_label(self._handle, key_text, value_text)

    def set_size(self, name: str, value: float) -> None:
        """How much work it is: pixels, prompt tokens. At most 4; the first one divides the route into size buckets."""
        text, number = lib.text(name), lib.real("value", value)
        lib.request_set_size(self._handle, text, number)

    def set_deadline(self, ms: float) -> None:
        """When it must be done, ms after its arrival; 0 or less changes nothing."""
        ns = lib.real("ms", ms) * 1e6
        if not ns < 1 << 63:  # nor is what is no number
            raise lib.InvalidArgument(f"ms is {ms}; it must be less than {(1 << 63) / 1e6:.0f}")
        whole_ns = max(0, int(ns))
        lib.request_set_deadline(self._handle, whole_ns)

    def finish(self, outcome: Outcome = Outcome.OK) -> None:
        """Ends it and tells the triggers. A second time does nothing."""
        number = lib.constant("outcome", outcome)  # while there is a handle left to end it with
        handle, self._handle = self._handle, None
        self._finish(handle, number)

    def __enter__(self) -> "Request":
        return self

    def __exit__(self, kind: Optional[type], *exception: object) -> None:
        if kind is None:
            self.finish(Outcome.OK)
        else:  # by name: asyncio, which has one, takes long to import, and concurrent.futures has another
            is_cancelled = any(base.__name__ == "CancelledError" for base in kind.__mro__)
            self.finish(Outcome.CANCELLED if is_cancelled else Outcome.FAILED)

    def __del__(self) -> None:
        if getattr(self, "_handle", None) is not None:
            self._finish(self._handle, 6)


class Batch:
    """One execution that serves several requests, on the executor of that name; as a context manager it ends with the block.

    Threads: one at a time, which works for it until it ends.
    """

    __slots__ = ("_handle", "_id")
    _finish = staticmethod(lib.batch_finish)

    def __init__(self, executor: str) -> None:
        self._handle = lib.batch_begin(lib.text(executor))
        self._id = int(lib.batch_id(self._handle))

    @property
    def id(self) -> int:
        """0 while no recorder runs."""
        return self._id

    def join(self, token: Token) -> None:
        """A request becomes a member; stamps its taking from the queue."""
        token_at = byref(token._token)
        lib.batch_join(self._handle, token_at)

    def leave(self, token: Token) -> None:
        """It needs no more of this batch (continuous batching). Members that never left leave at the end."""
        token_at = byref(token._token)
        lib.batch_leave(self._handle, token_at)

    def close(self, why: BatchClose) -> None:
        """Why no more members were awaited."""
        number = lib.constant("why", why)
        lib.batch_close(self._handle, number)

    def submitted(self) -> None:
        """All of it is launched; GPU work may still run."""
        lib.batch_submitted(self._handle)

    def finish(self) -> None:
        """The results are there. A second time does nothing."""
        handle, self._handle = self._handle, None
        self._finish(handle)

    def __enter__(self) -> "Batch":
        return self

    def __exit__(self, *exception: object) -> None:
        self.finish()

    def __del__(self) -> None:
        if getattr(self, "_handle", None) is not None:
            self._finish(self._handle)
