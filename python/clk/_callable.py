"""Kernels and functions as callables with documentation of their own."""

from __future__ import annotations

from . import _clk


class Callable(_clk.Callable):
    """A kernel or function of a program.

    It is called with arrays and numbers; `help` shows its signature, and docs/python.md what it takes and returns.
    """

    __slots__ = ("_at", "_program", "_settings")

    def __init__(self, program: _clk.Program, at: int, device: str | None = None, check: bool = False) -> None:
        self._program, self._at, self._settings = program, at, (device, check)

    @staticmethod
    def all(program: _clk.Program) -> list[Callable]:
        """The callables of a program, in the order of the source."""
        return [Callable(program, at) for at in range(len(program))]

    def using(self, *, device: str | None = None, check: bool | None = None) -> Callable:
        """The same with other settings: `kernel.using(device="sim", check=True)(x)`."""
        own_device, own_check = self._settings
        return Callable(
            self._program, self._at, own_device if device is None else device, own_check if check is None else check
        )


# Instances have documentation of their own, classes theirs.
class _Documentation:
    def __init__(self, of_class: str | None) -> None:
        self.of_class = of_class

    def __get__(self, instance: Callable | None, owner: type) -> str | None:
        return self.of_class if instance is None else instance.text


Callable.__doc__ = _Documentation(Callable.__doc__)  # type: ignore[assignment]
