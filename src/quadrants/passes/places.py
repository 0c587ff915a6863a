"""Places in the user's source as errors show them."""

from __future__ import annotations

import linecache
import os

from quadrants.errors import SourceLocation
from quadrants.ir.nodes import Location, Op

__all__ = ["is_own", "shown", "tell_at"]

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_OWN = tuple([os.path.join(_PACKAGE, folder, "") for folder in ("lang", "library")])


def is_own(location: Location | None) -> bool:
    """Whether a location is in a function of the language's own: what is wrong there is told where users call it."""
    return location is not None and location.file.startswith(_OWN)


def tell_at(ops: list[Op], location: Location | None) -> None:
    """Copies of operations of the language's own functions have the place where users call these."""
    for op in ops:
        if is_own(op.location):
            op.location = location
        for region in op.regions:
            tell_at(region.ops, location)


def shown(location: Location | None) -> SourceLocation | None:
    """A location with its line of source."""
    if location is None:
        return None
    text = linecache.getline(location.file, location.line)
    return SourceLocation(location.file, location.line, location.column, location.end_column or None, text)
