# SPDX-License-Identifier: Apache-2.0
"""Requests, tokens and batches: they join the events of many threads to one unit of service. Here through ctypes; `_calls`
chooses between these and `_native`."""

import ctypes
import enum
from ctypes import byref
from typing import Any, Callable, Optional, Sequence, Union

from pitot import _library as lib

Buffer = Any  # anything that memoryview takes: bytes, array.array, numpy.ndarray

# Makes a request part of its task's context; None where no event loop is followed (_loops.py).
_enter: Optional[Callable[[int], Any]] = None


def set_enter(enter: Optional[Callable[[int], Any]]) -> None:
    """Sets the function that makes a request part of its task's context; None: no event loop is followed."""
    global _enter  # pylint: disable=global-statement
    _enter = enter


class Outcome(lib.OpenEnum):
    """How a request ended. A later library may have more: UNKNOWN_7."""

    OK = 1
    FAILED = 2
    CANCELLED = 3
    TIMED_OUT = 4
    SHED = 5
    ABANDONED = 6


class BatchClose(enum.IntEnum):
    """Why a batch accepted no more members."""

    UNKNOWN = 0
    FULL = 1
    TIMEOUT = 2
    FLUSH = 3
    STEP = 4


def now() -> int:
    """Returns the time on the recorder's clock, for a request's `arrival`; 0 while no recorder runs."""
    return int(lib.now())


class Adopt:
    """The result of `Token.adopt`: a context manager."""

    __slots__ = ("_adopt", "_token")

    def __init__(self, token: "Token") -> None:
        self._adopt = lib.AdoptStruct()
        self._token = token

    def __enter__(self) -> None:
        lib.adopt_begin(byref(self._adopt), byref(self._token._token))

    def __exit__(self, *exception: object) -> None:
        lib.adopt_end(byref(self._adopt))


class Token:
    """Represents a request in a queue, on another thread, or (pickled, or as 32 bytes) in another process of this machine.

    Valid while its request is open; after that it does nothing. Threads: any.
    """

    __slots__ = ("_token",)
    __module__ = "pitot"  # of pickles, which both forms read

    def __init__(self, data: Optional[bytes] = None) -> None:
        self._token = lib.TokenStruct() if data is None else lib.TokenStruct.from_buffer_copy(data)

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
        """The id of its request; 0: none."""
        return int(lib.token_request(byref(self._token)))

    @property
    def is_late(self) -> bool:
        """Whether the request already exceeds its route's latency objective or its deadline."""
        return bool(lib.token_is_late(byref(self._token)))

    def stage(self, name: str) -> None:
        """Begins the stage `name`, which ends the previous stage."""
        lib.token_stage(byref(self._token), lib.text("name", name))

    def emit(self, count: int = 1) -> None:
        """Marks output tokens; time to first token and gaps between tokens are measured at these marks."""
        lib.token_emit(byref(self._token), lib.whole("count", count))

    def enqueue(self, queue: str) -> "Token":
        """Records that the request was put into `queue` (again: deferred, preempted), and returns the token to put there.

        It is without a request if that has ended. In another process the queue is "(other)".
        """
        return Token._of(lib.token_enqueue(byref(self._token), lib.text("queue", queue)))

    def set_label(self, key: str, value: str) -> None:
        """Sets a bounded dimension of the request, as `Request.set_label`. Does nothing in another process."""
        lib.token_set_label(byref(self._token), lib.text("key", key), lib.text("value", value))

    def set_size(self, name: str, value: float) -> None:
        """Sets an amount of work of the request, as `Request.set_size`. Does nothing in another process."""
        lib.token_set_size(byref(self._token), lib.text("name", name), lib.real("value", value))

    def adopt(self) -> Adopt:
        """Makes the request this thread's context for a block, and records its leaving the queue."""
        return Adopt(self)


