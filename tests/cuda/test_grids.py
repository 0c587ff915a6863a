"""What blocks and teams of threads save on CUDA, by counters of the interpreter of PTX, and what they take of a GPU."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import quadrants as qd
from quadrants.evidence.ptx.assemble import Usage, assemble, assembler, unexplained_spills
from quadrants.evidence.ptx.banks import BankCounter
from quadrants.evidence.ptx.driver import played
from quadrants.passes import stage_tiles
from quadrants.records import Record

pytestmark = pytest.mark.slow


def total(x):
    s = x.dtype(0)
    for i in range(x.shape[0]):
        s += x[i]
    return s


def product(a, b, c):
    for i, j in qd.ndrange(c.shape[0], c.shape[1]):
        s = qd.f32(0)
        for k in range(a.shape[1]):
            s += qd.cast(a[i, k], qd.f32) * qd.cast(b[k, j], qd.f32)
        c[i, j] = s


def updated(a, b, c):
    for i in range(c.shape[0]):
        for k in range(a.shape[1]):
            for j in range(c.shape[1]):
                c[i, j] += a[i, k] * b[k, j]


def later_product(a, b, c):
    for i, j in qd.ndrange((1, c.shape[0]), (1, c.shape[1])):
        s = c.dtype(0)
        for k in range(3, a.shape[1]):
            s += a[i, k] * b[k, j]
        c[i, j] = s


def rounded_product(a, b, c):
    qd.loop_config(tensor_cores="tf32")
    for i, j in qd.ndrange(c.shape[0], c.shape[1]):
        s = qd.f32(0)
        for k in range(a.shape[1]):
            s += a[i, k] * b[k, j]
        c[i, j] = s


def wide_product(a, b, c):
    for i, j in qd.ndrange(c.shape[0], c.shape[1]):
        s = a.dtype(0)
        for k in range(a.shape[1]):
            s += a[i, k] * b[k, j]
        c[i, j] = s


def rows(a, x, y):
    for i in range(a.shape[0]):
        s = a.dtype(0)
        for j in range(a.shape[1]):
            s += a[i, j] * x[j]
        y[i] = s


def smooth(x, y):
    for i, j in qd.ndrange((2, x.shape[0] - 2), (2, x.shape[1] - 2)):
        s = x.dtype(0)
        for a, b in qd.static(qd.ndrange((-2, 3), (-2, 3))):
            s += x[i + a, j + b]
        y[i, j] = s


def histogram(x, counts):
    for i in range(len(x)):
        counts[x[i]] += 1


class Run(Record):
    """What a launch of a kernel did and what it is made of. `conflicts`: passes that banks of shared memory cost; `each`: what a
    thread executed, by kind; `asked`: the bytes of shared memory that its launches may ask for, at most."""

    loads: dict[str, int]
    sectors: int
    texts: list[str]
    conflicts: int
    each: dict[str, float]
    asked: int

    @property
    def kernels(self) -> int:
        """Launches of the kernels that ran, where each is launched once."""
        return sum(text.count(".visible .entry") for text in self.texts)

    def count(self, pattern: str) -> int:
        return sum(len(re.findall(rf"^\s*(?:@!?%p\d+ )?{pattern}", text, re.MULTILINE)) for text in self.texts)


def run(function: Callable[..., Any], *arguments: Any, sm: int = 80, **options: Any) -> Run:
    with played(sm) as driver:
        qd.init(arch=qd.cuda, default_ip=qd.i64, default_fp=qd.f64, **options)
        driver.machine.counts_sectors = driver.machine.counts_instructions = True
        driver.machine.banks = BankCounter()
        qd.kernel(function)(*arguments)
        driver.synchronise()
        qd.reset()
    machine = driver.machine
    each = {kind: count / machine.threads for kind, count in machine.executed.items()}
    assert machine.banks is not None
    asked = max([kernel.allowed for kernel in driver.bindings.kernels if kernel.allowed > 48 << 10], default=0)
    return Run(dict(machine.loads), machine.sectors, list(driver.texts), machine.banks.conflicts, each, asked)


def whole(*shape: int, dtype: Any = np.float32) -> np.ndarray:
    return np.random.default_rng(1).integers(0, 5, shape).astype(dtype)


def test_sums_load_each_element_once_and_take_two_launches() -> None:
    x = whole(40_000)
    found = run(total, x)
    assert 40_000 <= found.loads["global"] < 40_000 + 600
    assert found.kernels == 2 and found.count("shfl.sync") >= 8 and found.count("bar.sync") >= 2
    assert found.sectors < 40_000 / 8 + 600  # a warp's loads are of 128 bytes in a row


@pytest.mark.parametrize("tiles", [1, 4])
@pytest.mark.parametrize("sm", [75, 80])
def test_products_load_each_element_once_a_block(tiles: int, sm: int, monkeypatch: pytest.MonkeyPatch) -> None:
    if tiles == 1:
        monkeypatch.setattr(stage_tiles, "_ENOUGH", 1)
    a, b = whole(128, 64), whole(64, 128)
    c, plain = np.zeros((128, 128), np.float32), np.zeros((128, 128), np.float32)
    found = run(wide_product, a, b, c, sm=sm)
    before = run(wide_product, a, b, plain, disable_passes=("stage_tiles",))
    assert (c == a @ b).all() and (c == plain).all()
    assert before.loads["global"] >= 2 * 128 * 128 * 64 * 0.99
    if sm == 75:
        stretch = 8 if tiles == 1 else 16  # the one behind the last is on its way, too
        assert found.loads["global"] <= 2 * 128 * (64 + stretch) * tiles**0.5 + 600
    else:
        assert found.sectors == 2 * 128 * 64 * tiles**0.5 / 8  # whole sectors, each once
        assert found.count("st.global.v4.b32") >= 16 / tiles and not found.conflicts
    assert found.count("ld.shared.v4.b32") >= 4


def test_lines_that_are_aligned_are_not_where_loops_begin_later() -> None:
    """The interpreter refuses what is not aligned."""
    a, b, c = whole(72, 80), whole(80, 136), np.zeros((72, 136), np.float32)
    run(later_product, a, b, c)
    assert (c[1:, 1:] == (a[:, 3:] @ b[3:])[1:, 1:]).all() and not c[0].any() and not c[:, 0].any()


def test_sums_in_memory_are_updated_once_sixteen_bytes_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stage_tiles, "_ENOUGH", 1)
    a, b, c = whole(128, 64), whole(64, 128), whole(128, 128)
    expected = c + a @ b
    found = run(updated, a, b, c)
    assert (c == expected).all()
    assert found.each["ld.global"] == found.each["st.global"] == 8 * 8 / 4
    assert found.sectors == 2 * 128 * 64 / 8 + 128 * 128 / 8


def test_a_stretch_of_f32_is_products_and_wide_loads(monkeypatch: pytest.MonkeyPatch) -> None:
    one = a_stretch(wide_product, np.float32, 8, monkeypatch)
    assert one["fma"] == 8 * 8 * 8 and one["ld.shared"] == 8 * 4 and one["bar"] == 1
    assert one["cp"] == 4 + 1 + 2  # four bytes of a row each, sixteen of a line; commit and wait
    rest = sum(one.values()) - one["fma"] - one["ld.shared"] - one["cp"]
    assert rest <= 42


@pytest.mark.parametrize(("sm", "depth", "stages"), [(80, 32, 4), (86, 32, 3), (100, 64, 3)])
def test_a_stretch_of_f16_is_products_of_matrices(
    sm: int, depth: int, stages: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As deep, and as many, as two blocks of a multiprocessor have memory for."""
    one = a_stretch(product, np.float16, depth, monkeypatch, sm)
    steps = depth // 16
    assert one["mma"] == steps * 4 * 8 and one["ldmatrix"] == steps * (4 + 4) and one["bar"] == 1
    assert one["cp"] == steps * (2 + 2) + 2
    assert sum(one.values()) - one["mma"] - one["ldmatrix"] - one["cp"] <= 40 + 20 * steps
    found = run(product, *NARROW, sm=sm)
    assert found.count(rf"cp\.async\.wait_group\s+{stages - 2};") >= 1
    assert found.asked == {80: 64, 86: 0, 100: 96}[sm] << 10


