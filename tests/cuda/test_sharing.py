"""Arrays on a GPU that other packages own: kernels reach them in place, in the order that their owners are promised."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import quadrants as qd
from quadrants import blocks
from quadrants.blocks import Traffic
from quadrants.errors import QuadrantsRuntimeTypeError
from quadrants.evidence.ptx.driver import PlayedDriver
from quadrants.targets.device import dlpack

from .foreign import CudaArray, DlpackArray, Owned, table_of

pytestmark = pytest.mark.slow


class Tensor(Owned):
    """What kernels ask of a torch tensor."""

    requires_grad = False

    def is_neg(self) -> bool:
        return False

    def __init__(self, driver: PlayedDriver, values: np.ndarray, stream: int = 0) -> None:
        super().__init__(driver, values, stream)
        self.device = SimpleNamespace(type="cuda", index=0)

    @property
    def dtype(self) -> str:
        return f"torch.{self.held}"

    def data_ptr(self) -> int:
        return self.address

    def element_size(self) -> int:
        return self.held.itemsize

    def stride(self) -> tuple[int, ...]:
        return tuple(stride // self.held.itemsize for stride in self.strides)


def scale(x, factor):
    for i in range(x.shape[0]):
        x[i] = x[i] * factor + i


KINDS = [CudaArray, DlpackArray]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", ["float32", "float64", "int8", "uint16", "int64", "float16"])
def test_kernels_change_arrays_in_place(driver: PlayedDriver, kind: type[Owned], dtype: str) -> None:
    kernel = qd.kernel(scale)
    array = kind(driver, np.arange(10).astype(dtype))
    before = Traffic.to_device, Traffic.to_host
    kernel(array, 2)
    kernel(array, 1)
    assert array.values().tolist() == [4.0 * i for i in range(10)]
    assert before == (Traffic.to_device, Traffic.to_host)


@pytest.mark.parametrize("kind", KINDS)
def test_kernels_and_owners_wait_for_one_another(driver: PlayedDriver, kind: type[Owned]) -> None:
    """The owner works in a stream that does not wait for the default one by itself."""
    kernel = qd.kernel(scale)
    stream = driver.bindings.cuStreamCreate(1)[1]
    array = kind(driver, np.zeros(6, np.float32), stream)
    array.later(np.full(6, 10, np.float32))
    kernel(array, 2.0)
    if kind is DlpackArray:
        qd.sync()  # the protocol does not say where the owner works
    assert array.values().tolist() == [20.0 + i for i in range(6)]


def test_strides_and_several_axes(driver: PlayedDriver) -> None:
    @qd.kernel
    def transpose(a, b):
        for i, j in qd.ndrange(a.shape[0], a.shape[1]):
            b[j, i] += a[i, j]

    values = np.arange(12, dtype=np.float32).reshape(3, 4)
    a, b = CudaArray(driver, values), CudaArray(driver, np.zeros((3, 4), np.float32))
    b.shape, b.strides = (4, 3), (4, 16)
    transpose(a, b)
    b.shape = (3, 4)
    assert (b.values() == values).all()


def test_their_arrays_beside_ours_and_numpys(driver: PlayedDriver) -> None:
    @qd.kernel
    def add(a, b, c, d):
        for i in range(a.shape[0]):
            a[i] = b[i] + c[i] + d[i]

    theirs, ours = CudaArray(driver, np.ones(5)), qd.ndarray(qd.f64, 5)
    ours.fill(10.0)
    host = np.arange(5.0)
    for _ in range(2):
        add(theirs, ours, host, theirs)
        add(host, theirs, ours, ours)
    assert host.tolist() == [72.0 + 2 * i for i in range(5)]


def test_arrays_that_overlap(driver: PlayedDriver) -> None:
    @qd.kernel
    def shift(a, b):
        for i in range(a.shape[0]):
            a[i] = b[i] + 1

    array = CudaArray(driver, np.arange(5))
    shift(array, array)
    shift(array, array)
    assert array.values().tolist() == [2, 3, 4, 5, 6]
    assert shift._last.may_alias


@pytest.mark.parametrize("versioned", [False, True])
def test_memory_is_given_back_to_its_owner(driver: PlayedDriver, versioned: bool) -> None:
    kernel = qd.kernel(scale)
    array = DlpackArray(driver, np.ones(4))
    array.versioned = versioned
    kernel(array, 1.0)
    assert array.released >= 1


@pytest.mark.parametrize("is_aside", [False, True])
def test_torch_tensors(driver: PlayedDriver, monkeypatch: pytest.MonkeyPatch, is_aside: bool) -> None:
    stream = driver.bindings.cuStreamCreate(1)[1] if is_aside else 0
    cuda = SimpleNamespace(current_stream=lambda device: SimpleNamespace(cuda_stream=stream))
    theirs = SimpleNamespace(cuda=cuda, Tensor=None, nn=SimpleNamespace(Parameter=None))  # other classes of tensors
    monkeypatch.setitem(sys.modules, "torch", theirs)
    kernel = qd.kernel(scale)
    tensor = Tensor(driver, np.zeros(4, np.float32), stream)
    tensor.later(np.ones(4, np.float32))
    kernel(tensor, 3.0)
    assert tensor.values().tolist() == [3.0, 4.0, 5.0, 6.0]


def test_tables_of_newer_versions_lead_to_those_that_are_known() -> None:
    """And a class has no other one's table, unless it is derived from it."""
    _, known = table_of(0x1000, 0x2000, (1, 3))
    newer, _ = table_of(0x3000, 0x4000, (2, 0), known)
    alone, _ = table_of(0x3000, 0x4000, (2, 0))

    class Array:
        __dlpack_c_exchange_api__ = newer

    class Derived(Array):
        pass

    class Unknown:
        __dlpack_c_exchange_api__ = alone

    assert dlpack.exchange_of(Array, Array) == dlpack.Exchange(0x1000, 0x2000)
    assert dlpack.exchange_of(Derived, Array) == dlpack.Exchange(0x1000, 0x2000)
    assert dlpack.exchange_of(Derived, Derived) is dlpack.exchange_of(Unknown, Array) is None
    assert dlpack.exchange_of(Unknown, Unknown) is None


