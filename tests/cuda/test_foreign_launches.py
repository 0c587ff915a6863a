"""Launches with arrays of other packages: what of Python runs, and that they mean what Python's way means."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import quadrants as qd
from quadrants.errors import QuadrantsRuntimeTypeError, QuadrantsTypeError
from quadrants.evidence.ptx.driver import PlayedDriver
from quadrants.lang import foreign
from quadrants.runtime import launch

from .foreign import CudaArray, ExchangedArray, Torch
from .launching import OURS, number, python_calls, saxpy, warm

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not launch.is_native(), reason="no launcher of machine code here")]

ONE_LAUNCH = ["cuCtxSetCurrent", "cuLaunchKernel"]
WAIT = ["cuCtxSetCurrent", "cuEventRecord", "cuStreamWaitEvent"]


@pytest.fixture
def torch_cuda(driver: PlayedDriver, monkeypatch: pytest.MonkeyPatch) -> Iterator[Torch]:
    yield Torch(driver, monkeypatch)
    foreign._made_of_functions.cache_clear()


@pytest.fixture
def older_torch(driver: PlayedDriver, monkeypatch: pytest.MonkeyPatch) -> Iterator[Torch]:
    """One whose classes have no table of DLPack's functions."""
    yield Torch(driver, monkeypatch, has_table=False)
    foreign._made_of_functions.cache_clear()


def driver_calls(driver: PlayedDriver, launch_once: Callable[[], Any]) -> list[str]:
    """The driver's functions that a launch calls; AssertionError if Python runs meanwhile."""
    before = len(driver.bindings.calls)
    assert python_calls(launch_once) == []
    return driver.bindings.calls[before:]


def test_torch_tensors_are_one_call_of_the_driver(driver: PlayedDriver, torch_cuda: Torch) -> None:
    x, y = torch_cuda.tensor(np.ones(64, np.float32)), torch_cuda.tensor(np.zeros(64, np.float32))
    warm(lambda: saxpy(y, 2.0, x))
    asked = torch_cuda.asked
    assert driver_calls(driver, lambda: saxpy(y, 3.0, x)) == ONE_LAUNCH
    assert torch_cuda.asked == asked + 1, "the stream is asked for once a launch"
    assert torch_cuda.values(y).tolist() == [9.0] * 64


def test_an_older_torch(driver: PlayedDriver, older_torch: Torch) -> None:
    x, y = older_torch.tensor(np.ones(64, np.float32)), older_torch.tensor(np.zeros(64, np.float32))
    warm(lambda: saxpy(y, 2.0, x))
    asked = older_torch.asked
    assert driver_calls(driver, lambda: saxpy(y, 3.0, x)) == ONE_LAUNCH
    assert older_torch.asked == asked + 1
    assert older_torch.values(y).tolist() == [9.0] * 64
    qd.sync()
    older_torch.stream = driver.bindings.cuStreamCreate(1)[1]
    assert driver_calls(driver, lambda: saxpy(y, 3.0, x)) == WAIT + ONE_LAUNCH + WAIT
    older_torch.stream = 0
    wide = older_torch.tensor(np.zeros((2, 7), np.int32))
    warm(lambda: number(wide, 1))
    across = older_torch.view(wide, (7, 2), (1, 7))
    warm(lambda: number(across, 0))
    assert driver_calls(driver, lambda: number(across, 1)) == ONE_LAUNCH
    assert older_torch.values(wide)[1].tolist() == [3 * (10 + j) + (10 * j + 1) for j in range(7)]
    for dtype in ("bool", "uint8", "int8", "int16", "int64", "float16", "float64", "uint16", "uint32", "uint64"):
        held = older_torch.tensor(np.zeros(3, dtype))

        @qd.kernel
        def ones(x):
            for i in range(x.shape[0]):
                x[i] = 1

        warm(lambda: ones(held))
        assert driver_calls(driver, lambda: ones(held)) == ONE_LAUNCH
    with pytest.raises(QuadrantsRuntimeTypeError, match="kernels run on the GPU number 0"):
        saxpy(y, 1.0, older_torch.tensor(np.ones(4, np.float32), device=1))
    with pytest.raises(QuadrantsRuntimeTypeError, match="noted that it is negated"):
        saxpy(y, 1.0, older_torch.moved(older_torch.torch._neg_view(x)))


