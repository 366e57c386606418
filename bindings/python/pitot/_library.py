# SPDX-License-Identifier: Apache-2.0
"""Finds and loads libpitot_c.so, and declares its functions (pitot/c.h) in ctypes."""

import ctypes
import enum
import operator
import os
from ctypes import POINTER, c_char_p, c_double, c_int32, c_int64, c_size_t, c_uint32, c_uint64, c_void_p
from typing import Any, Optional

ABI = 1
LEAST_REVISION = 8  # the first with everything used here
FILE_NAME = f"libpitot_c.so.{ABI}"


def find() -> str:
    """Returns the library to load: PITOT_LIBRARY, otherwise the file next to this one, otherwise its name for the loader."""
    given = os.environ.get("PITOT_LIBRARY")
    if given:
        return given
    beside = os.path.join(os.path.dirname(os.path.abspath(__file__)), FILE_NAME)
    return beside if os.path.exists(beside) else FILE_NAME


def load(path: str) -> None:
    """Loads the library. Raises ImportError, with advice."""
    try:
        library = ctypes.CDLL(path)
    except OSError as error:
        raise ImportError(f"pitot needs {FILE_NAME}, and loading {path} failed: {error}. Build and install it (cmake with "
                          f"PITOT_BUILD_C=ON) and name it in PITOT_LIBRARY, or put it into "
                          f"{os.path.dirname(os.path.abspath(__file__))}") from None
    try:
        abi, revision = library.pitot_abi(), library.pitot_abi_revision()
    except AttributeError:
        raise ImportError(f"{path} is not a {FILE_NAME}: it has no pitot_abi") from None
    if abi != ABI or revision < LEAST_REVISION:
        raise ImportError(f"{path} has ABI {abi}.{revision}; this package needs {ABI}.{LEAST_REVISION} or a later {ABI}.x: "
                          f"install the package and the library of one release")


LANGUAGE_PYTHON = 2  # PITOT_LANGUAGE_PYTHON


class Options(ctypes.Structure):
    _fields_ = [
        ("size", c_uint32), ("clock", c_int32), ("incident_directory", c_char_p), ("process_name", c_char_p),
        ("memory_budget_bytes", c_uint64), ("max_ring_bytes", c_uint64), ("min_ring_bytes", c_uint64),
        ("max_open_requests", c_uint32), ("pre_window_ms", c_uint32), ("post_window_ms", c_uint32),
        ("max_incidents_per_cause_and_hour", c_uint32), ("max_incidents_kept", c_uint32), ("worker_cpu_percent", c_uint32),
        ("max_incident_directory_bytes", c_uint64), ("log", c_void_p), ("log_context", c_void_p),
        ("overhead_budget_percent", c_double), ("depth", c_int32), ("perfetto_file", c_uint32),
        ("language", c_int32), ("accept_unsafe_directory", c_uint32), ("max_grown_ring_bytes", c_uint64),
        ("handle_ends", c_int32), ("end_grace_ms", c_uint32), ("black_box_directory", c_char_p)]


class Cupti(ctypes.Structure):
    _fields_ = [("size", c_uint32), ("graph_level", c_uint32), ("library", c_char_p), ("memory_bytes", c_uint64),
                ("lasting_cost_percent", c_double), ("allow_torch_profiler", c_uint32), ("attach_at_start", c_uint32)]


class Nvml(ctypes.Structure):
    _fields_ = [("size", c_uint32), ("rate_hz", c_uint32), ("library", c_char_p), ("memory_bytes", c_uint64)]


class Counters(ctypes.Structure):
    _fields_ = [("size", c_uint32), ("interval_us", c_uint32), ("library", c_char_p), ("most_cpu_percent", c_double),
                ("memory_bytes", c_uint64)]


class CudaCalls(ctypes.Structure):
    _fields_ = [("size", c_uint32), ("slow_copy_us", c_uint32)]


class CudaEvents(ctypes.Structure):
    _fields_ = [("size", c_uint32), ("pairs_per_context", c_uint32), ("memory_bytes", c_uint64), ("layers", c_uint32),
                ("graph_scopes", c_uint32), ("layer_cost_percent", c_double)]


