from types import SimpleNamespace

import quadrants as qd


@qd.kernel
def step(u, v, rate):
    for i in range(1, u.shape[0] - 1):
        for j in range(1, u.shape[1] - 1):
            for k in range(1, u.shape[2] - 1):
                v[i, j, k] = u[i, j, k] + rate * (
                    u[i - 1, j, k] + u[i + 1, j, k] + u[i, j - 1, k] + u[i, j + 1, k]
                    + u[i, j, k - 1] + u[i, j, k + 1] - 6 * u[i, j, k]
                )  # fmt: skip


def make(case):
    u = case.inputs()
    return SimpleNamespace(u=u, v=u.copy(), pairs=case.STEPS // 2, rate=case.RATE)


def run(s):
    for _ in range(s.pairs):
        step(s.u, s.v, s.rate)
        step(s.v, s.u, s.rate)


def results(s):
    return (s.u,)
