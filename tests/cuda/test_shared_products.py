"""Products by warpgroups (`wgmma`): what kernels are made of, what they take, and how a GPU is asked whether they are right."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import quadrants as qd
from quadrants.errors import QuadrantsRuntimeError
from quadrants.evidence.ptx import warpgroups
from quadrants.evidence.ptx.assemble import AssemblerError, assemble, assembler, unexplained_spills
from quadrants.evidence.ptx.banks import BankCounter
from quadrants.evidence.ptx.bindings import Bindings, Result
from quadrants.evidence.ptx.driver import PlayedDriver, played
from quadrants.evidence.ptx.parse import PtxError
from quadrants.passes import stage_tiles
from quadrants.targets.llvm.cuda import drivers
from quadrants.targets.llvm.cuda.compile import record_of
from quadrants.targets.llvm.cuda.probe import probe_text

pytestmark = pytest.mark.slow


def product(a, b, c):
    for i, j in qd.ndrange(c.shape[0], c.shape[1]):
        s = qd.f32(0)
        for k in range(a.shape[1]):
            s += qd.cast(a[i, k], qd.f32) * qd.cast(b[k, j], qd.f32)
        c[i, j] = s


def turned_product(a, b, c):
    for i, j in qd.ndrange(c.shape[0], c.shape[1]):
        s = qd.f32(0)
        for k in range(a.shape[0]):
            s += qd.cast(a[k, i], qd.f32) * qd.cast(b[j, k], qd.f32)
        c[i, j] = s


def rounded_product(a, b, c):
    qd.loop_config(tensor_cores="tf32")
    for i, j in qd.ndrange(c.shape[0], c.shape[1]):
        s = qd.f32(0)
        for k in range(a.shape[1]):
            s += a[i, k] * b[k, j]
        c[i, j] = s


def run(function: Callable[..., Any], *arguments: Any, driver: PlayedDriver | None = None, **options: Any) -> list[str]:
    """The modules that a kernel is made of, which has run."""
    driver = driver or PlayedDriver(90)
    with drivers.using(driver):
        qd.init(arch=qd.cuda, default_ip=qd.i64, default_fp=qd.f64, **options)
        qd.kernel(function)(*arguments)
        driver.synchronise()
        qd.reset()
    return driver.texts


def whole(*shape: int, dtype: Any = np.float16) -> np.ndarray:
    return np.random.default_rng(len(shape) + shape[0]).integers(-8, 9, shape).astype(dtype)


def wide(array: np.ndarray) -> np.ndarray:
    return array.astype(np.float32)


@pytest.mark.parametrize("sizes", [(64, 64, 64), (70, 65, 90)])
@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_warpgroups_multiply(dtype: type, sizes: tuple[int, int, int]) -> None:
    rows, columns, depth = sizes
    a, b, c = whole(rows, depth, dtype=dtype), whole(depth, columns, dtype=dtype), np.zeros((rows, columns), np.float32)
    function = product if dtype is np.float16 else rounded_product
    (text,) = run(function, a, b, c)
    assert (c == wide(a) @ wide(b)).all()
    assert ".target sm_90a" in text and "mma.sync" not in text
    shape = "m64n64k16.f32.f16.f16" if dtype is np.float16 else "m64n64k8.f32.tf32.tf32"
    assert text.count(f"wgmma.mma_async.sync.aligned.{shape}") == (4 if dtype is np.float16 else 2)


def test_factors_that_lie_across_are_multiplied() -> None:
    a, b, c = whole(400, 80), whole(72, 400), np.zeros((80, 72), np.float32)
    (text,) = run(turned_product, a, b, c)
    assert (c == wide(a).T @ wide(b).T).all()
    assert re.search(r"wgmma.mma_async.*, 1, 1, 1, 0;", text)


def test_bf16_is_multiplied() -> None:
    def of_fields():
        for i, j in c:
            s = qd.f32(0)
            for k in range(64):
                s += qd.cast(a[i, k], qd.f32) * qd.cast(b[k, j], qd.f32)
            c[i, j] = s

    driver, numbers = PlayedDriver(90), (whole(64, 64, dtype=np.float32), whole(64, 64, dtype=np.float32))
    with drivers.using(driver):
        qd.init(arch=qd.cuda)
        a, b = (qd.field(qd.bf16, (64, 64)) for _ in range(2))
        c = qd.field(qd.f32, (64, 64))
        for field, array in zip((a, b), numbers):
            field.from_numpy(array)
        qd.kernel(of_fields)()
        assert (c.to_numpy() == numbers[0] @ numbers[1]).all()
        assert any("f32.bf16.bf16" in text for text in driver.texts)
        qd.reset()


@pytest.mark.parametrize("columns", [256, 264])
def test_large_tiles_are_those_of_two_warpgroups(columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stage_tiles, "_ENOUGH", 1)
    a, b, c = whole(128, 400), whole(400, columns), np.zeros((128, columns), np.float32)
    driver = PlayedDriver(90)
    driver.machine.banks = BankCounter()
    driver.machine.counts_instructions = True
    (text,) = run(product, a, b, c, driver=driver)
    assert (c == wide(a) @ wide(b)).all()
    tiles = -(-columns // 256)
    assert (tiles, 256) in driver.launched
    # A stretch of 64 takes twelve lines of 16 bytes a thread and four products a warpgroup, and nothing else of shared memory. There are seven,
    # of which four have room at a time.
    assert driver.machine.loads["copied"] == 3072 * (7 + 2) * tiles and "shared" not in driver.machine.loads
    assert driver.bindings.asked == [192 << 10]
    # Fence, products, commit and wait of a stretch, and the wait behind the last one.
    assert driver.machine.executed["wgmma"] == (7 * (4 + 3) + 1) * 256 * tiles
    assert [text.count(f"wgmma.wait_group.sync.aligned {left};") for left in (0, 1)] == [3, 3]
    assert driver.machine.banks.conflicts == 0
    found = {columns: text.count(f"wgmma.mma_async.sync.aligned.m64n{columns}k16") for columns in (256, 128, 64)}
    assert found == {256: 4, 128: 4, 64: 4}


@pytest.mark.parametrize("enough", [2, 3])
def test_smaller_tiles_multiply_alike(enough: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stage_tiles, "_ENOUGH", enough)
    a, b, c = whole(130, 400), whole(400, 72), np.zeros((130, 72), np.float32)
    driver = PlayedDriver(90)
    run(product, a, b, c, driver=driver)
    assert (c == wide(a) @ wide(b)).all()
    assert {2: (2, 256), 3: (6, 128)}[enough] in driver.launched


def test_lines_that_are_not_aligned_come_one_number_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stage_tiles, "_ENOUGH", 1)
    a, b, c = whole(128, 390), whole(390, 129), np.zeros((128, 129), np.float32)
    driver = PlayedDriver(90)
    run(product, a, b, c, driver=driver)
    assert (c == wide(a) @ wide(b)).all()
    assert "copied" not in driver.machine.loads


def test_copies_that_nobody_has_fenced_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    (text,) = run(product, whole(64, 64), whole(64, 64), np.zeros((64, 64), np.float32))
    assert text.count("fence.proxy.async.shared::cta;") == 3  # one for each size of tiles
    wait_then_fence = r"(cp\.async\.wait_group\s*\d;)((?:(?!wait_group).)*?)(fence\.proxy\.async\.shared::cta;)"
    early = re.sub(wait_then_fence, r"\3\2\1", text, flags=re.DOTALL)
    for changed in (text.replace("fence.proxy.async.shared::cta;", ""), early):
        assert changed != text
        driver = PlayedDriver(90)
        monkeypatch.setattr(driver, "load", lambda _, load=driver.load, changed=changed: load(changed))
        with pytest.raises(QuadrantsRuntimeError, match="without fence.proxy.async"):
            run(product, whole(64, 64), whole(64, 64), np.zeros((64, 64), np.float32), driver=driver)
        qd.reset()


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("wait_group.sync.aligned 1;", "wait_group.sync.aligned 2;", "is written that products in flight read"),
        ("wait_group.sync.aligned 0;", "wait_group.sync.aligned 1;", "a sum of products in flight"),
    ],
)
def test_products_that_are_not_waited_for_are_told(
    old: str, new: str, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those of a stretch go on while those of the next one begin, and no longer."""
    arguments = whole(64, 400), whole(400, 64), np.zeros((64, 64), np.float32)
    (text,) = run(product, *arguments)
    assert old in text
    driver = PlayedDriver(90)
    monkeypatch.setattr(driver, "load", lambda _, load=driver.load: load(text.replace(old, new)))
    with pytest.raises((QuadrantsRuntimeError, PtxError), match=told):
        run(product, *arguments, driver=driver)
    qd.reset()


