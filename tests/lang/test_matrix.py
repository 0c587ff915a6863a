from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

import quadrants.lang as qd
from quadrants.errors import QuadrantsRuntimeError, QuadrantsSyntaxError, QuadrantsTypeError
from quadrants.ir import types


def test_making_values():
    v = qd.Vector([1, 2, 3])
    assert isinstance(v, qd.Matrix) and isinstance(qd.Matrix([1, 2]), qd.Vector)
    assert (v.n, v.m, v.get_shape(), len(v), v.to_list()) == (3, 1, (3,), 3, [1, 2, 3])
    m = qd.Matrix([v, [4, 5, 6]], dt=qd.f32)
    assert (m.n, m.m, m.dtype, m.to_list()) == (2, 3, types.f32, [[1, 2, 3], [4, 5, 6]])
    assert qd.Vector(np.arange(3, dtype=np.int16)).dtype is types.i16
    assert qd.Vector([1.9, -1.9, float("nan"), 1e30], dt=qd.i32).to_list() == [1, -1, 0, 2**31 - 1]
    for bad in (3, [], [[1], [2, 3]], "ab", [[[1]]]):
        with pytest.raises(QuadrantsTypeError):
            qd.Matrix(bad)
    with pytest.raises(QuadrantsTypeError):
        qd.Vector([[1, 2]])


def test_weak_elements_take_the_type_of_what_they_meet():
    f, i, weak = qd.Vector([1.5, 2], qd.f32), qd.Vector([3, 4], qd.i32), qd.Vector([1, 2])
    assert (f + 0.1).dtype is types.f32 and (f * weak).dtype is types.f32 and (i + weak).dtype is types.i32
    assert (i + f).dtype is types.f32
    assert (i * 0.5).dtype is types.f64 and (i / 2).dtype is types.f64
    qd.init()
    assert (i * 0.5).dtype is types.f32 and (i / i).dtype is types.f32
    assert (f.cast(qd.f64) + f).dtype is types.f64
    assert (i.cast(qd.u32) + i).dtype is types.u32
    assert (f > 1.6).to_list() == [False, True] and (f > 1.6).dtype is types.u1
    assert (np.float32(2) * i).dtype is types.f32


