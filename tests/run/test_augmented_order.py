"""`target op= value` where computing the value changes the target: Python reads the target first, but for views of arrays,
which it holds as such. Iterations that meet in an element update it in one step, once the value is known."""

from __future__ import annotations

import numpy as np
import pytest

import quadrants as qd
from quadrants.evidence.programs import EXECUTORS, Executor, FieldOf, Program, mismatch

PROGRAMS: list[Program] = []


def _numbers() -> list[np.ndarray]:
    return [np.arange(5, 13, dtype=np.int32)]


def _same_twice() -> list[np.ndarray]:
    p = np.arange(5, 13, dtype=np.int32)
    return [p, p]


def _overlapping() -> list[np.ndarray]:
    base = np.arange(5, 15, dtype=np.int32)
    return [base[1:9], base[:8]]


def _rows() -> list[np.ndarray]:
    return [np.arange(5, 17, dtype=np.int32).reshape(4, 3)]


def _vectors(kind: str):
    return lambda: [FieldOf("i32", np.arange(5, 17, dtype=np.int32).reshape(4, 3), 1, kind)]


def _oracle(make):
    """Runs a function by the oracle and keeps what it gives as what is expected of the targets."""

    def register(function):
        item = Program(function.__name__, function, make, None, {}, "Augmented assignments")
        outcome = EXECUTORS["oracle"].run(item)
        parts = outcome.value if isinstance(outcome.value, tuple) else (outcome.value,)
        result = None if outcome.value is None else tuple(zip(outcome.dtypes, parts))
        after = {position: np.array(array) for position, array in enumerate(outcome.arguments)}
        PROGRAMS.append(Program(item.name, function, make, result, after, item.section))
        return function

    return register


def write(p, a):
    p[0] = p[0] + a
    p[1] += 2 * a
    return p[0] + a


def write_row(p, a):
    p[0, 0] += a
    p[0, 1] += 2 * a
    return p[0, 0] + a


def write_vector(p, a):
    p[0] = p[0] + a
    return p[1][0] + a


def change_vector(v: qd.template(), a):
    v[0] = v[0] + a
    v[1] = v[1] + 3
    return v[0] + a


def change_number(x: qd.template(), a):
    x = x + a
    return x * 2


@_oracle(_numbers)
def every_operator(p):
    p[0] += write(p, 3)
    p[1] -= write(p, 3)
    p[0] *= write(p, 3)
    p[0] &= write(p, 3)
    p[0] |= write(p, 3)
    p[0] ^= write(p, 3)
    p[0] //= write(p, 3)
    p[1] %= write(p, 3)
    p[0] <<= write(p, 3) & 3
    p[1] >>= write(p, 3) & 3
    p[0] **= write(p, 3) & 1


@_oracle(_same_twice)
def one_array_by_two_names(p, q):
    q[0] ^= write(p, 3)
    p[1] -= write(q, 2)


@_oracle(_overlapping)
def arrays_that_overlap(p, q):
    q[1] += write(p, 3)
    q[2] *= write(p, 1)


@_oracle(_numbers)
def loop_in_order(p):
    for i in range(6):
        p[0] += write(p, i)


@_oracle(_numbers)
def element_of_one_iteration(p):
    for i in range(len(p)):
        p[i] += qd.atomic_add(p[i], 5) + qd.atomic_mul(p[i], 2)


@_oracle(_numbers)
def value_under_conditions(p):
    for i in range(3):
        if p[i] > -1000:
            p[i] -= write(p, i) if i < 2 else 5


@_oracle(_numbers)
def index_is_computed_once_and_first(p):
    p[write(p, 0) & 1] += write(p, 1)
    p[qd.atomic_add(p[3], 1) & 7] += p[3]


@_oracle(_numbers)
def names(p):
    x = p[0]
    x += (x := 3)
    y = p[1]
    y -= change_number(y, 3)
    return x, y


@_oracle(_numbers)
def components_of_a_vector(p):
    v, w, u = qd.Vector([1, 2, 3]), qd.Vector([4, 5, 6]), qd.Vector([7, 8, 9])
    v[0] += change_vector(v, 3)
    v[p[0] & 1] //= change_vector(v, 3)
    w.y -= change_vector(w, 3)
    u[0] += (u := qd.Vector([10, 20, 30]))[1]
    return *v, *w, *u


