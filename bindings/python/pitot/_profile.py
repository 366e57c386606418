# SPDX-License-Identifier: Apache-2.0
"""Profiles: measures chosen kernels by the GPU's hardware counters while the process serves."""

import ctypes
import enum
import os
from ctypes import byref, c_void_p, sizeof
from typing import Any, NamedTuple, Optional, Tuple, Union

from pitot import _cupti, _recorder
from pitot import _library as lib


class ProfileReplay(enum.IntEnum):
    """How a metric of several passes gets them."""

    NONE = 0  # each launch runs once, and is one pass
    KERNEL = 1  # CUPTI saves the GPU's memory and runs each measured launch once a pass


class ProfileMetrics(enum.IntEnum):
    """The measured metrics."""

    BASIC = 0  # all but sm_percent; 3 launches a round on an H100
    ALL = 1  # 11 launches a round on an H100


class OccupancyLimit(lib.OpenEnum):
    """The limit of blocks on an SM. A later library may have more: UNKNOWN_5."""

    UNKNOWN = 0
    REGISTERS = 1
    SHARED_MEMORY = 2
    THREADS = 3
    BLOCKS = 4


class KernelProfile(NamedTuple):
    """Launches of one kernel with one grid, block and shared memory. None: not measured. Other values are medians."""

    name: str
    grid: Tuple[int, int, int]
    block: Tuple[int, int, int]
    launches: int  # measured
    dynamic_shared_bytes: int
    registers_per_thread: Optional[int]
    static_shared_bytes: Optional[int]
    limited_by: OccupancyLimit
    theoretical_occupancy_percent: Optional[float]  # of the SM's warps, if its blocks are full
    waves: Optional[float]  # the grid's blocks, by the number in the GPU at a time
    duration_ns: Optional[float]
    achieved_occupancy_percent: Optional[float]
    l2_hit_percent: Optional[float]
    dram_percent: Optional[float]  # of its peak throughput
    dram_read_bytes: Optional[float]
    dram_written_bytes: Optional[float]
    tensor_percent: Optional[float]  # of the time in which tensor cores could work
    sm_percent: Optional[float]  # the busiest part of the SMs


def _measured(value: Any) -> Any:
    return None if value < 0 else value


def _kernel(it: lib.KernelProfileStruct) -> KernelProfile:
    special = {"name": lib.decode(it.name), "grid": tuple(it.grid), "block": tuple(it.block),
               "limited_by": OccupancyLimit(it.limited_by)}
    return KernelProfile(**{field: special[field] if field in special else _measured(getattr(it, field))
                            for field in KernelProfile._fields})


def _text(function: Any, *arguments: Any) -> str:
    room = ctypes.create_string_buffer(function(*arguments, None, 0) + 1)
    function(*arguments, room, sizeof(room))
    return lib.decode(room.value)


class Profile:
    """Kernels measured by profile_kernels; true if nothing failed. A failure leaves the launches before it."""

    _free = staticmethod(lib.profile_free)  # still there when the interpreter tears its modules down

    def __init__(self, handle: Optional[int], status: "_recorder.Status") -> None:
        self._handle = handle
        self.status = status  # its message has the remedy
        counts = lib.ProfileCounts(size=sizeof(lib.ProfileCounts))
        lib.profile_count(handle, byref(counts), None, 0)
        self.launches_seen: int = counts.launches_seen  # by this process, of any work, during the call
        self.launches_measured: int = counts.launches_measured
        self.launches_disturbed: int = counts.launches_disturbed  # measured and not used
        self.launches_captured: int = counts.launches_captured  # into a graph: the first one ends the profile
        self.launches_elsewhere: int = counts.launches_elsewhere  # on another GPU or context: not measured
        self.launches_left_out: int = counts.launches_left_out  # more than 64 shapes, or more than 4,096 kernels
        kernels = []
        for number in range(counts.kernels):
            kernel = lib.KernelProfileStruct(size=sizeof(lib.KernelProfileStruct))
            lib.profile_kernel(handle, number, byref(kernel), None, 0)
            kernels.append(_kernel(kernel))
        self.kernels: Tuple[KernelProfile, ...] = tuple(kernels)  # the longest launch first

    def __bool__(self) -> bool:
        return bool(self.status)

    def __str__(self) -> str:
        """A table for people, some lines a kernel."""
        return _text(lib.profile_text, self._handle)

    def compare(self, name: str, other: "Profile", other_name: str) -> str:
        """Says how the longest kernels of two profiles differ. Names stand for the profiles: "fused", "SDPA"."""
        return _text(lib.profile_compare, lib.text("name", name), self._handle, lib.text("other_name", other_name), other._handle)

    def __del__(self) -> None:
        self._free(self._handle)


def profile_kernels(kernel: str = "", *, launches: Optional[int] = None, timeout_ms: Optional[int] = None,
                    replay: ProfileReplay = ProfileReplay.NONE, metrics: ProfileMetrics = ProfileMetrics.ALL,
                    device: Optional[int] = None, library: Union[str, "os.PathLike[str]", None] = None,
                    pauses_counters: bool = True) -> Profile:
    """Measures launches of kernels with `kernel` in their name, while the process makes them.

    Needs a running recorder with `add_cuda_calls` (`start(gpu=True)`). Returns once `launches` of them are measured, or after
    `timeout_ms`; other threads run meanwhile. Do not call it on the thread of the launches: it would wait for itself.
    `library` is the file of libcupti; None: the one of this process. docs/guide/profile_kernels.md has its cost and its
    needs. Raises InvalidArgument for a wrong option.
    """
    options = _recorder._filled(lib.ProfileOptions, lib.profile_options_init, {
        "kernel": lib.text("kernel", kernel), "launches": launches, "timeout_ms": timeout_ms, "replay": replay, "metrics": metrics,
        "device": device, "library": _recorder._path(library or _cupti.find()), "pauses_counters": pauses_counters})
    handle = c_void_p()
    recorder = _recorder._current()
    status = _recorder._call(lib.profile_kernels, recorder._handle if recorder is not None else None, byref(options),
                             byref(handle))
    return Profile(handle.value, status)
