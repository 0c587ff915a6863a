"""What AMD's GPUs have and CPUs have not, as LLVM text.

Kernels find their frame in constant memory (address space 4), and the sizes of the launch behind it, among the hidden
arguments that code objects of version 5 have: the number of blocks (u32) at byte 0, the threads of a block (u16) at byte 12.
All memory that tasks share is memory of the GPU that runs them: none is another's, none the host's.
"""

from __future__ import annotations

from functools import lru_cache

from quadrants.records import replace
from quadrants.targets.llvm.device_state import STATE_FUNCTIONS, SUPPORTED
from quadrants.targets.llvm.emit_device import BLOCK, DeviceWords

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
"""

# At six waves a thread still has all 256 registers there; without a bound the scheduler takes loads together until they spill.
_WAVES = {64: "", 32: ' "amdgpu-waves-per-eu"="6"'}


@lru_cache(maxsize=4)
def words_of(wave: int) -> DeviceWords:
    """The words of processors whose waves have so many threads."""
    return replace(_WORDS, attributes=_WORDS.attributes + _WAVES[wave])


_WORDS = DeviceWords(
    convention="amdgpu_kernel",
    frame="ptr addrspace(4) noundef byref([{size} x i8]) align 8 %arguments",
    attributes=f'"amdgpu-flat-work-group-size"="1,{BLOCK}" "uniform-work-group-size"="true"',
    support=CODE_OBJECT + _SUPPORT + STATE_FUNCTIONS,
    supported=("qd_thread", "qd_threads", *SUPPORTED),
    opening=("%frame = addrspacecast ptr addrspace(4) %arguments to ptr",),
    stack_space=5,
    constant_space=4,
    atomic_scope=' syncscope("agent")',
    sum_annotations=", !amdgpu.no.fine.grained.memory !0, !amdgpu.no.remote.memory !0",
)
