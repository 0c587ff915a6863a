"""Control flow on every target, against Python itself."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

import quadrants as qd
from quadrants import knobs
from quadrants.evidence.programs import Program, TargetExecutor, disagreement, program

PROGRAMS: list[Program] = []
runs = partial(program, PROGRAMS)
RANDOM = np.random.default_rng(7)


def i32(*values: int) -> np.ndarray:
    return np.array(values, np.int32)


@runs(args=(30, i32(0, 0, 0)))
def fizz_buzz(n, counts):
    for k in range(n):
        if k % 15 == 0:
            counts[0] += 1
        elif k % 5 == 0:
            counts[1] += 1
        elif k % 3 == 0:
            counts[2] += 1


@runs(args=(np.arange(40, dtype=np.int32),))
def collatz_lengths(a):
    for i in range(len(a)):
        n = a[i] + 1
        steps = 0
        while n != 1:
            if n % 2 == 0:
                n = n // 2
            else:
                n = 3 * n + 1
            steps += 1
        a[i] = steps


@runs(args=(100, np.zeros(100, np.int32)))
def primes_by_trial(n, out):
    for p in range(2, n):
        d = 2
        while d * d <= p:
            if p % d == 0:
                break
            d += 1
        else:
            out[p] = 1


@runs(args=(100, np.ones(100, np.int32)))
def sieve_with_steps(n, prime):
    prime[0] = 0
    prime[1] = 0
    for p in range(2, n):
        if prime[p] == 1:
            for k in range(p * p, n, p):
                prime[k] = 0


@runs(args=(252, 105))
def greatest_common_divisor(a: qd.i32, b: qd.i32):
    while b != 0:
        a, b = b, a % b
    return a


@runs(args=(np.array([5, 2, 9, 1, 7, 3, 8], np.int32),))
def insertion_sort(a):
    qd.loop_config(serialize=True)
    for i in range(1, len(a)):
        x = a[i]
        j = i - 1
        while j >= 0 and a[j] > x:
            a[j + 1] = a[j]
            j -= 1
        a[j + 1] = x


@runs(args=(np.sort(RANDOM.integers(0, 1000, 50)).astype(np.int32), i32(3, 500, 999), i32(0, 0, 0)))
def binary_search(a, wanted, out):
    for q in range(len(wanted)):
        low = 0
        high = len(a)
        while low < high:
            middle = (low + high) // 2
            if a[middle] < wanted[q]:
                low = middle + 1
            else:
                high = middle
        out[q] = low


@runs(args=(np.zeros(64, np.int32),))
def nested_breaks_and_continues(out):
    for i in range(8):
        for j in range(8):
            if j > i:
                break
            if (i + j) % 3 == 0:
                continue
            out[8 * i + j] = i * j + 1


@runs(args=(6, np.zeros(6, np.int32)))
def else_clauses_in_nested_loops(n, out):
    for i in range(n):
        for j in range(n):
            if i * j == 6:
                out[i] = 100 + j
                break
            if i == 5:
                continue
        else:
            out[i] = -1


@runs(args=(i32(3, 0, 2), i32(0, 0, 0)))
def else_without_break_gives_names_their_values(a, out):
    for i in range(len(a)):
        x = a[i]
        for j in range(1):
            x = a[j]
        k = 0
        while k < 3:
            k += 1
            x = 7
        else:
            x = a[i] + k
        for j in range(a[i]):
            for l in range(2):
                if l == 1:
                    break
        else:
            y = x + 1
        out[i] = y


@runs(args=(5, 20))
def return_from_nested_loops(n, limit):
    for i in range(n):
        for j in range(n):
            for k in range(n):
                if i * i + j * j + k * k > limit:
                    return 100 * i + 10 * j + k
    return -1


@runs(args=(5, 2000))
def return_never_taken_in_nested_loops(n, limit):
    for i in range(n):
        for j in range(n):
            if i * j > limit:
                return i
    return -1


@runs(args=(np.zeros(10, np.int32), 4))
def return_in_the_middle_of_stores(a, stop):
    for i in range(10):
        a[i] = i + 1
        if i == stop:
            return
        a[i] += 100


@runs(args=(1000,))
def while_with_two_exits(n):
    k = 1
    while k < n:
        k *= 3
        if k % 7 == 2:
            break
        k += 1
    return k


@runs(args=(17,))
def while_true_returns(n):
    k = 0
    while True:
        k += 1
        if k * k >= n:
            return k


@runs(args=(3, 4, 5))
def conditional_chain(a, b, c):
    x = a if a > b else b if b > c else c
    y = (a < b < c) and not (a == b or b == c)
    return x, y


@runs(args=(np.zeros(8, np.int32),))
def lazy_operators_count_calls(out):
    for i in range(8):
        if i > 2 and 10 // (i - 2) > 2 or i == 0:
            out[i] = 1


@runs(args=(10,))
def names_that_meet_in_a_loop(n):
    a, b, c = 1, 2, 3
    for i in range(n):
        if i % 3 == 0:
            a, b = b, a
        elif i % 3 == 1:
            b, c = c, b
        else:
            a = a + b - c
    return a, b, c


@runs(args=(8,))
def variable_of_the_loop_afterwards(n):
    total = 0
    for i in range(n):
        for j in range(i):
            total += j
    return total + i + j


@runs(args=(12, np.zeros(12, np.int32)))
def backward_and_stepped_ranges(n, out):
    for i in range(n - 1, -1, -1):
        out[i] = n - i
    for i in range(1, n, 3):
        out[i] *= 10
    for i in range(n, 0, -5):
        out[i - 1] += 1000


@runs(args=(0, 10, np.zeros(4, np.int32)))
def ranges_of_no_trips(zero, n, out):
    for i in range(zero):
        out[0] += 1
    for i in range(n, n):
        out[1] += 1
    for i in range(n, 0):
        out[2] += 1
    for i in range(0, n, -1):
        out[3] += 1


@runs(args=(np.zeros(6, np.int32),))
def store_before_continue(out):
    for stop in range(6):
        s = 0
        held = 7
        for k in range(5):
            s += held
            held = k
            if k == stop:
                continue
            held = 50
        out[stop] = s


@runs(args=(np.zeros(1000, np.int32),))
def break_in_static_loops(ok):
    for n in range(1000):
        good = 1
        for a in qd.static(range(3)):
            for b in qd.static(range(3)):
                if a < b:
                    if (n // 10**a) % 10 == (n // 10**b) % 10:
                        good = 0
                        break
        ok[n] = good


@runs(args=(5,))
def deep_conditions(n):
    r = 0
    for i in range(n):
        if i > 0:
            if i > 1:
                if i > 2:
                    if i > 3:
                        r += 1000
                    else:
                        r += 100
                else:
                    r += 10
            else:
                r += 1
    return r


@runs(args=(50,))
def state_machine(n):
    state = 0
    visits = 0
    for step in range(n):
        if state == 0:
            state = 1 if step % 2 == 0 else 2
        elif state == 1:
            state = 2
            visits += 1
        else:
            state = 0
            visits += 10
    return visits, state


@runs(args=(np.zeros((20, 30), np.int32),))
def mandelbrot_counts(out):
    for i, j in qd.ndrange(20, 30):
        x = y = 0.0
        a = -2.0 + 3.0 * j / 30
        b = -1.0 + 2.0 * i / 20
        k = 0
        while k < 50 and x * x + y * y < 4.0:
            x, y = x * x - y * y + a, 2.0 * x * y + b
            k += 1
        out[i, j] = k


@runs(args=(np.zeros(4, np.int32), 3))
def pass_and_bare_expressions(out, n):
    for i in range(n):
        if i == 1:
            pass
        else:
            out[i] = 1
        n + i
    "a string is no statement of weight"


def _left_in_half(a, b, v):
    if a > 0:
        if b > 5:
            return 1, v
        b += 10
        v = (b, a)
    elif a < -2:
        b -= 10
        if b < -6:
            return 2, v
    for k in range(4):
        if k * k > b + 20:
            return k, v
        elif k == a:
            v = (v[1], k)
    return b, v


@runs(args=(np.arange(-4, 6, dtype=np.int32), np.zeros(30, np.int32)))
def what_a_branch_that_stays_assigns(x, out):
    for i in range(len(x)):
        b = 0
        pair = (0, 0)
        if x[i] == 2:
            continue
        else:
            b = x[i] + 10
            pair = (b, i)
        p, q = _left_in_half(x[i], i, pair)
        out[3 * i] = b + p
        out[3 * i + 1] = q[0]
        out[3 * i + 2] = q[1]


@pytest.mark.parametrize("item", PROGRAMS, ids=lambda item: item.name)
def test_control_flow(item: Program, executor: TargetExecutor) -> None:
    assert disagreement(item, executor) is None


def test_values_of_the_branch_that_stays_are_visible() -> None:
    item = PROGRAMS[-1]
    assert item.name == "what_a_branch_that_stays_assigns"
    before = knobs.current.verify
    knobs.current.verify = True
    try:
        qd.kernel(what_a_branch_that_stays_assigns)(np.arange(4), np.zeros(12, np.int64))
    finally:
        knobs.current.verify = before
