"""The kernel that decides whether a loop of a graph makes another round, as PTX.

Only code of the GPU's can decide that, through `cudaGraphSetConditional`: to PTX a function from outside, which the driver has (and
NVIDIA's assembler knows, for every GPU), so nothing has to be linked.
"""

from __future__ import annotations

import struct

__all__ = ["DECIDE", "decide_frame", "decide_text"]

DECIDE = "qd_decide"


def decide_text(sm: int) -> str:
    """The module, for a processor. Its kernel takes one thread, and a frame of `decide_frame`."""
    return _TEXT.replace("VERSION", "8.7" if sm >= 100 else "8.3").replace("SM", str(sm))


def decide_frame(condition: int, flag: int, failure: int) -> bytes:
    """Another round while the i32 at `flag` is not 0, and none once the i32 at `failure`, where that is not null, is not 0:
    then tasks do nothing any more, and the flag stays as it is."""
    return struct.pack("<3Q", condition, flag, failure)


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
	.param .align 8 .b8 qd_decide_param_0[24]
)
.maxntid 1
{
	.reg .pred %p<4>;
	.reg .b32 %r<4>;
	.reg .b64 %rd<4>;

	ld.param.u64 %rd1, [qd_decide_param_0];
	ld.param.u64 %rd2, [qd_decide_param_0+8];
	ld.param.u64 %rd3, [qd_decide_param_0+16];
	ld.global.u32 %r1, [%rd2];
	setp.ne.s32 %p1, %r1, 0;
	selp.u32 %r2, 1, 0, %p1;
	setp.eq.s64 %p2, %rd3, 0;
	@%p2 bra TELL;
	ld.global.u32 %r3, [%rd3];
	setp.ne.s32 %p3, %r3, 0;
	selp.u32 %r2, 0, %r2, %p3;
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
"""
