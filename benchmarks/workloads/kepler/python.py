"""NumPy."""

from types import SimpleNamespace

import numpy as np


def make(case):
    mean, eccentricity = case.inputs()
    return SimpleNamespace(mean=mean, eccentricity=eccentricity, steps=case.STEPS)


def run(s):
    m, ecc = s.mean, s.eccentricity
    e = m + ecc * np.sin(m)
    for _ in range(s.steps):
        e -= (e - ecc * np.sin(e) - m) / (1 - ecc * np.cos(e))
    sine, cosine = np.sin(e), np.cos(e)
    s.angle = np.arctan2(np.sqrt(1 - ecc * ecc) * sine, cosine - ecc)
    s.distance = 1 - ecc * cosine


def results(s):
    return (s.angle, s.distance)
