# SPDX-License-Identifier: Apache-2.0
"""Traces for pages of `pitot view`, the pages, and what `pitot top` counts in the traces."""

import base64
import json
import re
import subprocess
import zlib
from pathlib import Path

HOSTILE = '</script><img src=x onerror=alert(1)>\u202e"\'&amp;'
TABLES = {'scope': 'Scopes, operators and waits', 'call': "Calls of the GPU's API", 'kernel': 'GPU work'}


class Wrong(Exception):
    """The page is not as it should be; the text says how."""


def check(is_right: bool, text: str) -> None:
    if not is_right:
        raise Wrong(text)


def event(name, category, begin_us, duration_us, thread, **args):
    return {'ph': 'X', 'name': name, 'cat': category, 'ts': begin_us, 'dur': duration_us, 'pid': 1, 'tid': thread, 'args': args}


def pytorch_trace(steps: int) -> dict:
    """A trace as PyTorch's profiler writes it: nested operators, launches, kernels, and a name that is no friend of pages."""
    events = [event('', 'cpu_op', 0, 1, 7)]
    for step in range(steps):
        at = 1000.5 * step
        events += [
            event(f'ProfilerStep#{step}', 'user_annotation', at, 900.25, 7),
            event('aten::linear', 'cpu_op', at + 10, 400, 7),
            event('aten::linear', 'cpu_op', at + 20, 300.125, 7),  # a name within itself counts once
            event(HOSTILE, 'cpu_op', at + 500, 50, 7),
            event('aten::copy_', 'cpu_op', at + 100, 700, 8),
            event('cudaLaunchKernel', 'cuda_runtime', at + 30, 6.5, 7, correlation=3 * step + 1),
            event('cudaMemcpyAsync', 'cuda_runtime', at + 120, 8, 8, correlation=3 * step + 2),
            event('cudaDeviceSynchronize', 'cuda_runtime', at + 450, 40, 7, correlation=3 * step + 3),
            event('void gemm<float>(float*)', 'kernel', at + 50, 333.333, 7, device=0, stream=7, correlation=3 * step + 1),
            event('Memcpy HtoD (Pageable -> Device)', 'gpu_memcpy', at + 130, 21, 9, device=0, stream=9, bytes=4096,
                  correlation=3 * step + 2),
        ]
    return {'schemaVersion': 1, 'deviceProperties': [{'id': 0, 'name': 'GPU', 'warpSize': 32}], 'traceEvents': events}


def top(pitot: str, trace: Path, by: str) -> dict:
    made = subprocess.run([pitot, 'top', '--by', by, '--json', '--limit', '0', str(trace)], capture_output=True, check=False)
    check(made.returncode in (0, 1), f'pitot top --by {by} {trace}: exit code {made.returncode}: {made.stderr.decode()}')
    rows = {}
    for row in json.loads(made.stdout)['rows']:
        if by == 'kernel':
            rows[row['name']] = [row['calls'], row['self_gpu_ns'], row['self_gpu_ns']]
        elif row['calls'] != 0:  # rows in brackets stand for what was not recorded
            rows[row['name']] = [row['calls'], row['cpu_total_ns'], row['self_cpu_ns']]
    return rows


def view(pitot: str, page: Path, *traces: Path) -> Path:
    made = subprocess.run([pitot, 'view', *map(str, traces), '-o', str(page)], capture_output=True, check=False)
    check(made.returncode == 0, f'pitot view: exit code {made.returncode}: {made.stderr.decode()}')
    return page


def policy_of(page: Path) -> str:
    return re.search(r'Content-Security-Policy" content="([^"]*)"', page.read_text(encoding='utf-8')).group(1)


class Block:
    """The data block of a page."""

    def __init__(self, page: Path):
        packed = re.search(r'id="data">([A-Za-z0-9+/=]*)</script>', page.read_text(encoding='utf-8')).group(1)
        data = zlib.decompress(base64.b64decode(packed))
        size = int.from_bytes(data[:4], 'little')
        self.head = json.loads(data[4:4 + size])
        self.columns = data[4 + size:]
        self.rest = len(self.columns)

    @staticmethod
    def unzigzag(value: int) -> int:
        return value >> 1 ^ -(value & 1)

    def column(self, name: str, count: int) -> list:
        at = 0
        for one, size in self.head['columns'].items():
            if one == name:
                break
            at += size
        values = []
        for _ in range(count):
            value = shift = 0
            while True:
                byte = self.columns[at]
                at += 1
                value |= (byte & 127) << shift
                shift += 7
                if byte < 128:
                    break
            values.append(value)
        return values

    def items(self):
        """Name, kind, begin and end of each item, and from when on its lane is complete."""
        count = self.head['items']
        names, kinds = self.column('name', count), self.column('kind', count)
        begins, durations = self.column('begin', count), self.column('duration', count)
        i = 0
        for lane in self.head['lanes']:
            begin = 0
            for _ in range(lane['items']):
                begin += self.unzigzag(begins[i])
                yield self.head['strings'][names[i]], kinds[i] >> 1, begin, begin + durations[i], lane['known']
                i += 1
