"""Runs a cell of a session to its end, and yields its events in order.

Ctrl-C may be pressed at any time, even while an event is shown. While a cell runs, Ctrl-C therefore stops the cell instead of raising an
exception. The remaining events are still delivered, so that no cell keeps running in the background.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ._clk import Notebook


def events(session: Notebook, cell: str) -> Iterator[tuple[Any, ...]]:
    """Runs a cell and yields its events. The last event is ("done", success, exit code or None)."""
    with _interruptible(session):
        session.start(cell)
        is_done = False
        try:
            while not is_done:
                event = session.next()
                is_done = event[0] == "done"
                yield event
        finally:
            if not is_done:
                session.interrupt()
                while session.next()[0] != "done":
                    pass


@contextmanager
def _interruptible(session: Notebook) -> Iterator[None]:
    """Makes Ctrl-C stop the cell. Has an effect only on the main thread, because Python does not interrupt other threads."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    previous = signal.signal(signal.SIGINT, lambda *_: session.interrupt())
    try:
        yield
    finally:
        # None means that the handler was not installed from Python. Such a handler cannot be restored.
        signal.signal(signal.SIGINT, signal.default_int_handler if previous is None else previous)
