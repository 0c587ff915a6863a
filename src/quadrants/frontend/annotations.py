"""Annotations of functions as objects."""

from __future__ import annotations

import types
from typing import Any

__all__ = ["resolve_annotation"]


def resolve_annotation(function: types.FunctionType, wish: Any) -> Any:
    """An annotation as an object: text (from __future__ import annotations) is evaluated where the function stands; None
    where that fails."""
    if not isinstance(wish, str):
        return wish
    cells = {
        name: cell.cell_contents
        for name, cell in zip(function.__code__.co_freevars, function.__closure__ or ())
        if _filled(cell)
    }
    try:
        return eval(wish, function.__globals__, cells)
    except Exception:  # the user's text may raise anything: as documented, it is then no annotation
        return None


def _filled(cell: Any) -> bool:
    try:
        _ = cell.cell_contents
    except ValueError:
        return False
    return True
