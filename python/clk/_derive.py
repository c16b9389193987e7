"""Derivatives of functions: `clk.grad` and `clk.value_and_grad`."""

from __future__ import annotations

from ._callable import Callable
from ._types import inputs_of, results_of, tuple_text


def _derived(callee: Callable, wrt: str | tuple[str, ...] | None, word: str) -> Callable:
    name = callee.__name__
    inputs = [one for one in inputs_of(callee) if one.name not in callee.dimensions]
    if callee.generics:
        raise TypeError(f"`{name}` has compile-time parameters: write a function that calls it with some")
    results = results_of(callee)
    if len(results) != 1 or results[0].is_array or not results[0].is_float:
        raise TypeError(f"`{name}` does not return a float: `clk.torch.function` has gradients of arrays")
    chosen = [wrt] if isinstance(wrt, str) else list(wrt) if wrt is not None else [inputs[0].name] if inputs else []
    types = {one.name: one.type for one in inputs}
    for own in chosen:
        if own not in types or not types[own].is_float:
            raise TypeError(f"`{name}` has no input `{own}` of a float type")
    if not chosen:
        raise TypeError(f"`{name}` has no input to take the gradient by")
    params = ", ".join(f"{one.name}: {one.type.text}" for one in inputs)
    result = tuple_text(types[own].as_result for own in chosen)
    if word == "value_and_grad":
        result = f"({results[0].text}, {result})"
    own = f"{name}_{word}"
    body = f"{word}({name}, wrt = {tuple_text(chosen)})({', '.join(one.name for one in inputs)})"
    program = callee._program.extended(f"\nfn {own}({params}) -> {result} {{ {body} }}\n")
    [found] = [one for one in Callable.all(program) if one.__name__ == own]
    return Callable(program, found._at, *callee._settings)


def grad(callee: Callable, wrt: str | tuple[str, ...] | None = None) -> Callable:
    """The gradient of a function that returns a float, by the inputs `wrt`; by the first one if none is named.

    >>> clk.grad(m.energy, wrt=("x", "k"))(x, 2.0)
    """
    return _derived(callee, wrt, "grad")


def value_and_grad(callee: Callable, wrt: str | tuple[str, ...] | None = None) -> Callable:
    """Like `grad`, but returns the value of the function as well: `(value, gradient)`."""
    return _derived(callee, wrt, "value_and_grad")
