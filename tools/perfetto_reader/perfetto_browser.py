# SPDX-License-Identifier: Apache-2.0
"""A headless Chromium on a page of our own, offline: a loopback server for the page, and DevTools over a pipe."""

import fcntl
import http.server
import json
import os
import secrets
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.parse
from pathlib import Path

from perfetto_wheel import EnvironmentProblem, WebFiles

HERE = Path(__file__).resolve().parent
CLOSE_LIMIT_S = 2

# Chromium reads DevTools commands from descriptor 3 and answers on 4. A separate program does the renumbering. It avoids code
# between fork and exec, where Python's own descriptors may already have the numbers 3 and 4.
_RENUMBER = 'import os, sys; os.dup2(int(sys.argv[1]), 3); os.dup2(int(sys.argv[2]), 4); os.execvp(sys.argv[3], sys.argv[3:])'

_SWITCHES = (
    '--headless=new',
    '--no-sandbox',  # The sandbox refuses to run as root, as in containers. Only our own pages are opened.
    '--remote-debugging-pipe',
    '--disable-gpu',
    '--disable-dev-shm-usage',  # Containers have a /dev/shm of 64 MiB.
    '--disable-breakpad',
    '--disable-background-networking',
    '--disable-component-update',
    '--disable-default-apps',
    '--disable-extensions',
    '--disable-sync',
    '--hide-scrollbars',
    '--no-default-browser-check',
    '--no-first-run',
    '--no-proxy-server',
    '--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1',  # Enforces the promise to stay offline.
)


class TimeLimit(Exception):
    """The time given for one operation has passed."""


class PageError(Exception):
    """Code in the page threw; the text is its message."""


class Deadline:
    """The end of the time for an operation."""

    def __init__(self, seconds: float):
        self.seconds = seconds
        self._end = time.monotonic() + seconds

    def left(self) -> float:
        left = self._end - time.monotonic()
        if left <= 0:
            raise TimeLimit(f'not finished after {self.seconds:g} s. Allow more (--timeout), or use a smaller trace or query.')
        return left


class _Handler(http.server.SimpleHTTPRequestHandler):
    protocol_version = 'HTTP/1.1'
    extensions_map = {**http.server.SimpleHTTPRequestHandler.extensions_map,
                      '.js': 'text/javascript', '.wasm': 'application/wasm', '.woff2': 'font/woff2'}

    def translate_path(self, path):
        extra = self.server.extra.get(urllib.parse.urlsplit(path).path)
        return str(extra) if extra else super().translate_path(path)

    def log_message(self, format, *args):  # pylint: disable=redefined-builtin
        pass


