"""Arrays of other packages in the memory of a GPU that is played: torch's own tensors, CuPy's kind, and a package with DLPack's
table of functions. Each owner works in a stream of its own choice."""

from __future__ import annotations

import ctypes
import functools
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from quadrants.evidence.ptx.driver import PlayedDriver
from quadrants.ir.types import scalar_of_numpy
from quadrants.lang import foreign
from quadrants.targets.device import dlpack, torch_tensors

_new_capsule = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)(
    ("PyCapsule_New", ctypes.pythonapi)
)
_Read = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_void_p)
_Ask = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_int32, ctypes.c_int32, ctypes.POINTER(ctypes.c_uint64))
_kept: list[Any] = []


def table_of(read: Any, ask: Any, version: tuple[int, int] = (1, 3), before: int = 0) -> tuple[Any, int]:
    """A capsule with DLPack's table of functions, and where the table is. `read`, `ask`: ctypes functions, or addresses."""
    read_at, ask_at = (part if type(part) is int else ctypes.cast(part, ctypes.c_void_p).value for part in (read, ask))
    words = (ctypes.c_uint64 * 7)(version[0] | version[1] << 32, before, 1, 1, 1, read_at, ask_at)
    _kept.extend((words, read, ask))
    place = ctypes.addressof(words)
    return _new_capsule(place, b"dlpack_exchange_api", None), place


class Owned:
    """An array in the played GPU's memory that another package owns; it works in a stream of its own."""

    def __init__(self, driver: PlayedDriver, values: np.ndarray, stream: int = 0) -> None:
        self.driver, self.stream = driver, stream
        self.shape, self.strides, self.held = values.shape, values.strides, values.dtype
        self.memory = driver.allocate(max(values.nbytes, 1))
        self.address = self.memory.address
        driver.write(self.address, values.tobytes())
        self.released = 0

    def later(self, values: np.ndarray) -> None:
        """The owner writes the array in its stream: when that comes to it."""
        later(self.driver, self.address, values, self.stream)

    def values(self) -> np.ndarray:
        """What the owner sees once its own stream has come here, and no other."""
        return seen(self.driver, self.address, self.shape, self.held, self.stream)


def later(driver: PlayedDriver, address: int, values: np.ndarray, stream: int) -> None:
    data, memory = np.frombuffer(values.tobytes(), np.uint8), driver.machine.memory

    def write() -> None:
        memory.bytes[address : address + len(data)] = data

    driver.bindings.queues.add(stream, write)


def seen(driver: PlayedDriver, address: int, shape: Any, held: Any, stream: int) -> np.ndarray:
    driver.bindings.queues.wait_for(stream)
    count = int(np.prod(shape)) * np.dtype(held).itemsize
    return driver.machine.memory.bytes[address : address + count].copy().view(held).reshape(tuple(shape))


class CudaArray(Owned):
    """As CuPy's and Numba's."""

    read_only = False
    has_strides = True

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return self.described()

    def described(self) -> dict[str, Any]:
        return {
            "shape": self.shape,
            "typestr": self.held.str,
            "data": (self.address, self.read_only),
            "strides": self.strides if self.has_strides else None,
            "version": 3,
            "stream": self.stream or 1,
        }


class Released:
    def __init__(self, owner: Owned) -> None:
        self.owner = owner

    def __del__(self) -> None:
        self.owner.released += 1


class DlpackArray(Owned):
    place: tuple[int, int] = (2, 0)
    versioned = False

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.place

    def __dlpack__(self, stream: int | None = None, **_: Any) -> Any:
        if stream not in (None, -1):
            self.driver.order(self.stream, 0 if stream == 1 else stream)
        scalar = scalar_of_numpy(self.held)
        assert scalar is not None
        return dlpack.give(self.address, scalar, self.shape, self.strides, self.place, Released(self), self.versioned)