@pytest.mark.parametrize("kind", [CudaArray, ExchangedArray])
def test_other_packages_arrays_are_one_call_of_the_driver(driver: PlayedDriver, kind: Any) -> None:
    x, y = kind(driver, np.ones(64, np.float32)), kind(driver, np.zeros(64, np.float32))
    warm(lambda: saxpy(y, 2.0, x))
    assert driver_calls(driver, lambda: saxpy(y, 3.0, x)) == ONE_LAUNCH
    assert y.values().tolist() == [9.0] * 64


def test_streams_of_torch_wait_and_are_waited_for(driver: PlayedDriver, torch_cuda: Torch) -> None:
    x, y = torch_cuda.tensor(np.ones(8, np.float32)), torch_cuda.tensor(np.zeros(8, np.float32))
    warm(lambda: saxpy(y, 1.0, x))
    qd.sync()
    torch_cuda.stream = driver.bindings.cuStreamCreate(1)[1]
    torch_cuda.later(y, np.full(8, 100, np.float32))
    assert driver_calls(driver, lambda: saxpy(y, 1.0, x)) == WAIT + ONE_LAUNCH + WAIT
    assert torch_cuda.values(y).tolist() == [101.0] * 8, "torch's stream alone came here"
    torch_cuda.stream = 1  # what protocols call the default stream
    assert driver_calls(driver, lambda: saxpy(y, 1.0, x)) == ONE_LAUNCH
    torch_cuda.stream = 0
    assert torch_cuda.values(y).tolist() == [102.0] * 8


def test_each_owners_stream_waits(driver: PlayedDriver, torch_cuda: Torch) -> None:
    """Arrays of three packages, each in a stream of its own, and one of ours."""

    @qd.kernel
    def add(a, b, c, d):
        for i in range(a.shape[0]):
            a[i] += 1.0
            b[i] += a[i]
            c[i] += b[i]
            d[i] += c[i]

    first, second, third = (driver.bindings.cuStreamCreate(1)[1] for _ in range(3))
    torch_cuda.stream, ExchangedArray.works_in = first, second
    a = torch_cuda.tensor(np.zeros(4, np.float32))
    b, c = ExchangedArray(driver, np.zeros(4, np.float32), second), CudaArray(driver, np.zeros(4, np.float32), third)
    d = qd.ndarray(qd.f32, 4)
    try:
        warm(lambda: add(a, b, c, d))
        qd.sync()
        torch_cuda.later(a, np.full(4, 10, np.float32))
        b.later(np.full(4, 100, np.float32))
        c.later(np.full(4, 1000, np.float32))
        assert driver_calls(driver, lambda: add(a, b, c, d)) == 3 * WAIT + ONE_LAUNCH + 3 * WAIT
        assert c.values().tolist() == [1111.0] * 4
        assert b.values().tolist() == [111.0] * 4
        assert torch_cuda.values(a).tolist() == [11.0] * 4
        assert d[0] == 1 + 4 + 10 + 1111.0
    finally:
        ExchangedArray.works_in = 0


def test_a_stream_of_ours_is_the_one_that_waits(driver: PlayedDriver, torch_cuda: Torch) -> None:
    x, y = torch_cuda.tensor(np.ones(8, np.float32)), torch_cuda.tensor(np.zeros(8, np.float32))
    warm(lambda: saxpy(y, 1.0, x))
    stream = qd.create_stream()
    before = len(driver.bindings.calls)
    saxpy(y, 1.0, x, qd_stream=stream)
    assert driver.bindings.calls[before:] == WAIT + ONE_LAUNCH + WAIT
    torch_cuda.stream = stream.handle
    before = len(driver.bindings.calls)
    saxpy(y, 1.0, x, qd_stream=stream)
    assert driver.bindings.calls[before:] == ONE_LAUNCH
    assert torch_cuda.values(y).tolist() == [5.0] * 8
    assert len(python_calls(lambda: saxpy(y, 1.0, x, qd_stream=stream), OURS)) <= 9


