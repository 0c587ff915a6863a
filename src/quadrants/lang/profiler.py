"""`qd.profiler`: how long launches of kernels took (`qd.init(kernel_profiler=True)`), what compiling took, what memory is in use.

A kernel's time is that of its launches: on CPUs the host's clock around the machine code; on CUDA and AMD's GPUs events of the
stream; on GPUs through WebGPU the time stamps of their passes. Where a GPU has no such clock the host's is taken between two waits
for it, and where kernels are interpreted that around the whole call.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from quadrants import knobs
from quadrants.lang.kernel import compiled_programs
from quadrants.lang.log import warn
from quadrants.lang.storage import placed
from quadrants.program import Program
from quadrants.records import MutableRecord
from quadrants.runtime import profile

__all__ = [
    "CuptiMetric",
    "clear_kernel_profiler_info",
    "clear_scoped_profiler_info",
    "collect_kernel_profiler_metrics",
    "get_default_kernel_profiler",
    "get_kernel_profiler_total_time",
    "get_predefined_cupti_metrics",
    "print_kernel_profiler_info",
    "print_memory_profiler_info",
    "print_scoped_profiler_info",
    "query_kernel_profiler_info",
    "set_kernel_profiler_metrics",
    "set_kernel_profiler_toolkit",
]

_OFF = "kernels are not timed: qd.init(kernel_profiler=True) switches the profiler on"
_NO_CUPTI = "CUPTI is not used here, so there are no hardware counters: kernels are timed by the default toolkit"
_TOOLKITS = ("default", "cupti")
_WIDTH = 88


class CuptiMetric(MutableRecord):
    """A hardware counter of NVIDIA's CUPTI: its name, and the header, format and scale of its column. It can be described, and not
    collected: `set_kernel_profiler_metrics` says so."""

    name: str = ""
    header: str = "unnamed_header"
    val_format: str = "     {:8.0f} "
    scale: float = 1.0


def _is_on() -> bool:
    if not knobs.current.kernel_profiler:
        warn(_OFF)
    return knobs.current.kernel_profiler


class _KernelProfiler:
    """What the functions of `qd.profiler` ask; there is one."""

    def query_info(self, name: str) -> profile.Times:
        """The launches of the kernel of that name: `counter`, and `min`, `max`, `avg` in milliseconds; zeros if there was none."""
        return profile.of_kernel(name) if _is_on() else profile.Times()

    def clear_info(self) -> None:
        """Forgets the launches so far."""
        if _is_on():
            profile.clear()

    def get_total_time(self) -> float:
        """The seconds of all launches."""
        return sum(times.total for times in profile.times().values()) / 1e3 if _is_on() else 0.0

    def set_toolkit(self, toolkit_name: str = "default") -> bool:
        """Whether launches are measured by that toolkit from now on. ValueError for a name that is none."""
        if toolkit_name not in _TOOLKITS:
            raise ValueError(f"toolkits of the profiler are {', '.join(_TOOLKITS)}, not {toolkit_name!r}")
        if not _is_on():
            return False
        if toolkit_name == "cupti":
            warn(_NO_CUPTI)
        return toolkit_name == "default"

    def set_metrics(self, metric_list: Sequence[CuptiMetric] = ()) -> None:
        """Says that no hardware counters are collected, if there are any in the list."""
        if _is_on() and metric_list:
            warn(_NO_CUPTI)

    @contextmanager
    def collect_metrics_in_context(self, metric_list: Sequence[CuptiMetric] = ()) -> Iterator[_KernelProfiler]:
        """`set_metrics` for a `with` statement."""
        self.set_metrics(metric_list)
        yield self

    def print_info(self, mode: str = "count") -> None:
        """Prints the launches: by kernel for 'count', one by one for 'trace'. ValueError for another mode."""
        if mode not in ("count", "trace"):
            raise ValueError(f"the profiler prints 'count' or 'trace', not {mode!r}")
        if _is_on():
            print("\n".join(_counted() if mode == "count" else _traced()))


_profiler = _KernelProfiler()


def _framed(title: str, columns: str, lines: list[str], total: str) -> list[str]:
    """A table."""
    assert knobs.current.arch is not None
    head = f"Kernel profiler ({title}) on {knobs.current.arch.name}"
    return [head, "=" * _WIDTH, columns, "-" * _WIDTH, *lines, "-" * _WIDTH, total]


def _so_many(count: int, noun: str) -> str:
    ending = "" if count == 1 else "es" if noun.endswith("ch") else "s"
    return f"{count} {noun}{ending}"


def _counted() -> list[str]:
    found = sorted(profile.times().items(), key=lambda item: -item[1].total)
    total = sum(times.total for _, times in found)
    lines = [
        f"[{100 * times.total / total if total else 0.0:6.2f}% {times.total / 1e3:9.3f} s {times.counter:8d}x |"
        f"{times.min:10.3f} {times.avg:10.3f} {times.max:10.3f} ms] {name}"
        for name, times in found
    ]
    columns = f"[{'%':>7} {'total':>11} {'count':>9} |{'min':>10} {'avg':>10} {'max':>10}   ] kernel"
    return _framed("count", columns, lines, f"total {total / 1e3:.3f} s, {_so_many(len(found), 'kernel')}")


def _traced() -> list[str]:
    trace, counters = profile.traced(), [times.counter for times in profile.times().values()]
    total = sum(times.total for times in profile.times().values())
    lines = [
        f"[{100 * milliseconds / total if total else 0.0:6.2f}% {milliseconds:10.3f} ms] {name}"
        for name, milliseconds in trace
    ]
    if left := sum(counters) - len(trace):
        lines.insert(0, f"(without {_so_many(left, 'launch')} before these: each kernel's time has them all)")
    return _framed(
        "trace",
        f"[{'%':>7} {'time':>13}] kernel",
        lines,
        f"total {total / 1e3:.3f} s, {_so_many(sum(counters), 'launch')}",
    )


def print_kernel_profiler_info(mode: str = "count") -> None:
    """Print how long launches took: `mode` is 'count' for a line a kernel, the longest first, or 'trace' for a line a launch, in
    order. ValueError for another mode."""
    _profiler.print_info(mode)


def query_kernel_profiler_info(name: str) -> profile.Times:
    """The launches of the kernel of that name (`kernel.__name__`; for a method also `Class.name`): `counter`, and `min`, `max`, `avg`
    in milliseconds. All are 0 if it was not launched."""
    return _profiler.query_info(name)


def clear_kernel_profiler_info() -> None:
    """Forget the launches of kernels so far."""
    _profiler.clear_info()


def get_kernel_profiler_total_time() -> float:
    """The seconds of all launches of kernels, together."""
    return _profiler.get_total_time()


def set_kernel_profiler_toolkit(toolkit_name: str = "default") -> bool:
    """Choose what measures: whether that worked. There is 'default'; 'cupti' is not there, which a warning says. ValueError for
    another name."""
    return _profiler.set_toolkit(toolkit_name)


def set_kernel_profiler_metrics(metric_list: Sequence[CuptiMetric] = ()) -> None:
    """Ask for hardware counters, a list of CuptiMetric: they are not there, which a warning says."""
    _profiler.set_metrics(metric_list)


@contextmanager
def collect_kernel_profiler_metrics(metric_list: Sequence[CuptiMetric] = ()) -> Iterator[_KernelProfiler]:
    """In a `with` statement: hardware counters for its launches, a list of CuptiMetric. They are not there, which a warning says;
    the launches are timed."""
    with _profiler.collect_metrics_in_context(metric_list) as found:
        yield found


def get_predefined_cupti_metrics(name: str = "") -> list[CuptiMetric]:
    """The hardware counters of the group `name`: none, which a warning says."""
    del name
    warn(_NO_CUPTI)
    return []


def get_default_kernel_profiler() -> _KernelProfiler:
    """The object behind the functions of this module, which has the same as methods."""
    return _profiler


def print_memory_profiler_info() -> None:
    """Print the bytes of fields and ndarrays in use, the largest first, and their sum."""
    storages = sorted(placed(), key=lambda storage: -storage.bytes)
    lines = [
        f"{held.bytes:>16,d} B  {held.kind} of {held.scalar} {held.shape} {held.name}".rstrip() for held in storages
    ]
    total = sum(held.bytes for held in storages)
    print("\n".join(["Memory of fields and ndarrays", *lines, f"{total:>16,d} B  in {len(storages)}"]))


_cleared: weakref.WeakSet[Program] = weakref.WeakSet()


def _programs() -> list[Program]:
    """All compiled forms since the last clearing."""
    return [program for program in compiled_programs() if program not in _cleared]


def print_scoped_profiler_info() -> None:
    """Print what the host did for kernels, in milliseconds: front end, passes, target, loading, and the disk cache for those that came
    from it."""
    scopes: dict[str, tuple[int, float]] = {}
    for program in _programs():
        parts = program.times if program.disk_seconds is None else {"disk cache": program.disk_seconds}
        for scope, seconds in parts.items():
            count, total = scopes.get(scope, (0, 0.0))
            scopes[scope] = (count + 1, total + seconds)
    lines = [f"{1e3 * total:12.3f} ms {count:6d}x  {scope}" for scope, (count, total) in scopes.items()]
    print("\n".join(["Host tasks", *lines]))


def clear_scoped_profiler_info() -> None:
    """Forget what the host did for kernels so far."""
    _cleared.update(compiled_programs())


def __dir__() -> list[str]:
    return __all__