def updated(a, b, c):
    for i, j in qd.ndrange(c.shape[0], c.shape[1]):
        for k in range(a.shape[1]):
            c[i, j] += qd.cast(a[i, k], qd.f32) * qd.cast(b[k, j], qd.f32)


def scaled(a, b, c):
    for n in range(a.shape[0]):
        for i, j in qd.ndrange(c.shape[1], c.shape[2]):
            s = qd.f32(0)
            for k in range(a.shape[2]):
                s += qd.cast(a[n, i, k], qd.f32) * qd.cast(b[n, k, j], qd.f32)
            c[n, i, j] = 2 * qd.max(s, 0) - c[n, i, j]


@pytest.mark.skipif(assembler() is None, reason="there is no ptxas here: pip install nvidia-cuda-nvcc")
@pytest.mark.parametrize("function", [updated, scaled], ids=lambda function: function.__name__)
def test_whatever_becomes_of_sums_products_go_on_into_the_next_stretch(function: Callable[..., Any]) -> None:
    """Nothing of what stands around the loop touches sums in flight: neither interpreter nor assembler says so."""
    batch = () if function is updated else (2,)
    a, b, c = whole(*batch, 64, 330), whole(*batch, 330, 70), whole(*batch, 64, 70, dtype=np.float32)
    total = wide(a) @ wide(b)
    wanted = c + total if function is updated else 2 * np.maximum(total, 0) - c
    (text,) = run(function, a, b, c)
    assert (c == wanted).all() and "wgmma.wait_group.sync.aligned 1;" in text
    assert not unexplained_spills(text, assemble(text, 90))


