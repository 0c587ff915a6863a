"""The state that checks and prints of a device's tasks write to, as LLVM text, and as the host sees it.

The state is a block of device memory whose address the module's variable `qd_state` holds:

| bytes | what |
|---|---|
| 0 | i32: 1 once a check has failed |
| 8 | i64: the id of its message |
| 16 | i64: how many words follow |
| 24 | the words of the message's values, at most 32 |
| 288 | i64: bytes of print records asked for |
| 296 | i64: where the first record begins that did not fit |
| 304 | i64: bytes that there are for records |
| 312 | the records: { i64 format id; one word a value } |
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

__all__ = ["STATE", "STATE_FUNCTIONS", "SUPPORTED", "State"]

STATE = "qd_state"
_WORDS, _PRINTED, _RECORDS = 24, 288, 312

STATE_FUNCTIONS = """
@qd_state = addrspace(1) externally_initialized global ptr null, align 8
declare i64 @llvm.umin.i64(i64, i64)
define internal i1 @qd_failed() alwaysinline nounwind {
  %state = load ptr, ptr addrspace(1) @qd_state, align 8, !invariant.load !0
  %flag = load atomic i32, ptr %state monotonic, align 4
  %r = icmp ne i32 %flag, 0
  ret i1 %r
}
define internal void @qd_copy(ptr %to, ptr %from, i64 %count) alwaysinline nounwind {
entry:
  br label %head
head:
  %k = phi i64 [ 0, %entry ], [ %next, %copy ]
  %more = icmp ult i64 %k, %count
  br i1 %more, label %copy, label %done
copy:
  %from.k = getelementptr inbounds i64, ptr %from, i64 %k
  %word = load i64, ptr %from.k, align 8
  %to.k = getelementptr inbounds i64, ptr %to, i64 %k
  store i64 %word, ptr %to.k, align 8
  %next = add nuw nsw i64 %k, 1
  br label %head
done:
  ret void
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
  call void @qd_copy(ptr %to, ptr %words, i64 %kept)
  br label %done
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
  call void @qd_copy(ptr %to, ptr %record, i64 %count)
  br label %done
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
"""The variable, `qd_failed`, `qd_fail` and `qd_print` (targets/llvm/emit_device.py), and what the last two share."""

SUPPORTED = ("qd_failed", "qd_copy", "qd_fail", "qd_print", "llvm.umin.i64")
"""The symbols that `STATE_FUNCTIONS` defines or declares."""


class State:
    """The state as the host has it, in memory of the device with `room` bytes for print records."""

    def __init__(self, allocate: Callable[[int], Any], room: int) -> None:
        self.room = room
        self._memory = allocate(_RECORDS + room)
        self._memory.write(0, bytes(_PRINTED) + struct.pack("<3q", 0, 0, room))

    @property
    def address(self) -> int:
        return self._memory.address

    def take_failure(self) -> tuple[int, tuple[int, ...]] | None:
        """The message's id and the words of the first check that failed since the last call. Waits for all launches."""
        failed, number, count = struct.unpack("<ixxxxqq", self._memory.read(0, _WORDS))
        if not failed:
            return None
        words = struct.unpack(f"<{count}q", self._memory.read(_WORDS, 8 * count))
        self._memory.write(0, bytes(_WORDS))
        return number, words

    def take_prints(self) -> tuple[bytes, int]:
        """The records since the last call, and how many bytes of others there was no room for. Waits for all launches."""
        asked, cut, room = struct.unpack("<3q", self._memory.read(_PRINTED, _RECORDS - _PRINTED))
        if not asked:
            return b"", 0
        used = asked if asked <= room else cut
        self._memory.write(_PRINTED, bytes(16))
        return self._memory.read(_RECORDS, used), asked - used
