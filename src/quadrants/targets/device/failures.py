"""What went wrong on a device, or in code that machine code has called, until the host's Python raises it."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING

from quadrants.errors import QuadrantsAssertionError, QuadrantsBoundsError

if TYPE_CHECKING:
    from quadrants.targets.artifact import Message

__all__ = ["NOTED", "failed", "note", "noted", "told_lost"]

NOTED = -2
"""What machine code gives back after an error that was noted."""


class _Noted(threading.local):
    """The error of each thread of the host: several may launch at once."""

    error: BaseException | None = None


_noted = _Noted()


def failed(message: Message, words: Sequence[int]) -> QuadrantsAssertionError:
    """The exception for a message and the values that the check noted, 64 bits each."""
    kind = QuadrantsBoundsError if message.error == "index" else QuadrantsAssertionError
    error = kind(message.render(words))
    error.location = message.location
    return error


def told_lost(lost: int, room: int) -> str:
    """What is printed of records that found no room, in bytes."""
    return f"[Quadrants] {lost} bytes of what a kernel printed are lost: there is room for {room}\n"


def note(error: BaseException) -> int:
    """Keeps an error that cannot pass through machine code; gives the code that the machine code gives back."""
    _noted.error = error
    return NOTED


def noted() -> BaseException:
    """The error that was noted last. Who was called back noted none only where an interrupt came before its first instruction: ctypes
    tells of that one, and nobody gets it."""
    error, _noted.error = _noted.error, None
    return error or KeyboardInterrupt()
