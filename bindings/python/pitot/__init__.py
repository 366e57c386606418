# SPDX-License-Identifier: Apache-2.0
"""Pitot for Python: a flight recorder for inference servers, on libpitot_c.so.

    import pitot

    recorder = pitot.start("/var/lib/myserver/incidents")  # its parent must exist
    recorder.add_latency_trigger("/classify", above_ms=50)

    with pitot.Request("/classify", traceparent) as request:  # in the handler
        with pitot.scope("decode"):
            image = decode(body)
        jobs.put((image, request.enqueue("images")))  # a token crosses threads

    with pitot.Batch("resnet50") as batch:  # on the executor's thread
        for job in batch_of_jobs:
            batch.join(job.token)

Everything is inert and cheap while no recorder runs. Nothing raises because recording failed; only a wrong argument does
(InvalidArgument).
"""

from pitot import asgi, wsgi
from pitot._calls import Batch, Request, Token, Wait, counter, emit_many, hook, instant, is_native, now, scope
from pitot._library import InvalidArgument, library_version
from pitot._logs import LogHandler
from pitot._profile import KernelProfile, OccupancyLimit, Profile, ProfileMetrics, ProfileReplay, profile_kernels
from pitot._record import Owner, WaitKind, cuda_scope, set_thread_name, set_work_stream, this_owner
from pitot._recorder import (Clock, CuptiAttach, Depth, DepthStats, Ends, Health, HealthState, Incident, Overhead, Recorder,
                             RequestView, RunningThreads, Stats, Status, StatusCode, set_counter_interval, start)
from pitot._request import BatchClose, Outcome
from pitot._traced import traced

__version__ = "0.1.0"

__all__ = [
    "Batch", "BatchClose", "Clock", "CuptiAttach", "Depth", "DepthStats", "Ends", "Health", "HealthState", "Incident", "InvalidArgument",
    "KernelProfile", "LogHandler", "OccupancyLimit", "Outcome", "Overhead", "Owner", "Profile", "ProfileMetrics", "ProfileReplay", "Recorder", "Request", "RequestView",
    "RunningThreads", "Stats", "Status", "StatusCode", "Token", "Wait", "WaitKind", "asgi", "counter", "cuda_scope", "emit_many", "hook", "instant", "is_native", "library_version", "now",
    "profile_kernels", "scope", "set_counter_interval", "set_thread_name", "set_work_stream", "start", "this_owner", "traced", "wsgi",
]