class Gpu(ctypes.Structure):
    _fields_ = [("size", c_uint32), ("with_counters", c_uint32), ("with_cuda_calls", c_uint32), ("with_cuda_events", c_uint32),
                ("with_nvml", c_uint32), ("reserved", c_uint32), ("counters", POINTER(Counters)), ("cuda_calls", POINTER(CudaCalls)),
                ("cuda_events", POINTER(CudaEvents)), ("nvml", POINTER(Nvml))]


class ProfileOptions(ctypes.Structure):
    _fields_ = [("size", c_uint32), ("launches", c_uint32), ("kernel", c_char_p), ("timeout_ms", c_uint32), ("replay", c_int32),
                ("metrics", c_int32), ("device", c_uint32), ("library", c_char_p), ("pauses_counters", c_uint32),
                ("reserved", c_uint32)]


class ProfileCounts(ctypes.Structure):
    _fields_ = [("size", c_uint32), ("kernels", c_uint32), ("launches_seen", c_uint64), ("launches_measured", c_uint64),
                ("launches_disturbed", c_uint64), ("launches_captured", c_uint64), ("launches_elsewhere", c_uint64),
                ("launches_left_out", c_uint64)]


class KernelProfileStruct(ctypes.Structure):
    _fields_ = [("size", c_uint32), ("launches", c_uint32), ("name", c_char_p), ("grid", c_uint32 * 3), ("block", c_uint32 * 3),
                ("dynamic_shared_bytes", c_uint64), ("registers_per_thread", c_int64), ("static_shared_bytes", c_int64),
                ("limited_by", c_int32), ("reserved", c_uint32), ("theoretical_occupancy_percent", c_double),
                ("waves", c_double), ("duration_ns", c_double), ("achieved_occupancy_percent", c_double),
                ("l2_hit_percent", c_double), ("dram_percent", c_double), ("dram_read_bytes", c_double),
                ("dram_written_bytes", c_double), ("tensor_percent", c_double), ("sm_percent", c_double)]


class Host(ctypes.Structure):
    _fields_ = [("size", c_uint32), ("rate_hz", c_uint32), ("thread_rate_hz", c_uint32), ("most_threads", c_uint32),
                ("memory_bytes", c_uint64)]


class Stacks(ctypes.Structure):
    _fields_ = [("size", c_uint32), ("most_stacks", c_uint32), ("most_threads", c_uint32), ("running_threads", c_uint32)]


class Nvtx(ctypes.Structure):
    _fields_ = [("size", c_uint32), ("capture", c_uint32), ("mirror_scopes", c_uint32), ("reserved", c_uint32)]


class Torch(ctypes.Structure):
    _fields_ = [("size", c_uint32), ("shapes", c_uint32), ("memory", c_uint32), ("reserved", c_uint32)]


class Why(ctypes.Structure):
    _fields_ = [("size", c_uint32), ("budget_ms", c_uint32), ("html", c_uint32), ("sample_every_ms", c_uint32),
                ("sample_window_ms", c_uint32), ("warm_up_ms", c_uint32), ("baseline_file", c_char_p)]


class OverheadStruct(ctypes.Structure):
    _fields_ = [("is_known", c_uint32), ("reserved", c_uint32), ("percent", c_double), ("low_percent", c_double),
                ("high_percent", c_double)]


class IncidentStruct(ctypes.Structure):
    _fields_ = [("size", c_uint32), ("status", c_int32), ("message", c_char_p), ("cause", c_char_p), ("detail", c_char_p),
                ("directory", c_char_p), ("number", c_uint64), ("slow_requests", c_uint64), ("first_request", c_uint64),
                ("verdict", c_char_p), ("again", c_uint64)]


class LatencyTrigger(ctypes.Structure):
    _fields_ = [("size", c_uint32), ("memory", c_uint32), ("route", c_char_p), ("above_ms", c_double),
                ("or_above_quantile", c_double), ("warm_up_requests", c_uint32), ("k", c_uint32), ("n", c_uint32),
                ("cool_down_ms", c_uint32), ("pre_window_ms", c_uint32), ("post_window_ms", c_uint32)]


