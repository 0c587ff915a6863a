"""The launcher's machine code: one function behind the kernel type, driven by the tables of `launch_records`.

Every check that fails leads to Python's slow path, which knows all rules; nothing is decided here that Python would
decide differently. Argument handlers are `i1(record, object, frame)`, results are `ptr(self, block, frame)`.
"""

from __future__ import annotations

import ctypes

from quadrants.runtime.launch_probe import Facts
from quadrants.runtime.launch_records import (
    LARGEST_EXACT,
    ArgumentRecord,
    BlockRecord,
    GuardGroup,
    GuardRecord,
    KernelObject,
    MemberRecord,
    OrderRecord,
    WordGuard,
)
from quadrants.runtime.native_text import Function, Module, Record, Value
from quadrants.runtime.threads_native import pool
from quadrants.runtime.threads_services import run_entry

__all__ = [
    "ARGUMENT_HANDLERS",
    "LARGEST_STACK_FRAME",
    "RESULTS",
    "build",
    "build_read_integer",
    "build_span",
    "handler",
    "is_type",
    "note_extent",
    "type_of",
]

LARGEST_STACK_FRAME = 64 << 10
ARGUMENT_HANDLERS = (
    "array",
    "float",
    "integer",
    "boolean",
    "scalar",
    "converted",
    "storage",
    "resident",
    "identity",
    "tuple",
)
RESULTS = {
    "i8": ("i8", "sext", "PyLong_FromLongLong"),
    "i16": ("i16", "sext", "PyLong_FromLongLong"),
    "i32": ("i32", "sext", "PyLong_FromLongLong"),
    "i64": ("i64", "", "PyLong_FromLongLong"),
    "u8": ("i8", "zext", "PyLong_FromUnsignedLongLong"),
    "u16": ("i16", "zext", "PyLong_FromUnsignedLongLong"),
    "u32": ("i32", "zext", "PyLong_FromUnsignedLongLong"),
    "u64": ("i64", "", "PyLong_FromUnsignedLongLong"),
    "f32": ("float", "fpext", "PyFloat_FromDouble"),
    "f64": ("double", "", "PyFloat_FromDouble"),
}
_MISMATCH = 1  # in place of an object: this binding does not fit
_ASK = 2  # in place of an object: it would fit, but Python wants to decide


def build(module: Module, facts: Facts) -> None:
    """Write the launcher for an interpreter with these facts."""
    build_span(module)
    _build_array(module, facts)
    build_read_integer(module, facts)
    _build_float(module, facts)
    _build_integer(module, facts)
    _build_boolean(module)
    _build_scalar(module, facts)
    _build_converted(module, facts)
    _build_storage(module, facts, "storage")
    _build_storage(module, facts, "resident")
    _build_identity(module)
    _build_tuple(module)
    _build_results(module)
    _build_guards(module, facts)
    _build_arrange(module, facts)
    _build_members(module)
    _build_overlap(module)
    _build_size_fits(module)
    _build_watched(module)
    _build_in_order(module)
    _build_let_go(module)
    _build_by_python(module, facts)
    _build_attempt(module)
    _build_slow(module, facts)
    _build_launch(module)


def handler(module: Module, name: str) -> tuple[Function, Record, Value, Value]:
    f = module.function(f"qd_bind_{name}", "i1", "ptr record", "ptr object", "ptr frame")
    record, item, frame = f.parameters
    return f, Record(f, record, ArgumentRecord), item, frame


def type_of(f: Function, item: Value) -> Value:
    return f.load("ptr", item, KernelObject.type.offset)


def is_type(f: Function, item: Value, name: str) -> Value:
    return type_of(f, item).is_equal(f.external(name))


# ---------------------------------------------------------------------------------------------------------- arguments


def _build_array(module: Module, facts: Facts) -> None:
    f, record, item, frame = handler(module, "array")
    f.give_if(type_of(f, item).is_not(f.external("qd_numpy_array")), 0)
    dtype = f.load("ptr", item, facts.dtype)
    with f.when(dtype.is_not(record.get("type"))):  # an unpickled array has a dtype object of its own
        word = f.load("i64", dtype, facts.dtype_word) & _signed(facts.dtype_mask)
        with f.when(word.is_not(record.get("word"))):
            f.give_if(word.is_not(record.get("other_word")), 0)
    rank = record.get("rank")
    f.give_if(f.load("i32", item, facts.rank).converted("sext", "i64").is_not(rank), 0)
    flags, needed = f.load("i32", item, facts.flags), record.get("flags")
    f.give_if((flags & needed).is_not(needed), 0)
    shape = f.load("ptr", item, facts.shape)
    sizes = record.get("sizes")
    with f.count(record.get("size_count")) as index:
        expected = f.load("i64", sizes, index * 16 + 8)
        f.give_if(f.load("i64", shape, f.load("i64", sizes, index * 16) * 8).is_not(expected), 0)
    f.give_if(f.load("ptr", item, facts.strides).is_not(f.offset(shape, rank * 8)), 0)
    descriptor = f.offset(frame, record.get("offset"))
    f.store("ptr", f.load("ptr", item, facts.data), descriptor)
    _copy_axes(f, rank, shape, descriptor)
    with f.when(record.get("interval").is_not(0)):
        contiguous = (flags & 1).is_not(0)
        with f.when(contiguous):
            size = f.variable("i64", record.get("bytes"))
            with f.count(rank) as axis:
                size.value = size.value * f.load("i64", shape, axis * 8)
            _note_interval(f, record, frame, f.constant("i64", 0), size.value)
        with f.when(contiguous.is_equal(0)):
            f.call("qd_span", "void", record.base, frame)
    f.give(f.constant("i1", 1))


