"""Loops and branches of graphs that the GPU decides on by itself: conditional nodes of NVIDIA's driver, from 12.4 on.

Whether there is another round only code of the GPU's can decide, through `cudaGraphSetConditional`: to PTX a function from outside,
which the driver has (and NVIDIA's assembler knows, for every GPU), so nothing has to be linked. A kernel of one thread does that, in
front of the loop and at the end of each round.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Sequence
from typing import Any, Protocol

from quadrants.targets.llvm.cuda.compile import generation
from quadrants.targets.llvm.device_graphs import BRANCH, LOOP, LOOP_END, Node

__all__ = ["DECIDE", "LoopDriver", "Loops", "decide_frame", "decide_text", "loop_parameters"]

DECIDE = "qd_decide"
_TRY = "qd_try"
_VERSION = 12040
_TRIAL = struct.Struct("<4i")
"""Rounds that are left, and that were made; runs of the branch that are left, and that were made."""
_TRIALS = ((3, 1), (4, 2))
"""Rounds, and runs of their branch, of a graph's first launch and of the one after its nodes were changed."""


class LoopDriver(Protocol):
    """What NVIDIA's driver does for loops."""

    sm: int
    is_lost: bool
    _cuda: Any

    def _call(self, function: Any, *arguments: Any) -> Any: ...

    def load(self, ptx: str) -> Any: ...

    def allocate(self, size: int) -> Any: ...

    def make_graph(self, nodes: Sequence[Node], failure: int) -> Any: ...

    def change_node(self, graph: Any, node: Node, failure: int) -> None: ...

    def launch_graph(self, graph: Any) -> None: ...

    def drop_graph(self, graph: Any) -> None: ...


class Loops:
    """Loops as one driver has them."""

    def __init__(self, driver: LoopDriver) -> None:
        self._driver = driver
        self._are_there: bool | None = None
        self._kernels: dict[str, int] = {}

    def are_there(self) -> bool:
        """Whether the driver has them and does with them what is said here, which a loop with a branch has to show."""
        if self._are_there is None:
            self._are_there = self._are_known() and self._work()
        return self._are_there

    def _are_known(self) -> bool:
        cuda = self._driver._cuda
        has_names = all(hasattr(cuda, name) for name in ("cuGraphConditionalHandleCreate", "CUgraphNodeParams"))
        return has_names and int(self._driver._call(cuda.cuDriverGetVersion)) >= _VERSION

    def _work(self) -> bool:
        driver = self._driver
        try:
            words = driver.allocate(2 * _TRIAL.size)
            words.write(0, b"".join(_TRIAL.pack(rounds, 0, branches, 0) for rounds, branches in _TRIALS))
            nodes = self._trial(words.address)
            graph = driver.make_graph(nodes, 0)
            try:
                driver.launch_graph(graph)
                for node, other in zip(nodes, self._trial(words.address + _TRIAL.size)):
                    if node.kernel != LOOP_END:
                        node.frame = other.frame
                        driver.change_node(graph, node, 0)
                driver.launch_graph(graph)
                found = words.read(0, 2 * _TRIAL.size)
                return found == b"".join(_TRIAL.pack(0, rounds, 0, branches) for rounds, branches in _TRIALS)
            finally:
                driver.drop_graph(graph)
        # The driver's errors, or the package's, which differs by version.
        except (RuntimeError, TypeError, AttributeError, MemoryError):
            if driver.is_lost:
                raise
            return False  # the host looks at flags then

    def _trial(self, address: int) -> list[Node]:
        """A loop whose rounds have a branch, as `_TRIAL` at an address says."""

        def flag(mark: int, at: int, *before: int) -> Node:
            return Node(mark, 0, 0, _content(struct.pack("<3q", at, 4, 0)), before=before)

        def step(at: int) -> Node:
            return Node(self._kernel(_TRY), 1, 1, _content(struct.pack("<3Q", at, 0, 0)))

        def end(before: int) -> Node:
            return Node(LOOP_END, 0, 0, _content(b""), before=(before,))

        return [flag(LOOP, address), step(address), flag(BRANCH, address + 8, 1), step(address + 8), end(3), end(2)]

    def _kernel(self, name: str) -> int:
        if not self._kernels:
            loaded = self._driver.load(decide_text(generation(self._driver.sm)))
            self._kernels = {known: int(loaded.kernel(known)) for known in (DECIDE, _TRY)}
        return self._kernels[name]

    def decision(self, loop: Node, failure: int) -> Node:
        """The launch that decides on a round of a loop, or on a branch."""
        flag, size, is_inverted = struct.unpack("<3q", loop.frame.raw)
        frame = decide_frame(int(loop.handle.condition), flag, size, failure, bool(is_inverted))
        return Node(self._kernel(DECIDE), 1, 1, _content(frame))


