from types import SimpleNamespace

import warp as wp


@wp.kernel
def accelerate(
    pos: wp.array(dtype=wp.vec3), mass: wp.array(dtype=wp.float32), acc: wp.array(dtype=wp.vec3), eps: wp.float32
):
    i = wp.tid()
    a = wp.vec3()
    for j in range(pos.shape[0]):
        r = pos[j] - pos[i]
        d2 = wp.dot(r, r) + eps * eps
        a += mass[j] * r / (d2 * wp.sqrt(d2))
    acc[i] = a


def make(case):
    pos, mass = case.inputs()
    s = SimpleNamespace(eps=case.SOFTENING, n=case.SIZE, mass=wp.array(mass, device="cpu"))
    s.pos = wp.array(pos, dtype=wp.vec3, device="cpu")
    s.acc = wp.zeros(case.SIZE, dtype=wp.vec3, device="cpu")
    return s


def run(s):
    wp.launch(accelerate, dim=s.n, inputs=[s.pos, s.mass, s.acc, s.eps], device="cpu")


def results(s):
    return (s.acc.numpy(),)