def test_a_stream_that_is_none_is_told(driver: PlayedDriver, torch_cuda: Torch) -> None:
    x, y = torch_cuda.tensor(np.ones(8, np.float32)), torch_cuda.tensor(np.zeros(8, np.float32))
    warm(lambda: saxpy(y, 1.0, x))
    torch_cuda.stream = 0xBAD
    with pytest.raises(RuntimeError, match="CUDA_ERROR_INVALID_HANDLE"):
        saxpy(y, 1.0, x)
    torch_cuda.stream = 0
    saxpy(y, 1.0, x)
    assert torch_cuda.values(y).tolist() == [4.0] * 8


def test_shapes_and_strides_change_without_compiling(driver: PlayedDriver, torch_cuda: Torch) -> None:
    dense = torch_cuda.tensor(np.zeros((3, 4), np.int32))
    warm(lambda: number(dense, 1))
    wide = torch_cuda.tensor(np.zeros((2, 7), np.int32))
    assert driver_calls(driver, lambda: number(wide, 1)) == ONE_LAUNCH
    assert torch_cuda.values(wide)[1].tolist() == [10 + j for j in range(7)]
    across = torch_cuda.moved(wide.t())
    warm(lambda: number(across, 0))
    rest = torch_cuda.view(dense, (2, 2), (4, 2), 4)
    texts = len(driver.texts)
    assert driver_calls(driver, lambda: number(rest, 1)) == ONE_LAUNCH
    assert driver_calls(driver, lambda: number(across, 1)) == ONE_LAUNCH
    assert len(driver.texts) == texts, "nothing was compiled"
    assert torch_cuda.values(wide)[1].tolist() == [10 + j + (10 * j + 1) for j in range(7)]
    rows = torch_cuda.values(dense)
    assert rows[0].tolist() == [0, 3, 6, 9] and rows[2].tolist() == [60 + 10, 63, 66 + 11, 69]


def test_a_lone_line_may_have_any_stride(driver: PlayedDriver, torch_cuda: Torch) -> None:
    """It is dense, as PyTorch and NumPy have it."""
    dense = torch_cuda.tensor(np.zeros((1, 4), np.int32))
    warm(lambda: number(dense, 1))
    lone = torch_cuda.view(dense, (1, 4), (99, 1))
    assert driver_calls(driver, lambda: number(lone, 1)) == ONE_LAUNCH
    assert torch_cuda.values(dense).tolist() == [[0, 4, 8, 12]]


@pytest.mark.parametrize("kind", [CudaArray, ExchangedArray])
def test_elements_that_are_not_aligned_are_refused(driver: PlayedDriver, kind: Any) -> None:
    """By Python, which tells it: machine code does not launch them."""
    x, y = kind(driver, np.ones(8, np.float32)), kind(driver, np.zeros(8, np.float32))
    warm(lambda: saxpy(y, 1.0, x))
    qd.sync()
    x.address, x.shape, launched = x.address + 2, (4,), len(driver.launched)
    with pytest.raises(QuadrantsRuntimeTypeError, match="aligned"):
        saxpy(y, 1.0, x)
    qd.sync()
    assert len(driver.launched) == launched


@pytest.mark.parametrize("kind", [CudaArray, ExchangedArray])
def test_other_packages_shapes_and_strides(driver: PlayedDriver, kind: Any) -> None:
    def array(rows: int, columns: int) -> Any:
        return kind(driver, np.zeros((rows, columns), np.int32))

    dense = array(3, 4)
    dense.has_strides = False
    warm(lambda: number(dense, 1))
    wide = array(2, 7)
    assert driver_calls(driver, lambda: number(wide, 1)) == ONE_LAUNCH
    wide.shape, wide.strides = (7, 2), (4, 28)
    warm(lambda: number(wide, 0))
    assert driver_calls(driver, lambda: number(wide, 1)) == ONE_LAUNCH
    wide.shape, wide.strides = (2, 7), (28, 4)
    assert wide.values()[1].tolist() == [10 + j + (10 * j + 1) for j in range(7)]
    back = array(2, 3)
    back.address, back.strides = back.address + 20, (-12, -4)
    warm(lambda: number(back, 0))
    assert driver_calls(driver, lambda: number(back, 1)) == ONE_LAUNCH
    back.address -= 20
    assert back.values().tolist() == [[12, 11, 10], [2, 1, 0]]


