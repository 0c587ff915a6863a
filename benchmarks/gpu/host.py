"""What the host's part of the CUDA target does with a driver, one thing a case: small programs whose answers are known.

usage: host.py tiny|full CASE… ; answers as worker.py does. The last case does harm: the GPU takes nothing more from its process.
"""

from __future__ import annotations

import contextlib
import io
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import numpy as np

import quadrants as qd
from benchmarks.gpu import worker


@qd.kernel
def add(x, value: int):
    for i in range(x.shape[0]):
        x[i] += value


@qd.kernel
def double(x):
    for i in range(x.shape[0]):
        x[i] *= 2


@qd.kernel
def total(x) -> int:
    s = 0
    for i in range(x.shape[0]):
        s += x[i]
    return s


@qd.kernel(graph=True)
def steps(x, y, a: int):
    for i in range(x.shape[0]):
        x[i] += a
    for i in range(y.shape[0]):
        y[i] += x[i % x.shape[0]]
    for i in range(x.shape[0]):
        x[i] = x[i] * 2 + y[0]


@qd.kernel(graph=True)
def settle(x, left):
    while qd.graph.do_while(left):
        for i in range(x.shape[0]):
            x[i] += 1
        for _ in range(1):
            left[None] -= 1


@qd.kernel(graph=True)
def nested(x, outer, inner, a: int):
    while qd.graph.do_while(outer):
        for _ in range(1):
            inner[None] = 2
        while qd.graph.do_while(inner):
            if outer[None] > 1:
                for i in range(x.shape[0]):
                    x[i] += a
            else:
                for i in range(x.shape[0]):
                    x[i] += 1
            for _ in range(1):
                inner[None] -= 1
        for _ in range(1):
            outer[None] -= 1


@qd.func
def depth(n):
    if n > 0:
        return depth(n - 1) + 1
    return 0


@qd.kernel
def deep(x, n: int):
    for i in range(x.shape[0]):
        x[i] = depth(n)


@qd.kernel
def tell(n: int):
    for i in range(n):
        if i % 2 == 0:
            print("number", i)


@qd.kernel
def checked(x):
    for i in range(x.shape[0]):
        assert x[i] >= 0, f"element {i} is {x[i]}"


@qd.kernel
def beyond(x, n: int):
    for i in range(n):
        x[i] = i


@qd.kernel
def stray(x, place: int):
    for i in range(x.shape[0]):
        x[i * place] = 1


def begin(**options: Any) -> Any:
    """Starts anew; gives the driver."""
    from quadrants.targets.llvm.cuda import drivers

    qd.init(arch=qd.cuda, enable_fallback=False, log_level="error", offline_cache=False, **options)
    return drivers.current()


def numbers(count: int, value: int = 0) -> Any:
    x = qd.ndarray(qd.i32, count)
    x.fill(value)
    return x


def equal(found: Any, wanted: Any) -> None:
    assert np.array_equal(np.asarray(found), np.asarray(wanted)), f"{np.asarray(found).tolist()}, not {wanted}"


def facts() -> str:
    """The driver, as the host's part sees it."""
    driver = begin()
    equal(np.asarray(total(numbers(1000, 3))), 3000)
    version = int(driver._call(driver._cuda.cuDriverGetVersion))
    return f"CUDA {version // 1000}.{version % 1000 // 10}, sm_{driver.sm}, {driver.multiprocessors} multiprocessors"


def warpgroups() -> str:
    """Whether the GPU's warpgroups multiply as they should: asked apart, for a wrong question may lose the GPU."""
    return "they multiply" if begin().warpgroups else "they are not used"


def order() -> str:
    """Streams, events, and the default stream between them."""
    begin()
    x, first, second = numbers(1000), qd.create_stream(), qd.create_stream()
    for _ in range(20):
        add(x, 1)
        double(x, qd_stream=first)
        event = qd.create_event()
        event.record(first)
        event.wait(second)
        add(x, 1, qd_stream=second)
        second.synchronize()
        event.destroy()
        x.fill(1)
    add(x, 1, qd_stream=first)
    double(x)
    equal(x.to_numpy(), [4] * 1000)
    return ""


