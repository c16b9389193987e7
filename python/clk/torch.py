"""Kernels and functions of Clk in torch: calls that autograd sees through, and operators that `torch.compile` knows.

Both are made from a kernel with one result, or a function. Gradients are Clk's own: a program is compiled that has the call's
`vjp`, or is refused where one would be wrong.
"""

from __future__ import annotations

import ast
import re
from typing import Any

import torch

from . import Callable, Module
from ._errors import Error

_FLOATS = {"f16", "bf16", "f32", "f64"}
_DTYPES = {
    "bool": torch.bool,
    "i8": torch.int8,
    "i16": torch.int16,
    "i32": torch.int32,
    "i64": torch.int64,
    "u8": torch.uint8,
    "f16": torch.float16,
    "bf16": torch.bfloat16,
    "f32": torch.float32,
    "f64": torch.float64,
}


def _element(text: str) -> str:
    """The element type in a type of Clk: `f32` of `[f32; N]`."""
    return text.strip("[]").split(";")[0].strip()


def _inputs(callee: Callable) -> list[tuple[str, str, bool]]:
    """Name, type and whether it is an array, of each input."""
    found = [(name, text, is_array) for name, access, text, is_array, _ in callee.parameters if access == "in"]
    if any(access == "inout" for _, access, _, _, _ in callee.parameters):
        raise TypeError(f"`{callee.__name__}` changes an argument in place, which neither autograd nor operators allow")
    return found


def _result(callee: Callable) -> str:
    """The type of the only result."""
    if not callee.is_kernel:
        return callee.result or "()"
    results = [text for _, access, text, _, _ in callee.parameters if access == "out"]
    if len(results) != 1:
        raise TypeError(f"`{callee.__name__}` has {len(results)} results; one is needed here")
    return results[0]


def _backward(module: Module, callee: Callable) -> tuple[Callable, list[int]]:
    """The function that gives the gradients of the float inputs, and which inputs these are."""
    name, inputs, result = callee.__name__, _inputs(callee), _result(callee)
    floats = [at for at, (_, text, _) in enumerate(inputs) if _element(text) in _FLOATS]
    if not floats:
        raise TypeError(f"`{name}` has no input of a float type, so it has no gradient")
    names = [inputs[at][0] for at in floats]
    params = ", ".join(f"{own}: {text}" for own, text, _ in inputs)
    types = ", ".join(inputs[at][1] for at in floats)
    wrt = f"({', '.join(names)})" if len(names) > 1 else names[0]
    gives = f"({types})" if len(names) > 1 else types
    arguments = ", ".join(own for own, _, _ in inputs)
    text = (
        f"\nfn {name}_forward_({params}) -> {result} {{ {name}({arguments}) }}\n"
        f"fn {name}_backward_({params}, cotangent_: {result}) -> {gives} {{\n"
        f"    vjp({name}_forward_, wrt = {wrt})({arguments}, cotangent = cotangent_).1\n}}\n"
    )
    program = module._program.extended(text)
    found = [own for own in Callable.all(program) if own.__name__ == f"{name}_backward_"]
    return found[0], floats


def function(module: Module, name: str, *, device: str | None = None) -> Any:
    """A call of a kernel or function of a module, as a function of tensors that autograd sees through.

    >>> f = clk.torch.function(module, "saxpy")
    >>> f(2.0, x, y).sum().backward()

    Numbers may be tensors without axes, which get a gradient, too.
    """
    callee = getattr(module, name).using(device=device)
    backward, floats = _backward(module, callee)
    backward = backward.using(device=device)
    inputs = _inputs(callee)

    def plain(values: tuple[Any, ...]) -> list[Any]:
        # A tensor without axes stands for a number.
        pairs = zip(values, inputs)
        return [
            (value.detach() if is_array else value.item()) if isinstance(value, torch.Tensor) else value
            for value, (_, _, is_array) in pairs
        ]

    class Call(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, *values: Any) -> Any:
            tensors = [value for value in values if isinstance(value, torch.Tensor)]
            ctx.save_for_backward(*tensors)
            ctx.others = [None if isinstance(value, torch.Tensor) else value for value in values]
            found = callee(*plain(values))
            if isinstance(found, torch.Tensor):
                return found
            # A number is where the arrays are.
            device = next((value.device for value in tensors if value.ndim), None)
            return torch.tensor(found, dtype=_DTYPES[_element(_result(callee))], device=device)

        @staticmethod
        @torch.autograd.function.once_differentiable
        def backward(ctx: Any, cotangent: Any) -> Any:
            saved = iter(ctx.saved_tensors)
            values = [next(saved) if other is None else other for other in ctx.others]
            found = backward(*plain(tuple(values)), cotangent.detach() if cotangent.ndim else cotangent.item())
            gradients: list[Any] = [None] * len(values)
            for at, gradient in zip(floats, found if isinstance(found, tuple) else (found,)):
                if isinstance(values[at], torch.Tensor):
                    wanted = values[at]
                    if not isinstance(gradient, torch.Tensor):
                        gradient = torch.tensor(gradient, dtype=wanted.dtype, device=wanted.device)
                    gradients[at] = gradient
            return tuple(gradients)

    def call(*values: Any) -> Any:
        if len(values) != len(inputs):
            raise TypeError(f"`{name}` takes {len(inputs)} arguments, and {len(values)} are given")
        return Call.apply(*values)

    call.__name__ = call.__qualname__ = name
    call.__doc__ = callee.__doc__
    return call


