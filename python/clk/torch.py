"""Kernels and functions of Clk in torch: calls that autograd sees through, and operators that `torch.compile` knows.

Both are made from a kernel or a function. A call is compiled as a function of its own, and each derivative as one more function, whose
body is the `vjp` or `jvp` of the one before. So a derivative of any order is Clk's own, or is refused.
"""

from __future__ import annotations

import ast
import re
from dataclasses import replace
from typing import Any

import torch

from . import Callable, Module, _Program
from ._errors import Error
from ._types import Input, Type, fresh_names, inputs_of, results_of, tuple_text

_DTYPES = {
    "bool": torch.bool,
    "i8": torch.int8,
    "i16": torch.int16,
    "i32": torch.int32,
    "i64": torch.int64,
    "u8": torch.uint8,
    "u16": torch.uint16,
    "u32": torch.uint32,
    "u64": torch.uint64,
    "f16": torch.float16,
    "bf16": torch.bfloat16,
    "f32": torch.float32,
    "f64": torch.float64,
}
_NAMES = {dtype: name for name, dtype in _DTYPES.items()}


class _Function:
    """A function of tensors, compiled by Clk. Its derivatives are functions of this kind, compiled when they are first needed."""

    def __init__(
        self,
        program: _Program,
        name: str,
        inputs: list[Input],
        results: list[Type],
        body: str,
        device: str | None,
    ) -> None:
        inputs = [replace(one, type=one.type.with_extents(one.name)) for one in inputs]
        params = ", ".join(f"{one.name}: {one.type.text}" for one in inputs)
        self.program = program.extended(f"\nfn {name}({params}) -> {tuple_text(one.as_result for one in results)} {{ {body} }}\n")
        [found] = [own for own in Callable.all(self.program) if own.__name__ == name]
        self.run = found.using(device=device)
        self.name, self.inputs, self.results, self.device = name, inputs, results, device
        self.floats = [at for at, one in enumerate(inputs) if one.type.is_float]
        self._vjps: dict[tuple[int, ...], _Function] = {}
        self._jvp: _Function | None = None
        self._call: Any = None

    @staticmethod
    def of(module: Module, callee: Callable, given: list[Input], fixed: dict[str, str], device: str | None) -> _Function:
        """The function that calls a kernel or function with these inputs, and with `fixed` compile-time arguments."""
        types = {name: fixed[name] for name, kind in callee.generics if kind == "type" and name in fixed}
        inputs = [replace(one, type=one.type.with_types(types)) for one in given]
        results = [one.with_types(types) for one in results_of(callee)]
        # A dimension is a parameter here, so it needs a name that no type has.
        names = {one.name: f"{one.name}_" if one.name in callee.dimensions else one.name for one in inputs}
        words = [f"{one.name} = {names[one.name]}" for one in inputs] + [f"{name} = {text}" for name, text in fixed.items()]
        inputs = [replace(one, name=names[one.name]) for one in inputs]
        body = f"{callee.__name__}({', '.join(words)})"
        return _Function(module._program, f"{callee.__name__}_forward_", inputs, results, body, device)

    def vjp(self, wrt: list[int]) -> _Function:
        """The function that gives the gradients by these inputs: of the inputs, and a cotangent for each result."""
        key = tuple(wrt)
        if key not in self._vjps:
            if not wrt:
                raise TypeError(f"`{self.name}` has no input of a float type, so it has no gradient")
            if not all(one.is_float for one in self.results):
                raise TypeError(f"`{self.name}` has a result that is not of a float type, so it has no gradient")
            names = fresh_names("cotangent", len(self.results), self.inputs)
            more = [Input(name, Type(one.as_result), True) for name, one in zip(names, self.results)]
            given = ", ".join(one.name for one in self.inputs)
            by = tuple_text(self.inputs[at].name for at in wrt)
            body = f"vjp({self.name}, wrt = {by})({given}, cotangent = {tuple_text(names)}).1"
            results = [self.inputs[at].type for at in wrt]
            self._vjps[key] = _Function(self.program, f"{self.name}vjp_", self.inputs + more, results, body, self.device)
        return self._vjps[key]

    def jvp(self) -> _Function:
        """The function that gives the tangents of the results: of the inputs, and a tangent for each input of a float type."""
        if self._jvp is None:
            names = fresh_names("tangent", len(self.floats), self.inputs)
            more = [Input(name, self.inputs[at].type, True) for name, at in zip(names, self.floats)]
            given = ", ".join(one.name for one in self.inputs)
            by = tuple_text(self.inputs[at].name for at in self.floats)
            body = f"jvp({self.name}, wrt = {by})({given}, tangent = {tuple_text(names)}).1"
            self._jvp = _Function(self.program, f"{self.name}jvp_", self.inputs + more, self.results, body, self.device)
        return self._jvp

    def compute(self, values: tuple[Any, ...]) -> tuple[Any, ...]:
        """Runs the function; returns tensors that need no gradient."""
        plain = [
            (value.detach() if one.type.is_array else value.item()) if isinstance(value, torch.Tensor) else value
            for value, one in zip(values, self.inputs)
        ]
        found = self.run(*plain)
        device = next((value.device for value in values if isinstance(value, torch.Tensor) and value.ndim), None)
        parts = found if len(self.results) > 1 else (found,)
        return tuple(_tensor(part, one, device) for part, one in zip(parts, self.results))

    def apply(self, *values: Any) -> Any:
        """Calls the function as a node of autograd's graph."""
        if self._call is None:
            self._call = _call_of(self)
        return self._call.apply(*values)