class Request:
    """A unit of service. As a context manager it ends with the block: ok, or failed if an exception leaves the block
    (cancelled for a CancelledError), with the exception's type as the reason.

    `route` is a template from a small set. `traceparent` is W3C's header. `arrival` is an earlier `now()`. `id` is
    your own id of the request, as for `set_id`. It begins on this thread, and the thread's events from now on belong to it; it
    may be finished on any other thread. If it is dropped without an end it counts as abandoned.

    Threads: one at a time, which hands it to the next (for example by a queue); its tokens any. Calls after its end do
    nothing, but must not run at the same time as the end on another thread.
    """

    __slots__ = ("_handle", "_id", "_context", "_parent")
    _finish = staticmethod(lib.request_finish_reason)  # still there when the interpreter tears its modules down

    def __init__(self, route: str, traceparent: Optional[str] = None, *, arrival: int = 0, id: Optional[str] = None) -> None:
        own_id = lib.encode("id", id)
        self._take(lib.request_begin(lib.text("route", route), lib.encode("traceparent", traceparent),
                                     lib.whole("arrival", arrival, 64)))
        if own_id is not None:
            lib.request_set_id(self._handle, own_id)

    @classmethod
    def from_token(cls, token: Token, route: str) -> "Request":
        """Begins a request with the token's as parent; it arrived when the token was enqueued."""
        return cls.__new__(cls)._take(lib.request_begin_from(byref(token._token), lib.text("route", route)))

    def child(self, route: str) -> "Request":
        """Begins a part of this request. When the part is finished there, this request is the thread's context again."""
        part, text = Request.__new__(Request), lib.text("route", route)
        return part._take(lib.request_begin_child(self._handle, text), self._context)

    def _take(self, handle: Optional[int], parent: Any = None) -> "Request":
        self._handle, self._context, self._parent = handle, None, parent
        self._id = int(lib.request_id(handle))
        if _enter is not None:
            self._context = _enter(self._id)
        return self

    @property
    def id(self) -> int:
        """Its id; 0 if none was begun: no recorder runs, or too many are open. The command line shows f"{id:016x}"."""
        return self._id

    @property
    def traceparent(self) -> str:
        """The traceparent for services called for this request; "" when it is inert or has ended."""
        out = ctypes.create_string_buffer(56)
        lib.request_write_traceparent(self._handle, out)
        return lib.decode(out.value)

    @property
    def is_late(self) -> bool:
        """Whether it already exceeds its route's latency objective or its deadline."""
        return bool(lib.request_is_late(self._handle))

    @property
    def token(self) -> Token:
        """A token without an enqueue time."""
        return Token._of(lib.request_token(self._handle))

    def enqueue(self, queue: str) -> Token:
        """Records the hand-over to `queue` and returns the token to put there."""
        text = lib.text("queue", queue)
        return Token._of(lib.request_enqueue(self._handle, text))

    def stage(self, name: str) -> None:
        """Begins the stage `name`, which ends the previous stage. At most 16."""
        text = lib.text("name", name)
        lib.request_stage(self._handle, text)

    def emit(self, count: int = 1) -> None:
        """Marks output tokens."""
        number = lib.whole("count", count)
        lib.request_emit(self._handle, number)

    def set_id(self, id: str) -> None:
        """Sets your own id of the request: "cmpl-123". Reports name the request by it, and `pitot why --request` takes it.

        It is cut at 64 bytes, and may differ for each request. The first one stays.
        """
        text = lib.text("id", id)
        lib.request_set_id(self._handle, text)

    def set_label(self, key: str, value: str) -> None:
        """Sets a bounded dimension: model, version, tenant. At most 4."""
        key_text, value_text = lib.text("key", key), lib.text("value", value)
        lib.request_set_label(self._handle, key_text, value_text)

    def set_size(self, name: str, value: float) -> None:
        """Sets the amount of work: pixels, prompt tokens. At most 4; the first one divides the route into size buckets."""
        text, number = lib.text("name", name), lib.real("value", value)
        lib.request_set_size(self._handle, text, number)

    def set_deadline(self, ms: float) -> None:
        """Sets the deadline, ms after its arrival; 0 or less changes nothing."""
        ns = lib.real("ms", ms) * 1e6
        if not ns < 1 << 63:  # true for NaN, too
            raise lib.InvalidArgument(f"ms is {ms}; it must be less than {(1 << 63) / 1e6:.0f}")
        whole_ns = max(0, int(ns))
        lib.request_set_deadline(self._handle, whole_ns)

    def finish(self, outcome: Outcome = Outcome.OK, reason: Optional[str] = None) -> None:
        """Ends it and calls the triggers. A second call does nothing.

        `reason` says in a few words why it failed or was cancelled, from a small set: "KV cache full". After the first 255
        reasons of a process others become "(other)".
        """
        number, text = lib.constant("outcome", outcome), lib.encode("reason", reason)  # may raise: before the handle is given up
        handle, self._handle = self._handle, None
        context, self._context = self._context, None
        self._finish(handle, number, text)
        if context is not None:
            context.leave(self._parent)

    def __enter__(self) -> "Request":
        return self

    def __exit__(self, kind: Optional[type], *exception: object) -> None:
        if kind is None:
            self.finish(Outcome.OK)
        else:  # by name: importing asyncio for its CancelledError takes long, and concurrent.futures has another
            is_cancelled = any(base.__name__ == "CancelledError" for base in kind.__mro__)
            self.finish(Outcome.CANCELLED if is_cancelled else Outcome.FAILED, kind.__name__)

    def __del__(self) -> None:
        if getattr(self, "_handle", None) is not None:
            self._finish(self._handle, 6, None)
            if self._context is not None:
                self._context.value = 0


