"""Functions of C in kernels, on every target that can call them."""

from __future__ import annotations

import ctypes
import ctypes.util
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import quadrants as qd
from quadrants.errors import QuadrantsTypeError, QuadrantsUnsupportedError
from quadrants.evidence.programs import TargetExecutor

LIBM = ctypes.CDLL(ctypes.util.find_library("m"))
LIBC = ctypes.CDLL(None)
LIBM.lgamma.argtypes, LIBM.lgamma.restype = [ctypes.c_double], ctypes.c_double
LIBM.sinf.argtypes, LIBM.sinf.restype = [ctypes.c_float], ctypes.c_float
LIBM.frexp.argtypes, LIBM.frexp.restype = [ctypes.c_double, ctypes.POINTER(ctypes.c_int)], ctypes.c_double
LIBM.ldexp.argtypes = [ctypes.c_double, ctypes.c_int]
LIBM.ldexp.restype = ctypes.c_double
LIBC.abs.argtypes, LIBC.abs.restype = [ctypes.c_int], ctypes.c_int
LIBC.memset.argtypes, LIBC.memset.restype = [ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t], None
LIBC.isalpha.argtypes, LIBC.isalpha.restype = [ctypes.c_int], ctypes.c_int


def _start(executor: TargetExecutor) -> None:
    qd.init(arch=executor.arch, offline_cache=False, verify=True, **executor.options)


lgamma = qd.extern(LIBM.lgamma, pure=True)
split = qd.extern(LIBM.frexp, reads=(), writes=(1,))


def test_numbers(executor: TargetExecutor) -> None:
    _start(executor)

    @qd.kernel
    def f(x, y, n):
        for i in range(len(x)):
            y[i] = LIBM.lgamma(x[i]) + LIBC.abs(n)

    x = np.linspace(0.5, 9, 100)
    y = np.zeros(100)
    f(x, y, np.int32(-3))
    assert np.allclose(y, [LIBM.lgamma(v) + 3 for v in x], rtol=1e-15)


def test_pure_functions_are_called_once(executor: TargetExecutor) -> None:
    _start(executor)

    @qd.kernel
    def f(x, y, c):
        for i in range(len(x)):
            y[i] = lgamma(c) + lgamma(c) + x[i]

    x, y = np.arange(5.0), np.zeros(5)
    f(x, y, 4.0)
    assert np.allclose(y, 2 * LIBM.lgamma(4.0) + x)
    if executor.optimises:
        assert str(f.ir()).count("external_pure") == 1


def test_pointers(executor: TargetExecutor) -> None:
    _start(executor)

    @qd.kernel
    def f(x, mantissa, exponent):
        for i in range(len(x)):
            mantissa[i] = split(x[i], exponent[i])

    @qd.kernel
    def g(x, mantissa, exponent):
        for i in range(len(x)):
            mantissa[i] = split(x[i], exponent[i, -1])

    x = np.array([1.0, 10.0, 0.1, 1e300, 0.0])
    expected = np.frexp(x)
    for kernel, exponent in ((f, np.zeros(5, np.int32)), (g, np.zeros((5, 3), np.int32))):
        mantissa = np.zeros(5)
        with pytest.raises(QuadrantsTypeError, match="takes a pointer here"):
            f(x, mantissa, np.zeros((5, 3), np.int64))
        if kernel is g:
            kernel(x, mantissa, exponent)
            assert (mantissa == expected[0]).all() and (exponent[:, 2] == expected[1]).all()
            assert not exponent[:, :2].any()


def test_whole_arrays_and_order(executor: TargetExecutor) -> None:
    _start(executor)

    @qd.kernel
    def f(x) -> int:
        x[0] = 5
        LIBC.memset(x, 1, 4 * len(x))
        a = x[0]
        x[0] = 7
        return a

    x = np.zeros(10, np.int32)
    assert f(x) == 0x01010101
    assert x.tolist() == [7] + [0x01010101] * 9


def test_in_functions_and_branches(executor: TargetExecutor) -> None:
    _start(executor)

    def letter(code):
        return LIBC.isalpha(code) != 0

    @qd.kernel
    def count(text) -> int:
        n = 0
        for i in range(len(text)):
            if text[i] < 128:
                if letter(text[i]):
                    n += 1
        return n

    text = np.frombuffer(b"a1 b2 c3 ... Z", np.uint8).astype(np.int32)
    assert count(text) == 4


