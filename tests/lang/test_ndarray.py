from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

import quadrants.lang as qd
from quadrants.errors import QuadrantsIndexError, QuadrantsRuntimeError
from quadrants.ir import types


def test_elements_and_surface():
    a = qd.ndarray(qd.i32, (2, 3))
    a[1, -1] = 7
    assert a[1, 2] == 7 and a.shape == (2, 3) and a.element_shape == () and len(a) == 2 and a.dtype is types.i32
    v = qd.Vector.ndarray(2, qd.f32, 4)
    v[0] = (1, 2)
    assert v[0].to_list() == [1, 2] and v.element_shape == (2,) and isinstance(v, qd.VectorNdarray)
    m = qd.ndarray(qd.types.matrix(2, 2, qd.f64), ())
    m[None] = [[1, 2], [3, 4]]
    assert m[()].to_list() == [[1, 2], [3, 4]] and isinstance(m, qd.MatrixNdarray) and (m.n, m.m) == (2, 2)
    with pytest.raises(QuadrantsIndexError):
        a[0]
    with pytest.raises(IndexError):
        a[2, 0]
    assert list(qd.ndarray(qd.i32, 3)) == [0, 0, 0]


@pytest.mark.parametrize("shape", [(0,), (-1, 2), (2**31,), 1.5, "ab"])
def test_bad_shapes(shape):
    with pytest.raises(QuadrantsRuntimeError, match="not a valid shape for ndarray"):
        qd.ndarray(qd.f32, shape)


def test_bad_dtype():
    with pytest.raises(QuadrantsRuntimeError, match="not a valid dtype"):
        qd.ndarray("f32", 3)
    with pytest.raises(QuadrantsRuntimeError, match="no derivatives"):
        qd.ndarray(qd.i32, 3, needs_grad=True)


def test_numpy_shares_memory():
    a = qd.ndarray(qd.f32, (2, 3))
    view = np.asarray(a)
    view[1, 1] = 5
    assert a[1, 1] == 5 and np.from_dlpack(a)[1, 1] == 5 and a.to_numpy()[1, 1] == 5
    a.from_numpy(np.arange(6, dtype=np.float64).reshape(2, 3))
    assert view.tolist() == [[0, 1, 2], [3, 4, 5]]
    a.from_numpy(np.arange(6, dtype=">i4").reshape(3, 2).T)
    assert view.tolist() == [[0, 2, 4], [1, 3, 5]]
    with pytest.raises(ValueError):
        a.from_numpy(np.zeros((3, 2)))
    with pytest.raises(TypeError):
        a.from_numpy("text")
    b = qd.ndarray(qd.f32, (2, 3))
    b.copy_from(a)
    assert b[1, 2] == 5
    with pytest.raises(AssertionError):
        b.copy_from(qd.ndarray(qd.f32, 3))


def test_pickle_and_copy():
    a = qd.ndarray(qd.types.vector(2, qd.f32), 3, needs_grad=True, order=(0,))
    a[2] = [1, 2]
    for other in (pickle.loads(pickle.dumps(a)), copy.deepcopy(a), copy.copy(a)):
        assert other[2].to_list() == [1, 2] and other.has_grad() and other.grad.shape == (3,)
        other[2] = 0
    assert a[2].to_list() == [1, 2]


def test_tensors():
    for backend in qd.Backend:
        t = qd.tensor(qd.f32, (2, 3), backend=backend, layout=(1, 0), needs_grad=True)
        t.from_numpy(np.arange(6).reshape(2, 3))
        t[1, 0] = 9
        assert t.to_numpy().tolist() == [[0, 1, 2], [9, 4, 5]] and t.layout == (1, 0) and t.grad.shape == (2, 3)
        assert t.grad is t.grad and t.to_numpy(copy=False).strides == (4, 8)
        assert f"backend={backend.name}" in repr(t) and t._array_type is t._unwrap()._array_type
        assert t._descriptor == t._unwrap()._descriptor
        again = pickle.loads(pickle.dumps(t))
        assert again[1, 0] == 9 and again.layout == (1, 0) and type(again._unwrap()) is type(t._unwrap())
        other = qd.tensor(qd.f32, (2, 3), backend=backend)
        other.copy_from(t)
        assert other[1, 0] == 9
    with pytest.raises(TypeError, match="backend"):
        other.copy_from(qd.field(qd.f32, (2, 3)))
    v = qd.Vector.tensor(2, qd.f32, 3)
    assert isinstance(v, qd.VectorTensor) and v.element_shape == (2,) and v.grad is None
    assert isinstance(qd.wrap(qd.Matrix.field(2, 2, qd.f32, 3)), qd.MatrixTensor)


def test_tensor_errors():
    t = qd.tensor(qd.f32, 3)
    for wrong, error in (
        (lambda: qd.tensor(qd.f32, 3, backend=7), ValueError),
        (lambda: qd.tensor(qd.f32, 3, layout=(1,)), ValueError),
        (lambda: qd.tensor(qd.f32, 3, order="i"), TypeError),
        (lambda: qd.tensor(t, 3), TypeError),
        (lambda: qd.wrap(t), TypeError),
        (lambda: qd.wrap(np.zeros(3)), TypeError),
        (lambda: qd.Tensor(qd.Vector.field(2, qd.f32, 3)), TypeError),
    ):
        with pytest.raises(error):
            wrong()
    qd.reset()
    with pytest.raises(QuadrantsRuntimeError, match="freed"):
        t[0]


def test_storage_has_one_layout_of_slots():
    from quadrants.lang.storage import Storage

    for storage in (qd.field(qd.f32, 3), qd.ndarray(qd.f32, 3), qd.tensor(qd.f32, 3)):
        assert type(storage)._descriptor is Storage._descriptor
        storage.note = 1


@pytest.mark.slow
def test_torch_roundtrip():
    torch = pytest.importorskip("torch")
    a = qd.ndarray(qd.f32, (2, 3))
    t = a.to_torch(copy=False)
    t[1, 1] = 4
    assert a[1, 1] == 4
    a.from_torch(torch.ones(2, 3, dtype=torch.float64, requires_grad=True))
    assert t.sum() == 6 and a.to_torch().data_ptr() != t.data_ptr()


@pytest.mark.slow
def test_torch_shares_every_layout_and_type():
    torch = pytest.importorskip("torch")
    for dtype in (qd.i32, qd.i64, qd.f32, qd.f64, qd.u1, qd.f16, qd.u8, qd.bf16):
        for backend in qd.Backend:
            t = qd.tensor(dtype, (2, 3), backend=backend, layout=(1, 0))
            view = t.to_torch(copy=False)
            view[1, 2] = 1
            assert t[1, 2] == 1 and tuple(view.shape) == (2, 3) and view.stride() == (1, 2)
            assert str(view.dtype) == f"torch.{t.dtype.numpy.name if t.dtype.numpy is not None else 'bfloat16'}"
    m = qd.Matrix.field(2, 2, qd.f32, 3)
    m.from_torch(torch.arange(12).reshape(3, 2, 2))
    assert m[2].to_list() == [[8, 9], [10, 11]] and torch.from_dlpack(m).sum() == 66
    assert m.to_torch(device="cpu").shape == (3, 2, 2)
    with pytest.raises(ValueError, match="device"):
        m.to_torch(device="meta", copy=False)
