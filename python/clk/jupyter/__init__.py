"""The Jupyter kernel: a session of Clk behind Jupyter's protocol, which ipykernel speaks.

A cell is an entry of the session: its last expression is shown, arrays as tables, pictures and plots in place, and an error leaves all
variables as they were. Lines that begin with `:` or `?` are the session's commands.
"""

from __future__ import annotations

import fnmatch
import time
from typing import Any

from ipykernel.kernelbase import Kernel

from .. import __version__, _cells, _show
from .._clk import Notebook

#: Seconds that a launch takes before its progress is shown.
_LONG = 0.7

#: Seconds for which printed text is collected into one message: Jupyter drops messages that come faster than it shows them.
_COLLECTED = 0.1

#: Characters at which collected text is sent at once.
_MUCH = 1 << 16


class ClkKernel(Kernel):
    """One session of Clk."""

    implementation = "clk"
    implementation_version = __version__
    banner = f"Clk {__version__}: write a kernel, run it at once, see the fault at its line. `:help kernel` has a first one."
    language_info = {
        "name": "clk",
        "version": __version__,
        "mimetype": "text/x-clk",
        "file_extension": ".clk",
        # The nearest language that highlighters of notebooks know.
        "codemirror_mode": "rust",
        "pygments_lexer": "rust",
    }

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._session = Notebook()
        #: The cells that were run: number, text, and the text of the value if there was one.
        self._history: list[tuple[int, str, str | None]] = []

    def _send(self, kind: str, content: dict[str, Any]) -> None:
        self.send_response(self.iopub_socket, kind, content)

    async def do_execute(
        self,
        code: str,
        silent: bool,
        store_history: bool = True,
        user_expressions: dict[str, str] | None = None,
        allow_stdin: bool = False,
        **_: Any,
    ) -> dict[str, Any]:
        run = _Run(self, silent)
        for event in _cells.events(self._session, code):
            run.take(event)
        if store_history and not silent:
            self._history.append((self.execution_count, code, run.value))
        if run.failure is not None:
            if not silent:
                self._send("error", run.failure)
            return {"status": "error", "execution_count": self.execution_count, **run.failure}
        payload = [] if run.ended is None else [{"source": "ask_exit", "keepkernel": False}]
        return {"status": "ok", "execution_count": self.execution_count, "payload": payload, "user_expressions": {}}

    async def do_complete(self, code: str, cursor_pos: int | None) -> dict[str, Any]:
        position = len(code) if cursor_pos is None else cursor_pos
        matches, start = self._session.complete(code, position)
        return {"status": "ok", "matches": matches, "cursor_start": start, "cursor_end": position, "metadata": {}}

    async def do_inspect(
        self, code: str, cursor_pos: int | None, detail_level: int = 0, omit_sections: Any = ()
    ) -> dict[str, Any]:
        text = self._session.inspect(code, len(code) if cursor_pos is None else cursor_pos)
        data = {} if text is None else {"text/plain": text, "text/markdown": text}
        return {"status": "ok", "found": text is not None, "data": data, "metadata": {}}

    async def do_is_complete(self, code: str) -> dict[str, Any]:
        if Notebook.is_unfinished(code):
            depth = sum(map(code.count, "([{")) - sum(map(code.count, ")]}"))
            return {"status": "incomplete", "indent": "    " * max(depth, 0)}
        return {"status": "invalid" if Notebook.is_invalid(code) else "complete"}

    async def do_history(
        self,
        hist_access_type: str,
        output: bool,
        raw: bool,
        session: int | None = None,
        start: int | None = None,
        stop: int | None = None,
        n: int | None = None,
        pattern: str | None = None,
        unique: bool = False,
    ) -> dict[str, Any]:
        """Answers from the cells of this session, which has the number 1."""
        found = self._history
        if hist_access_type == "range":
            # 0 is the current session, and negative numbers are those before it.
            own = session in (None, 0, 1)
            found = [cell for cell in found if own and (start or 0) <= cell[0] and (stop is None or cell[0] < stop)]
        elif hist_access_type == "search":
            found = [cell for cell in found if fnmatch.fnmatchcase(cell[1], pattern or "*")]
            if unique:
                last = {text: number for number, text, _ in found}
                found = [cell for cell in found if last[cell[1]] == cell[0]]
        if hist_access_type != "range" and n is not None:
            found = found[-n:] if n > 0 else []
        shown = [(1, number, (text, value) if output else text) for number, text, value in found]
        return {"status": "ok", "history": shown}

    async def do_shutdown(self, restart: bool) -> dict[str, Any]:
        self._session.interrupt()
        return {"status": "ok", "restart": restart}