def times() -> str:
    """Events that tell the time."""
    driver = begin()
    x = numbers(1 << 16)
    add(x, 1)
    events = [driver.make_event(True) for _ in range(2)]
    driver.record_event(events[0], driver.stream)
    add(x, 1)
    driver.record_event(events[1], driver.stream)
    driver.synchronise_event(events[1])
    taken = driver.elapsed(*events)
    assert 0 < taken < 10_000, taken
    return f"a launch takes the GPU {1000 * taken:.1f} us"


def graphs() -> str:
    """Launches as one graph; nodes that change, sizes that change, graphs that are given back."""
    begin()
    x, y, a, b = numbers(50), numbers(90), np.zeros(50, np.int32), np.zeros(90, np.int32)
    for value in (1, 1, 4, 7, 7, 2):
        steps(x, y, value)
        a += value
        b += a[np.arange(90) % 50]
        a = a * 2 + b[0]
    equal(x.to_numpy(), a)
    equal(y.to_numpy(), b)
    longer = numbers(3000)
    for _ in range(3):
        steps(longer, y, 1)
        steps(x, y, 1)
    qd.sync()
    return ""


def loops() -> str:
    """A loop over a flag in a graph, then one with a loop and a branch in it, whose arguments change."""
    driver = begin()
    x, left = numbers(30), qd.ndarray(qd.i32, ())
    for count in (5, 1, 17):
        left.fill(count)
        settle(x, left)
    equal(x.to_numpy(), [23] * 30)
    y, z, outer, inner = numbers(30), numbers(500), qd.ndarray(qd.i32, ()), qd.ndarray(qd.i32, ())
    inner.fill(0)
    for array, rounds, value in ((y, 3, 10), (y, 3, 100), (z, 3, 100), (z, 0, 7), (y, 1, 7), (z, 2, 1000)):
        outer.fill(rounds)
        nested(array, outer, inner, value)
    equal(y.to_numpy(), [4 * 10 + 2 + 4 * 100 + 2 + 2] * 30)
    equal(z.to_numpy(), [4 * 100 + 2 + 2 * 1000 + 2] * 500)
    return "the GPU's own" if driver.has_loops() else "the host's"


def recursion() -> str:
    """Functions that call themselves, deeper than the driver's own stack reaches."""
    begin()
    x = numbers(2000)
    deep(x, 150)
    equal(x.to_numpy(), [150] * 2000)
    return ""


def shared() -> str:
    """Blocks that share all the memory that the GPU has for one: by launches, and by nodes of a graph."""
    size = begin().shared_memory
    lines = size // 256

    def turned(x, y):
        qd.loop_config(block_dim=64)
        for i in range(x.shape[0]):
            held = qd.simt.block.SharedArray((lines, 64), qd.i32)
            for k in range(lines):
                held[k, i % 64] = x[i] + k
            qd.simt.block.sync()
            y[i] = held[0, 63 - i % 64] + held[lines - 1, 63 - i % 64]

    wanted = 2 * np.arange(1024).reshape(-1, 64)[:, ::-1].reshape(-1) + lines - 1
    for kernel in (qd.kernel(turned), qd.kernel(turned, graph=True)):
        x, y = numbers(1024), numbers(1024)
        x.from_numpy(np.arange(1024, dtype=np.int32))
        for _ in range(2):
            y.fill(0)
            kernel(x, y)
            equal(y.to_numpy(), wanted)
    return f"{size} bytes a block"


def prints() -> str:
    begin()
    with contextlib.redirect_stdout(io.StringIO()) as told:
        tell(9)
    assert sorted(told.getvalue().splitlines()) == [f"number {i}" for i in (0, 2, 4, 6, 8)], told.getvalue()
    return ""


