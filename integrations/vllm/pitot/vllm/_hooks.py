# SPDX-License-Identifier: Apache-2.0
"""Finds vLLM's methods and puts recording ones in their place.

Two are found by name: the engine's `add_request` and the executor's `__init__`. The scheduler and the executor come from the engine
object, whatever their classes. A missing name is written to vLLM's log. If recording fails, the engine's own methods come back.
"""

import functools
import importlib
import os
from concurrent.futures import Future
from typing import Any, Callable, List, Optional, Set, Tuple

import pitot
from pitot.vllm import _recorder
from pitot.vllm._recording import Recording

ADD_REQUEST = "vllm.v1.engine.core:EngineCore.add_request"
MAKE_EXECUTOR = "vllm.v1.executor.abstract:Executor.__init__"
SCHEDULER = ("schedule", "update_from_output", "finish_requests")
EXECUTOR = {"execute_model": "execute", "sample_tokens": "sample"}  # and the names of their scopes; older ones sample in the first

_registered: List[bool] = []


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


def _making(method: Callable[..., None]) -> Callable[..., None]:
    """Starts the recorder with the executor: before CUDA is used, or after workers were forked."""

    @functools.wraps(method)
    def make(self: Any, vllm_config: Any, *args: Any, **options: Any) -> None:
        parallel = getattr(vllm_config, "parallel_config", None)
        rank, has_workers = getattr(parallel, "data_parallel_rank", 0), getattr(parallel, "world_size", 1) > 1
        if not has_workers:
            _start(rank)
        method(self, vllm_config, *args, **options)
        _start(rank)

    return make


def _start(rank: int) -> None:
    try:
        _recorder.start(rank)
    except Exception:  # pylint: disable=broad-except # the server runs on
        _recorder.log().exception("Pitot records nothing here")


def _adding(method: Callable[..., Any]) -> Callable[..., Any]:
    """Records an engine from its first request on."""

    @functools.wraps(method)
    def add_request(self: Any, request: Any, *args: Any, **options: Any) -> Any:
        engine = getattr(self, "pitot_engine", None)
        if engine is None:
            engine = self.pitot_engine = Engine(self)
        engine.call("arrived", request)
        return method(self, request, *args, **options)

    return add_request


class Engine:
    """The recording methods of one engine. Their arguments have vLLM's names."""

    def __init__(self, core: Any) -> None:
        self.recording: Optional[Recording] = None
        self.replaced: List[Tuple[Any, str]] = []
        self.waits: Set[Any] = {type(None), Future}  # types of results: never waited for, or recorded
        missing = [f"{type(getattr(core, part, None)).__name__}.{name}" for part, names in
                   (("scheduler", SCHEDULER), ("model_executor", ("execute_model",))) for name in names
                   if not callable(getattr(getattr(core, part, None), name, None))]
        if missing:
            _recorder.log().warning("Pitot records nothing here: vLLM has no %s", ", ".join(missing))
            return
        self.recording = Recording(core.scheduler)
        self.replace(core.scheduler, "schedule", self.schedule)
        self.replace(core.scheduler, "update_from_output", self.update_from_output)
        self.replace(core.scheduler, "finish_requests", self.finish_requests)
        for name, scope in EXECUTOR.items():
            if hasattr(core.model_executor, name):
                self.replace(core.model_executor, name, functools.partial(self.run, scope=scope))
        if os.environ.get("PITOT_VLLM_SCOPES") == "1":
            use_own_scopes()

    def replace(self, owner: Any, name: str, make: Callable[[Any], Any]) -> None:
        """For this object, not for its class."""
        method = getattr(owner, name)
        setattr(owner, name, functools.wraps(method)(make(method)))
        self.replaced.append((owner, name))

    def call(self, what: str, *args: Any) -> None:
        """Records, and gives up if that fails."""
        if self.recording is None:
            return
        try:
            getattr(self.recording, what)(*args)
        except Exception:  # pylint: disable=broad-except # the server runs on
            _recorder.log().exception("Pitot records no more of this engine")
            self.recording = None
            for owner, name in self.replaced:
                delattr(owner, name)

    def schedule(self, method: Any) -> Any:
        scheduling = pitot.scope("schedule")

        def schedule(*args: Any, **options: Any) -> Any:
            with scheduling:
                output = method(*args, **options)
            self.call("scheduled", output)
            return output

        return schedule

    def update_from_output(self, method: Any) -> Any:
        updating = pitot.scope("update")

        def update_from_output(scheduler_output: Any, *args: Any, **options: Any) -> Any:
            with updating:
                outputs = method(scheduler_output, *args, **options)
            self.call("updated", scheduler_output, outputs)
            return outputs

        return update_from_output

    def finish_requests(self, method: Any) -> Any:
        def finish_requests(request_ids: Any, *args: Any, **options: Any) -> Any:
            names = request_ids if request_ids is None or isinstance(request_ids, str) else list(request_ids)
            self.call("ended", names)
            return method(names, *args, **options)

        return finish_requests

    def run(self, method: Any, scope: str) -> Any:
        """A call of the executor. Its result may be waited for later."""
        running = pitot.scope(scope)

        def run(*args: Any, **options: Any) -> Any:
            with running:
                result = method(*args, **options)
            if type(result) not in self.waits:
                self.waits.add(type(result))
                record_waits(type(result))
            return result

        return run


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
