"""Iterations as vector lanes: every width gives what the iterations give one by one, on every target."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import quadrants as qd
from quadrants import knobs
from quadrants.targets.llvm.x64 import target

pytestmark = pytest.mark.slow

COUNT = 53  # whole blocks and a rest at every width


@pytest.fixture(autouse=True)
def restored() -> Iterator[None]:
    before = knobs.current.lanes, knobs.current.arch, knobs.current.verify
    yield
    knobs.current.lanes, knobs.current.arch, knobs.current.verify = before


@pytest.fixture
def without_mask_registers(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The host, as if it had no AVX-512."""
    host = target.host_machine()
    features = ",".join([feature.replace("+avx512", "-avx512") for feature in host.features.split(",")])
    monkeypatch.setattr(target, "host_machine", lambda: target.machine_of(host.triple, "haswell", features))
    target.record.cache_clear()
    yield
    target.record.cache_clear()


def masked_branches(x, out):
    for i in range(len(x)):
        y = x[i]
        if y > 50:
            y = y // 3
            if y % 2 == 0:
                y += 100
        elif y < 5:
            y = -y
        out[i] = y


def collatz(x, out):
    for i in range(len(x)):
        n = x[i] + 1
        steps = 0
        while n != 1:
            if n % 2 == 0:
                n = n // 2
            else:
                n = 3 * n + 1
            steps += 1
        out[i] = steps


def first_above(x, out):
    for i in range(len(x)):
        found = -1
        for j in range(len(x)):
            if j <= i:
                continue
            if x[j] > x[i]:
                found = j
                break
        out[i] = found


def borders(x, out):
    for i in range(len(x)):
        s = x[i]
        if i > 0:
            s += x[i - 1]
        if i < len(x) - 1:
            s += x[i + 1]
        out[i] = s


def triangle(x, out):
    for i in range(len(x)):
        s = 0
        for j in range(i):
            for k in range(3):
                if x[j] % 3 != k:
                    s += k * x[j]
        out[i] = s


def skipped_iterations(x, out):
    for i in range(len(x)):
        if x[i] % 3 == 0:
            continue
        out[i] = x[x[i] % len(x)]
        if x[i] % 3 == 1:
            continue
        out[i] += 7


def gathered(x, out):
    for i in range(len(x)):
        k = x[i]
        while k < 100:
            k += x[(k * 7) % len(x)] + 1
        out[i] = k


def histogram(x, out):
    for i in range(len(x)):
        if x[i] > 10:
            out[x[i] % 8] += 1


def reduction(x, out):
    best = 0
    total = 0
    for i in range(len(x)):
        y = x[i]
        while y > 9:
            y = y // 2
        best = max(best, y)
        total += y
    out[0] = best
    out[1] = total


def nested_exits(x, out):
    for i in range(len(x)):
        total = 0
        for a in range(6):
            b = 0
            while b < x[i]:
                b += a + 1
                if b == 17:
                    break
                if b % 2 == 1:
                    continue
                total += b
            if total > 400:
                break
        out[i] = total


def private_memory(x, out):
    for i in range(len(x)):
        digits = qd.Vector([0, 0, 0, 0])
        n = x[i]
        for k in range(4):
            digits[k] = n % 10
            n = n // 10
            if n == 0:
                break
        digits[x[i] % 4] += 5
        out[i] = digits[0] + 2 * digits[1] + 3 * digits[2] + 4 * digits[3]


def shared_element(x, out):
    for i in range(len(x)):
        s = 0
        if x[i] > 1000:
            for j in range(x[len(x) + 5]):
                s += x[j]
        out[i] = s


INTEGERS = (
    masked_branches,
    collatz,
    first_above,
    borders,
    triangle,
    skipped_iterations,
    gathered,
    histogram,
    reduction,
    nested_exits,
    private_memory,
    shared_element,
)


def _run(function: Any, lanes: int, arch: knobs.Arch | None, x: np.ndarray) -> np.ndarray:
    knobs.current.lanes, knobs.current.arch, knobs.current.verify = lanes, arch, True
    out = np.zeros_like(x)
    qd.kernel(function)(x, out)
    return out


@pytest.mark.parametrize("function", INTEGERS, ids=lambda function: function.__name__)
@pytest.mark.usefixtures("without_mask_registers")
def test_without_registers_for_masks(function: Any) -> None:
    assert not target.record().mask_registers
    x = np.random.default_rng(3).integers(0, 90, COUNT)
    expected = _run(function, 1, knobs.Arch.reference, x)
    for lanes in (4, 8, 16):
        assert _run(function, lanes, None, x).tolist() == expected.tolist()


@pytest.mark.parametrize("arch", [knobs.Arch.reference, None], ids=["reference", "host"])
@pytest.mark.parametrize("function", INTEGERS, ids=lambda function: function.__name__)
def test_every_width_gives_the_same(function: Any, arch: knobs.Arch | None) -> None:
    x = np.random.default_rng(3).integers(0, 90, COUNT)
    expected = _run(function, 1, knobs.Arch.reference, x)
    for lanes in (4, 8, 16):
        assert _run(function, lanes, arch, x).tolist() == expected.tolist()


