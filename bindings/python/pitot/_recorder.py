# SPDX-License-Identifier: Apache-2.0
"""Control: starts and stops the process's only recorder, and adds triggers and collectors to it."""

import atexit
import ctypes
import enum
import functools
import inspect
import itertools
import logging
import os
import typing
from ctypes import byref, c_char, c_double, c_int32, c_uint32, c_uint64, c_void_p, sizeof
from typing import Any, Callable, Mapping, NamedTuple, Optional, Set, Tuple, Union

from pitot import _cupti
from pitot import _evidence
from pitot import _library as lib
from pitot._request import Outcome

_log = logging.getLogger("pitot")
_log.addHandler(logging.NullHandler())  # the library never prints; hosts that log see it
_LEVELS = {0: logging.INFO, 1: logging.WARNING, 2: logging.ERROR}  # an unknown level counts as an error


class StatusCode(lib.OpenEnum):
    """Numbers never change. A later library may have more: UNKNOWN_11."""

    OK = 0
    INVALID_ARGUMENT = 1
    ALREADY_RUNNING = 2
    NOT_RUNNING = 3
    RESOURCE_EXHAUSTED = 4
    UNAVAILABLE = 5
    NOT_FOUND = 6
    DATA_LOSS = 7
    IO_ERROR = 8
    INTERNAL = 9
    DISABLED = 10


class Status(NamedTuple):
    """The result of a function that can fail; true on success."""

    code: StatusCode
    message: str

    def __bool__(self) -> bool:
        return self.code == StatusCode.OK


class Clock(enum.IntEnum):
    """The clock that stamps events."""

    AUTO = 0
    CYCLE_COUNTER = 1
    OPERATING_SYSTEM = 2


class Depth(lib.OpenEnum):
    """How much is recorded, from little to much; see pitot/depth.h. A later library may have more: UNKNOWN_4."""

    SCOPES = 0
    GRAPHS = 1
    KERNELS = 2
    OPS = 3
    AUTO = 255


class Ends(enum.IntEnum):
    """Ends of the process that are handled; see pitot/options.h."""

    NONE = 0
    SHUTDOWN = 1
    CRASH = 2
    ALL = 3


class CuptiAttach(enum.IntEnum):
    """When CUPTI is called for the first time; from then on it costs for the life of the process."""

    WHEN_ASKED = 0  # when a depth above Depth.SCOPES is fixed
    AT_START = 1  # by add_cupti
    NEVER = 2


class RunningThreads(enum.IntEnum):
    """Whether stacks of machine code are read of running threads, too. That needs perf_event_open."""

    UNLESS_FILTERED = 0  # not under a seccomp filter: it may end the process at this call
    ALWAYS = 1
    NEVER = 2


class Incident(NamedTuple):
    """An incident as the host sees it."""

    number: int  # counts from 1 in this recorder
    cause: str
    detail: str
    directory: Optional[str]  # None if incidents are not stored or writing failed
    slow_requests: int
    first_request: int  # id of the request that began it; 0: none
    status: Status
    verdict: str = ""  # the opening of report.txt, for on_verdict; "" before that, and without a judge
    again: int = 0  # earlier incidents with the same verdict, for on_verdict; the first, the worst and this one stay on disk


class RequestView(NamedTuple):
    """A finished request as a predicate sees it."""

    id: int
    route: str
    outcome: Outcome
    latency_ns: int
    deadline_ns: int  # 0: none
    size_bucket: int
    output_tokens: int
    first_token_ns: int
    max_token_gap_ns: int


class Overhead(NamedTuple):
    """The cost of recording at a depth for the host's work, percent, with the 95 % interval."""

    percent: float
    low_percent: float
    high_percent: float


class DepthStats(NamedTuple):
    """How deep collectors record, and its cost, measured on the live traffic.

    An overhead is None if too little was measured. Tuples are indexed by depth: `mean[Depth.KERNELS]`. The cost of Depth.SCOPES
    is always None, because the others are measured against it.
    """

    depth: Depth  # the current one
    state: str  # in words: "holding graphs; measuring kernels"; "" without a collector or at a fixed depth
    cost: Optional[Overhead]  # of the depths used in the last ten minutes or so, on the mean duration of work
    mean: Tuple[Optional[Overhead], ...]  # by depth, on the mean duration
    p99: Tuple[Optional[Overhead], ...]  # on the 99th percentile
    works: Tuple[int, ...]  # number of batches (without batches, requests) behind these; older ones count less
    armed_percent: float  # share of the time in which everything was recorded because a request was slow
    works_lost: int  # too many ended at once to count all


