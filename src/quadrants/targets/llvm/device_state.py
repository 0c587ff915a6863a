"""The state that checks and prints of a device's tasks write to, as LLVM text, and as the host sees it.

The state is a block of device memory whose address the module's variable `qd_state` holds:

| bytes | what |
|---|---|
| 0 | i32: 1 once a check has failed |
| 8 | i64: the id of its message |
| 16 | i64: how many words follow |
| 24 | the words of the message's values, at most `FAILURE_WORDS` |
| 288 | i64: bytes of print records asked for |
| 296 | i64: where the first record begins that did not fit |
| 304 | i64: bytes that there are for records |
| 312 | the records: { i64 format id; one word a value } |
"""

from __future__ import annotations

__all__ = ["FAILURE_WORDS", "RECORDS", "STATE", "STATE_FUNCTIONS", "SUPPORTED", "state_image"]

FAILURE_WORDS = 32
RECORDS = 312
"""Where print records begin in the state."""
STATE = "qd_state"

STATE_FUNCTIONS = """
@qd_state = addrspace(1) externally_initialized global ptr null, align 8
declare i64 @llvm.umin.i64(i64, i64)
define internal i1 @qd_failed() alwaysinline nounwind {
  %state = load ptr, ptr addrspace(1) @qd_state, align 8, !invariant.load !0
  %flag = load atomic i32, ptr %state monotonic, align 4
  %r = icmp ne i32 %flag, 0
  ret i1 %r
}
define internal void @qd_fail(i64 %id, ptr %words, i64 %count) nounwind cold noinline {
entry:
  %state = load ptr, ptr addrspace(1) @qd_state, align 8, !invariant.load !0
  %old = atomicrmw xchg ptr %state, i32 1 monotonic, align 4
  %first = icmp eq i32 %old, 0
  br i1 %first, label %tell, label %done
tell:
  %at.id = getelementptr inbounds i8, ptr %state, i64 8
  store i64 %id, ptr %at.id, align 8
  %kept = call i64 @llvm.umin.i64(i64 %count, i64 32)
  %at.count = getelementptr inbounds i8, ptr %state, i64 16
  store i64 %kept, ptr %at.count, align 8
  %to = getelementptr inbounds i8, ptr %state, i64 24
  br label %head
head:
  %k = phi i64 [ 0, %tell ], [ %next, %copy ]
  %more = icmp ult i64 %k, %kept
  br i1 %more, label %copy, label %done
copy:
  %from.k = getelementptr inbounds i64, ptr %words, i64 %k
  %word = load i64, ptr %from.k, align 8
  %to.k = getelementptr inbounds i64, ptr %to, i64 %k
  store i64 %word, ptr %to.k, align 8
  %next = add nuw nsw i64 %k, 1
  br label %head
done:
  ret void
}
define internal void @qd_print(ptr %record, i64 %bytes) nounwind noinline {
entry:
  %state = load ptr, ptr addrspace(1) @qd_state, align 8, !invariant.load !0
  %at.asked = getelementptr inbounds i8, ptr %state, i64 288
  %start = atomicrmw add ptr %at.asked, i64 %bytes monotonic, align 8
  %end = add i64 %start, %bytes
  %at.room = getelementptr inbounds i8, ptr %state, i64 304
  %room = load i64, ptr %at.room, align 8
  %fits = icmp ule i64 %end, %room
  br i1 %fits, label %begin, label %full
begin:
  %records = getelementptr inbounds i8, ptr %state, i64 312
  %to = getelementptr inbounds i8, ptr %records, i64 %start
  %count = lshr i64 %bytes, 3
  br label %head
head:
  %k = phi i64 [ 0, %begin ], [ %next, %copy ]
  %more = icmp ult i64 %k, %count
  br i1 %more, label %copy, label %done
copy:
  %from.k = getelementptr inbounds i64, ptr %record, i64 %k
  %word = load i64, ptr %from.k, align 8
  %to.k = getelementptr inbounds i64, ptr %to, i64 %k
  store i64 %word, ptr %to.k, align 8
  %next = add nuw nsw i64 %k, 1
  br label %head
full:
  %last = icmp ule i64 %start, %room
  br i1 %last, label %note, label %done
note:
  %at.cut = getelementptr inbounds i8, ptr %state, i64 296
  store i64 %start, ptr %at.cut, align 8
  br label %done
done:
  ret void
}
"""
"""The variable, and `qd_failed`, `qd_fail` and `qd_print` (targets/llvm/emit_device.py)."""

SUPPORTED = ("qd_failed", "qd_fail", "qd_print", "llvm.umin.i64")
"""The symbols that `STATE_FUNCTIONS` defines or declares."""


def state_image(room: int) -> bytes:
    """The state before the first task, with so many bytes for print records behind it."""
    return bytes(288) + (0).to_bytes(8, "little") * 2 + room.to_bytes(8, "little")
