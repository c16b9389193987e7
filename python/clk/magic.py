"""The magics `%%clk` and `%clk`: cells and lines of Clk in Python notebooks.

`%%clk -i x,y -o z` copies `x` and `y` (arrays, numbers, strings) to the session of Clk and runs the cell. It then binds `z` in Python to the
session's value, kernel or function of that name. `r = %clk sum(y)` returns the value of one line. `:quit` and `exit` end the session; the
next cell starts a new one.
"""

from __future__ import annotations

import sys
import warnings
from typing import Any

from . import _cells, _mime
from ._callable import Callable
from ._clk import Notebook, Program
from ._errors import Diagnostic, Warning, from_diagnostics

_session: Notebook | None = None


def session() -> Notebook:
    """The session that all cells share."""
    global _session
    if _session is None:
        _session = Notebook()
    return _session


def run(cell: str, display: Any, is_line: bool = False) -> Any:
    """Runs a cell, shows its output, and raises its errors. If the text is a line (`is_line`), returns its value instead of showing it."""
    global _session
    errors: list[Diagnostic] = []
    line_value = None
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
            display(_mime.picture(*rest), raw=True)
        elif kind == "value" and is_line:
            line_value = rest[0]
        elif kind == "value":
            display(_mime.value(*rest[1:]), raw=True)
        elif kind == "done" and rest[1] is not None:
            _session = None
    if any(error.code in ("E0599", "E0607") for error in errors):
        raise KeyboardInterrupt
    if errors:
        raise from_diagnostics(errors)
    return line_value


def _parse_names(words: list[str]) -> list[str]:
    """The names in an option: `-i x,y`, `-i x, y` and `-i x y` are equivalent."""
    return [name for name in " ".join(words).replace(",", " ").split() if name]


def _output_value(name: str) -> Any:
    """The value of a variable of the session, or its kernel or function."""
    source = session().program_with(name)
    if source is None:
        return session().get(name)
    text, folder = source
    with warnings.catch_warnings():
        # The cell has already shown the warnings.
        warnings.simplefilter("ignore", Warning)
        program = Program.source(text, "<session>", folder)
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
    @argument("-i", "--input", nargs="*", default=[], help="Python variables (arrays, numbers, strings) to copy to the session")
    @argument("-o", "--output", nargs="*", default=[], help="values, kernels and functions of the session to bind in Python")
    def clk(line: str, cell: str | None = None) -> Any:
        """Runs a cell of Clk (`%%clk`), or runs one line and returns its value (`%clk`)."""
        if cell is None:
            return run(line, display, is_line=True)
        options = parse_argstring(clk, line)
        for name in _parse_names(options.input):
            if name not in ipython.user_ns:
                raise NameError(f"`-i {name}`: Python has no variable `{name}`")
            session().set(name, ipython.user_ns[name])
        run(cell, display)
        for name in _parse_names(options.output):
            ipython.user_ns[name] = _output_value(name)
        return None

    register_line_cell_magic(clk)
