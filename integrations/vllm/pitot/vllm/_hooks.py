# SPDX-License-Identifier: Apache-2.0
"""Finds vLLM's methods and puts recording ones in their place.

Two are found by name: the engine's `add_request` and the executor's `__init__`. The scheduler and the executor come from the engine
object, whatever their classes. A missing name is written to vLLM's log. If recording fails, the engine's own methods come back.
"""

import functools
import importlib
import os
from concurrent.futures import Future
from typing import Any, Callable, List, Set, Tuple

import pitot
from pitot.vllm import _recorder, _server
from pitot.vllm._recording import Recording

ADD_REQUEST = "vllm.v1.engine.core:EngineCore.add_request"
MAKE_EXECUTOR = "vllm.v1.executor.abstract:Executor.__init__"
SCHEDULER = ("schedule", "update_from_output", "finish_requests")
EXECUTOR = {"execute_model": "execute", "sample_tokens": "sample"}  # and the names of their scopes; older ones sample in the first
RESULTS = 64  # of the executor, to see what kinds it returns

_registered: List[bool] = []
_has_engine: List[bool] = []
_starting = _recorder.Guard()


class Missing(Exception):
    """vLLM has no such name."""


def find(path: str) -> Any:
    """The class of "module:Class.method". Raises Missing."""
    module, _, names = path.partition(":")
    owner, _, method = names.partition(".")
    try:
        found = getattr(importlib.import_module(module), owner)
        getattr(found, method)
    except (ImportError, AttributeError) as error:
        raise Missing(f"vLLM has no {path}: {error}") from error
    return found


def register() -> None:
    """vLLM's entry point, called in each of its processes, and perhaps again."""
    if _registered or _recorder.mode() == "off":
        return
    _registered.append(True)
    try:
        engine_core, executor = find(ADD_REQUEST), find(MAKE_EXECUTOR)
    except Missing as error:
        _recorder.log().warning("Pitot records nothing here: %s", error)
        return
    engine_core.add_request = _adding(engine_core.add_request)
    executor.__init__ = _making(executor.__init__)
    if os.environ.get("PITOT_VLLM_SERVER") == "1":
        _record_server()


def _record_server() -> None:
    try:
        outputs = find(f"{_server.OUTPUTS}.add_request")
        _server.wrap(outputs, _is_in_front)
    except (Missing, AttributeError) as error:
        _recorder.log().warning("Pitot: PITOT_VLLM_SERVER has no effect: %s", error)


def _is_in_front() -> bool:
    """Whether this process has no engine. Then its recorder starts with its first request."""
    if _has_engine:
        return False
    _starting(_recorder.start, "vllm server", False)
    return True


def _making(method: Callable[..., None]) -> Callable[..., None]:
    """Starts the recorder with the executor: before CUDA is used, or after workers were forked."""

    @functools.wraps(method)
    def make(self: Any, vllm_config: Any, *args: Any, **options: Any) -> None:
        parallel = getattr(vllm_config, "parallel_config", None)
        name, has_workers = f"vllm engine {getattr(parallel, 'data_parallel_rank', 0)}", getattr(parallel, "world_size", 1) > 1
        _has_engine.append(True)
        if not has_workers:
            _starting(_recorder.start, name)
        method(self, vllm_config, *args, **options)
        _starting(_recorder.start, name)

    return make


def _adding(method: Callable[..., Any]) -> Callable[..., Any]:
    """Records an engine from its first request on."""

    @functools.wraps(method)
    def add_request(self: Any, request: Any, *args: Any, **options: Any) -> Any:
        engine = getattr(self, "pitot_engine", None)
        if engine is None:
            engine = self.pitot_engine = Engine(self)
        engine.guard(engine.recording.arrived, request)
        return method(self, request, *args, **options)

    return add_request


class Engine:
    """The recording methods of one engine. Their arguments have vLLM's names."""

    def __init__(self, core: Any) -> None:
        self.recording = Recording(getattr(core, "scheduler", None))
        self.replaced: List[Tuple[Any, str]] = []
        self.waits: Set[Any] = {type(None), Future}  # types of results: never waited for, or recorded
        self.results = 0
        self.guard = _recorder.Guard(self.restore)
        self.guard(self.attach, core)

    def attach(self, core: Any) -> None:
        missing = [f"{type(getattr(core, part, None)).__name__}.{name}" for part, names in
                   (("scheduler", SCHEDULER), ("model_executor", ("execute_model",))) for name in names
                   if not callable(getattr(getattr(core, part, None), name, None))]
        if missing:
            _recorder.log().warning("Pitot records nothing here: vLLM has no %s", ", ".join(missing))
            self.guard.is_on = False
            return
        self.replace(core.scheduler, "schedule", "schedule", self.recording.scheduled)
        self.replace(core.scheduler, "update_from_output", "update", self.recording.updated)
        self.put(core.scheduler, "finish_requests", self.finish_requests(core.scheduler.finish_requests))
        for name, scope in EXECUTOR.items():
            if hasattr(core.model_executor, name):
                self.replace(core.model_executor, name, scope, self.returned)
        if os.environ.get("PITOT_VLLM_SCOPES") == "1":
            use_own_scopes()

    def replace(self, owner: Any, name: str, scope: str, after: Callable[..., Any]) -> None:
        self.put(owner, name, pitot.hook(getattr(owner, name), scope, after, self.guard.fail))

    def put(self, owner: Any, name: str, method: Any) -> None:
        """For this object, not for its class."""
        setattr(owner, name, method)
        self.replaced.append((owner, name))

    def restore(self) -> None:
        for owner, name in self.replaced:
            delattr(owner, name)

    def finish_requests(self, method: Any) -> Any:
        def finish_requests(request_ids: Any, *args: Any, **options: Any) -> Any:
            names = request_ids if request_ids is None or isinstance(request_ids, str) else list(request_ids)
            self.guard(self.recording.ended, names)
            return method(names, *args, **options)

        return finish_requests

    def returned(self, result: Any, *_: Any, **__: Any) -> bool:
        """A call of the executor has returned. Its result may be waited for later. Returns whether all kinds were seen."""
        if type(result) not in self.waits:
            self.waits.add(type(result))
            record_waits(type(result))
        self.results += 1
        return self.results >= RESULTS


def record_waits(kind: Any) -> None:
    """Records `result` of a class of futures as a wait for the GPU."""
    method = vars(kind).get("result")
    if not issubclass(kind, Future) or method is None or hasattr(method, "is_recorded"):
        return

    @functools.wraps(method)
    def result(self: Any, *args: Any, **options: Any) -> Any:
        with pitot.Wait(pitot.WaitKind.DEVICE, "sampled tokens"):
            return method(self, *args, **options)

    result.is_recorded = True  # type: ignore[attr-defined]
    kind.result = result


def use_own_scopes() -> None:
    """Records the parts of a step marked by vLLM for profilers."""
    try:
        utils = importlib.import_module("vllm.v1.utils")
        getattr(utils, "record_function_or_nullcontext"), getattr(utils, "_PROFILER_FUNC")
    except (ImportError, AttributeError) as error:
        _recorder.log().warning("Pitot: PITOT_VLLM_SCOPES has no effect: %s", error)
        return
    utils._PROFILER_FUNC = pitot.scope  # type: ignore[attr-defined]
