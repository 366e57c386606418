# SPDX-License-Identifier: Apache-2.0
"""Runs a faulty sample server (test/scoreboard) under load, and keeps the injectors' logs and Pitot's answers."""

import hashlib
import http.client
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any, Dict, List, NamedTuple, Optional, Protocol, Sequence

WARM_UP_S = 1.0
SAMPLE_S = 0.1
TICK_NS = 1_000_000_000 // os.sysconf('SC_CLK_TCK')
START_S, STOP_S, TOOL_S = 120, 60, 600
SHORTEN = Path(__file__).with_name('shorten.py')
PROGRAMS = ('faulty_image_server', 'faulty_decode_server', 'load_generator', 'pitot', 'played_server', 'alter_dump')
ALL_REQUESTS = 1_000_000  # the number of slowest requests to list
RING_BYTES, BUDGET_BYTES = 16 << 20, 1 << 30  # for a whole run in one incident


class Job(Protocol):
    """Something that makes a folder for the score."""
    @property
    def name(self) -> str: ...

    @property
    def seconds(self) -> float:
        """Its seconds on the machine, without starting and stopping."""

    def make(self, binaries: Path, out: Path, seed: int) -> None:
        """Runs alone on the machine. Writes everything except Pitot's answers into out / name. Raises Failed, Unavailable."""

    def judge(self, binaries: Path, out: Path) -> None:
        """Writes Pitot's answers; several may run at once. The file that is_done looks for comes last, and whole. Raises Failed."""

    def is_made(self, out: Path) -> bool:
        """Whether the run exists, judged or not."""

    def is_done(self, out: Path) -> bool: ...


class Phase(NamedTuple):
    """Seconds with these faults; quiet without faults."""
    seconds: float
    faults: Sequence[str] = ()


class Plan(NamedTuple):
    """One run of a server, a Job."""
    name: str
    server: str  # image, decode or python
    arguments: Sequence[str]
    load: Sequence[str]
    phases: Sequence[Phase]
    environment: Dict[str, str] = {}
    rate: float = 1.0  # requests a second
    is_recorded: bool = True  # otherwise only the load generator and injectors log it
    is_judged: bool = True  # otherwise it only serves for comparison
    program: Sequence[str] = ()  # otherwise the faulty server of that name

    @property
    def seconds(self) -> float:
        return WARM_UP_S + sum(phase.seconds for phase in self.phases)

    def make(self, binaries: Path, out: Path, seed: int) -> None:
        serve(binaries, out / self.name, self, seed)

    def judge(self, binaries: Path, out: Path) -> None:
        if self.is_recorded and self.is_judged:
            judge(binaries, out / self.name)

    def is_made(self, out: Path) -> bool:
        return (out / self.name / 'injected.jsonl').exists()

    def is_done(self, out: Path) -> bool:
        return self.is_made(out) and (not self.is_recorded or not self.is_judged or (out / self.name / 'why.jsonl').exists())


class Version(NamedTuple):
    """A run, compared with another one by `pitot diff`; a Job."""
    name: str
    before: str
    plan: Plan

    @property
    def seconds(self) -> float:
        return self.plan.seconds

    def make(self, binaries: Path, out: Path, seed: int) -> None:
        if not (out / self.before / 'injected.jsonl').exists():
            raise Unavailable(f'it needs a run of {self.before}')
        serve(binaries, out / self.name, self.plan, seed)

    def judge(self, binaries: Path, out: Path) -> None:
        diff(binaries, out / self.before, out / self.name)

    def is_made(self, out: Path) -> bool:
        return (out / self.name / 'injected.jsonl').exists()

    def is_done(self, out: Path) -> bool:
        return (out / self.name / 'diff.json').exists()


class Played(NamedTuple):
    """A fault played by a server of the simulator, with its log of the truth; a Job."""
    name: str
    arguments: Sequence[str]
    seconds: float = 1

    def make(self, binaries: Path, out: Path, seed: int) -> None:
        (out / self.name).mkdir(parents=True, exist_ok=True)
        run_tool([binaries / 'played_server', '--out', out / self.name, '--seed', seed, *self.arguments])

    def judge(self, binaries: Path, out: Path) -> None:
        judge(binaries, out / self.name)

    def is_made(self, out: Path) -> bool:
        return self.is_done(out)  # takes a second

    def is_done(self, out: Path) -> bool:
        return (out / self.name / 'why.jsonl').exists()