def test_what_cannot_be_reached_is_refused(driver: PlayedDriver) -> None:
    kernel = qd.kernel(scale)
    array = DlpackArray(driver, np.ones(4))
    array.place = (2, 1)
    with pytest.raises(QuadrantsRuntimeTypeError, match="kernels run on the GPU number 0"):
        kernel(array, 1.0)
    array.place = (8, 0)
    with pytest.raises(QuadrantsRuntimeTypeError, match="device of DLPack's kind 8 cannot be used by cuda kernels"):
        kernel(array, 1.0)
    odd = CudaArray(driver, np.ones(4, np.complex64))
    with pytest.raises(QuadrantsRuntimeTypeError, match="elements of a type that kernels do not have"):
        kernel(odd, 1.0)
    qd.init(arch=qd.cpu, log_level="error")
    with pytest.raises(
        QuadrantsRuntimeTypeError, match=f"cannot be used by {qd.cpu.name} kernels: copy it to the host"
    ):
        kernel(CudaArray(driver, np.ones(4)), 1.0)


def test_arrays_of_the_host_by_dlpack() -> None:
    class Host:
        def __init__(self) -> None:
            self.array = np.arange(4.0)

        def __dlpack_device__(self) -> tuple[int, int]:
            return self.array.__dlpack_device__()

        def __dlpack__(self, **options: Any) -> Any:
            return self.array.__dlpack__(**options)

    host = Host()
    qd.kernel(scale)(host, 2.0)
    assert host.array.tolist() == [0.0, 3.0, 6.0, 9.0]


class Consumer:
    """Another package that takes memory of ours and works on it in a stream of its own."""

    def __init__(self, driver: PlayedDriver, address: int, dtype: str, count: int, stream: int) -> None:
        self.driver, self.stream = driver, stream
        self.memory = driver.machine.memory.bytes[address : address + count * np.dtype(dtype).itemsize].view(dtype)

    def add(self, value: float) -> None:
        """Adds, when its stream comes to it."""

        def work() -> None:
            self.memory += value

        self.driver.bindings.queues.add(self.stream, work)

    def values(self) -> list[float]:
        self.driver.bindings.queues.wait_for(self.stream)
        return self.memory.tolist()


def by_dlpack(driver: PlayedDriver, array: Any, stream: int, versioned: bool = False) -> tuple[Consumer, Any]:
    assert array.__dlpack_device__() == (2, 0)
    version = {"max_version": (1, 0)} if versioned else {}
    taken = dlpack.take(array.__dlpack__(stream=stream or 1, **version))
    assert taken.scalar is not None and taken.shape == array.shape
    return Consumer(driver, taken.address, taken.scalar.name.replace("f", "float"), taken.shape[0], stream), taken


def by_interface(driver: PlayedDriver, array: Any, stream: int) -> tuple[Consumer, Any]:
    described = array.__cuda_array_interface__
    assert described["version"] == 3
    driver.order(0 if described["stream"] == 1 else described["stream"], stream)
    dtype = np.dtype(described["typestr"]).name
    return Consumer(driver, described["data"][0], dtype, described["shape"][0], stream), None


