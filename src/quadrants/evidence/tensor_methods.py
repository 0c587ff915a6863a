"""The methods of vectors and matrices in the oracle, and the ways to construct them."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

from quadrants.evidence.scalar import OracleError, apply, apply_unary, cast, defaults, settle
from quadrants.evidence.tensor import Tensor, as_tensor, elementwise, fold, is_tensor, truth
from quadrants.ir.types import ScalarType

__all__ = ["Matrix", "Vector", "scalar_type"]


def scalar_type(dtype: Any) -> ScalarType:
    """The scalar type that a dtype, a stand-in of one, or Python's int and float name."""
    found = getattr(dtype, "scalar_type", dtype)
    if found is float or getattr(dtype, "default_for", None) is float:
        return defaults.floating
    if found is int or getattr(dtype, "default_for", None) is int:
        return defaults.integer
    if not isinstance(found, ScalarType):
        raise OracleError(f"not a dtype: {dtype!r}")
    return found


def total(tensor: Tensor) -> Any:
    return fold(lambda a, b: a + b, tensor.items)


def dot(tensor: Tensor, other: Any) -> Any:
    right = as_tensor(other)
    if tensor.shape != right.shape or len(tensor.shape) != 1:
        raise OracleError(f"no dot product of shapes {tensor.shape} and {right.shape}")
    return total(tensor * right)


def cross(tensor: Tensor, other: Any) -> Any:
    a, b = tensor.items, as_tensor(other).items
    if len(a) == 2:
        return a[0] * b[1] - a[1] * b[0]
    pairs = ((1, 2), (2, 0), (0, 1))
    return Tensor((3,), [a[i] * b[j] - a[j] * b[i] for i, j in pairs])


def norm_sqr(tensor: Tensor) -> Any:
    return total(tensor * tensor)


def norm(tensor: Tensor, eps: Any = 0) -> Any:
    return apply_unary("sqrt", norm_sqr(tensor) + eps)


def norm_inv(tensor: Tensor, eps: Any = 0) -> Any:
    return apply_unary("rsqrt", norm_sqr(tensor) + eps)


def normalized(tensor: Tensor, eps: Any = 0) -> Any:
    return tensor / (norm(tensor) + eps)


def outer_product(tensor: Tensor, other: Any) -> Tensor:
    right = as_tensor(other)
    items = [a * b for a, b in itertools.product(tensor.items, right.items)]
    return Tensor((len(tensor.items), len(right.items)), items)


def transpose(tensor: Tensor) -> Tensor:
    rows, columns = tensor.shape
    items = [tensor.items[row * columns + column] for column in range(columns) for row in range(rows)]
    return Tensor((columns, rows), items)


def trace(tensor: Tensor) -> Any:
    return fold(lambda a, b: a + b, [tensor[i, i] for i in range(min(tensor.shape))])


def minor(tensor: Tensor, row: int, column: int) -> Tensor:
    size = tensor.shape[0]
    kept = [tensor[i, j] for i in range(size) for j in range(size) if i != row and j != column]
    return Tensor((size - 1, size - 1), kept)


def determinant(tensor: Tensor) -> Any:
    """By cofactors of the first row; integers stay integers and wrap."""
    if len(tensor.shape) != 2 or tensor.shape[0] != tensor.shape[1]:
        raise OracleError(f"the determinant of shape {tensor.shape}")
    if tensor.shape[0] == 1:
        return tensor.items[0]
    terms = [tensor[0, j] * determinant(minor(tensor, 0, j)) for j in range(tensor.shape[0])]
    result = terms[0]
    for column, term in enumerate(terms[1:], start=1):
        result = result - term if column % 2 else result + term
    return result


def inverse(tensor: Tensor) -> Tensor:
    """By cofactors; integers become the default float."""
    size = tensor.shape[0]
    scale = 1 / determinant(tensor)
    if size == 1:
        return Tensor((1, 1), [scale])
    items = []
    for row, column in itertools.product(range(size), repeat=2):
        cofactor = determinant(minor(tensor, column, row))
        items.append((-cofactor if (row + column) % 2 else cofactor) * scale)
    return Tensor((size, size), items)