def operator(module: Module, name: str, qualified: str) -> Any:
    """Registers a kernel or function as the operator `qualified` (`mylib::saxpy`), and returns it.

    `torch.compile` keeps it as a node of the graph: its shapes come from the signature. Its gradient is Clk's, where there is one.
    """
    callee = getattr(module, name)
    inputs, result = _inputs(callee), _result(callee)
    schema = ", ".join(f"{_schema_type(text, is_array)} {own}" for own, text, is_array in inputs)

    def forward(*values: Any) -> Any:
        return callee(*(value.detach() if isinstance(value, torch.Tensor) else value for value in values))

    registered = torch.library.custom_op(qualified, forward, mutates_args=(), schema=f"({schema}) -> Tensor")

    @registered.register_fake
    def _(*values: Any) -> Any:
        like = next((value for value in values if isinstance(value, torch.Tensor)), None)
        shape = _shape(callee, inputs, result, values)
        return torch.empty(shape, dtype=_DTYPES[_element(result)], device=like.device if like is not None else None)

    try:
        backward, floats = _backward(module, callee)
    except (Error, TypeError):
        # Without a derivative, autograd says that the operator has none.
        return registered

    def setup(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(*(value for value in inputs if isinstance(value, torch.Tensor)))
        ctx.others = [None if isinstance(value, torch.Tensor) else value for value in inputs]

    def gradients(ctx: Any, cotangent: Any) -> Any:
        saved = iter(ctx.saved_tensors)
        values = [next(saved) if other is None else other for other in ctx.others]
        plain = [value.detach() if isinstance(value, torch.Tensor) else value for value in values]
        found = backward(*plain, cotangent.detach())
        all_ = found if isinstance(found, tuple) else (found,)
        given: list[Any] = [None] * len(values)
        for at, gradient in zip(floats, all_):
            if isinstance(values[at], torch.Tensor):
                given[at] = gradient
        return tuple(given)

    registered.register_autograd(gradients, setup_context=setup)
    return registered


def _schema_type(text: str, is_array: bool) -> str:
    if is_array:
        return "Tensor"
    element = _element(text)
    if element in _FLOATS:
        return "float"
    if element == "bool":
        return "bool"
    if re.fullmatch(r"[iu]\d+", element):
        return "SymInt"
    raise TypeError(f"operators of torch take no `{text}`")


def _shape(callee: Callable, inputs: Any, result: str, values: tuple[Any, ...]) -> list[Any]:
    """The shape of the result, from the shapes of the arguments."""
    known: dict[str, Any] = {}
    for (_, text, is_array), value in zip(inputs, values):
        for extent, dim in zip(value.shape if is_array else (), _dims(text)):
            if dim.isidentifier():
                known.setdefault(dim, extent)
    for (name, _, is_array), value in zip(inputs, values):
        if not is_array:
            known.setdefault(name, value)
    return [_extent(dim, known, callee) for dim in _dims(result)]


def _dims(text: str) -> list[str]:
    """The extents in a type: `N` and `ceil_div(N, 2)` of `[f32; N, ceil_div(N, 2)]`."""
    if ";" not in text:
        return []
    parts, depth = [""], 0
    for letter in text.strip()[1:-1].split(";", 1)[1]:
        depth += (letter in "([") - (letter in ")]")
        if letter == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return [part.strip() for part in parts]


def _extent(text: str, known: dict[str, Any], callee: Callable) -> Any:
    """The value of an extent: a number, a name, or sums, products and quotients of these."""

    def value(node: Any) -> Any:
        match node:
            case ast.Constant(int()):
                return node.value
            case ast.Name() if node.id in known:
                return known[node.id]
            case ast.BinOp(op=ast.Add()):
                return value(node.left) + value(node.right)
            case ast.BinOp(op=ast.Sub()):
                return value(node.left) - value(node.right)
            case ast.BinOp(op=ast.Mult()):
                return value(node.left) * value(node.right)
            case ast.BinOp(op=ast.Div()):
                return value(node.left) // value(node.right)
            case ast.Call(func=ast.Name("ceil_div")):
                return -(-value(node.args[0]) // value(node.args[1]))
        raise TypeError(f"the shape of what `{callee.__name__}` gives is not known before it runs: `{text}`")

    return value(ast.parse(text, mode="eval").body)