Member = Union[Token, Request]


def _token_of(member: Any) -> Any:
    """The packed token of a member."""
    if isinstance(member, Token):
        return member._token
    if isinstance(member, Request):
        return lib.request_token(member._handle)
    raise lib.InvalidArgument(f"token is {member!r}; it must be a Token or a Request")


def _is_packed(values: Any) -> bool:
    if isinstance(values, (list, tuple)):
        return False
    try:
        memoryview(values)
    except TypeError:
        return False
    return True


def _sequence(name: str, values: Any) -> Sequence[Any]:
    try:
        return tuple(memoryview(values) if _is_packed(values) else values)
    except TypeError:
        raise lib.InvalidArgument(f"{name} is {values!r}; it must be a sequence or a buffer") from None


def _packed(name: str, members: Any) -> Any:
    """An array of tokens, of members or of a buffer with packed tokens."""
    size = ctypes.sizeof(lib.TokenStruct)
    if _is_packed(members):
        data = bytes(members)
        if len(data) % size:
            raise lib.InvalidArgument(f"{name} is {members!r}; it must be packed tokens of {size} bytes each")
        return (lib.TokenStruct * (len(data) // size)).from_buffer_copy(data)
    tokens = [_token_of(member) for member in _sequence(name, members)]
    return (lib.TokenStruct * len(tokens))(*tokens)


def _numbers(name: str, values: Any, count: int, convert: Callable[[str, Any], Any]) -> Any:
    numbers = _sequence(name, values)
    if len(numbers) != count:
        raise lib.InvalidArgument(f"{name} has {len(numbers)} values; it must have {count}, one for each token")
    return [convert(name, number) for number in numbers]


def _works(works: Any, count: int) -> Any:
    return None if works is None else (ctypes.c_double * count)(*_numbers("works", works, count, lib.real))


def _emit_all(tokens: Any, counts: Any) -> None:
    for token, count in zip(tokens, counts if counts is not None else [1] * len(tokens)):
        if count:
            lib.token_emit(byref(token), count)


def emit_many(members: Union[Sequence[Member], Buffer], counts: Union[Sequence[int], Buffer, None] = None) -> None:
    """Marks output tokens of several requests in one call. `counts` has a number for each, 0 for none; None: 1 each.

    Members are tokens, requests, or a buffer of packed tokens. Raises InvalidArgument.
    """
    tokens = _packed("members", members)
    numbers = None if counts is None else _numbers("counts", counts, len(tokens), lib.whole)
    _emit_all(tokens, numbers)


class Batch:
    """One execution that serves several requests, on the executor of that name. As a context manager it ends with the block.

    `work_unit` is the unit of its members' work, in the plural: "tokens", "pixels". Without it the unit is "tokens" if members
    put out tokens.

    Threads: one at a time, which works for it until it ends.
    """

    __slots__ = ("_handle", "_id")
    _finish = staticmethod(lib.batch_finish)

    def __init__(self, executor: str, work_unit: Optional[str] = None) -> None:
        self._take(lib.batch_begin_unit(lib.text("executor", executor), lib.encode("work_unit", work_unit)))

    def _take(self, handle: Optional[int]) -> None:
        self._handle = handle
        self._id = int(lib.batch_id(handle))

    @property
    def id(self) -> int:
        """0 while no recorder runs."""
        return self._id

    @classmethod
    def begin_step(cls, executor: str, members: Union[Sequence[Member], Buffer],
                   works: Union[Sequence[float], Buffer, None] = None, work_unit: str = "tokens") -> "Batch":
        """Begins a step of continuous batching in one call: a batch with all its members and their work, closed.

        Members are tokens, requests, or a buffer of packed tokens. `works` is as for `join_many`. Raises InvalidArgument.
        """
        executor_text, unit = lib.text("executor", executor), lib.text("work_unit", work_unit)
        tokens = _packed("members", members)
        amounts = _works(works, len(tokens))
        step = cls.__new__(cls)
        step._take(lib.batch_begin_unit(executor_text, unit))
        lib.batch_join_many(step._handle, tokens, amounts, len(tokens))
        lib.batch_close(step._handle, int(BatchClose.STEP))
        return step

    def end_step(self, members: Union[Sequence[Member], Buffer] = (), counts: Union[Sequence[int], Buffer, None] = None, *,
                 finished: Sequence[Request] = (), outcome: Outcome = Outcome.OK) -> None:
        """Ends a step in one call: its results are available, `members` put out tokens, and requests have `finished`.

        Arguments are as for `emit_many`. Requests that end in different ways have their own `finish`.
        """
        number = lib.constant("outcome", outcome)
        tokens = _packed("members", members)
        numbers = None if counts is None else _numbers("counts", counts, len(tokens), lib.whole)
        requests = _sequence("finished", finished)
        for request in requests:
            if not isinstance(request, Request):
                raise lib.InvalidArgument(f"finished has {request!r}; it must be a Request")
        self.finish()
        _emit_all(tokens, numbers)
        for request in requests:
            request.finish(number)  # type: ignore[arg-type]

    def join(self, token: Member, work: Optional[float] = None) -> None:
        """Makes the token's request a member, and records its leaving the queue.

        `work` is how much it brings to this batch or step (tokens of its prompt, or 1 for its next token). A verdict then tells
        whose work made a batch long. Say it for every member. None, or a value that is not above 0 or not finite: unknown.
        """
        token_at = byref(_token_of(token))
        if work is None:
            lib.batch_join(self._handle, token_at)
        else:
            amount = lib.real("work", work)
            lib.batch_join_work(self._handle, token_at, amount)

    def join_many(self, tokens: Union[Sequence[Member], Buffer], works: Union[Sequence[float], Buffer, None] = None) -> None:
        """Joins several members in one call, 64 at a time at the same moment. `works` has as many values.

        Both may be buffers: of packed tokens, 32 bytes each, and of numbers. Raises InvalidArgument.
        """
        packed = _packed("tokens", tokens)
        amounts = _works(works, len(packed))
        lib.batch_join_many(self._handle, packed, amounts, len(packed))

    def leave(self, token: Member) -> None:
        """Ends the request's membership early (continuous batching). Members that never left leave at the end."""
        token_at = byref(_token_of(token))
        lib.batch_leave(self._handle, token_at)

    def close(self, why: BatchClose) -> None:
        """Says why no more members are accepted."""
        number = lib.constant("why", why)
        lib.batch_close(self._handle, number)

    def submitted(self) -> None:
        """All of its work is launched; GPU work may still run."""
        lib.batch_submitted(self._handle)

    def finish(self) -> None:
        """The results are available. A second call does nothing."""
        handle, self._handle = self._handle, None
        self._finish(handle)

    def __enter__(self) -> "Batch":
        return self

    def __exit__(self, *exception: object) -> None:
        self.finish()

    def __del__(self) -> None:
        if getattr(self, "_handle", None) is not None:
            self._finish(self._handle)
