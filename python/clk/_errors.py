"""Exceptions and warnings: diagnostics of Clk with their codes and source locations.

The code of a diagnostic selects the class, which is a subclass of `Error` and of the corresponding built-in exception.
"""

from __future__ import annotations

import errno
import os
import re
import sys
import traceback
import warnings
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Span:
    """A source range. Lines and columns count from 1; `start` and `end` are byte offsets in the source."""

    file: str
    line: int
    column: int
    end_line: int
    end_column: int
    start: int
    end: int
    text: str


@dataclass(frozen=True)
class Diagnostic:
    """A message of the compiler or of a run. The first span is its primary location."""

    code: str
    severity: str
    title: str
    notes: tuple[str, ...]
    help: tuple[str, ...]
    spans: tuple[Span, ...]
    #: The whole message as the terminal shows it: `rendered` without and `colored` with colors.
    rendered: str
    colored: str


class Error(Exception):
    """An error in a program, in the arguments of a call, or in a run.

    `code` is for `clk explain`; `spans` are source locations; `rendered` is the whole message, like `str`. If there are several errors,
    `diagnostics` has all of them, and the other attributes describe the first one.
    """

    diagnostics: tuple[Diagnostic, ...]

    def __init__(self, diagnostics: Any) -> None:
        self.diagnostics = tuple(diagnostics)
        super().__init__("\n".join(diagnostic.rendered for diagnostic in self.diagnostics).rstrip())

    def _first(self, name: str, default: Any) -> Any:
        """The attribute `name` of the first diagnostic, or `default` if there is none."""
        return getattr(self.diagnostics[0], name) if self.diagnostics else default

    @property
    def code(self) -> str:
        return self._first("code", "")

    @property
    def title(self) -> str:
        return self._first("title", "")

    @property
    def notes(self) -> tuple[str, ...]:
        return self._first("notes", ())

    @property
    def help(self) -> tuple[str, ...]:
        return self._first("help", ())

    @property
    def spans(self) -> tuple[Span, ...]:
        return self._first("spans", ())

    @property
    def rendered(self) -> str:
        return "\n".join(diagnostic.rendered for diagnostic in self.diagnostics)

    @property
    def colored(self) -> str:
        return "\n".join(diagnostic.colored for diagnostic in self.diagnostics)

    def __reduce__(self) -> Any:
        return type(self), (self.diagnostics,)

    def _render_traceback_(self) -> list[str]:
        # IPython shows this text instead of the traceback. It has the frames of the caller, and the message in color.
        frames = [frame for frame in traceback.extract_tb(self.__traceback__) if not _is_internal_file(frame.filename)]
        lines = "".join(traceback.format_list(frames)).rstrip().split("\n") if frames else []
        return lines + self.colored.rstrip().split("\n")


class CompileError(Error, ValueError):
    """An invalid program."""


class ArgumentError(Error, ValueError):
    """Invalid arguments: a wrong shape, a missing argument, memory that cannot be used."""


class ArgumentTypeError(ArgumentError, TypeError):
    """An argument of a type that the parameter does not accept."""


class Fault(Error, RuntimeError):
    """A failed kernel or function: an index out of bounds, a data race found by a check, a failed assertion."""


class DeviceError(Error, RuntimeError):
    """A device that cannot be used."""


class OutOfMemory(Error, MemoryError):
    """Not enough memory."""


class FileError(Error, OSError):
    """A file that cannot be read or written. `errno` and `filename` are set if they are known. For a missing file, the exception is also a
    `FileNotFoundError`; for missing permissions, it is also a `PermissionError`."""

    def __init__(self, diagnostics: Any) -> None:
        super().__init__(diagnostics)
        match = re.search(r"`([^`]*)`", self.title)
        self.filename = match[1] if match else None
        self.errno = next((code for text, code in _ERRNO_BY_TITLE_END.items() if self.title.endswith(text)), None)

    def __str__(self) -> str:
        return "\n".join(diagnostic.rendered for diagnostic in self.diagnostics).rstrip()


class _FileNotFound(FileError, FileNotFoundError):
    def __reduce__(self) -> Any:
        return _file_error, (self.diagnostics,)


class _PermissionDenied(FileError, PermissionError):
    def __reduce__(self) -> Any:
        return _file_error, (self.diagnostics,)


