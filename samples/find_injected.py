#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Finds the incident that holds a request that was made slow on purpose.

Compares what the recorder says about requests (`pitot requests DUMP --json`, and which of them its report lists as slow)
with what the server's fault log says was injected. Prints the incident's directory and, on a second line, the request.
Exit status: 0 found, 1 not, 2 bad usage.
"""

import argparse
import json
import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from typing import Dict, List, NamedTuple, Optional, Set


class Found(NamedTuple):
    incident: Path
    request: dict
    injected_ms: float


def read_injected(fault_log: Path) -> Dict[str, float]:
    """Milliseconds injected, by request id. The last line may be half written."""
    injected = defaultdict(float)
    if fault_log.exists():
        for line in fault_log.read_text(encoding='utf-8').splitlines():
            try:
                event = json.loads(line)
            except json.JSONDecodeError:
                continue
            if 'as' in event:  # other lines say what is true of a request without a fault, too
                injected[event['request']] += event['injected_ns'] / 1e6
    return injected


def read_requests(pitot: str, dump: Path) -> List[dict]:
    run = subprocess.run([pitot, 'requests', str(dump), '--json', '--limit', '0'],
                         capture_output=True, text=True, timeout=60, check=False)
    if run.returncode != 0:
        print(f'{dump}: pitot requests: status {run.returncode}: {run.stderr.strip()}', file=sys.stderr)
        return []
    return json.loads(run.stdout)['requests']


def listed_as_slow(report: Path) -> Set[str]:
    """Ids of the numbered requests: `1) 71.3 ms  /classify  ok  request 96b37ebb202f6a7b`."""
    return set(re.findall(r'^\d+\) .* request ([0-9a-f]{16})$', report.read_text(encoding='utf-8'), re.MULTILINE))


def find(pitot: str, incidents: Path, injected: Dict[str, float], above_ms: float) -> Optional[Found]:
    """The slowest injected request of the first incident that holds one."""
    dumps = sorted(incidents.glob('*/dump.pitot'))
    for dump in dumps:
        # The verdict comes last.
        if not all((dump.parent / name).exists() for name in ('report.txt', 'report.html')):
            continue
        listed = listed_as_slow(dump.parent / 'report.txt')
        slow = [r for r in read_requests(pitot, dump)
                if r['id'] in listed and r['id'] in injected
                and r['latency_ms'] is not None and r['latency_ms'] >= max(above_ms, injected[r['id']])]
        if slow:
            request = max(slow, key=lambda r: r['latency_ms'])
            return Found(dump.parent, request, injected[request['id']])
    print(f'{len(dumps)} incidents, {len(injected)} requests made slow, none is in an incident', file=sys.stderr)
    return None


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--pitot', required=True, help='the command line tool')
    parser.add_argument('--incidents', required=True, type=Path, help='directory of incidents')
    parser.add_argument('--fault-log', required=True, type=Path, help="the server's --fault-log")
    parser.add_argument('--above-ms', required=True, type=float, help='how slow the request must be')
    args = parser.parse_args()

    found = find(args.pitot, args.incidents, read_injected(args.fault_log), args.above_ms)
    if found is None:
        return 1
    print(found.incident)
    print(f'request {found.request["id"]} took {found.request["latency_ms"]:.1f} ms, '
          f'of which {found.injected_ms:.1f} ms were injected')
    return 0


if __name__ == '__main__':
    sys.exit(main())
