# SPDX-License-Identifier: Apache-2.0
"""The recording of one engine: its requests, and its steps with their members."""

from typing import Any, Callable, Dict, List, Set, Tuple

import pitot

GENERATE, POOL, STEP = "/generate", "/pool", "vllm step"
OUTCOMES = {"ABORT": pitot.Outcome.CANCELLED, "ERROR": pitot.Outcome.FAILED}  # others: ok
QUEUE = "waiting"
GAUGE_STEPS = 16  # from one reading of counts to the next, if no request is new

_at_request: List[Callable[[Any, pitot.Request], Any]] = []


def on_request(function: Callable[[Any, pitot.Request], Any]) -> None:
    """Calls `function` with each new request of vLLM and with Pitot's, on the engine's thread: for labels and sizes."""
    _at_request.append(function)


class Recording:
    """Methods take the scheduler's objects. They run on the engine's thread."""

    def __init__(self, scheduler: Any) -> None:
        self._requests: Dict[str, pitot.Request] = {}
        self._tokens: Dict[str, pitot.Token] = {}  # of the same requests
        self._silent: Dict[str, pitot.Request] = {}  # those with no output since they arrived or were preempted
        self._preempted: Set[str] = set()  # those without blocks
        self._steps: Dict[int, pitot.Batch] = {}  # by the scheduler's output: two or more at once, because vLLM schedules ahead
        self._gauges: Dict[str, float] = {}
        self._number = 0  # of steps
        self._counts = getattr(scheduler, "get_request_counts", None)
        self._cache = getattr(scheduler, "kv_cache_manager", None)
        if not hasattr(type(self._cache), "usage"):
            self._cache = None

    def arrived(self, request: Any) -> None:
        name = request.request_id
        if name in self._requests:  # more input of a session
            return
        headers = getattr(request, "trace_headers", None) or {}
        one = pitot.Request(POOL if getattr(request, "pooling_params", None) is not None else GENERATE, headers.get("traceparent"), id=name)
        one.set_size("prompt tokens", request.num_prompt_tokens)
        adapter = getattr(request, "lora_request", None)
        if adapter is not None:
            one.set_label("lora", adapter.lora_name)
        one.stage(QUEUE)
        self._requests[name] = self._silent[name] = one
        self._tokens[name] = one.enqueue(QUEUE)
        for function in _at_request:
            function(request, one)

    def scheduled(self, output: Any, *_: Any, **__: Any) -> None:
        """A step begins: `schedule` has returned this."""
        for name in getattr(output, "preempted_req_ids", None) or ():
            self._preempt(name)
        work, tokens = output.num_scheduled_tokens, self._tokens
        if not work:
            return
        try:
            members, works = list(map(tokens.__getitem__, work)), list(work.values())
        except KeyError:  # requests from before the recording
            known = [name for name in work if name in tokens]
            members, works = [tokens[name] for name in known], [work[name] for name in known]
        self._steps[id(output)] = pitot.Batch.begin_step(STEP, members, works)
        for new in output.scheduled_new_reqs:
            one = self._requests.get(new.req_id)
            if one is not None:
                one.stage("prefill")
                if new.num_computed_tokens:
                    one.set_size("cached tokens", new.num_computed_tokens)
        if self._preempted:
            for name in self._preempted & work.keys():
                self._preempted.remove(name)
                self._requests[name].stage("prefill")
        self._number += 1
        if output.scheduled_new_reqs or self._number % GAUGE_STEPS == 0:
            self._read_gauges()

    def updated(self, outputs: Dict[int, Any], scheduler_output: Any, *_: Any, **__: Any) -> None:
        """A step ends, and its members have these outputs: `update_from_output` has returned them."""
        emitting: List[pitot.Token] = []
        emitted: List[int] = []
        finished: List[Tuple[pitot.Request, Any]] = []
        tokens, silent = self._tokens, self._silent
        for of_client in outputs.values():
            for output in of_client.outputs:
                token = tokens.get(output.request_id)
                if token is None:
                    continue
                new = output.new_token_ids
                if new:
                    emitting.append(token)
                    emitted.append(len(new))
                    if silent and output.request_id not in self._preempted:
                        self._speak(output.request_id)
                if output.finish_reason is not None:
                    finished.append((self._forget(output.request_id), output.finish_reason))
        step = self._steps.pop(id(scheduler_output), None)
        if step is not None:
            step.end_step(emitting, emitted)
        else:
            pitot.emit_many(emitting, emitted)
        for one, reason in finished:
            outcome = OUTCOMES.get(reason.name, pitot.Outcome.OK)
            one.finish(outcome, None if outcome == pitot.Outcome.OK else reason.name.lower())

    def ended(self, names: Any) -> None:
        """Requests were taken out of the scheduler. None: all."""
        for name in list(self._requests) if names is None else [names] if isinstance(names, str) else names:
            if name in self._requests:
                self._forget(name).finish(pitot.Outcome.CANCELLED)

    def _speak(self, name: str) -> None:
        one = self._silent.pop(name, None)
        if one is not None:
            one.stage("decode")

    def _preempt(self, name: str) -> None:
        """Its blocks were taken away, and its tokens will be computed again."""
        one = self._requests.get(name)
        if one is not None:
            one.stage("preempted")
            self._silent[name] = one
            self._tokens[name] = self._tokens[name].enqueue(QUEUE)
            self._preempted.add(name)

    def _forget(self, name: str) -> pitot.Request:
        del self._tokens[name]
        self._silent.pop(name, None)
        self._preempted.discard(name)
        return self._requests.pop(name)

    def _read_gauges(self) -> None:
        if self._counts is not None:
            running, waiting = self._counts()
            self._gauge("vllm running", running)
            self._gauge("vllm waiting", waiting)
        if self._cache is not None:
            self._gauge("vllm KV cache used", round(self._cache.usage, 2))

    def _gauge(self, name: str, value: float) -> None:
        if self._gauges.get(name) != value:
            self._gauges[name] = value
            pitot.counter(name, value)
