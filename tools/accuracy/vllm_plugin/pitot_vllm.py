# SPDX-License-Identifier: Apache-2.0
"""Records a stock vLLM 0.25 (V1 engine) with Pitot, for the board: a plug-in that wraps methods of the engine from outside.

Does nothing without PITOT_VLLM_OUT, a folder. There, `ids.txt` has a line for each request, vLLM's id and Pitot's, and `kept` has the
files of each incident, as they were when it was judged (later the recorder folds equal ones). PITOT_VLLM_GAP_MS is the limit for the
time between two tokens. PITOT_VLLM_PARTS names what is recorded beside requests, of gpu, host, why and kernels (default: all but
kernels); "none": no recorder runs, and the methods are wrapped anyway.
"""

import functools
import os
import sys
import time
from pathlib import Path
from typing import Any, Callable, Dict

import pitot

KEPT = ('verdict.json', 'report.txt', 'dump.pitot')
ROUTE, EXECUTOR = '/generate', 'vllm step'
recorder: Any = None
counts = {'steps': 0, 'requests': 0, 'verdicts': 0, 'failed': 0}


def keep(incident: Any) -> None:
    """Keeps the files of an incident by links, which take some microseconds."""
    counts['verdicts' if incident.status else 'failed'] += 1
    if incident.directory is None:
        return
    source = Path(incident.directory)
    target = Path(os.environ['PITOT_VLLM_OUT']) / 'kept' / source.name
    target.mkdir(parents=True, exist_ok=True)
    for name in KEPT:
        if (source / name).exists() and not (target / name).exists():
            os.link(source / name, target / name)
    (target / 'judged.txt').write_text(f'{time.time()} {incident.again} {incident.status.message}\n', encoding='utf-8')


def start() -> None:
    """Starts the recorder of this process, before its first use of CUDA."""
    global recorder
    out, parts = os.environ.get('PITOT_VLLM_OUT'), os.environ.get('PITOT_VLLM_PARTS', 'gpu,host,why').split(',')
    if recorder is not None or not out or 'none' in parts:
        return
    recorder = pitot.start(Path(out) / 'incidents', process_name='vllm', gpu='gpu' in parts, max_incidents_per_cause_and_hour=1000,
                           log=lambda level, text: print('pitot:', text, file=sys.stderr, flush=True))
    said = {'start': recorder.status, 'tokens': recorder.add_tokens_trigger(gap_above_ms=float(os.environ.get('PITOT_VLLM_GAP_MS', '10')))}
    if 'host' in parts:
        said['host'] = recorder.add_host()
    if 'why' in parts:
        said['why'] = recorder.add_why()
    if 'kernels' in parts:
        said['cupti'], said['kernels'] = recorder.add_cupti(), recorder.set_depth(pitot.Depth.KERNELS)
    recorder.on_verdict(keep)
    for name, status in said.items():
        print('pitot_vllm:', name, 'ok' if status else tuple(status), file=sys.stderr, flush=True)


def wrap(owner: Any, name: str) -> Callable[[Any], None]:
    """Puts what the decorated function makes of a method in the method's place."""
    def decorate(make: Any) -> None:
        method = getattr(owner, name)
        setattr(owner, name, functools.wraps(method)(make(method)))
    return decorate


