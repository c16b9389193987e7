"""Types of Clk in the text of programs, for functions that are compiled beside those of a program."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from ._callable import Callable

_FLOATS = {"f16", "bf16", "f32", "f64"}


@dataclass(frozen=True)
class Type:
    """A type of Clk: `f32`, `[f32; N]`, `[f32x3; M, N]`."""

    text: str

    @property
    def is_array(self) -> bool:
        return self.text.startswith("[")

    @property
    def element(self) -> str:
        return self.text.strip("[]").split(";")[0].strip()

    @property
    def scalar(self) -> str:
        """The scalar type of the elements: `f32` of `f32x3`."""
        return self.element.partition("x")[0] if re.fullmatch(r"\w+x[234]", self.element) else self.element

    @property
    def lanes(self) -> int:
        return int(self.element[-1]) if self.scalar != self.element else 1

    @property
    def is_float(self) -> bool:
        return self.scalar in _FLOATS

    @property
    def dims(self) -> list[str]:
        """The extents: `N` and `ceil_div(N, 2)` of `[f32; N, ceil_div(N, 2)]`."""
        if ";" not in self.text:
            return []
        return split(self.text.strip()[1:-1].split(";", 1)[1])

    @property
    def as_result(self) -> str:
        """The type as that of a result, whose extents are those of the value."""
        return f"[{self.element}; {', '.join('_' for _ in self.dims)}]" if self.is_array else self.text

    def with_extents(self, name: str) -> Type:
        """The type of a parameter: extents that are `_` get names, so that other parameters can have the same type."""
        if "_" not in self.dims:
            return self
        dims = (f"{name.upper()}_{at}_" if dim == "_" else dim for at, dim in enumerate(self.dims))
        return Type(f"[{self.element}; {', '.join(dims)}]")

    def with_types(self, types: dict[str, str]) -> Type:
        """The type with other types for type parameters."""
        return Type(re.sub(r"[A-Za-z_]\w*", lambda word: types.get(word[0], word[0]), self.text))


def split(text: str) -> list[str]:
    """The parts of a list with commas, which may be nested."""
    parts, depth = [""], 0
    for letter in text:
        depth += (letter in "([") - (letter in ")]")
        if letter == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return [part.strip() for part in parts]


@dataclass(frozen=True)
class Input:
    name: str
    type: Type
    #: Whether a number comes as a tensor without axes, as the cotangent of a number does.
    is_tensor: bool


def inputs_of(callee: Callable) -> list[Input]:
    """The inputs, and then the dimensions that no input array has."""
    if any(access == "inout" for _, access, *_ in callee.parameters):
        raise TypeError(f"`{callee.__name__}` changes an argument in place, which neither autograd nor operators allow")
    found = [Input(name, Type(text), Type(text).is_array) for name, access, text, *_ in callee.parameters if access == "in"]
    known = {dim for one in found for dim in one.type.dims}
    return found + [Input(dim, Type("i64"), False) for dim in callee.dimensions if dim not in known | {"_"}]


def results_of(callee: Callable) -> list[Type]:
    """The types of the results."""
    if callee.is_kernel:
        found = [text for _, access, text, *_ in callee.parameters if access == "out"]
    else:
        text = (callee.result or "").strip()
        found = split(text[1:-1]) if text.startswith("(") else [text] if text else []
    if not found:
        raise TypeError(f"`{callee.__name__}` has no result")
    return [Type(text) for text in found]


def tuple_text(parts: Iterable[str]) -> str:
    """A tuple of Clk, or its only part."""
    parts = list(parts)
    return parts[0] if len(parts) == 1 else f"({', '.join(parts)})"


def fresh_names(word: str, count: int, inputs: list[Input]) -> list[str]:
    """Names that no input has."""
    while any(one.name.startswith(f"{word}_") for one in inputs):
        word += "_"
    return [f"{word}_{at}" for at in range(count)]
