from types import SimpleNamespace

import quadrants as qd


@qd.kernel
def nothing(a, b, c):
    pass


def make(case):
    return SimpleNamespace(arrays=case.inputs(), calls=case.REPEATS)


def run(s):
    a, b, c = s.arrays
    for _ in range(s.calls):
        nothing(a, b, c)


def results(s):
    return ()
