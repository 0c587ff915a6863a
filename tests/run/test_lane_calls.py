"""Calls from iterations that run as vector lanes: a function's form in lanes gives what its calls one by one give, on
every target, at every width."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import quadrants as qd
from quadrants import knobs
from quadrants.passes import inline
from quadrants.targets import shared_objects, table

pytestmark = pytest.mark.slow

COUNT = 53  # whole blocks and a rest at every width


@pytest.fixture(autouse=True)
def functions_stay(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Nothing is inlined; the options are restored."""
    monkeypatch.setattr(inline, "SMALL", 0)
    monkeypatch.setattr(inline, "SMALL_ONCE", 0)
    before = knobs.current.lanes, knobs.current.arch, knobs.current.verify
    yield
    knobs.current.lanes, knobs.current.arch, knobs.current.verify = before


def fold(a, b):
    if a > 40:
        return a // 3 + b
    if b % 2 == 0:
        c = a * b
    else:
        c = a - b
    return c + 1


def branches(x, out):
    for i in range(len(x)):
        out[i] = fold(x[i], i) + fold(x[i], 7)


def first_divisor(n, most):
    for k in range(2, most):
        if k * k > n:
            break
        if n % k == 0:
            return k
    return n


def returns_from_loops(x, out):
    for i in range(len(x)):
        out[i] = first_divisor(x[i] + 2, 12) * 100 + first_divisor(91, 50)


def returns_from_nested_loops(n, x):
    for i in range(4):
        k = 0
        while k < n:
            k += i + 1
            if x[k % 10] > 70:
                return k, i
            if k == 13:
                break
        if k == 12:
            return -1, k
    return n, 0


def two_results(x, out):
    for i in range(len(x)):
        a, b = returns_from_nested_loops(x[i] % 20, x)
        out[i] = 100 * a + b


def returns_in_half(a, b):
    if a % 2 == 0:
        if b > 50:
            return 1
        b += 10
    elif a > 60:
        b -= 10
        if b < 20:
            return 2
    return b


def halves(x, out):
    for i in range(len(x)):
        out[i] = returns_in_half(x[i], i)


def neighbours(x, i, w):
    return w * x[i] + x[i + 1] - x[i - 1]


def at_neighbours(x, out):
    for i in range(1, len(x) - 1):
        out[i] = neighbours(x, i, 3)
        if x[i] % 3 == 0:
            out[i] += neighbours(x, x[i] % 20, x[i])


def put(out, i, value):
    if value > 45:
        out[i] = value
    else:
        out[i] = -value


def stores(x, out):
    for i in range(len(x)):
        if x[i] % 3 > 0:
            put(out, i, x[i])


def count(out, key, amount):
    if key < 6:
        out[key] += amount


def updates(x, out):
    for i in range(len(x)):
        count(out, x[i] % 9, 2)
        if x[i] > 50:
            count(out, 3, 1)


def ackermann(m, n):
    if m == 0:
        return n + 1
    if n == 0:
        return ackermann(m - 1, 1)
    return ackermann(m - 1, ackermann(m, n - 1))


def recursion(x, out):
    for i in range(len(x)):
        out[i] = ackermann(x[i] % 3, x[i] % 4)


def even(n):
    if n == 0:
        return 1
    return odd(n - 1)


def odd(n):
    if n == 0:
        return 0
    return even(n - 1)


def circles(x, out):
    for i in range(len(x)):
        if x[i] > 20:
            out[i] = even(x[i]) + 2 * odd(x[i])


def outer(a, n):
    total = 0
    while n > 0:
        if n % 2 == 1:
            total += fold(a, n)
        n = n // 2
    return total


def nested_calls(x, out):
    for i in range(len(x)):
        out[i] = outer(i, x[i])


def digits(n):
    v = qd.Vector([0, 0, 0, 0])
    for k in range(4):
        v[k] = n % 10
        n = n // 10
    v[v[0] % 4] += 5
    return v


def private_memory(x, out):
    for i in range(len(x)):
        v = digits(x[i] * 37)
        out[i] = v[0] + 2 * v[1] + 3 * v[2] + 4 * v[3]


def shared_by_lanes(x, out):
    for i in range(len(x)):
        for j in range(x[0] % 5):
            out[i] += fold(j, 3) * x[i]
            count(out, 60 + j, 1)


def wide_sums(x, n):
    total = 0
    for j in range(n):
        total += x[j] * j
    return total


def loops_of_their_own(x, out):
    for i in range(len(x)):
        out[i] = wide_sums(x, i)
        if x[i] > 50:
            out[i] += wide_sums(x, x[i] % 30)


def drawn(x, n):
    total = 0
    for _ in range(n):
        total += qd.random(qd.i32) % 100
    return total + x


