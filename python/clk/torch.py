"""Kernels and functions of Clk in torch: functions that autograd can differentiate, and operators that `torch.compile` supports.

For a kernel or function, this module generates a function in Clk that calls it. Each derivative is a further generated function, whose
body is the `vjp` or `jvp` of the previous one. So Clk computes derivatives of any order, or rejects them.
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
    """A generated function that takes tensors. Its derivatives are also generated functions, compiled when first needed."""

    def __init__(
        self,
        program: _Program,
        name: str,
        inputs: list[Input],
        results: list[Type],
        body: str,
        device: str | None,
    ) -> None:
        inputs = [replace(input, type=input.type.with_extents(input.name)) for input in inputs]
        params = ", ".join(f"{input.name}: {input.type.text}" for input in inputs)
        result = tuple_text(type.as_result for type in results)
        self.program = program.extended(f"\nfn {name}({params}) -> {result} {{ {body} }}\n")
        [function] = [callee for callee in Callable.all(self.program) if callee.__name__ == name]
        self.run = function.using(device=device)
        self.name, self.inputs, self.results, self.device = name, inputs, results, device
        #: The indices of the inputs that have a float type.
        self.floats = [i for i, input in enumerate(inputs) if input.type.is_float]
        self._vjps: dict[tuple[int, ...], _Function] = {}
        self._jvp: _Function | None = None
        self._autograd_function: Any = None

    @staticmethod
    def calling(module: Module, callee: Callable, inputs: list[Input], generics: dict[str, str], device: str | None) -> _Function:
        """Generates the function that calls a kernel or function with these inputs and compile-time arguments (`generics`)."""
        types = {name: generics[name] for name, kind in callee.generics if kind == "type" and name in generics}
        inputs = [replace(input, type=input.type.with_types(types)) for input in inputs]
        results = [type.with_types(types) for type in results_of(callee)]
        # A dimension becomes a parameter of the generated function. Its name must differ from the extents in types, so
        # it is changed.
        names = {input.name: f"{input.name}_" if input.name in callee.dimensions else input.name for input in inputs}
        arguments = [f"{input.name} = {names[input.name]}" for input in inputs]
        arguments += [f"{name} = {text}" for name, text in generics.items()]
        inputs = [replace(input, name=names[input.name]) for input in inputs]
        body = f"{callee.__name__}({', '.join(arguments)})"
        return _Function(module._program, f"{callee.__name__}_forward_", inputs, results, body, device)

    def vjp(self, wrt: list[int]) -> _Function:
        """Generates the VJP: takes the inputs and a cotangent for each result, and returns the gradients of the inputs `wrt`."""
        key = tuple(wrt)
        if key not in self._vjps:
            if not wrt:
                raise TypeError(f"`{self.name}` has no input of a float type, so it has no gradient")
            if not all(type.is_float for type in self.results):
                raise TypeError(f"`{self.name}` has a result that is not of a float type, so it has no gradient")
            names = fresh_names("cotangent", len(self.results), self.inputs)
            cotangents = [Input(name, Type(type.as_result), True) for name, type in zip(names, self.results)]
            arguments = ", ".join(input.name for input in self.inputs)
            variables = tuple_text(self.inputs[i].name for i in wrt)
            body = f"vjp({self.name}, wrt = {variables})({arguments}, cotangent = {tuple_text(names)}).1"
            results = [self.inputs[i].type for i in wrt]
            self._vjps[key] = _Function(self.program, f"{self.name}vjp_", self.inputs + cotangents, results, body, self.device)
        return self._vjps[key]

    def jvp(self) -> _Function:
        """Generates the JVP: takes the inputs and a tangent for each float input, and returns the tangents of the results."""
        if self._jvp is None:
            names = fresh_names("tangent", len(self.floats), self.inputs)
            tangents = [Input(name, self.inputs[i].type, True) for name, i in zip(names, self.floats)]
            arguments = ", ".join(input.name for input in self.inputs)
            variables = tuple_text(self.inputs[i].name for i in self.floats)
            body = f"jvp({self.name}, wrt = {variables})({arguments}, tangent = {tuple_text(names)}).1"
            self._jvp = _Function(self.program, f"{self.name}jvp_", self.inputs + tangents, self.results, body, self.device)
        return self._jvp

    def compute(self, values: tuple[Any, ...]) -> tuple[Any, ...]:
        """Runs the function. Returns tensors that do not require gradients."""
        arguments = [
            (value.detach() if input.type.is_array else value.item()) if isinstance(value, torch.Tensor) else value
            for value, input in zip(values, self.inputs)
        ]
        result = self.run(*arguments)
        device = next((value.device for value in values if isinstance(value, torch.Tensor) and value.ndim), None)
        parts = result if len(self.results) > 1 else (result,)
        return tuple(_to_tensor(part, type, device) for part, type in zip(parts, self.results))

    def apply(self, *values: Any) -> Any:
        """Calls the function as a node of autograd's graph."""
        if self._autograd_function is None:
            self._autograd_function = _make_autograd_function(self)
        return self._autograd_function.apply(*values)


