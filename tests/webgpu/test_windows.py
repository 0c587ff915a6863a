"""Memory beyond what one binding reaches: several segments, and arrays that go through several windows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import quadrants as qd
from quadrants.errors import QuadrantsUnsupportedError
from quadrants.targets.webgpu.device import WebDevice
from quadrants.targets.webgpu.heap import ALIGNMENT
from quadrants.targets.webgpu.views import Views

pytestmark = [pytest.mark.slow]

REACH = 1 << 20


@qd.kernel
def _scale(x, y):
    for i in range(x.shape[0]):
        y[i] = 2 * x[i] + y[i]


@qd.func
def _at(x, i):
    return x[i] * 3


@qd.kernel
def _through_function(x, y):
    for i in range(x.shape[0]):
        y[i] += _at(x, i)


@qd.kernel
def _histogram(x, counts):
    for i in range(x.shape[0]):
        counts[x[i]] += 1


def _on_device(data: np.ndarray[Any, Any], dtype: Any) -> Any:
    array = qd.ndarray(dtype, shape=data.shape)
    array.from_numpy(data)
    return array


def test_arrays_in_different_segments_are_reached_by_one_kernel(small: WebDevice) -> None:
    count = 200_000  # 800 kB: each array fills most of a segment
    arrays = [_on_device(np.arange(count, dtype=np.float32) + k, qd.f32) for k in range(5)]
    for x, y in zip(arrays, arrays[1:]):
        _scale(x, y)
    assert len(small.heap.segments) >= 5
    expected = np.arange(count, dtype=np.float32)
    for k, array in enumerate(arrays):
        expected = 2 * expected + np.arange(count, dtype=np.float32) + k if k else expected
        assert (array.to_numpy() == expected).all()


@pytest.mark.parametrize(
    ("dtype", "kind"),
    [("u8", np.uint8), ("f16", np.float16), ("f32", np.float32), ("i64", np.int64), ("f64", np.float64)],
)
def test_an_array_goes_through_several_windows(small: WebDevice, dtype: str, kind: Any) -> None:
    count = 5 * REACH // (2 * np.dtype(kind).itemsize)  # two and a half segments
    data = (np.arange(count) % 50).astype(kind)
    x = _on_device(data, getattr(qd, dtype))
    y = _on_device(data[::-1].copy(), getattr(qd, dtype))
    _scale(x, y)
    assert (y.to_numpy() == 2 * data + data[::-1]).all()
    _through_function(x, y)
    assert (y.to_numpy() == 5 * data + data[::-1]).all()


@pytest.mark.parametrize(
    ("dtype", "kind"), [("i32", np.int32), ("i64", np.int64), ("f32", np.float32), ("f64", np.float64)]
)
def test_updates_meet_in_every_window(small: WebDevice, dtype: str, kind: Any) -> None:
    count = 3 * REACH // np.dtype(kind).itemsize
    places = (np.arange(40_000) * 7919 % 2500 * (count // 2500)).astype(np.int64)
    counts = _on_device(np.zeros(count, kind), getattr(qd, dtype))
    _histogram(_on_device(places, qd.i64), counts)
    assert (counts.to_numpy() == np.bincount(places, minlength=count)).all()


def test_numpy_arrays_beyond_a_binding(small: WebDevice) -> None:
    data = np.arange(300_000, dtype=np.float64)[::-1]
    out = np.zeros(300_000)
    _scale(data, out)
    assert (out == 2 * data).all()


def test_many_arrays_take_few_bindings(small: WebDevice) -> None:
    """Plain and atomic accesses to four segments, of 32 and 64 bits and of bytes: eight bindings do."""
    words = [_on_device(np.full(200_000, k, np.int32), qd.i32) for k in range(2)]
    wide = _on_device(np.zeros(100_000, np.float64), qd.f64)
    narrow = _on_device(np.zeros(800_000, np.uint8), qd.u8)

    @qd.kernel
    def all_of_them(a, b, c, d):
        for i in range(100_000):
            a[i] += b[i]
            b[i // 2] += 1
            c[i // 2] += 0.5
            d[i] = i % 100

    all_of_them(words[1], words[0], wide, narrow)
    assert len(small.heap.segments) >= 4
    assert (words[0].to_numpy()[:50_000] == 2).all()
    assert (wide.to_numpy()[:50_000] == 1.0).all()
    assert (narrow.to_numpy()[:100_000] == np.arange(100_000) % 100).all()


def test_more_pieces_than_bindings_are_refused_by_line(small: WebDevice) -> None:
    x = _on_device(np.zeros(9 * REACH // 4, np.float32), qd.f32)

    @qd.kernel
    def fill(a):
        for i in range(a.shape[0]):
            a[i] = 1.0

    with pytest.raises(QuadrantsUnsupportedError, match="no more than 7 of them at once") as caught:
        fill(x)
    assert "for i in range(a.shape[0])" in str(caught.value)


def test_pieces_keep_to_segments(small: WebDevice) -> None:
    """Law: a piece touches as few segments as it can; pieces do not overlap; what is given back is given out again."""
    heap = small.heap
    random = np.random.default_rng(1)
    held: list[Any] = []
    for _ in range(300):
        size = int(random.choice([1, 300, 4096, 300_000, REACH, REACH + 1, 3 * REACH]))
        held.append(heap.allocate(size))
        if len(held) > 6:
            del held[int(random.integers(len(held)))]
        for piece in held:
            first, last = piece.offset >> 20, (piece.offset + piece.size - 1) >> 20
            assert last - first == -(-piece.size // REACH) - 1
            assert piece.offset % ALIGNMENT == 0
            assert piece.offset + piece.size <= (len(heap.segments) - 1) * REACH + heap.segments[-1].size
        ends = sorted((piece.offset, piece.offset + piece.size) for piece in held)
        assert all(end <= start for (_, end), (start, _) in zip(ends, ends[1:]))
    assert len(heap.segments) < 40


def test_bytes_are_copied_over_the_borders_of_segments(small: WebDevice) -> None:
    piece = small.heap.allocate(3 * REACH)
    data = np.random.default_rng(2).integers(0, 256, 2 * REACH + 77, dtype=np.uint8).tobytes()
    piece.write(0, bytes(3 * REACH))
    piece.write(REACH - 33, data)
    assert piece.read(REACH - 33, len(data)) == data
    assert piece.read(REACH - 37, 8) == bytes(4) + data[:4]
    assert piece.read(REACH - 33 + len(data), 5) == bytes(5)


def test_shared_views_take_one_binding_a_window() -> None:
    views = Views(20, shared=True)
    texts = [views.load((0, 2), True, "x"), views.load((0, 2), False, "x"), *views.store((1, 1), True, "x", "y")]
    assert {kind for kind, _ in views.used()} == {"heap_atomic"}
    assert len(views.used()) == 2
    assert all("heap64" not in text for text in texts)
