"""Products of matrices by libraries, in compiled kernels: a library of the test's own, and NumPy's where it has one."""

from __future__ import annotations

import glob
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import quadrants as qd
from quadrants.targets import libraries

pytestmark = pytest.mark.slow

# A plain gemm, with 32-bit sizes for f32, 64-bit ones for f64.
SOURCE = """
#define GEMM(NAME, T, N) \\
void NAME(int order, int ta, int tb, N m, N n, N k, T alpha, const T *a, N lda, const T *b, N ldb, T beta, T *c, N ldc) { \\
    int rows = order == 101, ra = rows == (ta == 111), rb = rows == (tb == 111); \\
    for (N i = 0; i < m; i++) for (N j = 0; j < n; j++) { \\
        T sum = 0, *to = rows ? c + i * ldc + j : c + j * ldc + i; \\
        for (N p = 0; p < k; p++) sum += (ra ? a[i * lda + p] : a[p * lda + i]) * (rb ? b[p * ldb + j] : b[j * ldb + p]); \\
        *to = alpha * sum + (beta ? beta * *to : 0); \\
    } \\
}
GEMM(cblas_sgemm, float, int)
GEMM(cblas_dgemm64_, double, long)
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> str:
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("no C compiler")
    folder = tmp_path_factory.mktemp("library")
    (folder / "gemm.c").write_text(SOURCE)
    path = str(folder / "libgemm.so")
    subprocess.run([compiler, "-O2", "-shared", "-fPIC", "-o", path, str(folder / "gemm.c")], check=True)
    return path


@pytest.fixture(autouse=True)
def _reset() -> Iterator[None]:
    yield
    qd.reset()


def product(a, b, c):
    for i in range(a.shape[0]):
        for j in range(b.shape[1]):
            s = 0.0
            for k in range(a.shape[1]):
                s += a[i, k] * b[k, j]
            c[i, j] = s


def added(a, b, c):
    for i in range(a.shape[0]):
        for k in range(a.shape[1]):
            for j in range(b.shape[1]):
                c[i, j] += a[i, k] * b[k, j]


def _check(kernel: Any, sizes: tuple[int, int, int], dtype: Any, order: Any = "C") -> None:
    rows, columns, depth = sizes
    generator = np.random.default_rng(1)
    a, b = generator.random((rows, depth)).astype(dtype), generator.random((depth, columns)).astype(dtype)
    c = np.ones((rows, columns), dtype, order)
    kernel(np.asarray(a, order=order), b, c)
    start = 0 if kernel.__name__ == "product" else 1
    assert np.allclose(c, start + a.astype(np.float64) @ b, rtol=1e-4 if dtype is np.float32 else 1e-12)


LARGE, SMALL = (250, 270, 260), (64, 70, 77)


def _ran(kernel: Any, by: str) -> int:
    (line,) = [line for line in kernel.report().splitlines() if f" by {by}" in line and line.endswith(" times")]
    return int(line.split()[-2])


@pytest.mark.parametrize(("dtype", "symbol"), [(np.float32, "cblas_sgemm"), (np.float64, "cblas_dgemm64_")])
@pytest.mark.parametrize("function", [product, added])
def test_the_library_runs_where_the_product_is_large(library: str, function: Any, dtype: Any, symbol: str) -> None:
    qd.init(arch=qd.cpu, offline_cache=False, libraries=library, verify=True)
    kernel = qd.kernel(function)
    _check(kernel, LARGE, dtype)
    _check(kernel, SMALL, dtype)
    _check(kernel, LARGE, dtype)
    assert _ran(kernel, f"{symbol} of libgemm.so") == 2
    assert _ran(kernel, "generated code") == 1
    assert f"({library}) from 16777216 products on" in kernel.report()
    _check(kernel, LARGE, dtype, "F")
    assert _ran(kernel, symbol) == 1  # a form of its own


def test_arguments_that_share_memory_are_not_given_away(library: str) -> None:
    qd.init(arch=qd.cpu, offline_cache=False, libraries=library)
    kernel = qd.kernel(product)
    a = np.random.default_rng(3).random((300, 300)).astype(np.float32)
    kernel(a, a, np.zeros_like(a))
    expected = a.copy()
    qd.init(arch=qd.cpu, offline_cache=False)
    kernel(expected, expected, expected)
    qd.init(arch=qd.cpu, offline_cache=False, libraries=library)
    kernel(a, a, a)
    assert "times" not in kernel.report() and "arguments share memory" in kernel.report()
    assert np.array_equal(a, expected, equal_nan=True)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"libraries": "/nowhere/libblas.so"}, "/nowhere/libblas.so is not there, or has no cblas_sgemm"),
        ({"libraries": "auto", "deterministic": True}, "deterministic mode takes no library"),
        ({"libraries": "auto", "cpu_max_num_threads": 2}, "on 2 threads a library's own would stand in the way"),
        ({"libraries": "auto", "arch": qd.reference}, "the target reference computes everything itself"),
    ],
)
def test_the_report_says_why_no_library_is_called(options: dict[str, Any], reason: str) -> None:
    qd.init(**{"arch": qd.x64, "offline_cache": False, **options})
    kernel = qd.kernel(product)
    _check(kernel, (20, 18, 17), np.float32)
    assert f"no library is called: {reason}" in kernel.report()


PROGRAM = """
import sys
import numpy as np, quadrants as qd
qd.init(libraries=sys.argv[1], cpu_max_num_threads=1)
@qd.kernel
def f(a, b, c):
    for i in range(a.shape[0]):
        for j in range(b.shape[1]):
            s = 0.0
            for k in range(a.shape[1]):
                s += a[i, k] * b[k, j]
            c[i, j] = s
a = np.random.default_rng(1).random((300, 300))
c = np.zeros_like(a)
f(a, a, c)
assert np.allclose(c, a @ a)
print(f.report())
"""


def _start(program: Path, libraries_: str, cache: Path) -> str:
    environment = {
        **os.environ,
        "OPENBLAS_NUM_THREADS": "1",
        "QD_OFFLINE_CACHE": "1",
        "QD_OFFLINE_CACHE_FILE_PATH": str(cache),
    }
    command = [sys.executable, str(program), libraries_]
    return subprocess.run(command, check=True, capture_output=True, text=True, env=environment).stdout


@pytest.mark.skipif(not glob.glob(libraries.PACKAGES[0].places[0]), reason="NumPy brings no OpenBLAS")
def test_numpys_library_is_found(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    assert "dgemm64_ of OpenBLAS of NumPy: 1 times" in _start(tmp_path / "program.py", "auto", tmp_path)


def test_a_library_that_has_gone_is_not_missed(library: str, tmp_path: Path) -> None:
    program, own = tmp_path / "program.py", str(tmp_path / "libown.so")
    program.write_text(PROGRAM)
    shutil.copy(library, own)
    for how in ("; kept on disk", "from the disk cache"):
        report = _start(program, own, tmp_path)
        assert "c = a @ b by cblas_dgemm64_ of libown.so: 1 times" in report
        assert how in report
    os.remove(own)
    report = _start(program, own, tmp_path)
    assert f"no library is called: {own} is not there" in report