def _to_tensor(value: Any, type: Type, device: Any) -> torch.Tensor:
    """Converts a result to a tensor. `device` is the device of the tensor if the result is a number."""
    if isinstance(value, torch.Tensor):
        return value
    if type.is_array:
        # If no argument is a tensor, the result is an array of NumPy or Clk.
        return torch.from_dlpack(value)
    return torch.tensor(value, dtype=_DTYPES[type.scalar], device=device)


def _saved_arguments(ctx: Any) -> list[Any]:
    """Returns the arguments that `_save_arguments` has saved, in their original order."""
    tensors = iter(ctx.saved_tensors)
    return [next(tensors) if is_tensor else value for is_tensor, value in ctx.arguments]


def _save_arguments(ctx: Any, values: tuple[Any, ...]) -> list[torch.Tensor]:
    """Saves arguments for a derivative. Torch later rejects them if they were overwritten. Returns the tensors among them."""
    tensors = [value for value in values if isinstance(value, torch.Tensor)]
    ctx.save_for_backward(*tensors)
    ctx.arguments = [(True, None) if isinstance(value, torch.Tensor) else (False, value) for value in values]
    return tensors


def _make_autograd_function(function: _Function) -> Any:
    """The `autograd.Function` of a function. Its gradients come from other `autograd.Function`s, so that they have derivatives as well."""

    def unwrap_single(results: tuple[Any, ...]) -> Any:
        return results[0] if len(function.results) == 1 else results

    class Call(torch.autograd.Function):
        @staticmethod
        def forward(*values: Any) -> Any:
            return unwrap_single(function.compute(values))

        @staticmethod
        def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
            ctx.save_for_forward(*_save_arguments(ctx, inputs))
            outputs = output if isinstance(output, tuple) else (output,)
            ctx.mark_non_differentiable(*(out for out in outputs if not out.is_floating_point()))

        @staticmethod
        def backward(ctx: Any, *cotangents: Any) -> Any:
            values = _saved_arguments(ctx)
            computed = function.vjp(function.floats).apply(*values, *cotangents)
            gradients: list[Any] = [None] * len(values)
            for i, gradient in zip(function.floats, computed if isinstance(computed, tuple) else (computed,)):
                value = values[i]
                if isinstance(value, torch.Tensor):
                    gradients[i] = gradient.to(device=value.device, dtype=value.dtype)
            return tuple(gradients)

        @staticmethod
        def jvp(ctx: Any, *tangents: Any) -> Any:
            values = _saved_arguments(ctx)

            def tangent(i: int) -> Any:
                if tangents[i] is not None:
                    return tangents[i]
                return torch.zeros_like(values[i]) if isinstance(values[i], torch.Tensor) else 0.0

            return function.jvp().apply(*values, *(tangent(i) for i in function.floats))

        @staticmethod
        def vmap(info: Any, in_dims: tuple[Any, ...], *values: Any) -> Any:
            def row(index: int) -> Any:
                return [value if dim is None else value.select(dim, index) for value, dim in zip(values, in_dims)]

            rows = [function.apply(*row(index)) for index in range(info.batch_size)]
            if len(function.results) == 1:
                return torch.stack(rows), 0
            return tuple(torch.stack(parts) for parts in zip(*rows)), tuple(0 for _ in function.results)

    Call.__name__ = Call.__qualname__ = function.name
    return Call


def _generic_argument(value: Any) -> str:
    """A compile-time argument as source text of Clk."""
    return str(value).lower() if isinstance(value, bool) else str(getattr(value, "__name__", value))