class Stats(NamedTuple):
    """Memory, losses and cost of the recorder; pitot/stats.h explains each field."""

    threads_recording: int
    threads_retired: int
    requests_open: int
    rings_bytes: int
    requests_and_names_bytes: int
    snapshot_reserve_bytes: int
    analysis_arena_bytes: int
    ring_bytes_used: int
    address_bytes_parked: int
    history_shortest_ms: int
    history_median_ms: int
    events_recorded: int
    requests_begun: int
    requests_finished: int
    requests_abandoned: int
    threads_refused: int
    events_refused: int
    requests_refused: int
    names_refused: int
    labels_folded: int
    details_refused: int
    scopes_closed_elsewhere: int
    scopes_misnested: int
    triggers_fired: int
    incidents_written: int
    incidents_suppressed: int
    incidents_failed: int
    files_failed: int
    recording_cpu_percent: float
    own_threads_cpu_percent: float
    scope_cost_ns: float
    depth: DepthStats
    incidents_folded: int
    verdicts_given: int
    verdicts_failed: int
    verdicts_displaced: int
    verdicts_cut_off: int
    verdicts_stopped: int
    findings_added: int
    findings_left_out: int
    samples_learned: int
    samples_failed: int
    judging_bytes: int
    learned_bytes: int
    collectors_bytes: int
    own_bytes: int
    collector_bytes: int  # above collectors_bytes: on top of the budget


_DEPTH = Stats._fields.index("depth")


class StatsStruct(ctypes.Structure):
    """pitot_stats: the fields of Stats in their order, with those of DepthStats in the place of `depth`."""

    _fields_ = [("size", c_uint32)] + [
        (name, c_uint32 if name in Stats._fields[:3] else c_double if kind is float else c_uint64)
        for name, kind in list(typing.get_type_hints(Stats).items())[:_DEPTH]] + [
        ("depth", c_int32), ("reserved", c_uint32), ("depth_state", c_char * 96), ("depth_cost", lib.OverheadStruct),
        ("depth_mean", lib.OverheadStruct * 4), ("depth_p99", lib.OverheadStruct * 4), ("depth_works", c_uint64 * 4),
        ("depth_armed_percent", c_double), ("depth_works_lost", c_uint64)] + [
        (name, c_uint64) for name in Stats._fields[_DEPTH + 1:]]


class HealthState(lib.OpenEnum):
    """Whether requests make progress; see pitot/health.h. A later library may have more: UNKNOWN_5."""

    UNKNOWN = 0
    IDLE = 1
    PROGRESSING = 2
    SLOW = 3
    STALLED = 4


class Health(NamedTuple):
    """Whether the process's requests make progress; pitot/health.h explains each field."""

    state: HealthState
    requests_open: int
    requests_waiting: int  # the other open requests of the stalled one's route
    request: int  # the open request without progress for the longest time; 0: there is none, or a batch stalls
    open_ms: int
    quiet_ms: int  # since its last progress
    route: str
    stage: str
    text: str  # all of this in words


class HealthStruct(ctypes.Structure):
    """pitot_health."""

    _fields_ = [("size", c_uint32), ("state", c_int32), ("requests_open", c_uint32), ("requests_waiting", c_uint32),
                ("request", c_uint64), ("open_ms", c_uint64), ("quiet_ms", c_uint64), ("route", c_char * 128),
                ("stage", c_char * 128), ("text", c_char * 384)]


def _overhead(it: lib.OverheadStruct) -> Optional[Overhead]:
    return Overhead(it.percent, it.low_percent, it.high_percent) if it.is_known else None


def _depth_stats(it: StatsStruct) -> DepthStats:
    return DepthStats(Depth(it.depth), lib.decode(it.depth_state), _overhead(it.depth_cost),
                      tuple(_overhead(each) for each in it.depth_mean), tuple(_overhead(each) for each in it.depth_p99),
                      tuple(it.depth_works), it.depth_armed_percent, it.depth_works_lost)


LogFunction = Callable[[int, str], None]
IncidentHook = Callable[[Incident], None]
Predicate = Callable[[RequestView], bool]


def _to_logging(level: int, message: str) -> None:
    _log.log(level, "%s", message)


# Callbacks are made once for each function and live as long as the process: a thread that hangs in one may outlive its
# recorder. Exceptions of the function end here.


def _failure_log(what: str) -> Callable[[], None]:
    """Logs the exception that is being handled: the 1st, the 2nd, the 4th, the 8th and so on, with their number."""
    numbers = itertools.count(1)

    def note() -> None:
        number = next(numbers)
        if number == 1:
            _log.exception("%s raised", what)
        elif number & (number - 1) == 0:
            _log.exception("%s raised for the %dth time; only the 1st, 2nd, 4th, 8th, ... are logged", what, number)

    return note


@functools.lru_cache(maxsize=None)
def _log_callback(function: LogFunction) -> Any:
    failed = _failure_log("a log function of the host's")

    def call(_context: Any, level: int, message: bytes) -> None:
        try:
            function(_LEVELS.get(level, logging.ERROR), lib.decode(message))
        except BaseException:  # pylint: disable=broad-except
            failed()

    return lib.LogFunction(call)