def _tensor(value: Any, of: Type, device: Any) -> torch.Tensor:
    """A result as a tensor: a number is where the arrays are."""
    if isinstance(value, torch.Tensor):
        return value
    if of.is_array:
        # Without a tensor among the arguments it is an array of NumPy, or of Clk.
        return torch.from_dlpack(value)
    return torch.tensor(value, dtype=_DTYPES[of.scalar], device=device)


def _saved(ctx: Any) -> list[Any]:
    """The arguments that `_save` has kept, in order."""
    tensors = iter(ctx.saved_tensors)
    return [next(tensors) if is_tensor else value for is_tensor, value in ctx.others]


def _save(ctx: Any, values: tuple[Any, ...]) -> list[torch.Tensor]:
    """Keeps arguments for a derivative. Torch refuses to use tensors that were overwritten since."""
    tensors = [value for value in values if isinstance(value, torch.Tensor)]
    ctx.save_for_backward(*tensors)
    ctx.others = [(True, None) if isinstance(value, torch.Tensor) else (False, value) for value in values]
    return tensors


def _call_of(function: _Function) -> Any:
    """The node of autograd's graph for a function. The gradients that it returns are nodes, too, so that they have derivatives."""

    def like(found: tuple[Any, ...]) -> Any:
        return found[0] if len(function.results) == 1 else found

    class Call(torch.autograd.Function):
        @staticmethod
        def forward(*values: Any) -> Any:
            return like(function.compute(values))

        @staticmethod
        def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
            ctx.save_for_forward(*_save(ctx, inputs))
            outputs = output if isinstance(output, tuple) else (output,)
            ctx.mark_non_differentiable(*(out for out in outputs if not out.is_floating_point()))

        @staticmethod
        def backward(ctx: Any, *cotangents: Any) -> Any:
            values = _saved(ctx)
            found = function.vjp(function.floats).apply(*values, *cotangents)
            gradients: list[Any] = [None] * len(values)
            for at, gradient in zip(function.floats, found if isinstance(found, tuple) else (found,)):
                wanted = values[at]
                if isinstance(wanted, torch.Tensor):
                    gradients[at] = gradient.to(device=wanted.device, dtype=wanted.dtype)
            return tuple(gradients)

        @staticmethod
        def jvp(ctx: Any, *tangents: Any) -> Any:
            values = _saved(ctx)

            def tangent(at: int) -> Any:
                if tangents[at] is not None:
                    return tangents[at]
                return torch.zeros_like(values[at]) if isinstance(values[at], torch.Tensor) else 0.0

            return function.jvp().apply(*values, *(tangent(at) for at in function.floats))

        @staticmethod
        def vmap(info: Any, in_dims: tuple[Any, ...], *values: Any) -> Any:
            def row(at: int) -> Any:
                return [value if dim is None else value.select(dim, at) for value, dim in zip(values, in_dims)]

            rows = [function.apply(*row(at)) for at in range(info.batch_size)]
            if len(function.results) == 1:
                return torch.stack(rows), 0
            return tuple(torch.stack(parts) for parts in zip(*rows)), tuple(0 for _ in function.results)

    Call.__name__ = Call.__qualname__ = function.name
    return Call


