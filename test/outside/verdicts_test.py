#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Judges incidents of servers that were written by others, with faults that Pitot was not told of.

A verdict is right, or undetermined. So a root without an explanation is allowed, and a false one never is. The dumps are not
in this repository; their folder also says what was true.
"""

import calendar
import contextlib
import glob
import json
import os
import re
import sys
import tempfile
import time
from typing import NamedTuple

import outside

# Roots that explain nothing.
UNEXPLAINED = {"host_blocked_unknown", "untraced_or_unexplained", "gpu_excess_unknown"}
ON_CPU = {
    "host_oncpu_pre", "host_oncpu_framework", "host_oncpu_post", "host_runqueue", "host_lock", "host_gil", "host_gc",
    "host_pagefault_io", "launch_api", "alloc_stall", "lazy_load_jit"
}
ON_GPU = {"gpu_contention": "", "gpu_exec_expected": "", "gpu_queue_wait_others": ""}
SURE = 0.5


class Truth(NamedTuple):
    """What was true of a dump."""
    what: str
    right: dict  # blames of a root, and a regular expression of the sentence
    is_gpu: bool = False  # then no cause on the CPU is acceptable, except those in `right`
    is_known: bool = False  # undetermined is a step back


LLAMA_SERVER = {
    "01-long-prompt": Truth("a prompt of 2,578 tokens in a step with five decoders",
                            {"executor_busy": "1de2c4852c06e84b.*2578"}, is_known=True),
    "01b-long-prompt-adopted": Truth("the same, with its token adopted", {"executor_busy": "2f884958b834bc3d.*2578"},
                                     is_known=True),
    "03-sigstop": Truth("the process was stopped for 300 ms", {"host_blocked_unknown": "300.0 ms with the whole process"},
                        is_known=True),
    "11-confidence-1.88": Truth("busy CPUs, nobody's fault", {"host_runqueue": ""}),
}
PYTHON_H100 = {
    "k_20261125T231848Z-0006-latency-classify": Truth("two Python threads computed", {"host_gil": ""}),
    "k_20261125T232006Z-0007-latency-classify": Truth("two Python threads computed", {"host_gil": ""}),
    "k_20261125T232013Z-0011-latency-classify": Truth("gc.collect() in another handler", {"host_gc": "", "host_gil": ""}),
    "k_20261125T232027Z-0019-latency-classify": Truth("matrix products on a side stream", ON_GPU, is_gpu=True),
}
# By the kind of the fault in faults.json. The first long prompt also had first uses of kernels.
LONG_PROMPT = Truth("a prompt of 8,192 tokens", {"executor_busy": "8192 prompt tokens"}, is_gpu=True, is_known=True)
FIRST_PROMPT = Truth("the same, first of its length", {**LONG_PROMPT.right, **ON_GPU, "lazy_load_jit": ""}, is_gpu=True)
VLLM = {
    "prefill": LONG_PROMPT,
    "gpu_hog": Truth("matrix products on another stream", ON_GPU, is_gpu=True),
    "gc_inside": Truth("gc.collect() in the scheduler", {"host_gc": "", "host_oncpu_framework": '"schedule"'}),
    "gc_between": Truth("gc.collect() between steps", {"host_gc": ""}),
    "gil": Truth("two Python threads computed", {"host_gil": ""}),
    "prompt_logprobs": Truth("compilation by Triton, and Python after the step",
                             {"lazy_load_jit": "", "host_oncpu_framework": '"sample"'}),
    "logprobs": Truth("compilation by Triton", {"lazy_load_jit": ""}),
    "sleep": Truth("a sleep between steps", {}),
}
LATEST_S = 1.3  # from a fault to its incident


def faults_of(verdict, truth):
    """What is wrong with a verdict, in words."""
    if not verdict:
        yield "no verdict"
        return
    root = verdict.get("root") or {}
    for one in [root, *verdict["causes"], *verdict["largest"]]:
        if not 0 <= one.get("confidence", 0) <= 1:
            yield f"{one['blame']} has confidence {one['confidence']}"
    if truth.is_gpu:
        for cause in verdict["causes"]:
            blame = cause["blame"]
            if blame in ON_CPU and blame not in truth.right and cause["confidence"] >= SURE:
                yield f"{blame} at confidence {cause['confidence']:.2f}, though it was the GPU ({truth.what})"
    kind = verdict["verdict"]
    said = f"{root['blame']} ({verdict['summary']})" if kind == "causes" else f"{kind} ({verdict['why_not']})"
    is_right = kind == "causes" and re.search(truth.right.get(root["blame"], "$^"), verdict["summary"])
    is_open = kind == "undetermined" or kind == "causes" and root["blame"] in UNEXPLAINED
    if not is_right and (truth.is_known or not is_open):
        yield f"{said}, though it was {truth.what}"


def dumps_of(folder, truths):
    """(name, path, truth) of each dump of a folder."""
    path = outside.folder_of(folder)
    found = {os.path.basename(file).split(".pitot")[0]: file for file in glob.glob(os.path.join(path, "*.pitot.gz"))}
    for name in sorted(found.keys() | truths.keys()):
        yield f"{folder}/{name}", found.get(name), truths.get(name)


def dumps_of_vllm(work):
    """The same of an archive, unpacked into `work`."""
    folder = outside.folder_of("vllm")
    with open(os.path.join(folder, "faults.json"), encoding="utf-8") as file:
        faults = json.load(file)
    seen = set()
    for path in outside.unpack(os.path.join(folder, "dumps_ft.tar.xz"), work):
        name = os.path.basename(os.path.dirname(path))
        at_s = calendar.timegm(time.strptime(name.split("Z")[0], "%Y%m%dT%H%M%S"))  # rounded down
        kinds = [fault["kind"] for fault in faults if -1 < at_s - fault["at"] <= LATEST_S]
        truth = VLLM.get(kinds[0]) if len(kinds) == 1 else None
        yield f"vllm/{name}", path, FIRST_PROMPT if truth is LONG_PROMPT and truth.what not in seen else truth
        seen.add(truth.what if truth else "")


def main():
    judged = []
    with contextlib.ExitStack() as stack:
        work = stack.enter_context(tempfile.TemporaryDirectory())
        dumps = [*dumps_of("python_h100", PYTHON_H100), *dumps_of("llama_server", LLAMA_SERVER), *dumps_of_vllm(work)]
        for name, path, truth in dumps:
            if path is None or truth is None:
                judged.append((name, ["the dump is not there" if path is None else "the table does not say what was true"]))
                continue
            judged.append((name, list(faults_of(outside.pitot_json("why", path), truth))))
    return outside.tell(judged)


if __name__ == "__main__":
    sys.exit(main())