@functools.lru_cache(maxsize=None)
def _incident_callback(function: IncidentHook) -> Any:
    failed = _failure_log("an incident hook")

    def call(_context: Any, pointer: Any) -> None:
        try:
            it = pointer.contents
            status = Status(StatusCode(it.status), lib.decode(it.message))
            directory = None if it.directory is None else os.fsdecode(it.directory)
            function(Incident(it.number, lib.decode(it.cause), lib.decode(it.detail), directory, it.slow_requests,
                              it.first_request, status, lib.decode(it.verdict), it.again))
        except BaseException:  # pylint: disable=broad-except
            failed()

    return lib.IncidentFunction(call)


@functools.lru_cache(maxsize=None)
def _predicate_callback(function: Predicate) -> Any:
    failed = _failure_log("a predicate")

    def call(_context: Any, pointer: Any) -> int:
        try:
            it = pointer.contents
            return bool(function(RequestView(it.id, lib.decode(it.route), Outcome(it.outcome), it.latency_ns, it.deadline_ns,
                                             it.size_bucket, it.output_tokens, it.first_token_ns, it.max_token_gap_ns)))
        except BaseException:  # pylint: disable=broad-except
            failed()
            return 0

    return lib.PredicateFunction(call)


def _address(callback: Any) -> Any:
    return ctypes.cast(callback, c_void_p)


def _call(function: Any, *arguments: Any) -> Status:
    """Calls a function that can fail. Raises InvalidArgument for a mistake of the caller."""
    message = ctypes.create_string_buffer(1024)
    status = Status(StatusCode(function(*arguments, message, sizeof(message))), lib.decode(message.value))
    if status.code == StatusCode.INVALID_ARGUMENT:
        raise lib.InvalidArgument(status.message)
    return status


