#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares kernels of an export of Nsight Systems, as nsys-ai finds them, with those that pitot reads.

Without FILE it makes an export of two processes by NVIDIA's schema. Times must be equal to the nanosecond: of each kernel in
pitot's JSON of it, and of all kernels of a name. Exit: 0 equal, 1 different, 77 nsys-ai is not installed.
"""

import argparse
import collections
import json
import pathlib
import random
import sqlite3
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
SKIPPED = 77

SCHEMA = '''
CREATE TABLE StringIds (id INTEGER NOT NULL PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE META_DATA_EXPORT (name TEXT NOT NULL, value TEXT);
CREATE TABLE TARGET_INFO_SESSION_START_TIME (utcEpochNs INTEGER, utcTime TEXT, localTime TEXT);
CREATE TABLE TARGET_INFO_GPU (vmId INTEGER NOT NULL, id INTEGER NOT NULL, name TEXT, busLocation TEXT, totalMemory INTEGER,
  memoryBandwidth INTEGER, smCount INTEGER, chipName TEXT, cuDevice INTEGER);
CREATE TABLE TARGET_INFO_CUDA_DEVICE (gpuId INTEGER, cudaId INTEGER NOT NULL, pid INTEGER NOT NULL, uuid TEXT,
  numMultiprocessors INTEGER);
CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INTEGER NOT NULL, end INTEGER NOT NULL, eventClass INTEGER NOT NULL,
  globalTid INTEGER, correlationId INTEGER, nameId INTEGER NOT NULL, returnValue INTEGER NOT NULL);
CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId INTEGER NOT NULL,
  contextId INTEGER NOT NULL, streamId INTEGER NOT NULL, correlationId INTEGER, globalPid INTEGER,
  demangledName INTEGER NOT NULL, shortName INTEGER NOT NULL, registersPerThread INTEGER NOT NULL, gridX INTEGER NOT NULL,
  gridY INTEGER NOT NULL, gridZ INTEGER NOT NULL, blockX INTEGER NOT NULL, blockY INTEGER NOT NULL, blockZ INTEGER NOT NULL,
  staticSharedMemory INTEGER NOT NULL, dynamicSharedMemory INTEGER NOT NULL, graphNodeId INTEGER);
CREATE TABLE NVTX_EVENTS (start INTEGER NOT NULL, end INTEGER, eventType INTEGER NOT NULL, rangeId INTEGER, text TEXT,
  globalTid INTEGER, textId INTEGER, domainId INTEGER);
'''


def make_export(path, launches):
    rows = random.Random(27)
    database = sqlite3.connect(path)
    database.executescript(SCHEMA)
    names = {1: 'cudaLaunchKernel_v7000', 2: 'step'}
    names.update({10 + i: f'void kernel_{i}<float>(float*)' for i in range(40)})
    names.update({110 + i: f'kernel_{i}' for i in range(40)})
    insert = {table: f'INSERT INTO {table} VALUES ({", ".join("?" * columns)})' for table, columns in (
        ('StringIds', 2), ('CUPTI_ACTIVITY_KIND_RUNTIME', 7), ('CUPTI_ACTIVITY_KIND_KERNEL', 19), ('NVTX_EVENTS', 8))}
    database.executemany(insert['StringIds'], names.items())
    database.execute("INSERT INTO META_DATA_EXPORT VALUES ('EXPORT_SCHEMA_VERSION', '3.28.1')")
    database.execute("INSERT INTO TARGET_INFO_SESSION_START_TIME VALUES (1779630170000000000, '', '')")
    for gpu in range(2):
        database.execute('INSERT INTO TARGET_INFO_GPU (vmId, id, name, smCount) VALUES (0, ?, ?, 132)', (gpu, f'H{gpu}'))
    for device, pid in enumerate((100, 200)):
        database.execute("INSERT INTO TARGET_INFO_CUDA_DEVICE VALUES (?, ?, ?, '', 132)", (device, device, pid))
        process = 1 << 48 | pid << 24
        at, free = 1_000_000, {7: 0, 8: 0}
        calls, kernels, ranges = [], [], []
        for launch in range(1, launches + 1):
            at += rows.randint(2_000, 9_000)
            stream, kernel = rows.choice((7, 8)), rows.randrange(40)
            begin = max(at + rows.randint(3_000, 9_000), free[stream])
            free[stream] = begin + rows.randint(1_000, 9_000)
            calls.append((at, at + rows.randint(900, 1_900), 0, process | pid + 1, launch, 1, 0))
            kernels.append((begin, free[stream], device, 1, stream, launch, process, 10 + kernel, 110 + kernel, 40, 8, 1, 1, 256,
                            1, 1, 0, 1024, None))
            if launch % 100 == 1:
                ranges.append((at - 100, at + 300_000, 59, None, None, process | pid + 1, 2, 0))
        database.executemany(insert['CUPTI_ACTIVITY_KIND_RUNTIME'], calls)
        database.executemany(insert['CUPTI_ACTIVITY_KIND_KERNEL'], kernels)
        database.executemany(insert['NVTX_EVENTS'], ranges)
    database.commit()
    database.close()


def nanoseconds(microseconds):
    return round(microseconds * 1000)


def read_by_pitot(pitot, path, folder):
    made = folder / 'kernels.json'
    subprocess.run([pitot, 'convert', path, '--to', 'kineto', '-o', made], check=True, capture_output=True)
    kernels, totals = [], collections.defaultdict(lambda: [0, 0])
    for event in json.loads(made.read_text())['traceEvents']:
        if event.get('cat') != 'kernel':
            continue
        begin, duration = nanoseconds(event['ts']), nanoseconds(event['dur'])
        kernels.append([begin, begin + duration, event['args']['stream'], event['name']])
        totals[event['name']][0] += 1
        totals[event['name']][1] += duration
    return {'kernels': sorted(kernels), 'totals': dict(totals)}


def check(pitot, python, path, folder):
    out = subprocess.run([python, pathlib.Path(__file__).parent / 'read_nsys.py', path], check=True, capture_output=True,
                         text=True, cwd=folder)
    theirs, ours = json.loads(out.stdout.splitlines()[-1]), read_by_pitot(pitot, path, folder)
    if not theirs['kernels']:
        print(f'{path}: nsys-ai finds no kernel')
        return 1
    different = [name for name in ('kernels', 'totals') if theirs[name] != ours[name]]
    for name in different:
        print(f'{path}: {name} differ: {str(theirs[name])[:300]} in nsys-ai, {str(ours[name])[:300]} in pitot')
    print(f'{path}: {len(theirs["kernels"])} kernels, {len(theirs["totals"])} names, {len(different)} differences')
    return 1 if different else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--readers', type=pathlib.Path, default=ROOT / 'build/readers')
    parser.add_argument('--pitot', type=pathlib.Path, default=ROOT / 'build/release/bin/pitot')
    parser.add_argument('--launches', type=int, default=2000)
    parser.add_argument('--make', type=pathlib.Path, help='only make an export, at this path')
    parser.add_argument('files', nargs='*', type=pathlib.Path, metavar='FILE')
    args = parser.parse_args()
    if args.make:
        return make_export(args.make, args.launches)
    python = args.readers / 'nsys-ai/bin/python'
    if not python.exists():
        print('nsys-ai is not installed: run tools/readers nsys-ai')
        return SKIPPED
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        files = [path.resolve() for path in args.files]
        if not files:
            files = [folder / 'export.sqlite']
            make_export(files[0], args.launches)
        return max(check(args.pitot.resolve(), python, path, folder) for path in files)


if __name__ == '__main__':
    sys.exit(main())
