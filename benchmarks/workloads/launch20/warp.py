from types import SimpleNamespace

import warp as wp


@wp.kernel
def nothing(
    a0: wp.array(dtype=wp.float32),
    a1: wp.array(dtype=wp.float32),
    a2: wp.array(dtype=wp.float32),
    a3: wp.array(dtype=wp.float32),
    a4: wp.array(dtype=wp.float32),
    a5: wp.array(dtype=wp.float32),
    a6: wp.array(dtype=wp.float32),
    a7: wp.array(dtype=wp.float32),
    a8: wp.array(dtype=wp.float32),
    a9: wp.array(dtype=wp.float32),
    a10: wp.array(dtype=wp.float32),
    a11: wp.array(dtype=wp.float32),
    a12: wp.array(dtype=wp.float32),
    a13: wp.array(dtype=wp.float32),
    a14: wp.array(dtype=wp.float32),
    a15: wp.array(dtype=wp.float32),
    a16: wp.array(dtype=wp.float32),
    a17: wp.array(dtype=wp.float32),
    a18: wp.array(dtype=wp.float32),
    a19: wp.array(dtype=wp.float32),
):
    pass


def make(case):
    return SimpleNamespace(
        arrays=[wp.zeros(16, dtype=wp.float32, device="cpu") for _ in range(case.ARRAYS)], calls=case.REPEATS
    )


def run(s):
    a0, a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, a12, a13, a14, a15, a16, a17, a18, a19 = s.arrays
    for _ in range(s.calls):
        wp.launch(
            nothing,
            dim=1,
            inputs=[a0, a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, a12, a13, a14, a15, a16, a17, a18, a19],
            device="cpu",
        )


def results(s):
    return ()
