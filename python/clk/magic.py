"""`%%clk` in notebooks of Python: cells of a session of Clk, with values of both.

`%%clk -i x,y -o z` gives the session copies of `x` and `y` (arrays, numbers, strings), runs the cell, and binds `z` in Python to the session's
value, or to its kernel or function. `r = %clk sum(y)` is the value of one line. `:quit` and `exit` end the session; the next cell begins a new one.
"""

from __future__ import annotations

import sys
import warnings
from typing import Any

from . import _cells, _show
from ._callable import Callable
from ._clk import Notebook, Program
from ._errors import Diagnostic, Warning, of_diagnostics

_session: Notebook | None = None


def session() -> Notebook:
    """The session that all cells share."""
    global _session
    if _session is None:
        _session = Notebook()
    return _session


def run(cell: str, display: Any, is_line: bool = False) -> Any:
    """Runs a cell and shows what it gives; raises its errors. The value of a line is returned instead of shown."""
    global _session
    errors: list[Diagnostic] = []
    found = None
    for kind, *rest in _cells.events(session(), cell):
        if kind == "print":
            sys.stdout.write(rest[0])
        elif kind == "error":
            errors.append(Diagnostic("", "error", rest[0], (), (), (), rest[0], rest[0]))
        elif kind == "report" and rest[0].severity == "error":
            errors.append(rest[0])
        elif kind == "report":
            warnings.warn(Warning(rest[0]), stacklevel=2)
        elif kind == "picture":
            display(_show.picture(*rest), raw=True)
        elif kind == "value" and is_line:
            found = rest[0]
        elif kind == "value":
            display(_show.value(*rest[1:]), raw=True)
        elif kind == "done" and rest[1] is not None:
            _session = None
    if any(error.code in ("E0599", "E0607") for error in errors):
        raise KeyboardInterrupt
    if errors:
        raise of_diagnostics(errors)
    return found


def _names(given: list[str]) -> list[str]:
    """The names in an option: `-i x,y`, `-i x, y` and `-i x y` are the same."""
    return [name for name in " ".join(given).replace(",", " ").split() if name]


def _output(name: str) -> Any:
    """The value of a variable of the session, or its kernel or function."""
    found = session().program_with(name)
    if found is None:
        return session().get(name)
    with warnings.catch_warnings():
        # The cell has shown them.
        warnings.simplefilter("ignore", Warning)
        program = Program.source(found[0], "<session>", found[1])
    for callee in Callable.all(program):
        if callee.__name__ == name:
            return callee
    raise NameError(f"`-o {name}`: only kernels can call this function")


def register(ipython: Any) -> None:
    """Defines `%%clk` and `%clk`."""
    from IPython.core.magic import register_line_cell_magic
    from IPython.core.magic_arguments import argument, magic_arguments, parse_argstring
    from IPython.display import display

    @magic_arguments()
    @argument("-i", "--input", nargs="*", default=[], help="names of arrays, numbers and strings that the cell gets copies of")
    @argument("-o", "--output", nargs="*", default=[], help="names of values, kernels and functions that Python gets from the cell")
    def clk(line: str, cell: str | None = None) -> Any:
        """Runs a cell of Clk; as `%clk`, one line, whose value it returns."""
        if cell is None:
            return run(line, display, is_line=True)
        given = parse_argstring(clk, line)
        for name in _names(given.input):
            if name not in ipython.user_ns:
                raise NameError(f"`-i {name}`: Python has no variable `{name}`")
            session().set(name, ipython.user_ns[name])
        run(cell, display)
        for name in _names(given.output):
            ipython.user_ns[name] = _output(name)
        return None

    register_line_cell_magic(clk)
