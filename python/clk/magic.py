"""`%%clk` in notebooks of Python: cells of a session of Clk, with arrays of both.

`%%clk -i x,y -o z` gives the session copies of the arrays `x` and `y`, runs the cell, and binds `z` in Python to the session's array.
"""

from __future__ import annotations

import sys
import warnings
from typing import Any

from . import _cells, _show
from ._clk import Notebook
from ._errors import Diagnostic, Error, Warning

_session: Notebook | None = None


def session() -> Notebook:
    """The session that all cells share."""
    global _session
    if _session is None:
        _session = Notebook()
    return _session


def run(cell: str, display: Any) -> None:
    """Runs a cell and shows what it gives; raises its errors."""
    errors: list[Diagnostic] = []
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
        elif kind == "value":
            display(_show.value(*rest[1:]), raw=True)
    if any(error.code in ("E0599", "E0607") for error in errors):
        raise KeyboardInterrupt
    if errors:
        raise Error(errors)


def register(ipython: Any) -> None:
    """Defines `%%clk` and `%clk`."""
    from IPython.core.magic import register_line_cell_magic
    from IPython.core.magic_arguments import argument, magic_arguments, parse_argstring
    from IPython.display import display

    @magic_arguments()
    @argument("-i", "--input", default="", help="names of arrays that the cell gets copies of, separated by commas")
    @argument("-o", "--output", default="", help="names of values that Python gets from the cell")
    def clk(line: str, cell: str | None = None) -> None:
        """Runs a cell of Clk; as `%clk`, one line."""
        if cell is None:
            return run(line, display)
        given = parse_argstring(clk, line)
        for name in filter(None, given.input.split(",")):
            session().set(name.strip(), ipython.user_ns[name.strip()])
        run(cell, display)
        for name in filter(None, given.output.split(",")):
            ipython.user_ns[name.strip()] = session().get(name.strip())
        return None

    register_line_cell_magic(clk)