def _fails(kernel: Any, *arguments: Any) -> str:
    with pytest.raises(QuadrantsTypeError) as caught:
        qd.kernel(kernel)(*arguments)
    return str(caught.value)


def test_wrong_calls_are_refused_with_the_line() -> None:
    def too_many(x):
        x[0] = LIBM.lgamma(x[0], 1.0)

    def narrow(x):
        x[0] = LIBM.sinf(x[0])

    def number_for_a_pointer(x):
        x[0] = LIBM.frexp(x[0], 1)

    def undeclared(x):
        x[0] = LIBM.cosh(x[0])

    def strided(x):
        LIBC.memset(x, 0, 8)

    x = np.ones(4)
    assert "takes 1 arguments" in _fails(too_many, x)
    message = _fails(narrow, x)
    assert "does not fit the C function sinf" in message and "x[0] = LIBM.sinf(x[0])" in message
    assert "takes a pointer here" in _fails(number_for_a_pointer, x)
    assert "has no argtypes" in _fails(undeclared, x)
    assert "may have strides" in _fails(strided, np.ones(8)[::2])


def test_python_functions_behind_pointers_are_refused() -> None:
    callback = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double)(lambda x: x)

    def f(x):
        x[0] = callback(x[0])

    assert "is a Python function" in _fails(f, np.ones(1))


def test_functions_with_an_errcheck_are_refused() -> None:
    checked = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int)(("abs", LIBC))
    checked.errcheck = lambda result, function, arguments: result + 1

    def f(x):
        x[0] = checked(x[0])

    assert "has an errcheck" in _fails(f, np.ones(1, np.int32))


def test_planes_of_components_are_no_dense_memory() -> None:
    planes = qd.Vector.field(3, qd.f32, 4, layout=qd.Layout.SOA)

    def f():
        LIBC.memset(planes[1], 0, 12)

    assert "has a plane for each component" in _fails(f)


def test_one_function_declared_pure_and_not(executor: TargetExecutor) -> None:
    _start(executor)
    draw = ctypes.CFUNCTYPE(ctypes.c_int)(("rand", LIBC))
    seed = qd.extern(ctypes.CFUNCTYPE(None, ctypes.c_uint)(("srand", LIBC)))
    value = qd.extern(draw)
    constant = qd.extern(draw, pure=True)

    @qd.kernel
    def f(x):
        x[0] = constant()
        seed(7)
        value()
        value()
        x[1] = value()

    x = np.zeros(2, np.int32)
    f(x)
    seed(7)
    assert x[1] == [value() for _ in range(3)][2]


def test_undeclared_functions_may_reach_what_they_are_not_given(executor: TargetExecutor) -> None:
    _start(executor)
    clear = ctypes.CFUNCTYPE(None, ctypes.c_uint64, ctypes.c_int, ctypes.c_uint64)(("memset", LIBC))

    @qd.func
    def wipe(address, n):
        if n > 0:
            wipe(address, n - 1)
        clear(address, 0, 8)

    @qd.kernel
    def f(x, y, address):
        x[0] = 5.0
        y[0] = x[0]
        clear(address, 0, 8)
        y[1] = x[0]
        x[0] = 6.0
        wipe(address, 2)
        y[2] = x[0]
        for i in range(3, 9):
            x[0] = 1.0
            for _ in range(3):
                x[0] += 1.0
                wipe(address, 0)
            y[i] = x[0]

    x, y = np.zeros(1), np.full(9, -1.0)
    f(x, y, np.uint64(x.ctypes.data))
    assert y.tolist() == [5.0] + [0.0] * 8


def test_what_is_added_to_is_read_before_an_undeclared_function_writes_it(executor: TargetExecutor) -> None:
    _start(executor)
    clear = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_uint64, ctypes.c_int, ctypes.c_uint64)(("memset", LIBC))

    @qd.func
    def wipe(address, n):
        clear(address, 0, 8)
        return n

    @qd.kernel
    def f(x, address):
        x[0] += 1.0 + 0.0 * (clear(address, 0, 8) & 1)
        x[1] -= wipe(address + 8, 2)
        x[2] *= 3 + (clear(address + 16, 0, 8) & 0)

    x = np.array([5.0, 6.0, 7.0])
    f(x, np.uint64(x.ctypes.data))
    assert x.tolist() == [6.0, 4.0, 21.0]


