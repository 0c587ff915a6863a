"""Decompositions of small matrices against NumPy: random and degenerate matrices, in kernels and as ordinary Python."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import quadrants as qd

pytestmark = pytest.mark.slow

DTYPES = (np.float32, np.float64)


def residual(dtype: Any) -> float:
    """What a residual may be, relative to the matrix."""
    return 1e-5 if dtype is np.float32 else 1e-12


def sizes_of(matrices: np.ndarray) -> np.ndarray:
    """The largest element of every matrix, 1 for zero."""
    largest = np.abs(matrices).max((1, 2))
    return np.where(largest == 0, 1, largest)


def symmetric(matrices: np.ndarray) -> np.ndarray:
    return (matrices + matrices.transpose(0, 2, 1)) / 2


def rotations(source: np.random.Generator, count: int, size: int) -> np.ndarray:
    return np.linalg.qr(source.normal(size=(count, size, size)))[0]


def degenerate(size: int, dtype: Any) -> np.ndarray:
    """Zero, diagonal, of low rank, tiny, huge, and with elements of very different sizes; all symmetric."""
    one, ones = np.eye(size), np.ones((size, size))
    graded = np.diag(10.0 ** -np.arange(0.0, 6.0 * size, 6.0)[:size])
    info = np.finfo(dtype)
    matrices = [0 * one, one, -one, ones, np.diag(np.arange(size)), np.diag(np.arange(size)[::-1]), graded, one - ones]
    matrices += [graded + 1e-9 * ones, one[::-1], one * [1e6 if k == 0 else 1e-3 for k in range(size)]]
    matrices += [(one + ones) * factor for factor in (float(info.tiny) * 64, float(info.max) / 64, 1e-12, 1e12)]
    return np.stack(matrices).astype(dtype)


def symmetric_matrices(size: int, dtype: Any, count: int = 60) -> np.ndarray:
    """Random ones, and ones whose eigenvalues are repeated, nearly equal, or spread over many magnitudes."""
    source = np.random.default_rng(size)
    spectra = [
        source.integers(-1, 3, (count, size)),
        1 + 1e-5 * source.normal(size=(count, size)),
        10.0 ** source.uniform(-9, 0, (count, size)),
    ]
    families = [
        symmetric(source.normal(size=(count, size, size))),
        symmetric(source.integers(-2, 3, (count, size, size))),
    ]
    for spectrum in spectra:
        q = rotations(source, count, size)
        families.append(symmetric(q * spectrum[:, None, :] @ q.transpose(0, 2, 1)))
    return np.concatenate([*(family.astype(dtype) for family in families), degenerate(size, dtype)])


def general_matrices(size: int, dtype: Any, count: int = 60) -> np.ndarray:
    source = np.random.default_rng(size)
    spread = (
        rotations(source, count, size)
        * 10.0 ** source.uniform(-9, 0, (count, 1, size))
        @ rotations(source, count, size)
    )
    families = [source.normal(size=(count, size, size)), rotations(source, count, size), spread]
    families.append(source.normal(size=(count, size, 1)) * source.normal(size=(count, 1, size)))
    families.append(source.integers(-1, 2, (count, size, size)))
    return np.concatenate([*(family.astype(dtype) for family in families), symmetric_matrices(size, dtype, 10)])


def check_orthogonal(matrices: np.ndarray, dtype: Any) -> None:
    product = matrices.transpose(0, 2, 1) @ matrices
    np.testing.assert_allclose(product, np.broadcast_to(np.eye(matrices.shape[1]), product.shape), atol=residual(dtype))


def check_product(product: np.ndarray, matrices: np.ndarray, dtype: Any) -> None:
    scale = sizes_of(matrices)[:, None, None].astype(np.float64)
    np.testing.assert_allclose(product / scale, matrices.astype(np.float64) / scale, atol=residual(dtype))


def check_sym_eig(matrices: np.ndarray, values: np.ndarray, vectors: np.ndarray, dtype: Any) -> None:
    wide, values, vectors = (array.astype(np.float64) for array in (matrices, values, vectors))
    check_orthogonal(vectors, dtype)
    check_product(vectors * values[:, None, :] @ vectors.transpose(0, 2, 1), wide, dtype)
    scale = sizes_of(wide)[:, None]
    np.testing.assert_allclose(values / scale, np.linalg.eigvalsh(wide / scale[..., None]), atol=residual(dtype))
    assert np.all(np.diff(values, axis=1) >= 0)


def check_svd(matrices: np.ndarray, u: np.ndarray, s: np.ndarray, v: np.ndarray, dtype: Any) -> None:
    wide, u, s, v = (array.astype(np.float64) for array in (matrices, u, s, v))
    size = wide.shape[1]
    check_orthogonal(u, dtype)
    check_orthogonal(v, dtype)
    check_product(u @ s @ v.transpose(0, 2, 1), wide, dtype)
    values = np.einsum("nii->ni", s)
    assert np.all(s[:, ~np.eye(size, dtype=bool)] == 0)
    assert np.all(np.diff(np.abs(values), axis=1) <= 0) and np.all(values[:, : size - 1] >= 0)
    np.testing.assert_allclose(np.linalg.det(v), 1, atol=residual(dtype))
    if size == 3:
        np.testing.assert_allclose(np.linalg.det(u), 1, atol=residual(dtype))
    else:
        assert np.all(values >= 0)
    scale = sizes_of(wide)[:, None]
    exact = np.linalg.svd(wide / scale[..., None], compute_uv=False)
    np.testing.assert_allclose(np.abs(values) / scale, exact, atol=residual(dtype))


@qd.kernel
def run_sym_eig(matrices, values, vectors):
    for i in range(len(matrices)):
        values[i], vectors[i] = qd.sym_eig(matrices[i])


@qd.kernel
def run_svd(matrices, u, s, v):
    for i in range(len(matrices)):
        u[i], s[i], v[i] = qd.svd(matrices[i])


@qd.kernel
def run_polar(matrices, r, p):
    for i in range(len(matrices)):
        r[i], p[i] = qd.polar_decompose(matrices[i])


@qd.kernel
def run_eig(matrices, values, vectors):
    for i in range(len(matrices)):
        values[i], vectors[i] = qd.eig(matrices[i])


@qd.kernel
def run_solve(matrices, sides, results):
    for i in range(len(matrices)):
        results[i] = qd.solve(matrices[i], sides[i])


@qd.kernel
def run_make_spd(matrices, results):
    for i in range(len(matrices)):
        results[i] = qd.make_spd(matrices[i])


def some(arch: Any, matrices: np.ndarray) -> np.ndarray:
    """All matrices for compiled code, a few for the interpreter: the last ones are the degenerate ones."""
    return matrices if arch is qd.cpu else np.concatenate([matrices[:1], matrices[-15:-3:3]])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("size", range(2, 7))
def test_sym_eig(arch: Any, size: int, dtype: Any) -> None:
    qd.init(arch=arch, wraparound=False)
    matrices = some(arch, symmetric_matrices(size, dtype))
    values, vectors = np.zeros(matrices.shape[:2], dtype), np.zeros_like(matrices)
    run_sym_eig(matrices, values, vectors)
    check_sym_eig(matrices, values, vectors, dtype)


@pytest.mark.parametrize("size", (2, 3, 5))
def test_sym_eig_does_not_read_what_is_below_the_diagonal(size: int) -> None:
    matrix = symmetric_matrices(size, np.float64)[0]
    values, vectors = qd.sym_eig(matrix)
    upper = np.triu(matrix) + np.tril(np.full_like(matrix, np.nan), -1)
    others = qd.sym_eig(upper)
    np.testing.assert_array_equal(values.to_numpy(), others[0].to_numpy())
    np.testing.assert_array_equal(vectors.to_numpy(), others[1].to_numpy())


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("size", (2, 3))
def test_svd(arch: Any, size: int, dtype: Any) -> None:
    qd.init(arch=arch, wraparound=False)
    matrices = some(arch, general_matrices(size, dtype))
    u, s, v = (np.zeros_like(matrices) for _ in range(3))
    run_svd(matrices, u, s, v)
    check_svd(matrices, u, s, v, dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("size", (2, 3))
def test_polar_decompose(arch: Any, size: int, dtype: Any) -> None:
    qd.init(arch=arch, wraparound=False)
    matrices = some(arch, general_matrices(size, dtype))
    r, p = np.zeros_like(matrices), np.zeros_like(matrices)
    run_polar(matrices, r, p)
    wide = matrices.astype(np.float64)
    check_orthogonal(r.astype(np.float64), dtype)
    check_product(r.astype(np.float64) @ p.astype(np.float64), wide, dtype)
    np.testing.assert_array_equal(p, p.transpose(0, 2, 1))
    if size == 2:
        assert np.all(np.linalg.eigvalsh(p / sizes_of(wide)[:, None, None]) >= -residual(dtype))
    else:
        np.testing.assert_allclose(np.linalg.det(r), 1, atol=residual(dtype))


@pytest.mark.parametrize("dtype", DTYPES)
def test_eig(arch: Any, dtype: Any) -> None:
    qd.init(arch=arch, wraparound=False)
    source = np.random.default_rng(2)
    special = [
        [[0, 1], [0, 0]],
        [[0, 0], [1, 0]],
        [[0, 1], [-1, 0]],
        [[1, 1e-8], [0, 1]],
        [[3, 0], [0, -4]],
        [[1, 2], [3, 6]],
    ]
    matrices = np.concatenate([source.normal(size=(100, 2, 2)), special]).astype(dtype)
    matrices = some(arch, np.concatenate([matrices, degenerate(2, dtype)]))
    values, vectors = np.zeros_like(matrices), np.zeros((len(matrices), 4, 2), dtype)
    run_eig(matrices, values, vectors)
    wide = matrices / sizes_of(matrices).astype(np.float64)[:, None, None]
    found = (values[..., 0] + 1j * values[..., 1]) / sizes_of(matrices).astype(np.float64)[:, None]
    directions = vectors[:, 0::2] + 1j * vectors[:, 1::2].astype(np.float64)
    np.testing.assert_allclose(wide @ directions, directions * found[:, None, :], atol=residual(dtype))
    np.testing.assert_allclose(np.linalg.norm(directions, axis=1), 1, rtol=residual(dtype))
    np.testing.assert_allclose(found.sum(1), np.trace(wide, axis1=1, axis2=2), atol=residual(dtype))
    np.testing.assert_allclose(found.prod(1), np.linalg.det(wide), atol=residual(dtype))
    assert np.all((found[:, 0].real > found[:, 1].real) | (found[:, 0].imag >= 0))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("size", (2, 3))
def test_solve(arch: Any, size: int, dtype: Any) -> None:
    qd.init(arch=arch, wraparound=False)
    source = np.random.default_rng(size)
    matrices = np.concatenate(
        [rotations(source, 50, size) * 3 + 0.5, np.stack([np.eye(size)[::-1] * 4]), 1e-30 * rotations(source, 9, size)]
    )
    matrices = some(arch, matrices.astype(dtype))
    sides = source.normal(size=matrices.shape[:2]).astype(dtype)
    results = np.zeros_like(sides)
    run_solve(matrices, sides, results)
    exact = np.linalg.solve(matrices.astype(np.float64), sides.astype(np.float64)[..., None])[..., 0]
    np.testing.assert_allclose(results, exact, rtol=100 * residual(dtype))


def test_singular_equations(arch: Any) -> None:
    matrices, sides, results = np.ones((1, 2, 2)), np.ones((1, 2)), np.zeros((1, 2))
    qd.init(arch=arch, wraparound=False)
    run_solve(matrices, sides, results)
    assert not np.isfinite(results).any()
    qd.init(arch=arch, wraparound=False, debug=True)
    with pytest.raises(AssertionError, match="singular"):
        run_solve(matrices, sides, results)
    with pytest.raises(AssertionError, match="singular"):
        qd.solve(matrices[0], sides[0])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("size", (4, 5, 6))
def test_make_spd(arch: Any, size: int, dtype: Any) -> None:
    qd.init(arch=arch, wraparound=False)
    matrices = some(arch, symmetric_matrices(size, dtype))
    results = np.zeros_like(matrices)
    run_make_spd(matrices, results)
    scale = sizes_of(matrices).astype(np.float64)[:, None, None]
    values, vectors = np.linalg.eigh(matrices / scale)
    exact = vectors * np.maximum(values, 0)[:, None, :] @ vectors.transpose(0, 2, 1)
    np.testing.assert_allclose(results / scale, exact, atol=residual(dtype))
    np.testing.assert_array_equal(results, results.transpose(0, 2, 1))
    definite = values.min(1) > 1e-3
    np.testing.assert_array_equal(results[definite], matrices[definite])


@pytest.mark.parametrize("dtype", DTYPES)
def test_ordinary_python(dtype: Any) -> None:
    """Host values give host values, of the matrix's own type."""
    for size in (2, 3, 6):
        matrices = degenerate(size, dtype)
        found = [qd.sym_eig(qd.Matrix(matrix)) for matrix in matrices]
        check_sym_eig(matrices, *(np.stack([entry[k].to_numpy() for entry in found]) for k in range(2)), dtype)
        assert {entry[k].to_numpy().dtype for entry in found for k in range(2)} == {np.dtype(dtype)}
    for size in (2, 3):
        matrices = degenerate(size, dtype)
        triples = [qd.svd(qd.Matrix(matrix)) for matrix in matrices]
        check_svd(matrices, *(np.stack([entry[k].to_numpy() for entry in triples]) for k in range(3)), dtype)
    assert qd.solve([[0, 2], [4, 0]], [2, 4]).to_list() == [1.0, 1.0]
    assert qd.eig([[0.0, 1.0], [-1.0, 0.0]])[0].to_list() == [[0.0, 1.0], [0.0, -1.0]]
    np.testing.assert_allclose(qd.make_spd(np.diag([1.0, -1.0, 2.0, 3.0])).to_numpy(), np.diag([1.0, 0.0, 2.0, 3.0]))