def _signed(word: int) -> int:
    return word - (1 << 64) if word >> 63 else word


def _copy_axes(f: Function, rank: Value, source: Value, descriptor: Value) -> None:
    """Copy sizes and strides, which follow one another in the source as they do in the descriptor."""
    target = f.offset(descriptor, 8)
    with f.count(rank) as axis:
        f.store_vector(f.load_vector("<2 x i64>", source, axis * 16), target, axis * 16)


def _note_interval(f: Function, record: Record, frame: Value, low: Value, high: Value) -> None:
    """Note the bytes that an array reaches, counted from its data; nothing if it has no elements."""
    empty = low.is_equal(high)
    start = f.load("i64", frame, record.get("offset"))
    interval = f.offset(frame, record.get("interval"))
    f.store("i64", f.select(empty, 0, start + low, "i64"), interval)
    f.store("i64", f.select(empty, 0, start + high, "i64"), interval, 8)


def build_span(module: Module) -> None:
    """qd_span(record, frame): note the interval of the descriptor in the frame, whatever its strides."""
    f = module.function("qd_span", "void", "ptr record", "ptr frame", exported=False)
    record, frame = Record(f, f.parameters[0], ArgumentRecord), f.parameters[1]
    rank = record.get("rank")
    shape = f.offset(f.offset(frame, record.get("offset")), 8)
    strides = f.offset(shape, rank * 8)
    low, high = f.variable("i64", 0), f.variable("i64", record.get("bytes"))
    empty = f.variable("i1", 0)
    with f.count(rank) as axis:
        size = f.load("i64", shape, axis * 8)
        reach = (size - 1) * f.load("i64", strides, axis * 8)
        low.value = low.value + f.smaller(reach, 0)
        high.value = high.value + f.larger(reach, 0)
        empty.value = empty.value | size.is_equal(0)
    _note_interval(f, record, frame, low.value, f.select(empty.value, low.value, high.value, "i64"))
    f.give()


def note_extent(f: Function, record: Record, frame: Value) -> None:
    """Note the interval of the descriptor in the frame, where intervals are asked for."""
    with f.when(record.get("interval").is_not(0)):
        f.call("qd_span", "void", record.base, frame)


def build_read_integer(module: Module, facts: Facts) -> None:
    """qd_read_integer(object, overflow): value of a Python int; a non-zero `overflow` if 64 signed bits are too few."""
    f = module.function("qd_read_integer", "i64", "ptr object", "ptr overflow", exported=False)
    item, overflow = f.parameters
    tag = f.load("i64", item, facts.integer_tag)
    digit = f.load("i32", item, facts.integer_digits).converted("zext", "i64")
    f.store("i32", 0, overflow)
    if facts.integers_are_tagged:
        f.give_if(tag.is_below(16), digit * (f.constant("i64", 1) - (tag & 3)))
    else:
        f.give_if((tag + 1).is_below(3), digit * tag)
    f.give(f.call("PyLong_AsLongLongAndOverflow", "i64", item, overflow))


def _build_float(module: Module, facts: Facts) -> None:
    f, record, item, frame = handler(module, "float")
    value = f.variable("double", 0.0)
    overflow = f.entry_slot("alloca i32")
    fits = is_type(f, item, "PyFloat_Type")
    with f.when(fits):
        value.value = f.load("double", item, facts.number)
    with f.when(fits.is_equal(0)):
        f.give_if(record.get("integers_too").is_equal(0), 0)
        f.give_if(is_type(f, item, "PyLong_Type").is_equal(0), 0)
        whole = f.call("qd_read_integer", "i64", item, overflow)
        f.give_if(f.load("i32", overflow).is_not(0), 0)
        f.give_if(f.constant("i64", 2 * LARGEST_EXACT).is_below(whole + LARGEST_EXACT), 0)
        value.value = whole.converted("sitofp", "double")
    slot = f.offset(frame, record.get("offset"))
    double = record.get("bytes").is_equal(8)
    with f.when(double):
        f.store("double", value.value, slot)
    with f.when(double.is_equal(0)):
        f.store("float", value.value.converted("fptrunc", "float"), slot)
    f.give(f.constant("i1", 1))


