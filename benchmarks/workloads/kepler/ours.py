from types import SimpleNamespace

import numpy as np

import quadrants as qd


@qd.kernel
def place(mean, eccentricity, angle, distance, steps):
    for i in range(len(mean)):
        m, ecc = mean[i], eccentricity[i]
        e = m + ecc * np.sin(m)
        for _ in range(steps):
            e -= (e - ecc * np.sin(e) - m) / (1 - ecc * np.cos(e))
        s, c = np.sin(e), np.cos(e)
        angle[i] = np.arctan2(np.sqrt(1 - ecc * ecc) * s, c - ecc)
        distance[i] = 1 - ecc * c


def make(case):
    mean, eccentricity = case.inputs()
    return SimpleNamespace(arrays=(mean, eccentricity, np.zeros_like(mean), np.zeros_like(mean)), steps=case.STEPS)


def run(s):
    place(*s.arrays, s.steps)


def results(s):
    return s.arrays[2:]
