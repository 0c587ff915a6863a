"""NVIDIA's assembler on kernels for each of its GPUs: registers within a budget, nothing kept in memory for want of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import quadrants as qd
from quadrants.evidence.ptx.assemble import AssemblerError, Usage, assemble, assembler, unexplained_spills
from quadrants.evidence.ptx.driver import played
from quadrants.targets.llvm.cuda.compile import SM

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(assembler() is None, reason="there is no ptxas here: pip install nvidia-cuda-nvcc"),
]


def saxpy(y: qd.types.ndarray(), a: qd.f32, x: qd.types.ndarray()):
    for i in range(y.shape[0]):
        y[i] += a * x[i]


def jacobi(u: qd.types.ndarray(), v: qd.types.ndarray()):
    for i, j in qd.ndrange((1, u.shape[0] - 1), (1, u.shape[1] - 1)):
        v[i, j] = 0.25 * (u[i - 1, j] + u[i + 1, j] + u[i, j - 1] + u[i, j + 1])


def bodies(p: qd.types.ndarray(), a: qd.types.ndarray()):
    for i in range(p.shape[0]):
        s = qd.Vector([0.0, 0.0, 0.0])
        for j in range(p.shape[0]):
            r = qd.Vector([p[j, 0] - p[i, 0], p[j, 1] - p[i, 1], p[j, 2] - p[i, 2]])
            d2 = r.dot(r) + 1e-3
            s += r / (d2 * qd.sqrt(d2))
        for k in qd.static(range(3)):
            a[i, k] = s[k]


def waves(x: qd.types.ndarray(), y: qd.types.ndarray()):
    for i in range(x.shape[0]):
        y[i] = qd.sin(x[i]) * qd.exp(-x[i]) + qd.log(x[i]) ** 2.5


def factors(m: qd.types.ndarray(), out: qd.types.ndarray()):
    for e in range(m.shape[0]):
        a = qd.Matrix([[0.0] * 6 for _ in range(6)])
        for i, j in qd.static(qd.ndrange(6, 6)):
            a[i, j] = m[e, i, j]
        for k in qd.static(range(6)):
            a[k, k] = qd.sqrt(a[k, k])
            for i in qd.static(range(k + 1, 6)):
                a[i, k] = a[i, k] / a[k, k]
                for j in qd.static(range(k + 1, i + 1)):
                    a[i, j] -= a[i, k] * a[j, k]
        for i, j in qd.static(qd.ndrange(6, 6)):
            out[e, i, j] = a[i, j]


def total(x: qd.types.ndarray()) -> qd.f32:
    s = 0.0
    for i in range(x.shape[0]):
        s += x[i]
    return s


def numbers(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).random(shape, np.float32) + 1


BUDGET: dict[Any, tuple[int, tuple[Any, ...]]] = {
    saxpy: (32, (numbers(64), 2.0, numbers(64))),
    jacobi: (56, (numbers(8, 8), numbers(8, 8))),
    bodies: (48, (numbers(8, 3), numbers(8, 3))),
    waves: (48, (numbers(64), numbers(64))),
    factors: (64, (numbers(4, 6, 6) + 6 * np.eye(6, dtype=np.float32), numbers(4, 6, 6))),
    total: (64, (numbers(100),)),
}


def usages(function: Any, sm: int) -> list[Usage]:
    with played(sm) as driver:
        qd.init(arch=qd.cuda)
        qd.kernel(function)(*BUDGET[function][1])
    qd.reset()
    found = []
    for text in driver.texts:
        assert f".target sm_{sm}" in text
        needs = assemble(text, sm)
        assert not unexplained_spills(text, needs)
        found += needs
    return found


@pytest.mark.parametrize("sm", SM)
@pytest.mark.parametrize("function", BUDGET, ids=lambda function: function.__name__)
def test_registers(function: Any, sm: int) -> None:
    found = usages(function, sm)
    assert found and max(usage.registers for usage in found) <= BUDGET[function][0]
    most = 64 if function is total else 0  # a partial of each of a block's warps
    assert max(usage.shared for usage in found) <= most


def test_a_wrong_text_is_told_with_its_line() -> None:
    with pytest.raises(AssemblerError, match="line"):
        assemble(".version 8.3\n.target sm_80\n.address_size 64\n.visible .entry k() { nonsense.b32 %r1; }", 80)