def _read(array: ExchangedArray, tensor: int) -> int:
    rank = len(array.shape)
    sizes = (ctypes.c_int64 * (2 * rank + 1))(*array.shape, *[step // array.held.itemsize for step in array.strides])
    array.sizes = sizes
    at, (kind, number) = ctypes.addressof(sizes), array.place
    before = 24  # bytes from what is called data to the first element
    words = (array.address - before, kind | number << 32, rank | array.elements << 32, at, at + 8 * rank, before)
    (ctypes.c_uint64 * 6).from_address(tensor)[:] = words
    return 0


def _ask(kind: int, number: int, stream: Any) -> int:
    ExchangedArray.asked += 1
    stream[0] = ExchangedArray.works_in
    return 0


class ExchangedArray(DlpackArray):
    """An array of a package whose classes have DLPack's table; all of it works in one stream."""

    works_in = 0
    asked = 0
    sizes: Any

    def __init__(self, driver: PlayedDriver, values: np.ndarray, stream: int = 0) -> None:
        super().__init__(driver, values, stream)
        self.elements = {"f": 2, "i": 0, "u": 1, "b": 6}[values.dtype.kind] | values.dtype.itemsize << 11 | 1 << 16

    __dlpack_c_exchange_api__ = table_of(_Read(_read), _Ask(_ask))[0]


class Torch:
    """torch's own tensors, said to be on the GPU that is played, and its functions for CUDA's streams."""

    def __init__(self, driver: PlayedDriver, monkeypatch: pytest.MonkeyPatch, has_table: bool = True) -> None:
        self.torch = torch = pytest.importorskip("torch")
        self.driver, self.stream, self.asked = driver, 0, 0
        current = SimpleNamespace(cuda_stream=0)

        def current_stream(device: Any) -> Any:
            current.cuda_stream = self.stream
            return current

        monkeypatch.setattr(torch.cuda, "current_stream", current_stream)
        monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
        monkeypatch.setattr(torch.Tensor, "__repr__", lambda tensor: "a tensor on the GPU that is played")
        table = vars(torch.Tensor).get("__dlpack_c_exchange_api__")
        if table is None:
            has_table = False
        elif has_table:
            own = dlpack.exchange_of(torch.Tensor, torch.Tensor)
            assert own is not None
            monkeypatch.setattr(torch.Tensor, "__dlpack_c_exchange_api__", table_of(own.read, _Ask(self._ask))[0])
        else:
            monkeypatch.delattr(torch.Tensor, "__dlpack_c_exchange_api__")
        if not has_table:
            functions = torch_tensors.stable_functions()
            assert functions is not None
            tell = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int32, ctypes.POINTER(ctypes.c_uint64))(self._current)
            _kept.append(tell)
            address = ctypes.cast(tell, ctypes.c_void_p).value
            asked = {**functions, "aoti_torch_get_current_cuda_stream": address}
            monkeypatch.setattr(foreign, "stable_functions", lambda: asked)
        foreign._made_of_functions.cache_clear()

    def _current(self, number: int, stream: Any) -> int:
        return self._ask(2, number, stream)

    def _ask(self, kind: int, number: int, stream: Any) -> int:
        assert (kind, number) == (2, 0)
        self.asked += 1
        stream[0] = self.stream
        return 0

    def tensor(self, values: Any, dtype: Any = None, device: int = 0) -> Any:
        """A tensor with these values."""
        values = np.array(values, dtype, order="C")
        memory = self.driver.allocate(max(values.nbytes, 1))
        self.driver.write(memory.address, values.tobytes())
        scalar = scalar_of_numpy(values.dtype)
        assert scalar is not None
        capsule = dlpack.give(memory.address, scalar, values.shape, values.strides, (1, 0), memory, False)
        return self.moved(self.torch.from_dlpack(capsule), device)

    def moved(self, tensor: Any, device: int = 0) -> Any:
        """A tensor that says that it is on a GPU: views of such have to be told, too."""
        place = (ctypes.c_int8 * 2).from_address(tensor._cdata + _place_of_device(self.torch))
        place[0], place[1] = 1, device
        assert tensor.is_cuda and tensor.device.index == device
        return tensor

    def view(self, tensor: Any, shape: Any, strides: Any, first: int = 0) -> Any:
        """A part of a tensor."""
        return self.moved(tensor.as_strided(shape, strides, first))

    def later(self, tensor: Any, values: np.ndarray) -> None:
        later(self.driver, tensor.data_ptr(), values, self.stream)

    def values(self, tensor: Any) -> np.ndarray:
        """What torch sees of a dense tensor once its own stream has come here, and no other."""
        held = str(tensor.dtype).removeprefix("torch.")
        return seen(self.driver, tensor.data_ptr(), tensor.shape, held, self.stream)


@functools.cache
def _place_of_device(torch: Any) -> int:
    """Where a tensor keeps the kind and the number of its device."""
    here, nowhere = torch.zeros(1), torch.empty(1, device="meta")
    first, second = (bytes((ctypes.c_uint8 * 176).from_address(tensor._cdata)) for tensor in (here, nowhere))
    places = [
        k
        for k in range(174)
        if first[k : k + 3] == b"\0\xff\1" and second[k + 1 : k + 3] == b"\xff\1" and 0 < second[k] < 64
    ]
    assert len(places) == 1
    return places[0]