def _build_integer(module: Module, facts: Facts) -> None:
    f, record, item, frame = handler(module, "integer")
    overflow = f.entry_slot("alloca i32")
    f.give_if(is_type(f, item, "PyLong_Type").is_equal(0), 0)
    value = f.call("qd_read_integer", "i64", item, overflow)
    f.give_if(f.load("i32", overflow).is_not(0), 0)
    f.give_if(value < record.get("low"), 0)
    f.give_if(value > record.get("high"), 0)
    _store_bytes(f, value, f.offset(frame, record.get("offset")), record.get("bytes"))
    f.give(f.constant("i1", 1))


def _store_bytes(f: Function, value: Value, slot: Value, size: Value) -> None:
    """Store the low `size` bytes of a word."""
    with f.when(size.is_equal(8)):
        f.store("i64", value, slot)
    for count, kind in ((4, "i32"), (2, "i16"), (1, "i8")):
        with f.when(size.is_equal(count)):
            f.store(kind, value.converted("trunc", kind), slot)


def _build_boolean(module: Module) -> None:
    f, record, item, frame = handler(module, "boolean")
    true = item.is_equal(f.external("_Py_TrueStruct"))
    with f.when(true.is_equal(0)):
        f.give_if(item.is_not(f.external("_Py_FalseStruct")), 0)
    f.store("i8", true.converted("zext", "i8"), frame, record.get("offset"))
    f.give(f.constant("i1", 1))


def _build_scalar(module: Module, facts: Facts) -> None:
    """A NumPy scalar of one exact type: its bytes lie at the start of the object."""
    f, record, item, frame = handler(module, "scalar")
    f.give_if(type_of(f, item).is_not(record.get("type")), 0)
    size, slot = record.get("bytes"), f.offset(frame, record.get("offset"))
    for count, kind in ((8, "i64"), (4, "i32"), (2, "i16"), (1, "i8")):
        with f.when(size.is_equal(count)):
            f.store(kind, f.load(kind, item, facts.number), slot)
    f.give(f.constant("i1", 1))


def _build_converted(module: Module, facts: Facts) -> None:
    """A NumPy scalar of one exact type as another type of number: `word` are the bytes that it has, `other_word` is 0 where these
    are a signed integer, 1 where they are an unsigned one, 2 where they are a float. With `flags` a float is stored."""
    f, record, item, frame = handler(module, "converted")
    f.give_if(type_of(f, item).is_not(record.get("type")), 0)
    size, kind = record.get("word"), record.get("other_word")
    whole, value = f.variable("i64", 0), f.variable("double", 0.0)
    is_float = kind.is_equal(2)
    with f.when(is_float):
        with f.when(size.is_equal(8)):
            value.value = f.load("double", item, facts.number)
        with f.when(size.is_equal(4)):
            value.value = f.load("float", item, facts.number).converted("fpext", "double")
    with f.when(is_float.is_equal(0)):
        for count, name in ((8, "i64"), (4, "i32"), (2, "i16"), (1, "i8")):
            with f.when(size.is_equal(count)):
                held = f.load(name, item, facts.number)
                if count == 8:
                    f.give_if(kind.is_equal(1) & (held < 0), 0)  # beyond 63 bits
                    whole.value = held
                else:
                    signed, unsigned = held.converted("sext", "i64"), held.converted("zext", "i64")
                    whole.value = f.select(kind.is_equal(1), unsigned, signed, "i64")
        f.give_if(whole.value < record.get("low"), 0)
        f.give_if(whole.value > record.get("high"), 0)
        value.value = whole.value.converted("sitofp", "double")
    slot, bytes_ = f.offset(frame, record.get("offset")), record.get("bytes")
    stores_float = record.get("flags").is_not(0)
    with f.when(stores_float):
        with f.when(bytes_.is_equal(8)):
            f.store("double", value.value, slot)
        with f.when(bytes_.is_equal(4)):
            f.store("float", value.value.converted("fptrunc", "float"), slot)
    with f.when(stores_float.is_equal(0)):
        _store_bytes(f, whole.value, slot, bytes_)
    f.give(f.constant("i1", 1))


