"""`qd.graph`: kernels whose launches are known as a whole (`@qd.kernel(graph=True)`): loops over all of them, and parts that may run
side by side. On CUDA the launches of such a kernel are one call of the driver's, its loops the GPU's own, and what reaches no
memory that others write runs side by side. Elsewhere it runs in order: what it computes is the same.
"""

from __future__ import annotations

from typing import Any

from quadrants.frontend import protocol
from quadrants.lang.intrinsic import kernel_only

__all__ = ["do_while", "parallel", "parallel_context"]


def do_while(flag: Any) -> bool:
    """`while qd.graph.do_while(flag):` in a kernel: repeats the statements until the number in `flag`, an ndarray of type i32
    without axes, is 0. It is at least 1 at the launch: with 0 nothing runs."""
    kernel_only("graph.do_while")


def parallel_context() -> Any:
    """`with qd.graph.parallel_context():` in a kernel: its statements are `with qd.graph.parallel():` blocks, which touch nothing
    that another one writes."""
    kernel_only("graph.parallel_context")


def parallel() -> Any:
    """`with qd.graph.parallel():` within a `parallel_context` of a kernel: a loop or several that may run beside the other blocks."""
    kernel_only("graph.parallel")


def stream_parallel() -> Any:
    """`with qd.stream_parallel():` in a kernel all of whose statements are such blocks: loops that may run beside one another. What
    they compute is what they compute in order: none touches what another one writes."""
    kernel_only("stream_parallel")


for _function in (do_while, parallel_context, parallel):
    protocol.register_intrinsic(_function, f"graph.{_function.__name__}")
protocol.register_intrinsic(stream_parallel, "stream_parallel")


def _older(name: str, own: Any) -> Any:
    def older(*arguments: Any) -> Any:
        return own(*arguments)

    older.__name__ = older.__qualname__ = f"graph_{name}"
    older.__doc__ = f"In kernels an older name of qd.graph.{name}: the compiler says so by a DeprecationWarning."
    protocol.register_intrinsic(older, f"graph_{name}")
    return older


graph_do_while = _older("do_while", do_while)
graph_parallel = _older("parallel", parallel)
graph_parallel_context = _older("parallel_context", parallel_context)
