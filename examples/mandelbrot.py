"""The Mandelbrot set with smooth colours: a loop with a data-dependent number of trips, per pixel.

usage: python examples/mandelbrot.py [PICTURE.png]
"""

from __future__ import annotations

import math
import sys
import time

import numpy as np
from picture import palette, save

import quadrants as qd

width, height, limit = 960, 640, 400


def escape(cx, cy):
    """Steps until |z| > 16, made smooth by the overshoot; `limit` for points that stay."""
    x, y = 0 * cx, 0 * cy
    for step in range(limit):
        if x * x + y * y > 256.0:
            return step + 1 - math.log(0.5 * math.log(x * x + y * y)) / math.log(2.0)
        x, y = x * x - y * y + cx, 2 * x * y + cy
    return float(limit)


@qd.kernel
def paint(image, left, bottom, pixel):
    for row, column in qd.ndrange(image.shape[0], image.shape[1]):
        image[row, column] = escape(left + column * pixel, bottom + row * pixel)


def main(picture: str) -> None:
    image = np.zeros((height, width), np.float32)
    paint(image, -2.2, -1.2, 3.6 / width)
    start = time.perf_counter()
    paint(image, -2.2, -1.0666667, 3.2 / width)
    print(f"{width} x {height} pixels: {1e3 * (time.perf_counter() - start):.1f} ms")
    shade = np.where(image < limit, np.log1p(image) / math.log(limit * 0.25), 0)
    save(picture, palette(shade)[::-1])


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "output/mandelbrot.png")