def function(module: Module, name: str, *, device: str | None = None) -> Any:
    """Makes a kernel or function of a module a function of tensors that autograd can differentiate.

    >>> f = clk.torch.function(module, "saxpy")
    >>> f(2.0, x, y).sum().backward()

    Numbers may be tensors without axes, which get gradients as well. Pass arguments by position or name; those with a default are optional.
    Pass compile-time arguments by name, and also dimensions that no array determines.
    """
    callee = getattr(module, name)
    inputs, results = inputs_of(callee), results_of(callee)
    optional = {param for param, _, _, _, is_optional in callee.parameters if is_optional}
    kinds = dict(callee.generics)
    #: Cache of the generated functions. The key has the names of the passed inputs and the compile-time arguments.
    functions: dict[Any, _Function] = {}

    def bind(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[_Function, list[Any]]:
        positional = [input for input in inputs if input.name not in callee.dimensions]
        if len(args) > len(positional):
            raise TypeError(f"`{name}` takes {len(positional)} arguments, but {len(args)} were given")
        values = {input.name: value for input, value in zip(positional, args)}
        generics: dict[str, str] = {}
        for keyword, value in kwargs.items():
            if keyword in values:
                raise TypeError(f"`{keyword}` of `{name}` is given twice")
            if keyword in kinds:
                generics[keyword] = _generic_argument(value)
            elif any(input.name == keyword for input in inputs):
                values[keyword] = value
            else:
                raise TypeError(f"`{name}` has no parameter `{keyword}`")
        for input in inputs:
            if input.name not in values and input.name not in optional:
                raise TypeError(f"`{input.name}` of `{name}` is missing")
            # If the element type of an input is a type parameter, the tensor determines it.
            if input.name in values and kinds.get(input.type.element) == "type" and isinstance(values[input.name], torch.Tensor):
                generics.setdefault(input.type.element, _NAMES.get(values[input.name].dtype, input.type.element))
        passed_inputs = [input for input in inputs if input.name in values]
        key = (tuple(input.name for input in passed_inputs), tuple(sorted(generics.items())))
        if key not in functions:
            functions[key] = _Function.calling(module, callee, passed_inputs, generics, device)
        return functions[key], [values[input.name] for input in passed_inputs]

    def call(*args: Any, **kwargs: Any) -> Any:
        function, values = bind(args, kwargs)
        return function.apply(*values)

    if not kinds:
        # Compile the gradient now, so that an unsupported gradient is an error in this function.
        key = (tuple(input.name for input in inputs), ())
        functions[key] = _Function.calling(module, callee, inputs, {}, device)
        functions[key].vjp(functions[key].floats)
    elif not any(type.is_float or kinds.get(type.element) == "type" for type in results):
        raise TypeError(f"`{name}` has no result of a float type, so it has no gradient")
    call.__name__ = call.__qualname__ = name
    call.__doc__ = callee.__doc__
    return call


def operator(module: Module, name: str, qualified: str) -> Any:
    """Registers a kernel or function as the operator `qualified` (`mylib::saxpy`), and returns it.

    `torch.compile` keeps it as a node of the graph, and takes the shapes of results from the signature. If Clk can differentiate it, its
    gradient is another operator. Pass dimensions that no array determines by name. A number is returned as a tensor without axes.
    """
    callee = getattr(module, name)
    if callee.generics:
        raise TypeError(f"`{name}` has compile-time parameters, which an operator of torch cannot have")
    inputs, results = inputs_of(callee), results_of(callee)
    function = _Function.calling(module, callee, inputs, {}, None)

    def shapes(values: tuple[Any, ...]) -> list[list[Any]]:
        return [_result_shape(callee, inputs, type, values) for type in results]

    registered = _register_operator(function, qualified, [input.name for input in inputs], callee.dimensions, shapes)
    try:
        function.vjp([i for i in function.floats if function.inputs[i].is_tensor])
    except (Error, TypeError):
        # The operator has no derivative. Autograd reports an error if a program needs it.
        return registered
    # Register the gradient now, since torch does not permit new operators while it traces a backward pass.
    _register_gradient(function, registered, qualified)()
    return registered


def _register_operator(function: _Function, qualified: str, names: list[str], dimensions: Any, shapes: Any) -> Any:
    """Registers an operator. `shapes` is a function that computes the shapes of the results from the arguments."""
    positional = [f"{_schema_type(input)} {name}" for name, input in zip(names, function.inputs) if name not in dimensions]
    keyword_only = [f"SymInt {name}" for name in names if name in dimensions]
    parameters = positional + (["*"] if keyword_only else []) + keyword_only
    schema = f"({', '.join(parameters)}) -> {tuple_text('Tensor' for _ in function.results)}"

    def unwrap_single(results: Any) -> Any:
        results = tuple(results)
        return results[0] if len(function.results) == 1 else results

    def compute(*values: Any, **kwargs: Any) -> Any:
        return unwrap_single(function.compute((*values, *(kwargs[name] for name in names if name in kwargs))))

    registered = torch.library.custom_op(qualified, compute, mutates_args=(), schema=schema)

    @registered.register_fake
    def _(*values: Any, **kwargs: Any) -> Any:
        values = (*values, *(kwargs[name] for name in names if name in kwargs))
        device = next((value.device for value in values if isinstance(value, torch.Tensor) and value.ndim), None)
        results = zip(shapes(values), function.results)
        return unwrap_single(torch.empty(shape, dtype=_DTYPES[type.scalar], device=device) for shape, type in results)

    return registered


def _register_gradient(function: _Function, registered: Any, qualified: str) -> Any:
    """Registers the gradient of an operator. Returns a function that returns the operator of the gradient, registered at its first call,
    since most gradients are never differentiated again."""
    wrt = [i for i in function.floats if function.inputs[i].is_tensor]
    operators: list[Any] = []

    def gradient_operator() -> Any:
        if not operators:
            vjp, vjp_name = function.vjp(wrt), f"{qualified}_vjp"
            names = [input.name for input in vjp.inputs]
            operators.append(_register_operator(vjp, vjp_name, names, (), lambda values: [values[i].shape for i in wrt]))
            _register_gradient(vjp, operators[0], vjp_name)
        return operators[0]

    def gradients(ctx: Any, *cotangents: Any) -> Any:
        computed = gradient_operator()(*_saved_arguments(ctx), *cotangents)
        result: list[Any] = [None] * ctx.positional_count
        for i, gradient in zip(wrt, computed if isinstance(computed, tuple) else (computed,)):
            result[i] = gradient
        return tuple(result)

    def setup(ctx: Any, inputs: Any, output: Any, keyword_only_inputs: Any = None) -> None:
        _save_arguments(ctx, (*inputs, *(keyword_only_inputs or {}).values()))
        ctx.positional_count = len(inputs)

    registered.register_autograd(gradients, setup_context=setup)
    return gradient_operator


def _schema_type(input: Input) -> str:
    """The type of an input, as torch spells it in operator schemas."""
    if input.is_tensor:
        return "Tensor"
    if input.type.is_float and input.type.lanes == 1:
        return "float"
    if input.type.text == "bool":
        return "bool"
    if re.fullmatch(r"[iu]\d+", input.type.text):
        return "SymInt"
    raise TypeError(f"operators of torch cannot have parameters of type `{input.type.text}`")


def _result_shape(callee: Callable, inputs: list[Input], result: Type, values: tuple[Any, ...]) -> list[Any]:
    """Computes the shape of a result from the arguments."""
    variables: dict[str, Any] = {}
    for input, value in zip(inputs, values):
        for extent, dim in zip(value.shape if input.type.is_array else (), input.type.dims):
            if dim.isidentifier():
                variables.setdefault(dim, extent)
    for input, value in zip(inputs, values):
        if not input.type.is_array:
            variables.setdefault(input.name, value)
    return [_evaluate_extent(dim, variables, callee) for dim in result.dims] + ([result.lanes] if result.lanes > 1 else [])


def _evaluate_extent(text: str, variables: dict[str, Any], callee: Callable) -> Any:
    """Evaluates an extent: numbers and variables with `+`, `-`, `*`, `/` and `ceil_div`."""

    def value(node: Any) -> Any:
        match node:
            case ast.Constant(int()):
                return node.value
            case ast.Name() if node.id in variables:
                return variables[node.id]
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
        raise TypeError(f"the shape of the result of `{callee.__name__}` is not known before it runs: `{text}`")

    return value(ast.parse(text, mode="eval").body)