def test_where_nobody_wants_them_or_the_gpu_has_none_there_are_none() -> None:
    a, b, c = whole(64, 64), whole(64, 64), np.zeros((64, 64), np.float32)
    for sm, options in ((90, {"warpgroups": False}), (80, {}), (100, {}), (120, {})):
        texts = run(product, a, b, c, driver=PlayedDriver(sm), **options)
        assert not any("wgmma" in text or "sm_90a" in text for text in texts) and any("mma.sync" in t for t in texts)
    with pytest.raises(ValueError, match="warpgroups of sm_100 do not multiply"):
        record_of(100, True)


# What they take: registers at most, and bytes of shared memory, of tiles of 64 and of 128.
BUDGET = {"f16": (product, 255, 192 << 10), "tf32": (rounded_product, 200, 32 << 10)}


@pytest.mark.skipif(assembler() is None, reason="there is no ptxas here: pip install nvidia-cuda-nvcc")
@pytest.mark.parametrize("name", BUDGET)
def test_registers_and_shared_memory(name: str) -> None:
    function, registers, shared = BUDGET[name]
    dtype = np.float16 if name == "f16" else np.float32
    a, b, c = whole(64, 64, dtype=dtype), whole(64, 64, dtype=dtype), np.zeros((64, 64), np.float32)
    driver = PlayedDriver(90)
    (text,) = run(function, a, b, c, driver=driver)
    needs = assemble(text, 90)
    assert not unexplained_spills(text, needs)
    assert max(usage.registers for usage in needs) <= registers
    declared = max(usage.shared for usage in needs)
    assert (max(kernel.allowed for kernel in driver.bindings.kernels) if name == "f16" else declared) == shared


