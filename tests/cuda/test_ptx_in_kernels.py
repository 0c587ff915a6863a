"""`qd.ptx`: functions of kernels whose body is PTX."""

from __future__ import annotations

import numpy as np
import pytest

import quadrants as qd
from quadrants.errors import QuadrantsSyntaxError, QuadrantsTypeError, QuadrantsUnsupportedError
from quadrants.evidence.ptx import assemble
from quadrants.evidence.ptx.driver import PlayedDriver

pytestmark = pytest.mark.slow

popc = qd.ptx("popc.b32 $0, $1;", [qd.u32], qd.u32, name="popc")
wide = qd.ptx("mul.wide.s32 $0, $1, $2;", [qd.i32, qd.i32], qd.i64)
least = qd.ptx(
    "{\n .reg .pred %p;\n setp.lt.f64 %p, $1, $2;\n selp.f64 $0, $1, $2, %p;\n}", [qd.f64, qd.f64], qd.f64, name="least"
)
put = qd.ptx("st.global.f32 [$0], $1;", [[qd.f32], qd.f32], writes=[0], reads=[], name="put")


def test_numbers_in_and_out(driver: PlayedDriver) -> None:
    @qd.kernel
    def run(x, y, z):
        for i in range(x.shape[0]):
            y[i] = popc(x[i])
            z[i] = wide(y[i] + 1, -100000)

    x = np.array([0, 1, 7, 0xFFFFFFFF], np.uint32)
    y, z = np.zeros(4, np.int32), np.zeros(4, np.int64)
    run(x, y, z)
    assert y.tolist() == [0, 1, 3, 32]
    assert z.tolist() == [-100000 * (n + 1) for n in (0, 1, 3, 32)]
    (text,) = driver.texts
    assert "popc.b32" in text and "mul.wide.s32" in text
    if assemble.assembler():
        assemble.assemble(text, 80)


def test_registers_of_its_own_and_several_instructions(driver: PlayedDriver) -> None:
    @qd.kernel
    def run(x, y):
        for i in range(x.shape[0]):
            y[i] = least(x[i], 2.5)

    x, y = np.array([1.0, 4.0, -3.0]), np.zeros(3)
    run(x, y)
    assert y.tolist() == [1.0, 2.5, -3.0]
    if assemble.assembler():
        assemble.assemble(driver.texts[0], 80)


def test_pointers_to_elements(driver: PlayedDriver) -> None:
    @qd.kernel
    def run(x):
        for i in range(x.shape[0]):
            put(x[i], 2.0 * i)
            x[i, 0] += 1.0

    x = np.zeros((5, 1), np.float32)
    run(x)
    assert x[:, 0].tolist() == [1.0, 3.0, 5.0, 7.0, 9.0]


def test_a_pure_call_that_nothing_needs_is_left_out(driver: PlayedDriver) -> None:
    noisy = qd.ptx("mov.u32 $0, 7;", [], qd.u32, pure=False)

    @qd.kernel
    def run(x):
        for i in range(x.shape[0]):
            popc(qd.u32(i))
            noisy()
            x[i] = 1

    x = np.zeros(3, np.int32)
    run(x)
    assert "popc" not in driver.texts[0]
    assert driver.texts[0].count("begin inline asm") == 1


def test_arguments_that_are_known(driver: PlayedDriver) -> None:
    """Nothing computes PTX while compiling."""

    @qd.kernel
    def run(x):
        x[0] = popc(255)
        for i in range(1, x.shape[0]):
            x[i] = popc(qd.u32(x[0]))

    x = qd.ndarray(qd.i32, 3)
    run(x)
    assert x.to_numpy().tolist() == [8, 1, 1]


def test_other_targets_refuse_it_with_the_line() -> None:
    @qd.kernel
    def run(x):
        for i in range(x.shape[0]):
            x[i] = popc(x[i])

    for arch in (qd.x64, qd.reference, qd.simulated if hasattr(qd, "simulated") else qd.reference):
        qd.init(arch=arch, offline_cache=False, log_level="error")
        with pytest.raises(QuadrantsUnsupportedError, match=r"does not run the assembly popc(.|\n)*cuda") as found:
            run(np.zeros(3, np.uint32))
        assert "popc(x[i])" in str(found.value)


def test_what_does_not_fit_is_told(driver: PlayedDriver) -> None:
    @qd.kernel
    def short(x):
        for i in range(x.shape[0]):
            x[i] = popc()

    @qd.kernel
    def fraction(x):
        for i in range(x.shape[0]):
            x[i] = popc(x[i] + 0.5)

    x = np.zeros(2, np.uint32)
    with pytest.raises(QuadrantsTypeError, match="the assembly popc takes 1 arguments"):
        short(x)
    with pytest.raises(QuadrantsTypeError, match="does not fit the assembly popc"):
        fraction(x)
    with pytest.raises(TypeError, match=r"\$2 is no operand: there are \$0, \$1"):
        qd.ptx("add.u32 $0, $1, $2;", [qd.u32], qd.u32)
    with pytest.raises(TypeError, match=r"\$ is no operand"):
        qd.ptx("mov.u32 $x, 1;", [], qd.u32)
    with pytest.raises(TypeError, match="f16 has no registers of its own"):
        qd.ptx("", [qd.f16])
    with pytest.raises(TypeError, match="argument 0 is no pointer"):
        qd.ptx("", [qd.f32], writes=[0])
    with pytest.raises(QuadrantsSyntaxError, match=r"qd\.ptx works in kernels"):
        popc(3)


def test_text_with_quotes_and_lines_stays_as_it_is(driver: PlayedDriver) -> None:
    odd = qd.ptx('// "said" \\ so\n\tmov.u32 $0, 5;', [], qd.u32)

    @qd.kernel
    def run(x):
        for i in range(x.shape[0]):
            x[i] = odd()

    x = np.zeros(2, np.uint32)
    run(x)
    assert x.tolist() == [5, 5] and '// "said" \\ so\n' in driver.texts[0]