def random_numbers(x, out):
    for i in range(len(x)):
        if x[i] % 2 == 1:
            out[i] = drawn(x[i], x[i] % 4)


def double_and_add(x, y, i):
    before = x[i]
    y[i] = 2 * before
    return x[i] + before


def same_array_twice(x, out):
    for i in range(len(x)):
        out[i] = x[i]
        out[i] += double_and_add(out, out, i)
        if x[i] > 40:
            out[i] += double_and_add(x, out, i)


PROGRAMS = (
    branches,
    returns_from_loops,
    two_results,
    halves,
    at_neighbours,
    stores,
    updates,
    recursion,
    circles,
    nested_calls,
    private_memory,
    shared_by_lanes,
    loops_of_their_own,
    random_numbers,
    same_array_twice,
)


def _run(function: Any, lanes: int, arch: knobs.Arch | None, x: np.ndarray, config: bool = False) -> tuple[Any, str]:
    knobs.current.lanes, knobs.current.arch, knobs.current.verify = lanes, arch, True
    out = np.zeros(len(x) + 16, x.dtype)
    qd.init(
        random_seed=5, arch=arch or knobs.host_arch(), lanes=lanes, verify=True, default_ip=qd.i64, default_fp=qd.f64
    )
    kernel = qd.kernel(function)
    kernel(x, out)
    return out, kernel.report()


@pytest.mark.parametrize("arch", [knobs.Arch.reference, None], ids=["reference", "host"])
@pytest.mark.parametrize("function", PROGRAMS, ids=lambda function: function.__name__)
def test_every_width_gives_the_same(function: Any, arch: knobs.Arch | None) -> None:
    x = np.random.default_rng(3).integers(0, 90, COUNT)
    expected, _ = _run(function, 1, knobs.Arch.reference, x)
    for lanes in (2, 4, 8, 16):
        found, report = _run(function, lanes, arch, x)
        assert found.tolist() == expected.tolist()
        assert f"{lanes} lanes" in report


@pytest.mark.parametrize("size", [0, 1, 7])
def test_few_iterations(size: int) -> None:
    x = np.arange(size) * 7
    expected, _ = _run(branches, 1, knobs.Arch.reference, x)
    assert _run(branches, 8, None, x)[0].tolist() == expected.tolist()


def eigenvalues(a, values, vectors):
    for i in range(len(a)):
        values[i], vectors[i] = qd.sym_eig(a[i])


def largest_eigenvalue(a, out):
    for i in range(len(a)):
        values, _ = qd.sym_eig(a[i])
        out[i] = values[2]


def _symmetric(dtype: Any) -> np.ndarray:
    a = np.random.default_rng(2).standard_normal((COUNT, 3, 3)).astype(dtype)
    return a + a.transpose(0, 2, 1)


def test_heavy_functions_run_in_lanes_unasked_and_are_compiled_once() -> None:
    knobs.current.lanes, knobs.current.arch = 0, None
    a = _symmetric(np.float32)
    values, vectors, out = (
        np.zeros((COUNT, 3), np.float32),
        np.zeros((COUNT, 3, 3), np.float32),
        np.zeros(COUNT, np.float32),
    )
    first = qd.kernel(eigenvalues)
    first(a, values, vectors)
    assert np.allclose(values, np.linalg.eigvalsh(a), atol=1e-5)
    assert np.allclose(vectors * values[:, None] @ vectors.transpose(0, 2, 1), a, atol=1e-5)
    assert " lanes: " in first.report()
    before = dict(shared_objects.counters)
    second = qd.kernel(largest_eigenvalue)
    second(a, out)
    assert np.array_equal(out, values[:, 2])
    assert shared_objects.counters["compiled"] == before["compiled"]
    assert shared_objects.counters["from memory"] > before["from memory"]
    for kernel in (first, second):
        forms = re.findall(r"^_sym_eig_small_lanes(\d+)\w*:", kernel.assembly(), re.M)
        assert len(forms) == 1  # neither a copy a call, nor the function itself for what is left over
    vectors_used = re.findall(r"[xyz]mm", first.assembly().partition("_sym_eig_small_lanes")[2])
    record = table.find(None).record()
    assert set(vectors_used) & ({"zmm", "ymm"} if record.maximum_vector_bits >= 256 else {"xmm"})


def test_functions_without_a_form_say_so(capfd: Any) -> None:
    knobs.current.lanes, knobs.current.arch = 8, None

    def told(x):
        print(x)
        return x + 1

    def tells(x, out):
        for i in range(len(x)):
            out[i] = told(x[i])

    kernel = qd.kernel(tells)
    kernel(np.arange(9), np.zeros(9, np.int64))
    assert "no lanes: print has no form in lanes" in kernel.report()