def forces(pos, acc):
    for i in range(len(pos)):
        total = 0 * pos[i]
        for j in range(len(pos)):
            r = pos[j] - pos[i]
            d2 = r.dot(r) + 0.01
            if d2 > 0.5:
                continue
            total += r / (d2 * qd.sqrt(d2))
        acc[i] = total


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16])
@pytest.mark.parametrize("strided", [False, True])
def test_rows_of_vectors(dtype: Any, strided: bool) -> None:
    pos = np.random.default_rng(5).random((2 * COUNT, 3)).astype(dtype)
    pos = pos[::2] if strided else pos[:COUNT]
    found = []
    for lanes in (1, 8):
        knobs.current.lanes = lanes
        acc = np.zeros_like(pos)
        qd.kernel(forces)(pos, acc)
        found.append(acc.astype(np.float64))
    tolerance = {np.float16: 2e-1, np.float32: 2e-4, np.float64: 1e-11}[dtype]
    assert np.allclose(found[0], found[1], rtol=tolerance, atol=tolerance * 10)


def escape(out, limit):
    for i, j in qd.ndrange(37, 41):
        x, y, n = 0.0, 0.0, 0
        while x * x + y * y < 4.0 and n < limit:
            x, y = x * x - y * y + 0.05 * j - 1.5, 2.0 * x * y + 0.05 * i - 1.0
            n += 1
        out[i, j] = n


def test_the_report_tells_of_lanes() -> None:
    kernel = qd.kernel(escape)
    out = np.zeros((37, 41), np.int64)
    kernel(out, 60)
    assert "lanes: its control flow differs" in kernel.report()
    knobs.current.lanes = 1
    alone = np.zeros_like(out)
    qd.kernel(escape)(alone, 60)
    assert (out == alone).all()


def asked(x, out):
    qd.loop_config(vectorize=4)
    for i in range(len(x)):
        out[i] = x[i] + 1
    qd.loop_config(vectorize=False)
    for i in range(len(x)):
        n = x[i]
        while n > 3:
            n -= 3
        out[i] += n


def test_loop_config_decides() -> None:
    kernel = qd.kernel(asked)
    x = np.arange(COUNT)
    out = np.zeros_like(x)
    kernel(x, out)
    expected = [value + 1 + (value if value <= 3 else (value - 1) % 3 + 1) for value in x.tolist()]
    assert out.tolist() == expected
    report = kernel.report()
    assert "4 lanes" in report
    assert "lanes are switched off" in report


def chosen_cells(a, b):
    for i in range(1, a.shape[0] - 1):
        for j in range(1, a.shape[1] - 1):
            around = a[i - 1, j] + a[i + 1, j] + a[i, j - 1] + a[i, j + 1]
            if around == 3:
                b[i, j] = 1
            elif around == 2:
                b[i, j] = a[i, j]
            else:
                b[i, j] = 0


def cells_that_count(a, b):
    for i in range(1, a.shape[0] - 1):
        for j in range(1, a.shape[1] - 1):
            if a[i, j] == 0:
                continue
            b[i, j] = a[i - 1, j] + a[i + 1, j] + a[i, j - 1] + a[i, j + 1]


def peaks(a, b):
    for i in range(a.shape[0]):
        peak = 0
        for j in range(a.shape[1]):
            peak = a[i, j] if a[i, j] > peak else peak // 2
            b[i, j] = peak


def sums_of_what_is_large(a, b):
    for i in range(a.shape[0]):
        for j in range(1, a.shape[1]):
            if a[i, j] > 1:
                b[i, j] = b[i, j - 1] + a[i, j]
            else:
                b[i, j] = b[i, j - 1] // 2


def marks_and_counts(a, b):
    for i in range(a.shape[0]):
        for j in range(3, a.shape[1]):
            if a[i, j] > 0:
                b[i, j] = j
                b[i, a[i, j]] += 1


def rows_of_many_lengths(a, b):
    for i in range(a.shape[0]):
        for j in range(60 * a[i, 0]):
            if a[i, j] > 1:
                b[i, j] = 7
            else:
                b[i, j] = a[i, j]


def long_computations(a, b):
    for i in range(a.shape[0]):
        for j in range(a.shape[1]):
            x = a[i, j]
            if x > 0:
                for k in qd.static(range(12)):
                    x = (7 * x + k) % 100 - (x >> 1) * 3 + (x & 15) * (x % 31)
            b[i, j] = x


@pytest.mark.parametrize(
    ("function", "in_lanes"),
    [
        (chosen_cells, False),
        (cells_that_count, False),
        (peaks, True),
        (sums_of_what_is_large, True),
        (marks_and_counts, True),
        (rows_of_many_lengths, True),
        (long_computations, True),
    ],
    ids=lambda given: getattr(given, "__name__", ""),
)
def test_rows_with_conditions(function: Any, in_lanes: bool) -> None:
    """Lanes of the loop around reach apart in each row: they pay where elements of a row wait for one another, and not where
    the code generator makes vectors of the row."""
    a = np.random.default_rng(3).integers(0, 3, (40, 200)).astype(np.int32)
    ours, plain = np.zeros_like(a), np.zeros_like(a)
    kernel = qd.kernel(function)
    kernel(a, ours)
    function(a, plain)
    assert (ours == plain).all()
    assert ("lanes: its control flow differs" in kernel.report()) == in_lanes
