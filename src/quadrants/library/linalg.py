"""Linear algebra of small square matrices, written in the language itself: compiled like any user's function.

Up to 4 x 4 closed forms by cofactors; above that elimination with partial pivoting, in loops that stay loops, so that
the code does not grow with the matrix. A singular matrix has determinant 0; its inverse holds infinities or NaN.
The functions also run as ordinary Python on `qd.Matrix` values.
"""

from __future__ import annotations

from typing import Any

from quadrants.lang.loops import loop_config, static
from quadrants.lang.matrix import Matrix
from quadrants.lang.ops import zero

__all__ = ["determinant", "inverse"]


def determinant(a: Any) -> Any:
    """The determinant of a square matrix of floats, of its element type."""
    if static(a.n == 1):
        return a[0, 0]
    elif static(a.n == 2):
        return a[0, 0] * a[1, 1] - a[0, 1] * a[1, 0]
    elif static(a.n == 3):
        return (
            a[0, 0] * (a[1, 1] * a[2, 2] - a[1, 2] * a[2, 1])
            + a[0, 1] * (a[1, 2] * a[2, 0] - a[1, 0] * a[2, 2])
            + a[0, 2] * (a[1, 0] * a[2, 1] - a[1, 1] * a[2, 0])
        )
    elif static(a.n == 4):
        return _determinant_4(a)
    else:
        return _determinant_by_elimination(a)


def inverse(a: Any) -> Any:
    """The inverse of a square matrix of floats, of its element type."""
    if static(a.n == 1):
        return 1.0 / a
    elif static(a.n == 2):
        return Matrix([[a[1, 1], -a[0, 1]], [-a[1, 0], a[0, 0]]]) * (1.0 / determinant(a))
    elif static(a.n == 3):
        return _inverse_3(a)
    elif static(a.n == 4):
        return _inverse_4(a)
    else:
        return _inverse_by_elimination(a)


def _inverse_3(a: Any) -> Any:
    c00 = a[1, 1] * a[2, 2] - a[1, 2] * a[2, 1]
    c01 = a[1, 2] * a[2, 0] - a[1, 0] * a[2, 2]
    c02 = a[1, 0] * a[2, 1] - a[1, 1] * a[2, 0]
    factor = 1.0 / (a[0, 0] * c00 + a[0, 1] * c01 + a[0, 2] * c02)
    return factor * Matrix(
        [
            [c00, a[0, 2] * a[2, 1] - a[0, 1] * a[2, 2], a[0, 1] * a[1, 2] - a[0, 2] * a[1, 1]],
            [c01, a[0, 0] * a[2, 2] - a[0, 2] * a[2, 0], a[0, 2] * a[1, 0] - a[0, 0] * a[1, 2]],
            [c02, a[0, 1] * a[2, 0] - a[0, 0] * a[2, 1], a[0, 0] * a[1, 1] - a[0, 1] * a[1, 0]],
        ]
    )


def _minors(a: Any, i: Any, j: Any) -> Any:
    """The six 2 x 2 minors of rows i and j of a 4 x 4 matrix: columns 01, 02, 03, 12, 13, 23."""
    return (
        a[i, 0] * a[j, 1] - a[i, 1] * a[j, 0],
        a[i, 0] * a[j, 2] - a[i, 2] * a[j, 0],
        a[i, 0] * a[j, 3] - a[i, 3] * a[j, 0],
        a[i, 1] * a[j, 2] - a[i, 2] * a[j, 1],
        a[i, 1] * a[j, 3] - a[i, 3] * a[j, 1],
        a[i, 2] * a[j, 3] - a[i, 3] * a[j, 2],
    )


def _determinant_4(a: Any) -> Any:
    s01, s02, s03, s12, s13, s23 = _minors(a, 0, 1)
    t01, t02, t03, t12, t13, t23 = _minors(a, 2, 3)
    return s01 * t23 - s02 * t13 + s03 * t12 + s12 * t03 - s13 * t02 + s23 * t01


