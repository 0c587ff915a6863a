"""Arrays, fields, views, strides and atomic updates on every target, against Python itself."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

import quadrants as qd
from quadrants.evidence.programs import FieldOf, Program, TargetExecutor, disagreement, program

PROGRAMS: list[Program] = []
runs = partial(program, PROGRAMS)
RANDOM = np.random.default_rng(11)
ALL_DTYPES = (np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64, np.float32, np.float64)


def f32(*shape: int) -> np.ndarray:
    return RANDOM.standard_normal(shape).astype(np.float32)


def i32(*values: int) -> np.ndarray:
    return np.array(values, np.int32)


@runs(args=(2.0, f32(1000), f32(1000)), tolerance=1e-6)
def saxpy(a, x, y):
    for i in range(len(x)):
        y[i] += a * x[i]


@runs(args=(f32(17, 23), np.zeros((17, 23), np.float32)), tolerance=1e-6)
def stencil(u, v):
    for i, j in qd.ndrange((1, 16), (1, 22)):
        v[i, j] = 0.25 * (u[i - 1, j] + u[i + 1, j] + u[i, j - 1] + u[i, j + 1])


@runs(args=(f32(17, 23), np.zeros((17, 23), np.float32), 3), tolerance=1e-5)
def time_steps_of_a_stencil(u, v, steps):
    for t in range(steps):
        for i in range(1, 16):
            for j in range(1, 22):
                v[i, j] = 0.25 * (u[i - 1, j] + u[i + 1, j] + u[i, j - 1] + u[i, j + 1])
        for i in range(1, 16):
            for j in range(1, 22):
                u[i, j] = v[i, j]


@runs(args=(np.arange(10, dtype=np.float32), np.zeros(10, np.float32)))
def periodic_stencil(u, out):
    n = len(u)
    for i in range(n):
        out[i] = u[i - 1] + u[(i + 1) % n]


@runs(args=(np.zeros((), np.float32), FieldOf("f32", np.zeros(())), f32(40)), tolerance=1e-5)
def numbers_of_no_axes(total, largest, x):
    total[()] = 1.0
    largest[None] = x[0]
    for i in range(len(x)):
        total[()] += x[i]
        qd.atomic_max(largest[None], x[i])
    total[()] *= 2.0
    total[None] += largest[()]


@runs(args=(lambda: (np.arange(40, dtype=np.int32).reshape(4, 10)[:, ::3],)))
def strided_columns(a):
    for i, j in qd.ndrange(a.shape[0], a.shape[1]):
        a[i, j] = a[i, j] * 2 + 1


@runs(args=(lambda: (np.arange(12, dtype=np.float64)[::-1], np.arange(12.0))))
def reversed_and_forward(a, b):
    for i in range(len(a)):
        b[i] = a[i] - b[i]


@runs(args=(lambda: (np.arange(24, dtype=np.int32).reshape(2, 3, 4).transpose(2, 0, 1),)))
def permuted_axes(a):
    for i, j, k in qd.ndrange(4, 2, 3):
        a[i, j, k] += 100 * i + 10 * j + k


@runs(args=(lambda: (np.arange(12, dtype=np.int32).reshape(3, 4)[::-1, ::-2],)))
def negative_strides_of_two_axes(a):
    for i in range(a.shape[0]):
        for j in range(a.shape[1]):
            a[i, j] = a[i, j] * 10


@runs(args=(lambda: (np.broadcast_to(np.float32(1.5), (5,)), np.zeros(5, np.float32))))
def broadcast_array_that_is_read(a, out):
    for i in range(5):
        out[i] = a[i] + i


@runs(args=(lambda: (np.zeros((0, 3), np.float32), np.zeros(0, np.int32))))
def empty_arrays(a, b):
    for i in range(len(b)):
        b[i] = 1
    for i in range(len(a)):
        a[i, 0] = 1.0
    return len(a) + len(b)


@runs(args=(f32(8, 3), 3), tolerance=1e-6)
def views_of_rows(v, i):
    w = v[i]
    w *= 0.5
    w[0] = 7.0
    u = v[i + 1]
    u += w
    x = w * 2.0
    x[1] = 100.0
    v[0] = x


@runs(args=(f32(6, 3, 3), f32(6, 3)), tolerance=1e-5)
def rows_as_matrices(m, v):
    for i in range(6):
        v[i] = m[i] @ v[i] + m[i].transpose() @ v[i]


@runs(args=(f32(20, 3), np.zeros((20, 3), np.float32)), tolerance=1e-4)
def attraction_between_rows(x, a):
    for i in range(len(x)):
        total = 0 * x[i]
        for j in range(len(x)):
            r = x[j] - x[i]
            d = r.dot(r) + 0.01
            total += r / (d * qd.sqrt(d))
        a[i] = total


@runs(args=(RANDOM.integers(0, 16, 4000).astype(np.int32), np.zeros(16, np.int32)))
def histogram(a, bins):
    for i in range(len(a)):
        bins[a[i]] += 1


@runs(args=(RANDOM.integers(-50, 50, 300).astype(np.int32), i32(1000, -1000, 0, -1, 0)))
def updates_of_every_kind(a, out):
    for i in range(len(a)):
        qd.atomic_min(out[0], a[i])
        qd.atomic_max(out[1], a[i])
        out[2] ^= a[i]
        out[3] &= a[i] | 64
        out[4] |= a[i] & 7


@runs(args=(np.zeros(3, np.int32), np.zeros(300, np.int32)))
def tickets_are_unique(counter, seen):
    for i in range(300):
        mine = qd.atomic_add(counter[0], 1)
        seen[mine] += 1


@runs(args=(i32(1, 2, 3, 4),))
def compare_and_exchange(a):
    x = qd.atomic_cas(a[0], 1, 10)
    y = qd.atomic_cas(a[1], 1, 10)
    z = qd.atomic_exchange(a[2], 7)
    return x, y, z


@runs(args=(f32(50, 2), np.zeros((5, 2), np.float32)), tolerance=1e-5)
def scatter_of_vectors(x, out):
    for i in range(50):
        out[i % 5] += x[i] * 2.0


@runs(args=(FieldOf("f32", f32(50, 2), 1), FieldOf("f32", np.zeros((5, 2)), 1)), tolerance=1e-5)
def scatter_of_field_elements(x, out):
    for i in x:
        out[i % 5] += x[i] * 2.0


@runs(args=(FieldOf("i32", np.arange(12).reshape(3, 4)), FieldOf("i32", np.zeros(3))))
def fields_of_two_axes(f, sums):
    for i, j in f:
        sums[i] += f[i, j]
    for p in qd.grouped(f):
        f[p] += p[0] * p[1]


@runs(args=(FieldOf("f32", f32(4, 3), 1), FieldOf("f32", f32(4, 3, 3), 2), FieldOf("f32", np.zeros(4))), tolerance=1e-5)
def vector_and_matrix_fields(v, m, out):
    for i in v:
        v[i] = m[i] @ v[i]
        m[i] += v[i].outer_product(v[i])
        out[i] = v[i].norm() + m[i].trace()
        v[i].x = out[i]
        m[i][1, 2] = -1.0


@runs(args=(FieldOf("i64", [1, 2, 3], kind="ndarray"), FieldOf("f32", [[1.0, 2.0]], 1, kind="ndarray")))
def ndarrays(a, v):
    for i in range(3):
        a[i] = a[i] * a[-1]
    v[0] = v[0].yx


@runs(args=(FieldOf("i32", 3), FieldOf("f64", [0.0, 0.0])))
def field_without_axes(n, out):
    n[None] += 4
    for i in range(n[None]):
        out[i % 2] += 0.5


def doubled_often(p, k):
    for _ in range(k):
        p = p * 2.0
    return p


@runs(args=(FieldOf("f32", 1.5), FieldOf("f32", [0.0, 0.0, 0.0, 0.0])))
def field_without_axes_passed_to_a_function(x, out):
    a = x[None]
    b = a + 1.0
    for i in range(4):
        out[i] = doubled_often(a, i) + b
    x[None] = a + 10.0
    c = x[None]
    x[None] = 0.0
    return a, c


@runs(args=(np.zeros((4, 4), np.int32), i32(1, 3)))
def vectors_as_indices(a, p):
    q = qd.Vector([p[0], p[1]])
    a[q] = 5
    a[q - 1] += 2
    for d in qd.static(range(2)):
        e = qd.Vector.unit(2, d, qd.i32)
        a[q - e] += 1 + d


@runs(args=(np.array([True, False, True]), np.zeros(3, np.int32)))
def truth_values_in_arrays(mask, out):
    for i in range(3):
        if mask[i]:
            out[i] = 1
        mask[i] = not mask[i]


@runs(args=(f32(64), f32(64)), tolerance=1e-5)
def reductions_side_by_side(x, y):
    dot = 0.0
    low = x[0]
    high = x[0]
    count = 0
    for i in range(len(x)):
        dot += x[i] * y[i]
        low = min(low, x[i])
        high = max(high, x[i])
        if x[i] > y[i]:
            count += 1
    return dot, low, high, count


@runs(args=(np.arange(1, 8, dtype=np.int64),))
def scan_in_order(a):
    for i in range(1, len(a)):
        a[i] += a[i - 1]


@runs(args=(np.arange(20, dtype=np.int32), np.zeros(20, np.int32)))
def loop_order_by_configuration(a, out):
    last = 0
    qd.loop_config(serialize=True)
    for i in range(20):
        out[i] = last
        last = a[i] + last % 7


@runs(args=(np.arange(30, dtype=np.int32).reshape(5, 6),))
def partial_index_then_full_index(a):
    row = a[2]
    s = 0
    for j in range(6):
        s += row[j]
        row[j] = s
    return s


@runs(args=(i32(3, 1, 2, 0), i32(10, 20, 30, 40), i32(0, 0, 0, 0)))
def gather_and_scatter(order, a, out):
    for i in range(4):
        out[order[i]] = a[order[i]] + i


def _store_all(a, n: qd.i64):
    for i in range(len(a)):
        a[i] = n + i
        a[i] += 1


@pytest.mark.parametrize("dtype", ALL_DTYPES, ids=lambda dtype: dtype.__name__)
def test_every_dtype_is_stored(dtype: type, executor: TargetExecutor) -> None:
    item = Program("store", _store_all, (np.zeros(5, dtype), 250), None, {}, "")
    assert disagreement(item, executor) is None


@pytest.mark.parametrize("item", PROGRAMS, ids=lambda item: item.name)
def test_arrays(item: Program, executor: TargetExecutor) -> None:
    assert disagreement(item, executor) is None


def test_unaligned_array(executor: TargetExecutor) -> None:
    """Elements that are not aligned are refused by name, or written right."""
    raw = np.zeros(8 * 4 + 1, np.uint8)[1:]
    array = raw.view(np.int32)
    try:
        executor.launcher(_store_all)(array, 5)
    except TypeError as refusal:
        assert "'a'" in str(refusal)
    else:
        assert array.tolist() == [6, 7, 8, 9, 10, 11, 12, 13]
