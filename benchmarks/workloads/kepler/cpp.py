from types import SimpleNamespace

import numpy as np
from native import bind


def make(case):
    mean, eccentricity = case.inputs()
    angle, distance = np.zeros_like(mean), np.zeros_like(mean)
    call = bind(__file__, "place", mean, eccentricity, angle, distance, case.SIZE, case.STEPS)
    return SimpleNamespace(angle=angle, distance=distance, call=call)


def run(s):
    s.call()


def results(s):
    return (s.angle, s.distance)
