# SPDX-License-Identifier: Apache-2.0
"""Stands in for vLLM where there is no GPU: the classes that the plug-in wraps, as far as it and the driver use them.

A step sleeps for 1.5 ms, and 3 us for each token: that is its GPU. Like vLLM it schedules the next step before it waits for the last.
"""

import enum
import json
import sys
import time
import types
from typing import Any, Dict, List, Tuple

import driver

STEP_S, TOKEN_S, OVERLAP_S = 0.0015, 3e-6, 0.0003


class FinishReason(enum.IntEnum):
    STOP, LENGTH, ABORT, ERROR = range(4)


class Object(types.SimpleNamespace):
    """With the fields that it is made with."""


class Scheduler:
    def __init__(self) -> None:
        self.requests: Dict[str, Any] = {}
        self.scheduler_config, self.is_collecting = Object(long_prefill_token_threshold=0), False

    def schedule(self) -> Any:
        if self.is_collecting:
            self.is_collecting = False
            driver.collect()
        new = [Object(req_id=name) for name, one in self.requests.items() if one.is_new]
        tokens, most = {}, self.scheduler_config.long_prefill_token_threshold
        for name, one in self.requests.items():
            one.is_new = False
            if one.to_read > 0:
                tokens[name] = min(one.to_read, most or one.to_read)
                one.to_read -= tokens[name]
            elif one.ahead < one.tokens:
                tokens[name] = 1
            one.ahead += tokens.get(name, 0) > 0 and one.to_read == 0
        return Object(num_scheduled_tokens=tokens, total_num_scheduled_tokens=sum(tokens.values()), scheduled_new_reqs=new,
                      outputs=[name for name in tokens if self.requests[name].to_read == 0])

    def update_from_output(self, scheduled: Any, _: Any) -> Dict[int, Any]:
        outputs = []
        for name in scheduled.outputs:
            one = self.requests[name]
            one.left -= 1
            if one.left == 0:
                del self.requests[name]
            outputs.append(Object(request_id=name, new_token_ids=[1], finish_reason=FinishReason.LENGTH if one.left == 0 else None))
        return {0: Object(outputs=outputs)}

    def finish_requests(self, names: Any, _: Any) -> None:
        for name in list(self.requests) if names is None else names:
            self.requests.pop(name, None)


class AsyncOutputFuture:
    def __init__(self, until_s: float) -> None:
        self.until_s = until_s

    def result(self) -> None:
        time.sleep(max(0.0, self.until_s - time.monotonic()))


class UniProcExecutor:
    free_s = 0.0  # when the GPU has nothing more to do

    def execute_model(self, scheduled: Any) -> None:
        self.free_s = max(self.free_s, time.monotonic()) + STEP_S + TOKEN_S * scheduled.total_num_scheduled_tokens

    def sample_tokens(self) -> AsyncOutputFuture:
        return AsyncOutputFuture(self.free_s)


class EngineCore:
    def __init__(self) -> None:
        self.scheduler, self.executor = Scheduler(), UniProcExecutor()
        self.queue: List[Tuple[Any, Any]] = []

    def add_request(self, request: Any) -> None:
        self.scheduler.requests[request.request_id] = request

    def step(self) -> List[Any]:
        if self.scheduler.requests:
            scheduled = self.scheduler.schedule()
            self.executor.execute_model(scheduled)
            self.queue.append((self.executor.sample_tokens(), scheduled))
            if len(self.queue) < 2:
                return []
        if not self.queue:
            time.sleep(OVERLAP_S)
            return []
        future, scheduled = self.queue.pop(0)
        future.result()
        return self.scheduler.update_from_output(scheduled, None)[0].outputs


def install() -> None:
    """Makes the classes importable by vLLM's names."""
    names = {'vllm.v1.core.sched.scheduler': {'Scheduler': Scheduler}, 'vllm.v1.engine': {'FinishReason': FinishReason},
             'vllm.v1.engine.core': {'EngineCore': EngineCore},
             'vllm.v1.executor.uniproc_executor': {'AsyncOutputFuture': AsyncOutputFuture, 'UniProcExecutor': UniProcExecutor}}
    for path, fields in names.items():
        parts = path.split('.')
        for depth in range(1, len(parts) + 1):
            sys.modules.setdefault('.'.join(parts[:depth]), types.ModuleType('.'.join(parts[:depth])))
        vars(sys.modules[path]).update(fields)


class Engine:
    """What the driver calls."""

    def __init__(self) -> None:
        install()
        import pitot_vllm
        pitot_vllm.register()
        self.plugin, self.core, self.slow = pitot_vllm, EngineCore(), {}

    @property
    def is_collecting(self) -> bool:
        return self.core.scheduler.is_collecting

    @is_collecting.setter
    def is_collecting(self, value: bool) -> None:
        self.core.scheduler.is_collecting = value

    def add(self, name: str, prompt: List[int], tokens: int, **more: Any) -> None:
        self.slow[name] = 'prompt_logprobs' in more
        self.core.add_request(self.make(name, prompt, tokens))

    @staticmethod
    def make(name: str, prompt: List[int], tokens: int) -> Object:
        return Object(request_id=name, num_prompt_tokens=len(prompt), to_read=len(prompt), tokens=tokens, ahead=0, left=tokens, is_new=True)

    def step(self) -> List[Tuple[str, int, bool]]:
        outputs = [(one.request_id, len(one.new_token_ids), one.finish_reason is not None) for one in self.core.step()]
        for name, _, _ in outputs:
            if self.slow.pop(name, False):
                self.write_prompt_logprobs()
        return outputs

    @staticmethod
    def write_prompt_logprobs() -> None:
        end_s = time.monotonic() + 0.04
        while time.monotonic() < end_s:
            json.dumps(list(range(200)))

    def chunk(self, tokens: int) -> None:
        self.core.scheduler.scheduler_config.long_prefill_token_threshold = tokens

    def forget_kernels(self) -> None:
        self.core.executor.free_s = time.monotonic() + 0.05

    def recall_kernels(self) -> None:
        pass

    def make_matrices(self) -> None:
        pass

    def multiply(self, count: int) -> None:
        self.core.executor.free_s += 0.0005 * count

    def stop(self) -> Dict[str, Any]:
        recorder = self.plugin.recorder
        status = recorder.flush(30000)
        stats = recorder.stats()
        recorder.stop(10000)
        return {'flushed': str(status), 'counts': self.plugin.counts, 'stats': {name: str(value) for name, value in stats._asdict().items()}}
