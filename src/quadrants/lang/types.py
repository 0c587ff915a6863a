"""`qd.types`: data types, and the objects that annotate parameters of kernels and functions.

Annotations are optional everywhere. Where one is given, it is a data type, a Python type (`int`, `float`, `bool`: the
default types), a vector or matrix type of `vector` and `matrix`, an `NDArray`, or a `Template`.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from quadrants import knobs
from quadrants.errors import QuadrantsSyntaxError, QuadrantsTypeError
from quadrants.ir import types as ir_types
from quadrants.ir.types import ScalarType, bf16, f16, f32, f64, i8, i16, i32, i64, u1, u8, u16, u32, u64
from quadrants.lang.absent import absent

if TYPE_CHECKING:
    from quadrants.lang.field import MatrixField
    from quadrants.lang.matrix import Matrix
    from quadrants.lang.ndarray import Ndarray

float16, float32, float64 = f16, f32, f64
int8, int16, int32, int64 = i8, i16, i32, i64
uint1, uint8, uint16, uint32, uint64 = u1, u8, u16, u32, u64

__all__ = [
    "MatrixAnnotation",
    "NDArray",
    "OptionalAnnotation",
    "ScalarType",
    "Template",
    "bf16",
    "f16",
    "f32",
    "f64",
    "float16",
    "float32",
    "float64",
    "i8",
    "i16",
    "i32",
    "i64",
    "int8",
    "int16",
    "int32",
    "int64",
    "matrix",
    "ndarray",
    "primitive_types",
    "scalar_type",
    "template",
    "u1",
    "u8",
    "u16",
    "u32",
    "u64",
    "uint1",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "vector",
]


def use_python_widths() -> None:
    """Make the default types those of Python's numbers, as they are without `qd.init`."""
    knobs.current.default_int, knobs.current.default_float, knobs.current.widest_float = i64, f64, f64


use_python_widths()

primitive_types = SimpleNamespace(
    real_types=[f16, f32, f64, bf16, float],
    integer_types=[i8, i16, i32, i64, u8, u16, u32, u64, int],
    all_types=[f16, f32, f64, bf16, float, u1, i8, i16, i32, i64, u8, u16, u32, u64, int, bool],
)

_BY_NUMPY: dict[np.dtype, ScalarType] = {
    scalar.numpy: scalar for scalar in ir_types.scalar_types if scalar.numpy is not None
}


def scalar_of_numpy(dtype: np.dtype) -> ScalarType:
    """The data type that a NumPy dtype holds; QuadrantsTypeError if there is none."""
    found = _BY_NUMPY.get(dtype)
    if found is None:
        raise QuadrantsTypeError(f"NumPy's {dtype} has no data type here: use bool, integers, or floats up to 64 bits")
    return found


def scalar_type(annotation: Any) -> ScalarType:
    """The data type that `annotation` stands for: a data type itself, Python's `int`, `float`, `bool`, or a NumPy dtype
    or scalar type. QuadrantsTypeError for anything else."""
    if isinstance(annotation, ScalarType):
        return annotation
    if annotation is float:
        return knobs.current.default_float
    if annotation is int:
        return knobs.current.default_int
    if annotation is bool:
        return u1
    if isinstance(annotation, np.dtype) or (isinstance(annotation, type) and issubclass(annotation, np.generic)):
        return scalar_of_numpy(np.dtype(annotation))
    raise QuadrantsTypeError(f"{annotation!r} is not a data type: use one such as qd.f32, or int, float, bool")


def __getattr__(name: str) -> Any:
    raise absent("quadrants.types", name)


class _Annotation:
    """What all annotation objects share: `annotation | None` allows None as an argument."""

    __slots__ = ()

    def __or__(self, other: object) -> OptionalAnnotation:
        if other is not None and other is not type(None):
            return NotImplemented
        return OptionalAnnotation(self)

    __ror__ = __or__


class OptionalAnnotation(_Annotation):
    """The annotation `inner | None`: the argument is what `inner` annotates, or None, which is static."""

    __slots__ = ("inner",)

    def __init__(self, inner: Any) -> None:
        self.inner = inner

    def __repr__(self) -> str:
        return f"{self.inner!r} | None"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, OptionalAnnotation) and self.inner == other.inner

    def __hash__(self) -> int:
        return hash((OptionalAnnotation, self.inner))


