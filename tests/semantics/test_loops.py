"""Loops: which run in parallel, which in order, and what Python's clauses mean in them.

What every row of the truth table promises is a value: iterations that depend on one another see one another in order,
updates that meet are all there.
"""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

import quadrants as qd
from quadrants.evidence.programs import Executor, FieldOf, Program, mismatch, program

PROGRAMS: list[Program] = []
loops = partial(program, PROGRAMS, section="Loops")
MANY = 5000


def i32(*values: int) -> np.ndarray:
    return np.array(values, np.int32)


def f64(*values: float) -> np.ndarray:
    return np.array(values, np.float64)


def zeros(count: int) -> np.ndarray:
    return np.zeros(count, np.int32)


# In parallel, with updates that meet.


@loops(args=(np.arange(MANY, dtype=np.int32),), after={0: [3 * k + 1 for k in range(MANY)]})
def independent_iterations(a):
    for i in range(len(a)):
        a[i] = 3 * a[i] + 1


@loops(args=(np.ones(MANY, np.int32),), result=("i32", MANY))
def sum_over_a_name(a):
    s = qd.i32(0)
    for i in range(len(a)):
        s += a[i]
    return s


@loops(args=(np.ones(MANY, np.int32),), result=("i32", -MANY))
def difference_over_a_name(a):
    s = qd.i32(0)
    for i in range(len(a)):
        s -= a[i]
    return s


@loops(args=(i32(1, 2, 3, 4, 5),), result=("i32", 120))
def product_over_a_name(a):
    p = qd.i32(1)
    for i in range(len(a)):
        p *= a[i]
    return p


@loops(args=(i32(3, -7, 12, 5),), result=(("i32", -7), ("i32", 12)))
def extremes_over_names(a):
    low = a[0]
    high = a[0]
    for i in range(len(a)):
        low = min(low, a[i])
        high = max(high, a[i])
    return low, high


@loops(args=(i32(1, 2, 4, 5),), result=(("i32", 0), ("i32", 7), ("i32", 2)))
def bits_over_names(a):
    every = a[0]
    some = a[0]
    odd = qd.i32(0)
    for i in range(len(a)):
        every &= a[i]
        some |= a[i]
        odd ^= a[i]
    return every, some, odd


@loops(args=(np.arange(MANY, dtype=np.int32), zeros(4)), after={1: [1250, 1250, 1250, 1250]})
def updates_of_elements_that_meet(a, counts):
    for i in range(len(a)):
        counts[a[i] % 4] += 1


@loops(args=(FieldOf("i32", 0), MANY), after={0: np.int32(MANY)})
def updates_of_a_field_without_axes(total, n):
    for i in range(n):
        total[None] += 1


@loops(args=(i32(1, 2, 3, 4), i32(3, 0, 2, 1), zeros(4)), after={2: [2, 4, 3, 1]})
def stores_through_indices_of_run_time(a, order, out):
    for i in range(4):
        out[order[i]] = a[i]


@loops(args=(i32(9), 4), result=("i32", 9), after={0: i32(13)})
def atomic_addition_gives_the_old_value(a, n):
    old = qd.atomic_add(a[0], n)
    return old


@loops(args=(zeros(1), zeros(100)), after={0: i32(100), 1: np.ones(100)})
def old_values_are_all_different(counter, seen):
    for i in range(100):
        slot = qd.atomic_add(counter[0], 1)
        seen[slot] += 1


@loops(args=(i32(5, 5, 5, 5), 3), result=(("i32", 5), ("i32", 5), ("i32", 5)), after={0: i32(2, 3, 7, 3)})
def other_atomic_updates_give_the_old_value(a, n):
    x = qd.atomic_sub(a[0], n)
    y = qd.atomic_min(a[1], n)
    z = qd.atomic_max(a[2], 7)
    qd.atomic_exchange(a[3], n)
    return x, y, z


# In order, for a certain dependence.


@loops(args=(np.ones(64, np.int32),), after={0: list(range(1, 65))})
def iteration_that_reads_what_the_last_one_stored(a):
    for i in range(1, len(a)):
        a[i] = a[i - 1] + 1


@loops(args=(10,), result=("i64", 55))
def names_carried_over(n):
    a = 0
    b = 1
    for i in range(n):
        a, b = b, a + b
    return a


@loops(args=(i32(4, 9, 2, 9, 1),), result=(("i32", 9), ("i64", 1)))
def place_of_the_largest(a):
    best = a[0]
    where = 0
    for i in range(len(a)):
        if a[i] > best:
            best = a[i]
            where = i
    return best, where


