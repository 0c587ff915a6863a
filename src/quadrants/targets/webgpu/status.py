"""The words of the status buffer: what failed, and what was printed."""

from __future__ import annotations

import struct
from collections.abc import Sequence

from quadrants.targets.artifact import PrintFormat

__all__ = ["FAILURE", "FORM", "FORM_VALUES", "PRINTS", "PRINT_CURSOR", "PRINT_WORDS", "SIZE", "printed", "record_words"]

FAILURE = 0
FORM = 2
FORM_VALUES = 4
_MOST_VALUES = 32
PRINT_CURSOR = FORM_VALUES + 2 * _MOST_VALUES
PRINTS = PRINT_CURSOR + 2
PRINT_WORDS = 1 << 20
SIZE = 4 * (PRINTS + PRINT_WORDS)


def record_words(words: Sequence[int], types: Sequence[str]) -> list[int]:
    """The values of a record, two words each, as the 64-bit words that an artifact's tables read: floats as doubles."""
    found: list[int] = []
    for k, name in enumerate(types):
        low, high = words[2 * k : 2 * k + 2]
        if name in ("f16", "bf16", "f32"):
            (value,) = struct.unpack("<f", struct.pack("<I", low))
            low, high = struct.unpack("<II", struct.pack("<d", value))
        found.append(low | high << 32)
    return found


def printed(words: Sequence[int], forms: dict[int, PrintFormat]) -> list[str]:
    """The texts of consecutive records { the format's id; the values }, up to the end or to zeros: there a record found no
    room."""
    texts: list[str] = []
    at = 0
    while at < len(words) and (words[at] or words[at + 1]):
        form = forms[words[at] | words[at + 1] << 32]
        count = len(form.types)
        texts.append(form.render(record_words(words[at + 2 : at + 2 + 2 * count], form.types)))
        at += 2 + 2 * count
    return texts
