# SPDX-License-Identifier: Apache-2.0
"""Records vLLM (V1 engine) with Pitot: requests, steps, waits for the GPU, and a verdict for each late token.

vLLM loads it as a plug-in, in each of its processes. Nothing is recorded unless PITOT_INCIDENT_DIRECTORY is set; the README
has all variables. No line of the server changes. A program with an engine in it can add to what is recorded:

    import pitot.vllm

    pitot.vllm.options["max_incidents_per_cause_and_hour"] = 60  # of pitot.start
    pitot.vllm.on_start(lambda recorder: recorder.add_failure_trigger())
    pitot.vllm.on_request(lambda request, recorded: recorded.set_label("tenant", tenant_of(request.request_id)))
"""

from pitot.vllm._hooks import register
from pitot.vllm._recorder import on_start, options, recorder
from pitot.vllm._recording import on_request

__all__ = ["on_request", "on_start", "options", "recorder", "register"]
