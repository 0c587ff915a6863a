from types import SimpleNamespace

import warp as wp


@wp.kernel
def nothing(a: wp.array(dtype=wp.float32), b: wp.array(dtype=wp.float32), c: wp.array(dtype=wp.float32)):
    pass


def make(case):
    return SimpleNamespace(
        arrays=[wp.zeros(16, dtype=wp.float32, device="cpu") for _ in range(case.ARRAYS)], calls=case.REPEATS
    )


def run(s):
    a, b, c = s.arrays
    for _ in range(s.calls):
        wp.launch(nothing, dim=1, inputs=[a, b, c], device="cpu")


def results(s):
    return ()
