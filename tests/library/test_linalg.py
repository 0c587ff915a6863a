"""Determinants and inverses against NumPy: closed forms and elimination, as ordinary Python and in kernels."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import quadrants as qd
from quadrants.library import linalg

pytestmark = pytest.mark.slow

SIZES = (1, 2, 3, 4, 5, 8, 12)


def well_conditioned(size: int, count: int = 4, dtype: Any = np.float64) -> np.ndarray:
    """Random orthogonal factors around singular values in 0.5 .. 2, with determinants of both signs."""
    source = np.random.default_rng(size)
    left, right = (np.linalg.qr(source.normal(size=(count, size, size)))[0] for _ in range(2))
    return (left * source.uniform(0.5, 2.0, (count, 1, size)) @ right).astype(dtype)


def check(matrices: np.ndarray, determinants: Any, inverses: Any) -> None:
    wide = matrices.astype(np.float64)
    tolerance = 40 * np.finfo(matrices.dtype).eps
    np.testing.assert_allclose(determinants, np.linalg.det(wide), rtol=tolerance)
    np.testing.assert_allclose(inverses, np.linalg.inv(wide), atol=tolerance)


@qd.kernel
def run_all(matrices, inverses, determinants):
    for i in range(len(determinants)):
        a = matrices[i]
        inverses[i] = a.inverse()
        determinants[i] = a.determinant()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("size", SIZES)
def test_ordinary_python(size: int, dtype: Any) -> None:
    """Elements are then Python's numbers."""
    matrices = well_conditioned(size, dtype=dtype)
    values = [qd.Matrix(matrix) for matrix in matrices]
    inverses = [linalg.inverse(value) for value in values]
    check(matrices, [linalg.determinant(value) for value in values], [inverse.to_numpy() for inverse in inverses])
    np.testing.assert_array_equal([value.to_numpy() for value in values], matrices)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("size", SIZES)
def test_kernels(arch: Any, size: int, dtype: Any) -> None:
    qd.init(arch=arch, wraparound=False)
    matrices = well_conditioned(size, dtype=dtype)
    inverses, determinants = np.zeros_like(matrices), np.zeros(len(matrices), dtype)
    run_all(matrices, inverses, determinants)
    check(matrices, determinants, inverses)


@pytest.mark.parametrize("size", (3, 6))
def test_at_a_kernel_s_top_level(arch: Any, size: int) -> None:
    qd.init(arch=arch, wraparound=False, default_fp=qd.f64)
    matrices = well_conditioned(size)
    inverse, determinant = np.zeros((1, size, size)), np.zeros(1)

    @qd.kernel
    def run(matrices, inverse, determinant):
        inverse[0] = qd.math.inverse(matrices[1])
        determinant[0] = qd.math.determinant(matrices[1])

    run(matrices, inverse, determinant)
    check(matrices[1:2], determinant, inverse)


@pytest.mark.parametrize("size", SIZES[1:])
def test_pivots_of_zero(size: int) -> None:
    """Permutations: every step of an elimination but the last may have to look for its pivot."""
    order = np.roll(np.arange(size), 1)
    matrix = np.eye(size)[order] * np.arange(2.0, size + 2)
    value = qd.Matrix(matrix)
    check(matrix[None], [linalg.determinant(value)], [linalg.inverse(value).to_numpy()])


@pytest.mark.parametrize("size", SIZES)
def test_singular_matrices(arch: Any, size: int) -> None:
    qd.init(arch=arch, wraparound=False)
    matrices = np.random.default_rng(0).integers(1, 9, (3, size, size)).astype(np.float64)
    matrices[0] = 0.0
    matrices[1, -1] = matrices[1, 0] if size > 1 else 0.0
    matrices[2, :, 0] = matrices[2, :, -1] if size > 1 else 0.0
    inverses, determinants = np.zeros_like(matrices), np.zeros(len(matrices))
    run_all(matrices, inverses, determinants)
    assert determinants[0] == 0.0 and not np.isfinite(inverses[0]).any()
    assert np.all(np.abs(determinants) <= 1e-14 * 9.0**size)


def test_integers_become_the_default_float(arch: Any) -> None:
    qd.init(arch=arch, wraparound=False, default_fp=qd.f64)
    result = np.zeros(2)

    @qd.kernel
    def run(result):
        a = qd.Matrix([[2, 1], [1, 3]])
        result[0] = a.determinant()
        result[1] = a.inverse()[0, 1]

    run(result)
    np.testing.assert_allclose(result, [5.0, -0.2])
