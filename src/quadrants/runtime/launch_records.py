"""The tables that a launch walks, as machine code and Python share them."""

from __future__ import annotations

import ctypes

__all__ = [
    "LARGEST_EXACT",
    "ArgumentRecord",
    "BlockRecord",
    "GuardGroup",
    "GuardRecord",
    "KernelObject",
    "MemberRecord",
    "OrderRecord",
    "TensorRecord",
    "WordGuard",
]

_I64, _I32, _PTR = ctypes.c_int64, ctypes.c_int32, ctypes.c_void_p

LARGEST_EXACT = 1 << 53
"""Integers up to here are exact as f64."""


class KernelObject(ctypes.Structure):
    """An instance of the kernel type: the head of every object, the entry of calls, the first binding to try. `installs`
    grows whenever bindings come or go: their addresses may come back."""

    _fields_ = [("references", _I64), ("type", _PTR), ("vectorcall", _PTR), ("block", _PTR), ("installs", _I64)]


class BlockRecord(ctypes.Structure):
    """One binding. A frame is `frame_bytes` long: the kernel's part, then the intervals of memory that arguments span.

    `template` is the part of the initial frame that arguments do not overwrite; it goes to `template_offset`.

    With `watched`, the rest counts: launches whose arrays (`sizes`: offset of a descriptor and rank, `size_count` of them)
    have less than `size_low` elements, or `size_high` or more, do not fit; launches run on `threads` threads at most
    (0: all) and, with a `limit`, are counted in `runs` and timed: once `spent` nanoseconds reach it, Python is asked.

    With `release` the interpreter's lock is released while the entry runs; where `long_run` is not 0 each launch decides that for the next
    one: it is if the launch took more cycles than that.

    From `streams` on the frame has `stream_count` words, the streams in which owners of arrays work;
    `order_of_streams` is an `OrderRecord`. From `held` on it has `held_count` references to objects that are kept for the launch. With
    `by_python` Python runs the entry, on a frame whose arguments fit, and is given those.
    """

    _fields_ = [
        ("next", _PTR),
        ("owner", _PTR),
        ("entry", _PTR),
        ("argument_count", _I64),
        ("arguments", _PTR),
        ("member_count", _I64),
        ("members", _PTR),
        ("keywords", _PTR),
        ("defaults", _PTR),
        ("frame_bytes", _I64),
        ("kernel_bytes", _I64),
        ("on_heap", _I64),
        ("template", _PTR),
        ("template_offset", _I64),
        ("template_bytes", _I64),
        ("guarded", _I64),
        ("group_count", _I64),
        ("groups", _PTR),
        ("word_count", _I64),
        ("words", _PTR),
        ("interval_count", _I64),
        ("intervals", _I64),
        ("fixed_count", _I64),
        ("fixed", _PTR),
        ("order", _PTR),
        ("written", _PTR),
        ("result", _PTR),
        ("result_offset", _I64),
        ("release", _I64),
        ("long_run", _I64),
        ("watched", _I64),
        ("size_count", _I64),
        ("sizes", _PTR),
        ("size_low", _I64),
        ("size_high", _I64),
        ("threads", _I64),
        ("limit", _I64),
        ("spent", _I64),
        ("runs", _I64),
        ("stream_count", _I64),
        ("streams", _I64),
        ("order_of_streams", _PTR),
        ("held_count", _I64),
        ("held", _I64),
        ("by_python", _I64),
    ]


class ArgumentRecord(ctypes.Structure):
    """One parameter: `handler` is `i1(record, object, frame)`, true if the object fits; it fills in the frame. `held`: where in the frame
    the launch keeps a reference to the object; 0: it keeps none."""

    _fields_ = [
        ("handler", _PTR),
        ("offset", _I64),
        ("interval", _I64),
        ("bytes", _I64),
        ("type", _PTR),
        ("identity", _PTR),
        ("rank", _I64),
        ("word", _I64),
        ("other_word", _I64),
        ("flags", _I32),
        ("integers_too", _I32),
        ("size_count", _I64),
        ("sizes", _PTR),
        ("low", _I64),
        ("high", _I64),
        ("first_slot", _I64),
        ("second_slot", _I64),
        ("read", _PTR),
        ("ask", _PTR),
        ("stream", _I64),
        ("held", _I64),
    ]


class MemberRecord(ctypes.Structure):
    """A parameter that no argument gives: `way` 0: the object `source`; 1: the value of `key` in the dictionary `source`; 2:
    what stands at the address `source`; 3: item number `key` of the tuple that is argument number `source`."""

    _fields_ = [("way", _I64), ("source", _PTR), ("key", _PTR), ("argument", ArgumentRecord)]


class GuardGroup(ctypes.Structure):
    """The names of one dictionary that must still have their values; `version` is when they last were seen to."""

    _fields_ = [("dictionary", _PTR), ("version", _I64), ("count", _I64), ("guards", _PTR)]


class GuardRecord(ctypes.Structure):
    """One name: `expected` is null where the name must be absent."""

    _fields_ = [("key", _PTR), ("expected", _PTR)]


class WordGuard(ctypes.Structure):
    """A word of memory that must still hold a pointer."""

    _fields_ = [("address", _PTR), ("expected", _PTR)]


class TensorRecord(ctypes.Structure):
    """DLPack's `DLTensor`: an array as other packages describe it; strides count elements."""

    _fields_ = [
        ("data", _PTR),
        ("device", _I64),
        ("rank", _I32),
        ("type", _I32),
        ("shape", _PTR),
        ("strides", _PTR),
        ("byte_offset", _I64),
    ]


class OrderRecord(ctypes.Structure):
    """How streams of a device wait for one another. `stream`: where the number of the stream stands that is launched to.
    Functions of C, which give 0 or a code for `failed`: `enter(context)`; `record(event, stream)` notes what a stream has to do;
    `wait(stream, event, 0)`: what comes to a stream waits for that. `noted` is what a kernel's entry gives after `failed`."""

    _fields_ = [
        ("stream", _PTR),
        ("context", _PTR),
        ("event", _PTR),
        ("enter", _PTR),
        ("record", _PTR),
        ("wait", _PTR),
        ("failed", _PTR),
        ("noted", _I64),
    ]
