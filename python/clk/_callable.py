"""Kernels and functions as Python callables with docstrings."""

from __future__ import annotations

import functools
import json
from typing import Any

from . import _clk
from ._inspection import Profile, Proof, Text

#: The source of a program: its file or `None`, its text, its name in messages, and the folder for its imports.
Origin = tuple[Any, str, str, Any]


@functools.lru_cache(maxsize=32)
def program_from_origin(origin: Origin) -> _clk.Program:
    """Compiles the program of a pickled kernel or function. Cached, so that all of them share one program."""
    path, text, name, folder = origin
    return _clk.Program.load(path) if path is not None else _clk.Program.source(text, name, folder)


def _unpickle_callable(origin: Origin, name: str, settings: tuple[Any, ...]) -> Callable:
    program = program_from_origin(origin)
    matches = [callee for callee in Callable.all(program) if callee.__name__ == name]
    if not matches:
        raise AttributeError(f"cannot unpickle `{name}`: `{origin[2]}` no longer has this kernel or function")
    return Callable(program, matches[0]._index, *settings)


class Callable(_clk.Callable):
    """A kernel or function of a program.

    Call it with arrays and numbers. `help` shows its signature; docs/python.md describes arguments and results.
    """

    __slots__ = ("_index", "_program", "_settings")

    def __init__(
        self,
        program: _clk.Program,
        index: int,
        device: str | None = None,
        check: bool | str = False,
        trap_nan: bool = False,
        deterministic: bool = False,
    ) -> None:
        self._program, self._index, self._settings = program, index, (device, check, trap_nan, deterministic)

    @staticmethod
    def all(program: _clk.Program) -> list[Callable]:
        """The callables of a program, in the order of the source."""
        return [Callable(program, index) for index in range(len(program))]

    def using(
        self,
        *,
        device: str | None = None,
        check: bool | str | None = None,
        trap_nan: bool | None = None,
        deterministic: bool | None = None,
    ) -> Callable:
        """Returns a copy with other default options: `kernel.using(device="sim", check=True)(x)`."""
        changes = (device, check, trap_nan, deterministic)
        settings: list[Any] = [old if new is None else new for old, new in zip(self._settings, changes)]
        return Callable(self._program, self._index, *settings)

    def prove(self) -> Proof:
        """Proves the properties of the kernel for all sizes, or finds counterexamples, like `clk prove`."""
        text, verdicts, counterexamples, is_complete = _clk.prove(self)
        return Proof(self.__name__, text, dict(verdicts), tuple(counterexamples), is_complete)

    def cuda(self) -> Text:
        """The CUDA C++ of the kernel, like `clk emit --stage cuda`. Type parameters are replaced by `f32` or `i32`."""
        return Text(_clk.cuda(self))

    def profile(self, /, *args: Any, **kwargs: Any) -> Profile:
        """Estimates the cost of a call on a GPU, line by line, like `clk profile`.

        The call runs on the simulator with copies of its arrays. `gpu` names the GPU for the estimate, such as "A100".
        """
        gpu = self._pop_option(kwargs, "gpu", None)
        text, counts, advice = _clk.profile(self, args, kwargs, gpu)
        return Profile(self.__name__, text, tuple(json.loads(text) for text in counts), tuple(advice))

    def why(self, element: str, /, *args: Any, **kwargs: Any) -> Text:
        """Explains how a call computed an element, as a tree down to the inputs, like `clk why`.

        `element` names an element of an array that the call writes, such as `r[17]`; the result of a function is called `result`. With
        `first_nan=True`, it is the name of an array, and the tree explains the first element that is not finite. `levels` limits the
        depth of the tree; `more` continues at a node. The call runs on the simulator with copies of its arrays.
        """
        levels = self._pop_option(kwargs, "levels", None)
        more = self._pop_option(kwargs, "more", None)
        first_nan = self._pop_option(kwargs, "first_nan", False)
        return Text(_clk.why(self, element, args, kwargs, levels, more, first_nan))

    def _pop_option(self, kwargs: dict[str, Any], name: str, default: Any) -> Any:
        """Removes an option from the keyword arguments and returns it, unless a parameter has the same name."""
        parameters = [*(name for name, *_ in self.parameters), *self.dimensions, *(name for name, _ in self.generics)]
        return default if name in parameters else kwargs.pop(name, default)

    def __copy__(self) -> Callable:
        return self

    def __deepcopy__(self, memo: Any) -> Callable:
        return self

    def __reduce__(self) -> Any:
        """Pickles the source of the program, and the name of the kernel."""
        return _unpickle_callable, (self._program.origin(), self.__name__, self._settings)


class _Documentation:
    """A descriptor for `__doc__`: the docstring for the class, and the documentation comment in Clk for an instance."""

    def __init__(self, class_doc: str | None) -> None:
        self.class_doc = class_doc

    def __get__(self, instance: Callable | None, owner: type) -> str | None:
        return self.class_doc if instance is None else instance.text


Callable.__doc__ = _Documentation(Callable.__doc__)  # type: ignore[assignment]
Callable.__module__ = "clk"