def test_operators():
    a, b = qd.Vector([7, -7], qd.i32), qd.Vector([2, 2], qd.i32)
    assert (a // b).to_list() == [3, -4] and (a % b).to_list() == [1, 1] and (a / b).to_list() == [3.5, -3.5]
    assert (a // 0).to_list() == [0, 0] and (a % 0).to_list() == [0, 0]
    assert (a << 40).to_list() == [0, 0] and (a >> 40).to_list() == [0, -1]
    assert (
        (~a).to_list() == [-8, 6]
        and (-a).to_list() == [-7, 7]
        and abs(a).to_list() == [7, 7]
        and (+a).to_list() == [7, -7]
    )
    assert (a & 3).to_list() == [3, 1] and (a | 8).to_list() == [15, -7] and (a ^ a).to_list() == [0, 0]
    assert (2 - b).to_list() == [0, 0] and (2**b).to_list() == [4, 4] and (b**-1).to_list() == [0.5, 0.5]
    assert (qd.Vector([2**31 - 1], qd.i32) + 1).to_list() == [-(2**31)]
    b += 1
    assert b.to_list() == [3, 3]
    with pytest.raises(QuadrantsTypeError, match=r"unsupported operand type\(s\) for '&': 'f32' and 'i32'"):
        qd.Vector([1.0], qd.f32) & qd.Vector([1], qd.i32)
    with pytest.raises(QuadrantsTypeError, match="do not fit"):
        a + qd.Vector([1, 2, 3])
    with pytest.raises(TypeError):
        a + "x"


def test_products():
    m, v = qd.Matrix([[1.0, 2], [3, 4]], qd.f32), qd.Vector([5.0, 6], qd.f32)
    assert (m @ v).to_list() == [17, 39] and (v @ m).to_list() == [23, 34] and v @ v == 61
    assert (m @ m).to_list() == [[7, 10], [15, 22]] and (m @ v).dtype is types.f32
    assert (np.eye(2) @ m).to_list() == m.to_list()
    assert v.dot([1, 1]) == 11 and v.cross(qd.Vector([1.0, 1])) == -1
    assert qd.Vector([1, 0, 0]).cross(qd.Vector([0, 1, 0])).to_list() == [0, 0, 1]
    assert v.outer_product([1, 2, 3]).to_list() == [[5, 10, 15], [6, 12, 18]]
    assert m.frobenius_inner(m) == 30
    with pytest.raises(QuadrantsTypeError):
        m @ qd.Vector([1, 2, 3])
    with pytest.raises(QuadrantsTypeError):
        v.cross(qd.Vector([1, 2, 3]))


def test_methods():
    v = qd.Vector([3.0, 4.0])
    assert (v.norm(), v.norm_sqr(), v.norm_inv(), v.norm(11)) == (5.0, 25.0, 0.2, 6.0)
    assert v.normalized().to_list() == [0.6, 0.8]
    assert (v.sum(), v.max(), v.min(), v.any(), (v - 3).all()) == (7.0, 4.0, 3.0, True, False)
    assert qd.Vector([float("nan"), 1.0]).max() == 1.0
    m = qd.Matrix([[2.0, 1], [1, 3]])
    assert m.trace() == 5 and m.determinant() == pytest.approx(5)
    np.testing.assert_allclose((m @ m.inverse()).to_numpy(), np.eye(2), atol=1e-15)
    assert qd.Matrix([[1, 2], [3, 4]]).transpose().to_list() == [[1, 3], [2, 4]] and v.transpose().to_list() == [[3, 4]]
    m.fill(7)
    assert m.to_list() == [[7, 7], [7, 7]]
    with pytest.raises(QuadrantsTypeError, match="square"):
        qd.Matrix([[1, 2]]).inverse()
    assert qd.Vector([3, 4], qd.i32).norm() == 5.0


def test_indices_and_values():
    m = qd.Matrix([[1, 2, 3], [4, 5, 6]])
    row = m[0]
    row[0] = 9
    assert m[0, 0] == 1 and m[1, 2] == 6 and m[:, 1].to_list() == [2, 5] and m[0:1, 1:].to_list() == [[2, 3]]
    m[1, 2] = 60
    m[:, 0] = [7, 8]
    assert m.to_list() == [[7, 2, 3], [8, 5, 60]]
    w = qd.Vector([1, 2])
    w[0] = 0.5
    assert w.to_list() == [0.5, 2]
    other = copy.copy(w)
    other[0] = 3
    assert w[0] == 0.5 and pickle.loads(pickle.dumps(w)).to_list() == [0.5, 2] and list(w) == [0.5, 2]
    with pytest.raises(QuadrantsTypeError):
        w[0, 0]
    with pytest.raises(IndexError):
        w[2]
    assert np.asarray(w).tolist() == [0.5, 2] and str(m) == "[[7, 2, 3], [8, 5, 60]]"


def test_swizzles():
    v = qd.Vector([1, 2, 3], qd.i32)
    assert v.x == 1 and v.zyx.to_list() == [3, 2, 1] and v.rrgg.to_list() == [1, 1, 2, 2] and v.st.dtype is types.i32
    v.xz = [10, 30]
    v.g = 20
    assert v.to_list() == [10, 20, 30]
    with pytest.raises(QuadrantsSyntaxError):
        v.w
    with pytest.raises(QuadrantsRuntimeError):
        v.xy = [1, 2, 3]
    with pytest.raises(QuadrantsSyntaxError):
        v.xx = [1, 2]
    with pytest.raises(AttributeError):
        v.xr


def test_constructors():
    assert qd.Matrix.zero(qd.f32, 2, 3).to_list() == [[0] * 3] * 2 and qd.Vector.one(qd.i32, 2).to_list() == [1, 1]
    assert qd.Matrix.identity(qd.f64, 2).to_list() == [[1, 0], [0, 1]] and qd.Vector.unit(3, 1).to_list() == [0, 1, 0]
    assert qd.Matrix.diag(2, 5).to_list() == [[5, 0], [0, 5]]
    rows = [qd.Vector([1, 2], qd.f32), qd.Vector([3, 4], qd.f32)]
    assert qd.Matrix.rows(rows).dtype is types.f32 and qd.Matrix.cols(rows).to_list() == [[1, 3], [2, 4]]


def test_types():
    vec3 = qd.types.vector(3, qd.f32)
    assert (
        vec3 is qd.types.vector(3, qd.f32) and vec3 is pickle.loads(pickle.dumps(vec3)) and copy.deepcopy(vec3) is vec3
    )
    assert vec3 is not qd.types.vector(3, qd.f64) and (vec3.n, vec3.m, vec3.shape, vec3.dtype) == (
        3,
        1,
        (3,),
        types.f32,
    )
    assert vec3().to_list() == [0, 0, 0] and vec3(2).to_list() == [2, 2, 2] and vec3(1, 2, 3).dtype is types.f32
    assert qd.math.vec4(qd.math.vec2(1, 2), 3, 4).to_list() == [1, 2, 3, 4] and vec3([1, 2, 3]).to_list() == [1, 2, 3]
    assert qd.types.matrix(2, 2, qd.i32)(1, 2, 3, 4).to_list() == [[1, 2], [3, 4]]
    with pytest.raises(QuadrantsTypeError, match="takes 3 numbers, not 2"):
        vec3(1, 2)
    with pytest.raises(QuadrantsTypeError):
        qd.types.vector(0, qd.f32)
    assert qd.math.vec3.dtype is types.f64
    qd.init()
    assert qd.math.vec3.dtype is types.f32
    assert qd.types.vector(3).dtype is None
    assert qd.types.vector(3).ir_type() is types.matrix_type(types.f32, (3,))


def test_array_annotations():
    assert qd.types.ndarray is qd.types.NDArray and qd.template is qd.types.Template
    a = qd.types.ndarray(dtype=qd.types.vector(2, qd.f32), ndim=1)
    assert a.element_shape == (2,) and a.element_dim == 1 and a == qd.types.NDArray[qd.types.vector(2, qd.f32), 1]
    with pytest.raises(ValueError, match="field_dim"):
        qd.types.ndarray(field_dim=1)
    with pytest.raises(ValueError, match="boundary"):
        qd.types.ndarray(boundary="wrap")
    assert qd.template() == qd.template()
    assert (qd.template() | None).inner == qd.template()


def test_bfloat16_rounds():
    v = qd.Vector([1.2345678, 1.0], qd.bf16)
    assert v.to_list() == [1.234375, 1.0] and (v + v).dtype is types.bf16 and (v / 3)[1] == 0.333984375