def _build_storage(module: Module, facts: Facts, kind: str) -> None:
    """An object of ours: its descriptor is a bytes object in one slot, its interned type in another. That of a `resident` one
    ends with the address of a word that says that it is written."""
    f, record, item, frame = handler(module, kind)
    words = 1 if kind == "storage" else 2
    f.give_if(type_of(f, item).is_not(record.get("type")), 0)
    f.give_if(f.load("ptr", item, record.get("first_slot")).is_not(record.get("identity")), 0)
    content = f.load("ptr", item, record.get("second_slot"))
    f.give_if(content.is_equal(None), 0)
    f.give_if(is_type(f, content, "PyBytes_Type").is_equal(0), 0)
    rank = record.get("rank")
    f.give_if(f.load("i64", content, facts.bytes_size).is_not(rank * 16 + 8 * words), 0)
    descriptor = f.offset(frame, record.get("offset"))
    source = f.offset(content, facts.bytes_content)
    f.store("ptr", f.load("ptr", source), descriptor)
    _copy_axes(f, rank, f.offset(source, 8), descriptor)
    note_extent(f, record, frame)
    if kind == "resident":
        with f.when(record.get("flags").is_not(0)):
            f.store("i64", 1, f.load("ptr", source, rank * 16 + 8))
    f.give(f.constant("i1", 1))


def _build_identity(module: Module) -> None:
    f, record, item, _ = handler(module, "identity")
    f.give(item.is_equal(record.get("identity")))


def _build_tuple(module: Module) -> None:
    """A tuple of so many items, which the members look at."""
    f, record, item, _ = handler(module, "tuple")
    f.give_if(is_type(f, item, "PyTuple_Type").is_equal(0), 0)
    f.give(f.call("PyTuple_Size", "i64", item).is_equal(record.get("bytes")))


# ------------------------------------------------------------------------------------------------------------ results


def _build_results(module: Module) -> None:
    for name, (kind, conversion, maker) in RESULTS.items():
        f, block, frame = _result(module, name)
        value = f.load(kind, frame, block.get("result_offset"))
        if conversion:
            value = value.converted(conversion, "double" if kind == "float" else "i64")
        f.give(f.call(maker, "ptr", value))
    f, block, frame = _result(module, "u1")
    value = f.load("i8", frame, block.get("result_offset")).is_not(0)
    f.give(f.call("PyBool_FromLong", "ptr", value.converted("zext", "i64")))
    f, _, _ = _result(module, "none")
    nothing = f.external("_Py_NoneStruct")
    f.call("Py_IncRef", "void", nothing)
    f.give(nothing)
    f, block, frame = _result(module, "python")
    content = f.call("PyBytes_FromStringAndSize", "ptr", frame, block.get("kernel_bytes"))
    f.give_if(content.is_equal(None), None)
    result = _call_method(f, f.parameters[0], "qd_name_unpack", content, block.get("owner"))
    f.call("Py_DecRef", "void", content)
    f.give(result)


def _result(module: Module, name: str) -> tuple[Function, Record, Value]:
    f = module.function(f"qd_result_{name}", "ptr", "ptr self", "ptr block", "ptr frame")
    return f, Record(f, f.parameters[1], BlockRecord), f.parameters[2]


def _call_method(f: Function, item: Value, name: str, *arguments: Value) -> Value:
    types = ",".join(["ptr"] * (len(arguments) + 3))
    return f.call(
        "PyObject_CallMethodObjArgs", "ptr", item, f.external(name), *arguments, None, types=types, variadic=2
    )


# ------------------------------------------------------------------------------------------------- guards, order, overlap


def _build_guards(module: Module, facts: Facts) -> None:
    """qd_guards(block): whether captured names and cells still hold what the kernel was compiled with."""
    f = module.function("qd_guards", "i1", "ptr block", exported=False)
    block = Record(f, f.parameters[0], BlockRecord)
    words = block.get("words")
    with f.count(block.get("word_count"), step=1) as index:
        word = Record(f, f.offset(words, index * 16), WordGuard)
        f.give_if(f.load("ptr", word.get("address")).is_not(word.get("expected")), 0)
    groups = block.get("groups")
    with f.count(block.get("group_count")) as index:
        group = Record(f, f.offset(groups, index * 32), GuardGroup)
        dictionary = group.get("dictionary")
        version = f.constant("i64", 0)
        changed = f.constant("i1", 1)
        if facts.dictionary_version >= 0:
            version = f.load("i64", dictionary, facts.dictionary_version)
            changed = version.is_not(group.get("version"))
        with f.when(changed):
            guards = group.get("guards")
            with f.count(group.get("count")) as place:
                guard = Record(f, f.offset(guards, place * 16), GuardRecord)
                found = f.call("PyDict_GetItemWithError", "ptr", dictionary, guard.get("key"))
                f.give_if(found.is_not(guard.get("expected")), 0)
            group.set("version", version)
    f.give(f.constant("i1", 1))


