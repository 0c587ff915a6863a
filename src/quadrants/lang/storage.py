"""What fields and ndarrays share: memory of typed elements that kernels and the host read and write in place."""

from __future__ import annotations

import operator
import threading
import weakref
from typing import Any

import numpy as np

from quadrants import blocks, knobs
from quadrants.errors import QuadrantsBoundsError, QuadrantsRuntimeError
from quadrants.ir import types as ir_types
from quadrants.ir.types import ArrayType, ScalarType
from quadrants.lang import interop, numeric, sharing
from quadrants.lang.matrix import Matrix, wrap_value
from quadrants.records import Record
from quadrants.runtime import layout, memory, threads

__all__ = ["Placed", "Storage", "free_all", "placed"]

_lock = threading.RLock()
_alive: weakref.WeakSet[Storage] = weakref.WeakSet()
_dropped: list[np.ndarray | None] = []


def _give_back_dropped() -> None:
    """Gives memory of freed storages back, unless a kernel may still run on it."""
    if not threads.are_launches_beside():
        _dropped.clear()


class Storage:
    """Typed elements at logical indices, in memory that is allocated (64-byte aligned, zeroed) at the first use.

    The slots are read by the launcher at fixed member offsets, so their order and this class's place at the root of the
    hierarchy are a contract:
    `_descriptor`  bytes { u64 data; i64 shape[rank]; i64 strides_in_bytes[rank] }, element axes last; None until placed
    `_array_type`  the compiler's interned type of that descriptor; None as long as the shape is not known
    `_buffer`      the memory (uint8), None until placed and after the storage was freed
    `_view`        NumPy array over the memory: shape + element shape (uint16 bit patterns for bf16)
    `_shape`       logical shape without element axes, None until known
    `_element_shape`, `_scalar`  shape () / (n,) / (n, m) and type of the elements
    `_order`       batch axes from slowest to fastest, None for their own order
    `_offset`      the smallest index of every axis, None for zeros
    `_on_device`   the descriptor of a device's memory while launches may go by it (`blocks.Block.admit`), None else
    `_source`      (storage, element index) if this is a component of another storage's elements
    """

    __slots__ = (
        "__weakref__",
        "_array_type",
        "_buffer",
        "_descriptor",
        "_element_shape",
        "_freed",
        "_name",
        "_offset",
        "_on_device",
        "_order",
        "_planar",
        "_scalar",
        "_shape",
        "_source",
        "_view",
    )
    _kind = "storage"

    def __init__(
        self,
        scalar: ScalarType,
        element_shape: tuple[int, ...],
        shape: tuple[int, ...] | None,
        order: tuple[int, ...] | None = None,
        offset: tuple[int, ...] | None = None,
        name: str = "",
        planar: bool = False,
    ) -> None:
        self._scalar = scalar
        self._element_shape = element_shape
        self._name = name
        self._descriptor: bytes | None = None
        self._array_type: ArrayType | None = None
        self._buffer: np.ndarray | None = None
        self._view: np.ndarray | None = None
        self._source: tuple[Storage, tuple[int, ...]] | None = None
        self._shape: tuple[int, ...] | None = None
        self._planar = planar
        self._on_device: bytes | None = None
        self._order = self._offset = None
        self._freed = False
        if shape is not None:
            self._set_shape(shape, order, offset)
        with _lock:
            _alive.add(self)

    def _set_shape(
        self, shape: tuple[int, ...], order: tuple[int, ...] | None = None, offset: tuple[int, ...] | None = None
    ) -> None:
        """Fix the logical shape; from here on the array type is known and `_place` can allocate."""
        self._shape = shape
        self._order = order if order != tuple(range(len(shape))) else None
        self._offset = offset if offset is not None and any(offset) else None
        kind = layout.plan(self._scalar, shape, self._element_shape, self._order, self._planar).kind
        if self._source is not None and not (kind == "C" and self._source[0]._planar):
            kind = "A"
        rank = len(shape) + len(self._element_shape)
        self._array_type = ir_types.array_type(self._scalar, rank, self._element_shape, kind)

    def __getattr__(self, name: str) -> Any:
        """`place`, which launchers call: kept out of `dir`, which lists what users need."""
        if name == "place":
            return self._place
        raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")

    def _place(self) -> None:
        """Allocate the memory unless that is done; QuadrantsRuntimeError if the storage was freed, RuntimeError if a
        field has no shape yet."""
        if self._descriptor is not None:
            return
        with _lock:
            if self._freed:
                raise QuadrantsRuntimeError(
                    f"this {self._kind} was freed by qd.reset() or qd.init(): make it after qd.init()"
                )
            if self._shape is None:
                raise QuadrantsRuntimeError(
                    f"{self._kind} {self._name or '(no name)'} has no allocation: give it a shape, or place it with "
                    "qd.root.dense(axes, sizes).place(...)"
                )
            if self._source is not None:
                self._adopt(*self._source)
            elif self._descriptor is None:
                self._allocate()

    def _allocate(self) -> None:
        assert self._shape is not None
        plan = layout.plan(self._scalar, self._shape, self._element_shape, self._order, self._planar)
        _give_back_dropped()
        try:
            self._buffer = memory.allocate(plan.byte_count)
        except MemoryError:
            raise MemoryError(
                f"{self._title()}, {'x'.join(map(str, plan.shape))} of {self._scalar}, takes {plan.byte_count / 2**30:.4g} GiB, "
                "which this machine does not have: make it smaller, or of a narrower type"
            ) from None
        stored = self._scalar.numpy if self._scalar.numpy is not None else np.dtype(np.uint16)
        self._view = np.ndarray(plan.shape, stored, self._buffer, 0, plan.strides)
        self._descriptor = layout.pack_descriptor(self._buffer.ctypes.data, plan.shape, plan.strides)

    def _adopt(self, owner: Storage, component: tuple[int, ...]) -> None:
        owner._place()
        assert owner._view is not None
        self._buffer = owner._buffer
        self._view = owner._view[(..., *component)]
        self._descriptor = layout.pack_descriptor(self._view.ctypes.data, self._view.shape, self._view.strides)

    def _free(self) -> None:
        """Law: no launch that begins from now on finds the memory; those that run beside Python keep it."""
        self._freed = True
        _dropped.append(self._buffer)
        self._descriptor = self._on_device = self._buffer = self._view = None
        _give_back_dropped()

    def _host(self, reads_only: bool = False) -> np.ndarray:
        """The NumPy array over the memory, allocated if need be; whoever `reads_only` does not change it. The address stays
        the same until the storage dies."""
        if self._view is None:
            self._place()
        view = self._view
        assert view is not None
        if blocks.are_mirrored():
            blocks.for_host(view.ctypes.data, reads_only)
        return view

    def _write(self, values: Any, place: Any = ...) -> None:
        """Writes what `_view` holds at a place of it."""
        view = self._host()
        view[place] = values
        if blocks.are_mirrored():
            blocks.host_wrote(view.ctypes.data)

    def _given_away(self) -> np.ndarray:
        """`_host` for views that others keep: a device cannot know when they read or write."""
        view = self._host()
        blocks.given_away(view.ctypes.data)
        return view

    def _title(self) -> str:
        return f"{self._kind} {self._name}".rstrip()

    @property
    def shape(self) -> tuple[int, ...]:
        """The logical shape, element axes not counted."""
        if self._shape is None:
            self._place()
        assert self._shape is not None
        return self._shape

    @property
    def dtype(self) -> ScalarType:
        """The data type of the elements (of their components, for vectors and matrices)."""
        return self._scalar

    @property
    def layout(self) -> tuple[int, ...] | None:
        """The axes from slowest to fastest; None if that is their own order."""
        return self._order

    def _index(self, key: Any) -> tuple[int, ...]:
        """Logical host index → index into `_view`; the errors are those of `__getitem__`."""
        shape = self.shape
        if key is None:
            key = ()
        elif isinstance(key, Matrix):
            key = tuple(key.to_list())
        elif not isinstance(key, tuple):
            key = (key,)
        try:
            indices = tuple(map(operator.index, key))
        except TypeError:
            raise TypeError(
                f"indices must be integers, not {key}: slicing a qd.{self._kind} is not supported so far; "
                "to_numpy(copy=False) gives a NumPy array over the same memory"
            ) from None
        if len(indices) != len(shape):
            raise self._rank_error(len(indices))
        return self._in_range(indices, shape)

    def _rank_error(self, count: int) -> Exception:
        wanted = "None" if not self._shape else f"{len(self._shape)} indices"
        return QuadrantsBoundsError(
            f"Slicing is not supported on qd.{self._kind}: {count} indices given where {wanted} are expected"
        )

    def _in_range(self, indices: tuple[int, ...], shape: tuple[int, ...]) -> tuple[int, ...]:
        offset = self._offset
        shifted = indices if offset is None else tuple(map(operator.sub, indices, offset))
        for index, size in zip(shifted, shape):
            if not 0 <= index < size:
                place = "" if offset is None else f" and offset {offset}"
                raise QuadrantsBoundsError(
                    f"Accessing {self._kind} ({self._name}) of size {shape}{place} with indices {indices}"
                )
        return shifted

    def __getitem__(self, key: Any) -> Any:
        """The element at an index: a Python number, or a Vector or Matrix over the memory itself (assigning its
        elements changes the storage; for bf16 it is a copy). `None` and `()` index a 0-D storage. TypeError for what is
        no integer, QuadrantsBoundsError (an IndexError) for a wrong number of indices or one out of range."""
        element = (self._given_away() if self._element_shape else self._host(reads_only=True))[self._index(key)]
        if self._scalar is ir_types.bf16:
            element = numeric.bfloat16_values(element)
        return wrap_value(np.asarray(element), self._scalar)

    def __setitem__(self, key: Any, value: Any) -> None:
        """Set one element; a vector or matrix element takes a value, a sequence, or one number for all components.
        Errors as in `__getitem__`; ValueError for a value of another shape."""
        self._write(self._element(value), self._index(key))

    def _element(self, value: Any) -> np.ndarray:
        values, _ = numeric.operand(value)
        if values.ndim and values.shape != self._element_shape:
            raise ValueError(
                f"a value of shape {values.shape} does not fit elements of shape {self._element_shape} of {self._title()}"
            )
        return self._stored(values)

    def _stored(self, values: np.ndarray) -> np.ndarray:
        """`values` converted to what `_view` holds."""
        if self._scalar is ir_types.bf16:
            return numeric.bfloat16_bits(values)
        return values if values.dtype == self._scalar.numpy else numeric.convert(values, self._scalar)

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("a 0-D storage has no len()")
        return self.shape[0]

    def fill(self, val: Any) -> None:
        """Set every element to `val`, a number, or a vector or matrix of the element's shape."""
        self._write(self._element(val))

    def _numpy(self, dtype: Any, copy: bool | None) -> np.ndarray:
        """Shape + element shape as a NumPy array; see to_numpy."""
        view = self._host(reads_only=True) if copy else self._given_away()
        if self._scalar is ir_types.bf16:
            if copy is False:
                raise ValueError("Zero-copy not available for dtype=bf16, which NumPy does not have")
            view, copy = numeric.bfloat16_values(view), False
        if dtype is not None and (wanted := interop.numpy_dtype(dtype)) != view.dtype:
            if copy is False and self._scalar is not ir_types.bf16:
                raise ValueError(f"copy=False cannot convert {self._scalar} to {wanted}")
            return view.astype(wanted)
        return view.copy() if copy else view

    def _load(self, array: Any, shape: tuple[int, ...]) -> None:
        """Copy a NumPy array or torch tensor of that shape in, converted; ValueError for another shape, TypeError for
        what is no array."""
        values = interop.as_numpy(array)
        if values.shape != shape:
            raise ValueError(f"shape {values.shape} does not match the shape {shape} of this {self._kind}")
        view = self._host()
        self._write(self._stored(values).reshape(view.shape))

    def _torch(self, device: Any, copy: bool | None) -> Any:
        if (copy is not True or device is not None) and interop.is_for_gpu(device) and sharing.device_of() is not None:
            return interop.from_gpu(self, device, copy)
        view = self._host(reads_only=True) if copy else self._given_away()
        if self._scalar is ir_types.bf16:
            return interop.bfloat16_to_torch(view, device, copy)
        return interop.to_torch(view, self._scalar, device, copy)

    def __reduce__(self) -> Any:
        raise TypeError(f"a {self._kind} cannot be copied or pickled: use to_numpy() and from_numpy()")

    def to_dlpack(self, versioned: bool = False) -> Any:
        """A DLPack capsule over the memory (shape + element shape), of the versioned form if asked for."""
        return self.__dlpack__(max_version=(1, 0)) if versioned else self.__dlpack__()

    def __dlpack__(self, **options: Any) -> Any:
        device = sharing.device_of()
        if device is not None:
            return sharing.capsule(self, self._host(reads_only=True), device, **options)
        return self._given_away().__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        device = sharing.device_of()
        return self._host(reads_only=True).__dlpack_device__() if device is None else sharing.place_of(device)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        device = sharing.device_of()
        if device is None:
            raise AttributeError(f"this {self._kind} lies in the host's memory")
        if self._scalar.numpy is None:
            raise AttributeError(f"arrays of CUDA's interface have no type for {self._scalar}: use DLPack")
        return sharing.array_interface(self, self._host(reads_only=True), device)


@knobs.on_reset
def free_all() -> None:
    """Free every storage: later uses raise QuadrantsRuntimeError. Views that were handed out keep their memory."""
    with _lock:
        for storage in list(_alive):
            storage._free()
        _alive.clear()


class Placed(Record):
    """A storage that has memory of its own: how many bytes, and what it is."""

    bytes: int
    kind: str
    scalar: ScalarType
    shape: tuple[int, ...]
    name: str


def placed() -> list[Placed]:
    """The storages that have memory of their own."""
    with _lock:
        own = [storage for storage in _alive if storage._source is None]
    found = [(storage, storage._buffer) for storage in own]
    return [
        Placed(buffer.nbytes, held._kind, held._scalar, (*(held._shape or ()), *held._element_shape), held._name)
        for held, buffer in found
        if buffer is not None
    ]
