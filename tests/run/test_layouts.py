"""Structures of arrays: a field whose components lie in planes gives what any other field gives, at every lane width."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

import quadrants as qd
from quadrants import knobs
from quadrants.lang.kernel import Kernel

pytestmark = pytest.mark.slow

COUNT = 53  # whole blocks of lanes and a rest


@pytest.fixture(params=[(None, 0), (None, 8), (knobs.Arch.reference, 0)], ids=["x64", "x64-8", "reference"])
def target(request: pytest.FixtureRequest) -> Iterator[None]:
    before = knobs.current.arch, knobs.current.lanes
    knobs.current.arch, knobs.current.lanes = request.param
    yield
    knobs.current.arch, knobs.current.lanes = before


def _pair(layout: qd.Layout) -> tuple[qd.Field, qd.Field]:
    positions = qd.Vector.field(3, qd.f32, COUNT, layout=layout)
    frames = qd.Matrix.field(2, 3, qd.f64, (4, COUNT), layout=layout)
    random = np.random.default_rng(5)
    positions.from_numpy(random.random((COUNT, 3), np.float32))
    frames.from_numpy(random.random((4, COUNT, 2, 3)))
    return positions, frames


def _run(kernel: Kernel, layout: qd.Layout, *rest: object) -> list[np.ndarray]:
    fields = _pair(layout)
    kernel(*fields, *rest)
    return [field.to_numpy() for field in fields]


@qd.kernel
def rows_and_columns(positions: qd.template(), frames: qd.template(), row: int):
    for a, i in frames:
        frames[a, i][row, 2] += positions[i][(a + i) % 3]
        frames[a, i] *= 2


@qd.kernel
def reach_apart(positions: qd.template(), frames: qd.template()):
    for i in positions:
        frames[3, (7 * i) % COUNT][1, 0] = positions[(11 * i) % COUNT].norm()


@qd.kernel
def scatter(positions: qd.template(), frames: qd.template()):
    for i in positions:
        frames[i % 4, i % 5][0, i % 3] += positions[i].x
        frames[0, i % 2] += 1.0


@qd.func
def stretch(field: qd.template(), i, by):
    field[i] *= by
    return field[i].norm_sqr() > 1


@qd.kernel
def through_a_function(positions: qd.template(), frames: qd.template()):
    for i in positions:
        if stretch(positions, i, 1.5):
            frames[0, i][1, 1] = -1


@pytest.mark.parametrize(
    ("kernel", "rest"),
    [(rows_and_columns, (1,)), (reach_apart, ()), (scatter, ()), (through_a_function, ())],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_both_layouts_give_the_same(kernel: Kernel, rest: tuple[object, ...], target: None) -> None:
    planes, elements = _run(kernel, qd.Layout.SOA, *rest), _run(kernel, qd.Layout.AOS, *rest)
    for left, right in zip(planes, elements):
        np.testing.assert_allclose(left, right, rtol=1e-6)


def test_the_memory_is_planes_of_whole_lines() -> None:
    field = qd.Matrix.field(2, 2, qd.f32, (3, 5), layout=qd.Layout.SOA)
    view = field.to_numpy(copy=False)
    assert view.shape == (3, 5, 2, 2) and view.strides == (20, 4, 128, 64)
    page = qd.Vector.field(2, qd.f32, 1024, layout=qd.Layout.SOA).to_numpy(copy=False)
    assert page.strides == (4, 4096 + 64)  # no plane starts where another one does within its page


def test_a_component_is_a_dense_array() -> None:
    field = qd.Vector.field(3, qd.f32, COUNT, layout=qd.Layout.SOA)
    component = field.get_scalar_field(1)
    component.fill(2.0)
    assert component.to_numpy(copy=False).flags.c_contiguous
    assert field.to_numpy().sum(axis=0).tolist() == [0, 2.0 * COUNT, 0]


def test_gradients_and_elements_lie_alike() -> None:
    field = qd.Vector.field(3, qd.f32, COUNT, layout=qd.Layout.SOA, needs_grad=True)
    field[3] = [1, 2, 3]
    assert field[3].to_list() == [1, 2, 3] and field[2].to_list() == [0, 0, 0]
    assert field.grad.to_numpy(copy=False).strides == field.to_numpy(copy=False).strides


def test_order_and_layout_go_together() -> None:
    field = qd.Vector.field(2, qd.i32, (2, 3), order="ji", layout=qd.Layout.SOA)
    field.from_numpy(np.arange(12).reshape(2, 3, 2))

    @qd.kernel
    def double(values: qd.template()):
        for i, j in values:
            values[i, j] *= 2

    double(field)
    assert field.to_numpy().ravel().tolist() == list(range(0, 24, 2))


def test_lanes_read_planes_by_whole_vectors() -> None:
    """No component is fetched lane by lane."""
    positions = qd.Vector.field(3, qd.f32, 4 * COUNT, layout=qd.Layout.SOA)

    @qd.kernel
    def settle(values: qd.template()):
        qd.loop_config(vectorize=8)
        for i in values:
            while values[i].norm() > 1:
                values[i] *= 0.5

    settle(positions)
    assert "vinsertps" not in settle.assembly() and "ymm" in settle.assembly()