class FailureTrigger(ctypes.Structure):
    _fields_ = [("size", c_uint32), ("on_failed", c_uint32), ("route", c_char_p), ("on_timed_out", c_uint32),
                ("on_abandoned", c_uint32), ("cool_down_ms", c_uint32), ("pre_window_ms", c_uint32),
                ("post_window_ms", c_uint32), ("reserved", c_uint32)]


class TokensTrigger(ctypes.Structure):
    _fields_ = [("size", c_uint32), ("cool_down_ms", c_uint32), ("route", c_char_p), ("first_token_above_ms", c_double),
                ("gap_above_ms", c_double), ("pre_window_ms", c_uint32), ("post_window_ms", c_uint32),
                ("first_token_or_above_quantile", c_double), ("gap_or_above_quantile", c_double), ("memory", c_uint32),
                ("warm_up_marks", c_uint32)]


class StallTrigger(ctypes.Structure):
    _fields_ = [("size", c_uint32), ("cool_down_ms", c_uint32), ("route", c_char_p), ("request_open_ms", c_double),
                ("scope", c_char_p), ("scope_open_ms", c_double), ("pre_window_ms", c_uint32), ("post_window_ms", c_uint32)]


class DriftTrigger(ctypes.Structure):
    _fields_ = [("size", c_uint32), ("cool_down_ms", c_uint32), ("route", c_char_p), ("above_percent", c_double),
                ("recent_requests", c_uint32), ("reference_requests", c_uint32), ("pre_window_ms", c_uint32),
                ("post_window_ms", c_uint32)]


class RequestViewStruct(ctypes.Structure):
    _fields_ = [("size", c_uint32), ("outcome", c_int32), ("id", c_uint64), ("route", c_char_p), ("route_index", c_uint32),
                ("size_bucket", c_uint32), ("latency_ns", c_uint64), ("deadline_ns", c_uint64), ("output_tokens", c_uint64),
                ("first_token_ns", c_uint64), ("max_token_gap_ns", c_uint64)]


class PredicateTrigger(ctypes.Structure):
    _fields_ = [("size", c_uint32), ("cool_down_ms", c_uint32), ("predicate", c_void_p), ("context", c_void_p),
                ("cause", c_char_p), ("pre_window_ms", c_uint32), ("post_window_ms", c_uint32)]


class TokenStruct(ctypes.Structure):
    _fields_ = [("_opaque", c_uint64 * 4)]


class OwnerStruct(ctypes.Structure):
    _fields_ = [("thread", c_uint64), ("request", c_uint64)]


class WaitStruct(ctypes.Structure):
    _fields_ = [("_opaque", c_uint64 * 12)]


class CudaScopeStruct(ctypes.Structure):
    _fields_ = [("_opaque", c_uint64 * 4)]


class AdoptStruct(ctypes.Structure):
    _fields_ = [("_opaque", c_uint64 * 4)]


class WatchStruct(ctypes.Structure):
    _fields_ = [("let_go", c_void_p), ("take", c_void_p), ("tids", POINTER(c_int64)), ("cpu_ns", POINTER(c_uint64)),
                ("listed_ns", POINTER(c_uint64)), ("count", c_uint32), ("pause_us", c_uint32), ("most_us", c_uint32),
                ("looks_for", c_int32), ("is_over", c_int32), ("is_late", c_uint32), ("asked_ns", c_uint64),
                ("got_ns", c_uint64), ("next_refresh_ns", c_uint64), ("threads_known", c_uint64)]


WATCH_LOCK, WATCH_LATE, WATCH_STEP, WATCH_THREADS, WATCH_TIME, WATCH_STOP = (1 << bit for bit in range(6))

LogFunction = ctypes.CFUNCTYPE(None, c_void_p, c_int32, c_char_p)
IncidentFunction = ctypes.CFUNCTYPE(None, c_void_p, POINTER(IncidentStruct))
PredicateFunction = ctypes.CFUNCTYPE(c_int32, c_void_p, POINTER(RequestViewStruct))