def frobenius_inner(tensor: Tensor, other: Any) -> Any:
    return total(tensor * as_tensor(other))


def smallest(tensor: Tensor) -> Any:
    return fold(lambda a, b: apply("min", a, b), tensor.items)


def largest(tensor: Tensor) -> Any:
    return fold(lambda a, b: apply("max", a, b), tensor.items)


def any_(tensor: Tensor) -> Any:
    return fold(lambda a, b: a | b, [truth(item) for item in tensor.items])


def all_(tensor: Tensor) -> Any:
    return fold(lambda a, b: a & b, [truth(item) for item in tensor.items])


def cast_tensor(tensor: Tensor, dtype: Any) -> Tensor:
    return tensor.map(lambda item: cast(item, scalar_type(dtype)))


def fill(tensor: Tensor, value: Any) -> None:
    for index in range(tensor.shape[0]):
        tensor[index] = value


def get_shape(tensor: Tensor) -> tuple[int, ...]:
    return tensor.shape


METHODS: dict[str, Callable[..., Any]] = {
    "sum": total,
    "dot": dot,
    "cross": cross,
    "norm": norm,
    "norm_sqr": norm_sqr,
    "norm_inv": norm_inv,
    "normalized": normalized,
    "outer_product": outer_product,
    "transpose": transpose,
    "trace": trace,
    "determinant": determinant,
    "inverse": inverse,
    "frobenius_inner": frobenius_inner,
    "min": smallest,
    "max": largest,
    "any": any_,
    "all": all_,
    "cast": cast_tensor,
    "fill": fill,
    "get_shape": get_shape,
}
for _name, _method in METHODS.items():
    setattr(Tensor, _name, _method)


def _typed(tensor: Tensor, dtype: Any) -> Tensor:
    return tensor if dtype is None else cast_tensor(tensor, dtype)


def _filled(shape: tuple[int, ...], value: Any, dtype: Any) -> Tensor:
    items = [value] * (shape[0] if len(shape) == 1 else shape[0] * shape[1])
    return _typed(Tensor(shape, items), dtype)


def _shape(n: int, m: int | None) -> tuple[int, ...]:
    return (int(n),) if m is None else (int(n), int(m))


class Matrix:
    """The stand-in for `qd.Matrix`: calling it constructs a value."""

    def __new__(cls, rows: Any, dt: Any = None) -> Any:
        return _typed(as_tensor(rows).copy(), dt)

    @staticmethod
    def zero(dt: Any, n: int, m: int | None = None) -> Tensor:
        return _filled(_shape(n, m), 0, dt)

    @staticmethod
    def one(dt: Any, n: int, m: int | None = None) -> Tensor:
        return _filled(_shape(n, m), 1, dt)

    @staticmethod
    def identity(dt: Any, n: int) -> Tensor:
        size = int(n)
        return _typed(Tensor((size, size), [int(i == j) for i in range(size) for j in range(size)]), dt)

    @staticmethod
    def unit(n: int, i: int, dt: Any = None) -> Tensor:
        return _typed(Tensor((int(n),), [int(k == int(i)) for k in range(int(n))]), dt if dt is not None else int)

    @staticmethod
    def diag(dim: int, val: Any) -> Tensor:
        size = int(dim)
        return Tensor((size, size), [val if i == j else 0 for i in range(size) for j in range(size)])

    @staticmethod
    def rows(rows: Any) -> Tensor:
        return as_tensor(list(rows)).copy()

    @staticmethod
    def cols(columns: Any) -> Tensor:
        return transpose(as_tensor(list(columns)))


class Vector(Matrix):
    """The stand-in for `qd.Vector`."""


def settled(value: Any) -> Any:
    """A result with weakness resolved, element by element; tuples stay tuples."""
    if type(value) in (tuple, list):
        return tuple(settled(item) for item in value)
    if is_tensor(value):
        return elementwise(settle, value)
    return settle(value)
