from __future__ import annotations

import cmath
import math

import numpy as np
import pytest

import quadrants.lang as qd
from quadrants.errors import QuadrantsSyntaxError, QuadrantsTypeError
from quadrants.ir import types
from quadrants.lang.describe import read_annotation, read_matrix


@pytest.mark.parametrize(
    "name, x",
    [
        ("sqrt", 2.0),
        ("sin", 0.3),
        ("cos", 0.3),
        ("tan", 0.3),
        ("asin", 0.3),
        ("acos", 0.3),
        ("tanh", 0.3),
        ("exp", 1),
        ("log", 2),
    ],
)
def test_elementary(name, x):
    function, expected = getattr(qd, name), getattr(math, name)(x)
    assert function(x) == pytest.approx(expected, rel=1e-15) and isinstance(function(x), float)
    v = function(qd.Vector([x, x], qd.f32))
    assert v.dtype is types.f32 and v.x == pytest.approx(expected, rel=1e-6)


def test_numbers():
    assert (qd.floor(-1.5), qd.ceil(-1.5), qd.round(2.5), qd.round(-3.5), qd.floor(2.5, qd.i32)) == (-2, -1, 2, -4, 2)
    assert (qd.max(1, 3, 2), qd.min(2, 1.5), qd.max(1.0, float("nan")), qd.abs(-3)) == (3, 1.5, 1.0, 3)
    assert (qd.raw_div(-7, 2), qd.raw_mod(-7, 2), qd.raw_div(1, 0), qd.raw_mod(-7.5, 2)) == (-3, -1, 0, -1.5)
    assert qd.bit_shr(np.int32(-8), 1) == 2147483644 and qd.bit_cast(np.float32(1), qd.u32) == 0x3F800000
    assert (qd.cast(300.7, qd.u8), qd.cast(-1.5, qd.i32), qd.cast(2, qd.u1), qd.cast(300, qd.u8)) == (255, -1, True, 44)
    assert qd.select(qd.Vector([1, 0]), qd.Vector([1, 2]), 0.5).to_list() == [1.0, 0.5]
    assert qd.frexp(3.0) == (0.75, 2) and qd.atan2(1, 1) == math.pi / 4 and qd.pow(2, -1) == 0.5 and qd.rsqrt(4) == 0.5
    assert qd.zero(qd.Vector([1, 2])).to_list() == [0, 0] and qd.one(3.5) == 1.0
    assert (qd.math.popcnt(255), qd.math.clz(np.int32(1)), qd.math.ffs(8), qd.math.ffs(0)) == (8, 31, 4, 0)
    assert (
        math.isnan(qd.sqrt(-1)) and qd.math.isnan(qd.math.nan) and not qd.math.isnan(3) and qd.math.isinf(-qd.math.inf)
    )
    assert qd.math.sign(qd.Vector([-2, 0, 3])).to_list() == [-1, 0, 1] and qd.math.log2(8) == 3
    with pytest.raises(QuadrantsTypeError):
        qd.bit_cast(np.float32(1), qd.u64)
    with pytest.raises(QuadrantsTypeError):
        qd.sqrt("4")


@pytest.mark.parametrize("name", ["random", "atomic_add", "atomic_cas", "volatile_load", "global_thread_idx", "randn"])
def test_kernel_only(name):
    with pytest.raises(QuadrantsSyntaxError, match="in kernels"):
        getattr(qd, name)(
            *{"random": (), "randn": (), "global_thread_idx": (), "volatile_load": (1,), "atomic_cas": (1, 2, 3)}.get(
                name, (1, 2)
            )
        )


def test_shading():
    m = qd.math
    assert (
        m.mix(1, 3, 0.25) == 1.5
        and m.clamp(5, 0, 3) == 3
        and m.clamp(-1, 0, 3) == 0
        and m.step(1, 0.5) == 0
        and m.fract(-0.25) == 0.75
    )
    assert m.smoothstep(0, 2, 1) == 0.5 and m.mod(-7.5, 2) == 0.5 and m.degrees(m.pi) == 180 and m.radians(180) == m.pi
    n = m.vec2(0, 1)
    assert m.reflect(m.vec2(1, -1), n).to_list() == [1, 1] and m.refract(m.vec2(0, -1), n, 0.5).to_list() == [0, -1]
    assert m.refract(m.normalize(m.vec2(1, -0.1)), n, 1.5).to_list() == [0, 0]
    assert m.distance(m.vec2(0, 0), m.vec2(3, 4)) == 5 and m.length(m.vec2(3, 4)) == 5 and m.dot(n, n) == 1
    assert m.cross(m.vec3(1, 0, 0), m.vec3(0, 1, 0)).to_list() == [0, 0, 1]
    assert m.determinant(m.mat2(1, 2, 3, 4)) == pytest.approx(-2) and m.inverse(m.mat2(2, 0, 0, 4)).to_list() == [
        [0.5, 0],
        [0, 0.25],
    ]
    assert m.eye(2).to_list() == [[1, 0], [0, 1]] and m.ivec2(1.5).to_list() == [1, 1] and m.uvec2(3).dtype is types.u32


