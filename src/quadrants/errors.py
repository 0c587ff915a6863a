"""Every exception that a user can see, and the one way in which compile errors are worded."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from quadrants.records import Record

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

__all__ = [
    "CompilationError",
    "QuadrantsAssertionError",
    "QuadrantsBoundsError",
    "QuadrantsCompilationError",
    "QuadrantsIndexError",
    "QuadrantsInternalError",
    "QuadrantsNameError",
    "QuadrantsRuntimeError",
    "QuadrantsRuntimeTypeError",
    "QuadrantsSyntaxError",
    "QuadrantsTypeError",
    "QuadrantsUnsupportedError",
    "SourceLocation",
    "format_compilation_error",
]


class SourceLocation(Record):
    """A stretch of one source line: what a diagnostic points at.

    `line` counts from 1; `column` and `end_column` count characters from 0 into `text`, the source line itself.
    `end_column` None means up to the end of the line; `text` '' means that the source is not to be had.
    """

    file: str
    line: int
    column: int = 0
    end_column: int | None = None
    text: str = ""

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column + 1}"

    def excerpt(self, indent: str = "    ") -> str:
        """The source line with carets under the stretch; '' without source."""
        line = self.text.rstrip().expandtabs(1)
        shown = line.lstrip()
        if not shown:
            return ""
        removed = len(line) - len(shown)
        start = min(max(self.column - removed, 0), len(shown))
        stop = len(shown) if self.end_column is None else min(self.end_column - removed, len(shown))
        carets = "^" + "~" * max(stop - start - 1, 0)
        return f"{indent}{shown}\n{indent}{' ' * start}{carets}"


def format_compilation_error(
    location: SourceLocation | None,
    message: str,
    hint: str = "",
    found: str = "",
    expected: str = "",
    notes: Iterable[tuple[SourceLocation, str]] = (),
) -> str:
    """The text of a compile error: place and message, source line with a caret, what was found, what was expected,
    other places that take part (`notes`), and the way out (`hint`)."""
    lines = [f"{location}: {message}" if location is not None else message]
    if location is not None and (excerpt := location.excerpt()):
        lines.append(excerpt)
    if found:
        lines.append(f"  found:    {found}")
    if expected:
        lines.append(f"  expected: {expected}")
    for place, text in notes:
        lines.append(f"  {place}: {text}")
        if excerpt := place.excerpt():
            lines.append(excerpt)
    if hint:
        lines.append(f"  help: {hint}")
    return "\n".join(lines)


_Error = TypeVar("_Error", bound="QuadrantsCompilationError")


class QuadrantsCompilationError(Exception):
    """A kernel or function cannot be compiled. `location` is the place in the user's source, None if not known."""

    location: SourceLocation | None = None
    told: tuple[Any, ...] = ()

    @classmethod
    def at(
        cls: type[_Error],
        location: SourceLocation | None,
        message: str,
        hint: str = "",
        *,
        found: str = "",
        expected: str = "",
        notes: Iterable[tuple[SourceLocation, str]] = (),
    ) -> _Error:
        """An error of this class, worded by `format_compilation_error`, that remembers its location and what it was worded
        from."""
        notes = tuple(notes)
        error = cls(format_compilation_error(location, message, hint, found, expected, notes))
        error.location = location
        error.told = (message, hint, found, expected, notes)
        return error

    def moved(self: _Error, location: SourceLocation | None, note: str) -> _Error:
        """The same error at another place, with a note at its own."""
        message, hint, found, expected, notes = self.told or (str(self), "", "", "", ())
        if self.location is not None:
            notes = ((self.location, note), *notes)
        return type(self).at(location, message, hint, found=found, expected=expected, notes=notes)


CompilationError = QuadrantsCompilationError


class QuadrantsSyntaxError(QuadrantsCompilationError, SyntaxError):
    """Python that kernels do not have, a bad annotation, a wrong number of arguments."""


class QuadrantsNameError(QuadrantsCompilationError, NameError):
    """A name in a kernel that nothing defines, or that no path to its use assigns."""


class QuadrantsIndexError(QuadrantsCompilationError, IndexError):
    """A wrong number of indices."""


class QuadrantsTypeError(QuadrantsCompilationError, TypeError):
    """Operands or arguments of a type that the operation does not take."""


class QuadrantsUnsupportedError(QuadrantsCompilationError, NotImplementedError):
    """A feature that the target or this release does not have."""


class QuadrantsRuntimeError(RuntimeError):
    """Misuse at run time: freed or unplaced storage, a call that does not fit the state."""


class QuadrantsAssertionError(QuadrantsRuntimeError, AssertionError):
    """A failed `assert` in a kernel, or a failed check of debug mode. `location`: the place in the source (file, line,
    column), None where it is not known."""

    location: Any = None


class QuadrantsBoundsError(QuadrantsAssertionError, IndexError):
    """An index out of range, on the host or found by debug mode in a kernel."""


class QuadrantsRuntimeTypeError(QuadrantsRuntimeError, TypeError):
    """An argument of a launch that cannot be converted to its parameter's type."""


class QuadrantsInternalError(QuadrantsRuntimeError):
    """A broken invariant of the compiler itself; the text says which. Never the user's fault."""
