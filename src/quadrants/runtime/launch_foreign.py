"""Machine code that binds arrays of other packages: the launcher's handlers of two protocols, loaded when a kernel first meets one.

Nothing is made for a launch: address, sizes and strides go straight into the frame. As in `launch_native`, what does not fit
leads to Python, which knows all rules and tells what is wrong.
"""

from __future__ import annotations

from quadrants.runtime.launch_native import build_read_integer, build_span, handler, is_type, note_extent, type_of
from quadrants.runtime.launch_probe import Facts
from quadrants.runtime.launch_records import ArgumentRecord, TensorRecord
from quadrants.runtime.native_text import Function, Module, Record, Value

__all__ = ["HANDLERS", "NOBODY", "build"]

HANDLERS = ("exchanged", "interface")
NOBODY = -1
"""In place of a stream: whoever owns the array asks nobody to wait."""
_LEGACY_DEFAULT = 1
"""What protocols call the default stream, which is 0 for the driver."""


def build(module: Module, facts: Facts) -> None:
    """Write the handlers for an interpreter with these facts."""
    build_span(module)
    build_read_integer(module, facts)
    _build_fits(module)
    _build_exchanged(module)
    _build_item(module, facts)
    _build_described(module, facts)
    _build_interface(module)


def _build_fits(module: Module) -> None:
    """qd_fits(record, frame): whether the descriptor in the frame is of an aligned array with the sizes that the kernel was
    compiled for, dense where it has to be; notes its interval."""
    f = module.function("qd_fits", "i1", "ptr record", "ptr frame", exported=False)
    record, frame = Record(f, f.parameters[0], ArgumentRecord), f.parameters[1]
    descriptor = f.offset(frame, record.get("offset"))
    rank, size = record.get("rank"), record.get("bytes")
    f.give_if((f.load("i64", descriptor) & (size - 1)).is_not(0), 0)
    shape = f.offset(descriptor, 8)
    sizes = record.get("sizes")
    with f.count(record.get("size_count")) as index:
        expected = f.load("i64", sizes, index * 16 + 8)
        f.give_if(f.load("i64", shape, f.load("i64", sizes, index * 16) * 8).is_not(expected), 0)
    with f.when(record.get("flags").is_not(0)):
        _give_unless_dense(f, shape, rank, size)
    note_extent(f, record, frame)
    f.give(f.constant("i1", 1))


def _give_unless_dense(f: Function, shape: Value, rank: Value, size: Value) -> None:
    """An axis of one element may have any stride, and an array without elements any strides."""
    strides = f.offset(shape, rank * 8)
    dense, elements = f.variable("i1", 1), f.variable("i64", 1)
    with f.count(rank) as index:
        axis = rank - index - 1
        extent = f.load("i64", shape, axis * 8)
        follows = f.load("i64", strides, axis * 8).is_equal(elements.value * size)
        dense.value = dense.value & (follows | extent.is_equal(1))
        elements.value = elements.value * extent
    f.give_if(dense.value.is_equal(0) & elements.value.is_not(0), 0)


def _give_after_error(f: Function, condition: Value) -> None:
    """What another package raised is raised again when Python asks it. What is no `Exception`, such as KeyboardInterrupt, comes
    only once: it stays, for the launch to hand on."""
    with f.when(condition):
        is_told_again = f.call("PyErr_ExceptionMatches", "i32", f.load("ptr", f.external("PyExc_Exception"))).is_not(0)
        with f.when(is_told_again):
            f.call("PyErr_Clear", "void")
        f.give(0)


def _note_stream(f: Function, record: Record, frame: Value, stream: Value) -> None:
    f.store("i64", f.select(stream.is_equal(_LEGACY_DEFAULT), 0, stream, "i64"), frame, record.get("stream"))


def _build_exchanged(module: Module) -> None:
    """An array of a class with DLPack's table of functions: `read` fills in a DLTensor, `ask` tells the stream in which its
    package works. With `first_slot` the word at `second_slot` of what that points to is `high`, `low` masked."""
    f, record, item, frame = handler(module, "exchanged")
    f.give_if(type_of(f, item).is_not(record.get("type")), 0)
    with f.when(record.get("first_slot").is_not(0)):
        inside = f.load("ptr", item, record.get("first_slot"))
        f.give_if(inside.is_equal(None), 0)
        f.give_if((f.load("i64", inside, record.get("second_slot")) & record.get("low")).is_not(record.get("high")), 0)
    tensor = Record(f, f.stack(TensorRecord), TensorRecord)
    _give_after_error(f, f.call(record.get("read"), "i32", item, tensor.base).is_not(0))
    rank, device = record.get("rank"), record.get("word")
    f.give_if(tensor.get("device").is_not(device), 0)
    f.give_if(tensor.get("type").converted("zext", "i64").is_not(record.get("other_word")), 0)
    f.give_if(tensor.get("rank").converted("sext", "i64").is_not(rank), 0)
    shape, strides = tensor.get("shape"), tensor.get("strides")
    f.give_if(rank.is_not(0) & strides.is_equal(None), 0)
    descriptor = f.offset(frame, record.get("offset"))
    f.store("i64", tensor.get("data").converted("ptrtoint", "i64") + tensor.get("byte_offset"), descriptor)
    sizes = f.offset(descriptor, 8)
    steps, size = f.offset(sizes, rank * 8), record.get("bytes")
    with f.count(rank) as axis:
        f.store("i64", f.load("i64", shape, axis * 8), sizes, axis * 8)
        f.store("i64", f.load("i64", strides, axis * 8) * size, steps, axis * 8)
    with f.when(record.get("ask").is_not(None)):
        stream = f.entry_slot("alloca i64")
        kind, number = device.converted("trunc", "i32"), device.shifted_right(32).converted("trunc", "i32")
        _give_after_error(f, f.call(record.get("ask"), "i32", kind, number, stream).is_not(0))
        _note_stream(f, record, frame, f.load("i64", stream))
    f.give(f.call("qd_fits", "i1", record.base, frame))