def test_tensors_that_are_gone_and_new_ones(driver: PlayedDriver, torch_cuda: Torch) -> None:
    total = qd.ndarray(qd.f32, 4)
    total.fill(0.0)
    warm(lambda: saxpy(total, 1.0, torch_cuda.tensor(np.full(4, 1.0, np.float32))))
    qd.sync()
    for k in range(4):
        fresh = [torch_cuda.tensor(np.full(4, 10.0**k, np.float32))]
        assert driver_calls(driver, lambda x=fresh: saxpy(total, 1.0, x[0])) == ONE_LAUNCH
        fresh.clear()
    assert total.to_numpy().tolist() == [1114.0] * 4


def test_memory_that_moves_within_a_tensor(driver: PlayedDriver, torch_cuda: Torch) -> None:
    x, y = torch_cuda.tensor(np.ones(4, np.float32)), torch_cuda.tensor(np.zeros(4, np.float32))
    warm(lambda: saxpy(y, 1.0, x))
    other = torch_cuda.tensor(np.full(9, 5.0, np.float32))
    torch_cuda.moved(x.set_(other.untyped_storage(), 2, (4,), (1,)))
    assert driver_calls(driver, lambda: saxpy(y, 1.0, x)) == ONE_LAUNCH
    assert torch_cuda.values(y).tolist() == [8.0] * 4


def test_ours_beside_theirs_and_overlaps(driver: PlayedDriver, torch_cuda: Torch) -> None:
    @qd.kernel
    def shift(a, b):
        for i in range(a.shape[0]):
            a[i] = b[i] + 1

    ours = qd.ndarray(qd.i32, 4)
    theirs = torch_cuda.tensor(np.arange(4, dtype=np.int32))
    warm(lambda: shift(ours, theirs))
    assert driver_calls(driver, lambda: shift(ours, theirs)) == ONE_LAUNCH
    assert ours.to_numpy().tolist() == [1, 2, 3, 4]
    shift(theirs, theirs)  # a form of its own, for arrays that overlap
    assert shift._last.may_alias
    assert torch_cuda.values(theirs).tolist() == [1, 2, 3, 4]
    ahead, behind = torch_cuda.view(theirs, (3,), (1,), 1), torch_cuda.view(theirs, (3,), (1,))
    warm(lambda: shift(ahead, behind))
    assert shift._last.may_alias
    shared = CudaArray(driver, np.zeros(4, np.int32))
    warm(lambda: shift(ours, shared))
    assert not shift._last.may_alias
    shared.address = ours.__cuda_array_interface__["data"][0]
    shift(ours, shared)
    assert shift._last.may_alias and ours.to_numpy().tolist() == [2] * 4


def test_twenty_arguments(driver: PlayedDriver, torch_cuda: Torch) -> None:
    @qd.kernel
    def many(a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, out):
        for z in range(out.shape[0]):
            out[z] += a[z] + b[z] + c[z] + d[z] + e[z] + f[z] + g[z] + h[z] + i[z] + j[z]
            out[z] += k[z] + l[z] + m[z] + n[z] + o[z] + p[z] + q[z] + r[z] + s[z]

    xs = [torch_cuda.tensor(np.full(3, 2.0**k)) for k in range(19)]
    out = torch_cuda.tensor(np.zeros(3))
    warm(lambda: many(*xs, out))
    asked = torch_cuda.asked
    assert driver_calls(driver, lambda: many(*xs, out)) == ONE_LAUNCH
    assert torch_cuda.asked == asked + 1
    assert torch_cuda.values(out).tolist() == [4 * (2.0**19 - 1)] * 3


