"""Launches that stay out of Python: numbers that change outside, containers as arguments."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import quadrants as qd
from quadrants import knobs
from quadrants.errors import QuadrantsRuntimeError, QuadrantsRuntimeTypeError, QuadrantsTypeError
from quadrants.lang import bindings
from quadrants.runtime import launch

pytestmark = pytest.mark.skipif(not launch.is_native(), reason="this interpreter launches through Python")

FACTOR: Any = 2.0


@dataclasses.dataclass(frozen=True)
class Inner:
    weights: Any
    count: int


@dataclasses.dataclass(frozen=True)
class Frozen:
    x: Any
    y: Any
    inner: Inner


@dataclasses.dataclass
class Loose:
    x: Any
    factor: float
    inner: Inner


@pytest.fixture(autouse=True)
def untimed(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine a launch may take so long that it is worth tuning, which Python does."""
    monkeypatch.setattr(knobs.current, "autotune", False)


def slow_calls(kernel: Any, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """A list that grows with each call of the kernel that Python handles."""
    found: list[int] = []
    original = type(kernel)._slow_call

    def counted(self: Any, *arguments: Any) -> Any:
        found.append(1)
        return original(self, *arguments)

    monkeypatch.setattr(type(kernel), "_slow_call", counted)
    return found


def test_changing_globals(monkeypatch: pytest.MonkeyPatch) -> None:
    @qd.kernel
    def scale(x):
        for i in range(len(x)):
            x[i] = FACTOR * i

    x = np.zeros(5)
    for value in (2.0, 3.0, 4.0):
        monkeypatch.setitem(globals(), "FACTOR", value)
        scale(x)
        scale(x)
    found = slow_calls(scale, monkeypatch)
    for value in (5.0, -1.5, 0.25):
        monkeypatch.setitem(globals(), "FACTOR", value)
        scale(x)
        assert (x == value * np.arange(5)).all()
    assert not found
    monkeypatch.setitem(globals(), "FACTOR", 3)
    scale(x)
    assert (x == 3 * np.arange(5)).all() and found


def test_frozen_dataclasses(monkeypatch: pytest.MonkeyPatch) -> None:
    @qd.kernel
    def fill(state, shift):
        for i in range(len(state.x)):
            state.y[i] = state.x[i] + state.inner.count * state.inner.weights[i] + shift

    state = Frozen(np.arange(4.0), np.zeros(4), Inner(np.ones(4), 3))
    for _ in range(3):
        fill(state, 1.0)
    found = slow_calls(fill, monkeypatch)
    state.x[:] = 5
    fill(state, 2.0)
    assert not found and (state.y == 10).all()
    other = dataclasses.replace(state, inner=Inner(np.full(4, 2.0), 4))
    fill(other, 2.0)
    assert found and (state.y == 15).all()
    fill(other, 2.0)
    fill(other, 2.0)
    del found[:]
    fill(other, 3.0)
    fill(state, 3.0)
    assert not found and (state.y == 11).all()
    shared = np.arange(6.0)
    aliased = Frozen(shared[:-1], shared[1:], Inner(np.zeros(5), 0))
    fill(aliased, 0.0)
    assert shared.tolist() in ([0] * 6, [0, 0, 1, 2, 3, 4])


def test_dataclasses_that_change(monkeypatch: pytest.MonkeyPatch) -> None:
    @qd.kernel
    def fill(state):
        for i in range(len(state.x)):
            state.x[i] = state.factor + state.inner.count

    state = Loose(np.zeros(3), 1.5, Inner(None, 2))
    for _ in range(3):
        fill(state)
    found = slow_calls(fill, monkeypatch)
    state.factor, state.x = 2.5, np.zeros(3)
    fill(state)
    assert not found and (state.x == 4.5).all()
    state.inner = Inner(None, 4)
    fill(state)
    assert (state.x == 6.5).all()


def test_tuples_of_each_call(monkeypatch: pytest.MonkeyPatch) -> None:
    @qd.kernel
    def add(pair, k):
        for i in range(len(pair[0])):
            pair[0][i] = pair[1][i] + k

    arrays = [np.arange(5.0) for _ in range(4)]
    for _ in range(3):
        add((arrays[0], arrays[1]), 1)
    found = slow_calls(add, monkeypatch)
    for one, other in ((0, 1), (2, 3), (3, 0)):
        add((arrays[one], arrays[other]), 2)
        assert (arrays[one] == arrays[other] + 2).all()
    assert not found
    add((arrays[1], arrays[1]), 0)
    assert (arrays[1] == np.arange(5.0)).all()


def test_containers_that_never_come_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each call with another object: right, and not prepared for again and again."""

    @qd.kernel
    def total(state):
        s = 0.0
        for i in range(len(state.weights)):
            s += state.weights[i] * state.count
        return s

    for number in range(30):
        assert total(Inner(np.full(3, 2.0), number)) == 6 * number


def test_numbers_that_grow_beyond_64_bits() -> None:
    count = 3

    @qd.kernel
    def f(x: qd.f64):
        return x + count

    for count in (3, 4, 5, 2**63 + 5, 6, -(2**63), 7):
        assert f(0.5) == 0.5 + count
    count = 2**70
    with pytest.raises(QuadrantsTypeError, match="more than 64 bits"):
        f(0.5)
    count = 8
    assert f(0.5) == 8.5


def test_captured_arrays_that_are_changed_in_place(monkeypatch: pytest.MonkeyPatch) -> None:
    """Their memory, sizes and elements' types are looked at in each launch, elements that change cost nothing."""
    values, grid = np.arange(6.0), np.zeros((3, 4))

    @qd.kernel
    def total():
        s = 0.0
        for i in range(len(values)):
            s += values[i]
        return s

    @qd.kernel
    def fill():
        for i in range(grid.shape[0]):
            for j in range(grid.shape[1]):
                grid[i, j] = 10 * i + j

    for _ in range(3):
        assert total() == 15.0
        fill()
    found = slow_calls(total, monkeypatch)
    values += 1.0
    assert total() == 21.0 and not found
    values.resize((30000,), refcheck=False)
    values[:] = 2.0
    assert total() == 60000.0
    values.dtype = np.int64
    values[:] = 3
    assert total() == 90000
    grid.shape = (4, 3)
    fill()
    assert grid.tolist() == [[10 * i + j for j in range(3)] for i in range(4)]


def test_objects_that_get_other_members_at_once() -> None:
    """`object.__dict__ = …`: what the launcher looks up is no longer the object's."""

    @qd.data_oriented
    class Counter:
        def __init__(self) -> None:
            self.count = 1
            self.x = np.zeros(3)

        @qd.kernel
        def fill(self):
            for i in range(len(self.x)):
                self.x[i] = self.count

    @qd.kernel
    def fill(state):
        for i in range(len(state.x)):
            state.x[i] = state.factor

    counter, state = Counter(), Loose(np.zeros(3), 2.0, Inner(np.zeros(1), 3))
    for number in range(4):
        counter.count, state.factor = number, number + 0.5
        counter.fill()
        fill(state)
    counter.__dict__ = {"count": 8, "x": np.zeros(4)}
    state.__dict__ = {**state.__dict__, "factor": 9.5, "x": np.zeros(5)}
    for _ in range(2):
        counter.fill()
        fill(state)
        assert counter.x.tolist() == [8.0] * 4
        assert state.x.tolist() == [9.5] * 5
    counter.__dict__.update(count=7)
    counter.fill()
    assert counter.x.tolist() == [7.0] * 4


@pytest.mark.parametrize("initialised", (False, True))
def test_the_type_of_a_number_does_not_depend_on_what_it_was(
    initialised: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a constant, when it changes, in the launcher, when it does not fit, and when it fits again."""
    if initialised:
        qd.init(arch=qd.cpu, autotune=False)
    number = 3000

    @qd.kernel
    def grown(n: int):
        x = number
        for _ in range(n):
            x = x * 1000000
        return x

    def wrapped(value: int) -> int:
        wide = 64 if not initialised or abs(value) >= 2**31 else 32
        product = value * 1000000 % (1 << wide)
        return product - (1 << wide) if product >> (wide - 1) else product

    values = (3000, 3001, 3002, 3000, 2**31 + 1, 2**31 + 2, 3000, -(2**40), 3001, 3000, -5, 2**31 - 1)
    for value in values * 2:
        number = value
        assert grown(1) == wrapped(value), value
    found = slow_calls(grown, monkeypatch)
    for number in range(3000, 3020):
        assert grown(1) == wrapped(number)
    assert not found


def test_forms_by_turns_give_results_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    @qd.kernel
    def of_kind(x, kind: qd.template()):
        x[0] += 1
        if qd.static(kind == 0):
            return None
        elif qd.static(kind == 1):
            return 1.5, 2
        elif qd.static(kind == 2):
            return 7
        elif qd.static(kind == 3):
            return qd.Vector([1, 2])
        else:
            return 3, 4

    @qd.kernel
    def doubled(x):
        s = 0 * x[0]
        for i in range(len(x)):
            s += 2 * x[i]
        return s

    x = np.zeros(1)
    expected = (None, (1.5, 2), 7, [1, 2], (3, 4))
    types = (np.float32, np.float64, np.int32, np.int64, np.uint8, np.int16)
    arrays = [np.arange(5).astype(dtype) for dtype in types]
    for turn in range(3):
        found = slow_calls(of_kind, monkeypatch) if turn == 2 else []
        for kind in (0, 1, 0, 1, 2, 0, 3, 4, 1, 4, 3, 2, 2):
            result = of_kind(x, kind)
            assert (list(result) if kind == 3 else result) == expected[kind]
        for array in arrays:
            result = doubled(array)
            assert result == 20 and type(result) is (int if array.dtype.kind in "iu" else float)
        assert not found


def test_fields_that_are_destroyed() -> None:
    """Captured, or passed as a template: the kernel does not touch memory that was given back."""
    qd.init(arch=qd.cpu)
    places = qd.FieldsBuilder()
    x, y = qd.field(qd.f32), qd.field(qd.f32)
    places.dense(qd.i, 8).place(x, y)
    tree = places.finalize()

    @qd.kernel
    def fill():
        for i in x:
            x[i] = i

    @qd.kernel
    def fill_template(field: qd.template()):
        for i in field:
            field[i] = i

    for _ in range(3):
        fill()
        fill_template(y)
    tree.destroy()
    for _ in range(2):
        with pytest.raises(QuadrantsRuntimeError, match="freed"):
            fill()
        with pytest.raises(QuadrantsRuntimeError, match="freed"):
            fill_template(y)


@qd.kernel
def add_to(y, x):
    for i in range(x.shape[0]):
        y[i] += x[i]


@pytest.mark.slow
@pytest.mark.parametrize("has_table", [True, False])
def test_torch_tensors(monkeypatch: pytest.MonkeyPatch, has_table: bool) -> None:
    """Older torches have no table of DLPack's functions."""
    torch = pytest.importorskip("torch")
    if not has_table:
        monkeypatch.delattr(torch.Tensor, "__dlpack_c_exchange_api__", raising=False)
    add_to._forget()
    found = slow_calls(add_to, monkeypatch)
    x, y = torch.ones(6), torch.zeros(6)
    parameter, leaf = torch.nn.Parameter(torch.ones(6)), torch.ones(6, requires_grad=True)
    host = np.ones(6, np.float32)
    calls = [(y, x), (y, parameter), (y, leaf), (y, x[::1]), (y[:3], x[3:]), (y, host), (y.numpy(), x)]
    for _ in range(3):
        for arguments in calls:
            add_to(*arguments)
    forms = len(found)
    for arguments in calls:
        add_to(*arguments)
    with torch.inference_mode():
        add_to(y, torch.ones(6))
    assert len(found) == forms
    assert y.tolist() == [29.0] * 3 + [25.0] * 3
    add_to(y, torch.ones(12)[::2])
    assert len(found) > forms, "strides are another form's"
    add_to(y, y)
    assert add_to._last.may_alias and y.tolist() == [60.0] * 3 + [52.0] * 3


@pytest.mark.slow
def test_torch_tensors_that_are_not_what_they_show(monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch")
    x, y = torch.ones(4), torch.zeros(4)
    for _ in range(3):
        add_to(y, x)
    found = slow_calls(add_to, monkeypatch)
    with pytest.raises(RuntimeError, match="resolve_neg"):
        add_to(y, torch._neg_view(x))
    with pytest.raises(QuadrantsRuntimeTypeError, match="torch tensor on meta cannot be used by"):
        add_to(y, torch.ones(4, device="meta"))
    with pytest.raises(TypeError, match="Sparse"):
        add_to(y, torch.ones(4).to_sparse())

    def mapped(row: Any) -> Any:
        add_to(y, row)
        return row

    with pytest.raises(RuntimeError, match="have storage"):
        torch.func.vmap(mapped)(torch.ones(3, 4))
    assert len(found) == 4 and y.tolist() == [3.0] * 4

    class Named(torch.Tensor):
        pass

    add_to(y, torch.ones(4).as_subclass(Named))
    add_to(y, torch.ones(4).as_subclass(Named))
    assert len(found) == 6, "a class of somebody's own is Python's"


@pytest.mark.slow
def test_torch_tensors_are_let_go() -> None:
    torch = pytest.importorskip("torch")
    x, y = torch.ones(4), torch.zeros(4)
    for _ in range(3):
        add_to(y, x)
    before = sys.getrefcount(x), sys.getrefcount(y), sys.getrefcount(torch.Tensor)
    for _ in range(100):
        add_to(y, x)
    assert (sys.getrefcount(x), sys.getrefcount(y), sys.getrefcount(torch.Tensor)) == before


@pytest.mark.slow
def test_captured_torch_tensors_may_get_other_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Their memory is looked up at each launch: what they had may be gone."""
    torch = pytest.importorskip("torch")
    held, y = torch.arange(5.0), torch.zeros(5)

    @qd.kernel
    def gather():
        for i in range(held.shape[0]):
            y[i] += held[i]

    for _ in range(3):
        gather()
    found = slow_calls(gather, monkeypatch)
    held.data = torch.full((5,), 10.0)
    gather()
    assert not found
    held.data = torch.full((4,), 100.0)
    gather()
    assert y.tolist() == [110.0, 113.0, 116.0, 119.0, 22.0]
    held.data = torch.full((10,), 1000.0)[::2]
    gather()
    held.data = torch.full((5,), 10000, dtype=torch.int64)
    gather()
    y.data = torch.zeros(5)
    gather()
    assert y.tolist() == [10000.0] * 5
    held.data = y.data
    gather()
    gather()
    assert y.tolist() == [40000.0] * 5


@qd.kernel
def annotated_numbers(x, a: qd.f32, n: qd.i32, b: qd.u8, c: qd.f64):
    for i in range(1):
        x[0] = a
        x[1] = n
        x[2] = b
        x[3] = c


def test_numpy_numbers_of_other_types(monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.zeros(4)
    calls = [
        (np.float64(0.1), np.int64(-7), np.uint64(200), np.float32(0.1)),
        (np.int8(-3), np.uint8(255), np.int16(255), np.int64(1 << 53)),
        (np.uint32(7), np.int32(1 << 30), np.int32(0), np.uint64(9)),
    ]
    for numbers in calls:
        for _ in range(3):
            annotated_numbers(x, *numbers)
    found = slow_calls(annotated_numbers, monkeypatch)
    for a, n, b, c in calls:
        annotated_numbers(x, a, n, b, c)
        assert x.tolist() == [float(np.float32(a)), float(n), float(b), float(c)] and not found
    annotated_numbers(x, np.float64(2.5), np.int64(1), np.uint64(2), np.float32(3))
    assert x.tolist() == [2.5, 1.0, 2.0, 3.0] and not found
    for position, number in ((2, np.uint64(256)), (1, np.int64(1 << 31)), (1, np.int64(-(1 << 31) - 1))):
        wrong = [*calls[0]]
        wrong[position] = number
        with pytest.raises(QuadrantsRuntimeTypeError, match="beyond the range"):
            annotated_numbers(x, *wrong)
    annotated_numbers(x, np.int8(1), np.uint8(1), np.int16(1), np.int64((1 << 53) + 1))
    assert x[3] == float((1 << 53) + 1) and len(found) == 4
    with pytest.raises(QuadrantsRuntimeTypeError, match="cannot be converted"):
        annotated_numbers(x, np.float64(2.5), np.float32(1), np.uint64(2), np.float32(3))


class Tensor:
    """Another package's, which is used as torch's are."""

    def __init__(self, values: Any) -> None:
        self.values = values
        self.device = type("Device", (), {"type": "cpu"})
        self.dtype = values.dtype

    def data_ptr(self) -> int:
        return self.values.ctypes.data

    def detach(self) -> Tensor:
        return self

    def numpy(self) -> Any:
        return self.values


def test_tensors_of_others_without_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    x, y = Tensor(np.ones(4, np.float32)), Tensor(np.zeros(4, np.float32))
    for _ in range(4):
        add_to(y, x)
    assert y.values.tolist() == [4.0] * 4


def releases(kernel: Any, *arguments: Any) -> bool:
    """Whether a kernel that ran for long lets other threads run, in launches by machine code."""
    kernel(*arguments)
    kernel._uninstall()
    kernel(*arguments)
    (binding, *_) = kernel._installed
    assert binding.release_gil == binding.may_release
    return binding.release_gil


def test_no_other_thread_may_free_memory_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bindings, "LONG_RUN", 0.0)
    qd.init(arch=qd.cpu, autotune=False)

    @qd.kernel
    def add(y, x):
        for i in range(len(x)):
            y[i] += x[i]

    @qd.kernel
    def fill(x, state):
        for i in range(len(x)):
            x[i] = state.factor * state.inner.count

    @qd.kernel
    def count(state):
        for i in range(len(state.x)):
            state.x[i] += 1

    @qd.kernel
    def count_pair(pair):
        for i in range(len(pair[0])):
            pair[0][i] += pair[1][i]

    x, ours, empty = np.ones(4), qd.ndarray(qd.f64, 4), Inner(None, 2)
    assert releases(add, x.copy(), x) and releases(add, ours, x), "the caller holds arguments"
    assert releases(count, Frozen(x, None, empty)) and releases(count_pair, (x, ours)), (
        "what does not change holds its members"
    )
    assert releases(fill, x, Loose(None, 1.5, empty)), "numbers were copied"
    assert releases(count, Loose(x, 1.5, empty)) and releases(count, Loose(ours, 1.5, empty)), (
        "launches hold what nothing but a dictionary may hold"
    )


@pytest.mark.slow
def test_no_other_thread_may_give_tensors_other_memory_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch")
    monkeypatch.setattr(bindings, "LONG_RUN", 0.0)
    qd.init(arch=qd.cpu, autotune=False)
    held, x = torch.ones(4), np.zeros(4, np.float32)

    @qd.kernel
    def gather(y):
        for i in range(held.shape[0]):
            y[i] += held[i]

    assert not releases(add_to, torch.zeros(4), x)
    assert not releases(gather, x)


@pytest.mark.slow
def test_other_threads_run_beside_long_launches() -> None:
    """Whatever the launch that was compiled for took: each says for the next one whether it is long."""

    @qd.kernel
    def total(x, n: int) -> float:
        s = 0.0
        for _ in range(n):
            for i in range(x.shape[0]):
                s += x[i]
        return s

    x, long = np.ones(100_000), 3000
    for _ in range(6):
        total(x, 1)
    total(x, long)
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1000.0)  # other threads run where this one lets them
    try:
        total(x, long)
        assert ran_beside(lambda: total(x, long))
        for _ in range(3):
            total(x, 1)
        assert not ran_beside(lambda: total(x, 1))
    finally:
        sys.setswitchinterval(interval)


def ran_beside(launch_once: Any) -> bool:
    """Whether another thread of Python runs while a launch does."""
    go, done, seen = threading.Event(), [], []

    def look() -> None:
        go.wait()
        seen.append(len(done))

    thread = threading.Thread(target=look)
    thread.start()
    go.set()
    launch_once()
    done.append(1)
    thread.join()
    return seen == [0]


MEANWHILE = """
import dataclasses, sys, threading, time
import numpy as np
import quadrants as qd
from quadrants.lang import bindings

bindings.LONG_RUN = 0.0
qd.init(arch=qd.cpu, autotune=False, log_level="error")

@dataclasses.dataclass
class State:
    x: qd.types.ndarray(qd.f32, 1)

@qd.kernel
def of_state(state: State, started, n: int) -> qd.f64:
    started[0] = 1
    s = qd.f64(0.0)
    for _ in range(n):
        for i in range(state.x.shape[0]):
            s += state.x[i]
    return s

@qd.kernel
def of_array(x, started, n: int) -> qd.f64:
    started[0] = 1
    s = qd.f64(0.0)
    for _ in range(n):
        for i in range(x.shape[0]):
            s += x[i]
    return s

size, started = 1 << 20, np.zeros(1, np.int32)
if sys.argv[1] == "member":
    state = State(np.ones(size, np.float32))
    run = lambda n: of_state(state, started, n)
    def free(): state.x = None
else:
    import torch
    x = torch.ones(size)
    run = lambda n: of_array(x, started, n)
    def free(): x.data = torch.zeros(2)
for _ in range(4):
    run(1)
started[0] = 0

def free_then():
    while not started[0]:
        time.sleep(0.001)
    free()

thread = threading.Thread(target=free_then)
thread.start()
print(run(1500) == 1500 * size)
thread.join()
"""


@pytest.mark.slow
@pytest.mark.parametrize("what", ["member", "tensor"])
def test_memory_that_another_thread_frees(what: str, tmp_path: Path) -> None:
    if what == "tensor":
        pytest.importorskip("torch")
    script = tmp_path / "meanwhile.py"
    script.write_text(MEANWHILE)
    run = subprocess.run([sys.executable, str(script), what], capture_output=True, text=True, timeout=120)
    assert (run.returncode, run.stdout.strip()) == (0, "True"), run.stderr


RESET = """
import sys, threading, time
import numpy as np
import quadrants as qd

qd.init(arch=qd.cpu, autotune=False, log_level="error")
size, started, found = 1 << 21, np.zeros(1, np.int32), []
what = sys.argv[1]
if what == "ndarray":
    held = qd.ndarray(qd.f64, size)
else:
    held = qd.field(qd.f64)
    tree = qd.FieldsBuilder()
    tree.dense(qd.i, size).place(held)
    placed = tree.finalize()

@qd.kernel
def total(x: qd.template(), started: qd.types.ndarray(), n: int) -> qd.f64:
    started[0] = 1
    s = qd.f64(0.0)
    for _ in range(n):
        for i in range(size):
            s += x[i]
    return s

held.fill(1.0)
for n in (1, 1, 20):
    total(held, started, n)
started[0] = 0
thread = threading.Thread(target=lambda: found.append(total(held, started, 600)))
thread.start()
while not started[0]:
    time.sleep(0.001)
qd.reset() if what == "ndarray" else placed.destroy()
assert not found, "the launch was over"
more = [np.full(size, 7.0) for _ in range(4)]
thread.join()
print(found == [600.0 * size])
"""


@pytest.mark.slow
@pytest.mark.parametrize("what", ["ndarray", "field"])
def test_memory_that_is_freed_while_a_launch_is_under_way(what: str, tmp_path: Path) -> None:
    """By `qd.reset` or a field's owner: the launch has it until it is over."""
    script = tmp_path / "reset.py"
    script.write_text(RESET)
    run = subprocess.run([sys.executable, str(script), what], capture_output=True, text=True, timeout=120)
    assert (run.returncode, run.stdout.strip()) == (0, "True"), run.stderr