@_oracle(_numbers)
def whole_vectors(p):
    v, w = qd.Vector([1, 2, 3]), qd.Vector([4, 5, 6])
    v += change_vector(v, 3)
    w += (w := qd.Vector([10, 20, 30]))
    return *v, *w


@_oracle(_rows)
def rows_are_views(p):
    p[0] += write_row(p, 3)
    p[0] //= write_row(p, 1)
    w = p[0]
    w -= write_row(p, 2)
    w *= write_row(p, 2)
    w %= write_row(p, 9)


@_oracle(_rows)
def slices_are_views(p):
    p[0, 0:2] += write_row(p, 3)
    p[0][0:2] -= write_row(p, 3)
    p[0, 1:3] //= write_row(p, 3)


@_oracle(_rows)
def elements_of_rows(p):
    p[0, 0] += write_row(p, 3)
    p[0][1] -= write_row(p, 3)
    p[0][0] //= write_row(p, 3)


def vectors_are_values(p):
    p[0] += write_vector(p, 3)
    p[0][1] -= write_vector(p, 3)
    p[0].yx += write_vector(p, 3)
    p[0].x ^= write_vector(p, 3)
    p[0][0:2] += write_vector(p, 3)
    p[0] //= write_vector(p, 3)
    p[0].zx %= write_vector(p, 3)


_oracle(_vectors("field"))(vectors_are_values)
_oracle(_vectors("ndarray"))(vectors_are_values)


@pytest.mark.parametrize("executor", sorted(name for name in EXECUTORS if name != "oracle"))
@pytest.mark.parametrize("item", PROGRAMS, ids=lambda item: item.name)
def test_python_reads_the_target_first(item: Program, executor: str) -> None:
    runner: Executor = EXECUTORS[executor]
    assert mismatch(item, runner.run(item)) is None


@pytest.fixture(params=[("x64", 1), ("x64", 0), ("reference", 1)], ids=str)
def target(request):
    arch, level = request.param
    qd.init(arch=getattr(qd, arch), default_ip=qd.i64, default_fp=qd.f64, opt_level=level, offline_cache=False)
    yield arch
    qd.reset()


def move(x, i):
    x[i] = x[i] * 0.5
    return x[i] * x[i]


def test_a_sum_of_what_functions_give_stays_a_parallel_reduction(target):
    @qd.kernel
    def run(x, energy):
        for i in range(x.shape[0]):
            energy[0] += move(x, i)

    x, energy = np.ones(5000), np.zeros(1)
    run(x, energy)
    assert energy[0] == 1250.0 and np.all(x == 0.5)
    assert "runs in order" not in run.report() and "update_loaded" not in str(run.ir())


def test_elements_of_ones_own_are_read_first_in_parallel(target):
    @qd.kernel
    def run(x):
        for i in range(x.shape[0]):
            x[i] += move(x, i)

    x = np.full(5000, 2.0)
    run(x)
    assert np.all(x == 3.0)
    assert "runs in order" not in run.report()


def test_iterations_that_meet_update_in_one_step(target):
    @qd.kernel
    def run(x, count):
        for i in range(x.shape[0]):
            count[0] += 1 + min(qd.atomic_add(count[0], 2), 0)

    count = np.zeros(1, np.int64)
    run(np.zeros(5000), count)
    assert count[0] == 15000
    assert "runs in order" not in run.report()


def test_a_dependence_is_found_whatever_reads_the_element(target):
    @qd.kernel
    def run(x):
        for i in range(1, x.shape[0]):
            x[i] += x[i - 1] + 0 * qd.atomic_add(x[i], 0.0)

    x = np.ones(100)
    run(x)
    assert x[-1] == 100.0
    assert "runs in order" in run.report()


def test_narrow_numbers_wrap_where_dependence_is_computed(target):
    @qd.kernel
    def run(x):
        for i in range(x.shape[0]):
            narrow = qd.i16(i * 40000) ** 2
            if qd.i16(narrow * 3) // 7 > 0:
                x[i] += 1

    x = np.zeros(50, np.int64)
    run(x)
    i = np.arange(50, dtype=np.int64)
    narrow = (i * 40000).astype(np.int16)
    squared = (narrow * narrow).astype(np.int16)
    assert np.array_equal(x, ((squared * np.int16(3)).astype(np.int16) // np.int16(7) > 0).astype(np.int64))
