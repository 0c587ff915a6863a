"""The graphs of the driver that is played: what NVIDIA's documentation says of loops, branches and what may be changed."""

from __future__ import annotations

import ctypes
import struct

import pytest

from quadrants.evidence.ptx.assemble import AssemblerError, assemble, assembler
from quadrants.evidence.ptx.bindings import Bindings, Result
from quadrants.targets.llvm.cuda.compile import SM
from quadrants.targets.llvm.cuda.loops import DECIDE, decide_frame, decide_text

_COUNT = """.version 8.3
.target sm_80
.address_size 64
.visible .entry count(
	.param .align 8 .b8 count_param_0[16]
)
{
	.reg .b32 %r<5>;
	.reg .b64 %rd<2>;
	ld.param.u64 %rd1, [count_param_0];
	ld.param.u32 %r1, [count_param_0+8];
	ld.param.u32 %r4, [count_param_0+12];
	ld.global.u32 %r2, [%rd1];
	mul.lo.s32 %r3, %r2, %r1;
	add.s32 %r3, %r3, %r4;
	st.global.u32 [%rd1], %r3;
	ret;
}
"""
OK, INVALID = Result.CUDA_SUCCESS, Result.CUDA_ERROR_INVALID_VALUE


class Player:
    """A GPU that is played, with words of memory and a kernel that computes `word = word * factor + digit`."""

    def __init__(self) -> None:
        self.calls = Bindings(80)
        assert self.calls.cuInit(0) == (OK,)
        self.context = self.got(self.calls.cuDevicePrimaryCtxRetain(0))
        self.calls.cuCtxSetCurrent(self.context)
        self.kernels = {
            name: self.got(self.calls.cuModuleGetFunction(self.load(text), name.encode()))
            for name, text in (("count", _COUNT), (DECIDE, decide_text(80)))
        }

    def load(self, text: str):
        return self.got(self.calls.cuModuleLoadDataEx(text.encode() + b"\0", 0, [], []))

    @staticmethod
    def got(told):
        assert told[0] == OK
        return told[1] if len(told) == 2 else None

    def word(self, value: int) -> int:
        address = self.got(self.calls.cuMemAlloc(4))
        self.got(self.calls.cuMemcpyHtoD(address, struct.pack("<i", value), 4))
        return address

    def read(self, address: int) -> int:
        place = ctypes.c_int32()
        self.got(self.calls.cuMemcpyDtoH(ctypes.addressof(place), address, 4))
        return place.value

    def parameters(self, name: str, frame: bytes):
        """A node of one thread, and what has to live until it is made."""
        content = ctypes.create_string_buffer(frame, len(frame))
        pointers = (ctypes.c_void_p * 1)(ctypes.addressof(content))
        told = self.calls.CUDA_KERNEL_NODE_PARAMS()
        told.func = self.kernels[name]
        told.gridDimX = told.gridDimY = told.gridDimZ = told.blockDimX = told.blockDimY = told.blockDimZ = 1
        told.sharedMemBytes, told.kernelParams = 0, ctypes.addressof(pointers)
        return told, (content, pointers)

    def add(self, graph: int, name: str, frame: bytes, *before: int) -> int:
        told, keep = self.parameters(name, frame)
        node = self.got(self.calls.cuGraphAddKernelNode(graph, list(before), len(before), told))
        del keep
        return node

    def digit(self, graph: int, word: int, digit: int, *before: int, factor: int = 10) -> int:
        return self.add(graph, "count", struct.pack("<Qii", word, factor, digit), *before)

    def loop(self, graph: int, condition: int, *before: int):
        """The result code of adding a loop, and what was told."""
        told = self.calls.CUgraphNodeParams()
        told.type = self.calls.CUgraphNodeType.CU_GRAPH_NODE_TYPE_CONDITIONAL
        told.conditional.handle = condition
        told.conditional.type = self.calls.CUgraphConditionalNodeType.CU_GRAPH_COND_TYPE_WHILE
        told.conditional.size = 1
        told.conditional.ctx = self.context
        return self.calls.cuGraphAddNode(graph, list(before), None, len(before), told)[0], told

    def condition(self, graph: int) -> int:
        return self.got(self.calls.cuGraphConditionalHandleCreate(graph, self.context, 0, 1))


@pytest.fixture
def player() -> Player:
    return Player()


