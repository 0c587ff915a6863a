from types import SimpleNamespace

from numba import njit


@njit(cache=True)
def nothing(a0, a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, a12, a13, a14, a15, a16, a17, a18, a19):
    pass


def make(case):
    return SimpleNamespace(arrays=case.inputs(), calls=case.REPEATS)


def run(s):
    a0, a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, a12, a13, a14, a15, a16, a17, a18, a19 = s.arrays
    for _ in range(s.calls):
        nothing(a0, a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, a12, a13, a14, a15, a16, a17, a18, a19)


def results(s):
    return ()
