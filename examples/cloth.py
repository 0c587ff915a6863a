"""A cloth of masses and springs falls over a ball.

usage: python examples/cloth.py [PICTURE.png]
"""

from __future__ import annotations

import sys
import time

import numpy as np
from picture import dots, save, strip

import quadrants as qd

n, frames, steps = 96, 4, 2600
spacing, dt = 1.0 / n, 1.5e-4
stiffness, damping, drag, gravity = 3.0e4, 2.0, 2.5, 9.8
links = ((0, 1), (1, 0), (0, -1), (-1, 0), (1, 1), (1, -1), (-1, 1), (-1, -1), (0, 2), (2, 0), (0, -2), (-2, 0))


@qd.kernel
def accelerate(x, v, w, ball, radius):
    for i, j in qd.ndrange(n, n):
        force = qd.Vector([0.0, 0.0, -gravity]) - drag * v[i, j]
        for di, dj in qd.static(links):
            k, m = i + di, j + dj
            if 0 <= k < n and 0 <= m < n:
                d = x[k, m] - x[i, j]
                rest = spacing * (di * di + dj * dj) ** 0.5
                along = d / d.norm()
                force += (stiffness * (d.norm() - rest) + damping * along.dot(v[k, m] - v[i, j]) / spacing) * along
        u = v[i, j] + dt * force
        out = x[i, j] - ball
        if out.norm() < radius and u.dot(out) < 0:  # slide along the ball
            u = (1 - 4 * dt) * (u - u.dot(out) / out.dot(out) * out)
        w[i, j] = u


@qd.kernel
def move(x, v):
    for i, j in qd.ndrange(n, n):
        x[i, j] += dt * v[i, j]


def shade(x: np.ndarray) -> np.ndarray:
    """The cloth from the front and above: bilinear points, drawn far to near, lit by their normals."""
    fine = np.linspace(0, n - 1.001, 4 * n)
    low = fine.astype(int)
    part = (fine - low)[:, None, None]
    x = x[low] * (1 - part) + x[low + 1] * part
    x = x[:, low] * (1 - part.swapaxes(0, 1)) + x[:, low + 1] * part.swapaxes(0, 1)
    normal = np.cross(np.gradient(x, axis=0), np.gradient(x, axis=1)).reshape(-1, 3)
    light = np.abs(normal @ np.array([0.4, -0.5, 0.77])) / (np.linalg.norm(normal, axis=1) + 1e-12)
    check = (np.add.outer(low // 12, low // 12) % 2).reshape(-1, 1)
    colours = np.where(check, [235, 90, 70], [245, 235, 215]) * (0.25 + 0.75 * light[:, None])
    x = x.reshape(-1, 3)
    screen = np.stack([x[:, 0], 0.75 * x[:, 2] + 0.5 * x[:, 1]], 1) * 0.8 + [0.1, 0.02]
    order = np.argsort(0.75 * x[:, 1] * -1 + 0.5 * x[:, 2])
    return dots(screen[order], colours[order].astype(np.uint8))


def main(picture: str) -> None:
    row, column = np.mgrid[0:n, 0:n] * spacing
    x = np.stack([column, row, 0.85 + 0.01 * np.sin(9 * row + 4 * column)], -1).astype(np.float32)
    v, w, ball = np.zeros_like(x), np.zeros_like(x), qd.Vector([0.5, 0.5, 0.45])
    images, start = [shade(x)], time.perf_counter()
    for _ in range(frames - 1):
        for _ in range(steps):
            accelerate(x, v, w, ball, 0.3)
            move(x, w)
            v, w = w, v
        images.append(shade(x))
    rate = n * n * steps * (frames - 1) / (time.perf_counter() - start)
    print(f"{n} x {n} masses: {rate / 1e6:.1f} million mass steps a second")
    save(picture, strip(images))


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "output/cloth.png")
