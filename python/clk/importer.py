"""Import hook: after `import clk.importer`, `import saxpy` imports `saxpy.clk` from the module path.

With a stub file in the same folder (`clk stubs saxpy.clk > saxpy.pyi`), editors and type checkers find the signatures of the kernels.
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
    """Finds `NAME.clk` on the module path. Python modules of the same name take precedence."""

    def find_spec(self, fullname: str, path: Sequence[str] | None, target: Any = None) -> Any:
        name = fullname.rpartition(".")[2]
        for folder in sys.path if path is None else path:
            file = os.path.join(folder or ".", f"{name}.clk")
            if os.path.isfile(file):
                return importlib.util.spec_from_file_location(fullname, file, loader=Loader(file))
        return None


class Loader(importlib.abc.Loader):
    """Compiles a program when it is imported or reloaded. Does not run the statements of the script."""

    def __init__(self, file: str) -> None:
        self.file = file

    def create_module(self, spec: Any) -> Module:
        return Module(spec.name)

    def exec_module(self, module: Any) -> None:
        # If the compilation on a reload fails, the module keeps its old program.
        module._assign(_Program.load(self.file))


if not any(isinstance(finder, Finder) for finder in sys.meta_path):
    sys.meta_path.append(Finder())