_PATH = find()
load(_PATH)
# Functions that never wait keep the interpreter's lock: releasing and taking it costs more than the call. None of them
# takes a lock that Pitot holds while it calls Python.
_quick = ctypes.PyDLL(_PATH)
_slow = ctypes.CDLL(_PATH)


def _declare(library: Any, name: str, result: Any, *arguments: Any) -> Any:
    function = library[f"pitot_{name}"]
    function.restype = result
    function.argtypes = arguments
    return function


_MESSAGE = (c_char_p, c_size_t)

version = _declare(_quick, "version", c_char_p)
status_name = _declare(_quick, "status_name", c_char_p, c_int32)

recorder_start = _declare(_slow, "recorder_start", c_int32, POINTER(Options), POINTER(c_void_p), *_MESSAGE)
recorder_status = _declare(_slow, "recorder_status", c_int32, c_void_p, *_MESSAGE)
recorder_trigger = _declare(_slow, "recorder_trigger", c_int32, c_void_p, c_char_p, *_MESSAGE)
recorder_flush = _declare(_slow, "recorder_flush", c_int32, c_void_p, c_uint32, *_MESSAGE)
recorder_stop = _declare(_slow, "recorder_stop", None, c_void_p, c_uint32)
recorder_free = _declare(_slow, "recorder_free", None, c_void_p)
recorder_stats = _declare(_slow, "recorder_stats", c_int32, c_void_p, c_void_p, *_MESSAGE)
recorder_health = _declare(_slow, "recorder_health", c_int32, c_void_p, c_uint32, c_void_p, *_MESSAGE)
recorder_on_incident = _declare(_slow, "recorder_on_incident", c_int32, c_void_p, c_void_p, c_void_p, *_MESSAGE)
recorder_on_verdict = _declare(_slow, "recorder_on_verdict", c_int32, c_void_p, c_void_p, c_void_p, *_MESSAGE)
recorder_set_depth = _declare(_slow, "recorder_set_depth", c_int32, c_void_p, c_int32, *_MESSAGE)
recorder_add_cupti = _declare(_slow, "recorder_add_cupti", c_int32, c_void_p, POINTER(Cupti), *_MESSAGE)
recorder_pause = _declare(_slow, "recorder_pause", c_int32, c_void_p, c_char_p, *_MESSAGE)
recorder_resume = _declare(_slow, "recorder_resume", c_int32, c_void_p, c_char_p, *_MESSAGE)
recorder_add_nvml = _declare(_slow, "recorder_add_nvml", c_int32, c_void_p, POINTER(Nvml), *_MESSAGE)
recorder_add_counters = _declare(_slow, "recorder_add_counters", c_int32, c_void_p, POINTER(Counters), *_MESSAGE)
set_counter_interval = _declare(_quick, "set_counter_interval", c_int32, c_uint32, *_MESSAGE)
recorder_add_cuda_calls = _declare(_slow, "recorder_add_cuda_calls", c_int32, c_void_p, POINTER(CudaCalls), *_MESSAGE)
recorder_add_cuda_events = _declare(_slow, "recorder_add_cuda_events", c_int32, c_void_p, POINTER(CudaEvents), *_MESSAGE)
recorder_enable_gpu = _declare(_slow, "recorder_enable_gpu", c_int32, c_void_p, POINTER(Gpu), *_MESSAGE)
profile_kernels = _declare(_slow, "profile_kernels", c_int32, c_void_p, POINTER(ProfileOptions), POINTER(c_void_p), *_MESSAGE)
profile_free = _declare(_slow, "profile_free", None, c_void_p)
profile_count = _declare(_quick, "profile_count", c_int32, c_void_p, POINTER(ProfileCounts), *_MESSAGE)
profile_kernel = _declare(_quick, "profile_kernel", c_int32, c_void_p, c_uint32, POINTER(KernelProfileStruct), *_MESSAGE)
profile_text = _declare(_quick, "profile_text", c_size_t, c_void_p, *_MESSAGE)
profile_compare = _declare(_quick, "profile_compare", c_size_t, c_char_p, c_void_p, c_char_p, c_void_p, *_MESSAGE)
profile_options_init = _declare(_quick, "profile_options_init", None, POINTER(ProfileOptions), c_size_t)
recorder_add_host = _declare(_slow, "recorder_add_host", c_int32, c_void_p, POINTER(Host), *_MESSAGE)
recorder_add_stacks = _declare(_slow, "recorder_add_stacks", c_int32, c_void_p, POINTER(Stacks), *_MESSAGE)
recorder_add_nvtx = _declare(_slow, "recorder_add_nvtx", c_int32, c_void_p, POINTER(Nvtx), *_MESSAGE)
recorder_add_torch = _declare(_slow, "recorder_add_torch", c_int32, c_void_p, POINTER(Torch), *_MESSAGE)
recorder_add_why = _declare(_slow, "recorder_add_why", c_int32, c_void_p, POINTER(Why), *_MESSAGE)
cupti_init = _declare(_quick, "cupti_init", None, POINTER(Cupti), c_size_t)
nvml_init = _declare(_quick, "nvml_init", None, POINTER(Nvml), c_size_t)
counters_init = _declare(_quick, "counters_init", None, POINTER(Counters), c_size_t)
cuda_calls_init = _declare(_quick, "cuda_calls_init", None, POINTER(CudaCalls), c_size_t)
cuda_events_init = _declare(_quick, "cuda_events_init", None, POINTER(CudaEvents), c_size_t)
gpu_init = _declare(_quick, "gpu_init", None, POINTER(Gpu), c_size_t)
host_init = _declare(_quick, "host_init", None, POINTER(Host), c_size_t)
stacks_init = _declare(_quick, "stacks_init", None, POINTER(Stacks), c_size_t)
nvtx_init = _declare(_quick, "nvtx_init", None, POINTER(Nvtx), c_size_t)
torch_init = _declare(_quick, "torch_init", None, POINTER(Torch), c_size_t)
why_init = _declare(_quick, "why_init", None, POINTER(Why), c_size_t)
options_init = _declare(_quick, "options_init", None, POINTER(Options), c_size_t)
options_init_from_environment = _declare(_quick, "options_init_from_environment", None, POINTER(Options), c_size_t)

