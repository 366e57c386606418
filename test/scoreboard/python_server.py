#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A faulty Python server: FastAPI on uvicorn, a model on a thread of its own, and the Python package as its guide tells.

It logs each fault with the requests it struck, like the faulty servers next to it (README.md); faults are chosen by POST /faultz.
The model is a key derivation: native code that gives up the interpreter's lock, as a matrix product does.
"""

import argparse
import asyncio
import collections
import concurrent.futures
import gc
import hashlib
import http.client
import json
import os
import queue
import random
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import fastapi
import pitot
import uvicorn

BATCH, WINDOW_S = 4, 0.002
ROUNDS_OF_BATCH, BYTES_OF_ROUND = 1500, 8  # of the model: for a batch, and one more for so many bytes of each member
HEAP = 600_000  # containers on the heap: a full collection visits them
SORTED = 200_000  # numbers
BACKEND_MS = 20
LARGE = 4  # a member of so many times the work of another is large for it
LEAST_NS = 100_000  # shorter delays are not logged
COLLECTION_NS = 1_000_000  # nor shorter collections of garbage
KEPT = 64  # intervals of faults; a request is shorter than so many


def text_of(request_id):
    return f'{request_id:016x}'


def run_delay_ns():
    """How long the calling thread has waited for a CPU, ever."""
    with open('/proc/thread-self/schedstat', encoding='ascii') as file:
        return int(file.read().split()[1])


class Faults:
    """Which faults strike whom, and the log."""

    def __init__(self, path, seed):
        self.log, self.draws, self.doses, self.asked = open(path, 'a', encoding='utf-8', buffering=1), random.Random(seed), {}, {}
        self.lock, self.intervals, self.collection = threading.Lock(), collections.deque(maxlen=KEPT), {}
        self.collection_cpu_ns = 0

    def set(self, wish):
        """{"active": true, "faults": ["gc_heap:rate=1,dose_ms=5"]}"""
        doses = {}
        for fault in wish.get('faults', []) if wish.get('active') else []:
            name, _, rest = fault.partition(':')
            doses[name] = {key: float(value) for key, value in (part.split('=') for part in rest.split(','))}
            self.asked[name] = fault
        self.doses = doses

    def draw(self, name):
        """The dose, if the fault strikes now."""
        dose = self.doses.get(name)
        if dose is None:
            return None
        with self.lock:
            return dose if self.draws.random() < dose['rate'] else None

    def write(self, fault, request, begin_ns, ns, **more):
        if ns >= LEAST_NS:
            asked = {'as': self.asked[fault]} if fault in self.asked else {}
            self.log.write(json.dumps({'time_ns': begin_ns, 'request': text_of(request), 'fault': fault, 'injected_ns': ns, **asked, **more}) + '\n')

    def during(self, fault, holder):
        """A fault of the process, from now until it is ended by `end`."""
        interval = {'fault': fault, 'begin_ns': time.monotonic_ns(), 'end_ns': None, 'holder': holder}
        self.intervals.append(interval)
        return interval

    @staticmethod
    def end(interval):
        interval['end_ns'] = time.monotonic_ns()

    def collected(self, phase, _):
        """A callback of gc: long collections of any thread stop all others."""
        if phase == 'start':
            self.collection, self.collection_cpu_ns = self.during('collected', [threading.current_thread().name]), time.thread_time_ns()
            return
        self.end(self.collection)
        if time.thread_time_ns() - self.collection_cpu_ns < COLLECTION_NS:  # or it waited for the interpreter's lock
            self.intervals.remove(self.collection)

    def write_overlaps(self, request, begin_ns):
        """Logs the faults of the process while the request ran, as long as they were there."""
        now_ns = time.monotonic_ns()
        for one in list(self.intervals):
            if text_of(request) not in one['holder']:
                from_ns = max(begin_ns, one['begin_ns'])
                self.write(one['fault'], request, from_ns, min(now_ns, one['end_ns'] or now_ns) - from_ns, holder=one['holder'])


class Lock:
    """A lock that records waits for it, with the holder, and remembers who held it when."""

    def __init__(self, name):
        self.name, self.lock, self.owner, self.since_ns = name, threading.Lock(), pitot.Owner(), 0
        self.holds = collections.deque(maxlen=KEPT)

    def __enter__(self):
        if not self.lock.acquire(blocking=False):
            with pitot.Wait(pitot.WaitKind.LOCK, self.name, self.owner):
                self.lock.acquire()
        self.owner, self.since_ns = pitot.this_owner(), time.monotonic_ns()

    def __exit__(self, *_):
        self.holds.append((self.owner.request, self.since_ns, time.monotonic_ns()))
        self.owner = pitot.Owner()
        self.lock.release()

    def holders(self, from_ns, until_ns):
        """Requests with it for 1 ms or more then."""
        return [text_of(request) for request, begin_ns, end_ns in list(self.holds) if min(until_ns, end_ns) - max(from_ns, begin_ns) >= 1_000_000]


class Model(threading.Thread):
    """Takes batches from a queue, and answers each member by its future."""

    def __init__(self, faults):
        super().__init__(name='model', daemon=True)
        self.faults, self.jobs = faults, queue.Queue()
        self.last, self.last_end_ns = [], 0

    def put(self, request, size):
        future = concurrent.futures.Future()
        self.jobs.put((request.enqueue('images'), size, time.monotonic_ns(), future))
        return future

    def run(self):
        while True:
            delay_ns = run_delay_ns()
            with pitot.Wait(pitot.WaitKind.QUEUE, 'images'):
                taken = [self.jobs.get()]
            token, size, enqueued_ns, _ = taken[0]
            self.faults.write('handed_over', token.request_id, enqueued_ns, time.monotonic_ns() - max(enqueued_ns, self.last_end_ns))
            with pitot.Batch('model', 'bytes') as batch:
                batch.join(token, size)
                until = time.monotonic() + WINDOW_S
                while len(taken) < BATCH and (left_s := until - time.monotonic()) > 0:
                    try:
                        with pitot.Wait(pitot.WaitKind.QUEUE, 'batch member'):
                            taken.append(self.jobs.get(timeout=left_s))
                    except queue.Empty:
                        break
                    batch.join(taken[-1][0], taken[-1][1])
                batch.close(pitot.BatchClose.FULL if len(taken) == BATCH else pitot.BatchClose.TIMEOUT)
                self.forward(taken, delay_ns)

    def forward(self, taken, delay_ns):
        """`delay_ns`: for a CPU, when it began to wait for the first of them."""
        begin_ns, cpu_ns = time.monotonic_ns(), time.thread_time_ns()
        with pitot.scope('forward'):
            hashlib.pbkdf2_hmac('sha256', b'model', b'', ROUNDS_OF_BATCH + sum(size for _, size, _, _ in taken) // BYTES_OF_ROUND)
        took_ns, members = time.monotonic_ns() - begin_ns, [token.request_id for token, _, _, _ in taken]
        cpu_ns, delay_ns = time.thread_time_ns() - cpu_ns, run_delay_ns() - delay_ns
        for token, size, enqueued_ns, future in taken:
            self.write_batch(token.request_id, size, begin_ns, took_ns, taken)
            self.faults.write('batch_code', token.request_id, begin_ns, cpu_ns)
            self.faults.write('cpu_waited', token.request_id, begin_ns, delay_ns)
            self.faults.write('queued', token.request_id, enqueued_ns, self.last_end_ns - enqueued_ns, others=self.last)
            future.set_result(time.monotonic_ns())
        self.last, self.last_end_ns = [text_of(member) for member in members], time.monotonic_ns()

    def write_batch(self, request, size, begin_ns, took_ns, taken):
        """A large member is a fault for the others, as long as its part of the batch takes."""
        all_rounds = ROUNDS_OF_BATCH + sum(one for _, one, _, _ in taken) // BYTES_OF_ROUND
        for token, other, _, _ in taken:
            if other >= LARGE * size:
                self.faults.write('large_member', request, begin_ns, took_ns * (other // BYTES_OF_ROUND) // all_rounds,
                                  holder=[text_of(token.request_id)])


def serve_backend(port_file):
    """A backend, in a process of its own: answers with the time after as many ms as asked, until the server is gone."""
    listener = socket.create_server(('127.0.0.1', 0), backlog=256)

    def answer(connection):
        with connection:
            time.sleep(float(connection.recv(64)) / 1000)
            connection.sendall(str(time.monotonic_ns()).encode())

    def end_with_server():
        sys.stdin.buffer.read()  # the server's end of the pipe closes with it, however it ends
        os._exit(0)

    threading.Thread(target=end_with_server, daemon=True).start()
    write_port(port_file, listener)
    while True:
        threading.Thread(target=answer, args=(listener.accept()[0],), daemon=True).start()


def write_port(path, listener):
    partial = path.with_suffix('.partial')
    partial.write_text(str(listener.getsockname()[1]), encoding='utf-8')
    partial.replace(path)


def start_backend(folder):
    """Returns its process and its port. The process ends with this one."""
    port_file = folder / 'backend'
    process = subprocess.Popen([sys.executable, __file__, '--backend', str(port_file)], stdin=subprocess.PIPE)
    while not port_file.exists():
        if process.poll() is not None:
            raise SystemExit('the backend did not start')
        time.sleep(0.02)
    return process, int(port_file.read_text(encoding='utf-8'))


def spin(dose_ms):
    """Pure Python for so much CPU time."""
    until, total = time.thread_time() + dose_ms / 1000, 0
    while time.thread_time() < until:
        total += sum(range(50))
    return total


class Service:
    """What the handlers of both kinds do."""

    def __init__(self, faults, backend):
        self.faults, self.model, self.lock, self.backend = faults, Model(faults), Lock('cache'), backend
        draws = random.Random(7)
        self.numbers = [draws.random() for _ in range(SORTED)]
        self.model.start()

    def decode(self, request, body):
        with pitot.scope('decode'):
            hashlib.pbkdf2_hmac('sha256', body[:64], b'', len(body) // 64)
            dose, begin_ns, cpu_ns = self.faults.draw('slow_code'), time.monotonic_ns(), time.thread_time_ns()
            if dose:
                spin(dose['dose_ms'])
                self.faults.write('slow_code', request.id, begin_ns, time.monotonic_ns() - begin_ns, cpu_ns=time.thread_time_ns() - cpu_ns,
                                  scope='decode')

    def look_up(self, request):
        """In a cache of all requests."""
        begin_ns, dose = time.monotonic_ns(), self.faults.draw('lock_held')
        with self.lock:
            now_ns = time.monotonic_ns()
            if holders := self.lock.holders(begin_ns, now_ns):
                self.faults.write('lock_held', request.id, begin_ns, now_ns - begin_ns, role='waiter', holder=holders)
            if dose:
                time.sleep(dose['dose_ms'] / 1000)

    def ask_ms(self):
        dose = self.faults.draw('slow_backend')
        return BACKEND_MS + (dose['dose_ms'] if dose else 0)

    def answered(self, request, asked_ns, ms, ready_ns, how):
        """Logs how long the backend took, and how long its answer waited for the handler."""
        if ms > BACKEND_MS:
            self.faults.write('slow_backend', request.id, asked_ns, ready_ns - asked_ns - BACKEND_MS * 1_000_000)
        self.faults.write('backend_waited', request.id, asked_ns, ready_ns - asked_ns)
        self.faults.write(how, request.id, ready_ns, time.monotonic_ns() - ready_ns)

    def report(self, request, dose):
        """Another route: keeps the interpreter's lock in one call of native code, or the event loop in one step."""
        name = 'gil_call' if 'dose_count' in dose else 'loop_block'
        interval = self.faults.during(name, [text_of(request.id), 'Service.report'])
        if name == 'gil_call':
            sorted(self.numbers * int(dose['dose_count']))
        else:
            time.sleep(dose['dose_ms'] / 1000)
        self.faults.end(interval)


