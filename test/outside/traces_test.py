#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Reads small traces rebuilt from public bug reports, damaged or written by other recorders, and compares with the right
answers.

The traces are not in this repository. Each has a file next to it that says what is right and why. Inputs of `OPEN` are still
read wrongly: their checks must fail, and come off the list when they hold.
"""

import glob
import os
import re
import sys

import outside

MS = 1_000_000
# Their kinds need more of the reader.
OPEN = {"ort_profile"}


class Answers:
    """The tool's answers about one input."""

    def __init__(self, path):
        self.path = path
        self.analysis = outside.pitot_json("analyze", path)
        self.faults = []

    def expect(self, what, got, right):
        """A number may differ from the right one by half a percent, as it is rounded in the file that says so."""
        is_number = isinstance(right, float) and isinstance(got, (int, float))
        if abs(got - right) > 0.005 * abs(right) if is_number else got != right:
            self.faults.append(f"{what} is {got}, not {right}")

    def findings(self, code):
        return [finding for analyzer in self.analysis.get("analyzers", []) for finding in analyzer["findings"]
                if finding["code"] == code]

    def expect_finding(self, code, summary="", **fields):
        found = self.findings(code)
        if len(found) != 1:
            self.faults.append(f"{len(found)} findings {code}, not 1")
            return
        if not re.search(summary, found[0]["summary"]):
            self.faults.append(f"{code} says: {found[0]['summary']}, not {summary}")
        for field, right in fields.items():
            self.expect(f"{field} of {code}", found[0][field], right)

    def expect_none(self, code):
        self.expect(f"number of findings {code}", len(self.findings(code)), 0)

    def measure(self, analyzer, name, subject):
        """A measure's value; None if there is none."""
        for one in self.analysis.get("analyzers", []):
            for measure in one["measures"] if one["name"] == analyzer else []:
                if (measure["name"], measure["subject"]) == (name, subject):
                    return measure["value"]
        return None

    def expect_measures(self, analyzer, subject="GPU 0", **measures):
        for name, right in measures.items():
            self.expect(f"{analyzer}'s {name} of {subject}", self.measure(analyzer, name, subject), right)

    def expect_gpu_time(self, by, **times_ms):
        rows = {row["name"]: row for row in outside.pitot_json("top", "--by", by, self.path).get("rows", [])}
        for name, right_ms in times_ms.items():
            self.expect(f"GPU time of {name}, ms", rows.get(name, {"self_gpu_ns": -1})["self_gpu_ns"] / MS, right_ms)

    def expect_text(self, pattern, *command, is_there=True):
        done = outside.pitot(*command, self.path)
        if (re.search(pattern, done.stdout + done.stderr) is not None) != is_there:
            self.faults.append(f"`pitot {command[0]}` {'does not say' if is_there else 'says'}: {pattern}")


CHECKS = {}  # by input


def check(function):
    CHECKS[function.__name__] = function
    return function


@check
def all_kernels_dropped(answers):
    answers.expect_finding("a39.lost_gpu_records", "^10 launches, and nothing that GPUs did")
    answers.expect_measures("a10", "all", launches=None)


@check
def communication_by_other_names(answers):
    answers.expect_measures("a01", communication=7.5 * MS, compute=4.5 * MS)
    answers.expect_finding("a15.communication", value=0.625, undetermined=True)
    answers.expect_finding("a20.small_grid", "most in gemm;")


@check
def graph_under_recorded(answers):
    answers.expect_finding("a39.lost_gpu_records", "^21 of 24 launches of graphs have no work in the trace")
    for code in "a03.utilisation_low", "a04.idle", "a11.queue_empty", "a17.critical_path":
        for finding in answers.findings(code):
            if not finding["undetermined"] and not (finding["caveats"] and finding["confidence"] <= 0.5):
                answers.faults.append(f"{code} at confidence {finding['confidence']}, without a doubt")
    answers.expect_text(r"\(100 %\)", "info", is_there=False)


@check
def graph_without_id(answers):
    answers.expect_gpu_time("op", **{"(CUDA graph: operators unknown)": 3.17})
    answers.expect_measures("a10", "all", graph_launches=6)


@check
def hip_copy_names(answers):
    answers.expect_finding("a08.transfer_bound")
    answers.expect("number of findings a06.small_copies", len(answers.findings("a06.small_copies")), 2)


