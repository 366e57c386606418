# SPDX-License-Identifier: Apache-2.0
"""Starts and stops the evidence of the interpreter: collections, its lock, event loops, stacks, compilation, names of threads."""

import logging
import threading
from typing import Any, Callable, List

from pitot import _library as lib
from pitot import _calls, _compile, _loops, _stacks, _watch

_log = logging.getLogger("pitot")

_lock = threading.Lock()
_stops: List[Callable[[], None]] = []
_owner: Any = None  # the recorder it was begun for
_added: List[Any] = []  # wrappers of functions in modules that may be imported later


def start(owner: Any, collections: bool, interpreter_lock: bool, event_loops: bool, stacks: bool, compilation: bool) -> None:
    """Begins to record the chosen parts. Called once the recorder `owner` runs; in a child of a fork, too."""
    global _owner  # pylint: disable=global-statement
    with _lock:
        _stop_locked()
        _owner = owner
        if collections:
            of_garbage = _watch.Collections()
            of_garbage.start()
            _stops.append(of_garbage.stop)
        install_loops, install_compilations = _nothing, _nothing  # again and again: modules may be imported later
        if event_loops:
            loops = _loops.Loops()
            loops.install()
            install_loops = loops.install
            _stops.append(loops.remove)
            _calls.set_enter(_loops.enter)
        if compilation:
            compilations = _compile.Compilations()
            compilations.install()
            install_compilations = compilations.install
            _stops.append(compilations.remove)

        def install() -> None:
            install_loops()
            install_compilations()
            at = len(_added)
            while at > 0:  # makes no container
                at -= 1
                _added[at].install()

        look_if_late = _stacks.Stacks().look if stacks else None
        if stacks and _stacks.why_not():
            _log.info("%s", _stacks.why_not())
        if look_if_late is not None:
            lib.watch_late_requests(1)
            _stops.append(lambda: lib.watch_late_requests(0))
        watch = _watch.Watch(interpreter_lock, install, _loops.look if event_loops else None, look_if_late)
        watch.start()
        _stops.append(watch.stop)


def add(wrapper: Any) -> None:
    """Has `wrapper.install` called again and again until the recorder stops, then its `remove`."""
    with _lock:
        wrapper.install()
        _added.append(wrapper)
        _stops.append(wrapper.remove)


def after_fork() -> None:
    """In a child, where no thread will release the lock."""
    global _lock  # pylint: disable=global-statement
    _lock = threading.Lock()


def stop(owner: Any) -> None:
    """Ends all of it, if it is the owner's. A child of a fork has its own, and still its parent's recorder."""
    global _owner  # pylint: disable=global-statement
    with _lock:
        if owner is _owner:
            _stop_locked()
            _owner = None


def _stop_locked() -> None:
    _calls.set_enter(None)
    _added.clear()
    while _stops:
        _stops.pop()()


def _nothing() -> None:
    pass
