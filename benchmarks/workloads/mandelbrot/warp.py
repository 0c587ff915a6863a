from types import SimpleNamespace

import warp as wp


@wp.kernel
def paint(count: wp.array2d(dtype=wp.int32), limit: wp.int32):
    i, j = wp.tid()
    cx = float(j) * (3.0 / float(count.shape[1])) - 2.0
    cy = float(i) * (2.0 / float(count.shape[0])) - 1.0
    x = float(0.0)
    y = float(0.0)
    steps = int(0)
    while steps < limit and x * x + y * y <= 4.0:
        t = x * x - y * y + cx
        y = 2.0 * x * y + cy
        x = t
        steps += 1
    count[i, j] = steps


def make(case):
    shape = case.HEIGHT, case.WIDTH
    return SimpleNamespace(shape=shape, count=wp.zeros(shape, dtype=wp.int32, device="cpu"), limit=case.LIMIT)


def run(s):
    wp.launch(paint, dim=s.shape, inputs=[s.count, s.limit], device="cpu")


def results(s):
    return (s.count.numpy(),)
