#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compilation at run time in the Python package: torch.compile and Triton, as themselves or as modules with their functions.

Environment: PITOT_LIBRARY
"""

import contextlib
import enum
import faulthandler
import importlib.util
import os
import subprocess
import sys
import tempfile
import types
import unittest
import unittest.mock

HERE = os.path.dirname(os.path.abspath(__file__))
PACKAGE = os.path.join(os.path.dirname(os.path.dirname(HERE)), "bindings", "python")
sys.path.insert(0, PACKAGE)

import pitot  # noqa: E402
from pitot import _compile, _library, _record  # noqa: E402

FILE = os.path.basename(__file__)


class Trigger(enum.Enum):
    DYNAMO = 1
    CUDAGRAPH_RECORDING = 4


class Handler:
    """As torch._dynamo.callback.CompilationCallbackHandler."""

    @contextlib.contextmanager
    def install_callbacks(self, trigger, compile_id):
        yield compile_id


class JITFunction:
    """As triton.runtime.jit.JITFunction."""

    def __init__(self, fn):
        self.fn = fn

    def _do_compile(self, key):
        if key is None:
            raise KeyError("no key")
        return f"{self.fn.__name__} for {key}"


class CompiledKernel:
    def __init__(self, name):
        self.name, self.module, self.calls = name, None, 0

    def _init_handles(self):
        self.calls += 1
        self.module = object()


class Autotuner:
    """As triton.runtime.autotuner.Autotuner."""

    def __init__(self, fn):
        self.base_fn = fn

    def _bench(self, *args, config, **meta):
        return args, config, meta


class CachingAutotuner:
    """As torch._inductor.runtime.triton_heuristics.CachingAutotuner."""

    def __init__(self, name):
        self.inductor_meta = {"kernel_name": name}

    def benchmark_all_configs(self, *args):
        return args


def _topk_kernel():
    pass


class Compilation(unittest.TestCase):
    def setUp(self):
        self.handler = Handler()
        modules = {
            "torch._dynamo.callback": types.SimpleNamespace(callback_handler=self.handler),
            "triton.runtime.jit": types.SimpleNamespace(JITFunction=JITFunction),
            "triton.compiler.compiler": types.SimpleNamespace(CompiledKernel=CompiledKernel),
            "triton.runtime.autotuner": types.SimpleNamespace(Autotuner=Autotuner),
            "torch._inductor.runtime.triton_heuristics": types.SimpleNamespace(CachingAutotuner=CachingAutotuner),
        }
        patch = unittest.mock.patch.dict(sys.modules, modules)
        patch.start()
        self.addCleanup(patch.stop)
        self.seen, names = [], {}
        self.patch(_record, "evidence_name", lambda text, _rough: names.setdefault(len(names), text) and len(names) - 1)
        self.patch(_library, "scope_begin", lambda name: self.seen.append(names[name]))
        self.patch(_library, "scope_end", lambda: self.seen.append("end"))
        self.compilations = _compile.Compilations()
        self.compilations.install()
        self.addCleanup(self.compilations.remove)

    def patch(self, *args):
        patch = unittest.mock.patch.object(*args)
        patch.start()
        self.addCleanup(patch.stop)

    def test_a_function_compiled_by_dynamo_is_named(self):
        def compile_inner(code):
            with contextlib.ExitStack() as stack:
                self.assertEqual(stack.enter_context(self.handler.install_callbacks(Trigger.DYNAMO, "0/0")), "0/0")
                self.seen.append("compiles")

        compile_inner(_topk_kernel.__code__)
        line = _topk_kernel.__code__.co_firstlineno
        self.assertEqual(self.seen, [f"compile: _topk_kernel ({FILE}:{line})", "compiles", "end"])

    def test_other_reasons_of_dynamo_have_their_name_and_number(self):
        with self.handler.install_callbacks(Trigger.CUDAGRAPH_RECORDING, "1/0"):
            pass
        self.assertEqual(self.seen, ["compile: cudagraph recording 1/0", "end"])

    def test_a_compilation_that_fails_ends(self):
        with self.assertRaises(KeyError):
            JITFunction(_topk_kernel)._do_compile(None)
        with self.assertRaises(ValueError), self.handler.install_callbacks(Trigger.DYNAMO, "0/0"):
            raise ValueError
        self.assertEqual(self.seen[1::2], ["end", "end"])

    def test_kernels_of_triton_and_their_autotuning_are_named(self):
        self.assertEqual(JITFunction(_topk_kernel)._do_compile(7), "_topk_kernel for 7")
        self.assertEqual(Autotuner(_topk_kernel)._bench(1, config=2, BLOCK=3), ((1,), 2, {"BLOCK": 3}))
        self.assertEqual(CachingAutotuner("triton_poi_0").benchmark_all_configs(1), (1,))
        self.assertEqual(self.seen[::2], ["compile: Triton kernel _topk_kernel", "compile: autotuning of _topk_kernel",
                                          "compile: autotuning of triton_poi_0"])

    def test_the_launcher_of_a_triton_kernel_is_named_once(self):
        kernel = CompiledKernel("_topk_kernel")
        kernel._init_handles()
        kernel._init_handles()
        self.assertEqual(self.seen, ["compile: launcher of Triton kernel _topk_kernel", "end"])
        self.assertEqual(kernel.calls, 2)

    def test_an_object_with_other_attributes_is_still_compiled(self):
        self.assertEqual(JITFunction._do_compile(types.SimpleNamespace(fn=types.SimpleNamespace(__name__="f")), 1), "f for 1")
        with self.assertRaises(AttributeError):  # of the original
            JITFunction._do_compile(object(), 1)
        self.assertEqual(self.seen, ["compile: Triton kernel f", "end", "compile: code", "end"])

    def test_everything_is_as_before_after_the_end(self):
        self.assertEqual(JITFunction._do_compile.__module__, __name__)
        self.compilations.remove()
        self.compilations.install()
        JITFunction(_topk_kernel)._do_compile(7)
        with self.handler.install_callbacks(Trigger.DYNAMO, "0/0"):
            pass
        self.assertEqual(self.seen, [])
        self.assertEqual(vars(self.handler), {})

    def test_a_function_around_ours_stays(self):
        ours = JITFunction._do_compile
        self.addCleanup(setattr, JITFunction, "_do_compile", ours)
        JITFunction._do_compile = others = lambda self, key: ours(self, key)
        self.compilations.remove()
        self.assertIs(JITFunction._do_compile, others)

    def test_a_library_without_the_function_is_logged_once(self):
        compilations = _compile.Compilations()
        with unittest.mock.patch.dict(sys.modules, {"triton.runtime.jit": types.SimpleNamespace(JITFunction=Autotuner)}), \
                self.assertLogs("pitot", "INFO") as logged:
            compilations.install()
            compilations.install()
        compilations.remove()
        self.assertEqual(logged.output, ["INFO:pitot:compile.not_recorded: triton.runtime.jit has no JITFunction._do_compile"])

    def test_a_module_whose_import_is_under_way_is_wrapped_later(self):
        module = types.SimpleNamespace()
        compilations = _compile.Compilations()
        self.addCleanup(compilations.remove)
        with unittest.mock.patch.dict(sys.modules, {"torch._dynamo.callback": module}):
            compilations.install()
            module.callback_handler = Handler()
            compilations.install()
            self.assertIn("install_callbacks", vars(module.callback_handler))


class WithRecorder(unittest.TestCase):
    def test_the_option_switches_it_off(self):
        for options, is_on in (({}, True), ({"compilation": False}, False)):
            module = types.SimpleNamespace(callback_handler=Handler())
            with unittest.mock.patch.dict(sys.modules, {"torch._dynamo.callback": module}), pitot.start(**options):
                self.assertEqual("install_callbacks" in vars(module.callback_handler), is_on)

    @unittest.skipUnless(importlib.util.find_spec("torch"), "PyTorch is not installed")
    def test_torch_compile_is_recorded_with_its_function(self):
        code = f"""
import sys, time
sys.path.insert(0, {PACKAGE!r})
import pitot
recorder = pitot.start(sys.argv[1], post_window_ms=0, perfetto_file=True)
incidents = []
recorder.on_incident(incidents.append)
import torch
import torch._dynamo
deadline = time.monotonic() + 60
while "install_callbacks" not in vars(torch._dynamo.callback.callback_handler):
    assert time.monotonic() < deadline
    time.sleep(0.01)
def double_it(x):
    return x * 2
with pitot.Request("/compiled"):
    assert torch.compile(double_it, backend="eager")(torch.ones(2)).sum() == 4
recorder.trigger("look")
recorder.flush()
print(incidents[-1].directory)
"""
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run([sys.executable, "-c", code, folder], capture_output=True, text=True, check=False)
            self.assertEqual(done.returncode, 0, done.stderr)
            with open(os.path.join(done.stdout.strip(), "trace.pftrace"), "rb") as file:
                self.assertIn(b"compile: double_it (<string>:", file.read())


if __name__ == "__main__":
    faulthandler.dump_traceback_later(240, exit=True)  # a test that hangs fails, and shows where
    unittest.main()