class PageServer:
    """Serves Perfetto's web files, page.js and one trace on 127.0.0.1."""

    def __init__(self, files: WebFiles):
        def handler(*args):
            return _Handler(*args, directory=str(files.root))
        self._server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), handler)
        self._server.daemon_threads = True
        self._server.extra = {'/reader.html': HERE / 'page.html', '/page.js': HERE / 'page.js'}
        self._trace_url = ''
        self.url = f'http://127.0.0.1:{self._server.server_address[1]}'
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()

    def offer_trace(self, path: Path) -> str:
        """Returns the trace's address for the page. The trace replaces the one offered before."""
        self._server.extra.pop(self._trace_url, None)
        # Any user of the machine can reach the port, and traces are private: a trace needs the knowledge of its address.
        self._trace_url = f'/{secrets.token_urlsafe(16)}'
        self._server.extra[self._trace_url] = path.resolve()
        return self._trace_url

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class Chromium:
    """One browser process with one page."""

    def __init__(self, deadline: Deadline, width: int = 800, height: int = 600):
        name = os.environ.get('PITOT_CHROMIUM') or 'chromium'
        program = shutil.which(name)
        if not program:
            raise EnvironmentProblem(f'the program {name} does not exist. Install it (Debian: apt-get install chromium), '
                                     'or name another Chromium in PITOT_CHROMIUM.')
        self._process = None
        self._to = self._from = -1
        self._buffer = b''
        self._last_id = 0
        self._events = []
        self._session = None
        self._profile = tempfile.mkdtemp(prefix='pitot-chromium-')
        try:
            self._start([program, *_SWITCHES, f'--user-data-dir={self._profile}/profile',
                         f'--window-size={width},{height}', 'about:blank'])
            target = self.call('Target.createTarget', deadline, url='about:blank')['targetId']
            self._session = self.call('Target.attachToTarget', deadline, targetId=target, flatten=True)['sessionId']
            self.call('Page.enable', deadline)
            self.call('Inspector.enable', deadline)  # Reports the death of the page's process.
        except BaseException:
            self.close()
            raise

    def _start(self, command) -> None:
        child_reads, self._to = os.pipe()
        self._from, child_writes = os.pipe()
        # High numbers for the child's ends, so that renumbering one cannot overwrite the other.
        high = [fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 10) for fd in (child_reads, child_writes)]
        os.set_blocking(self._to, False)
        try:
            with open(f'{self._profile}/stderr', 'wb') as errors:
                self._process = subprocess.Popen(
                    [sys.executable, '-I', '-c', _RENUMBER, *map(str, high), *command],
                    stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=errors, pass_fds=high,
                    start_new_session=True,  # Puts its children into its group, so that all of them can be ended.
                    env={**os.environ, 'XDG_CONFIG_HOME': self._profile, 'XDG_CACHE_HOME': self._profile})
        finally:
            for fd in (child_reads, child_writes, *high):
                os.close(fd)

    def _ended(self) -> EnvironmentProblem:
        errors = Path(self._profile, 'stderr').read_text(encoding='utf-8', errors='replace').strip()[-600:]
        return EnvironmentProblem(f'chromium ended by itself; its last messages: {errors or "none"}\n'
                                  'Check that "chromium --headless=new --no-sandbox --dump-dom about:blank" works on this machine.')

    @property
    def pid(self) -> int:
        """The browser's process. It leads the session of all its processes."""
        return self._process.pid

    def _send(self, message: dict, deadline: Deadline) -> None:
        data = json.dumps(message).encode('ascii') + b'\0'
        while data:
            if not select.select([], [self._to], [], deadline.left())[1]:
                continue
            try:
                data = data[os.write(self._to, data):]
            except BrokenPipeError as error:
                raise self._ended() from error

    def _receive(self, deadline: Deadline) -> dict:
        pieces = [self._buffer]
        while b'\0' not in pieces[-1]:
            if not select.select([self._from], [], [], deadline.left())[0]:
                continue
            pieces.append(os.read(self._from, 1 << 16))
            if not pieces[-1]:
                raise self._ended()
        message, self._buffer = b''.join(pieces).split(b'\0', 1)
        message = json.loads(message)
        if message.get('method') == 'Inspector.targetCrashed':
            raise EnvironmentProblem('the page crashed, most likely out of memory. Free some memory, or use a smaller trace.')
        return message

    def call(self, method: str, deadline: Deadline, **params) -> dict:
        """Sends one DevTools command and returns its result."""
        self._last_id += 1
        message = {'id': self._last_id, 'method': method, 'params': params}
        if self._session:
            message['sessionId'] = self._session
        self._send(message, deadline)
        while True:
            answer = self._receive(deadline)
            if answer.get('id') == self._last_id:
                if 'error' in answer:
                    raise PageError(f'{method}: {answer["error"].get("message")}')
                return answer['result']
            if 'method' in answer:
                self._events.append(answer['method'])

    def navigate(self, url: str, deadline: Deadline) -> None:
        """Opens a page and waits until it has loaded."""
        self._events.clear()
        result = self.call('Page.navigate', deadline, url=url)
        if 'errorText' in result:
            raise PageError(f'{url}: {result["errorText"]}')
        while 'Page.loadEventFired' not in self._events:
            self._events.append(self._receive(deadline).get('method'))
        self._events.clear()

    def evaluate(self, function: str, deadline: Deadline, *args):
        """Calls a function of the page, awaits a promise if it returns one, and returns the value."""
        expression = f'({function})({", ".join(json.dumps(a) for a in args)})'
        answer = self.call('Runtime.evaluate', deadline, expression=expression, awaitPromise=True, returnByValue=True)
        if 'exceptionDetails' in answer:
            details = answer['exceptionDetails']
            thrown = details.get('exception', {})
            text = thrown.get('description') or str(thrown.get('value') or details.get('text'))
            raise PageError(text.split('\n    at ')[0].removeprefix('Error: '))
        return answer['result'].get('value')

    def close(self) -> None:
        """Ends the browser and every process it started, and removes their files."""
        if self._process:
            self._stop_process()
        for fd in (self._to, self._from):
            if fd >= 0:
                os.close(fd)
        self._process, self._to, self._from = None, -1, -1
        shutil.rmtree(self._profile, ignore_errors=True)

    def _stop_process(self) -> None:
        try:
            self._session = None
            self._send({'id': 0, 'method': 'Browser.close'}, Deadline(1))
        except (EnvironmentProblem, TimeLimit, OSError):
            pass
        pid = self._process.pid
        end = time.monotonic() + CLOSE_LIMIT_S
        # Waits without reaping: until the leader is reaped, its number, also the group's, cannot be reused.
        while not os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) and time.monotonic() < end:
            time.sleep(0.01)
        try:
            os.killpg(pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            pass
        self._process.wait()


class OpenPage:
    """A browser with a page of a server of its own; closes both."""

    def __init__(self):
        self._server = self._browser = None

    def close(self) -> None:
        for part in (self._browser, self._server):
            if part:
                part.close()
        self._browser = self._server = None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