def a_stretch(
    function: Callable[..., Any], dtype: type, depth: int, monkeypatch: pytest.MonkeyPatch, sm: int = 80
) -> dict[str, float]:
    """What each thread of one tile executes for one stretch of the depth more, by kind; no banks conflict."""
    monkeypatch.setattr(stage_tiles, "_ENOUGH", 1)
    counts: list[dict[str, float]] = []
    for stretches in (8, 12):
        a, b = whole(128, stretches * depth, dtype=dtype), whole(stretches * depth, 128, dtype=dtype)
        c = np.zeros((128, 128), np.float32)
        found = run(function, a, b, c, sm=sm)
        assert (c == a.astype(np.float32) @ b.astype(np.float32)).all()
        assert not found.conflicts
        counts.append(found.each)
    return {kind: (count - counts[0][kind]) / 4 for kind, count in counts[1].items() if count != counts[0][kind]}


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_tensor_cores_multiply(dtype: type) -> None:
    a, b, c = whole(64, 70, dtype=dtype), whole(70, 64, dtype=dtype), np.zeros((64, 64), np.float32)
    function = product if dtype is np.float16 else rounded_product
    found = run(function, a, b, c)
    assert (c == a.astype(np.float32) @ b.astype(np.float32)).all()
    assert found.count("mma.sync") >= 16
    # Rows of f32 are stored along the depth: of their stores two words lie in one bank.
    assert found.conflicts <= (0 if dtype is np.float16 else 64 * 80 / 32)
    assert run(function, a, b, c, sm=75).count("mma.sync") == 0


