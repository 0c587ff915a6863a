"""Random programs of what devices do in ways of their own: reductions, scattered sums, products of matrices, stencils, rows.

What they mean is NumPy's own sums and products. Numbers are whole and so small that floats give them exactly in any order.
"""

from __future__ import annotations

import random
from typing import Any

import numpy as np

from quadrants.evidence.fuzz.block_code import Part, Program
from quadrants.evidence.fuzz.device_nests import Product, Stencil
from quadrants.evidence.fuzz.device_sums import Mixed, Reduction, Rows, Scatter, Seats

__all__ = ["DeviceProgram"]

KINDS = (Reduction, Reduction, Mixed, Scatter, Seats, Product, Product, Stencil, Stencil, Rows, Rows)


class DeviceProgram(Program):
    """A seed's program. `apart`: the steps between elements of arguments that are views of larger arrays."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        source = random.Random(f"{seed} devices")
        for number in range(source.choice((1, 1, 2))):
            part = source.choice(KINDS)(source, number)
            made: Part = part
            self.loops.append(made)
            self.memory.update(part.memory)
        chosen = source.choice((0, 0, len(self.memory), len(self.memory) // 2))
        self.apart = {name: source.choice((2, -2)) for name in source.sample(list(self.memory), chosen)}

    def arguments(self) -> list[Any]:
        """New arguments; the elements of some lie apart, in the order of memory or against it."""
        found: list[Any] = []
        for name, array in self.memory.items():
            step = self.apart.get(name, 1)
            room = np.zeros([size * abs(step) for size in array.shape], array.dtype)
            view = room[(slice(None, None, step),) * array.ndim]
            view[...] = array
            found.append(view)
        return found
