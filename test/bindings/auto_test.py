#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""PITOT_AUTO: which processes it records, and real servers under it.

Environment: PITOT_LIBRARY, PITOT_PROGRAM, PITOT_PACKAGE (the package's folder; unset: the sources), PITOT_WEB (a folder with
uvicorn, Starlette and FastAPI for the import; unset: the interpreter's), PITOT_GUNICORN (a Python with gunicorn; unset: this
one, if it has it)
"""

import http.client
import importlib.util
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest
from unittest import mock

import incident

HERE = os.path.dirname(os.path.abspath(__file__))
SOURCES = os.path.join(HERE, "..", "..", "bindings", "python")
PACKAGE = os.path.abspath(os.environ.get("PITOT_PACKAGE", SOURCES))
WEB = os.path.abspath(os.environ.get("PITOT_WEB", HERE))
GUNICORN = os.environ.get("PITOT_GUNICORN") or (importlib.util.find_spec("gunicorn") and sys.executable)
sys.path.insert(0, SOURCES)
import _pitot_auto  # noqa: E402

SAY = "import pitot, sys; print(bool(pitot._recorder._current()))"
LOADED = "import sys; print('pitot' in sys.modules)"
IN_CHILD = """
import os, sys, time
def wait_for_recorder(seconds=60):
    import pitot
    end = time.monotonic() + seconds
    while not pitot._recorder._current() and time.monotonic() < end:
        time.sleep(0.01)
    return bool(pitot._recorder._current())
"""
APPLICATION = """
import fastapi
app = fastapi.FastAPI()
@app.get("/items/{item}")
async def item(item: int):
    return item
@app.get("/fail")
async def fail():
    raise RuntimeError("x")