class PlayedVersion(NamedTuple):
    """Two versions of the simulator's server, the first without a fault; a Job."""
    name: str
    arguments: Sequence[str]
    seconds: float = 1

    def make(self, binaries: Path, out: Path, seed: int) -> None:
        Played('before', ()).make(binaries, out / self.name, seed)
        Played(self.name, self.arguments).make(binaries, out, seed + 1)

    def judge(self, binaries: Path, out: Path) -> None:
        diff(binaries, out / self.name / 'before', out / self.name)

    def is_made(self, out: Path) -> bool:
        return self.is_done(out)

    def is_done(self, out: Path) -> bool:
        return (out / self.name / 'diff.json').exists()


class Altered(NamedTuple):
    """The dump of another run, with times moved or evidence removed; a Job."""
    name: str
    of: str
    arguments: Sequence[str]
    seconds: float = 1

    def make(self, binaries: Path, out: Path, seed: int) -> None:
        if not (out / self.of / 'injected.jsonl').exists():
            raise Unavailable(f'it needs a run of {self.of}')
        alter(binaries, out / self.of, out / self.name, self.arguments)

    def judge(self, binaries: Path, out: Path) -> None:
        judge(binaries, out / self.name)

    def is_made(self, out: Path) -> bool:
        return self.is_done(out)

    def is_done(self, out: Path) -> bool:
        return (out / self.name / 'why.jsonl').exists()


class OtherPrograms:
    """Logs ten times a second the CPU time of programs other than `process`. Its threads could not have that time."""

    def __init__(self, process: int, path: Path) -> None:
        self.process, self.is_over = process, threading.Event()
        self.log = open(path, 'w', encoding='utf-8')
        self.thread = threading.Thread(target=self.watch)
        self.thread.start()

    def busy_ns(self) -> int:
        """Busy time of all CPUs: user, nice, system, interrupts, and time stolen by a hypervisor."""
        fields = Path('/proc/stat').read_text(encoding='ascii').split('\n', 1)[0].split()
        return sum(int(fields[i]) for i in (1, 2, 3, 6, 7, 8)) * TICK_NS

    def own_ns(self) -> int:
        fields = Path(f'/proc/{self.process}/stat').read_text(encoding='utf-8').rpartition(')')[2].split()
        return (int(fields[11]) + int(fields[12])) * TICK_NS

    def watch(self) -> None:
        at_ns, had_ns = time.monotonic_ns(), self.busy_ns() - self.own_ns()
        while not self.is_over.wait(SAMPLE_S):
            try:
                now_ns, have_ns = time.monotonic_ns(), self.busy_ns() - self.own_ns()
            except OSError:
                return  # the server is gone
            self.log.write(json.dumps({'time_ns': at_ns, 'request': '', 'fault': 'other_programs', 'injected_ns': now_ns - at_ns,
                                       'cpu_ns': max(0, have_ns - had_ns)}) + '\n')
            at_ns, had_ns = now_ns, have_ns

    def stop(self) -> None:
        self.is_over.set()
        self.thread.join()
        self.log.close()


QUOTA = 'cpu_quota:'  # the only fault made by the runner: cpu_quota:dose_percent=30 of one CPU
QUOTA_PERIOD_US = 20_000
CGROUPS = (Path('/sys/fs/cgroup/cpu'), Path('/sys/fs/cgroup'))  # version 1, version 2


class Quota:
    """A control group with limited CPU time. Raises Unavailable if the machine does not allow one."""

    def __init__(self, roots: Sequence[Path] = CGROUPS) -> None:
        for root in roots:
            self.folder = root / f'pitot_scoreboard_{os.getpid()}'
            try:
                self.folder.mkdir()
            except OSError:
                continue
            if (self.folder / 'cpu.cfs_quota_us').exists() or (self.folder / 'cpu.max').exists():
                return
            self.folder.rmdir()
        raise Unavailable('this machine does not allow a CPU quota')

    def add(self, process: int) -> None:
        (self.folder / 'cgroup.procs').write_text(str(process), encoding='ascii')

    def set(self, percent: Optional[float]) -> None:
        """In percent of one CPU; None removes the limit."""
        quota = None if percent is None else int(QUOTA_PERIOD_US * percent / 100)
        if (self.folder / 'cpu.max').exists():
            (self.folder / 'cpu.max').write_text(f'{"max" if quota is None else quota} {QUOTA_PERIOD_US}', encoding='ascii')
        else:
            (self.folder / 'cpu.cfs_period_us').write_text(str(QUOTA_PERIOD_US), encoding='ascii')
            (self.folder / 'cpu.cfs_quota_us').write_text(str(-1 if quota is None else quota), encoding='ascii')

    def throttled_ns(self) -> int:
        stat = dict(line.split() for line in (self.folder / 'cpu.stat').read_text(encoding='ascii').splitlines())
        return int(stat['throttled_time']) if 'throttled_time' in stat else 1000 * int(stat.get('throttled_usec', 0))

    def remove(self) -> None:
        """Its processes must have ended."""
        self.folder.rmdir()


