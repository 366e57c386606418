# SPDX-License-Identifier: Apache-2.0
"""The runs of the board of an LLM server that others wrote: llama.cpp's llama-server with Pitot in it (llama_edits.py), on a CPU.

Built once, from the source that PyPI's llama-cpp-python ships, in build/llm. With a random model (llama_model.py).
"""

import http.client
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tarfile
import threading
import time
from pathlib import Path
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

import llama_edits
import servers

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / 'build' / 'llm'
SERVER, MODEL, PYTHON = FOLDER / 'server' / 'bin' / 'llama-server', FOLDER / 'model.gguf', FOLDER / 'venv' / 'bin' / 'python'
SDIST = 'llama-cpp-python==0.3.36 --hash=sha256:832db0699007f1be95a7e41ef12e88926b02ba836461e36a36372db2760c1a2e'
FOR_MODEL = ('numpy==2.4.6', 'PyYAML==6.0.4', 'requests==2.34.2', 'tqdm==4.70.1')
BUILD_S, START_S = 7200, 60
FLAGS = ('-DCMAKE_BUILD_TYPE=Release', '-DCMAKE_CXX_FLAGS_RELEASE=-O1 -DNDEBUG', '-DCMAKE_C_FLAGS_RELEASE=-O3 -DNDEBUG', '-DBUILD_SHARED_LIBS=OFF',
         '-DGGML_OPENMP=OFF', '-DLLAMA_BUILD_TESTS=OFF', '-DLLAMA_BUILD_EXAMPLES=OFF', '-DLLAMA_BUILD_APP=OFF', '-DLLAMA_BUILD_UI=OFF',
         '-DLLAMA_USE_PREBUILT_UI=OFF', '-DLLAMA_OPENSSL=OFF', '-DLLAMA_ALL_WARNINGS=OFF', '-DMTMD_VIDEO=OFF', '-DLLAMA_BUILD_NUMBER=1',
         '-DLLAMA_BUILD_COMMIT=none')
STREAMS, ANSWER, WORDS = 6, 40, 24  # requests at once, tokens of an answer, words of a prompt
LEXICON = ('the', 'of', 'and', 'ing', 'ent', 'on', 'at', 'her', 'ion', 'ter', 'est', 'all')
MS = 1_000_000


def run(*command: Any, **options: Any) -> None:
    with open(FOLDER / 'build.log', 'a', encoding='utf-8') as log:
        subprocess.run([str(part) for part in command], check=True, timeout=BUILD_S, stdin=subprocess.DEVNULL, stdout=log,
                       stderr=subprocess.STDOUT, **options)


def fetch() -> None:
    """The source of llama.cpp, with our edits."""
    wanted, source = FOLDER / 'sdist.txt', FOLDER / 'source'
    wanted.write_text(SDIST + '\n', encoding='utf-8')
    run(sys.executable, '-m', 'pip', 'download', '--quiet', '--disable-pip-version-check', '--no-deps', '--no-binary=llama-cpp-python', '--require-hashes', '-d',
        FOLDER, '-r', wanted)
    unpacked = FOLDER / 'unpacked'
    with tarfile.open(next(FOLDER.glob('llama_cpp_python-*.tar.gz'))) as sdist:
        sdist.extractall(unpacked, filter='data')
    shutil.move(str(next(unpacked.glob('*/vendor/llama.cpp'))), source)
    shutil.rmtree(unpacked)
    shutil.copytree(source / 'tools' / 'server', FOLDER / 'server.orig')


def ensure_server(binaries: Path) -> None:
    """Builds the server with the installed libraries of build/release, and its model. Raises servers.Failed."""
    try:
        FOLDER.mkdir(parents=True, exist_ok=True)
        if not (FOLDER / 'source').exists():
            fetch()
        edited = FOLDER / 'edited'
        shutil.rmtree(edited, ignore_errors=True)
        shutil.copytree(FOLDER / 'server.orig', edited)
        llama_edits.edit(edited)
        for file in edited.glob('*.*'):  # only what differs, or all is compiled again
            there = FOLDER / 'source' / 'tools' / 'server' / file.name
            if file.is_file() and file.read_bytes() != there.read_bytes():
                shutil.copyfile(file, there)
        run('cmake', '--install', binaries.parent, '--prefix', FOLDER / 'pitot')
        run('cmake', '-G', 'Ninja', '-S', FOLDER / 'source', '-B', FOLDER / 'server', f'-DCMAKE_PREFIX_PATH={FOLDER / "pitot"}', *FLAGS)
        run('cmake', '--build', FOLDER / 'server', '--target', 'llama-server')
        if not MODEL.exists():
            run(sys.executable, '-m', 'venv', FOLDER / 'venv')
            run(PYTHON, '-m', 'pip', 'install', '--quiet', '--disable-pip-version-check', '--only-binary=:all:', *FOR_MODEL)
            run(PYTHON, Path(__file__).with_name('llama_model.py'), MODEL, env={**os.environ, 'PYTHONPATH': str(FOLDER / 'source' / 'gguf-py')})
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        raise servers.Failed(f'{error} (see {FOLDER / "build.log"})') from error


