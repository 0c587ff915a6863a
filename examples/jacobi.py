"""Heat in a plate with a hot ring and a cold bar held at fixed temperatures: Jacobi sweeps until nothing changes.

usage: python examples/jacobi.py [PICTURE.png]
"""

from __future__ import annotations

import sys
import time

import numpy as np
from picture import palette, save

import quadrants as qd

size, tolerance, batch = 320, 1e-6, 200


@qd.kernel
def sweep(old, new, fixed):
    """One sweep; returns the largest change."""
    change = 0.0
    for i in range(1, size - 1):
        for j in range(1, size - 1):
            if fixed[i, j] == 0:
                new[i, j] = 0.25 * (old[i - 1, j] + old[i + 1, j] + old[i, j - 1] + old[i, j + 1])
                change = max(change, abs(new[i, j] - old[i, j]))
    return change


def main(picture: str) -> None:
    row, column = np.mgrid[0:size, 0:size] / size
    radius = np.hypot(row - 0.42, column - 0.4)
    ring = (radius > 0.2) & (radius < 0.23) & (column < 0.5)
    bar = (abs(column - 0.72) < 0.02) & (abs(row - 0.6) < 0.25)
    old = np.where(ring, 1.0, 0.25).astype(np.float32)
    old[bar] = 0.0
    fixed = (ring | bar).astype(np.int32)
    new, sweeps, change = old.copy(), 0, 1.0
    start = time.perf_counter()
    while change > tolerance and sweeps < 20_000:
        for _ in range(batch // 2):
            sweep(old, new, fixed)
            change = sweep(new, old, fixed)
        sweeps += batch
    rate = sweeps * (size - 2) ** 2 / (time.perf_counter() - start)
    print(f"{sweeps} sweeps, largest change {change:.1e}, {rate / 1e6:.0f} million cells a second")
    isolines = (old * 25 % 1 < 0.06) & (fixed == 0)
    image = palette(old)
    image[isolines] //= 2
    save(picture, image.repeat(2, 0).repeat(2, 1))


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "output/jacobi.png")
