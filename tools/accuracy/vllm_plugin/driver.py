#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Drives a vLLM engine for the board: decoding load, faults at random moments in a random order, and a log of the truth.

Writes OUT/faults.jsonl, a line for each fault and each quiet stretch, as soon as it is over: when it struck, the requests that are
guilty (vLLM's ids), how long the worst gap between two tokens of the load was, and how long it usually is. It is measured here, where
the engine's outputs arrive.
"""

import argparse
import asyncio
import gc
import itertools
import json
import os
import queue
import random
import statistics
import sys
import tempfile
import threading
import time
import traceback
from pathlib import Path
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Tuple

WIDTHS = (8, 16)  # requests that decode at once
PROMPT, ANSWERS = 128, (150, 450)  # tokens of the load's requests
LONG, CHUNK = 8192, 4096
NEW_LENGTHS = (4500, 5200, 6100, 7000, 7700, 9500)  # prompts of a length not met before
HEAP = 200_000  # dictionaries on the heap, for collections to visit beside vLLM's own objects
BURST, BURST_PROMPT = 40, 400
MATMULS, MATRIX = 40, 8192
EFFECT_S, LEAD_S = 1.5, 1.0  # after a fault its effect is looked for, before it the usual is measured
PAUSES_S = (2.4, 3.4)  # between faults
WARM_UP_S, QUIET_S = 10, 20
ENGINE = {'model': '/tmp/model', 'load_format': 'dummy', 'skip_tokenizer_init': True, 'dtype': 'bfloat16', 'max_model_len': 10240,
          'kv_cache_memory_bytes': 4 << 30, 'max_num_seqs': 128, 'gpu_memory_utilization': 0.1, 'disable_log_stats': True,
          'enable_prefix_caching': False, 'max_num_batched_tokens': 16384, 'seed': 1}

TRIGGERS = {'PITOT_VLLM_GAP_MS': '10', 'PITOT_VLLM_FIRST_TOKEN_MS': '1000000'}  # the second: none

Output = Tuple[str, int, bool]  # a request's id, how many tokens, whether it is over


class Gap(NamedTuple):
    end_ns: int
    ms: float
    request: str


class Truth:
    """What the load's requests saw, and the log."""

    def __init__(self, path: Path) -> None:
        self.log = open(path, 'a', encoding='utf-8', buffering=1)
        self.last: Dict[str, int] = {}  # when a request's last token came
        self.gaps: List[Gap] = []

    def saw(self, request: str, is_over: bool) -> None:
        now_ns = time.monotonic_ns()
        if request in self.last:
            self.gaps.append(Gap(now_ns, (now_ns - self.last[request]) / 1e6, request))
        self.last[request] = now_ns
        if is_over:
            del self.last[request]

    def write(self, kind: str, at_ns: int, typical_ms: float, **more: Any) -> None:
        """The gaps that ended since `at_ns` are the effect."""
        after = [gap for gap in self.gaps if gap.end_ns > at_ns]
        worst = max(after, key=lambda gap: gap.ms, default=Gap(at_ns, 0, ''))
        real_ns = time.time_ns() - time.monotonic_ns()
        line = {'fault': kind, 'at_s': (at_ns + real_ns) / 1e9, 'worst_at_s': (worst.end_ns + real_ns) / 1e9, 'typical_ms': round(typical_ms, 3),
                'worst_ms': round(worst.ms, 3), 'worst_request': worst.request, 'late': sum(gap.ms > typical_ms + 10 for gap in after), **more}
        self.log.write(json.dumps(line) + '\n')
        print('driver:', json.dumps(line), flush=True)

    def typical_ms(self) -> float:
        return statistics.median([gap.ms for gap in self.gaps]) if self.gaps else 0.0


# ---- Faults of the process

def crunch(until_s: float) -> None:
    count = 0
    while time.monotonic() < until_s:
        count += 1


class Helper(threading.Thread):
    """Another thread of the process. It is there before it has work, because the start of a thread waits for it."""

    def __init__(self, name: str) -> None:
        super().__init__(name=name, daemon=True)
        self.jobs: 'queue.SimpleQueue[Callable[[], None]]' = queue.SimpleQueue()
        self.start()

    def run(self) -> None:
        while True:
            self.jobs.get()()


def pause_between() -> None:
    time.sleep(0.1)


def collect() -> None:
    """A full collection of all that is frozen otherwise, or long ones would come at other times, too."""
    gc.unfreeze()
    gc.collect()
    gc.freeze()


# ---- Engines

class Stock:
    """vLLM in this process."""

    def __init__(self) -> None:
        import torch
        from vllm import SamplingParams
        from vllm.engine.arg_utils import EngineArgs
        from vllm.sampling_params import RequestOutputKind
        from vllm.v1.engine.llm_engine import LLMEngine
        self.torch, self.options, self.delta = torch, SamplingParams, RequestOutputKind.DELTA
        self.engine = LLMEngine.from_engine_args(EngineArgs(**ENGINE))
        self.core = self.engine.engine_core.engine_core
        self.matrices: List[Any] = []
        self.kernels: List[Tuple[Any, Dict[int, Any]]] = []  # functions of Triton, and what was compiled of them by device
        manager = self.core.scheduler.kv_cache_manager
        self.starts, self.is_collecting = manager.new_step_starts, False
        manager.new_step_starts = self.step_starts

    def step_starts(self) -> Any:
        """In the scheduler."""
        if self.is_collecting:
            self.is_collecting = False
            collect()
        return self.starts()

    def add(self, name: str, prompt: List[int], tokens: int, **more: Any) -> None:
        options = self.options(max_tokens=tokens, ignore_eos=True, detokenize=False, output_kind=self.delta, **{'temperature': 0.0, **more})
        self.engine.add_request(name, {'prompt_token_ids': prompt}, options)

    def step(self) -> List[Output]:
        return [(one.request_id, sum(len(part.token_ids) for part in one.outputs), one.finished) for one in self.engine.step()]

    def chunk(self, tokens: int) -> None:
        """Prompts are read in pieces of so many tokens; 0: whole."""
        self.core.scheduler.scheduler_config.long_prefill_token_threshold = tokens

    def forget_kernels(self) -> None:
        """The kernels of logprobs are compiled anew at their next use."""
        import triton
        from vllm.v1.worker.gpu.sample import logprob
        triton.knobs.cache.dir = tempfile.mkdtemp(prefix='triton-')
        for function in vars(logprob).values():
            if isinstance(function, triton.runtime.jit.JITFunction):
                self.kernels.append((function, {device: cached[0] for device, cached in function.device_caches.items()}))
                function.device_caches.clear()

    def recall_kernels(self) -> None:
        """Or those for other shapes would be compiled anew in another fault."""
        for function, compiled in self.kernels:
            for device, kernels in compiled.items():
                for key, kernel in kernels.items():
                    function.device_caches[device][0].setdefault(key, kernel)
        self.kernels.clear()

    def make_matrices(self) -> None:
        if not self.matrices:
            self.matrices = [self.torch.randn(MATRIX, MATRIX, device='cuda', dtype=self.torch.bfloat16) for _ in range(3)]
            self.multiply(1)

    def multiply(self, count: int) -> None:
        stream = self.torch.cuda.Stream()
        with self.torch.cuda.stream(stream):
            for _ in range(count):
                self.torch.mm(self.matrices[0], self.matrices[1], out=self.matrices[2])
        stream.synchronize()

    def stop(self) -> Dict[str, Any]:
        return stop_recorder()


def stop_recorder() -> Dict[str, Any]:
    """Its statistics. None runs: {}."""
    import pitot.vllm
    recorder = pitot.vllm.recorder()
    if recorder is None:
        return {}
    status = recorder.flush(30000)
    stats = recorder.stats()
    recorder.stop(10000)
    return {'flushed': str(status), 'stats': {name: str(value) for name, value in stats._asdict().items()}}


# ---- Load and faults

class Driver:
    """Keeps `width` requests decoding, and strikes."""

    def __init__(self, engine: Any, truth: Truth, seed: int, until_s: float) -> None:
        self.engine, self.truth, self.random, self.until_s = engine, truth, random.Random(seed), until_s
        self.width, self.load = WIDTHS[0], set()
        self.numbers = itertools.count(1)
        self.heap: List[Any] = []
        self.reports, self.embedder = [Helper(f'report-{number}') for number in range(2)], Helper('embedder')
        self.words = [self.random.randrange(10, 31000) for _ in range(4 * LONG)]
        self.lengths = list(NEW_LENGTHS)
        self.random.shuffle(self.lengths)
        self.strikes: Dict[str, Callable[[], Optional[List[str]]]] = {
            'prompt_warm': lambda: self.ask('g', LONG, 8), 'prompt_chunked': self.strike_chunked, 'prompt_new': self.strike_new,
            'matmuls': self.strike_matmuls, 'gc_in_schedule': self.strike_collection, 'gc_between': collect, 'gil': self.strike_lock,
            'prompt_logprobs': lambda: self.ask('g', 2048, 4, prompt_logprobs=20), 'logprobs_jit': self.strike_logprobs, 'sleep': pause_between,
            'burst': lambda: [name for _ in range(BURST) for name in self.ask('g', BURST_PROMPT, 8)]}

    def ask(self, kind: str, prompt: int, tokens: int, **more: Any) -> List[str]:
        name = f'{kind}{next(self.numbers)}'
        begin = self.random.randrange(2 * LONG)  # cut out, because drawing a long prompt would hold up the engine
        self.engine.add(name, self.words[begin:begin + prompt], tokens, **more)
        return [name]

    def strike_chunked(self) -> List[str]:
        self.engine.chunk(CHUNK)
        return self.ask('g', LONG, 8)

    def strike_new(self) -> List[str]:
        return self.ask('g', self.lengths.pop() if self.lengths else LONG, 8)

    def strike_matmuls(self) -> None:
        self.embedder.jobs.put(lambda: self.engine.multiply(MATMULS))

    def strike_lock(self) -> None:
        until_s = time.monotonic() + 0.4
        for one in self.reports:
            one.jobs.put(lambda: crunch(until_s))

    def strike_collection(self) -> None:
        self.engine.is_collecting = True

    def strike_logprobs(self) -> List[str]:
        self.engine.forget_kernels()
        return self.ask('g', PROMPT, 32, logprobs=20, n=8, temperature=0.8, seed=3)

    def serve(self, seconds: float) -> None:
        end_s = time.monotonic() + seconds
        while time.monotonic() < end_s:
            if len(self.load) < self.width:
                self.load |= set(self.ask('load', PROMPT, self.random.randint(*ANSWERS)))
            for name, tokens, is_over in self.engine.step():
                if name in self.load and tokens:
                    self.truth.saw(name, is_over)
                if is_over:
                    self.load.discard(name)

    def quiet(self, seconds: float) -> None:
        at_ns = time.monotonic_ns()
        self.truth.gaps.clear()
        self.serve(min(seconds, max(0.0, self.until_s - time.monotonic())))
        self.truth.write('none', at_ns, self.truth.typical_ms(), width=self.width, seconds=(time.monotonic_ns() - at_ns) / 1e9)

    def strike(self, kind: str) -> None:
        self.serve(self.random.uniform(*PAUSES_S) - LEAD_S - EFFECT_S)
        self.truth.gaps.clear()
        self.serve(LEAD_S)
        typical_ms, at_ns = self.truth.typical_ms(), time.monotonic_ns()
        guilty = self.strikes[kind]()
        took_ms = (time.monotonic_ns() - at_ns) / 1e6
        self.serve(EFFECT_S)
        self.truth.write(kind, at_ns, typical_ms, width=self.width, guilty=guilty or [], took_ms=round(took_ms, 3))
        self.engine.chunk(0)
        self.engine.recall_kernels()

    def warm_up(self) -> None:
        self.engine.make_matrices()
        gc.disable()
        self.heap.extend({'a': [i], 'b': (i, str(i))} for i in range(HEAP))
        gc.freeze()
        gc.enable()
        for self.width in reversed(WIDTHS):
            for _ in range(4):
                self.serve(0.3)
                self.ask('warm', LONG, 8)
            self.serve(0.3)
            self.ask('warm', 2048, 4, prompt_logprobs=20)
            self.serve(WARM_UP_S / 2 - 1)

    def run(self, each: int, only: Optional[List[str]] = None) -> None:
        self.warm_up()
        self.quiet(QUIET_S)
        for number, self.width in enumerate(WIDTHS):
            order = [kind for kind in only or self.strikes for _ in range(each // len(WIDTHS))]
            self.random.shuffle(order)
            for kind in order:
                if time.monotonic() > self.until_s:
                    print('driver: no time for', kind, flush=True)
                    continue
                try:
                    self.strike(kind)
                except Exception:  # pylint: disable=broad-except # the others are still to be struck
                    traceback.print_exc()
            self.quiet(QUIET_S)


async def drive_async(truth: Truth, seed: int, until_s: float, each: int) -> Dict[str, Any]:
    """AsyncLLM, as `vllm serve` has it, with the engine in a process of its own: faults of requests alone."""
    from vllm import SamplingParams
    from vllm.engine.arg_utils import AsyncEngineArgs
    from vllm.sampling_params import RequestOutputKind
    from vllm.v1.engine.async_llm import AsyncLLM
    engine = AsyncLLM.from_engine_args(AsyncEngineArgs(**ENGINE))
    draws, numbers, is_over = random.Random(seed), itertools.count(1), False
    words = [draws.randrange(10, 31000) for _ in range(4 * LONG)]

    async def ask(name: str, prompt: int, tokens: int) -> None:
        options = SamplingParams(max_tokens=tokens, ignore_eos=True, temperature=0.0, detokenize=False, output_kind=RequestOutputKind.DELTA)
        begin = draws.randrange(2 * LONG)
        async for output in engine.generate({'prompt_token_ids': words[begin:begin + prompt]}, options, name):
            if name.startswith('load') and any(part.token_ids for part in output.outputs):
                truth.saw(name, output.finished)

    async def stream() -> None:
        while not is_over:
            await ask(f'load{next(numbers)}', PROMPT, draws.randint(*ANSWERS))

    load = [asyncio.ensure_future(stream()) for _ in range(WIDTHS[0])]
    for _ in range(4):
        await asyncio.sleep(0.5)
        await ask(f'warm{next(numbers)}', LONG, 8)
    await asyncio.sleep(WARM_UP_S)
    lengths = list(NEW_LENGTHS)
    strikes = {'prompt_warm': (1, LONG), 'prompt_new': (1, None), 'burst': (BURST, BURST_PROMPT)}
    order = [kind for kind in strikes for _ in range(each)]
    draws.shuffle(order)
    for kind in order:
        if time.monotonic() > until_s:
            break
        truth.gaps.clear()
        await asyncio.sleep(draws.uniform(*PAUSES_S) - EFFECT_S)
        typical_ms, at_ns, (count, prompt) = truth.typical_ms(), time.monotonic_ns(), strikes[kind]
        length = prompt or (lengths.pop() if lengths else LONG)
        guilty = [f'g{next(numbers)}' for _ in range(count)]
        struck = [asyncio.ensure_future(ask(name, length, 8)) for name in guilty]
        await asyncio.sleep(EFFECT_S)
        truth.write(kind, at_ns, typical_ms, width=WIDTHS[0], guilty=guilty)
        await asyncio.gather(*struck)
    is_over = True
    await asyncio.wait(load, timeout=10)
    await asyncio.sleep(3)  # for the last verdict
    engine.shutdown()
    return {}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--engine', choices=('inprocess', 'async', 'fake'), default='inprocess')
    parser.add_argument('--out', type=Path, required=True)
    parser.add_argument('--seed', type=int, default=1)
    parser.add_argument('--each', type=int, default=6, help='how often each fault strikes')
    parser.add_argument('--only', action='append', metavar='FAULT', help='of an engine in this process, only these faults')
    parser.add_argument('--until-s', type=float, default=400, help='strike no more this many seconds after the start')
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    os.environ.update({'PITOT_BOARD_OUT': str(options.out), 'PITOT_INCIDENT_DIRECTORY': str(options.out / 'incidents'), **TRIGGERS})
    truth, until_s = Truth(options.out / 'faults.jsonl'), time.monotonic() + options.until_s
    try:
        if options.engine == 'async':
            ended = asyncio.run(drive_async(truth, options.seed, until_s, options.each))
        else:
            if options.engine == 'fake':
                import fake_engine
                engine = fake_engine.Engine()
            else:
                engine = Stock()
            print('driver: ready', flush=True)
            Driver(engine, truth, options.seed, until_s).run(options.each, options.only)
            ended = engine.stop()
        (options.out / 'end.json').write_text(json.dumps(ended, indent=1), encoding='utf-8')
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(0)  # vLLM's own end takes long


if __name__ == '__main__':
    main()