def register() -> None:
    """vLLM's entry point: in each of its processes, before the engine is made."""
    if not os.environ.get('PITOT_VLLM_OUT') or getattr(register, 'is_done', False):
        return
    register.is_done = True  # type: ignore[attr-defined]
    from vllm.v1.core.sched.scheduler import Scheduler
    from vllm.v1.engine import FinishReason
    from vllm.v1.engine.core import EngineCore
    from vllm.v1.executor.uniproc_executor import AsyncOutputFuture, UniProcExecutor

    outcomes = {FinishReason.ABORT: pitot.Outcome.CANCELLED, FinishReason.ERROR: pitot.Outcome.FAILED}
    requests: Dict[str, pitot.Request] = {}
    tokens: Dict[str, pitot.Token] = {}  # of the same requests
    silent: Dict[str, pitot.Request] = {}  # those without output so far
    steps: Dict[int, pitot.Batch] = {}  # by the scheduler's output; two at once, because vLLM schedules ahead
    begin_step, scheduling, updating = pitot.Batch.begin_step, pitot.scope('schedule'), pitot.scope('update')
    Path(os.environ['PITOT_VLLM_OUT']).mkdir(parents=True, exist_ok=True)
    ids = open(Path(os.environ['PITOT_VLLM_OUT']) / 'ids.txt', 'a', encoding='utf-8', buffering=1)

    def forget(name: str) -> Any:
        del tokens[name]
        silent.pop(name, None)
        return requests.pop(name)

    @wrap(EngineCore, '__init__')
    def _(method: Any) -> Any:
        def made(self: Any, *args: Any, **options: Any) -> None:
            start()
            method(self, *args, **options)
        return made

    @wrap(EngineCore, 'add_request')
    def _(method: Any) -> Any:
        def add_request(self: Any, request: Any, *args: Any, **options: Any) -> Any:
            counts['requests'] += 1
            name, one = request.request_id, pitot.Request(ROUTE)
            one.set_size('prompt tokens', request.num_prompt_tokens)
            one.stage('waiting')
            requests[name] = silent[name] = one
            tokens[name] = one.enqueue('waiting')
            ids.write(f'{name} {one.id:016x}\n')
            return method(self, request, *args, **options)
        return add_request

    @wrap(Scheduler, 'schedule')
    def _(method: Any) -> Any:
        def schedule(self: Any, *args: Any, **options: Any) -> Any:
            with scheduling:
                output = method(self, *args, **options)
            work = output.num_scheduled_tokens
            if work:
                counts['steps'] += 1
                names = work if work.keys() <= tokens.keys() else [name for name in work if name in tokens]
                steps[id(output)] = begin_step(EXECUTOR, list(map(tokens.__getitem__, names)), list(map(work.__getitem__, names)))
                for new in output.scheduled_new_reqs:
                    if new.req_id in requests:
                        requests[new.req_id].stage('prefill')
            return output
        return schedule

    wrap(UniProcExecutor, 'execute_model')(pitot.traced('execute'))
    wrap(UniProcExecutor, 'sample_tokens')(pitot.traced('sample'))

    @wrap(AsyncOutputFuture, 'result')
    def _(method: Any) -> Any:
        def result(self: Any, *args: Any, **options: Any) -> Any:
            with pitot.Wait(pitot.WaitKind.DEVICE, 'sampled tokens'):
                return method(self, *args, **options)
        return result

    @wrap(Scheduler, 'update_from_output')
    def _(method: Any) -> Any:
        def update_from_output(self: Any, scheduled: Any, *args: Any, **options: Any) -> Any:
            with updating:
                outputs = method(self, scheduled, *args, **options)
            emitting, emitted, finished = [], [], []
            for output in (one for of_client in outputs.values() for one in of_client.outputs):
                name = output.request_id
                token = tokens.get(name)
                if token is None:
                    continue
                if output.new_token_ids:
                    emitting.append(token)
                    emitted.append(len(output.new_token_ids))
                    if name in silent:
                        silent.pop(name).stage('decode')
                if output.finish_reason is not None:
                    finished.append((forget(name), outcomes.get(output.finish_reason, pitot.Outcome.OK)))
            step = steps.pop(id(scheduled), None)
            if step is None:
                pitot.emit_many(emitting, emitted)
            else:
                step.end_step(emitting, emitted)
            for request, outcome in finished:
                request.finish(outcome)
            return outputs
        return update_from_output

    @wrap(Scheduler, 'finish_requests')
    def _(method: Any) -> Any:
        def finish_requests(self: Any, names: Any, *args: Any, **options: Any) -> Any:
            names = [names] if isinstance(names, str) else names if names is None else list(names)
            for name in list(requests) if names is None else names:
                if name in requests:
                    forget(name).finish(pitot.Outcome.CANCELLED)
            return method(self, names, *args, **options)
        return finish_requests

    print('pitot_vllm: registered in process', os.getpid(), file=sys.stderr, flush=True)