@loops(args=(f64(0.0, 0.0, 8.0, 0.0, 0.0), f64(0.0, 0.0, 0.0, 0.0, 0.0), 2), after={0: f64(0.0, 2.25, 4.5, 2.25, 0.0)})
def time_loop_around_inner_loops(u, v, steps):
    for t in range(steps):
        for i in range(1, 4):
            v[i] = 0.25 * u[i - 1] + 0.5 * u[i] + 0.25 * u[i + 1]
        for i in range(1, 4):
            u[i] = v[i]
        u[2] += 1.0


@loops(args=(zeros(1), zeros(5)), after={0: i32(10), 1: [0, 1, 3, 6, 10]})
def update_that_another_iteration_reads(total, out):
    for i in range(5):
        total[0] += i
        out[i] = total[0]


@loops(args=(zeros(5),), after={0: [0, 1, 3, 6, 10]})
def running_sum_of_a_name(out):
    s = 0
    for i in range(5):
        s += i
        out[i] = s


@loops(args=(zeros(1), 6), after={0: i32(5)})
def last_iteration_stores_last(a, n):
    for i in range(n):
        a[0] = i


@loops(args=(i32(1, 2, 3, 4), zeros(1)), after={1: i32(1234)})
def insistence_on_order(a, out):
    qd.loop_config(serialize=True)
    for i in range(4):
        out[0] = out[0] * 10 + a[i]


@loops(args=(i32(5, 4, 3, 2, 1),), after={0: i32(1, 2, 3, 4, 5)})
def bubble_sort(a):
    for i in range(len(a)):
        for j in range(len(a) - 1):
            if a[j] > a[j + 1]:
                a[j], a[j + 1] = a[j + 1], a[j]


@loops(args=(np.arange(9000, 0, -1),), after={0: np.append(np.arange(8999, 0, -1), 9000)})
def pass_over_many_neighbours(a):
    for i in range(len(a) - 1):
        if a[i] > a[i + 1]:
            a[i], a[i + 1] = a[i + 1], a[i]


# Break, return, continue, else.


@loops(args=(i32(1, 5, 7, 5),), result=("i64", 1))
def break_at_top_level(a):
    where = -1
    for i in range(len(a)):
        if a[i] == 5:
            where = i
            break
    return where


@loops(args=(i32(1, 5, 7, 5), 7), result=("i64", 2))
def return_from_a_loop(a, wanted):
    for i in range(len(a)):
        if a[i] == wanted:
            return i
    return -1


@loops(args=(i32(1, 5, 7, 5), 8), result=("i64", -1))
def return_after_a_loop(a, wanted):
    for i in range(len(a)):
        if a[i] == wanted:
            return i
    return -1


@loops(args=(7, 9), result=(("i64", 1), ("i64", 0)))
def else_of_a_for_loop(p, q):
    first = 0
    for d in range(2, p):
        if p % d == 0:
            break
    else:
        first = 1
    second = 0
    for d in range(2, q):
        if q % d == 0:
            break
    else:
        second = 1
    return first, second


@loops(args=(10,), result=(("i64", 4), ("i64", 7)))
def else_of_a_while_loop(n):
    k = 0
    ended = 0
    while k * k < n:
        k += 1
    else:
        ended = 7
    return k, ended


@loops(args=(10,), result=("i64", 25))
def continue_skips_the_rest(n):
    s = 0
    for i in range(n):
        if i % 2 == 0:
            continue
        s += i
    return s


@loops(args=(5, 3), result=("i64", 3))
def store_before_continue_survives(n, stop):
    held = 7
    for k in range(n):
        held = k
        if k == stop:
            continue
        held = 50
    return held if n == 4 else stop


@loops(args=(4,), result=("i64", 6))
def break_leaves_the_inner_loop_only(n):
    s = 0
    for i in range(n):
        for j in range(n):
            if j == i:
                break
            s += 1
    return s


@loops(args=(100,), result=("i64", 7))
def while_true_with_break(n):
    k = 0
    while True:
        k += 1
        if k * k * 2 >= n - 2:
            break
    return k


# Ranges.


@loops(args=(0, 5), result=("i64", 5))
def loop_of_zero_trips(n, s):
    for i in range(n):
        s = 100
    for i in range(7, 3):
        s = 200
    return s


