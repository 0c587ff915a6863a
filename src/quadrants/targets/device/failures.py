"""What a check that failed on a device raises."""

from __future__ import annotations

from collections.abc import Sequence

from quadrants.errors import QuadrantsAssertionError, QuadrantsBoundsError
from quadrants.targets.artifact import Message

__all__ = ["failed"]


def failed(message: Message, words: Sequence[int]) -> QuadrantsAssertionError:
    """The exception for a message and the values that the check noted, 64 bits each."""
    kind = QuadrantsBoundsError if message.error == "index" else QuadrantsAssertionError
    error = kind(message.render(words))
    error.location = message.location
    return error