def _build_arrange(module: Module, facts: Facts) -> None:
    """qd_arrange(block, args, count, names, objects): positional, keyword and default arguments in parameter order."""
    f = module.function(
        "qd_arrange", "i1", "ptr block", "ptr args", "i64 count", "ptr names", "ptr objects", exported=False
    )
    block_at, args, count, names, objects = f.parameters
    block = Record(f, block_at, BlockRecord)
    total = block.get("argument_count")
    f.give_if(count > total, 0)
    defaults, keywords = block.get("defaults"), block.get("keywords")
    f.call("memcpy", "ptr", objects, args, count * 8)
    with f.count(total, start=count) as index:
        f.store("ptr", None, objects, index * 8)
    with f.when(names.is_not(None)), f.count(f.load("i64", names, facts.tuple_size)) as index:
        name = f.load("ptr", names, index * 8 + facts.tuple_items)
        place = f.variable("i64", count)
        with f.loop():
            current = place.value
            f.give_if(current >= total, 0)
            f.leave_if(f.load("ptr", keywords, current * 8).is_equal(name))
            place.value = current + 1
        slot = f.offset(objects, place.value * 8)
        f.give_if(f.load("ptr", slot).is_not(None), 0)
        f.store("ptr", f.load("ptr", args, (count + index) * 8), slot)
    with f.count(total, start=count) as index:
        slot = f.offset(objects, index * 8)
        with f.when(f.load("ptr", slot).is_equal(None)):
            default = f.load("ptr", defaults, index * 8)
            f.give_if(default.is_equal(None), 0)
            f.store("ptr", default, slot)
    f.give(f.constant("i1", 1))


def _build_members(module: Module) -> None:
    """qd_members(block, objects, frame): fill in the parameters that come from within the arguments, or from elsewhere;
    false if one does not fit."""
    f = module.function("qd_members", "i1", "ptr block", "ptr objects", "ptr frame", exported=False)
    block_at, objects, frame = f.parameters
    block = Record(f, block_at, BlockRecord)
    members = block.get("members")
    with f.count(block.get("member_count")) as index:
        member = Record(f, f.offset(members, index * ctypes.sizeof(MemberRecord)), MemberRecord)
        way, source = member.get("way"), member.get("source")
        item = f.variable("ptr", source)
        with f.when(way.is_equal(1)):
            item.value = f.call("PyDict_GetItemWithError", "ptr", source, member.get("key"))
        with f.when(way.is_equal(2)):
            item.value = f.load("ptr", source)
        with f.when(way.is_equal(3)):
            container = f.load("ptr", objects, source.converted("ptrtoint", "i64") * 8)
            item.value = f.call("PyTuple_GetItem", "ptr", container, member.get("key").converted("ptrtoint", "i64"))
        f.give_if(item.value.is_equal(None), 0)
        f.give_if(_bind(f, member.address("argument"), item.value, frame).is_equal(0), 0)
    f.give(f.constant("i1", 1))


def _build_overlap(module: Module) -> None:
    """qd_overlap(block, frame): whether memory that is written is also reached through another argument.

    The order of addresses of the last call is tried first: intervals that are disjoint in it need no other look.
    """
    f = module.function("qd_overlap", "i1", "ptr block", "ptr frame", exported=False)
    block_at, frame = f.parameters
    block = Record(f, block_at, BlockRecord)
    count, order, written = block.get("interval_count"), block.get("order"), block.get("written")
    intervals = f.offset(frame, block.get("intervals"))
    with f.when(block.get("fixed_count").is_not(0)):
        f.call("memcpy", "ptr", intervals, block.get("fixed"), block.get("fixed_count") * 16)
    end, place = f.variable("i64", 0), f.variable("i64", 0)
    with f.loop():
        index = place.value
        f.give_if(index >= count, 0)
        interval = f.offset(intervals, f.load("i64", order, index * 8) * 16)
        f.leave_if(f.load("i64", interval).is_below(end.value))
        end.value = f.load("i64", interval, 8)
        place.value = index + 1
    _sort_order(f, count, order, intervals)
    with f.count(count) as first, f.when(f.load("i64", written, first * 8).is_not(0)):
        low, high = f.load("i64", intervals, first * 16), f.load("i64", intervals, first * 16 + 8)
        with f.count(count) as second:
            below = f.load("i64", intervals, second * 16).is_below(high)
            above = low.is_below(f.load("i64", intervals, second * 16 + 8))
            f.give_if(below & above & second.is_not(first), f.constant("i1", 1))
    f.give(0)


def _sort_order(f: Function, count: Value, order: Value, intervals: Value) -> None:
    """Sort the order by the intervals' starts, by insertion: it is nearly sorted in most calls."""
    with f.count(count, start=1) as index:
        moved = f.load("i64", order, index * 8)
        start = f.load("i64", intervals, moved * 16)
        hole = f.variable("i64", index)
        with f.loop():
            current = hole.value
            f.leave_if(current <= 0)
            before = f.load("i64", order, current * 8 - 8)
            f.leave_if(f.load("i64", intervals, before * 16).is_below(start))
            f.store("i64", before, order, current * 8)
            hole.value = current - 1
        f.store("i64", moved, order, hole.value * 8)


# ------------------------------------------------------------------------------------------------------------- launching


def _hold(f: Function, item: Value) -> None:
    """Take a reference to an object that is not immortal; counts fit in 32 bits in every version of CPython."""
    f.store("i32", f.load("i32", item) + 1, item)


