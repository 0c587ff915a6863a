"""Kernels for CUDA kept on disk: a process that finds them neither parses Python nor loads LLVM."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from tests.modules import written

import quadrants as qd
from quadrants import compiler
from quadrants.evidence.ptx.driver import PlayedDriver, played
from quadrants.runtime import native
from quadrants.runtime.manifest import cache_counters
from quadrants.targets.llvm.cuda import drivers, probe

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not native.available(), reason="no machine code of the host's part here"),
    pytest.mark.filterwarnings("ignore:.*wins over QD_OFFLINE_CACHE"),
]

PROGRAM = """
import quadrants as qd

field = qd.field(qd.f32, shape=(6,))
STEP = 2

@qd.kernel
def run(x, scale):
    for i in range(x.shape[0]):
        x[i] = x[i] * scale + STEP
    total = 0.0
    for i in range(x.shape[0]):
        total += x[i]
    return total

@qd.kernel
def fill(value):
    for i in field:
        field[i] = value + i

@qd.kernel
def check(x):
    for i in range(x.shape[0]):
        assert x[i] < 5, f"element {i} is {x[i]}"

@qd.kernel
def tell(n):
    for i in range(n):
        print("number", i)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    before = native._cache_directory
    yield tmp_path
    qd.reset()
    sys.modules.pop("kept_kernels", None)
    native.use_cache(before)


def load(folder: Path, text: str = PROGRAM) -> ModuleType:
    return written(folder / "kept_kernels.py", text)


def start(folder: Path, **options: Any) -> None:
    qd.init(
        arch=qd.cuda, offline_cache=True, offline_cache_file_path=str(folder / "cache"), log_level="error", **options
    )


def use(module: ModuleType) -> list[float]:
    x = qd.ndarray(qd.f64, 4)
    x.fill(1.0)
    found = [module.run(x, 3.0) for _ in range(3)]
    module.fill(1.5)
    return [*found, *x.to_numpy().tolist(), *module.field.to_numpy().tolist()]


def forbid(monkeypatch: pytest.MonkeyPatch) -> None:
    def compiled(*_: object) -> None:
        raise AssertionError("a kernel was compiled that is kept")

    monkeypatch.setattr(compiler, "compile_kernel", compiled)


