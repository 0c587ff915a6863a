from types import SimpleNamespace

import numpy as np
from native import bind


def make(case):
    y = np.zeros(case.ROWS, np.float32)
    return SimpleNamespace(y=y, call=bind(__file__, "multiply", *case.inputs(), y, case.ROWS))


def run(s):
    s.call()


def results(s):
    return (s.y,)
