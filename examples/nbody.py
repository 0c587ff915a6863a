"""Two galaxies pass through each other: direct summation of all pairs, leapfrog in time.

usage: python examples/nbody.py [PICTURE.png]
"""

from __future__ import annotations

import sys
import time

import numpy as np
from picture import dots, palette, save, strip

import quadrants as qd

stars, frames, steps = 6000, 4, 42
dt, softening = 0.002, 0.01


def attraction(r, eps):
    d2 = r.dot(r) + eps * eps
    return r / (d2 * qd.sqrt(d2))


@qd.kernel
def kick(pos, vel, mass, dt):
    for i in range(len(pos)):
        a = 0 * pos[i]
        for j in range(len(pos)):
            a += mass[j] * attraction(pos[j] - pos[i], softening)
        vel[i] += dt * a


@qd.kernel
def drift(pos, vel, dt):
    for i in range(len(pos)):
        pos[i] += dt * vel[i]


def galaxy(rng, count, centre, velocity, spin):
    """A rotating disc around a heavy centre: positions, velocities and masses of `count` stars."""
    radius = 0.03 + 0.17 * np.sqrt(rng.random(count))
    angle = 2 * np.pi * rng.random(count)
    radius[0] = 0
    around = np.stack([np.cos(angle), np.sin(angle), 0.1 * rng.standard_normal(count)], 1)
    speed = spin * np.sqrt(1.0 / np.maximum(radius, 0.03))[:, None]
    tangent = np.stack([-np.sin(angle), np.cos(angle), 0 * angle], 1)
    mass = np.full(count, 0.3 / count)
    mass[0] = 1.0
    return centre + around * radius[:, None], velocity + tangent * speed * (radius > 0)[:, None], mass


def main(picture: str) -> None:
    rng = np.random.default_rng(3)
    left = galaxy(rng, stars // 2, np.array([0.3, 0.4, 0]), np.array([0.7, 0.0, 0]), 1.0)
    right = galaxy(rng, stars - stars // 2, np.array([0.7, 0.6, 0]), np.array([-0.7, 0.0, 0]), 1.0)
    pos, vel, mass = (np.concatenate(pair).astype(np.float32) for pair in zip(left, right, strict=True))
    colours = palette(np.where(np.arange(stars) < stars // 2, 0.55, 0.85))
    kick(pos, vel, mass, 0.5 * dt)
    images, start = [dots(pos, colours)], time.perf_counter()
    for _ in range(frames - 1):
        for _ in range(steps):
            drift(pos, vel, dt)
            kick(pos, vel, mass, dt)
        images.append(dots(pos, colours))
    seconds = time.perf_counter() - start
    print(f"{stars} stars: {stars * stars * steps * (frames - 1) / seconds / 1e6:.0f} million interactions a second")
    save(picture, strip(images))


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "output/nbody.png")
