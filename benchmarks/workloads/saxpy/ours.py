from types import SimpleNamespace

import quadrants as qd


@qd.kernel
def saxpy(y, a, x):
    for i in range(len(y)):
        y[i] += a * x[i]


def make(case):
    x, y = case.inputs()
    return SimpleNamespace(x=x, y=y, a=case.FACTOR)


def run(s):
    saxpy(s.y, s.a, s.x)


def results(s):
    return (s.y,)
