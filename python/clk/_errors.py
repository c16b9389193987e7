"""Exceptions and warnings: messages of Clk with their codes and places.

Each exception is a subclass of `Error`, and of the exception that Python has for such a case, by the message's code.
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
    """A marked place. Lines and columns count from 1; `start` and `end` are byte offsets in the source."""

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
    """A message. The first of the spans is the one that it is about."""

    code: str
    severity: str
    title: str
    notes: tuple[str, ...]
    help: tuple[str, ...]
    spans: tuple[Span, ...]
    #: The whole message as a terminal shows it, without and with colors.
    rendered: str
    colored: str


class Error(Exception):
    """An error of Clk: in a program, of a call, or in a run.

    `code` is for `clk explain`; `spans` are the marked places; `rendered` is the whole message, which `str` gives, too. Of several
    errors of a program, `diagnostics` has all, and the other attributes are of the first.
    """

    diagnostics: tuple[Diagnostic, ...]

    def __init__(self, diagnostics: Any) -> None:
        self.diagnostics = tuple(diagnostics)
        super().__init__("\n".join(found.rendered for found in self.diagnostics).rstrip())

    def _of_first(self, name: str, otherwise: Any) -> Any:
        return getattr(self.diagnostics[0], name) if self.diagnostics else otherwise

    @property
    def code(self) -> str:
        return self._of_first("code", "")

    @property
    def title(self) -> str:
        return self._of_first("title", "")

    @property
    def notes(self) -> tuple[str, ...]:
        return self._of_first("notes", ())

    @property
    def help(self) -> tuple[str, ...]:
        return self._of_first("help", ())

    @property
    def spans(self) -> tuple[Span, ...]:
        return self._of_first("spans", ())

    @property
    def rendered(self) -> str:
        return "\n".join(found.rendered for found in self.diagnostics)

    @property
    def colored(self) -> str:
        return "\n".join(found.colored for found in self.diagnostics)

    def __reduce__(self) -> Any:
        return type(self), (self.diagnostics,)

    def _render_traceback_(self) -> list[str]:
        # IPython shows this in place of a traceback: the frames of the caller, and the message with its colors.
        frames = [frame for frame in traceback.extract_tb(self.__traceback__) if not _is_hidden(frame.filename)]
        lines = "".join(traceback.format_list(frames)).rstrip().split("\n") if frames else []
        return lines + self.colored.rstrip().split("\n")


class CompileError(Error, ValueError):
    """A program that is wrong."""


class ArgumentError(Error, ValueError):
    """Arguments that do not fit: a wrong shape, a missing one, memory that cannot be used."""


class ArgumentTypeError(ArgumentError, TypeError):
    """A value or an array of a type that the parameter does not take."""


class Fault(Error, RuntimeError):
    """A kernel or function that failed: an index out of bounds, a data race found by a check, a failed assertion."""


class DeviceError(Error, RuntimeError):
    """A device that cannot be used."""


class OutOfMemory(Error, MemoryError):
    """Not enough memory."""


class FileError(Error, OSError):
    """A file that cannot be read or written. `errno` and `filename` are set where the cause is known; a file that does not exist is a
    `FileNotFoundError`, too, and one that may not be used a `PermissionError`."""

    def __init__(self, diagnostics: Any) -> None:
        super().__init__(diagnostics)
        named = re.search(r"`([^`]*)`", self.title)
        self.filename = named[1] if named else None
        self.errno = next((code for text, code in _CAUSES.items() if self.title.endswith(text)), None)

    def __str__(self) -> str:
        return "\n".join(found.rendered for found in self.diagnostics).rstrip()


class _NoSuchFile(FileError, FileNotFoundError):
    def __reduce__(self) -> Any:
        return _of_file, (self.diagnostics,)


class _NotPermitted(FileError, PermissionError):
    def __reduce__(self) -> Any:
        return _of_file, (self.diagnostics,)


#: The causes of file errors, by the ends of their titles.
_CAUSES = {
    "there is no such file": errno.ENOENT,
    "it is a folder": errno.EISDIR,
    "permission denied": errno.EACCES,
}


def _of_file(diagnostics: Any) -> FileError:
    """The exception for a file, which has the class that Python has for the cause."""
    made = FileError(diagnostics)
    kinds: dict[int | None, type[FileError]] = {errno.ENOENT: _NoSuchFile, errno.EACCES: _NotPermitted}
    kind = kinds.get(made.errno)
    return made if kind is None else kind(diagnostics)


class Warning(UserWarning):
    """A warning of Clk; `diagnostic` has its code and places."""

    diagnostic: Diagnostic

    def __init__(self, diagnostic: Diagnostic) -> None:
        self.diagnostic = diagnostic
        super().__init__(diagnostic.rendered.rstrip())


#: The classes of single codes; others go by the beginning of their code.
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
    if code in _CLASSES:
        return _CLASSES[code]
    if code.startswith("E08"):
        return ArgumentError
    if code.startswith(("E05", "E06", "E07", "E09")):
        return Fault
    return CompileError


def diagnostic(facts: dict[str, Any]) -> Diagnostic:
    """Makes a message of what the extension knows of it."""
    spans = tuple(Span(*span) for span in facts["spans"])
    return Diagnostic(
        facts["code"],
        facts["severity"],
        facts["title"],
        tuple(facts["notes"]),
        tuple(facts["help"]),
        spans,
        facts["rendered"],
        facts["colored"],
    )


def error(reports: list[dict[str, Any]]) -> Error:
    """Makes the exception for errors, the first of which decides its class."""
    return of_diagnostics([diagnostic(facts) for facts in reports])


def of_diagnostics(found: list[Diagnostic]) -> Error:
    """Makes the exception for messages, the first error of which decides its class."""
    errors = [one for one in found if one.severity == "error"] or found
    made = _class_of(errors[0].code if errors else "")
    # A call is compiled as a statement of its own: what is wrong there is wrong with its arguments.
    of_call = errors and errors[0].spans and errors[0].spans[0].file == "<launch>"
    if made is FileError:
        return _of_file(errors)
    return (ArgumentError if made is CompileError and of_call else made)(errors)


#: The folder of this package.
_PACKAGE = os.path.dirname(os.path.abspath(__file__)) + os.sep


def _is_hidden(file: str) -> bool:
    """Whether the frames of a file say nothing to the caller: those of this package, of the import system and of IPython."""
    path = file.replace("\\", "/")
    return file.startswith((_PACKAGE, "<frozen importlib")) or "/IPython/core/" in path or "/importlib/" in path


def warn(reports: list[dict[str, Any]]) -> None:
    """Issues warnings at the line of the caller outside of this package."""
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and _is_hidden(frame.f_code.co_filename):
        frame = frame.f_back
        # Python itself does not count the frames of an import.
        level += not frame.f_code.co_filename.startswith("<frozen importlib")
    for facts in reports:
        warnings.warn(Warning(diagnostic(facts)), stacklevel=level)


# Their public place, which tracebacks and pickles name.
for _public in (Span, Diagnostic, Error, CompileError, ArgumentError, ArgumentTypeError, Fault, DeviceError, OutOfMemory, FileError, Warning):
    _public.__module__ = "clk"
for _hidden in (_NoSuchFile, _NotPermitted):
    _hidden.__name__, _hidden.__qualname__ = "FileError", "FileError"
    _hidden.__module__ = "clk"
