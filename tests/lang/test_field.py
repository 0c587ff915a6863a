from __future__ import annotations

import copy
import gc
import struct

import numpy as np
import pytest

import quadrants.lang as qd
from quadrants.errors import QuadrantsRuntimeError, QuadrantsSyntaxError
from quadrants.ir import types
from quadrants.runtime import memory


def _describe(storage):
    rank = storage._array_type.rank
    numbers = struct.unpack(f"=Q{2 * rank}q", storage._descriptor)
    return numbers[0], numbers[1 : rank + 1], numbers[rank + 1 :]


def test_elements_are_python_numbers_at_their_width():
    x = qd.field(qd.f32, shape=(8, 16))
    x[3, 4] = 0.1
    assert x[3, 4] == np.float32(0.1) and isinstance(x[3, 4], float) and x[0, 0] == 0.0
    x[3, 4] += 1
    assert x[3, 4] == np.float32(0.1) + np.float32(1)
    i = qd.field(qd.i8, shape=3)
    i[np.int64(0)] = 200
    i[1] = 1e9
    assert (i[0], i[1]) == (-56, 127) and isinstance(i[0], int)
    flag = qd.field(qd.u1, shape=())
    flag[None] = 5
    assert flag[None] is True and flag[()] is True
    b = qd.field(qd.bf16, shape=2)
    b[1] = 1.2345678
    assert b[1] == 1.234375 and b.to_numpy().tolist() == [0, 1.234375]


def test_wrong_indices():
    x = qd.field(qd.f32, shape=(8, 16), name="grid")
    with pytest.raises(AssertionError, match=r"Accessing field \(grid\) of size \(8, 16\) with indices \(9, 0\)"):
        x[9, 0]
    with pytest.raises(IndexError):
        x[-1, 0]
    with pytest.raises(AssertionError, match="Slicing is not supported on qd.field"):
        x[1] = 2
    with pytest.raises(TypeError, match="slicing a qd.field is not supported so far"):
        x[1:2, 0]
    with pytest.raises(TypeError):
        x[0.5, 0]
    with pytest.raises(IndexError):
        qd.field(qd.f32, ())[0]
    with pytest.raises(NotImplementedError):
        iter(x)


def test_vector_and_matrix_elements_are_windows():
    v = qd.Vector.field(3, qd.f32, shape=4)
    v[1] = [1, 2, 3]
    v[1][2] = 9
    v[1].xy = [7, 8]
    assert (
        v[1].to_list() == [7, 8, 9] and v.to_numpy().shape == (4, 3) and v.to_numpy(keep_dims=True).shape == (4, 3, 1)
    )
    v.from_numpy(np.ones((4, 3, 1)))
    v[0] = 5
    assert v[0].to_list() == [5, 5, 5] and v[3].to_list() == [1, 1, 1]
    m = qd.Matrix.field(2, 3, qd.i32, shape=())
    m[None] = [[1, 2, 3], [4, 5, 6]]
    m[None][1, 1] = 50
    assert m[None].to_list() == [[1, 2, 3], [4, 50, 6]] and (m.n, m.m) == (2, 3)
    with pytest.raises(ValueError, match="does not fit elements of shape"):
        v[0] = [1, 2]
    with pytest.raises(ValueError):
        m[None] = [1, 2, 3]
    v.fill([1, 2, 3])
    assert v[2].to_list() == [1, 2, 3]


def test_component_field_shares_memory():
    m = qd.Matrix.field(2, 2, qd.f32, shape=3)
    c = m.get_scalar_field(0, 1)
    c[2] = 4
    assert m[2][0, 1] == 4 and c._array_type is types.array_type(types.f32, 1, (), "A")
    assert _describe(c)[2] == (16,)
    with pytest.raises(QuadrantsSyntaxError):
        m.get_scalar_field(0)
    with pytest.raises(IndexError):
        m.get_scalar_field(0, 2)


def test_memory_is_placed_at_first_use_and_described():
    before = memory.usage.bytes
    v = qd.Vector.field(3, qd.f64, shape=(4, 5))
    assert v._descriptor is None and memory.usage.bytes == before
    assert v._array_type is types.array_type(types.f64, 3, (3,), "C")
    v.place()
    address, shape, strides = _describe(v)
    assert address % 64 == 0 and shape == (4, 5, 3) and strides == (120, 24, 8)
    assert address == v.to_numpy(copy=False).ctypes.data and memory.usage.bytes == before + 480
    del v
    gc.collect()
    assert memory.usage.bytes == before


def test_order_changes_memory_only():
    x = qd.field(qd.i32, shape=(2, 3), order="ji")
    x.from_numpy(np.arange(6).reshape(2, 3))
    assert x.to_numpy().tolist() == [[0, 1, 2], [3, 4, 5]] and x.layout == (1, 0)
    assert _describe(x)[2] == (4, 8) and x._array_type.layout == "A"
    assert qd.field(qd.i32, shape=(2, 3), order="ij").layout is None
    for bad in ("i", "ii", "ik"):
        with pytest.raises(QuadrantsSyntaxError):
            qd.field(qd.i32, shape=(2, 3), order=bad)
    with pytest.raises(QuadrantsSyntaxError):
        qd.field(qd.i32, order="ij")


