"""The Jupyter kernel: connects a session of Clk to Jupyter by means of ipykernel.

A cell is an entry of the session. The value of its last expression is shown: arrays as tables, pictures and plots as images. An error
restores all variables. Lines that begin with `:` or `?` are commands of the session.
"""

from __future__ import annotations

import fnmatch
import time
from typing import Any

from ipykernel.kernelbase import Kernel

from .. import __version__, _cells, _mime
from .._clk import Notebook

#: Time in seconds after which the progress of a running launch is shown.
_PROGRESS_DELAY = 0.7

#: Time in seconds during which printed text is collected into one message. Jupyter drops messages that arrive faster
#: than it can show them.
_FLUSH_INTERVAL = 0.1

#: Number of collected characters at which they are sent without further delay.
_FLUSH_LENGTH = 1 << 16


class ClkKernel(Kernel):
    """A Jupyter kernel, which contains one session of Clk."""

    implementation = "clk"
    implementation_version = __version__
    banner = f"Clk {__version__}: write a kernel, run it at once, see the fault at its line. `:help kernel` has a first one."
    language_info = {
        "name": "clk",
        "version": __version__,
        "mimetype": "text/x-clk",
        "file_extension": ".clk",
        # Highlighters of notebooks do not know Clk; Rust is the most similar language.
        "codemirror_mode": "rust",
        "pygments_lexer": "rust",
    }

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._session = Notebook()
        #: The cells that have run: number, text, and the text of the cell's value if it had one.
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
        run = _CellRun(self, silent)
        for event in _cells.events(self._session, code):
            run.handle(event)
        if store_history and not silent:
            self._history.append((self.execution_count, code, run.value))
        if run.failure is not None:
            if not silent:
                self._send("error", run.failure)
            return {"status": "error", "execution_count": self.execution_count, **run.failure}
        payload = [] if run.exit_code is None else [{"source": "ask_exit", "keepkernel": False}]
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
        """Returns cells of the history. The current session has number 1; other sessions are not stored."""
        cells = self._history
        if hist_access_type == "range":
            # In Jupyter's protocol, 0 means the current session, and negative numbers are earlier sessions.
            is_current = session in (None, 0, 1)
            cells = [cell for cell in cells if is_current and (start or 0) <= cell[0] and (stop is None or cell[0] < stop)]
        elif hist_access_type == "search":
            cells = [cell for cell in cells if fnmatch.fnmatchcase(cell[1], pattern or "*")]
            if unique:
                last = {text: number for number, text, _ in cells}
                cells = [cell for cell in cells if last[cell[1]] == cell[0]]
        if hist_access_type != "range" and n is not None:
            cells = cells[-n:] if n > 0 else []
        history = [(1, number, (text, value) if output else text) for number, text, value in cells]
        return {"status": "ok", "history": history}

    async def do_shutdown(self, restart: bool) -> dict[str, Any]:
        self._session.interrupt()
        return {"status": "ok", "restart": restart}


class _CellRun:
    """Forwards the events of one cell as messages of Jupyter."""

    def __init__(self, kernel: ClkKernel, silent: bool) -> None:
        self.kernel = kernel
        self.silent = silent
        #: The content of the `error` message, after a failure.
        self.failure: dict[str, Any] | None = None
        #: The exit code, if the cell has ended the session.
        self.exit_code: int | None = None
        #: The text of the cell's value, if it has one.
        self.value: str | None = None
        #: The start time of the launch, and its last progress: numbers of started and of all thread groups.
        self._launch_start = time.monotonic()
        self._last_progress: tuple[int, int] = (0, 0)
        #: The display ID of the progress bar, if it is shown, and its text.
        self._progress_id: str | None = None
        self._progress_text = ""
        #: Printed text that is not sent yet, its length, and the time at which its first part was printed.
        self._printed: list[str] = []
        self._printed_length = 0
        self._printed_since = 0.0

    def handle(self, event: tuple[Any, ...]) -> None:
        """Forwards an event."""
        kind, *rest = event
        if kind == "print":
            self._collect(rest[0])
            return
        self._flush()
        if kind == "progress":
            self._show_progress(*rest)
            return
        self._clear_progress()
        if kind == "done":
            success, self.exit_code = rest
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
        """Buffers printed text, so that many lines become one message."""
        now = time.monotonic()
        if not self._printed:
            self._printed_since = now
        self._printed.append(text)
        self._printed_length += len(text)
        if self._printed_length >= _FLUSH_LENGTH or now - self._printed_since >= _FLUSH_INTERVAL:
            self._flush()

    def _flush(self) -> None:
        if self._printed:
            text = "".join(self._printed)
            self._printed, self._printed_length = [], 0
            self._clear_progress()
            if not self.silent:
                self.kernel._send("stream", {"name": "stdout", "text": text})

    def _show(self, kind: str, rest: list[Any]) -> None:
        if kind == "report":
            self.kernel._send("stream", {"name": "stderr", "text": rest[0].colored})
        elif kind == "picture":
            self.kernel._send("display_data", {"data": _mime.picture(*rest), "metadata": {}})
        elif kind == "value":
            _, text, html = rest
            count, data = self.kernel.execution_count, _mime.value(text, html)
            self.kernel._send("execute_result", {"execution_count": count, "data": data, "metadata": {}})

    def _show_progress(self, started: int, total: int) -> None:
        """Shows the progress of a long launch."""
        if started < self._last_progress[0] or total != self._last_progress[1]:
            self._launch_start = time.monotonic()
        self._last_progress = (started, total)
        seconds = time.monotonic() - self._launch_start
        if self.silent or total == 0 or seconds < _PROGRESS_DELAY:
            return
        # After all groups have started, the elapsed seconds are the only sign that the launch is still running.
        if started < total and total > 1:
            text = f"{100 * started // total}% of {total} groups of threads, {seconds:.0f} s"
            bar = f'<progress value="{started}" max="{total}"></progress>'
        else:
            text = f"the last of {total} groups of threads, {seconds:.0f} s" if total > 1 else f"{seconds:.0f} s"
            bar = "<progress></progress>"
        if text != self._progress_text:
            self._progress_text = text
            self._display_progress({"text/plain": text, "text/html": f"{bar} {text}"})

    def _display_progress(self, data: dict[str, str]) -> None:
        kind = "display_data" if self._progress_id is None else "update_display_data"
        self._progress_id = self._progress_id or f"clk-progress-{id(self)}"
        self.kernel._send(kind, {"data": data, "metadata": {}, "transient": {"display_id": self._progress_id}})

    def _clear_progress(self) -> None:
        if self._progress_id is not None:
            self._display_progress({"text/plain": "", "text/html": ""})
            self._progress_id, self._progress_text = None, ""
