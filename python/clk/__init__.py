"""Clk in Python: kernels that run at once on arrays of NumPy, torch, JAX and CuPy.

>>> import clk, numpy
>>> m = clk.source("kernel double(x: [f32; N], out y: [f32; N]) threads(i: N) { y[i] = 2.0 * x[i] }")
>>> m.double(numpy.ones(3, "float32"))
array([2., 2., 2.], dtype=float32)

`load` compiles a file, `source` a text; their kernels and functions are attributes of the module that is returned. `help` shows
their signatures. Errors are exceptions that carry the message of the compiler or of the run, with its places: see `Error`.
"""

from __future__ import annotations

import atexit
import os
import types
from typing import Any

from . import _clk
from ._answers import Profile, Proof, Text
from ._callable import Callable, of_origin as _of_origin
from ._clk import Array, Program as _Program, __version__, devices, leave as _leave
from ._derive import grad, value_and_grad
from ._errors import (
    ArgumentError,
    ArgumentTypeError,
    CompileError,
    DeviceError,
    Diagnostic,
    Error,
    Fault,
    FileError,
    OutOfMemory,
    Span,
    Warning,
)

# Rank 0 has to outlive the others, which need it.
atexit.register(_leave)

# A child of a fork has the locks of threads that it does not have.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_clk.before_fork, after_in_parent=_clk.after_fork_in_parent, after_in_child=_clk.after_fork_in_child
    )

#: What array parameters take: arrays of NumPy, torch, JAX, CuPy, and of whatever else has DLPack or buffers.
ArrayLike = Any

__all__ = [
    "ArgumentError",
    "ArgumentTypeError",
    "Array",
    "ArrayLike",
    "Callable",
    "CompileError",
    "DeviceError",
    "Diagnostic",
    "Error",
    "Fault",
    "FileError",
    "Module",
    "OutOfMemory",
    "Profile",
    "Proof",
    "Span",
    "Text",
    "Warning",
    "__version__",
    "devices",
    "grad",
    "load",
    "source",
    "value_and_grad",
]


class Module(types.ModuleType):
    """A compiled program. Its kernels and functions are attributes; so are the variables of its script, once `run` has run it.

    A kernel or function that is called like a method here (`run`, `dtype`, `stubs`) takes its place; the methods are still there
    as `clk.Module.run(module)`.
    """

    def __init__(self, name: str, program: _Program | None = None, doc: str | None = None) -> None:
        super().__init__(name, doc)
        if program is not None:
            self._assign(program)

    def _assign(self, program: _Program) -> None:
        """Takes a program in place of the one before."""
        for name in [name for name, value in self.__dict__.items() if isinstance(value, Callable)]:
            del self.__dict__[name]
        self.__dict__["_program"] = program
        for callee in Callable.all(program):
            self.__dict__[callee.__name__] = callee

    def run(
        self,
        *args: str,
        device: str | None = None,
        check: bool | str = False,
        trap_nan: bool = False,
        deterministic: bool = False,
    ) -> None:
        """Runs the statements of the script, with `args` as its arguments. Importing and loading do not."""
        self._program.run(list(args), device, check, trap_nan, deterministic)

    def dtype(self, name: str) -> Any:
        """NumPy's type for arrays of a struct of the program."""
        found = self._program.dtype(name)
        if found is None:
            raise AttributeError(f"the program has no struct `{name}`")
        return found

    def stubs(self) -> str:
        """The text of a stub file (.pyi) for type checkers; `clk stubs` writes the same."""
        return self._program.stubs(self.__name__)

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("__") and "_program" in self.__dict__:
            found = self._program.variable(name)
            if found is not None:
                return found
        known = [word for word in self.__dict__ if not word.startswith("_")]
        raise AttributeError(f"`{self.__name__}` has no kernel, function or variable `{name}`; it has {', '.join(known)}")

    def __dir__(self) -> list[str]:
        methods = [name for name in ("dtype", "run", "stubs") if name not in self.__dict__]
        return sorted([*self.__dict__, *methods, *self._program.variables()])

    def __repr__(self) -> str:
        return f"<module {self.__name__!r} of Clk>"

    def __copy__(self) -> Module:
        return self

    def __deepcopy__(self, memo: Any) -> Module:
        # A program does not change, except for the variables of its script.
        return self

    def __reduce__(self) -> Any:
        """Pickles the source of the program."""
        return _module, (self.__name__, self._program.origin())


def _module(name: str, origin: Any) -> Module:
    """The module that was pickled."""
    return Module(name, _of_origin(origin))


def load(path: str | os.PathLike[str]) -> Module:
    """Compiles a file. Imports in it are relative to it."""
    path = os.fspath(path)
    name = os.path.splitext(os.path.basename(path))[0]
    return Module(name, _Program.load(path))


def source(text: str, *, name: str = "<source>", folder: str | os.PathLike[str] = "") -> Module:
    """Compiles a text. `name` stands for it in messages; imports are relative to `folder`."""
    return Module(name, _Program.source(text, name, os.fspath(folder)))


def load_ipython_extension(ipython: Any) -> None:
    """Defines the magic `%%clk` (`%load_ext clk`)."""
    from . import magic

    magic.register(ipython)
