"""Vectors and matrices as host values: `qd.Vector`, `qd.Matrix`. Assignment of elements changes the value itself;
everything that is computed or read out is a new value."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from quadrants.errors import QuadrantsTypeError
from quadrants.ir import types as ir_types
from quadrants.ir.types import ScalarType
from quadrants.lang import numeric, swizzle
from quadrants.lang.types import MatrixAnnotation, scalar_of_numpy, scalar_type

if TYPE_CHECKING:
    from quadrants.lang.field import MatrixField
    from quadrants.lang.ndarray import Ndarray

__all__ = ["Matrix", "Vector", "construct", "wrap_value"]


def wrap_value(array: np.ndarray, dtype: ScalarType | None) -> Any:
    """A host value of `array`: a Python number (0-D), a Vector (1-D) or a Matrix (2-D)."""
    if array.ndim == 0:
        return array.item()
    value = object.__new__(Vector if array.ndim == 1 else Matrix)
    value._value, value._dtype = array, dtype
    return value


def _elements(data: Any, dtype: Any) -> tuple[np.ndarray, ScalarType | None]:
    wanted = None if dtype is None else scalar_type(dtype)
    known: ScalarType | None = None
    if isinstance(data, Matrix):
        array, known = data._operand()
    elif isinstance(data, np.ndarray):
        array = data
        known = scalar_of_numpy(data.dtype)
    else:
        try:
            array = np.asarray(_unwrapped(data))
        except ValueError:
            raise QuadrantsTypeError(f"rows of a matrix must be of one length: {data!r}") from None
    if array.dtype.kind not in "biuf" or array.size == 0 or array.ndim not in (1, 2):
        raise QuadrantsTypeError(f"a vector or matrix is made of a list of numbers or a list of rows, not {data!r}")
    if wanted is None:
        return array.copy(), ir_types.u1 if array.dtype.kind == "b" else known
    return numeric.convert(array, wanted), wanted


def _unwrapped(data: Any) -> Any:
    if isinstance(data, Matrix):
        return data._value
    if isinstance(data, (list, tuple)):
        return [_unwrapped(entry) for entry in data]
    return data


def construct(annotation: MatrixAnnotation, values: tuple[Any, ...]) -> Any:
    """The value that calling a vector or matrix type makes (see MatrixAnnotation.__call__)."""
    pieces = [numeric.operand(_unwrapped(value))[0].reshape(-1) for value in values]
    flat = np.concatenate(pieces) if pieces else np.zeros(1)
    count = int(np.prod(annotation.shape))
    if flat.size == 1:
        flat = np.repeat(flat, count)
    if flat.size != count:
        raise QuadrantsTypeError(f"{annotation!r} takes {count} numbers, not {flat.size}")
    dtype = annotation.dtype
    shaped = flat.reshape(annotation.shape)
    return wrap_value(shaped.copy() if dtype is None else numeric.convert(shaped, dtype), dtype)


def _binary(symbol: str, swapped: bool = False) -> Callable[[Matrix, Any], Any]:
    def method(self: Matrix, other: Any) -> Any:
        try:
            right = numeric.operand(other)
        except QuadrantsTypeError:
            return NotImplemented
        left = self._operand()
        if right.array.ndim and right.array.shape != left.array.shape:
            raise QuadrantsTypeError(f"shapes {left.array.shape} and {right.array.shape} do not fit for '{symbol}'")
        return wrap_value(*(numeric.binary(symbol, right, left) if swapped else numeric.binary(symbol, left, right)))

    method.__name__ = f"operator {symbol}"
    return method


class Matrix:
    """A small matrix, or a vector if built of a flat list.

    `data` is a list of rows, a list of numbers, a NumPy array or another value; `dt` the element type. Without `dt`
    Python numbers stay weak: they take the type of what they meet. QuadrantsTypeError for data of another form.
    """

    __slots__ = ("__weakref__", "_dtype", "_value")
    __array_priority__ = 1000
    _value: np.ndarray
    _dtype: ScalarType | None

    def __new__(cls, data: Any, dt: Any = None) -> Any:
        array, dtype = _elements(data, dt)
        if cls is Vector and array.ndim != 1:
            raise QuadrantsTypeError(f"a vector is made of a flat list of numbers, not of shape {array.shape}")
        return wrap_value(array, dtype)

    def _operand(self) -> numeric.Operand:
        return numeric.Operand(self._value, self._dtype)

    def _like(self, array: np.ndarray) -> Any:
        return wrap_value(np.array(array), self._dtype)

    def __getattr__(self, name: str) -> Any:
        if name == "n":
            return self._value.shape[0]
        if name == "m":
            return self._value.shape[1] if self._value.ndim == 2 else 1
        if name in ("shape", "ndim"):
            return getattr(self._value, name)
        if name == "dtype":
            return (
                self._dtype
                if self._dtype is not None
                else scalar_type(int if self._value.dtype.kind in "iu" else float)
            )
        raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")

    def __getitem__(self, index: Any) -> Any:
        count = len(index) if isinstance(index, tuple) else 1
        if count > self._value.ndim:
            raise QuadrantsTypeError(f"{count} indices into a value of shape {self._value.shape}")
        return self._like(self._value[index])

    def __setitem__(self, index: Any, value: Any) -> None:
        count = len(index) if isinstance(index, tuple) else 1
        if count > self._value.ndim:
            raise QuadrantsTypeError(f"{count} indices into a value of shape {self._value.shape}")
        array, _ = numeric.operand(_unwrapped(value))
        if self._dtype is not None:
            array = numeric.convert(array, self._dtype)
        elif array.dtype.kind == "f" and self._value.dtype.kind != "f":
            self._value = self._value.astype(np.float64)
        self._value[index] = array

    def __len__(self) -> int:
        return len(self._value)

    def __iter__(self) -> Iterator[Any]:
        return (self[index] for index in range(len(self._value)))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.array(self._value, dtype=dtype)

    def __bool__(self) -> bool:
        return bool(self._value)

    def __copy__(self) -> Any:
        return self._like(self._value)

    def __deepcopy__(self, memo: object) -> Any:
        return self._like(self._value)

    def __reduce__(self) -> tuple:
        return (wrap_value, (self._value, self._dtype))

    def __repr__(self) -> str:
        return str(self.to_list())

    def __matmul__(self, other: Any) -> Any:
        return wrap_value(*_product(self._operand(), numeric.operand(other)))

    def __rmatmul__(self, other: Any) -> Any:
        return wrap_value(*_product(numeric.operand(other), self._operand()))

    def __neg__(self) -> Any:
        return (
            wrap_value(*numeric.binary("-", numeric.operand(0), self._operand())) if self._integral() else self * -1.0
        )

    def __pos__(self) -> Any:
        return self._like(self._value)

    def __invert__(self) -> Any:
        if not self._integral():
            raise QuadrantsTypeError("bad operand type for unary '~': float")
        return self ^ -1 if self._value.dtype.kind != "b" else wrap_value(~self._value, self._dtype)

    def __abs__(self) -> Any:
        with numeric.quiet():
            return self._like(np.abs(self._value))

    def _integral(self) -> bool:
        return self._value.dtype.kind != "f"

    __add__, __radd__ = _binary("+"), _binary("+", True)
    __sub__, __rsub__ = _binary("-"), _binary("-", True)
    __mul__, __rmul__ = _binary("*"), _binary("*", True)
    __truediv__, __rtruediv__ = _binary("/"), _binary("/", True)
    __floordiv__, __rfloordiv__ = _binary("//"), _binary("//", True)
    __mod__, __rmod__ = _binary("%"), _binary("%", True)
    __pow__, __rpow__ = _binary("**"), _binary("**", True)
    __and__, __rand__ = _binary("&"), _binary("&", True)
    __or__, __ror__ = _binary("|"), _binary("|", True)
    __xor__, __rxor__ = _binary("^"), _binary("^", True)
    __lshift__, __rlshift__ = _binary("<<"), _binary("<<", True)
    __rshift__, __rrshift__ = _binary(">>"), _binary(">>", True)
    __lt__, __le__, __gt__, __ge__ = _binary("<"), _binary("<="), _binary(">"), _binary(">=")
    __eq__, __ne__ = _binary("=="), _binary("!=")

    def get_shape(self) -> tuple[int, ...]:
        """(n,) of a vector, (n, m) of a matrix."""
        return self._value.shape

    def to_list(self) -> list[Any]:
        """The elements as a list of Python numbers, or of rows."""
        return self._value.tolist()

    def to_numpy(self) -> np.ndarray:
        """A NumPy array of the same shape; a copy."""
        return self._value.copy()

    def cast(self, dt: Any) -> Any:
        """The value with elements of type `dt` (floats to integers truncate and saturate)."""
        scalar = scalar_type(dt)
        return wrap_value(numeric.convert(self._value, scalar), scalar)

    def fill(self, value: Any) -> None:
        """Set all elements to `value`."""
        self[...] = value

    def sum(self) -> Any:
        """The sum of the elements."""
        with numeric.quiet():
            return self._number(np.sum(self._value, dtype=self._counting()))

    def max(self) -> Any:
        """The largest element; NaN only if all are."""
        return self._number(np.fmax.reduce(self._value, axis=None))

    def min(self) -> Any:
        """The smallest element; NaN only if all are."""
        return self._number(np.fmin.reduce(self._value, axis=None))

    def any(self) -> bool:
        """Whether some element is not zero."""
        return bool(np.any(self._value))

    def all(self) -> bool:
        """Whether no element is zero."""
        return bool(np.all(self._value))

    def _counting(self) -> np.dtype:
        return np.dtype(np.int64) if self._value.dtype.kind == "b" else self._value.dtype

    def _number(self, number: Any) -> Any:
        return wrap_value(np.asarray(number), self._dtype)

    def trace(self) -> Any:
        """The sum of the diagonal; QuadrantsTypeError unless square."""
        self._require_square("trace")
        with numeric.quiet():
            return self._number(np.trace(self._value, dtype=self._counting()))

    def transpose(self) -> Any:
        """The transposed matrix; a vector gives a matrix of one row."""
        return self._like(self._value.T if self._value.ndim == 2 else self._value.reshape(1, -1))

    def determinant(self) -> Any:
        """The determinant; QuadrantsTypeError unless square."""
        self._require_square("determinant")
        return self._real(np.asarray(np.linalg.det(self._value.astype(np.float64))))

    def inverse(self) -> Any:
        """The inverse matrix; QuadrantsTypeError unless square, infinities if singular."""
        self._require_square("inverse")
        try:
            wide = np.linalg.inv(self._value.astype(np.float64))
        except np.linalg.LinAlgError:
            wide = np.full(self._value.shape, np.inf)
        return self._real(wide)

    def _real(self, wide: np.ndarray) -> Any:
        """`wide` (float64) at the width that a real function of this value has."""
        real = numeric.weak_float(self._dtype)
        return wrap_value(wide if real is None else numeric.convert(wide, real), real)

    def _require_square(self, what: str) -> None:
        if self._value.ndim != 2 or self._value.shape[0] != self._value.shape[1]:
            raise QuadrantsTypeError(f"{what} is for square matrices, not for shape {self._value.shape}")

    def _require_vector(self, other: Any, what: str) -> Any:
        other = other if isinstance(other, Matrix) else Matrix(other)
        if self._value.ndim != 1 or other._value.ndim != 1:
            raise QuadrantsTypeError(f"{what} is for vectors, not for {self._value.shape} and {other._value.shape}")
        return other

    def norm_sqr(self) -> Any:
        """The sum of the squares of the elements."""
        return (self * self).sum()

    def norm(self, eps: float = 0) -> Any:
        """sqrt(norm_sqr() + eps): the Euclidean or Frobenius norm."""
        square = numeric.binary("+", self._number_operand(self.norm_sqr()), numeric.operand(eps))
        return wrap_value(*numeric.unary_float("sqrt", square))

    def _number_operand(self, number: Any) -> numeric.Operand:
        return numeric.Operand(np.asarray(number), self._dtype)

    def norm_inv(self, eps: float = 0) -> Any:
        """1 / norm(eps), a float; infinity for the zero vector."""
        with numeric.quiet():
            return float(np.float64(1.0) / np.float64(self.norm(eps)))

    def normalized(self, eps: float = 0) -> Any:
        """The value divided by (norm() + eps)."""
        return self / (self.norm() + eps)

    def dot(self, other: Any) -> Any:
        """The inner product of two vectors of one length."""
        return (self * self._require_vector(other, "dot")).sum()

    def frobenius_inner(self, other: Any) -> Any:
        """The sum of the products of corresponding elements."""
        return (self * other).sum()

    def cross(self, other: Any) -> Any:
        """The cross product of two 3-vectors, or of two 2-vectors (a number)."""
        a, b = self, self._require_vector(other, "cross")
        if len(a) == 3 and len(b) == 3:
            return a.yzx * b.zxy - a.zxy * b.yzx
        if len(a) == 2 and len(b) == 2:
            return (a * b.yx * Vector([1, -1])).sum()
        raise QuadrantsTypeError(f"cross is for two vectors of length 2 or 3, not {len(a)} and {len(b)}")

    def outer_product(self, other: Any) -> Any:
        """The matrix of the products of all pairs of elements of two vectors."""
        other = self._require_vector(other, "outer_product")
        shape = (len(self), len(other))
        left = wrap_value(np.broadcast_to(self._value[:, None], shape), self._dtype)
        return left * wrap_value(np.broadcast_to(other._value[None, :], shape), other._dtype)

    @staticmethod
    def zero(dt: Any, n: int, m: int | None = None) -> Any:
        """A vector (n) or matrix (n, m) of zeros."""
        return Matrix(np.zeros((n,) if m is None else (n, m)), dt)

    @staticmethod
    def one(dt: Any, n: int, m: int | None = None) -> Any:
        """A vector (n) or matrix (n, m) of ones."""
        return Matrix(np.ones((n,) if m is None else (n, m)), dt)

    @staticmethod
    def identity(dt: Any, n: int) -> Any:
        """The identity matrix of n rows."""
        return Matrix(np.eye(n), dt)

    @staticmethod
    def unit(n: int, i: int, dt: Any = None) -> Any:
        """The vector of length n with a one at position i; the default integer type unless `dt`."""
        return Matrix([int(k == i) for k in range(n)], dt)

    @staticmethod
    def diag(dim: int, val: Any) -> Any:
        """The square matrix with `val` on the diagonal and zeros elsewhere."""
        return Matrix([[val if i == j else 0 for j in range(dim)] for i in range(dim)])

    @staticmethod
    def rows(rows: Sequence[Any]) -> Any:
        """The matrix of the given rows (vectors or sequences of numbers of one length)."""
        dtypes = {row._dtype for row in rows if isinstance(row, Matrix)}
        return Matrix([list(row) for row in rows], dtypes.pop() if len(dtypes) == 1 else None)

    @staticmethod
    def cols(cols: Sequence[Any]) -> Any:
        """The matrix of the given columns (vectors or sequences of numbers of one length)."""
        return Matrix.rows(cols).transpose()

    @classmethod
    def field(cls, n: int, m: int, dtype: Any, shape: Any = None, **options: Any) -> MatrixField:
        """A field of n x m matrices; options as in `qd.field`."""
        return MatrixAnnotation((n, m), dtype).field(shape, **options)

    @classmethod
    def ndarray(cls, n: int, m: int, dtype: Any, shape: Any, **options: Any) -> Ndarray:
        """An ndarray of n x m matrices; options as in `qd.ndarray`."""
        return MatrixAnnotation((n, m), dtype).ndarray(shape, **options)

    @classmethod
    def tensor(cls, n: int, m: int, dtype: Any, shape: Any, **options: Any) -> Any:
        """A tensor of n x m matrices; options as in `qd.tensor`."""
        from quadrants.lang.tensor import tensor

        return tensor(MatrixAnnotation((n, m), dtype), shape, **options)


class Vector(Matrix):
    """A small vector. `data` is a sequence of numbers, a 1-D NumPy array or another vector; see Matrix."""

    __slots__ = ()

    @classmethod
    def field(cls, n: int, dtype: Any, shape: Any = None, **options: Any) -> MatrixField:
        """A field of vectors of length n; options as in `qd.field`."""
        return MatrixAnnotation((n,), dtype).field(shape, **options)

    @classmethod
    def ndarray(cls, n: int, dtype: Any, shape: Any, **options: Any) -> Ndarray:
        """An ndarray of vectors of length n; options as in `qd.ndarray`."""
        return MatrixAnnotation((n,), dtype).ndarray(shape, **options)

    @classmethod
    def tensor(cls, n: int, dtype: Any, shape: Any, **options: Any) -> Any:
        """A tensor of vectors of length n; options as in `qd.tensor`."""
        from quadrants.lang.tensor import tensor

        return tensor(MatrixAnnotation((n,), dtype), shape, **options)


swizzle.install(Matrix)


def _product(left: numeric.Operand, right: numeric.Operand) -> numeric.Operand:
    shapes = left.array.shape, right.array.shape
    if not shapes[0] or not shapes[1] or shapes[0][-1] != shapes[1][0]:
        raise QuadrantsTypeError(f"shapes {shapes[0]} and {shapes[1]} do not fit for '@'")
    dtype = numeric.common_type(left, right)
    return numeric.Operand(numeric.compute("matmul", dtype, left, right), dtype)