class QuotaPhase:
    """Limits the server inside the `with`, and logs its throttled time."""

    def __init__(self, quota: Optional[Quota], fault: Optional[str], log: Path) -> None:
        self.quota, self.fault, self.log = quota, fault, log

    def __enter__(self) -> None:
        if self.quota is None or self.fault is None:
            return
        self.begin_ns, self.before_ns = time.monotonic_ns(), self.quota.throttled_ns()
        self.quota.set(float(self.fault.rpartition('=')[2]))

    def __exit__(self, *_: Any) -> None:
        if self.quota is None or self.fault is None:
            return
        self.quota.set(None)
        with open(self.log, 'a', encoding='utf-8') as log:
            log.write(json.dumps({'time_ns': self.begin_ns, 'request': '', 'fault': 'cpu_quota', 'as': self.fault,
                                  'injected_ns': time.monotonic_ns() - self.begin_ns,
                                  'cpu_ns': self.quota.throttled_ns() - self.before_ns}) + '\n')


class Failed(Exception):
    """A run without a usable result."""


class Unavailable(Exception):
    """A run that is impossible on this machine."""


class Server:
    """A server on a free port, stopped by its process id."""

    def __init__(self, binaries: Path, folder: Path, plan: Plan, seed: int, quota: Optional[Quota] = None) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.log = open(folder / 'server.txt', 'w', encoding='utf-8')
        window_ms = int(plan.seconds * 1000) + 2000
        # The incident is written after the load has ended.
        recording = ['--incident-dir', str(folder / 'incidents'), '--no-triggers', '--worker-cpu', '100']
        self.process = subprocess.Popen(
            [*(plan.program or [str(binaries / f'faulty_{plan.server}_server')]), '--port', '0', '--port-file', str(folder / 'port'), '--allow-fault-control',
             '--fault-seed', str(seed), '--fault-log', str(folder / 'server_faults.jsonl'),
             *(recording if plan.is_recorded else ['--no-recorder']), *plan.arguments],
            stdout=self.log, stderr=subprocess.STDOUT, preexec_fn=(lambda: quota.add(os.getpid())) if quota else None,
            env={**os.environ, 'PITOT_PRE_WINDOW_MS': str(window_ms), 'PITOT_MAX_RING_BYTES': str(RING_BYTES),
                 'PITOT_MEMORY_BUDGET_BYTES': str(BUDGET_BYTES), 'PITOT_LIBRARY': str(binaries.parent / 'bindings' / 'c' / 'libpitot_c.so.1'),
                 **plan.environment})
        deadline = time.monotonic() + START_S
        while not (folder / 'port').exists():
            if self.process.poll() is not None or time.monotonic() > deadline:
                printed = (folder / 'server.txt').read_text(encoding='utf-8').strip().splitlines()
                self.stop()
                raise Failed('the server did not start: ' + (printed[-1] if printed else 'it printed nothing'))
            time.sleep(0.02)
        self.port = int((folder / 'port').read_text(encoding='utf-8'))

    def post(self, path: str, body: str = '') -> None:
        connection = http.client.HTTPConnection('127.0.0.1', self.port, timeout=120)
        try:
            connection.request('POST', path, body)
            response = connection.getresponse()
            text = response.read().decode()
            if response.status != 200:
                raise Failed(f'{path}: {response.status} {text}')
        except (OSError, http.client.HTTPException) as error:
            raise Failed(f'{path}: {error}') from error
        finally:
            connection.close()

    def stop(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.log.close()


def load_command(binaries: Path, folder: Path, port: int, seed: int, arguments: Sequence[str], seconds: float) -> List[str]:
    warm_up = () if '--warm-up' in arguments else ('--warm-up', str(WARM_UP_S))
    return [str(binaries / 'load_generator'), '--port', str(port), '--seed', str(seed), *warm_up, '--duration', str(seconds),
            '--json', str(folder / 'load.json'), '--fault-log', str(folder / 'load_faults.jsonl'), *arguments]


def serve(binaries: Path, folder: Path, plan: Plan, seed: int) -> None:
    """Writes load.json, injected.jsonl and, if the run is recorded, an incident into `folder`. Raises Failed, Unavailable."""
    shutil.rmtree(folder, ignore_errors=True)
    is_limited = any(fault.startswith(QUOTA) for phase in plan.phases for fault in phase.faults)
    quota = Quota() if is_limited else None
    try:
        run_limited(binaries, folder, plan, seed, quota)
    finally:
        if quota is not None:
            quota.remove()
    injected = ''.join(path.read_text(encoding='utf-8') for path in (folder / 'server_faults.jsonl', folder / 'load_faults.jsonl',
                                                                     folder / 'other_programs.jsonl', folder / 'quota.jsonl')
                       if path.exists())
    write_whole(folder / 'injected.jsonl', injected)


def make_faults(server: Server, phase: Phase) -> Optional[str]:
    """Switches the phase's faults on in the server. Returns the fault that the runner has to make, if any."""
    limit = next((fault for fault in phase.faults if fault.startswith(QUOTA)), None)
    faults = [fault for fault in phase.faults if fault != limit]
    server.post('/faultz', json.dumps({'active': bool(faults), 'faults': faults}))
    return limit


def run_limited(binaries: Path, folder: Path, plan: Plan, seed: int, quota: Optional[Quota]) -> None:
    began = time.monotonic()
    server = Server(binaries, folder, plan, seed, quota)
    took_s = {'start': time.monotonic() - began}
    generator: Optional[subprocess.Popen] = None
    others = OtherPrograms(server.process.pid, folder / 'other_programs.jsonl')
    try:
        make_faults(server, plan.phases[0])  # from the first request on
        with open(folder / 'load.txt', 'w', encoding='utf-8') as log:
            generator = subprocess.Popen(load_command(binaries, folder, server.port, seed,
                                                       ['--rate', f'{plan.rate:.1f}', '--slowest', str(ALL_REQUESTS), *plan.load],
                                                       plan.seconds - WARM_UP_S), stdout=log, stderr=subprocess.STDOUT)
        time.sleep(WARM_UP_S)
        for phase in plan.phases:
            limit = make_faults(server, phase)
            with QuotaPhase(quota, limit, folder / 'quota.jsonl'):
                time.sleep(phase.seconds)
        server.post('/faultz', json.dumps({'active': False}))
        if generator.wait(STOP_S) != 0:
            raise Failed('the load generator: ' + (folder / 'load.txt').read_text(encoding='utf-8').strip())
        began = time.monotonic()
        if plan.is_recorded:
            server.post('/incidentz')
        took_s['incident'] = time.monotonic() - began
    finally:
        if generator is not None and generator.poll() is None:
            generator.kill()
            generator.wait()
        others.stop()
        began = time.monotonic()
        server.stop()
    took_s['stop'] = time.monotonic() - began
    write_whole(folder / 'took_s.json', json.dumps(took_s))


def write_whole(path: Path, text: str) -> None:
    """Writes the file in one step: a reader never sees a part of it."""
    partial = path.with_name(path.name + '.partial')
    partial.write_text(text, encoding='utf-8')
    partial.replace(path)


def run_tool(command: Sequence[Any], statuses: Sequence[int] = (0,)) -> str:
    """Runs a command and returns its standard output. Raises Failed."""
    try:
        done = subprocess.run([str(part) for part in command], capture_output=True, text=True, timeout=TOOL_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Failed(str(error)) from error
    if done.returncode not in statuses:
        raise Failed(f'{Path(command[0]).name} {command[1]}: status {done.returncode}: {done.stderr.strip()}')
    return done.stdout


def ask(binaries: Path, path: Path, arguments: Sequence[Any], statuses: Sequence[int] = (0,)) -> None:
    """Writes the output of the command line tool to a file."""
    write_whole(path, run_tool([binaries / 'pitot', *arguments], statuses))


def ask_why(binaries: Path, path: Path, dump: Path) -> None:
    """Writes the verdicts on all requests, shortened, one per line."""
    partial = path.with_name(path.name + '.partial')
    command = [str(binaries / 'pitot'), 'why', str(dump), '--every', '--json']
    with open(partial, 'w', encoding='utf-8') as out, subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as tool:
        assert tool.stdout is not None and tool.stderr is not None
        limit = threading.Timer(TOOL_S, tool.kill)
        limit.start()
        shortened = subprocess.run([sys.executable, SHORTEN], stdin=tool.stdout, stdout=out, check=False)
        errors = tool.stderr.read()
        limit.cancel()
    if tool.returncode != 0 or shortened.returncode != 0:
        raise Failed(f'pitot why: status {tool.returncode}: {errors.strip()}')
    partial.replace(path)


def digest(binaries: Path) -> str:
    """A digest of the programs that make and judge runs. Runs by other programs are not continued."""
    return digest_of([path for path in sorted(binaries.glob('*')) if path.name in PROGRAMS])


def digest_of(paths: Sequence[Path]) -> str:
    of = hashlib.sha256()
    for path in paths:
        of.update(path.read_bytes())
    return of.hexdigest()


def newest_dump(folder: Path) -> Path:
    dumps = sorted(folder.glob('incidents/*/dump.pitot'))
    if not dumps:
        raise Failed(f'{folder}: no incident was written')
    return dumps[-1]


def judge(binaries: Path, folder: Path) -> None:
    """Writes Pitot's answers about the newest dump: requests.json, analyze.json, profiler.json and, last, why.jsonl."""
    dump = newest_dump(folder)
    ask(binaries, folder / 'requests.json', ['requests', dump, '--json', '--limit', 0])
    # 1: without findings, a valid answer of analyze.
    ask(binaries, folder / 'analyze.json', ['analyze', dump, '--json'], (0, 1))
    ask(binaries, folder / 'profiler.json', ['analyze', dump, '--compat', 'tbplugin', '--json'], (0, 1))
    ask_why(binaries, folder / 'why.jsonl', dump)


def diff(binaries: Path, before: Path, after: Path) -> None:
    """Writes the difference of two dumps into the folder of the second."""
    # 1: a regression; 7: inconclusive.
    ask(binaries, after / 'diff.json', ['diff', newest_dump(before), newest_dump(after), '--json'], (0, 1, 7))


def alter(binaries: Path, of: Path, folder: Path, arguments: Sequence[str]) -> None:
    """Makes a folder like `of` with an altered dump."""
    incident = folder / 'incidents' / 'altered'
    shutil.rmtree(folder, ignore_errors=True)
    incident.mkdir(parents=True)
    run_tool([binaries / 'alter_dump', newest_dump(of), incident / 'dump.pitot', *arguments])
    shutil.copyfile(of / 'injected.jsonl', folder / 'injected.jsonl')


def probe(binaries: Path, folder: Path, plan: Plan, seed: int, seconds: float) -> Dict[str, float]:
    """The server's capacity: replies a second in a closed loop. Also its median latency in ms at 0.3 of that, the least of three.
    Every dose is a multiple of this latency, and another program's start or end would make it several times as long."""
    server = Server(binaries, folder, plan, seed)

    def measured(arguments: Sequence[str]) -> Dict[str, Any]:
        command = load_command(binaries, folder, server.port, seed, [*arguments, *plan.load], seconds)
        with open(folder / 'load.txt', 'w', encoding='utf-8') as log:
            if subprocess.run(command, stdout=log, stderr=subprocess.STDOUT, timeout=seconds + TOOL_S, check=False).returncode != 0:
                raise Failed('the load generator: ' + (folder / 'load.txt').read_text(encoding='utf-8').strip())
        load: Dict[str, Any] = json.loads((folder / 'load.json').read_text(encoding='utf-8'))
        return load

    try:
        capacity = measured(['--closed', '--concurrency', '16'])['throughput_per_s']
        medians = [measured(['--rate', str(0.3 * capacity)])['latency_ms']['p50'] for _ in range(3)]
        return {'capacity': capacity, 'typical_ms': min(medians)}
    finally:
        server.stop()
