#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Servers with several processes, each of which may be killed: multiprocessing's and gunicorn's workers.

A worker has a black box of its own or none, and never writes into its parent's.
Environment: PITOT_LIBRARY, PITOT_PROGRAM, PITOT_GUNICORN (a Python with gunicorn; unset: this one, if it has it)
"""

import http.client
import importlib.util
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import unittest

import incident

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
GUNICORN = os.environ.get("PITOT_GUNICORN") or (importlib.util.find_spec("gunicorn") and sys.executable)

START = """
import os, signal, sys, pitot
FOLDER = os.environ["FOLDER"]
def start():
    recorder = pitot.start(FOLDER + "/incidents", black_box_directory=FOLDER + "/boxes", memory_budget_bytes=16 << 20)
    assert recorder.status, recorder.status
    return recorder
"""

# A parent that records and starts three workers. Workers 0 and 1 record; the parent kills 0 and 2 before 1 starts.
PARENT = START + """
import multiprocessing
def work(number, connection):
    inherited = pitot.Request("/silent %d" % number)
    if number < 2:
        recorder = start()
        recorder.trigger(), recorder.flush()  # it has looked for dead workers
        own = pitot.Request("/work %d" % number)
    connection.send(os.getpid())
    signal.pause()
def run(context, number):
    ours, theirs = context.Pipe()
    worker = context.Process(target=work, args=(number, theirs))
    worker.start()
    return ours.recv()
if __name__ == "__main__":
    context = multiprocessing.get_context(sys.argv[1])
    recorder = start()
    with pitot.Request("/parent"), pitot.scope("before"):
        pids = [run(context, 0), run(context, 2)]
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        pids.insert(1, run(context, 1))
    last = pitot.Request("/parent last")
    print(*pids, os.getpid(), flush=True)
    os.killpg(0, signal.SIGKILL)
"""

# With --preload, gunicorn's master imports it.
APPLICATION = START + """
recorder = start()
imported = pitot.Request("/import")
def application(environ, start_response):
    path = environ["PATH_INFO"]
    with pitot.Request(path):
        if path == "/slow":
            with open(FOLDER + "/slow.new", "w") as file:
                print(os.getpid(), file=file)
            os.rename(FOLDER + "/slow.new", FOLDER + "/slow")
            signal.pause()
        start_response("200 OK", [("Content-Type", "text/plain")])
        return [str(os.getpid()).encode()]
"""
POST_FORK = START + """
def post_fork(server, worker):
    worker.recorder = start()