def test_parameters_gradients_scalars_and_nothing(driver: PlayedDriver, torch_cuda: Torch) -> None:
    torch = torch_cuda.torch
    y = torch_cuda.tensor(np.zeros(4, np.float32))
    leaf = torch_cuda.tensor(np.ones(4, np.float32)).requires_grad_()
    parameter = torch_cuda.moved(torch.nn.Parameter(leaf.detach()))
    for x in (leaf, parameter):
        warm(lambda: saxpy(y, 1.0, x))
    for x in (leaf, parameter, leaf):
        assert driver_calls(driver, lambda: saxpy(y, 1.0, x)) == ONE_LAUNCH
    assert torch_cuda.values(y).tolist() == [9.0] * 4
    with torch.inference_mode():
        other = torch_cuda.tensor(np.ones(4, np.float32))
        assert driver_calls(driver, lambda: saxpy(y, 1.0, other)) == ONE_LAUNCH

    @qd.kernel
    def count(total, x):
        for i in range(x.shape[0]):
            total[None] += x[i]

    total, x = torch_cuda.tensor(np.array(0, np.int64)), torch_cuda.tensor(np.arange(5))
    warm(lambda: count(total, x))
    assert driver_calls(driver, lambda: count(total, x)).count("cuLaunchKernel") >= 1
    assert int(torch_cuda.values(total)) == 40
    nothing = torch_cuda.tensor(np.zeros(0, np.int64))
    assert python_calls(lambda: count(total, nothing)) == []
    assert int(torch_cuda.values(total)) == 40


def test_every_type_of_elements(driver: PlayedDriver, torch_cuda: Torch) -> None:
    @qd.kernel
    def twice(x):
        for i in range(x.shape[0]):
            x[i] += x[i]

    for dtype in ("int8", "uint8", "int16", "int32", "int64", "float16", "float32", "float64"):
        x = torch_cuda.tensor(np.arange(5).astype(dtype))
        warm(lambda: twice(x))
        assert driver_calls(driver, lambda: twice(x)) == ONE_LAUNCH
        assert torch_cuda.values(x).tolist() == [16 * k for k in range(5)]
    half = torch_cuda.moved(torch_cuda.tensor(np.full(4, 0x3F80, np.int16)).view(torch_cuda.torch.bfloat16))
    warm(lambda: twice(half))
    assert driver_calls(driver, lambda: twice(half)) == ONE_LAUNCH
    assert seen_bits(driver, half) == [0x4180] * 4

    @qd.kernel
    def turn(x):
        for i in range(x.shape[0]):
            x[i] = not x[i]

    truth = torch_cuda.tensor(np.array([True, False]))
    warm(lambda: turn(truth))
    assert driver_calls(driver, lambda: turn(truth)) == ONE_LAUNCH
    assert torch_cuda.values(truth).tolist() == [True, False]


def seen_bits(driver: PlayedDriver, tensor: Any) -> list[int]:
    qd.sync()
    address = tensor.data_ptr()
    return driver.machine.memory.bytes[address : address + 2 * tensor.numel()].copy().view(np.uint16).tolist()


@qd.data_oriented
class Body:
    def __init__(self, x: Any, v: Any) -> None:
        self.x, self.v = x, v

    @qd.kernel
    def step(self, dt: float):
        for i in range(self.x.shape[0]):
            self.x[i] += dt * self.v[i]

    @qd.kernel
    def push(self, f):
        for i in range(self.x.shape[0]):
            self.v[i] += f[i]


def test_captured_tensors(driver: PlayedDriver, torch_cuda: Torch) -> None:
    x, v = torch_cuda.tensor(np.zeros(4, np.float32)), torch_cuda.tensor(np.ones(4, np.float32))
    body, f = Body(x, v), torch_cuda.tensor(np.full(4, 2.0, np.float32))
    warm(lambda: body.push(f))
    warm(lambda: body.step(0.5))
    assert driver_calls(driver, lambda: body.push(f)) == ONE_LAUNCH
    assert driver_calls(driver, lambda: body.step(0.5)) == ONE_LAUNCH
    assert torch_cuda.values(x).tolist() == [1.5 * 7 + 4.5] * 4
    other = torch_cuda.tensor(np.zeros(4, np.float32))
    torch_cuda.moved(x.set_(other.untyped_storage(), 0, (4,), (1,)))
    assert driver_calls(driver, lambda: body.step(1.0)) == ONE_LAUNCH
    assert torch_cuda.values(other).tolist() == [9.0] * 4
    ours = Body(qd.ndarray(qd.f32, 4), qd.field(qd.f32, shape=4))
    warm(lambda: ours.push(f))
    assert driver_calls(driver, lambda: ours.push(f)) == ONE_LAUNCH