def _let_go(f: Function, item: Value) -> None:
    count = f.load("i32", item)
    last = count.is_equal(1)
    with f.when(last):
        f.call("Py_DecRef", "void", item)
    with f.when(last.is_equal(0)):
        f.store("i32", count - 1, item)


def _finish(f: Function, self: Value, block: Record, frame: Value) -> Value:
    """Run a filled frame, between what owners of arrays do in their streams, and make the result."""
    watched = block.get("watched").is_not(0)
    ordered = block.get("stream_count").is_not(0)
    outcome = f.variable("i32", 0)
    with f.when(ordered):
        outcome.value = f.call("qd_in_order", "i32", block.base, frame, f.constant("i1", 0))
    with f.when(outcome.value.is_equal(0)):
        by_python = block.get("by_python").is_not(0)
        with f.when(by_python):
            outcome.value = f.call("qd_by_python", "i32", self, block.base, frame)
        with f.when(watched):
            outcome.value = f.call("qd_watched", "i32", block.base, frame)
        with f.when((by_python | watched).is_equal(0)):
            outcome.value = run_entry(f, block.get("entry"), frame, block.get("release"), block)
        with f.when(ordered):
            error = [f.entry_slot("alloca ptr") for _ in range(3)]  # what was raised stays, whatever is called now
            f.call("PyErr_Fetch", "void", *error)
            behind = f.call("qd_in_order", "i32", block.base, frame, f.constant("i1", 1))
            f.call("PyErr_Restore", "void", *[f.load("ptr", slot) for slot in error])
            outcome.value = f.select(outcome.value.is_equal(0), behind, outcome.value, "i32")
    status = outcome.value
    result = f.variable("ptr", None)
    with f.when(status.is_equal(0)):
        result.value = f.call(block.get("result"), "ptr", self, block.base, frame)
    with f.when(status.is_not(0)), f.when(f.call("PyErr_Occurred", "ptr").is_equal(None)):
        code = f.call("PyLong_FromLongLong", "ptr", status.converted("sext", "i64"))
        with f.when(code.is_not(None)):
            result.value = _call_method(f, self, "qd_name_failed", code)
            f.call("Py_DecRef", "void", code)
    return result.value


def _build_in_order(module: Module) -> None:
    """qd_in_order(block, frame, after): the stream of launches waits for those in which owners of arrays work; `after` a launch
    they wait for it. Gives 0, or what the entry gives after an error that was noted. Streams that are the same need nothing."""
    f = module.function("qd_in_order", "i32", "ptr block", "ptr frame", "i1 after", exported=False)
    block_at, frame, after = f.parameters
    block = Record(f, block_at, BlockRecord)
    order = Record(f, block.get("order_of_streams"), OrderRecord)
    ours, streams = f.load("i64", order.get("stream")), f.offset(frame, block.get("streams"))
    last = f.variable("i64", ours)
    with f.count(block.get("stream_count")) as index:
        theirs = f.load("i64", streams, index * 8)
        with f.when(theirs.is_not(-1) & theirs.is_not(ours) & theirs.is_not(last.value)):
            last.value = theirs
            first, then = f.select(after, ours, theirs, "i64"), f.select(after, theirs, ours, "i64")
            code = f.variable("i32", f.call(order.get("enter"), "i32", order.get("context")))
            event = order.get("event")
            with f.when(code.value.is_equal(0)):
                code.value = f.call(order.get("record"), "i32", event, first)
            with f.when(code.value.is_equal(0)):
                code.value = f.call(order.get("wait"), "i32", then, event, f.constant("i32", 0))
            with f.when(code.value.is_not(0)):
                f.call(order.get("failed"), "void", code.value)
                f.give(order.get("noted").converted("trunc", "i32"))
    f.give(0)


def _bind(f: Function, record_at: Value, item: Value, frame: Value) -> Value:
    """Whether an object fits a parameter; where the launch needs a reference to it, the frame has one from then on."""
    record = Record(f, record_at, ArgumentRecord)
    held = record.get("held")
    with f.when(held.is_not(0)):
        f.call("Py_IncRef", "void", item)
        f.store("ptr", item, frame, held)
    return f.call(record.get("handler"), "i1", record_at, item, frame)


def _build_let_go(module: Module) -> None:
    """qd_let_go(block, frame): gives the references back that a launch has kept."""
    f = module.function("qd_let_go", "void", "ptr block", "ptr frame", exported=False)
    block, frame = Record(f, f.parameters[0], BlockRecord), f.parameters[1]
    held = f.offset(frame, block.get("held"))
    with f.count(block.get("held_count")) as index:
        item = f.load("ptr", held, index * 8)
        with f.when(item.is_not(None)):
            f.call("Py_DecRef", "void", item)
    f.give()