@pytest.mark.parametrize("way", [by_dlpack, by_interface])
def test_others_share_our_memory(driver: PlayedDriver, way: Any) -> None:
    kernel = qd.kernel(scale)
    stream = driver.bindings.cuStreamCreate(1)[1]
    x = qd.ndarray(qd.f32, 4)
    x.fill(1.0)
    kernel(x, 2.0)
    theirs, _ = way(driver, x, stream)
    assert theirs.values() == [2.0, 3.0, 4.0, 5.0], "they wait for what was launched"
    theirs.add(10.0)
    theirs.values()
    assert x[0] == 12.0 and x.to_numpy().tolist() == [12.0, 13.0, 14.0, 15.0]
    x[1] = 100.0
    assert theirs.values() == [12.0, 100.0, 14.0, 15.0], "what the host writes is seen at once"
    theirs.add(1.0)
    theirs.values()
    assert x[0] == 13.0, "the host asks anew"
    for _ in range(3):
        kernel(x, 1.0)
    qd.sync()
    assert theirs.values() == [13.0, 104.0, 21.0, 25.0]
    x.from_numpy(np.zeros(4))
    assert theirs.values() == [0.0] * 4


def test_shared_memory_lives_as_long_as_others_need_it(driver: PlayedDriver) -> None:
    x = qd.ndarray(qd.f64, 3)
    x.fill(5.0)
    theirs, taken = by_dlpack(driver, x, 0, versioned=True)
    del x
    qd.reset()
    assert theirs.values() == [5.0] * 3
    left = driver.bindings.left
    del taken
    blocks.holding(0, 0)  # what finalisers have noted is done
    assert driver.bindings.left > left


def test_a_capsule_that_nobody_takes(driver: PlayedDriver) -> None:
    x = qd.ndarray(qd.f64, 3)
    x.fill(5.0)
    for versioned in (False, True):
        del (capsule := [x.to_dlpack(versioned)])[0]
        assert not capsule
    left = driver.bindings.left
    del x
    blocks.holding(0, 0)
    assert driver.bindings.left > left


def test_their_view_of_our_array_beside_the_array(driver: PlayedDriver) -> None:
    @qd.kernel
    def shift(a, b):
        for i in range(a.shape[0]):
            a[i] = b[i] + 1

    x = qd.ndarray(qd.i32, 4)
    other = CudaArray(driver, np.zeros(4, np.int32))
    shift(x, other)
    other.address = x.__cuda_array_interface__["data"][0]
    shift(x, other)
    assert x.to_numpy().tolist() == [2] * 4
    assert shift._last.may_alias


def test_fields_components_and_vectors(driver: PlayedDriver) -> None:
    v = qd.Vector.field(3, qd.f32, shape=(4,))
    v.fill([1.0, 2.0, 3.0])
    taken = dlpack.take(v.to_dlpack())
    assert taken.shape == (4, 3) and taken.strides == (12, 4)
    part = dlpack.take(v.get_scalar_field(1).to_dlpack())
    assert part.address == taken.address + 4 and part.strides == (12,)
    with pytest.raises(BufferError, match=r"take a copy, to_numpy\(\)"):
        v[0]
    assert v.to_numpy()[2].tolist() == [1.0, 2.0, 3.0]


def test_what_is_not_shared_is_refused(driver: PlayedDriver) -> None:
    x = qd.ndarray(qd.f32, 4)
    with pytest.raises(BufferError, match="on the device"):
        x.__dlpack__(dl_device=(1, 0))
    with pytest.raises(BufferError, match="without a copy"):
        x.__dlpack__(copy=True)
    view = x.to_numpy(copy=False)
    with pytest.raises(BufferError, match="others have a view of the host's"):
        x.to_dlpack()
    assert view.tolist() == [0.0] * 4
    half = qd.ndarray(qd.bf16, 4)
    assert not hasattr(half, "__cuda_array_interface__")
    assert dlpack.take(half.to_dlpack()).scalar is qd.bf16
    qd.init(arch=qd.cpu, log_level="error")
    assert not hasattr(qd.ndarray(qd.f32, 4), "__cuda_array_interface__")
    assert qd.ndarray(qd.f32, 4).__dlpack_device__() == (1, 0)


def test_numpys_view_of_an_array_stays_in_step(driver: PlayedDriver) -> None:
    kernel = qd.kernel(scale)
    x = qd.ndarray(qd.i32, 4)
    view = np.asarray(x)
    kernel(x, 1)
    view[0] = 9
    kernel(x, 1)
    assert view.tolist() == [9, 2, 4, 6]