def test_offset():
    x = qd.field(qd.i32, shape=(3, 4), offset=(-1, 2))
    x[-1, 2] = 7
    x[1, 5] = 8
    assert x.to_numpy()[0, 0] == 7 and x.to_numpy()[2, 3] == 8
    with pytest.raises(IndexError):
        x[2, 2]
    with pytest.raises(QuadrantsSyntaxError):
        qd.field(qd.i32, shape=(3, 4), offset=1)


def test_wrong_declarations():
    with pytest.raises(QuadrantsRuntimeError, match="should be positive"):
        qd.field(qd.f32, shape=(0, 3))
    with pytest.raises(QuadrantsRuntimeError, match="no derivatives"):
        qd.field(qd.i32, shape=3, needs_grad=True)
    with pytest.raises(TypeError):
        qd.field("f32", shape=3)
    with pytest.raises(TypeError):
        qd.field(qd.f32, shape=2.5)


def test_gradients():
    x = qd.field(qd.f32, shape=3, needs_grad=True)
    assert x.has_grad() and not x.has_dual() and x.grad.shape == (3,) and x.grad.grad is None
    x.grad[1] = 2
    assert x.grad[1] == 2 and x[1] == 0
    y = qd.field(qd.f32, shape=3)
    assert not y.has_grad()
    with pytest.raises(RuntimeError, match="no allocation"):
        y.grad[0]
    assert qd.field(qd.i32, shape=3).grad is None


def test_copies():
    x, y = qd.field(qd.f32, shape=(2, 2)), qd.field(qd.f64, shape=(2, 2))
    y.from_numpy(np.array([[1, 2], [3, 4]], dtype=np.int16))
    x.copy_from(y)
    assert x.to_numpy(np.int32).tolist() == [[1, 2], [3, 4]] and str(x).startswith("[[1.")
    view = x.to_numpy(copy=False)
    view[0, 0] = 10
    assert x[0, 0] == 10 and x.to_numpy() is not view
    with pytest.raises(ValueError, match="convert"):
        x.to_numpy(np.float64, copy=False)
    with pytest.raises(ValueError):
        x.from_numpy(np.zeros(4))
    with pytest.raises(TypeError):
        x.from_numpy([[1, 2], [3, 4]])
    with pytest.raises(TypeError):
        x.copy_from(np.zeros((2, 2)))
    with pytest.raises(ValueError):
        x.copy_from(qd.field(qd.f32, shape=3))
    assert np.from_dlpack(x).tolist() == x.to_numpy().tolist()


def test_reset_frees():
    x = qd.field(qd.f32, shape=1000)
    x.fill(1)
    view = x.to_numpy(copy=False)
    before = memory.usage.bytes
    qd.init()
    with pytest.raises(QuadrantsRuntimeError, match="freed by qd.reset"):
        x[0]
    assert x._descriptor is None and view[999] == 1
    del view
    gc.collect()
    assert memory.usage.bytes == before - 4000


def test_fields_refuse_a_copy_that_would_share_memory():
    with pytest.raises(TypeError, match="to_numpy"):
        copy.deepcopy(qd.field(qd.f32, 3))


def test_texts():
    x = qd.field(qd.f32, shape=())
    x[None] = 1.5
    assert str(x) == "1.5" and repr(x) == "<qd.field>"


def test_root_places_fields():
    x, y = qd.field(qd.f32), qd.Vector.field(2, qd.i32)
    with pytest.raises(RuntimeError, match="no allocation"):
        x[0, 0]
    block = qd.root.dense(qd.ij, (4, 2))
    block.dense(qd.i, 8).place(x, [y], x.grad)
    assert x.shape == (32, 2) == y.shape == x.grad.shape and x.has_grad()
    assert str(x.parent()) == "qd.root => dense [4, 2] => dense [32, 2]" and x.parent(2) is block
    assert str(x.snode).endswith("=> place")
    x[31, 1] = 2
    assert x[31, 1] == 2
    with pytest.raises(QuadrantsRuntimeError, match="already has the shape"):
        qd.root.place(x)
    with pytest.raises(ValueError):
        block.place(3)
    with pytest.raises(QuadrantsRuntimeError, match="not supported"):
        qd.root.pointer(qd.i, 4)
    z = qd.field(qd.f32)
    qd.root.place(z)
    qd.root.lazy_grad()
    assert z.shape == () and z.has_grad()
    w = qd.field(qd.f32, needs_dual=True)
    qd.root.dense(qd.k, 5).place(w, offset=-2)
    w[-2] = 1
    assert w.shape == (5,) and w.has_dual()


def test_fields_builder():
    builder = qd.FieldsBuilder()
    x = qd.field(qd.f32)
    builder.dense(qd.i, 4).place(x)
    tree = builder.finalize()
    x[3] = 1
    with pytest.raises(RuntimeError, match="FieldsBuilder finalized"):
        builder.dense(qd.i, 2)
    tree.destroy()
    with pytest.raises(QuadrantsRuntimeError):
        x[3]
    with pytest.warns(UserWarning, match="without fields"):
        qd.FieldsBuilder().finalize()