def test_rotations():
    m = qd.math
    x, y, z = m.vec4(1, 0, 0, 1), m.vec4(0, 1, 0, 1), m.vec4(0, 0, 1, 1)
    quarter = m.pi / 2
    np.testing.assert_allclose((m.rotation2d(quarter) @ m.vec2(1, 0)).to_numpy(), [0, 1], atol=1e-15)
    np.testing.assert_allclose((m.rot_by_axis(m.vec3(0, 0, 2), quarter) @ x).to_numpy(), y.to_numpy(), atol=1e-15)
    np.testing.assert_allclose((m.rotation3d(quarter, 0, 0) @ y).to_numpy(), z.to_numpy(), atol=1e-15)
    np.testing.assert_allclose((m.rotation3d(0, quarter, 0) @ z).to_numpy(), x.to_numpy(), atol=1e-15)
    np.testing.assert_allclose((m.rotation3d(0, 0, quarter) @ x).to_numpy(), y.to_numpy(), atol=1e-15)
    r = m.rot_yaw_pitch_roll(0.3, 0.4, 0.5)
    np.testing.assert_allclose((r @ r.transpose()).to_numpy(), np.eye(4), atol=1e-15)
    by_axes = (
        m.rot_by_axis(m.vec3(0, 1, 0), 0.3) @ m.rot_by_axis(m.vec3(1, 0, 0), 0.4) @ m.rot_by_axis(m.vec3(0, 0, 1), 0.5)
    )
    np.testing.assert_allclose(r.to_numpy(), by_axes.to_numpy(), atol=1e-15)
    assert (m.translate(1, 2, 3) @ m.scale(2, 2, 2) @ x).to_list() == [3, 2, 3, 1]


def _pair(z):
    return qd.Vector([z.real, z.imag])


@pytest.mark.parametrize("z", [1 + 2j, -3 + 0.5j, -1 - 1j])
def test_complex(z):
    m, w = qd.math, 0.5 - 2j
    for got, expected in (
        (m.cmul(_pair(z), _pair(w)), z * w),
        (m.cdiv(_pair(z), _pair(w)), z / w),
        (m.cinv(_pair(z)), 1 / z),
        (m.cconj(_pair(z)), z.conjugate()),
        (m.csqrt(_pair(z)), cmath.sqrt(z)),
        (m.cexp(_pair(z)), cmath.exp(z)),
        (m.clog(_pair(z)), cmath.log(z)),
        (m.cpow(_pair(z), 3), z**3),
    ):
        np.testing.assert_allclose(got.to_numpy(), [expected.real, expected.imag], rtol=1e-13, atol=1e-13)
    assert m.cpow(m.vec2(0, 0), 2).to_list() == [0, 0]


def test_loops_on_the_host():
    assert list(qd.ndrange(2, (1, 3))) == [(0, 1), (0, 2), (1, 1), (1, 2)] and len(qd.ndrange(2, (1, 3))) == 4
    assert list(qd.ndrange(2, 3, axes=(1, 0))) == [(0, 0), (1, 0), (0, 1), (1, 1), (0, 2), (1, 2)]
    assert list(qd.ndrange((3, 1))) == [] and qd.ndrange((3, 1)).dimensions == (0,)
    assert [list(I) for I in qd.grouped(qd.ndrange(2, 1))] == [[0, 0], [1, 0]]
    x = qd.field(qd.f32, 2, offset=-1)
    for I in qd.grouped(x):
        x[I] = I[0]
    assert x.to_numpy().tolist() == [-1, 0]
    with pytest.raises(QuadrantsTypeError):
        qd.ndrange(1.5)
    with pytest.raises(QuadrantsSyntaxError):
        qd.ndrange(2, 3, axes=(0, 0))
    with pytest.raises(QuadrantsTypeError):
        qd.ndrange(2, axes=("i",))


def test_static_on_the_host(capsys):
    assert qd.static(3) == 3 and qd.static(1, 2) == (1, 2) and qd.loop_config(serialize=True) is None
    qd.static_assert(True)
    with pytest.raises(AssertionError, match="too small"):
        qd.static_assert(False, "too small")
    qd.static_print(1, "a", sep="-")
    assert capsys.readouterr().out == "1-a\n" and qd.assume_in_range(3, 0, 0, 5) == 3


def test_public_names():
    assert dir(qd.math) == sorted(qd.math.__all__) and all(hasattr(qd.math, name) for name in qd.math.__all__)
    assert all(hasattr(qd, name) for name in qd.__all__) and len(set(qd.__all__)) == len(qd.__all__)
    assert qd.math.sqrt is qd.sqrt and all(getattr(qd, name).__doc__ for name in ("sqrt", "field", "ndrange", "init"))
    public = {name for name in dir(qd.ScalarField) if not name.startswith("_")}
    assert public == set(
        "copy_from dtype fill from_numpy from_torch has_dual has_grad layout parent shape snode to_dlpack to_numpy to_torch".split()
    )
    assert {name for name in dir(qd.MatrixField) if not name.startswith("_")} == public | {"get_scalar_field"}


def test_front_end_reads_annotations():
    assert read_annotation(float).kind == "float" and read_annotation(qd.f32).scalar is types.f32
    array = read_annotation(qd.types.ndarray(dtype=qd.math.vec3, ndim=2))
    assert (array.kind, array.scalar, array.shape, array.ndim) == ("array", types.f64, (3,), 2)
    assert read_annotation(qd.types.NDArray).kind == "array" and read_annotation(qd.template()).kind == "template"
    assert read_annotation(qd.types.matrix(2, 3)).shape == (2, 3) and read_annotation(qd.Tensor).kind == "none"
    assert (
        read_annotation(qd.Template | None).kind == "template"
        and read_annotation(qd.template() | None).kind == "template"
    )
    assert read_annotation("f32") is None and read_annotation(str) is None
    assert read_matrix(qd.Matrix([[1, 2]], qd.i8)) == ([1, 2], (1, 2), types.i8) and read_matrix(3) is None
    assert read_matrix(qd.Vector([0.5, 2])) == ([0.5, 2.0], (2,), None)