# By struct: the function that fills in the defaults, and the one that adds the trigger.
triggers = {
    struct: (_declare(_quick, f"{name}_init", None, POINTER(struct), c_size_t),
             _declare(_slow, f"recorder_add_{name}", c_int32, c_void_p, POINTER(struct), *_MESSAGE))
    for struct, name in ((LatencyTrigger, "latency_trigger"), (FailureTrigger, "failure_trigger"),
                         (TokensTrigger, "tokens_trigger"), (StallTrigger, "stall_trigger"),
                         (DriftTrigger, "drift_trigger"), (PredicateTrigger, "predicate_trigger"))}

intern = _declare(_quick, "intern", c_uint32, c_char_p)
set_thread_name = _declare(_quick, "set_thread_name", None, c_char_p)
# Without argument types, because their conversion costs as much as the call: a scope passes an int that we made.
scope_begin = _quick.pitot_scope_begin
scope_end = _quick.pitot_scope_end
scope_begin.restype = scope_end.restype = None
instant = _declare(_quick, "instant", None, c_uint32, c_char_p)
counter = _declare(_quick, "counter", None, c_uint32, c_double)
this_owner = _declare(_quick, "this_owner", OwnerStruct)
wait_begin = _declare(_quick, "wait_begin", None, POINTER(WaitStruct), c_int32, c_uint32, OwnerStruct)
wait_set_owner = _declare(_quick, "wait_set_owner", None, POINTER(WaitStruct), OwnerStruct)
wait_end = _declare(_quick, "wait_end", None, POINTER(WaitStruct))
# The driver may wait for room in a stream's queue.
cuda_scope_begin = _declare(_slow, "cuda_scope_begin", None, POINTER(CudaScopeStruct), c_void_p, c_uint32)
set_work_stream = _declare(_slow, "set_work_stream", None, c_void_p)
cuda_scope_end = _declare(_slow, "cuda_scope_end", None, POINTER(CudaScopeStruct))