def test_a_kept_kernel_is_not_compiled_again(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with played() as first:
        start(folder)
        wanted = use(load(folder))
    with played() as second, monkeypatch.context() as patch:
        start(folder)
        forbid(patch)
        before = cache_counters()["hits"]
        assert use(load(folder)) == wanted
        assert cache_counters()["hits"] == before + 2
        assert second.texts == first.texts
    with played() as third:
        start(folder)
        assert use(load(folder, PROGRAM.replace("STEP = 2", "STEP = 3"))) != wanted
        assert len(third.texts) == len(first.texts)


SHARING = """
import quadrants as qd

@qd.kernel
def turned(x):
    qd.loop_config(block_dim=64)
    for i in range(x.shape[0]):
        t = qd.simt.block.thread_idx()
        held = qd.simt.block.SharedArray((LINES, 64), qd.f32)
        held[LINES - 1, t] = x[i]
        qd.simt.block.sync()
        x[i] = held[LINES - 1, 63 - t]
"""


def test_what_a_kept_kernel_asks_for_is_kept_and_other_gpus_make_their_own(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text, numbers = SHARING.replace("LINES", "384"), np.arange(128, dtype=np.float32)
    for shared, kept in ((163, False), (163, True), (99, False)):
        driver = PlayedDriver(80, shared=shared << 10)
        with drivers.using(driver), monkeypatch.context() as patch:
            start(folder)
            module = load(folder, text)
            if kept:
                forbid(patch)
            before = cache_counters()["hits"]
            x = numbers.copy()
            module.turned(x)
            assert (x.reshape(2, 64) == numbers.reshape(2, 64)[:, ::-1]).all()
            assert driver.bindings.asked == [96 << 10] and cache_counters()["hits"] == before + kept
            qd.reset()


PRODUCTS = """
import quadrants as qd

@qd.kernel
def scale(x):
    for i in range(x.shape[0]):
        x[i] = x[i] * 2

@qd.kernel
def product(a, b, c):
    for i, j in qd.ndrange(c.shape[0], c.shape[1]):
        s = qd.f32(0)
        for k in range(a.shape[1]):
            s += qd.cast(a[i, k], qd.f32) * qd.cast(b[k, j], qd.f32)
        c[i, j] = s
"""


def test_only_kept_products_of_warpgroups_ask_whether_they_are_right(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    objections = ["", "", "they are wrong"]
    monkeypatch.setattr(probe, "objection", lambda _: (asked.append("asked"), objections[len(asked) - 1])[1])
    a = np.random.default_rng(3).integers(-8, 9, (64, 64)).astype(np.float16)

    def process(multiplies: bool) -> str:
        """All that a new process loads."""
        driver = PlayedDriver(90, asks=True)
        with drivers.using(driver):
            start(folder)
            module, x, c = load(folder, PRODUCTS), np.ones(5, np.float32), np.zeros((64, 64), np.float32)
            module.scale(x)
            assert x.tolist() == [2.0] * 5
            if multiplies:
                module.product(a, a, c)
                assert np.array_equal(c, a.astype(np.float32) @ a.astype(np.float32))
        return "".join(driver.texts)

    assert "wgmma" not in process(False) and not asked, "what does not multiply asks nothing"
    assert "wgmma" in process(True) and len(asked) == 1
    with monkeypatch.context() as patch:
        forbid(patch)
        assert "wgmma" not in process(False) and len(asked) == 1
        assert "wgmma" in process(True) and len(asked) == 2
    with pytest.warns(RuntimeWarning, match="they are wrong"):
        assert "wgmma" not in process(True)
    assert len(asked) == 3


def test_another_gpu_has_code_of_its_own(folder: Path) -> None:
    for sm, misses in ((80, 2), (90, 2), (80, 0)):
        with played(sm) as driver:
            start(folder)
            before = cache_counters()["misses"]
            use(load(folder))
            assert cache_counters()["misses"] == before + misses
            assert all(f".target sm_{sm}" in text for text in driver.texts)


LOOP = """
import quadrants as qd

@qd.kernel(graph=True)
def settle(x, left):
    while qd.graph.do_while(left):
        for i in range(x.shape[0]):
            x[i] += 1
        for _ in range(1):
            left[None] -= 1
"""


@pytest.mark.parametrize("graph_loops", [True, False])
def test_who_decides_on_loops_of_a_graph_is_not_what_was_kept_for_others(folder: Path, graph_loops: bool) -> None:
    for option in (not graph_loops, graph_loops):
        with played():
            start(folder, graph_loops=option)
            settle = load(folder, LOOP).settle
            x, left = qd.ndarray(qd.i32, 3), qd.ndarray(qd.i32, ())
            left.fill(4)
            settle(x, left)
            assert x.to_numpy().tolist() == [4] * 3
            assert ("loop that the GPU repeats" in settle.report()) == option


def test_checks_and_prints_are_kept(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for turn in range(2):
        with played(), monkeypatch.context() as patch:
            start(folder, debug=True)
            if turn:
                forbid(patch)
            module = load(folder)
            with pytest.raises(AssertionError, match=r"element 2 is 9(.|\n)*in kernel check \(.*kept_kernels.py:24\)"):
                module.check(np.array([1, 2, 9]))
            module.check(np.array([1, 2, 3]))
            module.tell(2)
            assert capsys.readouterr().out == "number 0\nnumber 1\n"


def test_what_is_known_of_a_kept_kernel(folder: Path) -> None:
    for _ in range(2):
        with played():
            start(folder)
            module = load(folder)
            use(module)
            assert "parallel for" in module.run.ir() and module.run.report()


def test_a_damaged_entry_is_replaced(folder: Path) -> None:
    with played():
        start(folder)
        wanted = use(load(folder))
    for path in (folder / "cache").rglob("*"):
        if path.is_file() and not path.name.startswith("runtime-"):
            path.write_bytes(path.read_bytes()[:-7])
    with played():
        start(folder)
        assert use(load(folder)) == wanted


@pytest.mark.slow
def test_a_new_process_loads_no_llvm(folder: Path) -> None:
    load(folder)
    program = (
        "import sys, quadrants as qd\n"
        "from quadrants.evidence.ptx.driver import played\n"
        "with played():\n"
        f"    qd.init(arch=qd.cuda, offline_cache=True, offline_cache_file_path={str(folder / 'cache')!r}, log_level='error')\n"
        "    import kept_kernels\n"
        "    for k in range(3):\n"
        "        kept_kernels.fill(k + 0.5)\n"
        "    print(kept_kernels.field.to_numpy().tolist())\n"
        "    print(sorted({'llvmlite', 'quadrants.compiler', 'quadrants.frontend.compilation'} & set(sys.modules)))\n"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(folder), *sys.path])}
    told = []
    for _ in range(2):
        done = subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True, env=environment, check=False
        )
        assert done.returncode == 0, done.stderr
        told.append(done.stdout.splitlines())
    assert told[0][0] == told[1][0] and told[0][1] != "[]" and told[1][1] == "[]"