def _build_by_python(module: Module, facts: Facts) -> None:
    """qd_by_python(self, block, frame): call `self._run(binding, frame's address, held objects)`; 0, or -1 where it raised."""
    f = module.function("qd_by_python", "i32", "ptr self", "ptr block", "ptr frame", exported=False)
    self, block_at, frame = f.parameters
    block = Record(f, block_at, BlockRecord)
    count, held = block.get("held_count"), f.offset(frame, block.get("held"))
    address = f.call("PyLong_FromVoidPtr", "ptr", frame)
    f.give_if(address.is_equal(None), -1)
    objects = f.call("PyTuple_New", "ptr", count)
    result = f.variable("ptr", None)
    with f.when(objects.is_not(None)):
        with f.count(count) as index:
            item = f.load("ptr", held, index * 8)
            f.call("Py_IncRef", "void", item)
            f.store("ptr", item, objects, index * 8 + facts.tuple_items)
        result.value = _call_method(f, self, "qd_name_run", block.get("owner"), address, objects)
        f.call("Py_DecRef", "void", objects)
    f.call("Py_DecRef", "void", address)
    f.give_if(result.value.is_equal(None), -1)
    f.call("Py_DecRef", "void", result.value)
    f.give(0)


def _build_watched(module: Module) -> None:
    """qd_watched(block, frame): run a filled frame on the block's number of threads, and time it where that is wanted."""
    f = module.function("qd_watched", "i32", "ptr block", "ptr frame", exported=False)
    block_at, frame = f.parameters
    block, state = Record(f, block_at, BlockRecord), pool(f)
    limited, timed = block.get("threads").is_not(0), block.get("limit").is_not(0)
    before, after = f.entry_slot("alloca [2 x i64]"), f.entry_slot("alloca [2 x i64]")
    with f.when(limited):
        state.set("thread_limit", block.get("threads"))
    with f.when(timed):
        f.call("clock_gettime", "i32", module.host.monotonic, before, types="i32,ptr")
    status = run_entry(f, block.get("entry"), frame, block.get("release"), block)
    with f.when(timed):
        f.call("clock_gettime", "i32", module.host.monotonic, after, types="i32,ptr")
        seconds = f.load("i64", after) - f.load("i64", before)
        block.increase("spent", seconds * 1_000_000_000 + f.load("i64", after, 8) - f.load("i64", before, 8))
        block.increase("runs")
    with f.when(limited):
        state.set("thread_limit", 0)
    f.give(status)


def _build_size_fits(module: Module) -> None:
    """qd_size_fits(block, frame): whether the arrays' elements, all together, lie in the block's range."""
    f = module.function("qd_size_fits", "i1", "ptr block", "ptr frame", exported=False)
    block_at, frame = f.parameters
    block = Record(f, block_at, BlockRecord)
    total, sizes = f.variable("i64", 0), block.get("sizes")
    with f.count(block.get("size_count")) as index:
        shape = f.offset(frame, f.load("i64", sizes, index * 16) + 8)
        elements = f.variable("i64", 1)
        with f.count(f.load("i64", sizes, index * 16 + 8)) as axis:
            elements.value = elements.value * f.load("i64", shape, axis * 8)
        total.value = total.value + elements.value
    f.give((total.value >= block.get("size_low")) & (total.value < block.get("size_high")))


def _fill(f: Function, block: Record, objects: Value, frame: Value) -> Value:
    """Fill a frame in from the template and the arguments; false if one does not fit."""
    size = block.get("template_bytes")
    with f.when(size.is_not(0)):
        f.call("memcpy", "ptr", f.offset(frame, block.get("template_offset")), block.get("template"), size)
    record, fits = f.variable("ptr", block.get("arguments")), f.variable("i1", 1)
    with f.count(block.get("argument_count")) as index:
        current = record.value
        fits.value = _bind(f, current, f.load("ptr", objects, index * 8), frame)
        f.leave_if(fits.value.is_equal(0))
        record.value = f.offset(current, ctypes.sizeof(ArgumentRecord))
    with f.when(fits.value & (block.get("member_count") > 0)):
        fits.value = f.call("qd_members", "i1", block.base, objects, frame)
    with f.when(fits.value & (block.get("interval_count") > 1)):
        fits.value = f.call("qd_overlap", "i1", block.base, frame).is_equal(0)
    with f.when(fits.value & block.get("watched").is_not(0)):
        fits.value = f.call("qd_size_fits", "i1", block.base, frame)
    return fits.value


