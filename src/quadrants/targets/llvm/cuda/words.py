"""What NVIDIA's GPUs have and CPUs have not, as LLVM text."""

from __future__ import annotations

from quadrants.ir.external import PTX_REGISTERS
from quadrants.targets.llvm.cuda import copies
from quadrants.targets.llvm.cuda.products import load_matrices, multiply
from quadrants.targets.llvm.cuda.shared_products import fence, multiplied, multiply_shared
from quadrants.targets.llvm.device_state import STATE_FUNCTIONS, SUPPORTED
from quadrants.targets.llvm.emit_device import DeviceWords
from quadrants.targets.llvm.emit_threads import SYMBOLS

__all__ = ["WORDS"]

_SUPPORT = """
declare i32 @llvm.nvvm.read.ptx.sreg.tid.x()
declare i32 @llvm.nvvm.read.ptx.sreg.ntid.x()
declare i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
declare i32 @llvm.nvvm.read.ptx.sreg.nctaid.x()
define internal i64 @qd_thread() alwaysinline nounwind memory(none) {
  %t = call range(i32 0, 1024) i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %b = call range(i32 0, 2147483647) i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
  %n = call range(i32 1, 1025) i32 @llvm.nvvm.read.ptx.sreg.ntid.x()
  %bw = zext i32 %b to i64
  %nw = zext i32 %n to i64
  %tw = zext i32 %t to i64
  %start = mul nuw nsw i64 %bw, %nw
  %r = add nuw nsw i64 %start, %tw
  ret i64 %r
}
define internal i64 @qd_threads() alwaysinline nounwind memory(none) {
  %b = call range(i32 1, 2147483647) i32 @llvm.nvvm.read.ptx.sreg.nctaid.x()
  %n = call range(i32 1, 1025) i32 @llvm.nvvm.read.ptx.sreg.ntid.x()
  %bw = zext i32 %b to i64
  %nw = zext i32 %n to i64
  %r = mul nuw nsw i64 %bw, %nw
  ret i64 %r
}
declare void @llvm.nvvm.barrier.cta.sync.aligned.all(i32) #0
declare void @llvm.nvvm.barrier.cta.sync.all(i32) #0
declare i32 @llvm.nvvm.shfl.sync.idx.i32(i32, i32, i32, i32) #0
declare i32 @llvm.nvvm.vote.ballot.sync(i32, i1) #0
declare void @llvm.nvvm.bar.warp.sync(i32) #0
attributes #0 = { convergent nounwind }
define internal i64 @qd_place() alwaysinline nounwind memory(none) {
  %t = call range(i32 0, 1024) i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %r = zext i32 %t to i64
  ret i64 %r
}
define internal i64 @qd_block() alwaysinline nounwind memory(none) {
  %b = call range(i32 0, 2147483647) i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
  %r = zext i32 %b to i64
  ret i64 %r
}
define internal i64 @qd_blocks() alwaysinline nounwind memory(none) {
  %b = call range(i32 1, 2147483647) i32 @llvm.nvvm.read.ptx.sreg.nctaid.x()
  %r = zext i32 %b to i64
  ret i64 %r
}
define internal void @qd_barrier(i1 %whole) alwaysinline convergent nounwind {
  br i1 %whole, label %all, label %there
all:
  call void @llvm.nvvm.barrier.cta.sync.aligned.all(i32 0)
  ret void
there:
  call void @llvm.nvvm.barrier.cta.sync.all(i32 0)
  ret void
}
define internal i32 @qd_shuffle(i64 %members, i32 %value, i32 %lane) alwaysinline convergent nounwind {
  %m = trunc i64 %members to i32
  %r = call i32 @llvm.nvvm.shfl.sync.idx.i32(i32 %m, i32 %value, i32 %lane, i32 31)
  ret i32 %r
}
define internal void @qd_team_barrier(i64 %members) alwaysinline convergent nounwind {
  %m = trunc i64 %members to i32
  call void @llvm.nvvm.bar.warp.sync(i32 %m)
  ret void
}
define internal i64 @qd_ballot(i64 %members, i1 %vote) alwaysinline convergent nounwind {
  %m = trunc i64 %members to i32
  %v = call i32 @llvm.nvvm.vote.ballot.sync(i32 %m, i1 %vote)
  %r = zext i32 %v to i64
  ret i64 %r
}
"""

# `minctasm`: without it ptxas rather keeps values in memory than take more registers than leave room for all the threads that
# there could be.
WORDS = DeviceWords(
    assembly_registers=PTX_REGISTERS,
    convention="ptx_kernel",
    declared_memory=48 << 10,
    frame='ptr byval([{size} x i8]) align 8 "nvvm.grid_constant" %frame',
    attributes='"nvvm.maxntid"="{threads},1,1" "nvvm.minctasm"="1"',
    support=_SUPPORT + STATE_FUNCTIONS,
    supported=("qd_thread", "qd_threads", *SYMBOLS, *SUPPORTED),
    subgroup=32,
    fences={"subgroup": "block", "block": "block", "grid": "device"},
    handlers={
        "team_multiply": multiply,
        "team_load": load_matrices,
        "copy_begin": copies.begin,
        "copy_commit": copies.commit,
        "copy_wait": copies.wait,
        "team_multiply_shared": multiply_shared,
        "team_multiplied": multiplied,
        "fence": fence,
    },
)