class Recorder:
    """The recorder of this process; `start` makes it. Also a context manager that stops it.

    Threads: any. A failure is a false Status, and the host runs on unrecorded.
    """

    _free = staticmethod(lib.recorder_free)  # still there when the interpreter tears its modules down

    def __init__(self, handle: Optional[int], failure: Optional[Status]) -> None:
        self._handle = handle
        self._failure = failure

    @property
    def status(self) -> Status:
        """True while it records; otherwise it has the reason."""
        return self._failure_or(lib.recorder_status)

    def trigger(self, reason: str = "") -> Status:
        """Requests an incident now, with a sentence for its report."""
        return self._failure_or(lib.recorder_trigger, lib.encode("reason", reason))

    def flush(self, timeout_ms: int = 60000) -> Status:
        """Waits until every incident requested before the call is on disk and judged (or failed), at most `timeout_ms`."""
        return self._failure_or(lib.recorder_flush, lib.whole("timeout_ms", timeout_ms))

    def set_depth(self, depth: Depth) -> Status:
        """Sets how deep to record from now on."""
        return self._failure_or(lib.recorder_set_depth, lib.constant("depth", depth))

    def add_cupti(self, *, library: Union[str, "os.PathLike[str]", None] = None,
                  memory_bytes: Optional[int] = None, graph_level: bool = False,
                  lasting_cost_percent: Optional[float] = None, allow_torch_profiler: bool = True,
                  attach: CuptiAttach = CuptiAttach.WHEN_ASKED) -> Status:
        """Records kernels and copies of NVIDIA GPUs by CUPTI until the recorder stops.

        By default CUPTI is called once a depth above Depth.SCOPES is fixed (`set_depth`, `start(depth=)`). With
        CuptiAttach.AT_START call this before the first use of CUDA (`import torch` may come before); a false Status then says
        why GPUs are not recorded. `library` is the file of libcupti; None: found automatically. pitot/collect/cupti.h explains
        `attach`, `graph_level` (which has CUPTI called at once), `lasting_cost_percent` and `allow_torch_profiler`.
        """
        if attach == CuptiAttach.AT_START or graph_level:
            library = library or _cupti.find()
        fields = {"library": _path(library), "memory_bytes": memory_bytes,
                  "graph_level": graph_level, "lasting_cost_percent": lasting_cost_percent,
                  "allow_torch_profiler": allow_torch_profiler, "attach_at_start": lib.constant("attach", attach)}
        return self._failure_or(lib.recorder_add_cupti, byref(_filled(lib.Cupti, lib.cupti_init, fields)))

    def pause(self, collector: str) -> Status:
        """Hands over what only one profiler of a process can use at a time: `pause("cupti")` hands over CUPTI.

        PyTorch's profiler gets it without a call. Does nothing if the collector was not added; NOT_FOUND: not a collector's name.
        """
        return self._failure_or(lib.recorder_pause, lib.text("collector", collector))

    def resume(self, collector: str) -> Status:
        """Takes back what `pause` handed over."""
        return self._failure_or(lib.recorder_resume, lib.text("collector", collector))

    def add_nvml(self, *, library: Union[str, "os.PathLike[str]", None] = None, rate_hz: Optional[int] = None,
                 memory_bytes: Optional[int] = None) -> Status:
        """Samples clocks, power, memory and errors of NVIDIA GPUs on a thread of Pitot, until the recorder stops.

        `library` is the file of NVML; None: found automatically. Waits until the driver has answered, at most 10 s.
        A false Status says why GPUs are not sampled.
        """
        return self._failure_or(lib.recorder_add_nvml,
                                byref(_nvml(library, rate_hz, memory_bytes)))

    def add_counters(self, *, library: Union[str, "os.PathLike[str]", None] = None, interval_us: Optional[int] = None,
                     most_cpu_percent: Optional[float] = None, memory_bytes: Optional[int] = None) -> Status:
        """Samples hardware counters of NVIDIA GPUs (SMs, tensor cores, DRAM, PCIe) on a thread of Pitot.

        It runs from the first use of a GPU until the recorder stops. `library` is the file of libcupti; None: the one that
        PyTorch has loaded or will load, otherwise found automatically. Incidents say why a GPU is not sampled.
        """
        return self._failure_or(lib.recorder_add_counters,
                                byref(_counters(library, interval_us, most_cpu_percent, memory_bytes)))

    def add_cuda_calls(self, *, slow_copy_us: Optional[int] = None) -> Status:
        """Records the calls of CUDA in which threads wait: synchronisations, blocking copies, allocations, loads of code.

        Calls are seen from libraries that use CUDA's shared libraries, as PyTorch's do, until the recorder stops.
        """
        return self._failure_or(lib.recorder_add_cuda_calls, byref(_cuda_calls(slow_copy_us)))

    def add_cuda_events(self, *, pairs_per_context: Optional[int] = None, memory_bytes: Optional[int] = None,
                        layers: Optional[bool] = None, layer_cost_percent: Optional[float] = None,
                        graph_scopes: Optional[int] = None) -> Status:
        """Measures by CUDA events how long GPUs worked for each batch, its layers, and each `cuda_scope`.

        Layers are the scopes of a batch. As many levels of them are timed as `layer_cost_percent` of its time allows. Streams
        are known from `add_cuda_calls`, or by `set_work_stream`. A `cuda_scope` in the capture of a CUDA graph divides its
        replays, up to `graph_scopes` of them (0).
        """
        events = _cuda_events(pairs_per_context, memory_bytes, layers, layer_cost_percent, graph_scopes)
        return self._failure_or(lib.recorder_add_cuda_events, byref(events))

    def enable_gpu(self, *, counters: Union[bool, Mapping[str, Any]] = True,
                   cuda_calls: Union[bool, Mapping[str, Any]] = True,
                   cuda_events: Union[bool, Mapping[str, Any]] = True,
                   nvml: Union[bool, Mapping[str, Any]] = True) -> Status:
        """Adds everything of NVIDIA GPUs that may run all the time: counters, waits, layers and NVML.

        It has no kernels: `add_cupti` records these. False leaves a collector out; a dict has its options, by the names of
        `add_counters`, `add_cuda_calls`, `add_cuda_events` and `add_nvml`. A machine without a driver or GPU is not an error. A
        wrong option adds none. A false Status is the first collector's error at its start; the others stay added. Waits for
        NVML, 10 s at most.
        """
        return self._failure_or(lib.recorder_enable_gpu, byref(_gpu(counters, cuda_calls, cuda_events, nvml)))

    def add_host(self, *, rate_hz: Optional[int] = None, thread_rate_hz: Optional[int] = None,
                 most_threads: Optional[int] = None, memory_bytes: Optional[int] = None) -> Status:
        """Records reasons for stopped threads other than slow code: lack of a CPU, a CPU quota, page faults, pressure.

        Runs on a thread of Pitot until the recorder stops; needs no privilege. Data the system does not provide is left out,
        and named in incidents ("host.not_recorded").
        """
        fields = {"rate_hz": rate_hz, "thread_rate_hz": thread_rate_hz, "most_threads": most_threads,
                  "memory_bytes": memory_bytes}
        return self._failure_or(lib.recorder_add_host, byref(_filled(lib.Host, lib.host_init, fields)))

    def add_stacks(self, *, most_stacks: Optional[int] = None, most_threads: Optional[int] = None,
                   running_threads: RunningThreads = RunningThreads.UNLESS_FILTERED) -> Status:
        """Reads stacks of machine code of threads while a request is late, blocked or busy.

        Threads of Python have stacks of Python without it (`pitot.start(stacks=True)`). This is for those of native code, which
        hold no interpreter. Incidents say why none can be read ("stacks.not_recorded").
        """
        fields = {"most_stacks": most_stacks, "most_threads": most_threads,
                  "running_threads": lib.constant("running_threads", running_threads)}
        return self._failure_or(lib.recorder_add_stacks, byref(_filled(lib.Stacks, lib.stacks_init, fields)))

    def add_nvtx(self, *, capture: bool = True, mirror_scopes: bool = True) -> Status:
        """Records NVTX events of other libraries (NCCL, cuDNN, PyTorch's emit_nvtx), and mirrors scopes to an attached tool
        (nsys). Call it before importing libraries that use NVTX: those that called NVTX before are missed, and named in
        incidents.
        """
        fields = {"capture": capture, "mirror_scopes": mirror_scopes}
        return self._failure_or(lib.recorder_add_nvtx, byref(_filled(lib.Nvtx, lib.nvtx_init, fields)))

    def add_torch(self, *, shapes: bool = False, memory: bool = True) -> Status:
        """Records PyTorch's operators, ranges (torch.profiler.record_function) and memory. Call it after `import torch`.

        With `shapes` operators carry the sizes and types of their tensors; see pitot/collect/torch.h. A false Status gives the
        reason: the library must have been built against this very PyTorch.
        """
        fields = {"shapes": shapes, "memory": memory}
        return self._failure_or(lib.recorder_add_torch, byref(_filled(lib.Torch, lib.torch_init, fields)))

    def add_why(self, *, baseline_file: Union[str, "os.PathLike[str]", None] = None, html: bool = True,
                budget_ms: Optional[int] = None, sample_every_ms: Optional[int] = None,
                sample_window_ms: Optional[int] = None, warm_up_ms: Optional[int] = None) -> Status:
        """Explains in each incident why its request was slow: report.txt opens with it, verdict.json and report.html are added.

        The verdict comes after the incident's own files; flush waits for it, too. Small samples teach what is normal, and
        `baseline_file` keeps it across restarts. See pitot/analyze/judge.h.
        """
        fields = {"baseline_file": _path(baseline_file), "html": html,
                  "budget_ms": budget_ms, "sample_every_ms": sample_every_ms, "sample_window_ms": sample_window_ms,
                  "warm_up_ms": warm_up_ms}
        return self._failure_or(lib.recorder_add_why, byref(_filled(lib.Why, lib.why_init, fields)))

    def stats(self) -> Stats:
        """Returns memory, losses and cost of the recorder."""
        stats = StatsStruct(size=sizeof(StatsStruct))
        _call(lib.recorder_stats, self._handle, byref(stats))
        return Stats(**{name: _depth_stats(stats) if name == "depth" else getattr(stats, name) for name in Stats._fields})

    def health(self, stalled_after_ms: int = 10_000) -> Health:
        """Says whether requests make progress, for a probe: by their stages, tokens, batches and events, not by an open port.

        `stalled_after_ms` is longer than the longest time of a healthy request without any. `pitot health` answers the same
        from outside, also while the GIL is held.
        """
        health = HealthStruct(size=sizeof(HealthStruct))
        _call(lib.recorder_health, self._handle, lib.whole("stalled_after_ms", stalled_after_ms), byref(health))
        return Health(HealthState(health.state), health.requests_open, health.requests_waiting, health.request, health.open_ms,
                      health.quiet_ms, lib.decode(health.route), lib.decode(health.stage), lib.decode(health.text))

    def stop(self, timeout_ms: int = 5000) -> None:
        """Stops recording; an incident being written is finished. Idempotent. Also done when the interpreter exits."""
        timeout = lib.whole("timeout_ms", timeout_ms)
        if self in _running:
            _evidence.stop(self)
        lib.recorder_stop(self._handle, timeout)
        _running.discard(self)

    def on_incident(self, hook: IncidentHook) -> IncidentHook:
        """Has `hook` called, on one of Pitot's threads, when an incident's dump is on disk or its files have failed.

        Reports, verdicts and other files come later: see on_verdict. A slow hook delays the next dumps; it must not stop the recorder.
        Replaces an earlier hook. Returns it, to serve as a decorator.
        """
        self._failure_or(lib.recorder_on_incident, _address(_incident_callback(hook)), None)
        return hook

    def on_verdict(self, hook: IncidentHook) -> IncidentHook:
        """Has `hook` called, on one of Pitot's threads, when an incident was judged and its files are on disk.

        `status` has the reason if a file or the verdict is missing. In a storm, a repeat no worse than an
        earlier incident with its verdict has only the dump, verdict.json and a short report.txt by then, and gets its other
        files later. Without add_why it comes with the last file. It comes after
        the hook of on_incident, also for an incident that could not be written. A slow hook delays the next verdicts; it must
        not stop the recorder. Replaces an earlier hook. Returns it, to serve as a decorator.
        """
        self._failure_or(lib.recorder_on_verdict, _address(_incident_callback(hook)), None)
        return hook

    def add_latency_trigger(self, route: Optional[str] = None, *, above_ms: float = 0, or_above_quantile: float = 0,
                            memory: Optional[int] = None, warm_up_requests: Optional[int] = None, k: Optional[int] = None,
                            n: Optional[int] = None, cool_down_ms: Optional[int] = None, pre_window_ms: Optional[int] = None,
                            post_window_ms: Optional[int] = None) -> Status:
        """Fires on a request that took longer than `above_ms`, or than a quantile of similar requests (0.5 to 0.9999).

        No route: every route. None means the default of pitot/trigger/latency.h.
        """
        return self._add(lib.LatencyTrigger, route=lib.encode("route", route), above_ms=above_ms, or_above_quantile=or_above_quantile,
                         memory=memory, warm_up_requests=warm_up_requests, k=k, n=n, cool_down_ms=cool_down_ms,
                         pre_window_ms=pre_window_ms, post_window_ms=post_window_ms)

    def add_failure_trigger(self, route: Optional[str] = None, *, on_failed: bool = True, on_timed_out: bool = True,
                            on_abandoned: bool = False, cool_down_ms: Optional[int] = None,
                            pre_window_ms: Optional[int] = None, post_window_ms: Optional[int] = None) -> Status:
        """Fires on a request that failed, timed out or was abandoned."""
        return self._add(lib.FailureTrigger, route=lib.encode("route", route), on_failed=on_failed, on_timed_out=on_timed_out,
                         on_abandoned=on_abandoned, cool_down_ms=cool_down_ms, pre_window_ms=pre_window_ms,
                         post_window_ms=post_window_ms)

    def add_tokens_trigger(self, route: Optional[str] = None, *, first_token_above_ms: float = 0, gap_above_ms: float = 0,
                           first_token_or_above_quantile: float = 0, gap_or_above_quantile: float = 0,
                           memory: Optional[int] = None, warm_up_marks: Optional[int] = None,
                           cool_down_ms: Optional[int] = None, pre_window_ms: Optional[int] = None,
                           post_window_ms: Optional[int] = None) -> Status:
        """Fires on late output tokens: the first one, or the gap between two.

        Thresholds are fixed, or quantiles from 0.5 to 0.9999: of first tokens of the same route and size bucket, of gaps of the
        route. A quantile needs `warm_up_marks` first tokens or gaps, and counts halve every `memory`. 0: off; one must be set.
        """
        return self._add(lib.TokensTrigger, route=lib.encode("route", route), first_token_above_ms=first_token_above_ms,
                         gap_above_ms=gap_above_ms, first_token_or_above_quantile=first_token_or_above_quantile,
                         gap_or_above_quantile=gap_or_above_quantile, memory=memory, warm_up_marks=warm_up_marks,
                         cool_down_ms=cool_down_ms, pre_window_ms=pre_window_ms,
                         post_window_ms=post_window_ms)

    def add_stall_trigger(self, route: Optional[str] = None, *, request_open_ms: float = 0, scope: Optional[str] = None,
                          scope_open_ms: float = 0, cool_down_ms: Optional[int] = None, pre_window_ms: Optional[int] = None,
                          post_window_ms: Optional[int] = None) -> Status:
        """Fires while a request or a scope is still open, so that a hang leaves an incident although nothing ends."""
        return self._add(lib.StallTrigger, route=lib.encode("route", route), request_open_ms=request_open_ms, scope=lib.encode("scope", scope),
                         scope_open_ms=scope_open_ms, cool_down_ms=cool_down_ms, pre_window_ms=pre_window_ms,
                         post_window_ms=post_window_ms)

    def add_drift_trigger(self, route: Optional[str] = None, *, above_percent: Optional[float] = None,
                          recent_requests: Optional[int] = None, reference_requests: Optional[int] = None,
                          cool_down_ms: Optional[int] = None, pre_window_ms: Optional[int] = None,
                          post_window_ms: Optional[int] = None) -> Status:
        """Fires when a route has become slower as a whole: by the median of recent requests and that of many before."""
        return self._add(lib.DriftTrigger, route=lib.encode("route", route), above_percent=above_percent,
                         recent_requests=recent_requests, reference_requests=reference_requests, cool_down_ms=cool_down_ms,
                         pre_window_ms=pre_window_ms, post_window_ms=post_window_ms)

    def add_predicate_trigger(self, predicate: Predicate, cause: str = "predicate", *, cool_down_ms: Optional[int] = None,
                              pre_window_ms: Optional[int] = None, post_window_ms: Optional[int] = None) -> Status:
        """Fires on a finished request for which `predicate` is true.

        It runs on the thread that finishes the request, which pays for its time.
        """
        return self._add(lib.PredicateTrigger, predicate=_address(_predicate_callback(predicate)), cause=lib.encode("cause", cause),
                         cool_down_ms=cool_down_ms, pre_window_ms=pre_window_ms, post_window_ms=post_window_ms)

    def _add(self, struct: Any, **fields: Any) -> Status:
        init, add = lib.triggers[struct]
        return self._failure_or(add, byref(_filled(struct, init, fields)))

    def _failure_or(self, function: Any, *arguments: Any) -> Status:
        return self._failure if self._failure is not None else _call(function, self._handle, *arguments)

    def __enter__(self) -> "Recorder":
        return self

    def __exit__(self, *exception: object) -> None:
        self.stop()

    def __del__(self) -> None:
        self._free(self._handle)


