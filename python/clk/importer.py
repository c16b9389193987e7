"""`import saxpy` for `saxpy.clk`: after `import clk.importer`, programs on the module path are modules of Python.

With stubs beside them (`clk stubs saxpy.clk > saxpy.pyi`), editors and type checkers know their kernels.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import os
import sys
from typing import Any, Sequence

from . import Module, _Program


class Finder(importlib.abc.MetaPathFinder):
    """Finds `NAME.clk` in the folders where Python looks for modules; those of Python come first."""

    def find_spec(self, fullname: str, path: Sequence[str] | None, target: Any = None) -> Any:
        name = fullname.rpartition(".")[2]
        for folder in sys.path if path is None else path:
            file = os.path.join(folder or ".", f"{name}.clk")
            if os.path.isfile(file):
                return importlib.util.spec_from_file_location(fullname, file, loader=Loader(file))
        return None


class Loader(importlib.abc.Loader):
    """Compiles a program when it is imported, and again when it is reloaded. Its statements do not run."""

    def __init__(self, file: str) -> None:
        self.file = file

    def create_module(self, spec: Any) -> Module:
        return Module(spec.name)

    def exec_module(self, module: Any) -> None:
        # If compiling fails, the module keeps its old program.
        module._assign(_Program.load(self.file))


if not any(isinstance(finder, Finder) for finder in sys.meta_path):
    sys.meta_path.append(Finder())
