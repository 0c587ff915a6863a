from types import SimpleNamespace

import quadrants as qd


@qd.kernel
def total(x):
    s = 0.0
    for i in range(len(x)):
        s += x[i]
    return s


def make(case):
    return SimpleNamespace(x=case.inputs(), total=0.0)


def run(s):
    s.total = total(s.x)


def results(s):
    return (s.total,)