def _build_attempt(module: Module) -> None:
    """qd_attempt(self, block, args, count, names): launch with one binding, or say that it does not fit. The binding is kept
    through it, since arguments and kernels may run Python's code."""
    f = module.function(
        "qd_attempt", "ptr", "ptr self", "ptr block", "ptr args", "i64 count", "ptr names", exported=False
    )
    self, block_at, args, count, names = f.parameters
    block = Record(f, block_at, BlockRecord)
    mismatch = f.constant("i64", _MISMATCH).converted("inttoptr", "ptr")
    with f.when(block.get("guarded").is_not(0)):
        f.give_if(f.call("qd_guards", "i1", block_at).is_equal(0), mismatch)
    objects = f.variable("ptr", args)
    total = block.get("argument_count")
    with f.when(names.is_not(None) | count.is_not(total)):
        objects.value = f.stack_bytes(total * 8)
        fits = f.call("qd_arrange", "i1", block_at, args, count, names, objects.value)
        f.give_if(fits.is_equal(0), mismatch)
    on_heap = block.get("on_heap").is_not(0)
    frame = f.variable("ptr", None)
    with f.when(on_heap):
        frame.value = f.call("aligned_alloc", "ptr", 64, block.get("frame_bytes"), types="i64,i64")
        f.give_if(frame.value.is_equal(None), mismatch)
    with f.when(on_heap.is_equal(0)):
        frame.value = f.stack_bytes(block.get("frame_bytes"))
    result = f.variable("ptr", mismatch)
    owner = block.get("owner")
    _hold(f, owner)
    holds = block.get("held_count").is_not(0)
    with f.when(holds):
        f.call(
            "memset",
            "ptr",
            f.offset(frame.value, block.get("held")),
            0,
            block.get("held_count") * 8,
            types="ptr,i32,i64",
        )
    with f.when(_fill(f, block, objects.value, frame.value)):
        limit = block.get("limit")
        ask = limit.is_not(0) & (block.get("spent") >= limit)
        with f.when(ask):
            result.value = f.constant("i64", _ASK).converted("inttoptr", "ptr")
        with f.when(ask.is_equal(0)):
            result.value = _finish(f, self, block, frame.value)
    with f.when(holds):
        f.call("qd_let_go", "void", block_at, frame.value)
    with f.when(on_heap):
        f.call("free", "void", frame.value)
    _let_go(f, owner)
    f.give(result.value)


def _build_slow(module: Module, facts: Facts) -> None:
    """qd_slow(self, args, count, names): call `self._slow_call(arguments, keywords)`; keywords is None without any."""
    f = module.function("qd_slow", "ptr", "ptr self", "ptr args", "i64 count", "ptr names", exported=False)
    self, args, count, names = f.parameters
    arguments = f.call("PyTuple_New", "ptr", count)
    f.give_if(arguments.is_equal(None), None)
    with f.count(count) as index:
        item = f.load("ptr", args, index * 8)
        f.call("Py_IncRef", "void", item)
        f.store("ptr", item, arguments, index * 8 + facts.tuple_items)
    keywords = f.variable("ptr", f.external("_Py_NoneStruct"))
    result, failed = f.variable("ptr", None), f.variable("i1", 0)
    with f.when(names.is_not(None)):
        keywords.value = f.call("PyDict_New", "ptr")
        failed.value = keywords.value.is_equal(None)
        with f.count(f.load("i64", names, facts.tuple_size)) as index:
            f.leave_if(failed.value)
            name, item = f.load("ptr", names, index * 8 + facts.tuple_items), f.load("ptr", args, (count + index) * 8)
            failed.value = f.call("PyDict_SetItem", "i32", keywords.value, name, item).is_not(0)
    with f.when(failed.value.is_equal(0)):
        result.value = _call_method(f, self, "qd_name_slow", arguments, keywords.value)
    with f.when(names.is_not(None) & keywords.value.is_not(None)):
        f.call("Py_DecRef", "void", keywords.value)
    f.call("Py_DecRef", "void", arguments)
    f.give(result.value)


def _build_launch(module: Module) -> None:
    """qd_launch: the vectorcall entry. Tries the installed bindings in order, then Python: at once where an argument's code has
    installed others meanwhile, which may lie where the old ones did. What a binding left as an error is the call's."""
    f = module.function("qd_launch", "ptr", "ptr self", "ptr args", "i64 flagged_count", "ptr names")
    self, args, flagged_count, names = f.parameters
    count = flagged_count & ((1 << 63) - 1)
    installs = f.load("i64", self, KernelObject.installs.offset)
    block = f.variable("ptr", f.load("ptr", self, KernelObject.block.offset))
    with f.loop():
        current = block.value
        f.leave_if(current.is_equal(None))
        following = f.load("ptr", current, BlockRecord.next.offset)
        result = f.call("qd_attempt", "ptr", self, current, args, count, names)
        f.leave_if(result.converted("ptrtoint", "i64").is_equal(_ASK))
        f.give_if(result.converted("ptrtoint", "i64").is_not(_MISMATCH), result)
        f.give_if(f.call("PyErr_Occurred", "ptr").is_not(None), None)
        f.leave_if(f.load("i64", self, KernelObject.installs.offset).is_not(installs))
        block.value = following
    f.give(f.call("qd_slow", "ptr", self, args, count, names))
