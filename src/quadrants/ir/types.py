"""Types of the IR: scalars, lanes, matrices, arrays. All are interned, so equality is `is`."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = [
    "ArrayType",
    "LaneType",
    "MatrixType",
    "ScalarType",
    "Type",
    "array_type",
    "bf16",
    "element_type",
    "f16",
    "f32",
    "f64",
    "i8",
    "i16",
    "i32",
    "i64",
    "lane_type",
    "lanes_of",
    "matrix_type",
    "promote",
    "scalar_of",
    "scalar_of_numpy",
    "scalar_types",
    "shape_of",
    "u1",
    "u8",
    "u16",
    "u32",
    "u64",
    "with_scalar",
]


class Type:
    """A type of the IR. Instances are interned: compare with `is`. `scalar` is the type of an element, of a scalar itself."""

    __slots__ = ("name",)
    name: str
    scalar: ScalarType

    @property
    def is_slot(self) -> bool:
        """Whether it is the private memory of one thread."""
        return False

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return self.name

    def __copy__(self) -> Type:
        return self

    def __deepcopy__(self, memo: object) -> Type:
        return self


class ScalarType(Type):
    """A number of fixed width.

    `kind` is 'f' (float), 'i' (signed) or 'u' (unsigned; u1 is the type of truth values), `bits` the width, `numpy` the
    NumPy dtype or None where NumPy has none (bf16). u1 is no integer: `is_integer` is False for it.
    """

    __slots__ = ("bits", "is_float", "is_integer", "is_signed", "kind", "numpy", "scalar")

    def __init__(self, kind: str, bits: int, name: str = "") -> None:
        self.name = name or f"{kind}{bits}"
        self.scalar = self
        self.kind = kind
        self.bits = bits
        self.is_float = kind == "f"
        self.is_signed = kind == "i"
        self.is_integer = kind != "f" and bits > 1
        self.numpy: np.dtype | None = _numpy_dtype(self.name)

    @property
    def bytes(self) -> int:
        """Bytes of one element in memory (u1 takes one byte)."""
        return max(self.bits // 8, 1)

    @property
    def minimum(self) -> int:
        """The smallest value of an integer type."""
        return -(1 << (self.bits - 1)) if self.kind == "i" else 0

    @property
    def maximum(self) -> int:
        """The largest value of an integer type."""
        return (1 << (self.bits - 1)) - 1 if self.kind == "i" else (1 << self.bits) - 1

    def __reduce__(self) -> tuple[Any, ...]:
        return (_scalar_by_name, (self.name,))

    def __call__(self, *values: object) -> object:
        raise _type_called(self)


def _type_called(scalar: ScalarType) -> Exception:
    from quadrants.errors import QuadrantsSyntaxError

    return QuadrantsSyntaxError(
        f"Quadrants data types cannot be called outside Quadrants kernels: use numpy.{scalar.name} or plain numbers here."
    )


def _numpy_dtype(name: str) -> np.dtype | None:
    names = {"u1": "bool", "f16": "float16", "f32": "float32", "f64": "float64", "bf16": None}
    found = names.get(
        name, name.replace("u", "uint").replace("i", "int") if name[0] == "i" else name.replace("u", "uint")
    )
    return np.dtype(found) if found else None


u1 = ScalarType("u", 1)
i8, i16, i32, i64 = (ScalarType("i", bits) for bits in (8, 16, 32, 64))
u8, u16, u32, u64 = (ScalarType("u", bits) for bits in (8, 16, 32, 64))
f16, f32, f64 = (ScalarType("f", bits) for bits in (16, 32, 64))
bf16 = ScalarType("f", 16, "bf16")

scalar_types: tuple[ScalarType, ...] = (u1, i8, i16, i32, i64, u8, u16, u32, u64, f16, bf16, f32, f64)
_by_name: dict[str, ScalarType] = {scalar.name: scalar for scalar in scalar_types}


def _scalar_by_name(name: str) -> ScalarType:
    return _by_name[name]


class MatrixType(Type):
    """A vector or matrix value with a static shape of one or two sizes."""

    __slots__ = ("count", "scalar", "shape")

    def __init__(self, scalar: ScalarType, shape: tuple[int, ...]) -> None:
        self.scalar = scalar
        self.shape = shape
        self.count = int(np.prod(shape))
        self.name = f"matrix<{scalar}, {'x'.join(map(str, shape))}>"

    def __reduce__(self) -> tuple[Any, ...]:
        return (matrix_type, (self.scalar, self.shape))


class LaneType(Type):
    """One number for each of several iterations of a loop that run side by side: `lanes` values of type `scalar`."""

    __slots__ = ("lanes", "scalar")

    def __init__(self, scalar: ScalarType, lanes: int) -> None:
        self.scalar = scalar
        self.lanes = lanes
        self.name = f"lanes<{scalar}, {lanes}>"

    def __reduce__(self) -> tuple[Any, ...]:
        return (lane_type, (self.scalar, self.lanes))


class ArrayType(Type):
    """Memory with a descriptor { data; shape[rank]; strides_in_bytes[rank] }.

    `rank` counts all axes; the sizes of the last `len(trailing)` axes are static (the element of a vector field has
    trailing (3,)). `layout` is 'C' (dense, last axis fastest), 'S' (a structure of arrays: of each component of the
    elements a dense plane; planes lie apart by the stride of the last axis and do not overlap), 'A' (any strides) , 'L'
    (a slot: private dense memory of one thread whose whole shape is `trailing`) or 'B' (the same, shared by the threads
    of a block). Slots and shared memory have no descriptor. A partial index that leaves just static axes yields a matrix.
    """

    __slots__ = ("layout", "rank", "scalar", "trailing")

    def __init__(self, scalar: ScalarType, rank: int, trailing: tuple[int, ...], layout: str) -> None:
        self.scalar = scalar
        self.rank = rank
        self.trailing = trailing
        self.layout = layout
        sizes = "".join(f", {size}" for size in trailing)
        self.name = f"array<{scalar}, {rank}{sizes}, {layout}>"

    @property
    def is_slot(self) -> bool:
        return self.layout == "L"

    @property
    def has_descriptor(self) -> bool:
        """Whether sizes and strides are known at run time only, from a descriptor."""
        return self.layout not in ("L", "B")

    def indexed(self, count: int) -> Type:
        """The type of an element reached by `count` indices; ValueError unless all axes left are static."""
        left = self.rank - count
        if left < 0 or left > len(self.trailing):
            raise ValueError(f"{count} indices into {self}")
        return self.scalar if left == 0 else matrix_type(self.scalar, self.trailing[len(self.trailing) - left :])

    def __reduce__(self) -> tuple[Any, ...]:
        return (array_type, (self.scalar, self.rank, self.trailing, self.layout))


_matrices: dict[tuple[ScalarType, tuple[int, ...]], MatrixType] = {}
_arrays: dict[tuple[ScalarType, int, tuple[int, ...], str], ArrayType] = {}
_lanes: dict[tuple[ScalarType, int], LaneType] = {}


def matrix_type(scalar: ScalarType, shape: tuple[int, ...]) -> MatrixType:
    """The vector or matrix type of that element type and shape."""
    key = (scalar, shape)
    found = _matrices.get(key)
    return found if found is not None else _matrices.setdefault(key, MatrixType(scalar, shape))


def lane_type(scalar: ScalarType, lanes: int) -> LaneType:
    """The type of `lanes` numbers of that type."""
    key = (scalar, lanes)
    found = _lanes.get(key)
    return found if found is not None else _lanes.setdefault(key, LaneType(scalar, lanes))


def array_type(scalar: ScalarType, rank: int, trailing: tuple[int, ...] = (), layout: str = "C") -> ArrayType:
    """The array type of these properties (see ArrayType)."""
    key = (scalar, rank, trailing, layout)
    found = _arrays.get(key)
    return found if found is not None else _arrays.setdefault(key, ArrayType(scalar, rank, trailing, layout))


def slot_type(element: Type) -> ArrayType:
    """The type of a slot that holds one value of `element` type."""
    shape = shape_of(element)
    return array_type(scalar_of(element), len(shape), shape, "L")


def shared_type(element: Type) -> ArrayType:
    """The type of memory that a block shares, for one value of `element` type."""
    shape = shape_of(element)
    return array_type(scalar_of(element), len(shape), shape, "B")


def scalar_of(type_: Type) -> ScalarType:
    """The element type of a scalar, lane, matrix or array type."""
    return type_.scalar


def shape_of(type_: Type) -> tuple[int, ...]:
    """The static shape of a value type: () for scalars and lanes."""
    return type_.shape if type(type_) is MatrixType else ()


def with_scalar(type_: Type, scalar: ScalarType) -> Type:
    """The value type of the same shape and lanes over another element type."""
    if type(type_) is ScalarType:
        return scalar
    if type(type_) is MatrixType:
        return matrix_type(scalar, type_.shape)
    return lane_type(scalar, type_.lanes) if type(type_) is LaneType else scalar


def lanes_of(type_: Type) -> int:
    """How many lanes values of a type have: 1 unless it is a lane type."""
    return type_.lanes if type(type_) is LaneType else 1


def element_type(array: ArrayType) -> Type:
    """The type of a whole element of an array: a scalar, or a matrix of its static axes."""
    return array.indexed(array.rank - len(array.trailing))


_by_numpy: dict[np.dtype, ScalarType] = {scalar.numpy: scalar for scalar in scalar_types if scalar.numpy is not None}


def scalar_of_numpy(dtype: np.dtype) -> ScalarType | None:
    """The scalar type of a NumPy dtype in native byte order, None if there is none."""
    return _by_numpy.get(dtype)


def promote(left: ScalarType, right: ScalarType) -> ScalarType:
    """The type two typed operands meet in: float beats integer at the float's own width, wider beats narrower,
    unsigned wins at equal width, u1 gives way to every other type; f16 with bf16 meets in f32."""
    if left is right:
        return left
    if left.is_float != right.is_float:
        return left if left.is_float else right
    if left.bits != right.bits:
        return left if left.bits > right.bits else right
    if left.is_float:
        return f32
    return left if left.kind == "u" else right


def parse_type(text: str) -> Type:
    """The type that prints as `text`; ValueError if none does."""
    if text in _by_name:
        return _by_name[text]
    head, _, rest = text.partition("<")
    parts = [part.strip() for part in rest.rstrip(">").split(",")]
    if head == "matrix" and len(parts) == 2 and parts[0] in _by_name:
        return matrix_type(_by_name[parts[0]], tuple(int(size) for size in parts[1].split("x")))
    if head == "lanes" and len(parts) == 2 and parts[0] in _by_name:
        return lane_type(_by_name[parts[0]], int(parts[1]))
    if head == "array" and len(parts) >= 3 and parts[0] in _by_name:
        return array_type(_by_name[parts[0]], int(parts[1]), tuple(map(int, parts[2:-1])), parts[-1])
    raise ValueError(f"not a type: {text!r}")