@check
def impossible_durations(answers):
    answers.expect_finding("a39.impossible_duration", "^2 of 24 records")
    answers.expect_measures("a01", window=3.626 * MS)
    if not 3.48 * MS <= (answers.measure("a01", "busy", "GPU 0") or 0) <= 3.52 * MS:
        answers.faults.append("a01's busy of GPU 0 is not 3.48 to 3.52 ms")
    answers.expect_gpu_time("kernel", fmha_fwd=2.4)
    answers.expect_finding("a02.kernels", "^most expensive: fmha_fwd")


@check
def lazy_loading_overhead(answers):
    answers.expect_finding("a25.lazy_load", confidence=1.0, cost_ns=1.2 * MS)
    answers.expect_none("a39.overhead")


@check
def merged_ranks(answers):
    answers.expect_gpu_time("op", **{"rank0::mm": 2.4, "rank1::mm": 3.2})
    answers.expect_measures("a01", "GPU 0", busy=2.4 * MS)
    answers.expect_measures("a01", "GPU 1", busy=3.2 * MS)
    answers.expect_text(r"2 processes .* kept apart", "info")


@check
def mm_far_from_its_roofline(answers):
    answers.expect_finding("a18.low_efficiency", r"32\.4 Tflop/s", value=0.0568)


@check
def ort_profile(answers):
    done = outside.pitot("info", answers.path)
    answers.expect("exit code", done.returncode, 5)
    answers.expect_text("ONNX Runtime", "info")


@check
def python_frames_after(answers):
    done = outside.pitot("diff", answers.path.replace("_after", "_before"), answers.path)
    answers.expect("number of rows _call_impl", done.stdout.count("_call_impl"), 1)
    answers.expect("number of rows <built-in method", done.stdout.count("<built-in method"), 1)
    answers.expect("whether the line is said", "was line 1743" in done.stdout, True)


@check
def python_frames_before(answers):
    answers.expect_text("<built-in method linear", "top", "--by", "scope")


@check
def queue_never_empty(answers):
    answers.expect_none("a39.clock_late")
    answers.expect_measures("a11", "GPU 0 stream 7", most=100.0, empty=0)


@check
def readback_waits_for_kernels(answers):
    answers.expect_none("a07.pageable")
    answers.expect_measures("a01", compute=99.8 * MS)
    if not 0 < (answers.measure("a07", "blocked_in_pageable_copies", "all") or 0) < 0.2 * MS:
        answers.faults.append("a07 does not count 0.1 ms of copies")


@check
def rocm_external_id(answers):
    answers.expect_none("a39.unmatched")
    answers.expect_gpu_time("op", **{"aten::mm": 1.2, "aten::copy_": 0.192})


@check
def two_documents(answers):
    answers.expect("exit code", outside.pitot("info", answers.path).returncode, 0)
    answers.expect_text("2 documents were read: it goes on after its end", "info")
    answers.expect_gpu_time("kernel", gemm_a=0.4, gemm_b=0.4)


@check
def unescaped_quote(answers):
    answers.expect_text("1 event made no sense", "info")
    answers.expect_text("24 events were read", "info")


@check
def windows_paths(answers):
    for name in r"torch\cuda\__init__.py(219): _lazy_init", r"app\net\use.py(3): run":
        answers.expect_text(re.escape(name), "top", "--by", "scope", "--width", "0")
    answers.expect_text("2 events had backslashes", "info")


@check
def xpu_runtime(answers):
    answers.expect_text(" 16 calls", "info")
    answers.expect_gpu_time("op", **{"aten::mm": 2.4, "aten::copy_": 0.4})


@check
def zero_timestamps(answers):
    answers.expect_measures("a01", window=3.999 * MS, busy=0.8 * MS)
    answers.expect_measures("a04", idle=2.8 * MS)
    answers.expect_finding("a04.idle", value=0.778)
    answers.expect_finding("a39.no_time", "^2 things that GPUs did had no time")
    answers.expect_text(r"\b[1-9]\d{3,}\.\d %|[1-9]\d{6,}\.\d+ s", "analyze", is_there=False)


def faults_of(name, path):
    if name not in CHECKS:
        return ["there is no check of it"]
    if path is None:
        return ["the input is not there"]
    answers = Answers(path)
    CHECKS[name](answers)
    if name not in OPEN:
        return answers.faults
    return [] if answers.faults else ["it is right now: take it from the list OPEN"]


def main():
    folder = outside.folder_of("failing")
    paths = {os.path.basename(path)[:-len(".json")]: path for path in glob.glob(os.path.join(folder, "*.json"))}
    names = sorted(paths.keys() | CHECKS.keys())
    print(f"still read wrongly: {', '.join(sorted(OPEN))}")
    return outside.tell([(name, faults_of(name, paths.get(name))) for name in names])


if __name__ == "__main__":
    sys.exit(main())
