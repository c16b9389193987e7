"""The results of inspecting kernels: texts, proofs, profiles."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ._errors import Diagnostic


class Text(str):
    """A string whose `repr` is its text, so that interactive sessions and notebooks show its lines."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


@dataclass(frozen=True, repr=False)
class Proof:
    """The verdicts on the properties of a kernel, as `print` shows them."""

    kernel: str
    text: str
    #: For each property, such as "in bounds": "proved" for all sizes, "refuted" by a counterexample, or "unknown".
    verdicts: dict[str, str]
    #: For each refuted property: the error of an execution that violates it.
    counterexamples: tuple[Diagnostic, ...]
    #: Whether the kernel was examined with the compile-time arguments of every launch in the program.
    is_complete: bool

    @property
    def is_proved(self) -> bool:
        """Whether all properties are proved for all launches in the program."""
        return bool(self.verdicts) and self.is_complete and all(verdict == "proved" for verdict in self.verdicts.values())

    def __repr__(self) -> str:
        return "\n".join([self.text.rstrip(), *(diagnostic.rendered.rstrip() for diagnostic in self.counterexamples)])


@dataclass(frozen=True, repr=False)
class Profile:
    """The cost of a call on a GPU, as `print` shows it."""

    kernel: str
    text: str
    #: For each kernel and array expression that ran: its operation counts, as `clk profile --json` prints them.
    counts: tuple[dict[str, Any], ...]
    advice: tuple[Diagnostic, ...]

    def __repr__(self) -> str:
        return "\n".join([self.text.rstrip(), *(diagnostic.rendered.rstrip() for diagnostic in self.advice)])


for _public in (Text, Proof, Profile):
    _public.__module__ = "clk"
