"""Parses and prints types of Clk, for functions that the package generates and appends to a program."""

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
        """The scalar type of the elements: `f32` for `f32x3`."""
        return self.element.partition("x")[0] if re.fullmatch(r"\w+x[234]", self.element) else self.element

    @property
    def lanes(self) -> int:
        return int(self.element[-1]) if self.scalar != self.element else 1

    @property
    def is_float(self) -> bool:
        return self.scalar in _FLOATS

    @property
    def dims(self) -> list[str]:
        """The extents: `N` and `ceil_div(N, 2)` for `[f32; N, ceil_div(N, 2)]`."""
        if ";" not in self.text:
            return []
        return split_list(self.text.strip()[1:-1].split(";", 1)[1])

    @property
    def as_result(self) -> str:
        """The source text of the type as a result type: all extents are `_`, so that they are inferred."""
        return f"[{self.element}; {', '.join('_' for _ in self.dims)}]" if self.is_array else self.text

    def with_extents(self, name: str) -> Type:
        """The type with a name for each extent `_`, such as `X_0_`. Other parameters can then have the same extents."""
        if "_" not in self.dims:
            return self
        dims = (f"{name.upper()}_{axis}_" if dim == "_" else dim for axis, dim in enumerate(self.dims))
        return Type(f"[{self.element}; {', '.join(dims)}]")

    def with_types(self, types: dict[str, str]) -> Type:
        """The type with `types` substituted for type parameters."""
        return Type(re.sub(r"[A-Za-z_]\w*", lambda match: types.get(match[0], match[0]), self.text))


def split_list(text: str) -> list[str]:
    """The items of a comma-separated list. Commas inside of brackets do not separate items."""
    items, depth = [""], 0
    for char in text:
        depth += (char in "([") - (char in ")]")
        if char == "," and depth == 0:
            items.append("")
        else:
            items[-1] += char
    return [item.strip() for item in items]


@dataclass(frozen=True)
class Input:
    """An input of a generated function."""

    name: str
    type: Type
    #: Whether the argument is a tensor. An input of a number type may be a tensor without axes, such as a cotangent.
    is_tensor: bool


def inputs_of(callee: Callable) -> list[Input]:
    """The inputs of a kernel or function, followed by the dimensions that no input array determines."""
    if any(access == "inout" for _, access, *_ in callee.parameters):
        raise TypeError(f"`{callee.__name__}` modifies an argument in place, which neither autograd nor operators support")
    inputs = [Input(name, Type(text), Type(text).is_array) for name, access, text, *_ in callee.parameters if access == "in"]
    determined = {dim for input in inputs for dim in input.type.dims}
    return inputs + [Input(dim, Type("i64"), False) for dim in callee.dimensions if dim not in determined | {"_"}]


def results_of(callee: Callable) -> list[Type]:
    """The types of the results of a kernel or function."""
    if callee.is_kernel:
        types = [text for _, access, text, *_ in callee.parameters if access == "out"]
    else:
        text = (callee.result or "").strip()
        types = split_list(text[1:-1]) if text.startswith("(") else [text] if text else []
    if not types:
        raise TypeError(f"`{callee.__name__}` has no result")
    return [Type(text) for text in types]


def tuple_text(parts: Iterable[str]) -> str:
    """The source text of a tuple. For a single part, the text of the part."""
    parts = list(parts)
    return parts[0] if len(parts) == 1 else f"({', '.join(parts)})"


def fresh_names(prefix: str, count: int, inputs: list[Input]) -> list[str]:
    """Returns names with a prefix that no input has."""
    while any(input.name.startswith(f"{prefix}_") for input in inputs):
        prefix += "_"
    return [f"{prefix}_{i}" for i in range(count)]