# How a GPU is asked.


def test_a_gpu_is_asked_once_and_says_that_its_products_are_right() -> None:
    driver = PlayedDriver(90, asks=True)
    assert driver.warpgroups and driver.warpgroups
    assert driver.texts == [probe_text()] and driver.launched == [(1, 128)] * 11
    with drivers.using(driver):
        from quadrants.targets.llvm.cuda import target

        assert target.record().version == "cuda-3/sm_90a/232448" and target.surroundings().startswith("cuda-3/sm_90a/")


@pytest.mark.skipif(assembler() is None, reason="there is no ptxas here: pip install nvidia-cuda-nvcc")
def test_what_a_gpu_is_asked_is_code_that_nvidias_assembler_takes() -> None:
    needs = assemble(probe_text(), 90)
    assert len(needs) == 11 and not any(usage.spill_stores or usage.stack for usage in needs)


@pytest.mark.skipif(assembler() is None, reason="there is no ptxas here: pip install nvidia-cuda-nvcc")
def test_code_for_which_nvidias_assembler_waits_by_itself_is_told() -> None:
    early = probe_text().replace("wgmma.wait_group", "add.f32 %s0, %s0, %s1;\n\twgmma.wait_group")
    with pytest.raises(AssemblerError, match="wgmma.wait_group is injected"):
        assemble(early, 90)


@pytest.mark.parametrize("sm", [80, 89, 100])
def test_other_gpus_are_not_asked(sm: int) -> None:
    driver = PlayedDriver(sm, asks=True)
    assert not driver.warpgroups and not driver.texts


def other_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """A GPU that takes the two offsets of descriptors for one another."""
    read = warpgroups._lines

    def exchanged(shared: Any, bits: int, *others: Any) -> Any:
        leading, stride = bits >> 16 & 0x3FFF, bits >> 32 & 0x3FFF
        return read(shared, bits & ~(0x3FFF << 16 | 0x3FFF << 32) | leading << 32 | stride << 16, *others)

    monkeypatch.setattr(warpgroups, "_lines", exchanged)
    monkeypatch.setattr(warpgroups.AsyncShared, "reads", lambda *arguments: None)


def test_a_gpu_that_multiplies_otherwise_does_without_and_that_is_told_once(monkeypatch: pytest.MonkeyPatch) -> None:
    other_gpu(monkeypatch)
    driver = PlayedDriver(90, asks=True)
    a, b, c = whole(64, 64), whole(64, 64), np.zeros((64, 64), np.float32)
    with pytest.warns(RuntimeWarning, match=r"do without wgmma.* wrong \(f16_dd_64") as told:
        texts = run(product, a, b, c, driver=driver)
    assert len([one for one in told if "wgmma" in str(one.message)]) == 1
    assert (c == wide(a) @ wide(b)).all()
    assert not any("wgmma" in text for text in texts[1:]) and any("mma.sync" in text for text in texts[1:])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert not driver.warpgroups


def test_a_driver_that_does_not_take_the_code_does_without(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        Bindings, "cuModuleLoadDataEx", lambda self, *arguments: (Result.CUDA_ERROR_INVALID_VALUE, None)
    )
    driver = PlayedDriver(90, asks=True)
    with pytest.warns(RuntimeWarning, match="do without wgmma"):
        assert not driver.warpgroups


def test_a_gpu_that_is_lost_by_the_question_is_told_with_the_way_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def fault(*arguments: Any) -> Any:
        raise warpgroups.WarpgroupError("nothing is there")

    monkeypatch.setattr(warpgroups, "_lines", fault)
    driver = PlayedDriver(90, asks=True)
    with pytest.raises(QuadrantsRuntimeError, match="QD_WARPGROUPS=0 does not ask"):
        _ = driver.warpgroups


def test_products_that_are_played_are_those_of_the_package() -> None:
    with played(90) as driver:
        assert driver.warpgroups and not driver.texts