now = _declare(_quick, "now", c_uint64)
token_request = _declare(_quick, "token_request", c_uint64, POINTER(TokenStruct))
token_is_late = _declare(_quick, "token_is_late", c_int32, POINTER(TokenStruct))
token_stage = _declare(_quick, "token_stage", None, POINTER(TokenStruct), c_char_p)
token_emit = _declare(_quick, "token_emit", None, POINTER(TokenStruct), c_uint32)
token_enqueue = _declare(_quick, "token_enqueue", TokenStruct, POINTER(TokenStruct), c_char_p)
token_set_label = _declare(_quick, "token_set_label", None, POINTER(TokenStruct), c_char_p, c_char_p)
token_set_size = _declare(_quick, "token_set_size", None, POINTER(TokenStruct), c_char_p, c_double)
request_begin = _declare(_quick, "request_begin", c_void_p, c_char_p, c_char_p, c_uint64)
request_begin_child = _declare(_quick, "request_begin_child", c_void_p, c_void_p, c_char_p)
request_begin_from = _declare(_quick, "request_begin_from", c_void_p, POINTER(TokenStruct), c_char_p)
request_finish_reason = _declare(_quick, "request_finish_reason", None, c_void_p, c_int32, c_char_p)
request_id = _declare(_quick, "request_id", c_uint64, c_void_p)
request_write_traceparent = _declare(_quick, "request_write_traceparent", None, c_void_p, c_char_p)
request_set_id = _declare(_quick, "request_set_id", None, c_void_p, c_char_p)
request_set_label = _declare(_quick, "request_set_label", None, c_void_p, c_char_p, c_char_p)
request_set_size = _declare(_quick, "request_set_size", None, c_void_p, c_char_p, c_double)
request_set_deadline = _declare(_quick, "request_set_deadline", None, c_void_p, c_uint64)
request_stage = _declare(_quick, "request_stage", None, c_void_p, c_char_p)
request_emit = _declare(_quick, "request_emit", None, c_void_p, c_uint32)
request_is_late = _declare(_quick, "request_is_late", c_int32, c_void_p)
request_token = _declare(_quick, "request_token", TokenStruct, c_void_p)
request_enqueue = _declare(_quick, "request_enqueue", TokenStruct, c_void_p, c_char_p)
adopt_begin = _declare(_quick, "adopt_begin", None, POINTER(AdoptStruct), POINTER(TokenStruct))
adopt_end = _declare(_quick, "adopt_end", None, POINTER(AdoptStruct))
batch_begin = _declare(_quick, "batch_begin", c_void_p, c_char_p)
batch_begin_unit = _declare(_quick, "batch_begin_unit", c_void_p, c_char_p, c_char_p)
batch_id = _declare(_quick, "batch_id", c_uint64, c_void_p)
batch_join = _declare(_quick, "batch_join", None, c_void_p, POINTER(TokenStruct))
batch_join_work = _declare(_quick, "batch_join_work", None, c_void_p, POINTER(TokenStruct), c_double)
batch_join_many = _declare(_quick, "batch_join_many", None, c_void_p, POINTER(TokenStruct), POINTER(c_double), c_uint64)
batch_leave = _declare(_quick, "batch_leave", None, c_void_p, POINTER(TokenStruct))
batch_close = _declare(_quick, "batch_close", None, c_void_p, c_int32)
batch_submitted = _declare(_quick, "batch_submitted", None, c_void_p)
batch_finish = _declare(_quick, "batch_finish", None, c_void_p)

