"""What AMD's GPUs have and CPUs have not, as LLVM text.

Kernels find their frame in constant memory (address space 4), and the sizes of the launch behind it, among the hidden
arguments that code objects of version 5 have: the number of blocks (u32) at byte 0, the threads of a block (u16) at byte 12.
All memory that tasks share is memory of the GPU that runs them: none is another's, none the host's.
"""

from __future__ import annotations

from functools import lru_cache

from quadrants.records import replace
from quadrants.targets.llvm.device_state import STATE_FUNCTIONS, SUPPORTED
from quadrants.targets.llvm.emit_device import DeviceWords
from quadrants.targets.llvm.emit_threads import SYMBOLS

__all__ = ["CODE_OBJECT", "words_of"]

CODE_OBJECT = """
!llvm.module.flags = !{!4000000000}
!4000000000 = !{i32 1, !"amdhsa_code_object_version", i32 500}
"""
"""Code objects are of version 5: LLVM would make version 6, which older drivers do not load."""

_SUPPORT = """
declare i32 @llvm.amdgcn.workitem.id.x()
declare i32 @llvm.amdgcn.workgroup.id.x()
declare ptr addrspace(4) @llvm.amdgcn.implicitarg.ptr()
define internal i64 @qd_thread() alwaysinline nounwind {
  %t = call range(i32 0, 1024) i32 @llvm.amdgcn.workitem.id.x()
  %b = call range(i32 0, 2147483647) i32 @llvm.amdgcn.workgroup.id.x()
  %launch = call ptr addrspace(4) @llvm.amdgcn.implicitarg.ptr()
  %at = getelementptr inbounds i8, ptr addrspace(4) %launch, i64 12
  %n = load i16, ptr addrspace(4) %at, align 4, !invariant.load !0, !noundef !0
  %bw = zext i32 %b to i64
  %nw = zext i16 %n to i64
  %tw = zext i32 %t to i64
  %start = mul nuw nsw i64 %bw, %nw
  %r = add nuw nsw i64 %start, %tw
  ret i64 %r
}
define internal i64 @qd_threads() alwaysinline nounwind {
  %launch = call ptr addrspace(4) @llvm.amdgcn.implicitarg.ptr()
  %at = getelementptr inbounds i8, ptr addrspace(4) %launch, i64 12
  %n = load i16, ptr addrspace(4) %at, align 4, !invariant.load !0, !noundef !0
  %b = load i32, ptr addrspace(4) %launch, align 8, !invariant.load !0, !noundef !0
  %bw = zext i32 %b to i64
  %nw = zext i16 %n to i64
  %r = mul nuw nsw i64 %bw, %nw
  ret i64 %r
}
declare void @llvm.amdgcn.s.barrier() #0
declare i32 @llvm.amdgcn.ds.bpermute(i32, i32) #0
declare i{wave} @llvm.amdgcn.ballot.i{wave}(i1) #0
declare void @llvm.amdgcn.wave.barrier() #0
attributes #0 = { convergent nounwind }
define internal i64 @qd_place() alwaysinline nounwind {
  %t = call range(i32 0, 1024) i32 @llvm.amdgcn.workitem.id.x()
  %r = zext i32 %t to i64
  ret i64 %r
}
define internal i64 @qd_block() alwaysinline nounwind {
  %b = call range(i32 0, 2147483647) i32 @llvm.amdgcn.workgroup.id.x()
  %r = zext i32 %b to i64
  ret i64 %r
}
define internal i64 @qd_blocks() alwaysinline nounwind {
  %launch = call ptr addrspace(4) @llvm.amdgcn.implicitarg.ptr()
  %b = load i32, ptr addrspace(4) %launch, align 8, !invariant.load !0, !noundef !0
  %r = zext i32 %b to i64
  ret i64 %r
}
define internal void @qd_barrier(i1 %whole) alwaysinline convergent nounwind {
  fence syncscope("workgroup") release
  call void @llvm.amdgcn.s.barrier()
  fence syncscope("workgroup") acquire
  ret void
}
define internal i32 @qd_shuffle(i64 %members, i32 %value, i32 %lane) alwaysinline convergent nounwind {
  %at = shl i32 %lane, 2
  %r = call i32 @llvm.amdgcn.ds.bpermute(i32 %at, i32 %value)
  ret i32 %r
}
define internal void @qd_team_barrier(i64 %members) alwaysinline convergent nounwind {
  fence syncscope("wavefront") release
  call void @llvm.amdgcn.wave.barrier()
  fence syncscope("wavefront") acquire
  ret void
}
define internal i64 @qd_ballot(i64 %members, i1 %vote) alwaysinline convergent nounwind {
  %v = call i{wave} @llvm.amdgcn.ballot.i{wave}(i1 %vote)
  %r = {widened}
  ret i64 %r
}
"""

# At six waves a thread still has all 256 registers there; without a bound the scheduler takes loads together until they spill.
_WAVES = {64: "", 32: ' "amdgpu-waves-per-eu"="6"'}


@lru_cache(maxsize=4)
def words_of(wave: int) -> DeviceWords:
    """The words of processors whose waves have so many threads."""
    widened = "zext i32 %v to i64" if wave == 32 else "add i64 %v, 0"
    support = _WORDS.support.replace("{wave}", str(wave)).replace("{widened}", widened)
    return replace(_WORDS, attributes=_WORDS.attributes + _WAVES[wave], support=support, subgroup=wave)


_WORDS = DeviceWords(
    convention="amdgpu_kernel",
    frame="ptr addrspace(4) noundef byref([{size} x i8]) align 8 %arguments",
    attributes='"amdgpu-flat-work-group-size"="{least},{threads}" "uniform-work-group-size"="true"',
    support=CODE_OBJECT + _SUPPORT + STATE_FUNCTIONS,
    supported=("qd_thread", "qd_threads", *SYMBOLS, *SUPPORTED),
    fences={"subgroup": "wavefront", "block": "workgroup", "grid": "agent"},
    opening=("%frame = addrspacecast ptr addrspace(4) %arguments to ptr",),
    stack_space=5,
    constant_space=4,
    atomic_scope=' syncscope("agent")',
    sum_annotations=", !amdgpu.no.fine.grained.memory !0, !amdgpu.no.remote.memory !0",
)