def _build_item(module: Module, facts: Facts) -> None:
    """qd_item(tuple, place, value): whether an item is an int of 64 bits; it goes to `value`."""
    f = module.function("qd_item", "i1", "ptr tuple", "i64 place", "ptr value", exported=False)
    items, place, value = f.parameters
    item = f.load("ptr", items, place * 8 + facts.tuple_items)
    f.give_if(is_type(f, item, "PyLong_Type").is_equal(0), 0)
    overflow = f.entry_slot("alloca i32")
    f.store("i64", f.call("qd_read_integer", "i64", item, overflow), value)
    f.give(f.load("i32", overflow).is_equal(0))


def _looked_up(f: Function, dictionary: Value, key: str) -> Value:
    return f.call("PyDict_GetItemWithError", "ptr", dictionary, f.external(f"qd_name_{key}"))


def _give_unless_tuple(f: Function, facts: Facts, item: Value, length: Value) -> None:
    f.give_if(item.is_equal(None), 0)
    f.give_if(is_type(f, item, "PyTuple_Type").is_equal(0), 0)
    f.give_if(f.load("i64", item, facts.tuple_size).is_not(length), 0)


def _build_described(module: Module, facts: Facts) -> None:
    """qd_described(record, described, frame): the array that a dictionary of CUDA's interface describes. `read` is the text of
    its elements' type, `identity` whether it is read only."""
    f = module.function("qd_described", "i1", "ptr record", "ptr described", "ptr frame", exported=False)
    record, described, frame = Record(f, f.parameters[0], ArgumentRecord), f.parameters[1], f.parameters[2]
    nothing = f.external("_Py_NoneStruct")
    text, mask = _looked_up(f, described, "typestr"), _looked_up(f, described, "mask")
    f.give_if(text.is_equal(None), 0)
    f.give_if(is_type(f, text, "PyUnicode_Type").is_equal(0), 0)
    f.give_if(f.call("PyUnicode_CompareWithASCIIString", "i32", text, record.get("read")).is_not(0), 0)
    f.give_if(mask.is_not(None) & mask.is_not(nothing), 0)
    data, shape, strides = (_looked_up(f, described, key) for key in ("data", "shape", "strides"))
    rank = record.get("rank")
    _give_unless_tuple(f, facts, data, f.constant("i64", 2))
    _give_unless_tuple(f, facts, shape, rank)
    f.give_if(f.load("ptr", data, facts.tuple_items + 8).is_not(record.get("identity")), 0)
    descriptor = f.offset(frame, record.get("offset"))
    f.give_if(f.call("qd_item", "i1", data, f.constant("i64", 0), descriptor).is_equal(0), 0)
    sizes = f.offset(descriptor, 8)
    steps = f.offset(sizes, rank * 8)
    dense = f.variable("i64", record.get("bytes"))
    with f.count(rank) as index:
        axis = rank - index - 1
        place = f.offset(sizes, axis * 8)
        f.give_if(f.call("qd_item", "i1", shape, axis, place).is_equal(0), 0)
        f.store("i64", dense.value, steps, axis * 8)
        dense.value = dense.value * f.load("i64", place)
    with f.when(strides.is_not(None) & strides.is_not(nothing)):
        _give_unless_tuple(f, facts, strides, rank)
        with f.count(rank) as axis:
            f.give_if(f.call("qd_item", "i1", strides, axis, f.offset(steps, axis * 8)).is_equal(0), 0)
    _read_stream(f, facts, record, described, frame)
    f.give(f.call("qd_fits", "i1", record.base, frame))


def _read_stream(f: Function, facts: Facts, record: Record, described: Value, frame: Value) -> None:
    stream = _looked_up(f, described, "stream")
    f.store("i64", NOBODY, frame, record.get("stream"))
    with f.when(stream.is_not(None) & stream.is_not(f.external("_Py_NoneStruct"))):
        f.give_if(is_type(f, stream, "PyLong_Type").is_equal(0), 0)
        overflow = f.entry_slot("alloca i32")
        number = f.call("qd_read_integer", "i64", stream, overflow)
        f.give_if(f.load("i32", overflow).is_not(0), 0)
        _note_stream(f, record, frame, number)


def _build_interface(module: Module) -> None:
    """An array that has CUDA's interface. Its owner may run any code to describe it: the array is held meanwhile."""
    f, record, item, frame = handler(module, "interface")
    f.give_if(type_of(f, item).is_not(record.get("type")), 0)
    f.call("Py_IncRef", "void", item)
    described = f.call("PyObject_GetAttr", "ptr", item, f.external("qd_name_interface"))
    fits = f.variable("i1", 0)
    with f.when(described.is_not(None)):
        with f.when(is_type(f, described, "PyDict_Type")):
            fits.value = f.call("qd_described", "i1", record.base, described, frame)
        f.call("Py_DecRef", "void", described)
    f.call("Py_DecRef", "void", item)
    _give_after_error(f, f.call("PyErr_Occurred", "ptr").is_not(None))
    f.give(fits.value)
