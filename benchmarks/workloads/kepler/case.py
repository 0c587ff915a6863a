"""Places of 500,000 planets on their orbits: Kepler's equation by six Newton steps, then angle and distance; sines,
cosines and an arc tangent make up most of it."""

import numpy as np

SIZE, STEPS, TOLERANCE = 500_000, 6, 1e-5


def inputs():
    rng = np.random.default_rng(9)
    return rng.uniform(-3.1, 3.1, SIZE).astype(np.float32), rng.uniform(0, 0.6, SIZE).astype(np.float32)


def error(angle, distance):
    mean, eccentricity = (a.astype(np.float64) for a in inputs())
    e = mean + eccentricity * np.sin(mean)
    for _ in range(30):
        e -= (e - eccentricity * np.sin(e) - mean) / (1 - eccentricity * np.cos(e))
    right = np.arctan2(np.sqrt(1 - eccentricity**2) * np.sin(e), np.cos(e) - eccentricity)
    away = np.abs(np.exp(1j * angle.astype(np.float64)) - np.exp(1j * right))
    return max(away.max(), np.abs(distance - (1 - eccentricity * np.cos(e))).max())
