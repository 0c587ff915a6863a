"""qd.volatile_load: an element as it is at each execution, also where other iterations update it."""

from __future__ import annotations

import numpy as np
import pytest

import quadrants as qd

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("widths_of_init")]

VALUES = [
    np.array([0, 1, -(2**31), 2**31 - 1], np.int32),
    np.array([0, 1, 255], np.uint8),
    np.array([False, True]),
    np.array([0.0, -0.0, 0.1, np.inf, -np.inf, np.nan], np.float32),
]


@pytest.mark.parametrize("values", VALUES, ids=lambda values: str(values.dtype))
def test_it_reads_and_changes_nothing(values: np.ndarray) -> None:
    @qd.kernel
    def copy(x: qd.types.ndarray(), out: qd.types.ndarray()):
        for i in range(x.shape[0]):
            out[i] = qd.volatile_load(x[i])

    x, out = values.copy(), np.zeros_like(values)
    copy(x, out)
    assert x.tobytes() == values.tobytes() and np.array_equal(out, values, equal_nan=values.dtype.kind == "f")


def test_iterations_see_what_they_have_updated() -> None:
    @qd.kernel
    def count(counter: qd.types.ndarray(), gained: qd.types.ndarray()):
        for i in range(gained.shape[0]):
            before = qd.volatile_load(counter[0])
            qd.atomic_add(counter[0], 1)
            gained[i] = qd.volatile_load(x=counter[0]) - before

    counter, gained = np.zeros(1, np.int32), np.zeros(100, np.int32)
    count(counter, gained)
    assert counter[0] == 100 and gained.min() >= 1 and gained.max() <= 100
    assert "in order" not in count.report()


def test_paths_get_shorter_while_others_look() -> None:
    """Bellman-Ford's rounds: distances only fall, so it does not matter when one is looked at."""

    @qd.kernel
    def relax(at: qd.types.ndarray(), to: qd.types.ndarray(), length: qd.types.ndarray(), distance: qd.types.ndarray()):
        for e in range(at.shape[0]):
            known = qd.volatile_load(distance[at[e]])
            if known < 10**6:
                qd.atomic_min(distance[to[e]], known + length[e])

    at, to = np.arange(9, dtype=np.int32), np.arange(1, 10, dtype=np.int32)
    length, distance = np.full(9, 2, np.int32), np.full(10, 10**6, np.int32)
    distance[0] = 0
    for _ in range(9):
        relax(at, to, length, distance)
    assert distance.tolist() == list(range(0, 20, 2))


def test_what_is_no_element_is_refused() -> None:
    @qd.kernel
    def wrong(x: qd.types.ndarray()) -> qd.f32:
        return qd.volatile_load(x[0] + 1)

    with pytest.raises(qd.QuadrantsSyntaxError, match="non-writable target"):
        wrong(np.zeros(1, np.float32))