def _content(frame: bytes) -> Any:
    return ctypes.create_string_buffer(frame, max(len(frame), 1))


def loop_parameters(cuda: Any, is_loop: bool, condition: Any, context: Any) -> Any:
    """A loop or a branch in the driver's words."""
    kinds = cuda.CUgraphConditionalNodeType
    made = cuda.CUgraphNodeParams()
    made.type = cuda.CUgraphNodeType.CU_GRAPH_NODE_TYPE_CONDITIONAL
    made.conditional.handle = condition
    made.conditional.type = kinds.CU_GRAPH_COND_TYPE_WHILE if is_loop else kinds.CU_GRAPH_COND_TYPE_IF
    made.conditional.size = 1
    made.conditional.ctx = context
    return made


def decide_text(sm: int) -> str:
    """The module, for a processor. Its kernels take one thread; `qd_decide` a frame of `decide_frame`."""
    return _TEXT.replace("VERSION", "8.7" if sm >= 100 else "8.3").replace("SM", str(sm))


def decide_frame(condition: int, flag: int, size: int, failure: int, is_inverted: bool = False) -> bytes:
    """Another round while the number of 1 or 4 bytes at `flag` is not 0 (`is_inverted`: is 0), and none once the i32 at `failure`,
    where that is not null, is not 0: then tasks do nothing any more, and the flag stays as it is."""
    assert size in (1, 4)
    return struct.pack("<5Q", condition, flag, size, failure, is_inverted)


_TEXT = """.version VERSION
.target sm_SM
.address_size 64

.extern .func cudaGraphSetConditional
(
	.param .b64 qd_condition,
	.param .b32 qd_value
)
;

.visible .entry qd_decide(
	.param .align 8 .b8 qd_decide_param_0[40]
)
.maxntid 1
{
	.reg .pred %p<5>;
	.reg .b32 %r<5>;
	.reg .b64 %rd<6>;

	ld.param.u64 %rd1, [qd_decide_param_0];
	ld.param.u64 %rd2, [qd_decide_param_0+8];
	ld.param.u64 %rd3, [qd_decide_param_0+16];
	ld.param.u64 %rd4, [qd_decide_param_0+24];
	ld.param.u64 %rd5, [qd_decide_param_0+32];
	setp.eq.s64 %p1, %rd3, 1;
	@%p1 bra BYTE;
	ld.global.u32 %r1, [%rd2];
	bra KNOWN;
BYTE:
	ld.global.u8 %r1, [%rd2];
KNOWN:
	setp.ne.s32 %p2, %r1, 0;
	selp.u32 %r2, 1, 0, %p2;
	cvt.u32.u64 %r4, %rd5;
	xor.b32 %r2, %r2, %r4;
	setp.eq.s64 %p3, %rd4, 0;
	@%p3 bra TELL;
	ld.global.u32 %r3, [%rd4];
	setp.ne.s32 %p4, %r3, 0;
	selp.u32 %r2, 0, %r2, %p4;
TELL:
	{
	.param .b64 param0;
	st.param.b64 [param0+0], %rd1;
	.param .b32 param1;
	st.param.b32 [param1+0], %r2;
	call.uni
	cudaGraphSetConditional,
	(
	param0,
	param1
	);
	}
	ret;
}

.visible .entry qd_try(
	.param .align 8 .b8 qd_try_param_0[24]
)
.maxntid 1
{
	.reg .b32 %r<5>;
	.reg .b64 %rd<2>;

	ld.param.u64 %rd1, [qd_try_param_0];
	ld.global.u32 %r1, [%rd1];
	sub.s32 %r2, %r1, 1;
	st.global.u32 [%rd1], %r2;
	ld.global.u32 %r3, [%rd1+4];
	add.s32 %r4, %r3, 1;
	st.global.u32 [%rd1+4], %r4;
	ret;
}
"""
"""`qd_try` counts down the first i32 at an address, and up the second one."""
