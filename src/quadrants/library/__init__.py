"""What is written in the language itself; importing this package makes it known to the compiler."""

from __future__ import annotations

from quadrants.frontend.protocol import register_library, register_replacement
from quadrants.library import bits, decompositions, linalg, public, scalars, whole_arrays

__all__ = ["bits", "decompositions", "linalg", "public", "scalars", "whole_arrays"]

register_library("determinant", linalg.determinant)
register_library("inverse", linalg.inverse)
register_library("fns", bits.fns)
register_library("fill", whole_arrays.fill)
for _name, _decomposition in decompositions.FUNCTIONS.items():
    register_library(_name, _decomposition)
for _function, _own in scalars.REPLACEMENTS:
    register_replacement(_function, _own)