@dataclasses.dataclass
class State:
    x: Any
    v: Any


def test_members_of_dataclasses_and_tuples(driver: PlayedDriver, torch_cuda: Torch) -> None:
    @qd.kernel
    def move(s, pair, dt: float):
        for i in range(s.x.shape[0]):
            s.x[i] += dt * s.v[i]
            pair[0][i] = s.x[i] - pair[1][i]

    def fresh(value: float) -> Any:
        return torch_cuda.tensor(np.full(4, value, np.float32))

    s, pair = State(fresh(0), fresh(2)), (fresh(0), fresh(1))
    warm(lambda: move(s, pair, 0.5))
    other = (pair[0], fresh(1))
    assert driver_calls(driver, lambda: move(s, other, 0.5)) == ONE_LAUNCH
    s.v = fresh(10)
    assert driver_calls(driver, lambda: move(s, pair, 0.5)) == ONE_LAUNCH
    assert torch_cuda.values(s.x).tolist() == [9.0] * 4
    assert torch_cuda.values(pair[0]).tolist() == [8.0] * 4


def test_annotated_arguments_and_static_sizes(driver: PlayedDriver, torch_cuda: Torch) -> None:
    @qd.kernel
    def lengths(
        out: qd.types.ndarray(dtype=qd.f32, ndim=1), v: qd.types.ndarray(dtype=qd.types.vector(3, qd.f32), ndim=1)
    ):
        for i in range(out.shape[0]):
            out[i] = v[i].norm()

    out = torch_cuda.tensor(np.zeros(4, np.float32))
    v = torch_cuda.tensor(np.tile(np.array([2, 3, 6], np.float32), (4, 1)))
    warm(lambda: lengths(out, v))
    assert driver_calls(driver, lambda: lengths(out, v)) == ONE_LAUNCH
    assert torch_cuda.values(out).tolist() == [7.0] * 4
    with pytest.raises(ValueError, match="expected an array of f32, got f64"):
        lengths(torch_cuda.tensor(np.zeros(4)), v)
    with pytest.raises(ValueError, match=r"elements of shape \(3,\), got an array of shape \(4, 2\)"):
        lengths(out, torch_cuda.tensor(np.zeros((4, 2), np.float32)))
    assert driver_calls(driver, lambda: lengths(out, v)) == ONE_LAUNCH


def test_what_does_not_fit_goes_to_python(driver: PlayedDriver, torch_cuda: Torch) -> None:
    x, y = torch_cuda.tensor(np.ones(4, np.float32)), torch_cuda.tensor(np.zeros(4, np.float32))
    warm(lambda: saxpy(y, 1.0, x))
    with pytest.raises(QuadrantsRuntimeTypeError, match="kernels run on the GPU number 0"):
        saxpy(y, 1.0, torch_cuda.tensor(np.ones(4, np.float32), device=1))
    with pytest.raises(QuadrantsRuntimeTypeError, match="noted that it is negated"):
        saxpy(y, 1.0, torch_cuda.moved(torch_cuda.torch._neg_view(x)))
    with pytest.raises(QuadrantsRuntimeTypeError, match="type that kernels do not have"):
        saxpy(y, 1.0, torch_cuda.moved(x.view(torch_cuda.torch.complex64)))
    wide = torch_cuda.tensor(np.full(4, 2.0))
    saxpy(wide, 1.0, x)  # a form of its own
    assert torch_cuda.values(wide).tolist() == [3.0] * 4
    rows, given = (torch_cuda.tensor(np.full(6, k, np.float32)) for k in (0, 1))
    saxpy(torch_cuda.view(rows, (2, 3), (1, 2)), 1.0, torch_cuda.view(given, (2, 3), (1, 2)))  # of another rank
    assert torch_cuda.values(rows).tolist() == [1.0] * 6
    host = np.zeros(4, np.float32)
    saxpy(host, 1.0, x)
    assert host.tolist() == [1.0] * 4
    saxpy(y, 1.0, torch_cuda.torch.ones(4))
    assert torch_cuda.values(y).tolist() == [4.0] * 4


