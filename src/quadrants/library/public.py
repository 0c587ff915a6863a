"""The decompositions as users call them: in kernels the compiler takes `decompositions.FUNCTIONS` for them, on the host
they run those as ordinary Python."""

from __future__ import annotations

from typing import Any

from quadrants.errors import QuadrantsTypeError
from quadrants.frontend.decomposition_sizes import SIZES, listed_sizes, working_type
from quadrants.lang import numeric
from quadrants.lang.intrinsic import intrinsic
from quadrants.lang.matrix import Matrix, Vector
from quadrants.lang.types import scalar_type
from quadrants.library.decompositions import FUNCTIONS

__all__ = ["eig", "make_spd", "polar_decompose", "solve", "svd", "sym_eig"]


def _on_host(name: str, dt: Any, a: Any, *others: Any) -> Any:
    """FUNCTIONS[name] of a host matrix and vectors, checked as the compiler checks them; weak numbers count as the
    default float."""
    matrix, vectors = Matrix(a), [Vector(other) for other in others]
    if matrix.ndim != 2 or matrix.n != matrix.m or matrix.n not in SIZES[name]:
        raise QuadrantsTypeError(f"qd.{name} takes a matrix of {listed_sizes(name)}, not of shape {matrix.shape}")
    if any(vector.n != matrix.n for vector in vectors):
        raise QuadrantsTypeError(f"qd.{name} takes a vector of {matrix.n} numbers, not of {vectors[0].n}")
    known = numeric.weak_float(numeric.common_type(*map(numeric.operand, (matrix, *vectors))))
    result = scalar_type(dt if dt is not None else float if known is None else known)
    if not result.is_float:
        raise QuadrantsTypeError(f"dt is a float type, not {result}")
    return FUNCTIONS[name](matrix, *vectors, working_type(result), result)


@intrinsic
def sym_eig(A: Any, dt: Any = None) -> tuple[Any, Any]:
    """The eigenvalues (n,), ascending, and eigenvectors, the columns of an orthogonal (n, n) matrix, of a symmetric
    matrix.

    A: (n, n) of floats, n = 2 to 6; what is below the diagonal is not read. dt: float type of the results, by default
    A's (the default float for integers). Cyclic Jacobi rotations (Golub, Van Loan, "Matrix Computations", 8.5):
    residuals of a few roundings of the largest element, whatever eigenvalues are equal or zero. QuadrantsTypeError
    (in kernels when compiled) for other shapes.
    """
    return _on_host("sym_eig", dt, A)


@intrinsic
def svd(A: Any, dt: Any = None) -> tuple[Any, Any, Any]:
    """The singular value decomposition (U, S, V) with A = U @ S @ V.transpose(), S diagonal and descending.

    A: (n, n) of floats, n = 2 or 3; all three results are (n, n). dt: float type of the results, by default A's. For
    3 x 3 U and V are rotations (determinant 1), so the last singular value has the sign of A's determinant; for 2 x 2
    V is a rotation and the singular values are not negative. One-sided Jacobi rotations (Golub, Van Loan, "Matrix
    Computations", 8.6.3), right for matrices of any rank. QuadrantsTypeError (in kernels when compiled) for other
    shapes.
    """
    return _on_host("svd", dt, A)


@intrinsic
def polar_decompose(A: Any, dt: Any = None) -> tuple[Any, Any]:
    """The polar decomposition (R, P): A = R @ P with orthogonal R and symmetric P.

    A: (n, n) of floats, n = 2 or 3, as both results. dt: float type of the results, by default A's. For 2 x 2 P is
    positive semidefinite, and R reflects where A's determinant is negative; for 3 x 3 R is always a rotation, and the
    smallest eigenvalue of P has the sign of A's determinant. From `svd` (Golub, Van Loan, "Matrix Computations",
    9.4.3). QuadrantsTypeError (in kernels when compiled) for other shapes.
    """
    return _on_host("polar_decompose", dt, A)


@intrinsic
def eig(A: Any, dt: Any = None) -> tuple[Any, Any]:
    """The complex eigenvalues and eigenvectors of a real 2 x 2 matrix of floats.

    Results: a (2, 2) matrix whose rows are the eigenvalues as (real, imaginary), the larger real or the positive
    imaginary part first; a (4, 2) matrix whose columns are the eigenvectors of length 1, as (real, imaginary) of the
    first, then of the second component. A matrix with one direction only has it twice. dt: float type of the results,
    by default A's. Golub, Van Loan, "Matrix Computations", 7.4. QuadrantsTypeError (in kernels when compiled) for
    other shapes.
    """
    return _on_host("eig", dt, A)


@intrinsic
def solve(A: Any, b: Any, dt: Any = None) -> Any:
    """The vector x with A @ x = b, by elimination with partial pivoting.

    A: (n, n) of floats, n = 2 or 3; b and x: (n,). dt: float type of the result, by default what A and b meet in. A
    singular matrix gives infinities or NaN; an AssertionError in debug mode and on the host. Golub, Van Loan, "Matrix
    Computations", 3.4. QuadrantsTypeError (in kernels when compiled) for other shapes.
    """
    return _on_host("solve", dt, A, b)


@intrinsic
def make_spd(A: Any, dt: Any = None) -> Any:
    """The positive semidefinite matrix nearest to a symmetric one: negative eigenvalues become 0.

    A: (n, n) of floats, n = 4 to 6, as the result; what is below the diagonal is not read. Without negative
    eigenvalues the result is A, to the bit. dt: float type of the result, by default A's. Higham, "Computing a nearest
    symmetric positive semidefinite matrix", 1988. QuadrantsTypeError (in kernels when compiled) for other shapes.
    """
    return _on_host("make_spd", dt, A)
