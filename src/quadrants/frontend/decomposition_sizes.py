"""Which matrices have decompositions, and what these are computed in: for kernels and for the host."""

from __future__ import annotations

from quadrants.ir.types import ScalarType, f32

__all__ = ["SIZES", "listed_sizes", "working_type"]

SIZES: dict[str, tuple[int, ...]] = {
    "eig": (2,),
    "make_spd": (4, 5, 6),
    "polar_decompose": (2, 3),
    "solve": (2, 3),
    "svd": (2, 3),
    "sym_eig": (2, 3, 4, 5, 6),
}


def listed_sizes(name: str) -> str:
    """'2 x 2 or 3 x 3': the sizes that the function takes."""
    *others, last = (f"{size} x {size}" for size in SIZES[name])
    return f"{', '.join(others)} or {last}" if others else last


def working_type(result: ScalarType) -> ScalarType:
    """What results of a float type are computed in: half precision in f32."""
    return result if result.bits >= 32 else f32