class Odd(CudaArray):
    """`said`: what it says of itself that is not so in general."""

    said: dict[str, Any] = {}
    error: Exception | None = None

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        if self.error is not None:
            raise self.error
        return {**CudaArray.__cuda_array_interface__.fget(self), **self.said}


def test_what_an_interface_may_say(driver: PlayedDriver) -> None:
    x, y = Odd(driver, np.ones(4, np.float32)), Odd(driver, np.zeros(4, np.float32))
    warm(lambda: saxpy(y, 1.0, x))
    for said in ({"stream": None}, {"mask": None}, {"version": 2}, {"strides": None}):
        x.said = said
        assert driver_calls(driver, lambda: saxpy(y, 1.0, x)) == ONE_LAUNCH
    x.said = {"data": (x.address, True)}
    saxpy(y, 1.0, x)  # what may not be written is another form's
    assert y.values().tolist() == [8.0] * 4
    y.said = {"data": (y.address, True)}
    with pytest.raises(QuadrantsTypeError, match="writes to the read-only array .y."):
        saxpy(y, 1.0, x)
    y.said = {}
    x.said = {"mask": x}
    with pytest.raises(QuadrantsRuntimeTypeError, match="masked array"):
        saxpy(y, 1.0, x)
    x.said = {"typestr": "<f8", "shape": (2,), "strides": (8,)}
    saxpy(y, 1.0, x)
    x.said = {"shape": [4]}  # not a tuple, as the protocol wants it
    saxpy(y, 0.0, x)
    x.error = KeyError("gone")
    with pytest.raises(KeyError, match="gone"):
        saxpy(y, 1.0, x)


def test_who_names_no_stream_asks_nobody_to_wait(driver: PlayedDriver) -> None:
    x, y, stream = Odd(driver, np.ones(4, np.float32)), Odd(driver, np.zeros(4, np.float32)), qd.create_stream()
    warm(lambda: saxpy(y, 1.0, x))
    for said, expected in (({}, WAIT + ONE_LAUNCH + WAIT), ({"stream": None}, ONE_LAUNCH)):
        x.said = y.said = said
        before = len(driver.bindings.calls)
        saxpy(y, 1.0, x, qd_stream=stream)
        assert driver.bindings.calls[before:] == expected
    stream.synchronize()
    assert y.values().tolist() == [5.0] * 4


def test_an_array_whose_owner_calls_kernels_while_it_is_asked(driver: PlayedDriver) -> None:
    """It may take away the very tables that are being walked."""
    x, y = Odd(driver, np.ones(4, np.float32)), CudaArray(driver, np.zeros(4, np.float32))
    warm(lambda: saxpy(y, 1.0, x))

    class Nosy(CudaArray):
        depth = 0

        @property
        def __cuda_array_interface__(self) -> dict[str, Any]:
            if self.depth == 1:
                self.depth = 2
                saxpy._forget()
                for held in (np.float64, np.int32, np.int16):
                    z = CudaArray(driver, np.zeros(4, held))
                    saxpy(z, 2, z)
            return CudaArray.__cuda_array_interface__.fget(self)

    nosy = Nosy(driver, np.ones(4, np.float32))
    warm(lambda: saxpy(y, 1.0, nosy))
    nosy.depth = 1
    saxpy(y, 1.0, nosy)
    saxpy(y, 1.0, nosy)
    assert nosy.depth == 2 and y.values().tolist() == [8.0] * 4


def test_a_device_that_was_left(driver: PlayedDriver, torch_cuda: Torch) -> None:
    x, y = torch_cuda.tensor(np.ones(4, np.float32)), torch_cuda.tensor(np.zeros(4, np.float32))
    warm(lambda: saxpy(y, 1.0, x))
    qd.init(arch=qd.cpu, log_level="error")
    with pytest.raises(QuadrantsRuntimeTypeError, match=f"cannot be used by {qd.cpu.name} kernels"):
        saxpy(y, 1.0, x)


