"""Clk in Python: GPU kernels that run directly on arrays of NumPy, torch, JAX and CuPy.

>>> import clk, numpy
>>> m = clk.source("kernel double(x: [f32; N], out y: [f32; N]) threads(i: N) { y[i] = 2.0 * x[i] }")
>>> m.double(numpy.ones(3, "float32"))
array([2., 2., 2.], dtype=float32)

`load` compiles a file, and `source` compiles text. Both return a module whose attributes are the kernels and functions. `help` shows
their signatures. Errors are exceptions with the diagnostics and source locations of the compiler or of the run: see `Error`.
"""

from __future__ import annotations

import atexit
import os
import types
from typing import Any

from . import _clk
from ._callable import Callable, program_from_origin as _program_from_origin
from ._clk import Array, Program as _Program, __version__, devices, leave as _leave
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
from ._grad import grad, value_and_grad
from ._inspection import Profile, Proof, Text

# When this rank exits, notify the other ranks. Rank 0 then waits until they exit, because they communicate through it.
atexit.register(_leave)

# A forked child inherits locks, but not the threads that would unlock them. So `fork` waits until no call runs.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_clk.before_fork, after_in_parent=_clk.after_fork_in_parent, after_in_child=_clk.after_fork_in_child
    )

#: The type of arguments for array parameters: arrays of NumPy, torch, JAX and CuPy, and other objects with DLPack or
#: the buffer protocol.
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
    """A compiled program. Its attributes are its kernels and functions, and the variables of its script after `run`.

    A kernel or function named `run`, `dtype` or `stubs` hides the method of that name, which is still available as
    `clk.Module.run(module)`.
    """

    def __init__(self, name: str, program: _Program | None = None, doc: str | None = None) -> None:
        super().__init__(name, doc)
        if program is not None:
            self._assign(program)

    def _assign(self, program: _Program) -> None:
        """Replaces the program of this module, and the attributes for its kernels and functions."""
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
        """Runs the statements of the script; importing or loading a module does not run them. `args` are the script's arguments."""
        self._program.run(list(args), device, check, trap_nan, deterministic)

    def dtype(self, name: str) -> Any:
        """The NumPy `dtype` of a struct of the program, for arrays."""
        dtype = self._program.dtype(name)
        if dtype is None:
            raise AttributeError(f"the program has no struct `{name}`")
        return dtype

    def stubs(self) -> str:
        """The text of a stub file (.pyi) for type checkers; `clk stubs` writes the same."""
        return self._program.stubs(self.__name__)

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("__") and "_program" in self.__dict__:
            value = self._program.variable(name)
            if value is not None:
                return value
        available = [attribute for attribute in self.__dict__ if not attribute.startswith("_")]
        raise AttributeError(f"`{self.__name__}` has no kernel, function or variable `{name}`; it has {', '.join(available)}")

    def __dir__(self) -> list[str]:
        methods = [name for name in ("dtype", "run", "stubs") if name not in self.__dict__]
        return sorted([*self.__dict__, *methods, *self._program.variables()])

    def __repr__(self) -> str:
        return f"<module {self.__name__!r} of Clk>"

    def __copy__(self) -> Module:
        return self

    def __deepcopy__(self, memo: Any) -> Module:
        # Programs are immutable, except for the variables of their scripts.
        return self

    def __reduce__(self) -> Any:
        """Pickles the source of the program."""
        return _unpickle_module, (self.__name__, self._program.origin())


def _unpickle_module(name: str, origin: Any) -> Module:
    return Module(name, _program_from_origin(origin))


def load(path: str | os.PathLike[str]) -> Module:
    """Compiles a file. Its imports are relative to the file."""
    path = os.fspath(path)
    name = os.path.splitext(os.path.basename(path))[0]
    return Module(name, _Program.load(path))


def source(text: str, *, name: str = "<source>", folder: str | os.PathLike[str] = "") -> Module:
    """Compiles source text. Messages call it `name`; imports are relative to `folder`."""
    return Module(name, _Program.source(text, name, os.fspath(folder)))


def load_ipython_extension(ipython: Any) -> None:
    """Registers the magics `%%clk` and `%clk` (`%load_ext clk`)."""
    from . import magic

    magic.register(ipython)
