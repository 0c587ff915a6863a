"""How values read when a kernel prints them or a check reports them: the one wording that every target follows.

Numbers read as Python's, floats of less than 64 bits with the digits that their width needs; vectors and matrices read
as nested lists; a format spec applies to each number.
"""

# pyright: basic
# NumPy's own annotations leave the values of arrays unknown.

from __future__ import annotations

import string
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

__all__ = ["format_message", "format_print", "format_value", "in_message"]


def format_value(value: Any, spec: str = "") -> str:
    """One value, a Python or NumPy number or an array of numbers, by a Python format spec."""
    if isinstance(value, np.ndarray) and value.ndim:
        return f"[{', '.join([format_value(part, spec) for part in value])}]"
    if isinstance(value, (np.ndarray, np.generic)):
        if not spec and type(value) in (np.float32, np.float16):
            return str(value)
        value = value.item()
    return format(value, spec)


def format_print(pieces: Sequence[str], specs: Sequence[str] | None, values: Sequence[Any]) -> str:
    """The text of a `print`: `pieces` around the values, one more than there are values."""
    texts = [pieces[0]]
    for position, value in enumerate(values):
        texts.append(format_value(value, specs[position] if specs else ""))
        texts.append(pieces[position + 1])
    return "".join(texts)


def format_message(message: str, values: Iterable[Any]) -> str:
    """The text of a failed check: each `{}` or `{:spec}` of the message replaced by the next value, `{{` and `}}` by
    braces."""
    supply = iter(values)
    parts: list[str] = []
    for text, field, spec, _ in string.Formatter().parse(message):
        parts.append(text)
        if field is not None:
            parts.append(format_value(next(supply), spec or ""))
    return "".join(parts)


def in_message(text: str) -> str:
    """A text as a part of a message, where braces are doubled."""
    return text.replace("{", "{{").replace("}", "}}")