class Handlers:
    """On threads: FastAPI runs each in its pool."""

    def __init__(self, service):
        self.service, self.faults = service, service.faults
        self.threads = threading.local()  # how long each had waited for a CPU when its last request ended

    @staticmethod
    def begin(http):
        return pitot.Request('/classify', http.headers.get('traceparent'), arrival=http.scope['arrival'])

    def decode(self, request, body):
        request.set_size('bytes', len(body))
        request.stage('decode')
        self.service.decode(request, body)
        request.stage('look up')

    def finish(self, request, http, response, delay_ns):
        begin_ns = http.scope['arrival_ns']
        request.stage('respond')
        with pitot.scope('postprocess'):
            response.headers['x-request-id'] = text_of(request.id)
        self.threads.delay_ns = run_delay_ns()
        self.faults.write('cpu_waited', request.id, begin_ns, self.threads.delay_ns - delay_ns)
        self.faults.write_overlaps(request.id, begin_ns)
        return {'label': request.id % 1000}

    def classify(self, http, response, body):
        service, delay_ns = self.service, getattr(self.threads, 'delay_ns', run_delay_ns())
        with self.begin(http) as request:
            self.decode(request, body)
            service.look_up(request)
            ms, asked_ns = service.ask_ms(), time.monotonic_ns()
            with pitot.Wait(pitot.WaitKind.IO, 'backend'), socket.create_connection(('127.0.0.1', service.backend)) as backend:
                backend.sendall(str(ms).encode())
                answer = backend.recv(64)
            service.answered(request, asked_ns, ms, int(answer), 'handed_over')
            request.stage('model')
            future = service.model.put(request, len(body))
            with pitot.Wait(pitot.WaitKind.FUTURE, 'result'):
                ready_ns = future.result()
            self.faults.write('handed_over', request.id, ready_ns, time.monotonic_ns() - ready_ns)
            return self.finish(request, http, response, delay_ns)

    def report(self, http, dose):
        with pitot.Request('/report', arrival=http.scope['arrival']) as request:
            self.service.report(request, dose)
        return {}

    async def classify_as_task(self, http, response):
        service, delay_ns = self.service, http.scope['delay_ns']
        with self.begin(http) as request:
            begin_ns = time.monotonic_ns()
            body = await http.body()
            self.faults.write('turn_waited', request.id, begin_ns, time.monotonic_ns() - begin_ns)
            self.decode(request, body)
            begin_ns = time.monotonic_ns()
            reader, writer = await asyncio.open_connection('127.0.0.1', service.backend)
            self.faults.write('turn_waited', request.id, begin_ns, time.monotonic_ns() - begin_ns)
            ms, asked_ns = service.ask_ms(), time.monotonic_ns()
            writer.write(str(ms).encode())
            answer = await reader.read(64)
            writer.close()
            service.answered(request, asked_ns, ms, int(answer), 'turn_waited')
            request.stage('model')
            ready_ns = await asyncio.wrap_future(service.model.put(request, len(body)))
            self.faults.write('turn_waited', request.id, ready_ns, time.monotonic_ns() - ready_ns)
            return self.finish(request, http, response, delay_ns)