def test_types_of_results(arch: Any) -> None:
    """`dt` is the type of the results; integers become the default float; half precision is computed in f32."""
    qd.init(arch=arch, wraparound=False, default_fp=qd.f64)
    values, halves = np.zeros((2, 2)), np.zeros(2, np.float16)
    matrices = np.array([[[2, 1], [1, 2]]])

    @qd.kernel
    def run(matrices, values, halves):
        values[0], v = qd.sym_eig(matrices[0])
        values[1], w = qd.sym_eig(matrices[0], dt=qd.f32)
        halves_of, h = qd.sym_eig(qd.cast(matrices[0], qd.f16))
        halves[0] = halves_of[0]
        halves[1] = halves_of[1]

    run(matrices, values, halves)
    np.testing.assert_allclose(values, [[1, 3], [1, 3]])
    assert halves.tolist() == [1, 3]


@pytest.mark.parametrize("name", ("sym_eig", "svd", "polar_decompose", "eig", "make_spd", "solve"))
def test_sizes_that_there_are_not(name: str) -> None:
    function: Any = getattr(qd, name)
    matrices = np.zeros((1, 7, 7))

    @qd.kernel
    def run(matrices):
        for i in range(len(matrices)):
            if qd.static(name == "solve"):
                a = qd.solve(matrices[i], matrices[i, 0])
            else:
                b = function(matrices[i])

    with pytest.raises(qd.QuadrantsTypeError, match=r"\d x \d") as caught:
        run(matrices)
    assert "test_decompositions.py" in str(caught.value)
    with pytest.raises(qd.QuadrantsTypeError, match=r"\d x \d"):
        function(matrices[0], *([matrices[0, 0]] if name == "solve" else []))


def test_types_that_are_no_floats() -> None:
    @qd.kernel
    def run():
        u, s, v = qd.svd(qd.Matrix([[1.0, 0.0], [0.0, 1.0]]), qd.i32)
        return s[0, 0]

    with pytest.raises(qd.QuadrantsTypeError, match="dt is a float type"):
        run()
    with pytest.raises(qd.QuadrantsTypeError, match="dt is a float type"):
        qd.svd(np.eye(2), qd.i32)
