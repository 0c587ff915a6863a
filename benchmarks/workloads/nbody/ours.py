from types import SimpleNamespace

import numpy as np

import quadrants as qd


@qd.kernel
def accelerate(pos, mass, acc, eps):
    for i in range(len(pos)):
        a = 0 * pos[i]
        for j in range(len(pos)):
            r = pos[j] - pos[i]
            d2 = r.dot(r) + eps * eps
            a += mass[j] * r / (d2 * qd.sqrt(d2))
        acc[i] = a


def make(case):
    pos, mass = case.inputs()
    return SimpleNamespace(pos=pos, mass=mass, acc=np.zeros_like(pos), eps=case.SOFTENING)


def run(s):
    accelerate(s.pos, s.mass, s.acc, s.eps)


def results(s):
    return (s.acc,)
