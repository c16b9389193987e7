"""Derivatives of functions: `clk.grad` and `clk.value_and_grad`."""

from __future__ import annotations

from ._callable import Callable
from ._types import inputs_of, results_of, tuple_text


def _compile_gradient(callee: Callable, wrt: str | tuple[str, ...] | None, operation: str) -> Callable:
    """Compiles a function that applies `grad` or `value_and_grad` (`operation`) to a function."""
    name = callee.__name__
    inputs = [input for input in inputs_of(callee) if input.name not in callee.dimensions]
    if callee.generics:
        raise TypeError(f"`{name}` has compile-time parameters: write a function that calls it with fixed ones")
    results = results_of(callee)
    if len(results) != 1 or results[0].is_array or not results[0].is_float:
        raise TypeError(f"`{name}` does not return a float: for array results, use `clk.torch.function`")
    chosen = [wrt] if isinstance(wrt, str) else list(wrt) if wrt is not None else [inputs[0].name] if inputs else []
    types = {input.name: input.type for input in inputs}
    for variable in chosen:
        if variable not in types or not types[variable].is_float:
            raise TypeError(f"`{name}` has no input `{variable}` of a float type")
    if not chosen:
        raise TypeError(f"`{name}` has no input to differentiate with respect to")
    params = ", ".join(f"{input.name}: {input.type.text}" for input in inputs)
    result = tuple_text(types[variable].as_result for variable in chosen)
    if operation == "value_and_grad":
        result = f"({results[0].text}, {result})"
    new_name = f"{name}_{operation}"
    body = f"{operation}({name}, wrt = {tuple_text(chosen)})({', '.join(input.name for input in inputs)})"
    program = callee._program.extended(f"\nfn {new_name}({params}) -> {result} {{ {body} }}\n")
    [gradient] = [function for function in Callable.all(program) if function.__name__ == new_name]
    return Callable(program, gradient._index, *callee._settings)


def grad(callee: Callable, wrt: str | tuple[str, ...] | None = None) -> Callable:
    """The gradient of a function that returns a float, with respect to the inputs `wrt`, by default the first one.

    >>> clk.grad(m.energy, wrt=("x", "k"))(x, 2.0)
    """
    return _compile_gradient(callee, wrt, "grad")


def value_and_grad(callee: Callable, wrt: str | tuple[str, ...] | None = None) -> Callable:
    """Like `grad`, but returns the value of the function as well: `(value, gradient)`."""
    return _compile_gradient(callee, wrt, "value_and_grad")