_running: Set[Recorder] = set()  # keeps recorders alive without help from the host
before_start: Optional[Callable[[], None]] = None  # of PITOT_AUTO, whose recorder gives way to the program's own


def set_counter_interval(interval_us: int) -> Status:
    """Changes the time between samples of this process's hardware counters; 0: chosen again by their cost.

    Sampling starts again within half a second, after a short gap: a finer interval covers only what follows. A false
    Status: no counters run in this process. Raises InvalidArgument outside 100 to 1,000,000.
    """
    return _call(lib.set_counter_interval, lib.whole("interval_us", interval_us, 32))


def _current() -> Optional[Recorder]:
    """The recorder that runs in this process. A child of a fork still has its parent's."""
    return next((recorder for recorder in list(_running) if recorder.status), None)


def _filled(struct: Any, init: Any, fields: Any) -> Any:
    """Returns a C struct with its defaults, overlaid with the fields that are not None."""
    filled = struct()
    init(byref(filled), sizeof(filled))
    for name, value in fields.items():
        if value is None:
            continue
        kind = dict(struct._fields_)[name]
        if kind is c_double:
            value = lib.real(name, value)
        elif kind is c_int32:
            value = lib.constant(name, value)
        elif kind in (c_uint32, c_uint64):
            value = lib.whole(name, value, 8 * sizeof(kind))
        setattr(filled, name, value)
    return filled


