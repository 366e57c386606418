# SPDX-License-Identifier: Apache-2.0
"""Keeps requests' ids and incidents for the board. It is a plug-in of vLLM, too, because the engine may have its own process.

Does nothing without PITOT_BOARD_OUT, a folder. There, `ids.txt` has a line for each request, vLLM's id and Pitot's, and `kept` has the
files of each incident, as they were when it was judged (later the recorder folds equal ones).
"""

import os
import time
from pathlib import Path
from typing import Any

KEPT = ('verdict.json', 'report.txt', 'dump.pitot')


def keep(incident: Any) -> None:
    """Keeps the files of an incident by links, which take some microseconds."""
    if incident.directory is None:
        return
    source = Path(incident.directory)
    target = Path(os.environ['PITOT_BOARD_OUT']) / 'kept' / source.name
    target.mkdir(parents=True, exist_ok=True)
    for name in KEPT:
        if (source / name).exists() and not (target / name).exists():
            os.link(source / name, target / name)
    (target / 'judged.txt').write_text(f'{time.time()} {incident.again} {incident.status.message}\n', encoding='utf-8')


def register() -> None:
    """vLLM's entry point."""
    if not os.environ.get('PITOT_BOARD_OUT') or getattr(register, 'is_done', False):
        return
    register.is_done = True  # type: ignore[attr-defined]
    import pitot.vllm
    out = Path(os.environ['PITOT_BOARD_OUT'])
    out.mkdir(parents=True, exist_ok=True)
    ids = open(out / 'ids.txt', 'a', encoding='utf-8', buffering=1)
    pitot.vllm.options['max_incidents_per_cause_and_hour'] = 1000
    pitot.vllm.on_start(lambda recorder: recorder.on_verdict(keep))
    pitot.vllm.on_request(lambda request, recorded: ids.write(f'{request.request_id} {recorded.id:016x}\n'))
