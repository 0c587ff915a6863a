from types import SimpleNamespace

import warp as wp


@wp.kernel
def saxpy(y: wp.array(dtype=wp.float32), a: wp.float32, x: wp.array(dtype=wp.float32)):
    i = wp.tid()
    y[i] = y[i] + a * x[i]


def make(case):
    x, y = case.inputs()
    return SimpleNamespace(x=wp.array(x, device="cpu"), y=wp.array(y, device="cpu"), a=case.FACTOR, n=case.SIZE)


def run(s):
    wp.launch(saxpy, dim=s.n, inputs=[s.y, s.a, s.x], device="cpu")


def results(s):
    return (s.y.numpy(),)
