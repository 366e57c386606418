# SPDX-License-Identifier: Apache-2.0
"""An engine for the driver without a GPU: the plug-in's fake vLLM, with faults."""

import json
import sys
import time
from pathlib import Path
from typing import Any, Dict, List, Tuple

import driver
import pitot

INTEGRATION = Path(__file__).resolve().parents[3] / 'integrations' / 'vllm'
sys.path.append(str(INTEGRATION / 'test'))
pitot.__path__.insert(0, str(INTEGRATION / 'pitot'))

import fake_vllm  # noqa: E402
import pitot.vllm  # noqa: E402
import vllm_hooks  # noqa: E402


class Engine:
    """Has the methods of `driver.Stock`."""

    def __init__(self) -> None:
        fake_vllm.install()
        vllm_hooks.register()
        pitot.vllm.register()
        self.core, self.slow, self.is_collecting = fake_vllm.EngineCore(), {}, False
        self.core.scheduler.before_step = self.before_step

    def before_step(self) -> None:
        """In the scheduler."""
        if self.is_collecting:
            self.is_collecting = False
            driver.collect()

    def add(self, name: str, prompt: List[int], tokens: int, **more: Any) -> None:
        self.slow[name] = 'prompt_logprobs' in more
        self.core.add_request(fake_vllm.make_request(name, len(prompt), tokens))

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
        self.core.model_executor.free_s = time.monotonic() + 0.05

    def recall_kernels(self) -> None:
        pass

    def make_matrices(self) -> None:
        pass

    def multiply(self, count: int) -> None:
        self.core.model_executor.free_s += 0.0005 * count

    def stop(self) -> Dict[str, Any]:
        return driver.stop_recorder()