# Without argument types, as for scopes: a step passes a c_uint64.
step_begin = _quick.pitot_step_begin
step_end = _quick.pitot_step_end
step_begin.restype = None
step_end.restype = c_int32
step_record = _declare(_quick, "step_record", None, c_uint32, c_uint64)
collection = _declare(_quick, "collection", None, c_uint64, c_uint64, c_uint32, c_uint64)
CollectionFunction = ctypes.PYFUNCTYPE(None, c_uint64, c_uint64, ctypes.py_object)
on_collection = _declare(_quick, "on_collection", None, ctypes.c_void_p)
see_collection = _declare(_quick, "see_collection", None, ctypes.c_wchar_p, ctypes.py_object)
lock_held = _declare(_quick, "lock_held", None, c_uint64, c_uint64, c_int64, c_uint32, c_uint32, c_uint64)
threads_stopped = _declare(_quick, "threads_stopped", None, c_uint64, c_uint64, c_int64, c_uint32, c_uint64)
_CPU = (c_uint32, POINTER(c_int64), POINTER(c_uint64), c_uint32)
# Lets go of the interpreter's lock by itself.
watch_interpreter = _declare(_quick, "watch_interpreter", c_int32, POINTER(WatchStruct))
read_cpu = _declare(_quick, "sleep_and_read_cpu", c_uint64, *_CPU)  # keeps the interpreter's lock
name_thread = _declare(_quick, "name_thread", c_int32, c_int64, c_char_p)
watch_late_requests = _declare(_quick, "watch_late_requests", None, c_int32)
find_late_threads = _declare(_quick, "find_late_threads", c_uint32, POINTER(c_int64), c_uint32)
system_call_of = _declare(_quick, "system_call_of", c_uint32, c_int64)  # keeps the interpreter's lock
record_stack = _declare(_quick, "record_stack", None, c_int64, c_uint32, c_uint32, POINTER(c_uint32), c_uint32, c_uint32)


class InvalidArgument(ValueError):
    """An option or argument is wrong; the message names it."""


class OpenEnum(enum.IntEnum):
    """An enumeration of values from the library: a number known only to a later library becomes a member UNKNOWN_<number>."""

    @classmethod
    def _missing_(cls, value: object) -> Any:
        if not isinstance(value, int):
            return None
        member = int.__new__(cls, value)
        member._name_ = f"UNKNOWN_{value}"
        member._value_ = int(value)
        return member

    def __reduce_ex__(self, protocol: object) -> Any:
        # By value: Python 3.11 looks members up by name, and cannot find members known only to a later library.
        return self.__class__, (self._value_,)


# A handle goes to C in the last step of a call, after these functions have converted all other arguments. A conversion
# runs Python, so it may raise, or another thread may get the interpreter and finish the handle's object.


def whole(name: str, value: Any, bits: int = 32) -> int:
    """Returns `value` as an unsigned integer of `bits` bits, which C would truncate. Raises InvalidArgument."""
    try:
        number = operator.index(value)
    except TypeError:
        raise InvalidArgument(f"{name} is {value!r}; it must be a whole number") from None
    if not 0 <= number < 1 << bits:
        raise InvalidArgument(f"{name} is {number}; it must be 0 to {(1 << bits) - 1}")
    return number


def constant(name: str, value: Any) -> int:
    """Returns a member of an enumeration as a number; in C it is signed. Raises InvalidArgument."""
    return whole(name, value, 31)


def real(name: str, value: Any) -> float:
    """Returns `value` as a double. Raises InvalidArgument."""
    try:
        return c_double(value).value  # unlike float, which reads text too
    except (TypeError, OverflowError):
        raise InvalidArgument(f"{name} is {value!r}; it must be a number") from None


def encode(name: str, value: Optional[str]) -> Optional[bytes]:
    """Returns a str as bytes for C; parts that are not valid UTF-8 become question marks. Raises InvalidArgument."""
    return None if value is None else text(name, value)


def text(name: str, value: str) -> bytes:
    """Like encode, but None is not allowed."""
    if not isinstance(value, str):
        raise InvalidArgument(f"{name} is {value!r}; it must be a str")
    return value.encode("utf-8", "replace")


def decode(text: Optional[bytes]) -> str:
    return (text or b"").decode("utf-8", "replace")


def library_version() -> str:
    """Returns the version of the loaded libpitot_c.so."""
    return decode(version())