def _path(path: Union[str, "os.PathLike[str]", None]) -> Optional[bytes]:
    return None if path is None else os.fsencode(path)


# The structs of the collectors' options.


def _nvml(library: Union[str, "os.PathLike[str]", None] = None, rate_hz: Optional[int] = None,
          memory_bytes: Optional[int] = None) -> Any:
    return _filled(lib.Nvml, lib.nvml_init, {"library": _path(library), "rate_hz": rate_hz, "memory_bytes": memory_bytes})


def _counters(library: Union[str, "os.PathLike[str]", None] = None, interval_us: Optional[int] = None,
              most_cpu_percent: Optional[float] = None, memory_bytes: Optional[int] = None) -> Any:
    return _filled(lib.Counters, lib.counters_init,
                   {"library": _path(library or _cupti.find()), "interval_us": interval_us,
                    "most_cpu_percent": most_cpu_percent, "memory_bytes": memory_bytes})


def _cuda_calls(slow_copy_us: Optional[int] = None) -> Any:
    return _filled(lib.CudaCalls, lib.cuda_calls_init, {"slow_copy_us": slow_copy_us})


def _cuda_events(pairs_per_context: Optional[int] = None, memory_bytes: Optional[int] = None, layers: Optional[bool] = None,
                 layer_cost_percent: Optional[float] = None, graph_scopes: Optional[int] = None) -> Any:
    return _filled(lib.CudaEvents, lib.cuda_events_init,
                   {"pairs_per_context": pairs_per_context, "memory_bytes": memory_bytes, "layers": layers,
                    "graph_scopes": graph_scopes, "layer_cost_percent": layer_cost_percent})