"""


class Workers(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = temporary.name
        for name in ("boxes", "incidents"):
            os.mkdir(self.path(name), 0o700)
        self.environment = {**os.environ, "FOLDER": self.folder, "PYTHONPATH": os.path.join(ROOT, "bindings", "python")}

    def path(self, name):
        return os.path.join(self.folder, name)

    def write(self, name, text):
        with open(self.path(name), "w", encoding="utf-8") as file:
            file.write(text)

    def begin(self, *command, **options):
        """A process, which the end of the test kills with all its children."""
        process = subprocess.Popen(command, env=self.environment, start_new_session=True, **options)
        self.addCleanup(self.end, process)
        return process

    @staticmethod
    def end(process):
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        process.wait()

    def read(self, name):
        """The text of a file; "": it is not there yet."""
        try:
            with open(self.path(name), encoding="utf-8") as file:
                return file.read()
        except FileNotFoundError:
            return ""

    def owners(self):
        """The processes that have a black box."""
        return {int(name.split("-")[0]) for name in os.listdir(self.path("boxes"))}

    def lives(self):
        """The routes of each process that has an incident of its previous life, whole."""
        lives = {}
        for name in os.listdir(self.path("incidents")):
            if "-previous_life" in name and name[0] != ".":
                directory = os.path.join(self.path("incidents"), name)
                info = incident.run_pitot("info", directory)
                process, has_requests = info["process"]["pid"], info["counts"]["requests"] > 0
                self.assertNotIn(process, lives)
                requests = incident.requests_of(directory) if has_requests else []
                lives[process] = sorted(request["route"] for request in requests)
        return lives

    def recover(self):
        subprocess.run([os.environ["PITOT_PROGRAM"], "recover", "--post-mortem", self.path("boxes")], check=True,
                       stdout=subprocess.DEVNULL)


class Multiprocessing(Workers):
    def check(self, method):
        self.write("parent.py", PARENT)
        parent = self.begin(sys.executable, self.path("parent.py"), method, stdout=subprocess.PIPE, text=True)
        output = parent.communicate(timeout=120)[0]
        self.assertEqual(parent.returncode, -signal.SIGKILL)
        killed, last, silent, own = map(int, output.split())

        self.assertEqual(self.owners(), {own, last})  # `killed` had one, which `last` found
        self.assertEqual(self.lives(), {killed: ["/work 0"]})
        self.recover()

        self.assertEqual(self.owners(), set())
        self.assertEqual(self.lives(), {killed: ["/work 0"], last: ["/work 1"], own: ["/parent", "/parent last"]})
        self.assertNotIn(silent, self.lives())

    def test_forked_workers_leave_their_parents_black_box_alone(self):
        self.check("fork")

    def test_spawned_workers_leave_their_parents_black_box_alone(self):
        self.check("spawn")


@unittest.skipUnless(GUNICORN, "there is no gunicorn: name a Python that has it in PITOT_GUNICORN")
class Gunicorn(Workers):
    def serve(self, *arguments):
        self.write("application.py", APPLICATION)
        server = self.begin(GUNICORN, "-m", "gunicorn", "--workers", "2", "--timeout", "0", "--bind",
                            "unix:" + self.path("socket"), "--chdir", self.folder, *arguments, "application",
                            stderr=subprocess.DEVNULL)
        incident.wait_until(lambda: os.path.exists(self.path("socket")) and self.get("/ready"))
        return server

    def get(self, path):
        """The number of the worker that answered; None: there was no answer."""
        connection = http.client.HTTPConnection("server")
        connection.sock = socket.socket(socket.AF_UNIX)
        try:
            connection.sock.connect(self.path("socket"))
            connection.request("GET", path)
            return int(connection.getresponse().read())
        except (OSError, http.client.HTTPException):
            return None
        finally:
            connection.close()

    def kill_a_busy_worker(self):
        """Kills the worker that serves /slow, and returns its number."""
        client = threading.Thread(target=self.get, args=("/slow",))
        client.start()
        worker = int(incident.wait_until(lambda: self.read("slow")))
        os.kill(worker, signal.SIGKILL)
        client.join()
        return worker

    def test_each_worker_has_a_black_box_and_a_killed_one_leaves_its_request(self):
        server = self.serve()
        incident.wait_until(lambda: len(self.owners()) == 2)
        self.assertNotIn(server.pid, self.owners())

        worker = self.kill_a_busy_worker()

        routes = incident.wait_until(self.lives)[worker]  # the worker in its place has made the incident
        self.assertIn("/slow", routes)
        self.assertIn("/import", routes)

    def test_workers_of_a_preloaded_application_do_not_write_into_their_masters_box(self):
        server = self.serve("--preload")
        self.assertEqual(self.owners(), {server.pid})

        worker = self.kill_a_busy_worker()
        incident.wait_until(lambda: self.get("/again") not in (None, worker))
        self.end(server)
        self.recover()

        self.assertEqual(self.lives(), {server.pid: ["/import"]})

    def test_workers_that_start_after_the_fork_have_their_own(self):
        self.write("gunicorn.conf.py", POST_FORK)
        server = self.serve("--preload", "--config", self.path("gunicorn.conf.py"))
        incident.wait_until(lambda: len(self.owners()) == 3)
        self.assertIn(server.pid, self.owners())

        first = self.owners()
        worker = self.kill_a_busy_worker()
        routes = incident.wait_until(self.lives)[worker]
        self.assertIn("/slow", routes)
        self.assertNotIn("/import", routes)

        incident.wait_until(lambda: self.get("/again") not in {None, *first})
        self.end(server)
        self.recover()
        lives = self.lives()
        self.assertEqual(lives[server.pid], ["/import"])
        self.assertEqual(len(lives), 4)


if __name__ == "__main__":
    unittest.main()
