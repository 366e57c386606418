# SPDX-License-Identifier: Apache-2.0
"""Requests as a part of contexts (contextvars), and steps of event loops, through ctypes. `_calls` chooses between these and
`_native`."""

import contextvars
import ctypes
import itertools
from typing import Optional

from pitot import _library as lib

tick = itertools.count(1).__next__  # orders moments of all threads, for less than the price of a clock

step_begin, step_end = lib.step_begin, lib.step_end


class Current(ctypes.c_uint64):
    """A request as a part of contexts: its id, or 0 once it has ended. Tasks keep their context when the request is over."""

    id = 0  # after its end, too
    ended = 0  # the tick

    def leave(self, outer: "Optional[Current]") -> None:
        """Ends it in all contexts. In the calling task `outer` is current again."""
        self.ended = tick()
        self.value = 0
        if outer is not None and current.get() is self:
            current.set(outer)


current: "contextvars.ContextVar[Current]" = contextvars.ContextVar("pitot.request", default=Current(0))
