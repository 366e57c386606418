# SPDX-License-Identifier: Apache-2.0
"""The recorder of a process of vLLM, with the options of the environment."""

import logging
import os
from typing import Any, Callable, Dict, List, Optional

import pitot

PARTS = ("gpu", "host", "why", "kernels")
DEFAULT_PARTS = "gpu,host,why"
OF_ENGINES = ("gpu", "kernels")
# Thresholds for gaps between tokens and for first tokens, unless limits are set.
GAP_QUANTILE, FIRST_TOKEN_QUANTILE = 0.9999, 0.999

options: Dict[str, Any] = {}  # of pitot.start

_running: List[pitot.Recorder] = []
_at_start: List[Callable[[pitot.Recorder], Any]] = []


def log() -> logging.Logger:
    """vLLM's log, with lines of all its processes."""
    try:
        from vllm.logger import init_logger
    except ImportError:
        return logging.getLogger("pitot")
    return init_logger("vllm.pitot")


def mode() -> str:
    """Whether to record: "on"; "off"; "hooks": only if the program starts a recorder itself."""
    chosen = os.environ.get("PITOT_VLLM", "")
    if chosen == "hooks":
        return "hooks"
    return "on" if chosen != "0" and os.environ.get("PITOT_INCIDENT_DIRECTORY") else "off"


def recorder() -> Optional[pitot.Recorder]:
    """The recorder of this process, or None before its engine is made, or in another process."""
    return _running[0] if _running else None


def on_start(function: Callable[[pitot.Recorder], Any]) -> None:
    """Calls `function` with the recorder as soon as it runs: it may add triggers, collectors and hooks."""
    _at_start.append(function)


class Guard:
    """Calls functions that record, until one of them raises: the server runs on."""

    def __init__(self, give_up: Callable[[], None] = lambda: None) -> None:
        self._give_up, self.is_on = give_up, True

    def __call__(self, function: Callable[..., None], *args: Any) -> None:
        if self.is_on:
            try:
                function(*args)
            except Exception as error:  # pylint: disable=broad-except
                self.fail(error)

    def fail(self, error: Exception) -> None:
        self.is_on = False
        log().error("Pitot records no more here", exc_info=error)
        self._give_up()


def start(name: str, is_engine: bool = True) -> None:
    """Starts the recorder of this process, once."""
    if _running or mode() != "on":
        return
    to, parts = log(), [part for part in _parts() if is_engine or part not in OF_ENGINES]
    name = os.environ.get("PITOT_PROCESS_NAME") or name
    one = pitot.start(**{"from_environment": True, "process_name": name, "log": to.log, "gpu": "gpu" in parts, **options})
    _running.append(one)
    if not one.status:
        to.warning("Pitot records nothing here: %s", one.status.message)
        return
    for what, status in _add(one, parts).items():
        if not status:
            to.warning("Pitot: %s: %s", what, status.message)
    for function in _at_start:
        function(one)
    to.info("Pitot records this process as %s; incidents go to %s", name, os.environ["PITOT_INCIDENT_DIRECTORY"])


def _parts() -> List[str]:
    named = [part.strip() for part in os.environ.get("PITOT_VLLM_RECORD", DEFAULT_PARTS).split(",") if part.strip()]
    for part in named:
        if part not in PARTS:
            log().warning("Pitot: PITOT_VLLM_RECORD has %r; it may have %s", part, ", ".join(PARTS))
    return named


def _limit(name: str) -> float:
    """A limit in ms. 0: none is set."""
    text = os.environ.get(name, "")
    try:
        return max(0.0, float(text)) if text else 0.0
    except ValueError:
        log().warning("Pitot: %s is %r; it must be a number of milliseconds", name, text)
        return 0.0


def _add(one: pitot.Recorder, parts: List[str]) -> Dict[str, pitot.Status]:
    """Adds parts and triggers. Returns their statuses."""
    said = {}
    if "host" in parts:
        said["host"] = one.add_host()
    if "why" in parts:
        said["why"] = one.add_why()
    if "kernels" in parts:
        said["kernels"] = one.add_cupti()
        said["depth"] = one.set_depth(pitot.Depth.KERNELS)
    gap_ms, first_token_ms, latency_ms = (_limit(f"PITOT_VLLM_{name}_MS") for name in ("GAP", "FIRST_TOKEN", "LATENCY"))
    said["tokens"] = one.add_tokens_trigger(gap_above_ms=gap_ms, gap_or_above_quantile=0 if gap_ms else GAP_QUANTILE,
                                            first_token_above_ms=first_token_ms,
                                            first_token_or_above_quantile=0 if first_token_ms else FIRST_TOKEN_QUANTILE)
    if latency_ms:
        said["latency"] = one.add_latency_trigger(above_ms=latency_ms)
    said["failures"] = one.add_failure_trigger()
    return said
