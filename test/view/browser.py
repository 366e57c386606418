# SPDX-License-Identifier: Apache-2.0
"""A headless Chromium on a page of `pitot view`. It notes messages of the console, errors and requests to a network."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / 'tools' / 'perfetto_reader'))

from perfetto_browser import Chromium, Deadline  # pylint: disable=wrong-import-position


class ViewedPage(Chromium):
    """The page of one file, open and drawn."""

    def __init__(self, path: Path, width: int = 1400, height: int = 900, is_dark: bool = False, seconds: float = 240):
        self.complaints = []
        self.requests = []
        self.deadline = Deadline(seconds)
        super().__init__(self.deadline, width, height)
        try:
            for domain in ('Runtime', 'Log', 'Network'):
                self.call(f'{domain}.enable', self.deadline)
            self.call('Emulation.setDeviceMetricsOverride', self.deadline, width=width, height=height, deviceScaleFactor=1,
                      mobile=False)
            self.call('Emulation.setEmulatedMedia', self.deadline,
                      features=[{'name': 'prefers-color-scheme', 'value': 'dark' if is_dark else 'light'}])
            self.navigate(path.resolve().as_uri(), self.deadline)
            self.ask('() => pitotView.then((page) => { globalThis.page = page; })')
        except BaseException:
            self.close()
            raise

    def _receive(self, deadline):
        message = super()._receive(deadline)
        method, params = message.get('method'), message.get('params', {})
        if method in ('Runtime.consoleAPICalled', 'Runtime.exceptionThrown', 'Log.entryAdded'):
            self.complaints.append(params)
        if method == 'Network.requestWillBeSent':
            self.requests.append(params['request']['url'])
        return message

    def ask(self, function: str, *args):
        return self.evaluate(function, self.deadline, *args)

    def mouse(self, kind: str, x: float, y: float, **more) -> None:
        self.call('Input.dispatchMouseEvent', self.deadline, type=kind, x=x, y=y, **more)

    def drag(self, x0, y0, x1, y1) -> None:
        self.mouse('mousePressed', x0, y0, button='left', buttons=1, clickCount=1)
        self.mouse('mouseMoved', (x0 + x1) / 2, (y0 + y1) / 2, button='left', buttons=1)
        self.mouse('mouseMoved', x1, y1, button='left', buttons=1)
        self.mouse('mouseReleased', x1, y1, button='left', buttons=0, clickCount=1)

    def click(self, x, y) -> None:
        self.mouse('mousePressed', x, y, button='left', buttons=1, clickCount=1)
        self.mouse('mouseReleased', x, y, button='left', buttons=0, clickCount=1)

    def key(self, key: str) -> None:
        for kind in ('keyDown', 'keyUp'):
            self.call('Input.dispatchKeyEvent', self.deadline, type=kind, key=key, text=key if len(key) == 1 else '')

    def drawn(self) -> None:
        """Waits until what was asked for is on the screen."""
        self.ask('() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))')