# ---- A server under load

def ask(port: int, words: int, answer: int) -> Tuple[int, int]:
    """One request, read to its end; returns its begin and end."""
    begin_ns = time.monotonic_ns()
    prompt = ' '.join(LEXICON[(begin_ns // 1000 + i * i) % len(LEXICON)] for i in range(words))
    connection = http.client.HTTPConnection('127.0.0.1', port, timeout=120)
    connection.request('POST', '/completion', json.dumps({'prompt': prompt, 'n_predict': answer, 'ignore_eos': True, 'stream': True,
                                                          'cache_prompt': False}), {'content-type': 'application/json'})
    connection.getresponse().read()
    connection.close()
    return begin_ns, time.monotonic_ns()


class Load:
    """Streams of requests, one after the other, until it is stopped."""

    def __init__(self, port: int) -> None:
        self.port, self.is_over = port, threading.Event()
        self.threads = [threading.Thread(target=self.stream, args=(i,)) for i in range(STREAMS)]
        for thread in self.threads:
            thread.start()

    def stream(self, number: int) -> None:
        pauses = random.Random(number)  # or all would begin and end together
        time.sleep(0.07 * number)
        while not self.is_over.is_set():
            try:
                ask(self.port, WORDS, ANSWER)
            except (OSError, http.client.HTTPException):
                return  # the server is gone
            time.sleep(pauses.uniform(0.02, 0.25))

    def stop(self) -> None:
        self.is_over.set()
        for thread in self.threads:
            thread.join()


class Struck(NamedTuple):
    """A fault made by the runner."""
    fault: str
    begin_ns: int
    end_ns: int


class Server:
    """llama-server on a free port, stopped by its process id."""

    def __init__(self, folder: Path, seconds: float, quota: Optional[servers.Quota]) -> None:
        with socket.create_server(('127.0.0.1', 0)) as free:
            self.port = free.getsockname()[1]
        self.log, self.hold = open(folder / 'server.txt', 'w', encoding='utf-8'), folder / 'hold'
        self.quota = quota
        self.process = subprocess.Popen(
            [str(SERVER), '-m', str(MODEL), '-c', '24576', '-np', str(STREAMS), '-t', '1', '-tb', '1', '--host', '127.0.0.1', '--port', str(self.port),
             '--no-warmup'], stdout=self.log, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
            preexec_fn=(lambda: quota.add(os.getpid())) if quota else None,
            env={**os.environ, 'BOARD_LOG': str(folder / 'server_faults.jsonl'), 'BOARD_HOLD': str(self.hold),
                 'PITOT_INCIDENT_DIRECTORY': str(folder / 'incidents'), 'PITOT_PRE_WINDOW_MS': str(int(1000 * seconds) + 5000),
                 'PITOT_MAX_RING_BYTES': str(servers.RING_BYTES), 'PITOT_MEMORY_BUDGET_BYTES': str(servers.BUDGET_BYTES),
                 'PITOT_WORKER_CPU_PERCENT': '100'})
        deadline = time.monotonic() + START_S
        while not self.is_ready():
            if self.process.poll() is not None or time.monotonic() > deadline:
                self.stop()
                raise servers.Failed(f'llama-server did not start: {folder / "server.txt"}')
            time.sleep(0.1)

    def is_ready(self) -> bool:
        try:
            connection = http.client.HTTPConnection('127.0.0.1', self.port, timeout=2)
            connection.request('GET', '/health')
            return connection.getresponse().status == 200
        except (OSError, http.client.HTTPException):
            return False

    def trigger(self) -> None:
        connection = http.client.HTTPConnection('127.0.0.1', self.port, timeout=120)
        connection.request('POST', '/incidentz', '{}', {'content-type': 'application/json'})
        connection.getresponse().read()

    def stop(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(servers.STOP_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.log.close()


def strike(server: Server, fault: str, dose: int) -> None:
    """Makes a fault, and returns when it is over."""
    if fault == 'long_prompt':
        ask(server.port, dose, 4)
    elif fault == 'spinners':
        code = f'import time\nuntil = time.time() + {dose / 1000}\nwhile time.time() < until: pass'
        spinning = [subprocess.Popen([sys.executable, '-c', code]) for _ in range(2 * (os.cpu_count() or 1))]
        for one in spinning:
            one.wait()
    elif fault == 'stopped':
        server.process.send_signal(signal.SIGSTOP)
        time.sleep(dose / 1000)
        server.process.send_signal(signal.SIGCONT)
    elif fault == 'quota' and server.quota is not None:
        server.quota.set(30)
        time.sleep(dose / 1000)
        server.quota.set(None)
    elif fault == 'lock_held':
        server.hold.write_text(str(dose), encoding='utf-8')
        time.sleep(dose / 1000 + 0.5)
    elif fault == 'burst':
        threads = [threading.Thread(target=ask, args=(server.port, WORDS, ANSWER)) for _ in range(dose)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    elif fault == 'long_answer':
        ask(server.port, WORDS, dose)


def lines_of(served: List[Dict[str, Any]], struck: List[Struck], logged: List[Dict[str, Any]]) -> List[Dict[str, Any]]:
    """A line for each request that ran during a fault of the whole process, as long as both did."""
    lines = []
    for fault, begin_ns, end_ns in struck:
        if fault == 'long_answer':  # its own; the one that ended then
            own = min(served, key=lambda one: abs(one['time_ns'] + one['injected_ns'] - end_ns) + abs(one['time_ns'] - begin_ns))
            lines.append({**own, 'fault': fault, 'injected_ns': 0, 'holder': []})
        elif fault in ('spinners', 'stopped', 'quota', 'burst'):
            lines += overlaps(served, fault, begin_ns, end_ns, [])
    for one in logged:
        if one['fault'] == 'lock_held':
            lines += overlaps(served, 'lock_held', one['time_ns'], one['time_ns'] + one['injected_ns'], one['holder'])
    steps = [one for one in logged if one['fault'] == 'step_cpu_waited']
    for one in served:
        waited_ns = sum(step['injected_ns'] for step in steps if 0 <= step['time_ns'] - one['time_ns'] < one['injected_ns'])
        if waited_ns > 0:
            lines.append({**one, 'fault': 'cpu_waited', 'injected_ns': waited_ns, 'holder': []})
    return lines


def overlaps(served: List[Dict[str, Any]], fault: str, begin_ns: int, end_ns: int, holder: List[str]) -> List[Dict[str, Any]]:
    lines = []
    for one in served:
        overlap_ns = min(one['time_ns'] + one['injected_ns'], end_ns) - max(one['time_ns'], begin_ns)
        if overlap_ns > 0 and one['request'] not in holder:
            lines.append({'time_ns': begin_ns, 'request': one['request'], 'fault': fault, 'injected_ns': overlap_ns, 'role': 'waiter',
                          'holder': holder})
    return lines


class Run(NamedTuple):
    """A run with one fault, some times; a Job."""
    name: str
    fault: str
    doses: Tuple[int, ...]  # one after the other
    quiet_s: float
    pause_s: float

    @property
    def seconds(self) -> float:
        return self.quiet_s + len(self.doses) * (self.pause_s + 3)

    def make(self, binaries: Path, out: Path, seed: int) -> None:
        folder = out / self.name
        shutil.rmtree(folder, ignore_errors=True)
        (folder / 'incidents').mkdir(parents=True)
        quota = servers.Quota() if self.fault == 'quota' else None
        struck: List[Struck] = []
        try:
            server = Server(folder, self.seconds + 60, quota)
            load = Load(server.port)
            try:
                time.sleep(self.quiet_s)
                for i, dose in enumerate(self.doses):
                    begin_ns = time.monotonic_ns()
                    strike(server, self.fault, dose)
                    struck.append(Struck(self.fault, begin_ns, time.monotonic_ns()))
                    time.sleep(self.pause_s + 0.1 * ((seed + i) % 7))
                load.stop()
                server.trigger()
            finally:
                load.is_over.set()
                server.stop()
        finally:
            if quota is not None:
                quota.remove()
        self.write_log(folder, struck)

    @staticmethod
    def write_log(folder: Path, struck: List[Struck]) -> None:
        path = folder / 'server_faults.jsonl'
        lines = [json.loads(text) for text in path.read_text(encoding='utf-8').splitlines()] if path.exists() else []
        served = [one for one in lines if one['fault'] == 'served']
        kept = [one for one in lines if one['fault'] == 'long_prompt']
        servers.write_whole(folder / 'injected.jsonl', ''.join(json.dumps(one) + '\n' for one in kept + lines_of(served, struck, lines)))

    def judge(self, binaries: Path, out: Path) -> None:
        servers.judge(binaries, out / self.name)

    def is_made(self, out: Path) -> bool:
        return (out / self.name / 'injected.jsonl').exists()

    def is_done(self, out: Path) -> bool:
        return self.is_made(out) and (out / self.name / 'why.jsonl').exists()


class LlamaBoard:
    """Its load is fixed: as many streams as the server has slots."""

    def __init__(self, setting: Any, capacity: float, typical_ms: float) -> None:
        self.setting = setting

    @staticmethod
    def measure(binaries: Path, out: Path) -> Dict[str, float]:
        ensure_server(binaries)
        return {'capacity': 0.0, 'typical_ms': 0.0}

    def jobs(self) -> List[servers.Job]:
        setting = self.setting
        doses: Dict[str, Tuple[str, Tuple[int, ...]]] = {
            'L01': ('long_prompt', (400, 1500, 400, 1500)), 'L02': ('spinners', (1500, 1500, 1500)), 'L03': ('stopped', (300, 300, 300, 300)),
            'L05': ('quota', (1500, 1500, 1500)), 'L06': ('lock_held', (400, 200, 400, 200)), 'L10': ('burst', (24, 40)),
            'L12': ('long_answer', (300, 400, 300, 400)), 'C12': ('', ())}
        return [Run(name, fault, several, setting.quiet_s, setting.struck_s) for name, (fault, several) in doses.items() if name not in setting.skip]

    @staticmethod
    def unrecorded(job: servers.Job) -> List[servers.Job]:
        return []
