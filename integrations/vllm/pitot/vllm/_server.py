# SPDX-License-Identifier: Apache-2.0
"""The recording of the process in front of an engine: of requests from their arrival to their last output, and of detokenizing.

The engine's requests become parts of these, by the traceparent passed on to it.
"""

import functools
import time
from typing import Any, Callable, Dict, List, Set

import pitot
from pitot.vllm._recorder import Guard

ROUTE = "/request"
OUTPUTS = "vllm.v1.engine.output_processor:OutputProcessor"
METHODS = ("add_request", "process_outputs", "abort_requests")


class Server:
    """The requests of one process. Its methods run on the thread of the event loop."""

    def __init__(self) -> None:
        self._requests: Dict[str, pitot.Request] = {}
        self._silent: Set[str] = set()

    def arrived(self, processor: Any, request: Any) -> None:
        name = request.request_id
        if name in self._requests:  # more input of a session
            return
        headers = request.trace_headers or {}
        waited_ns = max(0, int(1e9 * (time.time() - request.arrival_time)))
        one = pitot.Request(ROUTE, headers.get("traceparent"), arrival=max(1, pitot.now() - waited_ns), id=name)
        one.stage("engine")
        self._requests[name] = one
        self._silent.add(name)
        if one.traceparent and not getattr(processor, "tracing_enabled", False):  # spans of others keep their parents
            request.trace_headers = {**headers, "traceparent": one.traceparent}

    def processed(self, processor: Any, outputs: List[Any]) -> None:
        emitting: List[pitot.Request] = []
        emitted: List[int] = []
        finished: List[pitot.Request] = []
        for output in outputs:
            name = output.request_id
            one = self._requests.get(name)
            if one is None:
                continue
            if output.new_token_ids:
                emitting.append(one)
                emitted.append(len(output.new_token_ids))
                if name in self._silent:
                    self._silent.remove(name)
                    one.stage("stream")
            if name not in processor.request_states:
                finished.append(self._forget(name))
        pitot.emit_many(emitting, emitted)
        for one in finished:
            one.finish()

    def aborted(self, names: Any) -> None:
        for name in names:
            if name in self._requests:
                self._forget(name).finish(pitot.Outcome.CANCELLED)

    def _forget(self, name: str) -> pitot.Request:
        self._silent.discard(name)
        return self._requests.pop(name)


def wrap(processor: Any, is_in_front: Callable[[], bool]) -> None:
    """Puts methods that record into the class of vLLM's outputs."""
    server, detokenizing, guard = Server(), pitot.scope("detokenize"), Guard()
    add, process, abort = (getattr(processor, name) for name in METHODS)

    @functools.wraps(add)
    def add_request(self: Any, request: Any, *args: Any, **options: Any) -> Any:
        if is_in_front():
            guard(server.arrived, self, request)
        return add(self, request, *args, **options)

    @functools.wraps(process)
    def process_outputs(self: Any, engine_core_outputs: Any, *args: Any, **options: Any) -> Any:
        with detokenizing:
            result = process(self, engine_core_outputs, *args, **options)
        guard(server.processed, self, engine_core_outputs)
        return result

    @functools.wraps(abort)
    def abort_requests(self: Any, *args: Any, **options: Any) -> Any:
        names = abort(self, *args, **options)
        guard(server.aborted, names)
        return names

    processor.add_request, processor.process_outputs, processor.abort_requests = add_request, process_outputs, abort_requests