def test_what_may_run_in_any_order_runs_in_the_unlikeliest(player: Player) -> None:
    graph, word = player.got(player.calls.cuGraphCreate(0)), player.word(0)
    first = player.digit(graph, word, 1)
    branches = [player.digit(graph, word, digit, first) for digit in (2, 3)]
    player.digit(graph, word, 4, *branches)
    ready = player.got(player.calls.cuGraphInstantiate(graph, 0))
    assert player.calls.cuGraphLaunch(ready, 0) == (OK,)
    assert player.read(word) == 1324


def test_a_loop_runs_while_its_flag_says_so(player: Player) -> None:
    calls = player.calls
    graph, word, flag = player.got(calls.cuGraphCreate(0)), player.word(0), player.word(0)
    condition = player.condition(graph)
    before = player.add(graph, DECIDE, decide_frame(condition, flag, 4, 0))
    code, told = player.loop(graph, condition, before)
    assert code == OK
    (body,) = told.conditional.phGraph_out
    step = player.digit(body, word, 7)
    ended = player.digit(body, flag, -1, step, factor=1)
    player.add(body, DECIDE, decide_frame(condition, flag, 4, 0), ended)
    ready = player.got(calls.cuGraphInstantiate(graph, 0))
    calls.cuGraphLaunch(ready, 0)
    assert player.read(word) == 0 and calls.rounds == 0, "the flag is looked at in front of the first round"
    calls.cuMemcpyHtoD(flag, struct.pack("<i", 3), 4)
    calls.cuGraphLaunch(ready, 0)
    assert (player.read(flag), player.read(word), calls.rounds) == (0, 777, 3)
    told, keep = player.parameters("count", struct.pack("<Qii", word, 10, 8))
    assert calls.cuGraphExecKernelNodeSetParams(ready, step, told) == (OK,), "nodes of a loop's body may change"
    assert calls.cuGraphInstantiate(graph, 0)[0] == INVALID, "a graph with a loop can be launched in one form at a time"
    assert calls.cuGraphDestroy(body) == (INVALID,), "a body goes with the graph"
    calls.cuGraphDestroy(graph)
    assert calls.cuGraphExecKernelNodeSetParams(ready, step, told) == (INVALID,), "the graph's nodes are gone"
    assert not calls.graphs
    del keep


def test_no_round_is_made_after_a_failure(player: Player) -> None:
    calls = player.calls
    graph, word, flag, failure = player.got(calls.cuGraphCreate(0)), player.word(0), player.word(1), player.word(1)
    condition = player.condition(graph)
    before = player.add(graph, DECIDE, decide_frame(condition, flag, 4, failure))
    _, told = player.loop(graph, condition, before)
    player.digit(told.conditional.phGraph_out[0], word, 1)
    calls.cuGraphLaunch(player.got(calls.cuGraphInstantiate(graph, 0)), 0)
    assert player.read(word) == 0 and calls.rounds == 0


def test_a_condition_is_one_loops(player: Player) -> None:
    calls = player.calls
    graph, other = (player.got(calls.cuGraphCreate(0)) for _ in range(2))
    condition = player.condition(graph)
    assert calls.cuGraphInstantiate(graph, 0)[0] == INVALID, "it decides on nothing"
    assert player.loop(other, condition)[0] == INVALID
    assert player.loop(graph, condition)[0] == OK and player.loop(graph, condition)[0] == INVALID
    flag = player.word(1)
    player.add(other, DECIDE, decide_frame(condition, flag, 4, 0))
    ready = player.got(calls.cuGraphInstantiate(other, 0))
    calls.cuGraphLaunch(ready, 0)
    assert calls.cuCtxSynchronize()[0] == Result.CUDA_ERROR_ILLEGAL_ADDRESS, "the condition is another graph's"


@pytest.mark.slow
@pytest.mark.skipif(assembler() is None, reason="NVIDIA's assembler is not here")
@pytest.mark.parametrize("sm", SM)
def test_the_assembler_knows_who_decides(sm: int) -> None:
    """Without a library that has the function; and it does not know what it does not have."""
    assemble(decide_text(sm), sm)
    with pytest.raises(AssemblerError, match="cudaGraphSetNothing"):
        assemble(decide_text(sm).replace("cudaGraphSetConditional", "cudaGraphSetNothing"), sm)