def checks() -> str:
    """What debug mode finds, and that the GPU lives on."""
    begin(debug=True)
    x = numbers(100)
    x[7] = -3
    for run, words in ((lambda: checked(x), "element 7 is -3"), (lambda: beyond(x, 101), "out of range")):
        try:
            run()
        except (AssertionError, IndexError) as error:
            assert words in str(error), error
        else:
            raise AssertionError(f"nobody said '{words}'")
    x[7] = 3
    checked(x)
    return ""


def memory() -> str:
    """Too much of it is a MemoryError, after which the rest works."""
    driver = begin()
    try:
        driver.allocate(1 << 46)
    except MemoryError:
        pass
    else:
        raise AssertionError("64 TiB were given")
    x = numbers(10)
    add(x, 2)
    equal(x.to_numpy(), [2] * 10)
    return ""


def sharing() -> str:
    """torch's tensors, both ways, in a stream of torch's."""
    begin()
    if os.environ.get("GPU_CHECK_DEVICE") == "played":
        return "not on a GPU that is played"
    try:
        import torch
    except ImportError:
        return "torch is not installed"
    if not torch.cuda.is_available():
        return "torch has no CUDA here"
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        theirs = torch.zeros(1 << 20, dtype=torch.int32, device="cuda")
        for _ in range(10):
            theirs += 1
            add(theirs, 1)
            theirs *= 2
    stream.synchronize()
    equal(theirs[:3].cpu().numpy(), [4092] * 3)
    ours = numbers(1000, 5)
    view = torch.from_dlpack(ours)
    view += 1
    torch.cuda.synchronize()
    equal(ours.to_numpy(), [6] * 1000)
    return f"torch {torch.__version__}"


_KEPT = """
import sys, quadrants as qd
from contextlib import nullcontext
if sys.argv[2] == "played":
    from quadrants.evidence.ptx.driver import played
else:
    played = nullcontext
with played():
    qd.init(arch=qd.cuda, enable_fallback=False, offline_cache=True, offline_cache_file_path=sys.argv[1], log_level="error")
    from benchmarks.gpu.host import add, numbers, total
    x = numbers(1000)
    add(x, 2)
    print(total(x), "llvmlite" in sys.modules)
"""


def kept() -> str:
    """Kernels that a second process finds on the disk."""
    device = os.environ.get("GPU_CHECK_DEVICE", "cuda")
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-c", _KEPT, folder, device]
        told = [subprocess.run(command, capture_output=True, text=True, check=False, timeout=60) for _ in range(2)]
    for number, done in enumerate(told):
        wanted = f"2000 {number == 0}"
        assert done.stdout.strip() == wanted, f"process {number}: {done.stdout.strip()} {done.stderr.strip()[-1500:]}"
    return ""


def fault() -> str:
    """An illegal address is told with the kernel."""
    begin()
    x = numbers(64)
    try:
        stray(x, 1 << 26)
        qd.sync()
    except RuntimeError as error:
        text = str(error)
    else:
        raise AssertionError("stores far out of range were taken")
    assert "started anew" in text and "stray (" in text, text
    return text.splitlines()[0]


CASES: dict[str, Callable[[], str]] = {
    case.__name__: case
    for case in (
        warpgroups,
        facts,
        order,
        times,
        graphs,
        loops,
        recursion,
        shared,
        prints,
        checks,
        memory,
        sharing,
        kept,
        fault,
    )
}


def main() -> None:
    _, *names = sys.argv[1:]
    with ExitStack() as stack:
        if os.environ.get("GPU_CHECK_DEVICE") == "played":
            from quadrants.evidence.ptx.driver import played

            stack.enter_context(played())
        worker.serve(names, lambda name: {"ok": True, "told": CASES[name]()})
        sys.stdout.flush()
        os._exit(0)  # a lost GPU has nothing to give back


if __name__ == "__main__":
    main()