"""
WITH_MIDDLEWARE = APPLICATION + "import pitot\napp.add_middleware(pitot.asgi.Middleware, route=lambda scope: '/chosen')\n"


class Rule(unittest.TestCase):
    def is_chosen(self, *arguments, isolated=0):
        """Whether a command line is, as the interpreter presents it before the program runs."""
        known = list(arguments)
        while known and known[0].startswith("-") and known[0][-1] not in "mc" and known[0][:2] not in ("-m", "-c") and known[0] != "-":
            known.pop(0)
        if known and known[0].startswith("-") and known[0] != "-":
            mode = "-m" if "m" in known[0] else "-c"
            known = [mode, *known[2 if known[0].endswith(mode[1]) else 1:]]
        flags = mock.Mock(isolated=isolated, ignore_environment=isolated)
        with mock.patch.multiple(sys, argv=known or [""], orig_argv=["python3", *arguments], flags=flags, create=True):
            return not _pitot_auto.choose()[0]

    def test_servers_scripts_and_children_of_multiprocessing_are_recorded(self):
        for command in (["server.py"], ["/opt/bin/uvicorn", "app:app"], ["/opt/bin/gunicorn", "app"], ["-m", "uvicorn", "app:app"],
                        ["-u", "-m", "vllm.entrypoints.api_server"], ["-um", "server"], ["-mserver"], ["-m", "http.server"], ["folder"], ["."],
                        ["-c", "from multiprocessing.spawn import spawn_main; spawn_main()", "--multiprocessing-fork"],
                        ["-c", "from multiprocessing.forkserver import main; main()"]):
            self.assertTrue(self.is_chosen(*command), command)

    def test_tools_helpers_archives_and_typed_programs_are_not(self):
        for command in ([], ["-"], ["-c", "print()"], ["-c", "from multiprocessing.resource_tracker import main;main(3)"], ["-m", "pip", "install"],
                        ["-mpip"], ["-um", "pip"], ["-m", "venv", "x"], ["-m", "unittest"], ["/usr/bin/pip3.11", "list"], ["bin/pytest"], ["setup.py"],
                        ["pip/__pip-runner__.py"], ["compile_worker/__main__.py"], ["app.pyz"], ["server.pex"]):
            self.assertFalse(self.is_chosen(*command), command)
        self.assertFalse(self.is_chosen("server.py", isolated=1))


class Installed(unittest.TestCase):
    """The package in the site-packages of a venv, as the wheel installs it."""

    @classmethod
    def setUpClass(cls):
        cls.base = tempfile.mkdtemp()
        cls.addClassCleanup(shutil.rmtree, cls.base)
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", os.path.join(cls.base, "venv")], check=True)
        cls.python = os.path.join(cls.base, "venv", "bin", "python")
        cls.site = os.path.join(cls.base, "venv", "lib", f"python{sys.version_info[0]}.{sys.version_info[1]}", "site-packages")
        os.symlink(os.path.join(PACKAGE, "pitot"), os.path.join(cls.site, "pitot"))
        for name in ("_pitot_auto.py", "pitot_auto.pth"):
            shutil.copy(os.path.join(SOURCES, name), cls.site)

    def setUp(self):
        self.folder = tempfile.mkdtemp(dir=self.base)
        self.environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
        self.environment.update(PITOT_AUTO="1", PITOT_INCIDENT_DIRECTORY=self.path("incidents"), PITOT_MEMORY_BUDGET_BYTES=str(16 << 20))

    def path(self, name):
        return os.path.join(self.folder, name)

    def write(self, name, text):
        with open(self.path(name), "w", encoding="utf-8") as file:
            file.write(text)
        return self.path(name)

    def run_python(self, *arguments, **environment):
        """The status, the output and the errors."""
        done = subprocess.run([self.python, *arguments], capture_output=True, text=True, check=False, timeout=240,
                              env={**self.environment, **environment}, cwd=self.folder)
        return done.returncode, done.stdout, done.stderr


class Processes(Installed):
    def test_a_script_is_recorded_and_says_once_where_incidents_go(self):
        child = self.write("child.py", SAY)
        script = self.write("script.py", SAY + "; import subprocess\n"
                            f"print(subprocess.run([sys.executable, {child!r}], capture_output=True, text=True).stdout)")
        status, out, errors = self.run_python(script)
        self.assertEqual((status, out.split()), (0, ["True", "True"]))
        self.assertEqual(errors, f"pitot: incidents go to {self.path('incidents')} (PITOT_INCIDENT_DIRECTORY)\n")

    def test_without_the_variable_nothing_is_imported(self):
        script = self.write("script.py", LOADED + "; print('_pitot_auto' in sys.modules)")
        for value in ("", "0"):
            self.assertEqual(self.run_python(script, PITOT_AUTO=value), (0, "False\nFalse\n", ""))
        for options in (["-I"], ["-E"], ["-S"]):
            self.assertEqual(self.run_python(*options, script)[1].split()[0], "False", options)
        self.assertEqual(self.run_python("-c", LOADED), (0, "False\n", ""))

    def test_nothing_that_fails_stops_the_interpreter(self):
        script = self.write("script.py", "print('runs')")
        status, out, errors = self.run_python(script, PITOT_LIBRARY="/no/such/library")
        self.assertEqual((status, out), (0, "runs\n"))
        self.assertRegex(errors, r"\Apitot: PITOT_AUTO records nothing: ImportError: .*\n\Z")
        status, out, errors = self.run_python(script, PITOT_INCIDENT_DIRECTORY="/no/such/folder/x")
        self.assertEqual((status, out), (0, "runs\n"))
        self.assertIn("pitot: PITOT_AUTO records nothing: ", errors)
        self.assertEqual(self.run_python(script, PITOT_OFF="1"), (0, "runs\n", ""))

        broken = os.path.join(self.site, "_pitot_auto.py")
        os.rename(broken, self.path("kept"))
        self.addCleanup(os.rename, self.path("kept"), broken)
        status, out, errors = self.run_python(script)
        self.assertEqual((status, out), (0, "runs\n"))
        self.assertIn("_pitot_auto", errors)

    def test_a_recorder_of_the_programs_own_takes_its_place(self):
        script = self.write("script.py", "import pitot\nfirst = pitot._recorder._current()\n"
                            f"own = pitot.start({self.path('own')!r}, memory_budget_bytes=16 << 20)\n"
                            "print(bool(first), bool(first.status), bool(own.status), pitot._recorder._current() is own)")
        self.assertEqual(self.run_python(script)[:2], (0, "True False True True\n"))

    def test_forked_and_spawned_children_are_recorded(self):
        script = self.write("script.py", IN_CHILD + "import multiprocessing\n"
                            "def work(queue): queue.put(wait_for_recorder())\n"
                            "if __name__ == '__main__':\n"
                            "  for method in ('fork', 'spawn', 'forkserver'):\n"
                            "    context = multiprocessing.get_context(method)\n"
                            "    queue = context.SimpleQueue()\n"
                            "    child = context.Process(target=work, args=(queue,))\n"
                            "    child.start()\n"
                            "    print(method, queue.get())\n"
                            "    child.join()\n")
        status, out, errors = self.run_python(script)
        self.assertEqual((status, out), (0, "fork True\nspawn True\nforkserver True\n"), errors)
        self.assertEqual(errors.count("incidents go to"), 1)


class Servers(Installed):
    def serve(self, *command, libraries=WEB):
        errors = open(self.path("errors"), "wb")
        self.addCleanup(errors.close)
        process = subprocess.Popen(command, env={**self.environment, "PYTHONPATH": f"{self.folder}:{libraries}"}, cwd=self.folder, stderr=errors,
                                   stdout=errors, start_new_session=True)
        self.addCleanup(self.end, process)
        incident.wait_until(lambda: os.path.exists(self.path("socket")) and self.get("/items/1"))
        return process

    @staticmethod
    def end(process):
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        process.wait()

    def get(self, path):
        """The status of an answer; None: there was none."""
        connection = http.client.HTTPConnection("server")
        connection.sock = socket.socket(socket.AF_UNIX)
        try:
            connection.sock.connect(self.path("socket"))
            connection.request("GET", path)
            return connection.getresponse().status
        except (OSError, http.client.HTTPException):
            return None
        finally:
            connection.close()

    def failures(self):
        """The routes and reasons of failed requests in whole incidents; asks for one more failure each time."""
        self.assertEqual(self.get("/fail"), 500)
        rows = []
        folder = self.path("incidents")
        for name in os.listdir(folder) if os.path.isdir(folder) else ():
            if name[0] != "." and os.path.exists(os.path.join(folder, name, "dump.pitot")):
                rows += [(row["route"], row["reason"]) for row in incident.requests_of(os.path.join(folder, name)) if row["outcome"] == "failed"]
        return sorted(set(rows))

    @unittest.skipUnless(importlib.util.find_spec("uvicorn") or os.path.isdir(os.path.join(WEB, "uvicorn")), "there is no uvicorn")
    def test_stock_uvicorn_with_fastapi_leaves_an_incident_of_a_failed_request(self):
        self.write("application.py", APPLICATION)
        self.serve(self.python, "-m", "uvicorn", "--uds", self.path("socket"), "application:app")
        self.assertEqual(incident.wait_until(self.failures), [("GET /fail", "RuntimeError")])

    @unittest.skipUnless(importlib.util.find_spec("uvicorn") or os.path.isdir(os.path.join(WEB, "uvicorn")), "there is no uvicorn")
    def test_an_application_with_a_middleware_of_its_own_is_left_alone(self):
        self.write("application.py", WITH_MIDDLEWARE)
        self.serve(self.python, "-m", "uvicorn", "--uds", self.path("socket"), "application:app")
        self.assertEqual(incident.wait_until(self.failures), [("GET /chosen", "RuntimeError")])

    @unittest.skipUnless(GUNICORN, "there is no gunicorn: name a Python that has it in PITOT_GUNICORN")
    def test_workers_of_gunicorn_have_recorders_of_their_own(self):
        self.write("application.py", "import pitot\ndef application(environ, start_response):\n"
                   "  if environ['PATH_INFO'] == '/fail':\n    start_response('500 Error', [])\n    return [b'']\n"
                   "  start_response('200 OK', [])\n  return [b'']\napplication = pitot.wsgi.Middleware(application)\n")
        code = "import os, gunicorn; print(os.path.dirname(os.path.dirname(gunicorn.__file__)))"
        libraries = subprocess.run([GUNICORN, "-c", code], capture_output=True, text=True, check=True).stdout.strip()
        master = self.serve(self.python, "-m", "gunicorn", "--workers", "2", "--preload", "--bind", "unix:" + self.path("socket"), "application",
                            libraries=libraries)
        self.assertEqual(incident.wait_until(self.failures), [("GET /fail", "HTTP 500")])
        names = os.listdir(self.path("incidents"))
        info = incident.run_pitot("info", os.path.join(self.path("incidents"), next(name for name in names if name[0] != ".")))
        self.assertNotEqual(info["process"]["pid"], master.pid)


if __name__ == "__main__":
    unittest.main()
