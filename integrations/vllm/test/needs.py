#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Imports the engine of a vLLM, and prints the plug-in's needs as JSON, each true or false.

usage: needs.py FOLDER

Names in brackets may be missing: the plug-in then records less. Modules not found are replaced by ones with every name.
"""

import importlib
import importlib.abc
import importlib.machinery
import importlib.metadata
import inspect
import json
import os
import sys
import types
from pathlib import Path
from typing import Any

VERSION = '9.9.9'
real_version = importlib.metadata.version
REPLACED = ('vllm.platforms', 'vllm.env_override', 'vllm.ir', 'vllm.model_executor.layers.fused_moe')  # they look for devices and define kernels


OPERATORS = [f'__{right}{name}__' for name in ('add', 'sub', 'mul', 'truediv', 'floordiv', 'mod', 'pow', 'or', 'and') for right in ('', 'r')]
ITSELF = dict.fromkeys((*OPERATORS, '__neg__', '__getitem__', '__setitem__', '__enter__'), lambda self, *_: self)
IS_LESS = {**dict.fromkeys(('__lt__', '__le__'), lambda *_: False), **dict.fromkeys(('__gt__', '__ge__'), lambda *_: True)}


def attribute(_: Any, name: str) -> Any:
    if name.startswith('__'):
        raise AttributeError(name)
    return anything(name)


# A class with every attribute. It and its objects may be called, subscripted and inherited from.
Anything = type('Anything', (type,), {**ITSELF, **IS_LESS, '__getattr__': attribute, '__iter__': lambda self: iter(())})


def anything(name: str) -> Any:
    def call(_: Any, *args: Any, **options: Any) -> Any:
        return args[0] if len(args) == 1 and callable(args[0]) and not options else anything(name)()  # as a decorator does

    return Anything(name, (), {**ITSELF, **IS_LESS, '__init__': lambda self, *_, **__: None, '__call__': call, '__module__': 'anything',
                               '__getattr__': lambda self, field: attribute(self, field)(), '__exit__': lambda *_: None,
                               '__iter__': lambda self: iter(()), '__init_subclass__': lambda *_, **__: None,
                               '__mro_entries__': lambda self, bases: (type(self),), '__index__': lambda self: 1,
                               '__get_pydantic_core_schema__': classmethod(any_schema)})


def any_schema(*_: Any) -> Any:
    return importlib.import_module('pydantic_core.core_schema').any_schema()


def version_of(name: str) -> str:
    try:
        return real_version(name)
    except importlib.metadata.PackageNotFoundError:
        return VERSION


class Module(types.ModuleType):
    def __getattr__(self, name: str) -> Any:
        if name.startswith('__') and name != '__version__':
            raise AttributeError(name)
        made = VERSION if name == '__version__' else anything(name)
        setattr(self, name, made)
        return made


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """The last one, so that real modules win."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        top = name.split('.')[0]
        is_missing = '_C' in name if top == 'vllm' else top not in sys.stdlib_module_names
        return importlib.machinery.ModuleSpec(name, self, is_package=True) if is_missing or name.startswith(REPLACED) else None

    def create_module(self, spec: Any) -> Any:
        module = Module(spec.name)
        module.__path__ = []
        return module

    def exec_module(self, module: Any) -> None:
        pass


def get(path: str) -> Any:
    module, _, name = path.partition(':')
    found = importlib.import_module(module)
    for part in name.split('.'):
        found = getattr(found, part)
    return found


def has(path: str) -> bool:
    try:
        get(path)
        return True
    except AttributeError:
        return False


def records_a_step(path: str) -> bool:
    """Whether vLLM's own request, step and output are recorded."""
    recording = get('pitot.vllm._recording:Recording')(None)
    engine = importlib.import_module('vllm.v1.engine')
    request = get('vllm.v1.request:Request')(**accepted(get('vllm.v1.request:Request'), {
        'request_id': 'a', 'prompt_token_ids': [1, 2, 3], 'sampling_params': get('vllm.sampling_params:SamplingParams')(max_tokens=1),
        'pooling_params': None, 'eos_token_id': None, 'arrival_time': 1.0}))
    step = filled(path, num_scheduled_tokens={'a': 2, 'stranger': 1}, scheduled_new_reqs=[
        filled('vllm.v1.core.sched.output:NewRequestData', req_id='a', num_computed_tokens=1)])
    output = engine.EngineCoreOutput(request_id='a', new_token_ids=[7], finish_reason=engine.FinishReason.ABORT)
    recording.arrived(request)
    recording.scheduled(step)
    is_begun = list(recording._requests) == ['a'] and len(recording._steps) == 1
    recording.updated(step, {0: engine.EngineCoreOutputs(outputs=[output])})
    return is_begun and not recording._requests and not recording._steps


def filled(path: str, **values: Any) -> Any:
    """An object of a data class with these fields alone. Raises AttributeError if the class has not all of them."""
    kind = get(path)
    made = object.__new__(kind)
    for name, value in values.items():
        if name not in vars(kind)['__annotations__']:
            raise AttributeError(f'{path} has no field {name}')
        setattr(made, name, value)
    return made


def accepted(function: Any, arguments: 'dict[str, Any]') -> 'dict[str, Any]':
    names = inspect.signature(function).parameters
    return {name: value for name, value in arguments.items() if name in names}


def main() -> None:
    sys.path.insert(0, sys.argv[1])
    sys.meta_path.append(Finder())
    importlib.metadata.version = version_of
    for name in (*REPLACED, 'pitot'):
        sys.modules[name] = Finder().create_module(importlib.machinery.ModuleSpec(name, None))
    sys.modules['pitot'].__path__ = [str(Path(__file__).resolve().parents[1] / 'pitot')]
    hooks = importlib.import_module('pitot.vllm._hooks')
    scheduler, output = 'vllm.v1.core.sched.scheduler:Scheduler', 'vllm.v1.core.sched.output'
    needs = {path: has(path) for path in (hooks.ADD_REQUEST, hooks.MAKE_EXECUTOR, 'vllm.v1.executor.abstract:Executor.execute_model',
                                          *(f'{scheduler}.{name}' for name in hooks.SCHEDULER))}
    needs['a step'] = records_a_step(f'{output}:SchedulerOutput') if all(needs.values()) else False
    needs['(sample_tokens)'] = has('vllm.v1.executor.abstract:Executor.sample_tokens')
    needs['(preempted_req_ids)'] = 'preempted_req_ids' in vars(get(f'{output}:SchedulerOutput'))['__annotations__']
    needs['(get_request_counts)'] = has(f'{scheduler}.get_request_counts')
    needs['(KVCacheManager.usage)'] = has('vllm.v1.core.kv_cache_manager:KVCacheManager.usage')
    needs['(own scopes)'] = has('vllm.v1.utils:record_function_or_nullcontext') and has('vllm.v1.utils:_PROFILER_FUNC')
    server = hooks._server
    needs['(server)'] = all(has(f'{server.OUTPUTS}.{name}') for name in server.METHODS) and 'trace_headers' in vars(
        get('vllm.v1.engine:EngineCoreRequest'))['__annotations__']
    print(json.dumps(needs))
    sys.stdout.flush()
    os._exit(0)  # threads of vLLM


if __name__ == '__main__':
    main()
