from types import SimpleNamespace

import numpy as np
from numba import njit, prange


@njit(parallel=True, fastmath=True, cache=True)
def place(mean, eccentricity, angle, distance, steps):
    one = np.float32(1)
    for i in prange(len(mean)):
        m, ecc = mean[i], eccentricity[i]
        e = m + ecc * np.sin(m)
        for _ in range(steps):
            e -= (e - ecc * np.sin(e) - m) / (one - ecc * np.cos(e))
        s, c = np.sin(e), np.cos(e)
        angle[i] = np.arctan2(np.sqrt(one - ecc * ecc) * s, c - ecc)
        distance[i] = one - ecc * c


def make(case):
    mean, eccentricity = case.inputs()
    return SimpleNamespace(arrays=(mean, eccentricity, np.zeros_like(mean), np.zeros_like(mean)), steps=case.STEPS)


def run(s):
    place(*s.arrays, s.steps)


def results(s):
    return s.arrays[2:]