def test_products_of_tensor_cores_are_off_by_the_roundings_that_their_law_says() -> None:
    generator = np.random.default_rng(5)
    a, b = generator.standard_normal((64, 80), np.float32), generator.standard_normal((80, 64), np.float32)
    exact, bound = a.astype(np.float64) @ b, np.abs(a).astype(np.float64) @ np.abs(b)
    c = np.zeros((64, 64), np.float32)
    run(rounded_product, a, b, c)
    assert (np.abs(c - exact) <= bound * (2**-10 + 81 * 2**-23)).all()
    assert np.abs(c - exact).max() > 2**-20  # factors are rounded
    narrow = a.astype(np.float16), b.astype(np.float16)
    run(product, *narrow, c)
    exact = narrow[0].astype(np.float64) @ narrow[1]
    assert (np.abs(c - exact) <= bound * 1.01 * 81 * 2**-23).all()


def test_teams_read_rows_along_their_elements() -> None:
    a, x, y = whole(256, 64), whole(64), np.zeros(256, np.float32)
    found, before = run(rows, a, x, y), run(rows, a, x, y, disable_passes=("share_rows",))
    assert (y == a @ x).all()
    assert found.sectors * 4 <= before.sectors
    assert found.loads["global"] <= before.loads["global"] + 600


def test_stencils_load_a_box_once() -> None:
    x, y = whole(68, 68), np.zeros((68, 68), np.float32)
    found, before = run(smooth, x, y), run(smooth, x, y, disable_passes=("stage_boxes",))
    assert before.loads["global"] >= 25 * 64 * 64
    assert found.loads["global"] <= 64 * 64 * 12 * 36 / 256 + 600 and not found.conflicts
    assert sum(found.each.values()) <= 160  # by each thread, of which each has one point


def test_histograms_meet_in_shared_memory() -> None:
    x, counts = np.random.default_rng(2).integers(0, 16, 4000), np.zeros(16, np.int32)
    found = run(histogram, x, counts)
    assert (counts == np.bincount(x, minlength=16)).all()
    assert found.count(r"(?:atom|red)\.\S*shared\S*add") >= 1


# What they take: registers and shared bytes at most, by function; nothing is kept in memory for want of registers.
NARROW = (whole(64, 70, dtype=np.float16), whole(70, 64, dtype=np.float16), np.zeros((64, 64), np.float32))
SQUARE = (whole(64, 70), whole(70, 64), np.zeros((64, 64), np.float32))
DOUBLE = tuple(part.astype(np.float64) for part in SQUARE)
BUDGET: dict[str, tuple[Callable[..., Any], tuple[Any, ...], int, int | dict[int, int]]] = {
    "sum": (total, (whole(1000),), 64, 64),
    "product f32": (wide_product, SQUARE, 168, 33792),
    "product f64": (wide_product, DOUBLE, 184, 26112),
    "product f16": (product, NARROW, 255, {80: 65536, 90: 98304, 100: 98304, 120: 49152}),
    "product tf32": (rounded_product, SQUARE, 255, 20480),
    "rows": (rows, (whole(64, 64), whole(64), np.zeros(64, np.float32)), 56, 0),
    "stencil": (smooth, (whole(68, 68), np.zeros((68, 68), np.float32)), 72, 1728),
    "histogram": (histogram, (np.zeros(4000, np.int64), np.zeros(16, np.int32)), 40, 16384),
}


@pytest.mark.skipif(assembler() is None, reason="there is no ptxas here: pip install nvidia-cuda-nvcc")
@pytest.mark.parametrize("sm", [80, 90, 100, 120])
@pytest.mark.parametrize("name", BUDGET)
def test_registers_and_shared_memory(name: str, sm: int) -> None:
    function, arguments, registers, shared = BUDGET[name]
    found: list[Usage] = []
    ran = run(function, *arguments, sm=sm, warpgroups=False)
    for text in ran.texts:
        needs = assemble(text, sm)
        assert not unexplained_spills(text, needs)
        found += needs
    assert max(usage.registers for usage in found) <= registers
    most = max([ran.asked, *[usage.shared for usage in found]])
    assert most == (shared if isinstance(shared, int) else shared[sm])
