"""Signatures of callables, for `help` and `inspect.signature`."""

from __future__ import annotations

import inspect
import keyword
from typing import Any

#: What calls take beside the parameters, unless a parameter has the name.
_OPTIONS = {"out": None, "device": None, "check": False, "grid": None, "block": None}


def of(callee: Any) -> inspect.Signature:
    """The signature of a kernel or function: inputs in order, then everything that is given by name."""
    inputs: list[inspect.Parameter] = []
    named: list[inspect.Parameter] = []

    def add(where: list[inspect.Parameter], name: str, note: Any, default: Any, kind: Any) -> None:
        if name.isidentifier() and not keyword.iskeyword(name):
            where.append(inspect.Parameter(name, kind, default=default, annotation=note))

    for name, access, text, _, optional in callee.parameters:
        if access == "out":
            add(named, name, f"out {text}", None, inspect.Parameter.KEYWORD_ONLY)
        else:
            note = text if access == "in" else f"inout {text}"
            # A parameter without a default may follow one with a default only by name.
            later = inputs and inputs[-1].default is not inspect.Parameter.empty and not optional
            kind = inspect.Parameter.KEYWORD_ONLY if later else inspect.Parameter.POSITIONAL_OR_KEYWORD
            default = ... if optional else inspect.Parameter.empty
            add(named if later else inputs, name, note, default, kind)
    taken = {parameter.name for parameter in inputs + named}
    for name in callee.dimensions:
        add(named, name, "dimension", None, inspect.Parameter.KEYWORD_ONLY)
    for name, kind in callee.generics:
        add(named, name, kind, None, inspect.Parameter.KEYWORD_ONLY)
    of_calls = _OPTIONS if callee.is_kernel else {name: _OPTIONS[name] for name in ("device", "check")}
    for name, usual in of_calls.items():
        if name not in taken:
            add(named, name, inspect.Parameter.empty, usual, inspect.Parameter.KEYWORD_ONLY)
    result = callee.result if not callee.is_kernel else _results(callee)
    return inspect.Signature(inputs + named, return_annotation=result)


def _results(callee: Any) -> str | None:
    texts = [text for _, access, text, _, _ in callee.parameters if access == "out"]
    return {0: None, 1: texts[0] if texts else None}.get(len(texts), f"({', '.join(texts)})")
