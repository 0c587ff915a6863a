from types import SimpleNamespace

import numpy as np

import quadrants as qd


@qd.kernel
def multiply(start, column, value, x, y):
    for row in range(len(y)):
        total = 0.0
        for k in range(start[row], start[row + 1]):
            total += value[k] * x[column[k]]
        y[row] = total


def make(case):
    return SimpleNamespace(matrix=case.inputs(), y=np.zeros(case.ROWS, np.float32))


def run(s):
    multiply(*s.matrix, s.y)


def results(s):
    return (s.y,)