class MatrixAnnotation(_Annotation):
    """The type of vectors (`shape` (n,)) or matrices (`shape` (n, m)) of one static shape.

    Interned: equal types are one object. `dtype` is a data type; Python's `int` or `float` for the default type at the
    time of use; or None where any element type will do. Calling the type makes a value; `field` and `ndarray` allocate
    arrays of such values.
    """

    __slots__ = ("_dtype", "shape")
    _known: dict[tuple, MatrixAnnotation] = {}

    def __new__(cls, shape: tuple[int, ...], dtype: Any = None) -> MatrixAnnotation:
        key = (shape, dtype)
        found = cls._known.get(key)
        if found is None:
            found = super().__new__(cls)
            found.shape = shape
            found._dtype = dtype if dtype is None or dtype is int or dtype is float else scalar_type(dtype)
            found = cls._known.setdefault(key, found)
        return found

    @property
    def dtype(self) -> ScalarType | None:
        """The element type, None if it is free."""
        return None if self._dtype is None else scalar_type(self._dtype)

    @property
    def n(self) -> int:
        """Rows of the matrix, or length of the vector."""
        return self.shape[0]

    @property
    def m(self) -> int:
        """Columns of the matrix, 1 for a vector."""
        return self.shape[1] if len(self.shape) == 2 else 1

    @property
    def ndim(self) -> int:
        """1 for vectors, 2 for matrices."""
        return len(self.shape)

    def ir_type(self) -> ir_types.MatrixType:
        """The compiler's type; a free element type becomes the default float."""
        return ir_types.matrix_type(self.dtype or knobs.current.default_float, self.shape)

    def __call__(self, *values: Any) -> Matrix:
        """A value of this type: no argument gives zeros, one number fills, otherwise the numbers, vectors and sequences
        given are strung together and must be as many as the type has elements (QuadrantsTypeError)."""
        from quadrants.lang.matrix import construct

        return construct(self, values)

    def field(self, shape: Any = None, **options: Any) -> MatrixField:
        """A field of such elements; options as in `qd.field`."""
        from quadrants.lang.field import field

        return cast("MatrixField", field(self, shape, **options))

    def ndarray(self, shape: Any, **options: Any) -> Ndarray:
        """An ndarray of such elements; options as in `qd.ndarray`."""
        from quadrants.lang.ndarray import ndarray

        return ndarray(self, shape, **options)

    def __repr__(self) -> str:
        name = "vector" if len(self.shape) == 1 else "matrix"
        sizes = ", ".join(map(str, self.shape))
        shown = self._dtype.__name__ if isinstance(self._dtype, type) else self._dtype
        return f"qd.types.{name}({sizes}, {shown})"

    def __reduce__(self) -> tuple:
        return (MatrixAnnotation, (self.shape, self._dtype))

    def __copy__(self) -> MatrixAnnotation:
        return self

    def __deepcopy__(self, memo: object) -> MatrixAnnotation:
        return self


def _static_size(size: Any, what: str) -> int:
    if isinstance(size, bool) or not isinstance(size, (int, np.integer)) or size < 1:
        raise QuadrantsTypeError(f"{what} must be a positive int, not {size!r}")
    return int(size)


def vector(n: int, dtype: Any = None, *, unpacked: bool = False) -> MatrixAnnotation:
    """The type of vectors of length `n`. `dtype` None leaves the element type free.

    `unpacked` lets upstream store a member in separate registers; QuadrantsSyntaxError if it is asked for here.
    """
    if unpacked:
        raise QuadrantsSyntaxError("unpacked=True is only for members of @qd.dataclass classes")
    return MatrixAnnotation((_static_size(n, "the length of a vector"),), dtype)


def matrix(n: int, m: int, dtype: Any = None) -> MatrixAnnotation:
    """The type of matrices of `n` rows and `m` columns. `dtype` None leaves the element type free."""
    return MatrixAnnotation((_static_size(n, "the number of rows"), _static_size(m, "the number of columns")), dtype)


class NDArray(_Annotation):
    """Annotation of an array parameter: a NumPy array, torch tensor, ndarray or field.

    `dtype` (a data type or vector or matrix type) and `ndim` (number of axes, element axes not counted) restrict what
    is accepted; None accepts all. `element_dim` 1 or 2 makes the last axes a vector or matrix, `element_shape` with
    these sizes. `boundary` 'clamp' clamps indices into range. `NDArray[dtype, ndim]` is short for the first two.
    ValueError for `field_dim` and for a boundary of another name.
    """

    __slots__ = ("boundary", "dtype", "element_dim", "element_shape", "ndim", "needs_grad")

    def __init__(
        self,
        dtype: Any = None,
        ndim: int | None = None,
        element_dim: int | None = None,
        element_shape: tuple[int, ...] | None = None,
        field_dim: int | None = None,
        needs_grad: bool | None = None,
        boundary: str = "unsafe",
    ) -> None:
        if field_dim is not None:
            raise ValueError("field_dim is not an option of qd.types.ndarray: use ndim")
        if boundary not in ("unsafe", "clamp"):
            raise ValueError(f"boundary must be 'unsafe' or 'clamp', not {boundary!r}")
        if element_dim not in (None, 0, 1, 2):
            raise ValueError(f"element_dim must be 0, 1 or 2, not {element_dim!r}")
        self.dtype: ScalarType | MatrixAnnotation | None = _element_annotation(dtype)
        if isinstance(self.dtype, MatrixAnnotation):
            element_shape = self.dtype.shape
        self.element_shape = tuple(element_shape) if element_shape is not None else None
        self.element_dim = len(self.element_shape) if self.element_shape is not None else element_dim
        self.ndim = ndim
        self.needs_grad = needs_grad
        self.boundary = boundary

    def __class_getitem__(cls, parameters: Any) -> NDArray:
        return cls(*parameters) if isinstance(parameters, tuple) else cls(parameters)

    def __repr__(self) -> str:
        return f"qd.types.ndarray(dtype={self.dtype}, ndim={self.ndim})"

    def _key(self) -> tuple:
        return (self.dtype, self.ndim, self.element_dim, self.element_shape, self.needs_grad, self.boundary)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, NDArray) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())


ndarray = NDArray


def _element_annotation(dtype: Any) -> ScalarType | MatrixAnnotation | None:
    return dtype if dtype is None or isinstance(dtype, MatrixAnnotation) else scalar_type(dtype)


class Template(_Annotation):
    """Annotation of a parameter that the kernel or function is specialised on: a constant by its value, anything else
    by identity. In functions such a parameter is passed by reference."""

    __slots__ = ()

    def __class_getitem__(cls, parameters: Any) -> Template:
        return cls()

    def __repr__(self) -> str:
        return "qd.template()"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Template)

    def __hash__(self) -> int:
        return hash(Template)


template = Template