def _word(value: Any) -> str:
    """A compile-time argument as a word of Clk."""
    return str(value).lower() if isinstance(value, bool) else str(getattr(value, "__name__", value))


def function(module: Module, name: str, *, device: str | None = None) -> Any:
    """A call of a kernel or function of a module, as a function of tensors that autograd sees through.

    >>> f = clk.torch.function(module, "saxpy")
    >>> f(2.0, x, y).sum().backward()

    Numbers may be tensors without axes, which get a gradient, too. Arguments are given by position or name; those with a default may be
    left out. Compile-time arguments, and dimensions that no array has, are given by name.
    """
    callee = getattr(module, name)
    inputs, results = inputs_of(callee), results_of(callee)
    optional = {param for param, _, _, _, is_optional in callee.parameters if is_optional}
    kinds = dict(callee.generics)
    made: dict[Any, _Function] = {}

    def bind(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[_Function, list[Any]]:
        positional = [one for one in inputs if one.name not in callee.dimensions]
        if len(args) > len(positional):
            raise TypeError(f"`{name}` takes {len(positional)} arguments, and {len(args)} are given")
        found = {one.name: value for one, value in zip(positional, args)}
        fixed: dict[str, str] = {}
        for own, value in kwargs.items():
            if own in found:
                raise TypeError(f"`{name}` is given `{own}` twice")
            if own in kinds:
                fixed[own] = _word(value)
            elif any(one.name == own for one in inputs):
                found[own] = value
            else:
                raise TypeError(f"`{name}` has no parameter `{own}`")
        for one in inputs:
            if one.name not in found and one.name not in optional:
                raise TypeError(f"`{name}` is not given `{one.name}`")
            # A type parameter is what tensors have.
            if one.name in found and kinds.get(one.type.element) == "type" and isinstance(found[one.name], torch.Tensor):
                fixed.setdefault(one.type.element, _NAMES.get(found[one.name].dtype, one.type.element))
        given = [one for one in inputs if one.name in found]
        key = (tuple(one.name for one in given), tuple(sorted(fixed.items())))
        if key not in made:
            made[key] = _Function.of(module, callee, given, fixed, device)
        return made[key], [found[one.name] for one in given]

    def call(*args: Any, **kwargs: Any) -> Any:
        function, values = bind(args, kwargs)
        return function.apply(*values)

    if not kinds:
        # Refused at once where a gradient would be wrong.
        key = (tuple(one.name for one in inputs), ())
        made[key] = _Function.of(module, callee, inputs, {}, device)
        made[key].vjp(made[key].floats)
    elif not any(one.is_float or kinds.get(one.element) == "type" for one in results):
        raise TypeError(f"`{name}` has no result of a float type, so it has no gradient")
    call.__name__ = call.__qualname__ = name
    call.__doc__ = callee.__doc__
    return call


def operator(module: Module, name: str, qualified: str) -> Any:
    """Registers a kernel or function as the operator `qualified` (`mylib::saxpy`), and returns it.

    `torch.compile` keeps it as a node of the graph: its shapes come from the signature. Its gradient is Clk's, where there is one, and an
    operator of its own. Dimensions that no array has are given by name. A number comes as a tensor without axes.
    """
    callee = getattr(module, name)
    if callee.generics:
        raise TypeError(f"`{name}` has compile-time parameters, which an operator of torch cannot have")
    inputs, results = inputs_of(callee), results_of(callee)
    function = _Function.of(module, callee, inputs, {}, None)

    def shapes(values: tuple[Any, ...]) -> list[list[Any]]:
        return [_shape(callee, inputs, one, values) for one in results]

    registered = _register(function, qualified, [one.name for one in inputs], callee.dimensions, shapes)
    try:
        function.vjp([at for at in function.floats if function.inputs[at].is_tensor])
    except (Error, TypeError):
        # Without a derivative, autograd says that the operator has none.
        return registered
    # Made now: torch allows no new operator while it traces a backward pass.
    _derive(function, registered, qualified)()
    return registered


def _register(function: _Function, qualified: str, names: list[str], dimensions: Any, shapes: Any) -> Any:
    """Registers an operator. `shapes` gives the shapes of the results for arguments."""
    positional = [f"{_schema_type(one)} {own}" for own, one in zip(names, function.inputs) if own not in dimensions]
    named = [f"SymInt {own}" for own in names if own in dimensions]
    schema = f"({', '.join(positional + (['*'] if named else []) + named)}) -> {tuple_text('Tensor' for _ in function.results)}"

    def like(found: Any) -> Any:
        found = tuple(found)
        return found[0] if len(function.results) == 1 else found

    def compute(*values: Any, **more: Any) -> Any:
        return like(function.compute((*values, *(more[own] for own in names if own in more))))

    registered = torch.library.custom_op(qualified, compute, mutates_args=(), schema=schema)

    @registered.register_fake
    def _(*values: Any, **more: Any) -> Any:
        values = (*values, *(more[own] for own in names if own in more))
        device = next((value.device for value in values if isinstance(value, torch.Tensor) and value.ndim), None)
        made = zip(shapes(values), function.results)
        return like(torch.empty(shape, dtype=_DTYPES[one.scalar], device=device) for shape, one in made)

    return registered


def _derive(function: _Function, registered: Any, qualified: str) -> Any:
    """Registers the gradient of an operator; returns a function that gives the operator of the gradient. Most gradients have no derivative
    that is ever needed, so that operator is made when it is first asked for."""
    wrt = [at for at in function.floats if function.inputs[at].is_tensor]
    made: list[Any] = []

    def backward() -> Any:
        if not made:
            vjp, own = function.vjp(wrt), f"{qualified}_vjp"
            names = [one.name for one in vjp.inputs]
            made.append(_register(vjp, own, names, (), lambda values: [values[at].shape for at in wrt]))
            _derive(vjp, made[0], own)
        return made[0]

    def gradients(ctx: Any, *cotangents: Any) -> Any:
        found = backward()(*_saved(ctx), *cotangents)
        given: list[Any] = [None] * ctx.positional
        for at, gradient in zip(wrt, found if isinstance(found, tuple) else (found,)):
            given[at] = gradient
        return tuple(given)

    def setup(ctx: Any, inputs: Any, output: Any, keyword_only_inputs: Any = None) -> None:
        _save(ctx, (*inputs, *(keyword_only_inputs or {}).values()))
        ctx.positional = len(inputs)

    registered.register_autograd(gradients, setup_context=setup)
    return backward


def _schema_type(of: Input) -> str:
    if of.is_tensor:
        return "Tensor"
    if of.type.is_float and of.type.lanes == 1:
        return "float"
    if of.type.text == "bool":
        return "bool"
    if re.fullmatch(r"[iu]\d+", of.type.text):
        return "SymInt"
    raise TypeError(f"operators of torch take no `{of.type.text}`")


def _shape(callee: Callable, inputs: list[Input], result: Type, values: tuple[Any, ...]) -> list[Any]:
    """The shape of a result, from the arguments."""
    known: dict[str, Any] = {}
    for one, value in zip(inputs, values):
        for extent, dim in zip(value.shape if one.type.is_array else (), one.type.dims):
            if dim.isidentifier():
                known.setdefault(dim, extent)
    for one, value in zip(inputs, values):
        if not one.type.is_array:
            known.setdefault(one.name, value)
    return [_extent(dim, known, callee) for dim in result.dims] + ([result.lanes] if result.lanes > 1 else [])


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