def test_arrays_of_the_host_are_copied_and_nothing_else(driver: PlayedDriver, torch_cuda: Torch) -> None:
    """Memory for the copies stays: whoever gives memory back waits for everything."""
    x, y, z = np.ones(64, np.float32), np.zeros(64, np.float32), torch_cuda.tensor(np.zeros(64, np.float32))

    def calls(launch_once: Callable[[], Any]) -> list[str]:
        warm(launch_once)
        left, before = driver.bindings.left, len(driver.bindings.calls)
        launch_once()
        assert driver.bindings.left == left
        return [name for name in driver.bindings.calls[before:] if name != "cuCtxSetCurrent"]

    up, down = ["cuMemcpyHtoD"], ["cuMemcpyDtoH"]
    assert calls(lambda: saxpy(y, 1.0, x)) == 2 * up + ["cuLaunchKernel"] + down
    assert y.tolist() == [4.0] * 64
    assert calls(lambda: saxpy(z, 1.0, x)) == up + ["cuLaunchKernel"]
    assert torch_cuda.values(z).tolist() == [4.0] * 64
    other = torch_cuda.tensor(np.ones(64, np.float32))
    warm(lambda: saxpy(z, 1.0, other))
    saxpy(y, 1.0, x)
    assert driver_calls(driver, lambda: saxpy(z, 1.0, other)) == ONE_LAUNCH, "other calls are launched as they were"
    assert 0 < len(python_calls(lambda: saxpy(y, 1.0, x), OURS)) <= 200


def test_memory_for_copies_makes_room(driver: PlayedDriver) -> None:
    x, y = np.ones(1000, np.float32), np.zeros(1000, np.float32)
    for count in (10, 100, 1000):
        saxpy(y[:count], 1.0, x[:count])
    driver.bindings.left = 8200
    large = qd.ndarray(qd.f32, 4000)
    large.fill(1.0)
    saxpy(large, 1.0, large)
    assert large[0] == 2.0
    driver.bindings.left = 100
    with pytest.raises(MemoryError, match="no memory left"):
        saxpy(np.zeros(2000, np.float32), 1.0, np.zeros(2000, np.float32))


class Eventful(CudaArray):
    """One whose owner does something the next time that it is asked."""

    next_time: Callable[[], None] | None = None

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        happens, self.next_time = self.next_time, None
        if happens is not None:
            happens()
        return self.described()


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit])
def test_what_ends_a_program_comes_through_a_launch(driver: PlayedDriver, kind: type[BaseException]) -> None:
    """It comes once: nobody would raise it again when Python asks. Errors of another package are, or they are over."""

    def interrupt() -> None:
        raise kind

    def fail() -> None:
        raise ValueError("only now")

    x, y = Eventful(driver, np.ones(8, np.float32)), Eventful(driver, np.zeros(8, np.float32))
    warm(lambda: saxpy(y, 1.0, x))
    for array in (x, y):
        array.next_time = interrupt
        launched = len(driver.launched)
        with pytest.raises(kind):
            saxpy(y, 1.0, x)
        assert len(driver.launched) == launched
    assert y.values().tolist() == [3.0] * 8
    x.next_time = fail
    saxpy(y, 1.0, x)
    assert y.values().tolist() == [4.0] * 8


def test_bindings_that_come_while_an_array_is_asked(driver: PlayedDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    """The launch goes to Python, although the first of the new ones lies where the first of the old ones did."""
    arrays = [Eventful(driver, np.ones(8, dtype)) for dtype in (np.float32, np.int32)]
    y = CudaArray(driver, np.zeros(8, np.float32))
    for _ in range(2):
        for x in arrays:
            warm(lambda x=x: saxpy(y, 1.0, x))
    first, second = saxpy._installed[:2]
    asked: list[int] = []
    slow_call = type(saxpy)._slow_call

    def counted(self: Any, *arguments: Any) -> Any:
        asked.append(1)
        return slow_call(self, *arguments)

    monkeypatch.setattr(type(saxpy), "_slow_call", counted)
    saxpy(y, 1.0, arrays[0])
    assert saxpy._installed[:2] == (first, second) and not asked
    arrays[0].next_time = lambda: saxpy._install(first)
    saxpy(y, 1.0, arrays[0])
    assert asked, "a binding that was no longer installed was tried"
    assert y.values().tolist() == [14.0] * 8