def _options(argument: str, given: Any, function: Callable[..., Any]) -> Optional[Mapping[str, Any]]:
    """Returns the options that an argument passes on to `function`; None: False. Raises InvalidArgument."""
    if isinstance(given, bool):
        return {} if given else None
    if not isinstance(given, Mapping):
        raise lib.InvalidArgument(f"{argument} is {given!r}; it must be True, False or a mapping of options")
    known = inspect.signature(function).parameters
    for name in given:
        if name not in known:
            raise lib.InvalidArgument(f"{argument} has the unknown option {name!r}; it may have {', '.join(known)}")
    return given


def _gpu(counters: Any = True, cuda_calls: Any = True, cuda_events: Any = True, nvml: Any = True) -> Any:
    gpu = _filled(lib.Gpu, lib.gpu_init, {})
    for name, given, make in (("counters", counters, _counters), ("cuda_calls", cuda_calls, _cuda_calls),
                              ("cuda_events", cuda_events, _cuda_events), ("nvml", nvml, _nvml)):
        options = _options(name, given, make)
        setattr(gpu, f"with_{name}", options is not None)
        if options is not None:
            setattr(gpu, name, ctypes.pointer(make(**options)))
    return gpu


def start(incident_directory: Union[str, "os.PathLike[str]", None] = None, *, process_name: Optional[str] = None,
          memory_budget_bytes: Optional[int] = None, max_ring_bytes: Optional[int] = None,
          min_ring_bytes: Optional[int] = None, max_grown_ring_bytes: Optional[int] = None,
          max_open_requests: Optional[int] = None, clock: Optional[Clock] = None,
          pre_window_ms: Optional[int] = None, post_window_ms: Optional[int] = None,
          max_incidents_per_cause_and_hour: Optional[int] = None, max_incidents_kept: Optional[int] = None,
          max_incident_directory_bytes: Optional[int] = None, worker_cpu_percent: Optional[int] = None,
          depth: Optional[Depth] = None, overhead_budget_percent: Optional[float] = None,
          perfetto_file: Optional[bool] = None, accept_unsafe_directory: Optional[bool] = None,
          handle_ends: Optional[Ends] = None, end_grace_ms: Optional[int] = None,
          black_box_directory: Union[str, "os.PathLike[str]", None] = None,
          log: LogFunction = _to_logging, from_environment: bool = False,
          gpu: Union[bool, Mapping[str, Any]] = False,
          collections: bool = True, interpreter_lock: bool = True, event_loops: bool = True,
          stacks: bool = True, compilation: bool = True) -> Recorder:
    """Starts the recorder of this process; in a server that forks workers, call it in each.

    None means the default of pitot/options.h, or with `from_environment` the value of PITOT_INCIDENT_DIRECTORY and the other
    variables. `log` takes messages, with a level of the module logging; by default they go to the logger "pitot". `gpu` calls
    `Recorder.enable_gpu`, as a mapping with these arguments; the log has its errors.

    `collections` records garbage collections of 1 ms and more. `interpreter_lock` has a thread ask for the interpreter's lock
    every 10 ms, and records who had it when that took 2 ms or more; without a lock it records stops of all threads.
    `event_loops` makes requests follow their tasks in asyncio, and records steps of 1 ms and more. `stacks` records where
    threads are while a request is late. `compilation` records what torch.compile and Triton compile or tune at run time.
    docs/guide/python.md says what each costs. `black_box_directory` holds the file that outlives a killed process.

    Returns a recorder that runs until `stop` or the end of the interpreter. If it could not start, it does not record; its
    `status` and the log give the reason. Raises InvalidArgument for a wrong option.
    """
    gpu_options = _options("gpu", gpu, _gpu)
    enabled = None if gpu_options is None else _gpu(**gpu_options)
    init = lib.options_init_from_environment if from_environment else lib.options_init
    options = _filled(lib.Options, init, dict(
        incident_directory=_path(incident_directory),
        process_name=lib.encode("process_name", process_name), memory_budget_bytes=memory_budget_bytes, max_ring_bytes=max_ring_bytes,
        min_ring_bytes=min_ring_bytes, max_grown_ring_bytes=max_grown_ring_bytes, max_open_requests=max_open_requests, clock=clock, pre_window_ms=pre_window_ms,
        post_window_ms=post_window_ms, max_incidents_per_cause_and_hour=max_incidents_per_cause_and_hour,
        max_incidents_kept=max_incidents_kept, max_incident_directory_bytes=max_incident_directory_bytes,
        worker_cpu_percent=worker_cpu_percent, depth=depth, overhead_budget_percent=overhead_budget_percent,
        perfetto_file=perfetto_file, accept_unsafe_directory=accept_unsafe_directory,
        handle_ends=handle_ends, end_grace_ms=end_grace_ms, black_box_directory=_path(black_box_directory),
        language=lib.LANGUAGE_PYTHON, log=_address(_log_callback(log))))
    if before_start is not None:
        before_start()
    handle = c_void_p()
    status = _call(lib.recorder_start, byref(options), byref(handle))
    recorder = Recorder(handle.value, None if status else status)
    if status:
        _running.add(recorder)
        _evidence.start(recorder, bool(collections), bool(interpreter_lock), bool(event_loops), bool(stacks), bool(compilation))
        if enabled is not None:
            try:
                _call(lib.recorder_enable_gpu, handle.value, byref(enabled))
            except lib.InvalidArgument:
                recorder.stop()
                raise
    return recorder


@atexit.register
def _stop_all() -> None:
    # While the interpreter still exists: callbacks on Pitot's threads need it.
    for recorder in list(_running):
        recorder.stop()
