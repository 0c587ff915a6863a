"""Decompositions of small matrices, written in the language itself: compiled like any user's function.

All rest on Jacobi's rotations, in a number of sweeps that size and precision fix: no trip count hangs on data, and
repeated eigenvalues, zeros and matrices without full rank are no special cases. Matrices up to 3 x 3 are written out,
larger ones stay loops, so that the code does not grow with the matrix. Source of the methods: G. H. Golub, C. F. Van
Loan, "Matrix Computations", 4th edition; the functions name the section.

`FUNCTIONS` is what kernels call: (matrix of floats, further operands, type to compute in, type of the results). All
runs as ordinary Python on `qd.Matrix` values, too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from quadrants.ir.types import ScalarType, f32, f64
from quadrants.lang.loops import loop_config, static
from quadrants.lang.matrix import Matrix
from quadrants.lang.ops import cast, frexp, max, min, sqrt

__all__ = ["FUNCTIONS"]

# Sweeps after which what is left off the diagonal is rounding, by size: (f32, f64).
_SWEEPS = {2: (1, 1), 3: (4, 5), 4: (5, 6), 5: (6, 7), 6: (7, 8)}
# What is nothing beside 1 among the elements of a matrix, and among the products of two columns, by size of the type: sums
# of squares of larger numbers, and what a few rotations make of them, are no denormal numbers, which take processors long.
_NO_ELEMENT = {f32: 2.0**-40, f64: 2.0**-200}
_NO_PRODUCT = {f32: 2.0**-50, f64: 2.0**-400}
_PAIRS = {2: ((0, 1),), 3: ((0, 1), (0, 2), (1, 2))}
_SORTING = {2: ((0, 1),), 3: ((0, 1), (1, 2), (0, 1))}


def _sweeps(size: int, work: ScalarType) -> int:
    return _SWEEPS[size][0 if work is f32 else 1]


def _smallest(work: ScalarType) -> float:
    """The smallest normal number of `work`."""
    return 2.0**-126 if work is f32 else 2.0**-1022


def _scales(a: Any, work: Any) -> Any:
    """A power of two that brings the largest element near 1, and its inverse: products of elements stay in range."""
    largest = max(abs(a).max(), _smallest(work))
    mantissa, _ = frexp(largest)
    return 2.0 * mantissa / largest, largest / (2.0 * mantissa)


def _rotation(pp: Any, qq: Any, pq: Any, nothing: Any) -> Any:
    """Cosine, sine and tangent of the smaller angle whose rotation makes [[pp, pq], [pq, qq]] diagonal; a pq below
    `nothing` counts as zero. Elements are at most near 1.

    8.5.2, with one division: h being the length of (d, pq), w = |d| + h, the tangent is pq / w and the cosine's square
    w / 2h.
    """
    off = 0.0 * pq if abs(pq) < nothing else pq
    difference = 0.5 * qq - 0.5 * pp
    square = difference * difference + off * off
    idle = square < nothing * nothing
    length = sqrt(square)
    width = 1.0 if idle else abs(difference) + length
    double = 1.0 if idle else length + length
    reciprocal = 1.0 / (double * width)
    tangent = (-off if difference < 0.0 else off) * (double * reciprocal)
    cosine = width * sqrt(reciprocal)
    return cosine, cosine * tangent, tangent


# Symmetric eigenproblems.


def sym_eig(a: Any, work: Any, result: Any) -> Any:
    """8.5: cyclic Jacobi. Reads the diagonal and what is above it."""
    if static(a.n <= 3):
        values, vectors = _sym_eig_small(cast(a, work), work)
        return cast(values, result), cast(vectors, result)
    else:
        values, vectors = _sym_eig_large(cast(a, work), work)
        return cast(values, result), cast(vectors, result)


def _sym_eig_small(a: Any, work: Any) -> Any:
    down, up = _scales(a, work)
    m = a * down
    v = Matrix.identity(work, a.n)
    loop_config(serialize=True)
    for _ in range(static(_sweeps(a.n, work))):
        for p, q in static(_PAIRS[a.n]):
            cosine, sine, tangent = _rotation(m[p, p], m[q, q], m[p, q], static(_NO_ELEMENT[work]))
            change = tangent * m[p, q]
            m[p, p] -= change
            m[q, q] += change
            m[p, q] = 0.0
            if static(a.n == 3):
                # The third row and column, above the diagonal.
                r = static(3 - p - q)
                x, y = m[static(min(p, r)), static(max(p, r))], m[static(min(q, r)), static(max(q, r))]
                m[static(min(p, r)), static(max(p, r))] = cosine * x - sine * y
                m[static(min(q, r)), static(max(q, r))] = sine * x + cosine * y
            for k in static(range(a.n)):
                x, y = v[k, p], v[k, q]
                v[k, p], v[k, q] = cosine * x - sine * y, sine * x + cosine * y
    return _sorted_small(m, v, up)


def _sorted_small(m: Any, v: Any, up: Any) -> Any:
    for i, j in static(_SORTING[m.n]):
        if m[i, i] > m[j, j]:
            m[i, i], m[j, j] = m[j, j], m[i, i]
            for k in static(range(m.n)):
                v[k, i], v[k, j] = v[k, j], v[k, i]
    return Matrix([m[k, k] * up for k in static(range(m.n))]), v


def _sym_eig_large(a: Any, work: Any) -> Any:
    """Every rotation leaves its two eigenvalues in order: equal ones come together, without which convergence is only
    linear (8.5.3), and all are sorted in the end."""
    down, up = _scales(a, work)
    m = a * down
    v = Matrix.identity(work, a.n)
    loop_config(serialize=True)
    for i in range(a.n):
        for j in range(i):
            m[i, j] = m[j, i]
    loop_config(serialize=True)
    for _ in range(static(_sweeps(a.n, work))):
        for p in range(a.n - 1):
            for q in range(p + 1, a.n):
                cosine, sine, tangent = _rotation(m[p, p], m[q, q], m[p, q], static(_NO_ELEMENT[work]))
                change = tangent * m[p, q]
                of_p, of_q = m[p, p] - change, m[q, q] + change
                if of_p > of_q:
                    cosine, sine = sine, -cosine
                    of_p, of_q = of_q, of_p
                for k in range(a.n):
                    x, y = m[k, p], m[k, q]
                    m[k, p], m[k, q] = cosine * x - sine * y, sine * x + cosine * y
                    x, y = v[k, p], v[k, q]
                    v[k, p], v[k, q] = cosine * x - sine * y, sine * x + cosine * y
                for k in range(a.n):
                    m[p, k], m[q, k] = m[k, p], m[k, q]
                m[p, p], m[q, q] = of_p, of_q
                m[p, q], m[q, p] = 0.0, 0.0
    values = Matrix([m[k, k] * up for k in static(range(a.n))])
    loop_config(serialize=True)
    for k in range(1, a.n):
        # What the last rounding may have put out of order.
        values[k] = values[k] if values[k] > values[k - 1] else values[k - 1]
    return values, v


def make_spd(a: Any, work: Any, result: Any) -> Any:
    """The nearest positive semidefinite matrix in the Frobenius norm: negative eigenvalues become 0 (N. J. Higham,
    "Computing a nearest symmetric positive semidefinite matrix", 1988). Without negative ones A itself, to the bit."""
    m = cast(a, work)
    values, vectors = _sym_eig_large(m, work)
    spd = +m
    loop_config(serialize=True)
    for i in range(a.n):
        for j in range(i, a.n):
            total = m[i, j]
            if values[0] < 0.0:
                total = 0.0 * values[0]
                for k in range(a.n):
                    total += max(values[k], 0.0) * vectors[i, k] * vectors[j, k]
            spd[i, j], spd[j, i] = total, total
    return cast(spd, result)


# Singular values.


def svd(a: Any, work: Any, result: Any) -> Any:
    """8.6.3: one-sided Jacobi. The columns of A V become orthogonal; their lengths are the singular values."""
    if static(a.n == 2):
        u, s, v = _svd_2(cast(a, work), work)
        return cast(u, result), cast(s, result), cast(v, result)
    else:
        u, s, v = _svd_3(cast(a, work), work)
        return cast(u, result), cast(s, result), cast(v, result)


def _orthogonal(x: Any, y: Any, v: Any, w: Any, work: Any) -> Any:
    """x and y rotated in their plane until they are orthogonal, v and w along with them."""
    cosine, sine, _ = _rotation(x.dot(x), y.dot(y), x.dot(y), static(_NO_PRODUCT[work]))
    return cosine * x - sine * y, sine * x + cosine * y, cosine * v - sine * w, sine * v + cosine * w


def _longer_first(x: Any, y: Any, v: Any, w: Any) -> Any:
    """A quarter of a turn if y is longer than x: determinants stay."""
    if x.dot(x) < y.dot(y):
        return y, -x, w, -v
    return x, y, v, w


def _unit(x: Any, otherwise: Any) -> Any:
    """x at length 1, `otherwise` for zero."""
    largest = abs(x).max()
    scaled = x * (1.0 / (largest if largest > 0.0 else 1.0))
    length = scaled.norm()
    if length > 0.0:
        return scaled * (1.0 / length)
    return otherwise


def _perpendicular(x: Any) -> Any:
    """Some unit vector orthogonal to the 3-vector x of length 1."""
    if abs(x[0]) < 0.7:
        return _unit(Matrix([0.0 * x[0], x[2], -x[1]]), x)
    return _unit(Matrix([-x[2], 0.0 * x[1], x[0]]), x)


def _orthonormal(x: Any, u: Any) -> Any:
    """The direction of x without its part along the unit vector u; any direction orthogonal to u where x has no other
    (5.2.8: what a first projection leaves of a rounding error may lie along u again, a second one shows it)."""
    once = _unit(x - u.dot(x) * u, u)
    twice = once - u.dot(once) * u
    if twice.dot(twice) < 0.5:
        return _perpendicular(u)
    return twice * (1.0 / twice.norm())


def _svd_2(a: Any, work: Any) -> Any:
    down, up = _scales(a, work)
    m = a * down
    i = Matrix.identity(work, 2)
    x, y, v, w = _orthogonal(m[:, 0], m[:, 1], i[:, 0], i[:, 1], work)
    x, y, v, w = _orthogonal(x, y, v, w, work)
    x, y, v, w = _longer_first(x, y, v, w)
    u = _unit(x, i[:, 0])
    z = Matrix([-u[1], u[0]])
    larger = u.dot(x)
    smaller = z.dot(y)
    if smaller < 0.0:
        z = -z
        smaller = -smaller
    smaller = min(larger, smaller)
    s = Matrix([[larger * up, 0.0 * up], [0.0 * up, smaller * up]])
    return Matrix([[u[0], z[0]], [u[1], z[1]]]), s, Matrix([[v[0], w[0]], [v[1], w[1]]])


def _svd_3(a: Any, work: Any) -> Any:
    """The rotations make det(V) = 1, and the third left vector is the cross product of the others: det(U) = 1."""
    down, up = _scales(a, work)
    m = a * down
    i = Matrix.identity(work, 3)
    b0, b1, b2, v0, v1, v2 = m[:, 0], m[:, 1], m[:, 2], i[:, 0], i[:, 1], i[:, 2]
    loop_config(serialize=True)
    for _ in range(static(_sweeps(3, work))):
        b0, b1, v0, v1 = _orthogonal(b0, b1, v0, v1, work)
        b0, b2, v0, v2 = _orthogonal(b0, b2, v0, v2, work)
        b1, b2, v1, v2 = _orthogonal(b1, b2, v1, v2, work)
    b0, b1, v0, v1 = _longer_first(b0, b1, v0, v1)
    b1, b2, v1, v2 = _longer_first(b1, b2, v1, v2)
    b0, b1, v0, v1 = _longer_first(b0, b1, v0, v1)
    u0 = _unit(b0, i[:, 0])
    u1 = _orthonormal(b1, u0)
    u2 = u0.cross(u1)
    s0 = u0.dot(b0)
    s1 = max(min(u1.dot(b1), s0), 0.0)  # a hair below zero where rounding leaves nothing of b1
    s2 = max(min(u2.dot(b2), s1), -s1)
    zero = 0.0 * up
    s = Matrix([[s0 * up, zero, zero], [zero, s1 * up, zero], [zero, zero, s2 * up]])
    return _of_columns(u0, u1, u2), s, _of_columns(v0, v1, v2)


def _of_columns(x: Any, y: Any, z: Any) -> Any:
    return Matrix([[x[0], y[0], z[0]], [x[1], y[1], z[1]], [x[2], y[2], z[2]]])


def polar_decompose(a: Any, work: Any, result: Any) -> Any:
    """8.6.4 and 9.4.3: from A = U S V^T, R = U V^T and P = V S V^T."""
    u, s, v = svd(a, work, work)
    p = v @ s @ v.transpose()
    return cast(u @ v.transpose(), result), cast(0.5 * (p + p.transpose()), result)


# Eigenproblems of 2 x 2 matrices.


def eig(a: Any, work: Any, result: Any) -> Any:
    """7.4: the eigenvalues from the larger root of the characteristic polynomial, without cancellation."""
    down, up = _scales(a, work)
    m = cast(a, work) * down
    half = 0.5 * (m[0, 0] - m[1, 1])
    product = m[0, 1] * m[1, 0]
    if half * half + product >= 0.0:
        values, vectors = _eig_real(m, half, product)
    else:
        values, vectors = _eig_complex(m, half, product)
    return cast(values * up, result), cast(vectors, result)


def _eig_real(m: Any, half: Any, product: Any) -> Any:
    root = sqrt(half * half + product)
    # The eigenvalues are m[1, 1] + larger and m[1, 1] - smaller; larger * smaller = product.
    larger = half - root if half < 0.0 else half + root
    smaller = product / (1.0 if larger == 0.0 else larger)
    first, second = m[1, 1] + larger, m[1, 1] - smaller
    x = _longer(larger, m[1, 0], m[0, 1], smaller, 0)
    y = _longer(m[0, 1], -larger, -smaller, m[1, 0], 1)
    if first < second:
        first, second = second, first
        x, y = y, x
    zero = 0.0 * root
    vectors = Matrix([[x[0], y[0]], [zero, zero], [x[1], y[1]], [zero, zero]])
    return Matrix([[first, zero], [second, zero]]), vectors


def _longer(a: Any, b: Any, c: Any, d: Any, axis: Any) -> Any:
    """The longer of (a, b) and (c, d) at length 1; the unit vector of `axis` if both are zero."""
    first = max(abs(a), abs(b)) >= max(abs(c), abs(d))
    x, y = (a if first else c), (b if first else d)
    zero = 0.0 * x
    return _unit(Matrix([x, y]), Matrix([zero + (1 - axis), zero + axis]))


def _eig_complex(m: Any, half: Any, product: Any) -> Any:
    """A conjugate pair, the positive imaginary part first."""
    real = 0.5 * (m[0, 0] + m[1, 1])
    imaginary = sqrt(-(half * half + product))
    zero = 0.0 * real
    upper = abs(m[0, 1]) >= abs(m[1, 0])
    # (m01, value - m00) or (value - m11, m10): real and imaginary parts of both components.
    x = Matrix([m[0, 1], zero, -half, imaginary])
    if not upper:
        x = Matrix([half, imaginary, m[1, 0], zero])
    x = _unit(x, x)
    vectors = Matrix([[x[0], x[0]], [x[1], -x[1]], [x[2], x[2]], [x[3], -x[3]]])
    return Matrix([[real, imaginary], [real, -imaginary]]), vectors


# Linear equations.


def solve(a: Any, b: Any, work: Any, result: Any) -> Any:
    """3.4: elimination with partial pivoting."""
    m, x = +cast(a, work), +cast(b, work)
    for k in static(range(a.n)):
        for i in static(range(k + 1, a.n)):
            if abs(m[i, k]) > abs(m[k, k]):
                for j in static(range(k, a.n)):
                    m[i, j], m[k, j] = m[k, j], m[i, j]
                x[i], x[k] = x[k], x[i]
        assert m[k, k] != 0.0, "qd.solve: the matrix is singular"
        for i in static(range(k + 1, a.n)):
            factor = m[i, k] / m[k, k]
            for j in static(range(k + 1, a.n)):
                m[i, j] -= factor * m[k, j]
            x[i] -= factor * x[k]
    for k in static(range(a.n - 1, -1, -1)):
        for j in static(range(k + 1, a.n)):
            x[k] -= m[k, j] * x[j]
        x[k] /= m[k, k]
    return cast(x, result)


FUNCTIONS: dict[str, Callable[..., Any]] = {
    function.__name__: function for function in (eig, make_spd, polar_decompose, solve, svd, sym_eig)
}
