"""Cells of a session, run to their end: input is a cell, output are its events in order.

Ctrl-C may come at any moment, also while an event is being shown. So while a cell runs, it raises nothing: it stops the cell, whose last
events still come, and no session goes on behind an exception.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ._clk import Notebook


def events(session: Notebook, cell: str) -> Iterator[tuple[Any, ...]]:
    """Runs a cell and yields its events, of which the last one is ("done", success, exit code or None)."""
    with _stopping(session):
        session.start(cell)
        over = False
        try:
            while not over:
                event = session.next()
                over = event[0] == "done"
                yield event
        finally:
            if not over:
                session.interrupt()
                while session.next()[0] != "done":
                    pass


@contextmanager
def _stopping(session: Notebook) -> Iterator[None]:
    """Has Ctrl-C stop the cell. Only the main thread is ever interrupted."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, lambda *_: session.interrupt())
    try:
        yield
    finally:
        # None: a handler that Python did not install, which it cannot put back.
        signal.signal(signal.SIGINT, signal.default_int_handler if before is None else before)