def test_arguments_in_python_order(executor: TargetExecutor) -> None:
    """A later argument changes what an earlier one names: a number was read before, a pointer points to what is there."""
    _start(executor)
    add = qd.atomic_add

    @qd.func
    def grown(x):
        x[0] += 10.0
        return x[0]

    @qd.kernel
    def f(x, e, y):
        y[0] = LIBM.ldexp(x[0], qd.cast(grown(x), qd.i32))
        y[1] = LIBM.lgamma(split(grown(x), e[0]))
        add(x[0], grown(x))

    x, e, y = np.ones(1), np.zeros(1, np.int32), np.zeros(2)
    f(x, e, y)
    assert y[0] == 2.0**11 and e[0] == 5 and x[0] == 62.0
    assert np.isclose(y[1], LIBM.lgamma(21 / 32))


def test_a_pointer_beside_a_call(executor: TargetExecutor) -> None:
    _start(executor)

    @qd.kernel
    def f(x):
        for i in range(len(x)):
            LIBC.memset(x[i], LIBC.abs(-1), qd.cast(4, qd.u64))

    x = np.zeros(5, np.int32)
    f(x)
    assert x.tolist() == [0x01010101] * 5


def test_a_result_that_is_not_given_stays_what_it_was() -> None:
    function = ctypes.CDLL(ctypes.util.find_library("m")).cbrt
    function.restype = ctypes.c_double
    assert qd.extern(function, [ctypes.c_double]).declaration.result == "f64"
    assert function.restype is ctypes.c_double


def test_targets_are_respected() -> None:
    only = qd.extern(LIBM.lgamma, pure=True, targets=("cuda",))

    @qd.kernel
    def f(x):
        x[0] = only(x[0])

    with pytest.raises(QuadrantsUnsupportedError, match="cannot call the C function"):
        f(np.ones(1))


def test_declarations_are_checked() -> None:
    with pytest.raises(TypeError, match="pure"):
        qd.extern(LIBM.frexp, pure=True)
    with pytest.raises(TypeError, match="no pointer"):
        qd.extern(LIBM.frexp, writes=(0,))
    with pytest.raises(TypeError, match="no function"):
        qd.extern(len)
    assert "lgamma(f64) -> f64" in repr(lgamma)
    assert lgamma(4.0) == LIBM.lgamma(4.0)


PROGRAM = """
import ctypes, sys
import numpy as np
import quadrants as qd
own = qd.extern((sys.argv[1], "scale"), [ctypes.POINTER(ctypes.c_double), np.int64, qd.f64], None, writes=(0,))
flag = qd.extern((sys.argv[1], "odd"), [ctypes.c_int8], ctypes.c_bool, pure=True)
@qd.kernel
def f(x, y):
    for i in range(len(x)):
        own(x[i], x.shape[1], 2.0)
        if flag(y[i]):
            x[i, 0] = -1.0
x, y = np.ones((3, 4)), np.array([-1, 2, 3], np.int8)
f(x, y)
assert x.tolist() == [[-1, 2, 2, 2], [2, 2, 2, 2], [-1, 2, 2, 2]], x
print("llvmlite" in sys.modules, f.report())
"""
SOURCE = """
#include <stdbool.h>
long pad(void) { return PAD; }
void scale(double *x, long n, double a) { for (long i = 0; i < n; i++) x[i] *= a; }
bool odd(signed char c) { return c & 1; }
"""


@pytest.mark.slow
# Only a compiler makes one library twice with its functions at other places; all else is tested without one above.
@pytest.mark.skipif(shutil.which("gcc") is None, reason="no C compiler to build the same library twice")
def test_a_library_of_the_user_after_a_warm_start(tmp_path: Path) -> None:
    library, program = tmp_path / "own.so", tmp_path / "program.py"
    program.write_text(PROGRAM)
    found = []
    for pad in ("1", "2 + 3"):
        source = SOURCE.replace("PAD", pad)
        command = ["gcc", "-O1", "-shared", "-fPIC", "-x", "c", "-", "-o", str(library)]
        subprocess.run(command, input=source, text=True, check=True)
        environment = {**os.environ, "QD_OFFLINE_CACHE": "1", "QD_OFFLINE_CACHE_FILE_PATH": str(tmp_path / "cache")}
        done = subprocess.run(
            [sys.executable, str(program), str(library)], env=environment, text=True, capture_output=True
        )
        assert done.returncode == 0, done.stderr
        found.append(done.stdout)
    assert found[0].startswith("True") and found[1].startswith("False"), found