def _inverse_4(a: Any) -> Any:
    """Laplace's expansion along the upper and lower pairs of rows: their minors are shared by all cofactors."""
    s01, s02, s03, s12, s13, s23 = _minors(a, 0, 1)
    t01, t02, t03, t12, t13, t23 = _minors(a, 2, 3)
    factor = 1.0 / (s01 * t23 - s02 * t13 + s03 * t12 + s12 * t03 - s13 * t02 + s23 * t01)
    return factor * Matrix(
        [
            [
                a[1, 1] * t23 - a[1, 2] * t13 + a[1, 3] * t12,
                a[0, 2] * t13 - a[0, 1] * t23 - a[0, 3] * t12,
                a[3, 1] * s23 - a[3, 2] * s13 + a[3, 3] * s12,
                a[2, 2] * s13 - a[2, 1] * s23 - a[2, 3] * s12,
            ],
            [
                a[1, 2] * t03 - a[1, 0] * t23 - a[1, 3] * t02,
                a[0, 0] * t23 - a[0, 2] * t03 + a[0, 3] * t02,
                a[3, 2] * s03 - a[3, 0] * s23 - a[3, 3] * s02,
                a[2, 0] * s23 - a[2, 2] * s03 + a[2, 3] * s02,
            ],
            [
                a[1, 0] * t13 - a[1, 1] * t03 + a[1, 3] * t01,
                a[0, 1] * t03 - a[0, 0] * t13 - a[0, 3] * t01,
                a[3, 0] * s13 - a[3, 1] * s03 + a[3, 3] * s01,
                a[2, 1] * s03 - a[2, 0] * s13 - a[2, 3] * s01,
            ],
            [
                a[1, 1] * t02 - a[1, 0] * t12 - a[1, 2] * t01,
                a[0, 0] * t12 - a[0, 1] * t02 + a[0, 2] * t01,
                a[3, 1] * s02 - a[3, 0] * s12 - a[3, 2] * s01,
                a[2, 0] * s12 - a[2, 1] * s02 + a[2, 2] * s01,
            ],
        ]
    )


def _determinant_by_elimination(a: Any) -> Any:
    m = +a
    result = 1.0 + zero(a[0, 0])
    loop_config(serialize=True)
    for k in range(a.n):
        best = k
        loop_config(serialize=True)
        for i in range(k + 1, a.n):
            if abs(m[i, k]) > abs(m[best, k]):
                best = i
        if best != k:
            result = -result
            for j in range(k, a.n):
                kept = m[k, j]
                m[k, j] = m[best, j]
                m[best, j] = kept
        pivot = m[k, k]
        result *= pivot
        if pivot != 0.0:
            for i in range(k + 1, a.n):
                factor = m[i, k] / pivot
                for j in range(k + 1, a.n):
                    m[i, j] -= factor * m[k, j]
    return result


def _inverse_by_elimination(a: Any) -> Any:
    """Gauss and Jordan: the steps that turn a into the identity turn the identity into the inverse.

    Columns of `m` that are done are not stored again: nothing reads them.
    """
    m = +a
    r = zero(a)
    loop_config(serialize=True)
    for k in range(a.n):
        r[k, k] = 1.0
    loop_config(serialize=True)
    for k in range(a.n):
        best = k
        loop_config(serialize=True)
        for i in range(k + 1, a.n):
            if abs(m[i, k]) > abs(m[best, k]):
                best = i
        pivot = m[best, k]
        for j in range(a.n):
            of_m, of_r = m[k, j], r[k, j]
            m[k, j], r[k, j] = m[best, j] / pivot, r[best, j] / pivot
            if best != k:
                m[best, j], r[best, j] = of_m, of_r
        for i in range(a.n):
            if i != k:
                factor = m[i, k]
                for j in range(k + 1, a.n):
                    m[i, j] -= factor * m[k, j]
                for j in range(a.n):
                    r[i, j] -= factor * r[k, j]
    return r
