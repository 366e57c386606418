# SPDX-License-Identifier: Apache-2.0
"""A bridge from the module logging: records become instants, so incidents show what was logged meanwhile."""

import logging
import time
from typing import Set

from pitot._calls import instant

_MOST_LOGGERS = 256  # with a name of their own in traces


class LogHandler(logging.Handler):
    """Makes records instants of the calling thread, and so of its request: `logging.getLogger().addHandler(pitot.LogHandler())`.

    An instant's name is "log: ", the level and the logger; its detail is the message's first 48 bytes. Records of the logger
    "pitot" are left out. So are those above `most_per_second` of the process, and `left_out` counts them. Does nothing while no
    recorder runs. Behind a QueueListener records come from its thread, and belong to no request.
    """

    def __init__(self, level: int = logging.WARNING, *, most_per_second: int = 100) -> None:
        super().__init__(level)
        self.left_out = 0
        self._most = most_per_second
        self._second, self._taken = 0, 0
        self._loggers: Set[str] = set()

    def emit(self, record: logging.LogRecord) -> None:  # under the handler's lock
        if record.name == "pitot" or record.name.startswith("pitot."):
            return
        second = int(time.monotonic())
        if second != self._second:
            self._second, self._taken = second, 0
        if self._taken >= self._most:
            self.left_out += 1
            return
        self._taken += 1
        try:
            instant(self._name_of(record), record.getMessage())
        except Exception:  # pylint: disable=broad-except
            self.handleError(record)

    def _name_of(self, record: logging.LogRecord) -> str:
        if len(self._loggers) < _MOST_LOGGERS:
            self._loggers.add(record.name)
        level = logging.getLevelName(record.levelno)
        return f"log: {level} {record.name}" if record.name in self._loggers else f"log: {level}"
