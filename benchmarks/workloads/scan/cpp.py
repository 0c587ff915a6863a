from types import SimpleNamespace

import numpy as np
from native import bind


def make(case):
    x = case.inputs()
    sums = np.zeros_like(x)
    return SimpleNamespace(sums=sums, call=bind(__file__, "add_up", x, sums, case.SIZE))


def run(s):
    s.call()


def results(s):
    return (s.sums,)