class _Run:
    """The events of one cell, sent on as Jupyter's messages."""

    def __init__(self, kernel: ClkKernel, silent: bool) -> None:
        self.kernel = kernel
        self.silent = silent
        #: The content of the `error` message, after a failure.
        self.failure: dict[str, Any] | None = None
        #: The exit code, if the cell has ended the session.
        self.ended: int | None = None
        #: The text of the cell's value, if it has one.
        self.value: str | None = None
        self._begun = time.monotonic()
        self._seen: tuple[int, int] = (0, 0)
        self._bar: str | None = None
        #: The progress that is shown.
        self._shown = ""
        #: Printed text that is not sent yet, its length, and since when it waits.
        self._printed: list[str] = []
        self._length = 0
        self._since = 0.0

    def take(self, event: tuple[Any, ...]) -> None:
        """Sends an event on."""
        kind, *rest = event
        if kind == "print":
            self._collect(rest[0])
            return
        self._flush()
        if kind == "progress":
            self._progress(*rest)
            return
        self._no_progress()
        if kind == "done":
            success, self.ended = rest
            if not success and self.failure is None:
                self.failure = {"ename": "Error", "evalue": "the cell failed", "traceback": []}
        elif kind == "error":
            self._fail("Error", rest[0], [rest[0]])
        elif kind == "report" and rest[0].severity == "error":
            self._fail(rest[0].code, rest[0].title, rest[0].colored.rstrip().split("\n"))
        else:
            if kind == "value":
                self.value = rest[1]
            if not self.silent:
                self._show(kind, rest)

    def _fail(self, name: str, text: str, lines: list[str]) -> None:
        if self.failure is None:
            self.failure = {"ename": name, "evalue": text, "traceback": []}
        self.failure["traceback"] += lines

    def _collect(self, text: str) -> None:
        """Keeps printed text for a moment, so that many lines become one message."""
        now = time.monotonic()
        if not self._printed:
            self._since = now
        self._printed.append(text)
        self._length += len(text)
        if self._length >= _MUCH or now - self._since >= _COLLECTED:
            self._flush()

    def _flush(self) -> None:
        if self._printed:
            text = "".join(self._printed)
            self._printed, self._length = [], 0
            self._no_progress()
            if not self.silent:
                self.kernel._send("stream", {"name": "stdout", "text": text})

    def _show(self, kind: str, rest: list[Any]) -> None:
        if kind == "report":
            self.kernel._send("stream", {"name": "stderr", "text": rest[0].colored})
        elif kind == "picture":
            self.kernel._send("display_data", {"data": _show.picture(*rest), "metadata": {}})
        elif kind == "value":
            _, text, html = rest
            count, data = self.kernel.execution_count, _show.value(text, html)
            self.kernel._send("execute_result", {"execution_count": count, "data": data, "metadata": {}})

    def _progress(self, begun: int, of: int) -> None:
        """Shows how far a long launch is."""
        if begun < self._seen[0] or of != self._seen[1]:
            self._begun = time.monotonic()
        self._seen = (begun, of)
        seconds = time.monotonic() - self._begun
        if self.silent or of == 0 or seconds < _LONG:
            return
        # The time moves where no group begins any more.
        if begun < of and of > 1:
            text = f"{100 * begun // of}% of {of} groups of threads, {seconds:.0f} s"
            bar = f'<progress value="{begun}" max="{of}"></progress>'
        else:
            text = f"the last of {of} groups of threads, {seconds:.0f} s" if of > 1 else f"{seconds:.0f} s"
            bar = "<progress></progress>"
        if text != self._shown:
            self._shown = text
            self._display({"text/plain": text, "text/html": f"{bar} {text}"})

    def _display(self, data: dict[str, str]) -> None:
        kind = "display_data" if self._bar is None else "update_display_data"
        self._bar = self._bar or f"clk-progress-{id(self)}"
        self.kernel._send(kind, {"data": data, "metadata": {}, "transient": {"display_id": self._bar}})

    def _no_progress(self) -> None:
        if self._bar is not None:
            self._display({"text/plain": "", "text/html": ""})
            self._bar, self._shown = None, ""
