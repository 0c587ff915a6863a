"""The language's own functions, and Python's, math's and NumPy's, as operations: importing this fills the tables."""

from __future__ import annotations

from quadrants.frontend import (  # noqa: F401  (imported for what they register)
    intrinsics_decompositions,
    intrinsics_math,
    intrinsics_numbers,
    intrinsics_simt,
)
from quadrants.frontend.intrinsic_table import INTRINSICS, python_intrinsic
from quadrants.frontend.intrinsics_loops import as_static
from quadrants.frontend.intrinsics_matrix import construct_annotated
from quadrants.frontend.intrinsics_python import axis_size

__all__ = ["INTRINSICS", "as_static", "axis_size", "construct_annotated", "python_intrinsic"]