async def body_of(http: fastapi.Request):
    return await http.body()


def make_app(service, recorder, is_async):
    app, handlers = fastapi.FastAPI(), Handlers(service)

    def classify(http: fastapi.Request, response: fastapi.Response, body: bytes = fastapi.Depends(body_of)):
        return handlers.classify(http, response, body)

    async def classify_as_task(http: fastapi.Request, response: fastapi.Response):
        return await handlers.classify_as_task(http, response)

    def report(http: fastapi.Request, dose: dict):
        return handlers.report(http, dose)

    async def report_as_task(http: fastapi.Request, dose: dict):
        return handlers.report(http, dose)

    async def faultz(http: fastapi.Request):
        service.faults.set(await http.json())
        return {}

    def incidentz():
        return {'ok': bool(recorder.trigger('board')) and bool(recorder.flush())}
    app.post('/classify')(classify_as_task if is_async else classify)
    app.post('/report')(report_as_task if is_async else report)
    app.post('/faultz')(faultz)
    app.post('/incidentz')(incidentz)
    app.get('/healthz')(lambda: {})
    return app


class Stamped:
    """Stamps each request's arrival before any other code of the application, on the loop's thread."""

    def __init__(self, app):
        self.app = app

    async def __call__(self, scope, receive, send):
        if scope['type'] == 'http':
            scope['arrival'], scope['arrival_ns'], scope['delay_ns'] = pitot.now(), time.monotonic_ns(), run_delay_ns()
        await self.app(scope, receive, send)


