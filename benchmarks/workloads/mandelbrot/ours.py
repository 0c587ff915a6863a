from types import SimpleNamespace

import quadrants as qd


@qd.kernel
def paint(count, limit):
    height, width = count.shape
    for i in range(height):
        for j in range(width):
            cx = qd.f32(j) * (3 / width) - 2
            cy = qd.f32(i) * (2 / height) - 1
            x, y, steps = 0 * cx, 0 * cy, 0
            while steps < limit and x * x + y * y <= 4:
                x, y = x * x - y * y + cx, 2 * x * y + cy
                steps += 1
            count[i, j] = steps


def make(case):
    return SimpleNamespace(count=case.inputs(), limit=case.LIMIT)


def run(s):
    paint(s.count, s.limit)


def results(s):
    return (s.count,)
