"""Signatures of callables, for `help` and `inspect.signature`."""

from __future__ import annotations

import ast
import inspect
import keyword
from typing import Any

#: The keyword options of calls, with their defaults. A parameter hides an option of the same name.
_OPTIONS = {
    "out": None,
    "device": None,
    "check": False,
    "trap_nan": False,
    "deterministic": False,
    "grid": None,
    "block": None,
}
#: Options that only kernels have.
_KERNEL_OPTIONS = {"out", "grid", "block"}


def signature_of(callee: Any) -> inspect.Signature:
    """The signature of a kernel or function: inputs in order, then keyword-only parameters."""
    inputs: list[inspect.Parameter] = []
    keyword_only: list[inspect.Parameter] = []

    def add(parameters: list[inspect.Parameter], name: str, annotation: Any, default: Any, kind: Any) -> None:
        if name.isidentifier() and not keyword.iskeyword(name):
            parameters.append(inspect.Parameter(name, kind, default=default, annotation=annotation))

    for name, access, text, _, default_text in callee.parameters:
        if access == "out":
            add(keyword_only, name, f"out {text}", None, inspect.Parameter.KEYWORD_ONLY)
        else:
            annotation = text if access == "in" else f"inout {text}"
            # In Python, a parameter without a default after one with a default must be keyword-only.
            is_keyword_only = inputs and inputs[-1].default is not inspect.Parameter.empty and default_text is None
            kind = inspect.Parameter.KEYWORD_ONLY if is_keyword_only else inspect.Parameter.POSITIONAL_OR_KEYWORD
            default = inspect.Parameter.empty if default_text is None else _parse_default(default_text)
            add(keyword_only if is_keyword_only else inputs, name, annotation, default, kind)
    names = {parameter.name for parameter in inputs + keyword_only}
    for name in callee.dimensions:
        add(keyword_only, name, "dimension", None, inspect.Parameter.KEYWORD_ONLY)
    for name, kind in callee.generics:
        add(keyword_only, name, kind, None, inspect.Parameter.KEYWORD_ONLY)
    for name, default in _OPTIONS.items():
        if name not in names and (callee.is_kernel or name not in _KERNEL_OPTIONS):
            add(keyword_only, name, inspect.Parameter.empty, default, inspect.Parameter.KEYWORD_ONLY)
    result = callee.result if not callee.is_kernel else _kernel_result(callee)
    return inspect.Signature(inputs + keyword_only, return_annotation=result)


class _DefaultText:
    """A default value without an equivalent in Python. Its `repr` is the source text in Clk."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        return self.text


def _parse_default(text: str) -> Any:
    """Converts the source text of a default: numbers, strings and booleans to Python, others to a `_DefaultText`."""
    try:
        return {"true": True, "false": False}[text] if text in ("true", "false") else ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return _DefaultText(text)


def _kernel_result(callee: Any) -> str | None:
    """The types of the `out` parameters of a kernel, which a call returns."""
    texts = [text for _, access, text, _, _ in callee.parameters if access == "out"]
    return {0: None, 1: texts[0] if texts else None}.get(len(texts), f"({', '.join(texts)})")