@loops(args=(2**40,), result=("i64", 3 * 2**40 + 3))
def ranges_are_64_bit(start):
    s = 0
    for i in range(start, start + 3):
        s += i
    return s


@loops(args=(3,), result=("i64", 3))
def bounds_are_evaluated_once(n):
    trips = 0
    for i in range(n):
        n = 10
        trips += 1
    return trips


@loops(args=(zeros(5),), after={0: [10, 8, 6, 4, 2]})
def negative_step(out):
    k = 0
    for i in range(10, 0, -2):
        out[k] = i
        k += 1


@loops(args=(10, 3), result=(("i64", 18), ("i64", 22)))
def step_of_run_time(n, step):
    up = 0
    for i in range(0, n, step):
        up += i
    down = 0
    for i in range(n, 0, -step):
        down += i
    return up, down


@loops(args=(np.zeros((2, 3), np.int32),), after={0: [[0, 1, 2], [10, 11, 12]]})
def product_of_ranges(a):
    for i, j in qd.ndrange(2, 3):
        a[i, j] = 10 * i + j


@loops(args=(FieldOf("i32", np.zeros((2, 3))),), after={0: [[0, 1, 2], [10, 11, 12]]})
def indices_of_a_field(f):
    for i, j in f:
        f[i, j] = 10 * i + j


@loops(args=(FieldOf("i32", np.zeros((2, 3))),), after={0: [[0, 1, 2], [10, 11, 12]]})
def grouped_indices_of_a_field(f):
    for p in qd.grouped(f):
        f[p] = 10 * p[0] + p[1]


@loops(args=(zeros(3),), after={0: [0, 2, 4]})
def static_loop_inside_a_loop(a):
    for i in range(3):
        for k in qd.static(range(2)):
            a[i] += i


# Sequences and nesting.


@loops(args=(zeros(64), zeros(64)), after={1: [2 * (63 - k) for k in range(64)]})
def loops_follow_one_another(a, b):
    for i in range(64):
        a[i] = 2 * i
    for i in range(64):
        b[i] = a[63 - i]


@loops(args=(zeros(3), 1), result=("i32", 12), after={0: [6, 4, 2]})
def statements_between_loops(a, n):
    for i in range(3):
        a[i] = i
    total = a[0] + a[1] + a[2]
    for i in range(3):
        a[i] = 2 * (total - i)
    total = a[0] + a[1] + a[2]
    return total


@loops(args=(zeros(4), 1), after={0: [0, 1, 2, 3]})
def loop_under_a_condition(a, n):
    if n > 0:
        for i in range(4):
            a[i] = i


def _fill(a, n):
    for i in range(n):
        a[i] = 2 * i


@loops(args=(zeros(4),), after={0: [0, 2, 4, 6]})
def loop_in_a_function_called_at_top_level(a):
    _fill(a, 4)


@loops(args=(zeros(4),), after={0: [0, 1, 2, 3]})
def loop_under_a_static_condition(a):
    if qd.static(True):
        for i in range(4):
            a[i] = i


@loops(args=(np.zeros((3, 3), np.int32),), after={0: [[1, 2, 3], [2, 4, 6], [3, 6, 9]]})
def nested_loops(a):
    for i in range(3):
        for j in range(3):
            a[i, j] = (i + 1) * (j + 1)


@pytest.mark.parametrize("item", PROGRAMS, ids=lambda item: item.name)
def test_loops(item: Program, executor: Executor) -> None:
    assert mismatch(item, executor.run(item)) is None


def _plain_sum(a):
    s = qd.f32(0)
    for i in range(len(a)):
        s += a[i]
    return s


@pytest.mark.parametrize("executor", ["x64"], indirect=True)
def test_long_sums_are_accurate(executor: Executor) -> None:
    """Partial sums per chunk keep a long f32 sum right to 1e-6. That is a promise of compiled targets: the oracle and the
    reference add one by one."""
    count = 1 << 22
    launch = executor.launcher(_plain_sum)
    found = launch(np.full(count, 0.1, np.float32))
    assert found == pytest.approx(count * float(np.float32(0.1)), rel=1e-6)


def test_sums_have_the_same_bits_for_any_number_of_threads() -> None:
    """The chunks of a reduction do not depend on how many threads run it."""
    values = np.random.default_rng(1).standard_normal(300_000).astype(np.float32)
    found = set()
    for threads in (1, 2, 3):
        qd.init(arch=qd.cpu, cpu_max_num_threads=threads)
        found.add(qd.kernel(_plain_sum)(values))
    assert len(found) == 1
