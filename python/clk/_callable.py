"""Kernels and functions as callables with documentation of their own."""

from __future__ import annotations

import functools
import json
from typing import Any

from . import _clk
from ._answers import Profile, Proof, Text

#: The source of a program: its file or `None`, its text, its name in messages, the folder of its imports.
Origin = tuple[Any, str, str, Any]


@functools.lru_cache(maxsize=32)
def of_origin(origin: Origin) -> _clk.Program:
    """The program that a pickle names. All kernels of one program that come from a pickle share it."""
    path, text, name, folder = origin
    return _clk.Program.load(path) if path is not None else _clk.Program.source(text, name, folder)


def _unpickled(origin: Origin, name: str, settings: tuple[Any, ...]) -> Callable:
    program = of_origin(origin)
    found = [callee for callee in Callable.all(program) if callee.__name__ == name]
    if not found:
        raise AttributeError(f"`{origin[2]}` has no kernel or function `{name}` any more, which was pickled")
    return Callable(program, found[0]._at, *settings)


class Callable(_clk.Callable):
    """A kernel or function of a program.

    It is called with arrays and numbers; `help` shows its signature, and docs/python.md what it takes and returns.
    """

    __slots__ = ("_at", "_program", "_settings")

    def __init__(
        self,
        program: _clk.Program,
        at: int,
        device: str | None = None,
        check: bool | str = False,
        trap_nan: bool = False,
        deterministic: bool = False,
    ) -> None:
        self._program, self._at, self._settings = program, at, (device, check, trap_nan, deterministic)

    @staticmethod
    def all(program: _clk.Program) -> list[Callable]:
        """The callables of a program, in the order of the source."""
        return [Callable(program, at) for at in range(len(program))]

    def using(
        self,
        *,
        device: str | None = None,
        check: bool | str | None = None,
        trap_nan: bool | None = None,
        deterministic: bool | None = None,
    ) -> Callable:
        """The same with other settings: `kernel.using(device="sim", check=True)(x)`."""
        given = (device, check, trap_nan, deterministic)
        settings: list[Any] = [own if new is None else new for own, new in zip(self._settings, given)]
        return Callable(self._program, self._at, *settings)

    def prove(self) -> Proof:
        """What is proved of the kernel for all sizes, with counterexamples where something is refuted; as `clk prove` shows it."""
        text, verdicts, counterexamples, is_complete = _clk.prove(self)
        return Proof(self.__name__, text, dict(verdicts), tuple(counterexamples), is_complete)

    def cuda(self) -> Text:
        """The CUDA C++ of the kernel, with `f32` or `i32` for type parameters; as `clk emit --stage cuda` prints it."""
        return Text(_clk.cuda(self))

    def profile(self, /, *args: Any, **kwargs: Any) -> Profile:
        """What a call with these arguments costs a GPU, line by line; as `clk profile` shows it.

        The call runs on the simulator with copies of its arrays. `gpu` names the GPU of the bounds, such as "A100".
        """
        gpu = self._option(kwargs, "gpu", None)
        text, counts, advice = _clk.profile(self, args, kwargs, gpu)
        return Profile(self.__name__, text, tuple(json.loads(one) for one in counts), tuple(advice))

    def why(self, element: str, /, *args: Any, **kwargs: Any) -> Text:
        """Where an element came from in a call with these arguments, as a tree down to the inputs; as `clk why` shows it.

        `element` is one of an array that the call writes, such as `r[17]`; the result of a function is called `result`. With
        `first_nan=True` it is the name of an array, whose first number that is not finite is followed. `levels` is how much of the tree
        is shown, `more` where it goes on. The call runs on the simulator with copies of its arrays.
        """
        levels = self._option(kwargs, "levels", None)
        more = self._option(kwargs, "more", None)
        first_nan = self._option(kwargs, "first_nan", False)
        return Text(_clk.why(self, element, args, kwargs, levels, more, first_nan))

    def _option(self, kwargs: dict[str, Any], name: str, usual: Any) -> Any:
        """Takes an option out of the arguments, unless a parameter has its name."""
        own = [*(name for name, *_ in self.parameters), *self.dimensions, *(name for name, _ in self.generics)]
        return usual if name in own else kwargs.pop(name, usual)

    def __copy__(self) -> Callable:
        return self

    def __deepcopy__(self, memo: Any) -> Callable:
        return self

    def __reduce__(self) -> Any:
        """Pickles the source of the program, and the name of the kernel."""
        return _unpickled, (self._program.origin(), self.__name__, self._settings)


# Instances have documentation of their own, classes theirs.
class _Documentation:
    def __init__(self, of_class: str | None) -> None:
        self.of_class = of_class

    def __get__(self, instance: Callable | None, owner: type) -> str | None:
        return self.of_class if instance is None else instance.text


Callable.__doc__ = _Documentation(Callable.__doc__)  # type: ignore[assignment]
Callable.__module__ = "clk"
