"""Signatures of callables, for `help` and `inspect.signature`."""

from __future__ import annotations

import ast
import inspect
import keyword
from typing import Any

#: What calls take beside the parameters, unless a parameter has the name.
_OPTIONS = {
    "out": None,
    "device": None,
    "check": False,
    "trap_nan": False,
    "deterministic": False,
    "grid": None,
    "block": None,
}
#: Those of launches alone.
_OF_LAUNCHES = {"out", "grid", "block"}


def of(callee: Any) -> inspect.Signature:
    """The signature of a kernel or function: inputs in order, then everything that is given by name."""
    inputs: list[inspect.Parameter] = []
    named: list[inspect.Parameter] = []

    def add(where: list[inspect.Parameter], name: str, note: Any, default: Any, kind: Any) -> None:
        if name.isidentifier() and not keyword.iskeyword(name):
            where.append(inspect.Parameter(name, kind, default=default, annotation=note))

    for name, access, text, _, written in callee.parameters:
        if access == "out":
            add(named, name, f"out {text}", None, inspect.Parameter.KEYWORD_ONLY)
        else:
            note = text if access == "in" else f"inout {text}"
            # A parameter without a default may follow one with a default only by name.
            later = inputs and inputs[-1].default is not inspect.Parameter.empty and written is None
            kind = inspect.Parameter.KEYWORD_ONLY if later else inspect.Parameter.POSITIONAL_OR_KEYWORD
            default = inspect.Parameter.empty if written is None else _default(written)
            add(named if later else inputs, name, note, default, kind)
    taken = {parameter.name for parameter in inputs + named}
    for name in callee.dimensions:
        add(named, name, "dimension", None, inspect.Parameter.KEYWORD_ONLY)
    for name, kind in callee.generics:
        add(named, name, kind, None, inspect.Parameter.KEYWORD_ONLY)
    for name, usual in _OPTIONS.items():
        if name not in taken and (callee.is_kernel or name not in _OF_LAUNCHES):
            add(named, name, inspect.Parameter.empty, usual, inspect.Parameter.KEYWORD_ONLY)
    result = callee.result if not callee.is_kernel else _results(callee)
    return inspect.Signature(inputs + named, return_annotation=result)


class _Written:
    """A default that Python has no value for: it is shown as it is written in Clk."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        return self.text


def _default(text: str) -> Any:
    """The value of a default, where it is a number, a string or a truth value."""
    try:
        return {"true": True, "false": False}[text] if text in ("true", "false") else ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return _Written(text)


def _results(callee: Any) -> str | None:
    texts = [text for _, access, text, _, _ in callee.parameters if access == "out"]
    return {0: None, 1: texts[0] if texts else None}.get(len(texts), f"({', '.join(texts)})")
