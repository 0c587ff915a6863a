"""Places in the user's source as errors show them."""

from __future__ import annotations

import linecache

from quadrants.errors import SourceLocation
from quadrants.ir.nodes import Location

__all__ = ["shown"]


def shown(location: Location | None) -> SourceLocation | None:
    """A location with its line of source."""
    if location is None:
        return None
    text = linecache.getline(location.file, location.line)
    return SourceLocation(location.file, location.line, location.column, location.end_column or None, text)
