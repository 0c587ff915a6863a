"""What is written in the language itself; importing this package makes it known to the compiler."""

from __future__ import annotations

from quadrants.frontend.protocol import register_library
from quadrants.library import bits, linalg

__all__ = ["bits", "linalg"]

register_library("determinant", linalg.determinant)
register_library("inverse", linalg.inverse)
register_library("fns", bits.fns)