def make_process_faults(service, port, seed):
    """Faults that strike everybody for a while, each about `rate` times a second, one after the other."""
    faults, heap = service.faults, [[] for _ in range(HEAP)]
    draws, names = random.Random(seed + 1), {'gc_heap': 'janitor', 'gil_python': 'reporter'}

    def strike(name, dose):
        if name in ('gil_call', 'loop_block'):
            connection = http.client.HTTPConnection('127.0.0.1', port, timeout=60)
            connection.request('POST', '/report', json.dumps(dose), {'content-type': 'application/json'})
            connection.getresponse().read()
            return connection.close()
        interval = faults.during(name, [names[name]])
        if name == 'gc_heap':
            gc.collect()
        else:
            spin(dose['dose_ms'])
        faults.end(interval)

    def run():
        while heap:
            time.sleep(0.05)
            for name, dose in list(faults.doses.items()):
                if name in ('gc_heap', 'gil_python', 'gil_call', 'loop_block') and draws.random() < 0.05 * dose['rate']:
                    thread = threading.Thread(target=strike, args=(name, dose), name=names.get(name, 'client'))
                    thread.start()
                    thread.join()
    threading.Thread(target=run, daemon=True, name='faults').start()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--port', type=int, default=0)
    parser.add_argument('--port-file', type=Path)
    parser.add_argument('--incident-dir', type=Path)
    parser.add_argument('--fault-log')
    parser.add_argument('--backend', type=Path, help='only be the backend')
    parser.add_argument('--fault-seed', type=int, default=1)
    parser.add_argument('--handlers', choices=('threads', 'tasks'), default='threads')
    for name in ('--no-triggers', '--allow-fault-control'):  # as of the servers in C++; always so here
        parser.add_argument(name, action='store_true')
    parser.add_argument('--worker-cpu', type=int, default=100)
    options = parser.parse_args()
    if options.backend:
        return serve_backend(options.backend)
    os.makedirs(options.incident_dir, exist_ok=True)
    recorder = pitot.start(options.incident_dir, worker_cpu_percent=options.worker_cpu, from_environment=True)
    if not recorder.status:
        raise SystemExit(f'not recorded: {recorder.status}')
    recorder.add_host()
    backend, backend_port = start_backend(options.incident_dir)
    service = Service(Faults(options.fault_log, options.fault_seed), backend_port)
    gc.callbacks.append(service.faults.collected)
    app = make_app(service, recorder, options.handlers == 'tasks')
    listener = socket.create_server(('127.0.0.1', options.port), backlog=256)
    make_process_faults(service, listener.getsockname()[1], options.fault_seed)
    write_port(options.port_file, listener)
    config = uvicorn.Config(Stamped(app), loop='asyncio', http='h11', log_level='warning', access_log=False, timeout_graceful_shutdown=5)
    uvicorn.Server(config).run(sockets=[listener])
    backend.kill()


if __name__ == '__main__':
    main()