#: Maps the end of a file error's title to its `errno`.
_ERRNO_BY_TITLE_END = {
    "there is no such file": errno.ENOENT,
    "it is a folder": errno.EISDIR,
    "permission denied": errno.EACCES,
}


def _file_error(diagnostics: Any) -> FileError:
    """Makes the exception for a file error, with the class that corresponds to its `errno`."""
    general = FileError(diagnostics)
    classes: dict[int | None, type[FileError]] = {errno.ENOENT: _FileNotFound, errno.EACCES: _PermissionDenied}
    special = classes.get(general.errno)
    return general if special is None else special(diagnostics)


class Warning(UserWarning):
    """A warning of the compiler; `diagnostic` has its code and source locations."""

    diagnostic: Diagnostic

    def __init__(self, diagnostic: Diagnostic) -> None:
        self.diagnostic = diagnostic
        super().__init__(diagnostic.rendered.rstrip())


#: The exception classes of some codes. `_class_of` selects the class for other codes by their prefix.
_CLASSES: dict[str, type[Error]] = {
    "E0509": OutOfMemory,
    "E0510": ArgumentError,
    "E0511": ArgumentError,
    "E0512": ArgumentTypeError,
    "E0519": ArgumentError,
    "E0520": ArgumentError,
    "E0521": ArgumentError,
    "E0522": ArgumentError,
    "E0523": ArgumentError,
    "E0525": ArgumentError,
    "E0595": DeviceError,
    "E0701": FileError,
    "E0702": FileError,
    "E0804": ArgumentTypeError,
    "E0809": ArgumentTypeError,
}


def _class_of(code: str) -> type[Error]:
    """The exception class for a code."""
    if code in _CLASSES:
        return _CLASSES[code]
    if code.startswith("E08"):
        return ArgumentError
    if code.startswith(("E05", "E06", "E07", "E09")):
        return Fault
    return CompileError


def diagnostic(report: dict[str, Any]) -> Diagnostic:
    """Converts a report from the extension module, which is a dictionary, to a `Diagnostic`."""
    spans = tuple(Span(*span) for span in report["spans"])
    return Diagnostic(
        report["code"],
        report["severity"],
        report["title"],
        tuple(report["notes"]),
        tuple(report["help"]),
        spans,
        report["rendered"],
        report["colored"],
    )


def error(reports: list[dict[str, Any]]) -> Error:
    """Makes the exception for errors. The first error determines its class."""
    return from_diagnostics([diagnostic(report) for report in reports])


def from_diagnostics(diagnostics: list[Diagnostic]) -> Error:
    """Makes the exception for diagnostics. The first error determines its class."""
    errors = [diagnostic for diagnostic in diagnostics if diagnostic.severity == "error"] or diagnostics
    error_class = _class_of(errors[0].code if errors else "")
    # A call from Python is compiled as a statement in the file `<launch>`. A compile error in it is caused by its
    # arguments.
    is_in_call = errors and errors[0].spans and errors[0].spans[0].file == "<launch>"
    if error_class is FileError:
        return _file_error(errors)
    return (ArgumentError if error_class is CompileError and is_in_call else error_class)(errors)


#: The folder of this package.
_PACKAGE = os.path.dirname(os.path.abspath(__file__)) + os.sep


def _is_internal_file(file: str) -> bool:
    """Whether a file belongs to this package, the import system or IPython. Tracebacks omit frames of such files."""
    path = file.replace("\\", "/")
    return file.startswith((_PACKAGE, "<frozen importlib")) or "/IPython/core/" in path or "/importlib/" in path


def warn(reports: list[dict[str, Any]]) -> None:
    """Issues warnings. Their location is the line that called a function of this package."""
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and _is_internal_file(frame.f_code.co_filename):
        frame = frame.f_back
        # `warnings.warn` does not count frames of the import system.
        level += not frame.f_code.co_filename.startswith("<frozen importlib")
    for report in reports:
        warnings.warn(Warning(diagnostic(report)), stacklevel=level)


# Tracebacks and pickles then contain the public names of these classes.
for _public in (Span, Diagnostic, Error, CompileError, ArgumentError, ArgumentTypeError, Fault, DeviceError, OutOfMemory, FileError, Warning):
    _public.__module__ = "clk"
for _internal in (_FileNotFound, _PermissionDenied):
    _internal.__name__, _internal.__qualname__ = "FileError", "FileError"
    _internal.__module__ = "clk"
