# SPDX-License-Identifier: Apache-2.0
"""Stands in for vLLM without a GPU: the names searched by the plug-in, and objects like the engine's.

A step sleeps for 1.5 ms, and 3 us for each token: that is its GPU. Like vLLM it schedules the next step before it waits for the last.
"""

import concurrent.futures
import enum
import sys
import time
import types
from typing import Any, Callable, Dict, List, Set, Tuple

STEP_S, TOKEN_S, OVERLAP_S = 0.0015, 3e-6, 0.0003


class FinishReason(enum.IntEnum):
    STOP, LENGTH, ABORT, ERROR = range(4)


class Object(types.SimpleNamespace):
    """Has the fields given to it."""


def make_request(name: str, prompt: int, tokens: int, **more: Any) -> Object:
    return Object(**{'request_id': name, 'num_prompt_tokens': prompt, 'to_read': prompt, 'tokens': tokens, 'ahead': 0, 'left': tokens, 'is_new': True,
                     'cached': 0, 'arrival_time': time.time(), 'pooling_params': None, 'lora_request': None, 'trace_headers': None, 'ends': FinishReason.LENGTH, **more})


class Cache:
    def __init__(self, scheduler: 'Scheduler') -> None:
        self.scheduler = scheduler

    @property
    def usage(self) -> float:
        return len(self.scheduler.requests) / 128


class Scheduler:
    def __init__(self) -> None:
        self.requests: Dict[str, Any] = {}
        self.preempted: Set[str] = set()
        self.scheduler_config, self.kv_cache_manager = Object(long_prefill_token_threshold=0), Cache(self)
        self.before_step: Callable[[], None] = lambda: None

    def get_request_counts(self) -> Tuple[int, int]:
        waiting = sum(one.is_new for one in self.requests.values())
        return len(self.requests) - waiting, waiting

    def schedule(self) -> Any:
        self.before_step()
        new = [Object(req_id=name, num_computed_tokens=one.cached) for name, one in self.requests.items() if one.is_new]
        tokens, most = {}, self.scheduler_config.long_prefill_token_threshold
        preempted, self.preempted = self.preempted, set()
        for name, one in self.requests.items():
            one.is_new = False
            if name in preempted:
                one.to_read = one.num_prompt_tokens
                continue
            if one.to_read > 0:
                tokens[name] = min(one.to_read, most or one.to_read)
                one.to_read -= tokens[name]
            elif one.ahead < one.tokens:
                tokens[name] = 1
            one.ahead += tokens.get(name, 0) > 0 and one.to_read == 0
        return Object(num_scheduled_tokens=tokens, total_num_scheduled_tokens=sum(tokens.values()), scheduled_new_reqs=new,
                      preempted_req_ids=preempted, outputs=[name for name in tokens if self.requests[name].to_read == 0])

    def update_from_output(self, scheduler_output: Any, _: Any) -> Dict[int, Any]:
        outputs = []
        for name in scheduler_output.outputs:
            one = self.requests.get(name)
            if one is None:
                continue
            one.left -= 1
            if one.left == 0:
                del self.requests[name]
            outputs.append(Object(request_id=name, new_token_ids=[1], finish_reason=one.ends if one.left == 0 else None))
        return {0: Object(outputs=outputs)}

    def finish_requests(self, request_ids: Any, _: Any = None) -> None:
        for name in list(self.requests) if request_ids is None else request_ids:
            self.requests.pop(name, None)


class AsyncOutputFuture(concurrent.futures.Future):  # type: ignore[type-arg]
    def __init__(self, until_s: float) -> None:
        super().__init__()
        self.until_s = until_s

    def result(self, timeout: Any = None) -> None:
        time.sleep(max(0.0, self.until_s - time.monotonic()))


class Executor:
    def __init__(self, vllm_config: Any) -> None:
        self.vllm_config = vllm_config


class UniProcExecutor(Executor):
    free_s = 0.0  # the end of the GPU's work

    def execute_model(self, scheduler_output: Any) -> None:
        self.free_s = max(self.free_s, time.monotonic()) + STEP_S + TOKEN_S * scheduler_output.total_num_scheduled_tokens

    def sample_tokens(self) -> AsyncOutputFuture:
        return AsyncOutputFuture(self.free_s)


class EngineCore:
    def __init__(self, world_size: int = 1) -> None:
        self.model_executor = UniProcExecutor(Object(parallel_config=Object(data_parallel_rank=0, world_size=world_size)))
        self.scheduler = Scheduler()
        self.queue: List[Tuple[Any, Any]] = []

    def add_request(self, request: Any, request_wave: int = 0) -> None:
        self.scheduler.requests[request.request_id] = request

    def step(self) -> List[Any]:
        if self.scheduler.requests:
            scheduled = self.scheduler.schedule()
            self.model_executor.execute_model(scheduled)
            self.queue.append((self.model_executor.sample_tokens(), scheduled))
            if len(self.queue) < 2:
                return []
        if not self.queue:
            time.sleep(OVERLAP_S)
            return []
        future, scheduled = self.queue.pop(0)
        future.result()
        return list(self.scheduler.update_from_output(scheduled, None)[0].outputs)


class OutputProcessor:
    """Belongs to the process in front of the engine."""

    def __init__(self, tracing_enabled: bool = False) -> None:
        self.request_states: Dict[str, Any] = {}
        self.tracing_enabled = tracing_enabled

    def add_request(self, request: Any, prompt: Any = None) -> None:
        self.request_states[request.request_id] = request

    def process_outputs(self, engine_core_outputs: List[Any], _: Any = None) -> None:
        for output in engine_core_outputs:
            if output.finish_reason is not None or output.new_token_ids == ['stop string']:
                self.request_states.pop(output.request_id, None)

    def abort_requests(self, request_ids: Any, internal: bool) -> List[str]:
        return [name for name in request_ids if self.request_states.pop(name, None) is not None]


NAMES: Dict[str, Dict[str, Any]] = {'vllm.v1.engine.core': {'EngineCore': EngineCore}, 'vllm.v1.executor.abstract': {'Executor': Executor},
                                    'vllm.v1.engine.output_processor': {'OutputProcessor': OutputProcessor}}


def install() -> None:
    """Makes the classes importable by vLLM's names."""
    for path, fields in NAMES.items():
        parts = path.split('.')
        for depth in range(1, len(parts) + 1):
            sys.modules.setdefault('.'.join(parts[:depth]), types.ModuleType('.'.join(parts[:depth])))
        vars(sys.modules[path]).update(fields)
