"""The launcher: every kind of argument and result, and that whatever does not fit goes to Python."""

from __future__ import annotations

import ctypes
import gc
import pickle
import signal
import struct
import sys
import threading
from collections.abc import Callable

import numpy as np
import pytest

from quadrants.runtime import launch, launch_binding, native, threads
from quadrants.runtime.launch import (
    ABSENT,
    ArrayArgument,
    Binding,
    BooleanArgument,
    CellGuard,
    FloatArgument,
    Guard,
    IdentityArgument,
    IntegerArgument,
    Member,
    NativeKernel,
    ResultSpec,
    ScalarArgument,
    StorageArgument,
    TupleArgument,
)
from quadrants.runtime.loader import Library
from quadrants.runtime.native_text import Module

pytestmark = pytest.mark.skipif(not launch.is_native(), reason="this interpreter launches through Python")

F64 = np.dtype(np.float64)


class Kernel(NativeKernel):
    """Gives what reached Python, so that a test sees whether machine code or Python took the call."""

    __slots__ = ("frames", "held")

    def _slow_call(self, arguments, keywords):
        return "slow", arguments, keywords

    def _failed(self, status):
        return "failed", status

    def _unpack(self, frame, binding):
        return frame

    def _run(self, binding, frame, held):
        self.held = held
        if held[0].size == 0:
            raise ValueError("nothing to copy")
        for k, at in zip(binding.copied, binding.places_of_copied):
            ctypes.c_uint64.from_address(frame + at).value = 1000 + len(held[k])
        assert launch.run(binding, frame) == 0


def _entries() -> str:
    module = Module()
    f = module.function("nothing", "i32", "ptr frame")
    f.give(f.constant("i32", 0))
    f = module.function("status", "i32", "ptr frame")
    f.give(f.load("i32", f.parameters[0]))
    f = module.function("nap", "i32", "ptr frame")
    microseconds = f.load("i32", f.parameters[0])
    f.give_if(microseconds.is_equal(0), 0)
    f.call("usleep", "i32", microseconds)
    f.give(f.constant("i32", 0))
    f = module.function("interrupted", "i32", "ptr frame")
    f.call("qd_parallel_for", "void", f.external("spin"), None, f.parameters[0], 20_000, 0, 1_000_000,
           types="ptr,ptr,ptr,i64,i64,i64")  # fmt: skip
    f.give(f.constant("i32", 0))
    return module.text()


@pytest.fixture(scope="session")
def entries(tasks) -> dict[str, int]:
    library = Library({**threads.symbols(), **tasks})
    return dict(library.load(native.compile_text(_entries())).symbols)


@pytest.fixture
def make(entries) -> Callable[..., Kernel]:
    """A kernel that gives its frame back; `size` bytes of it, initially 0xAA where no template is given."""

    def create(arguments, size: int = 64, entry: str = "nothing", result=None, names: str = "", **options) -> Kernel:
        kernel = Kernel()
        keywords = list(names) or [f"p{index}" for index in range(len(arguments))]
        template = options.pop("template", b"\xaa" * size)
        result = ResultSpec("python") if result is None else result
        kernel._install(Binding(entries[entry], template, arguments, result=result, keywords=keywords, **options))
        return kernel

    return create


def is_slow(result: object) -> bool:
    return isinstance(result, tuple) and result[0] == "slow"


def described(array: np.ndarray) -> bytes:
    return struct.pack(f"P{2 * array.ndim}q", array.ctypes.data, *array.shape, *array.strides)


# ---------------------------------------------------------------------------------------------------------- arguments


@pytest.mark.parametrize("code", "?bBhHiIlLqQefd")
def test_arrays_of_every_dtype(make, code: str) -> None:
    dtype = np.dtype(code)
    array = np.zeros((3, 4), dtype)
    kernel = make([ArrayArgument(8, dtype, 2)])
    expected = b"\xaa" * 8 + described(array) + b"\xaa" * 16
    assert kernel(array) == expected
    for other in "?bBhHiIlLqQefd":
        if np.dtype(other) != dtype:
            assert is_slow(kernel(array.astype(other)))


def test_the_two_names_of_64_bits_are_one(make) -> None:
    kernel = make([ArrayArgument(0, np.dtype("q"), 1)])
    for code in "ql":
        array = np.zeros(3, code)
        assert kernel(array)[:24] == described(array)


@pytest.mark.parametrize("rank", range(6))
def test_ranks_and_strides(make, rank: int) -> None:
    base = np.zeros((2,) * rank, F64)
    kernel = make([ArrayArgument(0, F64, rank, written=True)], size=104)
    views = [base, base.copy(order="F")]
    if rank:
        views += [base[::-1], base[..., ::-1], base[..., :1], base[1:1], base[..., ::2]]
    for view in views:
        assert kernel(view)[: 8 + 16 * rank] == described(view)
    assert is_slow(kernel(np.zeros((2,) * (rank + 1))))


def test_what_an_array_must_be(make) -> None:
    class Derived(np.ndarray):
        pass

    read_only = np.zeros(4)
    read_only.flags.writeable = False
    unaligned = np.frombuffer(bytearray(33), np.uint8)[1:].view(F64)
    swapped = np.zeros(4, ">f8")
    reading, writing = make([ArrayArgument(0, F64, 1)]), make([ArrayArgument(0, F64, 1, written=True)])
    contiguous = make([ArrayArgument(0, F64, 1, contiguous=True)])
    assert reading(read_only) == described(read_only) + b"\xaa" * 40
    assert is_slow(writing(read_only))
    assert not is_slow(reading(np.zeros(8)[::2])) and is_slow(contiguous(np.zeros(8)[::2]))
    for wrong in (unaligned, swapped, np.zeros(4).view(Derived), [0.0], 1.5, None, np.float64(1)):
        assert is_slow(reading(wrong)), wrong


def test_an_unpickled_array_is_like_any_other(make) -> None:
    array = pickle.loads(pickle.dumps(np.arange(4.0), protocol=2))
    assert not is_slow(make([ArrayArgument(0, F64, 1)])(array))
    swapped = np.zeros(4, pickle.loads(pickle.dumps(np.dtype(">f8"))))
    assert is_slow(make([ArrayArgument(0, F64, 1)])(swapped))


def test_static_sizes(make) -> None:
    kernel = make([ArrayArgument(0, F64, 3, sizes=((1, 3), (2, 2)))])
    assert not is_slow(kernel(np.zeros((7, 3, 2))))
    assert is_slow(kernel(np.zeros((7, 3, 3)))) and is_slow(kernel(np.zeros((7, 2, 2))))


def test_floats(make) -> None:
    double, single = make([FloatArgument(8)]), make([FloatArgument(8, bits=32)])
    for value in (0.0, -1.5, 1e300, float("inf"), 0.1):
        with np.errstate(over="ignore"):
            assert double(value)[8:16] == struct.pack("d", value)
            assert single(value)[8:16] == np.float32(value).tobytes() + b"\xaa" * 4
    assert np.isnan(struct.unpack_from("d", double(float("nan")), 8)[0])
    for wrong in (1, True, np.float64(1), np.float32(1), "1", None, 1j):
        assert is_slow(double(wrong)) and is_slow(single(wrong))


def test_integers_for_floats(make) -> None:
    kernel = make([FloatArgument(0, integers_too=True)])
    for value in (0, 1, -7, 1 << 30, -(1 << 45), 1 << 53, -(1 << 53)):
        assert kernel(value)[:8] == struct.pack("d", value)
    for wrong in ((1 << 53) + 1, -(1 << 53) - 1, 1 << 63, 1 << 200, -(1 << 200), True):
        assert is_slow(kernel(wrong))


@pytest.mark.parametrize("bits", [8, 16, 32, 64])
@pytest.mark.parametrize("signed", [True, False])
def test_integers(make, bits: int, signed: bool) -> None:
    kernel = make([IntegerArgument(8, bits=bits, signed=signed)])
    low, high = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if signed else (0, (1 << bits) - 1)
    values = {0, 1, 2, 100, high, high - 1, low, low + 1, high // 2, low // 3}
    for value in values:
        if bits == 64 and value >= 1 << 63:
            assert is_slow(kernel(value))
            continue
        size = bits // 8
        stored = value.to_bytes(size, "little", signed=signed)
        assert kernel(value)[8:16] == stored + b"\xaa" * (8 - size), value
    for wrong in (high + 1, low - 1, 1 << 100, -(1 << 100), True, 1.0, np.int64(1), None):
        assert is_slow(kernel(wrong)), wrong


def test_integers_in_a_range(make) -> None:
    kernel = make([IntegerArgument(0, low=-3, high=5)])
    assert [is_slow(kernel(value)) for value in (-4, -3, 0, 5, 6)] == [True, False, False, False, True]


def test_booleans(make) -> None:
    kernel = make([BooleanArgument(3)])
    assert kernel(True)[3] == 1 and kernel(False)[3] == 0
    for wrong in (1, 0, None, np.bool_(True), "x"):
        assert is_slow(kernel(wrong))


@pytest.mark.parametrize("name", ["float64", "float32", "float16", "int8", "int16", "int32", "int64", "uint8", "bool_"])
def test_numpy_scalars(make, name: str) -> None:
    kind = getattr(np, name)
    value = kind(1)
    kernel = make([ScalarArgument(8, kind)])
    assert kernel(value)[8:16] == value.tobytes() + b"\xaa" * (8 - value.itemsize)
    for wrong in (1, 1.0, True, np.uint32(1), np.zeros(1)):
        assert is_slow(kernel(wrong))


class Storage:
    __slots__ = ("__weakref__", "_array_type", "_descriptor", "_other")

    def __init__(self, array_type: object, descriptor: bytes | None) -> None:
        self._array_type, self._descriptor = array_type, descriptor


class DerivedStorage(Storage):
    __slots__ = ("_more",)


def test_storage_objects(make) -> None:
    array_type, array = object(), np.zeros((4, 3))
    kernel = make([StorageArgument(8, DerivedStorage, array_type, 2, 8)])
    assert kernel(DerivedStorage(array_type, described(array)))[8:48] == described(array)
    unset = DerivedStorage(array_type, None)
    del unset._descriptor
    for wrong in (
        Storage(array_type, described(array)),
        DerivedStorage(object(), described(array)),
        DerivedStorage(array_type, None),
        DerivedStorage(array_type, described(array)[:-1]),
        unset,
        array,
    ):
        assert is_slow(kernel(wrong))


def test_identities(make) -> None:
    value = object()
    kernel = make([IdentityArgument(value), IdentityArgument(None)])
    assert not is_slow(kernel(value, None))
    assert is_slow(kernel(object(), None)) and is_slow(kernel(value, value))


def test_members_of_dictionaries_and_cells(make) -> None:
    value: object = 2.5

    def closure() -> object:
        return value

    assert closure.__closure__ is not None
    names: dict[str, object] = {"n": 7}
    members = [Member(IntegerArgument(8), names, "n"), Member(FloatArgument(16), closure.__closure__[0])]
    kernel = make([FloatArgument(0)], members=members)
    assert kernel(1.0)[:24] == struct.pack("dqd", 1.0, 7, 2.5)
    names["n"], value = -8, 3.5
    assert kernel(1.0)[:24] == struct.pack("dqd", 1.0, -8, 3.5)
    names["n"] = "text"
    assert is_slow(kernel(1.0))
    del names["n"]
    assert is_slow(kernel(1.0))
    names["n"] = 1
    assert not is_slow(kernel(1.0))


def test_members_of_arguments(make) -> None:
    array, holder = np.arange(3.0), object()
    fixed = make([IdentityArgument(holder)], members=[Member(ArrayArgument(0, F64, 1), array, is_fixed=True)])
    assert fixed(holder)[:24] == described(array) and is_slow(fixed(object()))
    members = [Member(ArrayArgument(0, F64, 1, written=True), 1, 0), Member(ArrayArgument(24, F64, 1), 1, 1)]
    pair = make([IntegerArgument(48), TupleArgument(2)], members=members)
    other = np.ones(4)
    assert pair(5, (array, other))[:56] == described(array) + described(other) + struct.pack("q", 5)
    for unfit in ((array, array[1:]), (array,), (array, other, other), [array, other], (array, 1.0)):
        assert is_slow(pair(5, unfit))


def test_arrays_that_python_copies(make) -> None:
    """Python runs the entry, with the objects, on a frame that has all the rest."""
    plain, copied, member = np.zeros(2), np.zeros((3, 4)), np.zeros(5)
    names = {"m": member}
    arguments = [ArrayArgument(0, F64, 1), ArrayArgument(24, F64, 2, copied=True), IntegerArgument(64)]
    members = [Member(ArrayArgument(72, F64, 1, copied=True), names, "m")]
    kernel = make(arguments, size=96, members=members, names="abc")
    frame = kernel(plain, copied, 7)
    assert kernel.held[0] is copied and kernel.held[1] is member and len(kernel.held) == 2
    assert frame[:24] == described(plain)
    assert struct.unpack("5q", frame[24:64]) == (1003, 3, 4, 32, 8)
    assert struct.unpack("4q", frame[64:]) == (7, 1005, 5, 8)
    kernel.held = None
    names["m"] = np.zeros(5, np.float32)
    assert is_slow(kernel(plain, copied, 7))
    names["m"] = member
    for unfit in ((plain, copied, 1.5), (copied, copied, 7), (plain, copied)):
        assert is_slow(kernel(*unfit))
    objects = [plain, copied, member, names, kernel, kernel._installed[0]]
    before = [sys.getrefcount(item) for item in objects]
    for _ in range(5):
        with pytest.raises(ValueError, match="nothing to copy"):
            kernel(plain, copied[:0], 7)
        kernel(plain, copied, 7)
        kernel(plain, copied, 1.5)
    kernel.held = None
    assert [sys.getrefcount(item) for item in objects] == before


@pytest.mark.parametrize("release", [False, True])
def test_members_of_dictionaries_are_kept_for_the_launch(make, release: bool) -> None:
    """Nothing but the dictionary may hold them, and another thread may assign them anew."""
    names: dict[str, object] = {}
    kept: list[int] = []

    class Watching(Kernel):
        __slots__ = ()

        def _unpack(self, frame, binding):
            array = names.pop("m")
            kept.append(sys.getrefcount(array))
            return frame

    base = make([IntegerArgument(0)], members=[Member(ArrayArgument(8, F64, 1), names, "m")], release_gil=release)
    kernel = Watching()
    (binding,) = base._installed
    base._uninstall()
    kernel._install(binding)
    for _ in range(3):
        names["m"] = np.zeros(4)
        kernel(5)
    alone = np.zeros(4)
    assert kept == [sys.getrefcount(alone) + 1] * 3, "the variable's, the question's, and the launch's"


def test_an_unfit_binding_is_refused(make) -> None:
    refused = (
        [ArrayArgument(40, F64, 2)],
        [ArrayArgument(0, np.dtype(">f8"), 1)],
        [ArrayArgument(0, np.dtype("U3"), 1)],
        [FloatArgument(0, bits=16)],
        [IntegerArgument(-8)],
        [ScalarArgument(0, np.complex128)],
        [StorageArgument(0, dict, None, 1, 8)],
    )
    for arguments in refused:
        with pytest.raises((ValueError, TypeError)):
            make(arguments)
    with pytest.raises(ValueError, match="results of kind"):
        make([], result=ResultSpec("f16"))
    with pytest.raises(ValueError, match="as many names"):
        Binding(1, b"", [FloatArgument(0)])


# ------------------------------------------------------------------------------------------------- overlap of arguments


def test_overlap(make) -> None:
    memory = np.zeros(100)
    low, high, middle = memory[:50], memory[50:], memory[25:75]
    both = make([ArrayArgument(0, F64, 1, written=True), ArrayArgument(24, F64, 1)])
    reading = make([ArrayArgument(0, F64, 1), ArrayArgument(24, F64, 1)])
    for _ in range(2):
        assert not is_slow(both(low, high)) and not is_slow(both(high, low))
        assert is_slow(both(low, middle)) and is_slow(both(middle, high)) and is_slow(both(low, low))
        assert not is_slow(reading(low, middle)) and not is_slow(reading(low, low))
        assert not is_slow(both(low[::-1], high)) and is_slow(both(high[::-1], memory[49:51]))
        assert is_slow(both(memory[::2], memory[1::2]))  # interleaved: Python decides
        assert not is_slow(both(middle[:0], low)) and not is_slow(both(low, middle[:0]))
    unchecked = make([ArrayArgument(0, F64, 1, written=True), ArrayArgument(24, F64, 1)], check_overlap=False)
    assert not is_slow(unchecked(low, low))


def test_overlap_of_many(make) -> None:
    arguments = [ArrayArgument(24 * index, F64, 1, written=index == 3) for index in range(12)]
    kernel = make(arguments, size=24 * 12)
    memory = np.zeros(1200)
    source = np.random.default_rng(5)
    for _ in range(50):
        order = source.permutation(12)
        arrays = [memory[100 * place : 100 * place + 100] for place in order]
        assert not is_slow(kernel(*arrays))
        arrays[0] = arrays[1]
        assert not is_slow(kernel(*arrays))
        arrays[7] = memory[100 * order[3] + 99 : 100 * order[3] + 101]
        assert is_slow(kernel(*arrays))


def test_overlap_with_captured_memory(make) -> None:
    memory = np.zeros(100)
    captured = [(memory.ctypes.data, 400, False), (memory.ctypes.data + 400, 400, True)]
    writing = make([ArrayArgument(0, F64, 1, written=True)], ranges=captured)
    assert is_slow(writing(memory[:10])) and is_slow(writing(memory[60:])) and not is_slow(writing(np.zeros(3)))


# ------------------------------------------------------------------------------- positional, keyword, default arguments


def test_keywords_and_defaults(make) -> None:
    kernel = make([IntegerArgument(8 * index) for index in range(3)], size=24, names="abc", defaults=[7, 8])

    def given(*values: int) -> bytes:
        return struct.pack("3q", *values)

    assert kernel(1, 2, 3) == kernel(1, 2, c=3) == kernel(c=3, b=2, a=1) == kernel(1, c=3, b=2) == given(1, 2, 3)
    assert kernel(1) == kernel(a=1) == given(1, 7, 8)
    assert kernel(1, c=2) == given(1, 7, 2) and kernel(b=5, a=4) == given(4, 5, 8)
    assert kernel(*(1, 2), **{"c": 3}) == given(1, 2, 3)
    assert kernel() == ("slow", (), None)
    assert kernel(b=1) == ("slow", (), {"b": 1})
    assert kernel(1, 2, 3, 4) == ("slow", (1, 2, 3, 4), None)
    assert kernel(1, 2, a=3) == ("slow", (1, 2), {"a": 3})
    assert kernel(1, d=3) == ("slow", (1,), {"d": 3})
    made = b"a".decode()  # equal, but perhaps not the same object: Python decides
    assert kernel(**{made: 1, "b": 2, "c": 3}) in (given(1, 2, 3), ("slow", (), {"a": 1, "b": 2, "c": 3}))


def test_without_arguments(make) -> None:
    assert make([])() == b"\xaa" * 64
    assert is_slow(make([])(1))
    assert make([], size=0)() == b""


def test_the_template_is_kept_around_arguments(make) -> None:
    template = bytes(range(64))
    kernel = make([IntegerArgument(0), IntegerArgument(16), IntegerArgument(56)], template=template)
    numbers = [number.to_bytes(8, "little") for number in (1, 2, 3)]
    for _ in range(2):
        assert kernel(1, 2, 3) == numbers[0] + template[8:16] + numbers[1] + template[24:56] + numbers[2]


def test_large_frames(make) -> None:
    template = bytes(np.random.default_rng(1).integers(0, 256, 200_000, np.uint8))
    kernel = make([IntegerArgument(100_000)], template=template)
    for _ in range(3):
        assert kernel(5) == template[:100_000] + (5).to_bytes(8, "little") + template[100_008:]
        assert is_slow(kernel("5"))


# ------------------------------------------------------------------------------------------------------------- results


@pytest.mark.parametrize(
    ("kind", "code", "values"),
    [
        ("u1", "?", [True, False]),
        ("i8", "b", [-128, 127]),
        ("u8", "B", [255]),
        ("i16", "h", [-300]),
        ("u16", "H", [65535]),
        ("i32", "i", [-(1 << 31)]),
        ("u32", "I", [(1 << 32) - 1]),
        ("i64", "q", [-(1 << 63), 12]),
        ("u64", "Q", [(1 << 64) - 1]),
        ("f32", "f", [1.5, -0.25]),
        ("f64", "d", [0.1, -1e300]),
    ],
)
def test_scalar_results(make, kind: str, code: str, values: list) -> None:
    for value in values:
        template = b"\xff" * 8 + struct.pack(code, value) + b"\xff" * 8
        got = make([], template=template, result=ResultSpec(kind, 8))()
        assert got == value and type(got) is type(value)


def test_no_result_and_a_status(make, entries) -> None:
    kernel = Kernel()
    kernel._install(Binding(entries["nothing"], bytes(8), []))
    assert kernel() is None
    failing = make([IntegerArgument(0, bits=32)], entry="status", result=ResultSpec("i32", 0))
    assert failing(0) == 0 and failing(7) == ("failed", 7)
    plain = type("Plain", (NativeKernel,), {"__slots__": ()})()
    plain._install(Binding(entries["status"], (3).to_bytes(8, "little"), []))
    with pytest.raises(RuntimeError, match="status 3"):
        plain()


def test_calls_with_a_frame_from_python(entries) -> None:
    binding = Binding(entries["status"], bytes(8), [])
    before = threads.counters()["launches"]
    assert launch.call(binding, bytearray((5).to_bytes(8, "little"))) == 5
    released = Binding(entries["status"], bytes(8), [], release_gil=True)
    assert launch.call(released, bytearray(8)) == 0
    assert threads.counters()["launches"] == before + 2


@pytest.mark.slow
@pytest.mark.parametrize("release", [False, True])
@pytest.mark.parametrize("direct", [False, True])
def test_a_signal_stops_a_kernel(entries, release: bool, direct: bool) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    template = (1_000_000).to_bytes(8, "little")
    binding = Binding(entries["interrupted"], template, [], release_gil=release)
    kernel = Kernel()
    kernel._install(binding)
    previous = signal.signal(signal.SIGALRM, interrupt)
    try:
        for _ in range(2):
            signal.setitimer(signal.ITIMER_REAL, 0.05)
            with pytest.raises(KeyboardInterrupt):
                kernel() if direct else launch.call(binding, bytearray(template))
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)
    assert threads.state().interrupted == 0


# -------------------------------------------------------------------------------------------------------------- guards


def test_guards_on_names(make) -> None:
    names: dict[str, object] = {"a": 1.5, "b": len, "unrelated": 0}
    other: dict[str, object] = {"x": None}
    guards = [Guard(names, "a", 1.5), Guard(names, "b", len), Guard(other, "x", None), Guard(other, "len", ABSENT)]
    names["a"] = guards[0].expected
    kernel = make([], guards=guards)
    assert not is_slow(kernel())
    names["unrelated"] = 1
    assert not is_slow(kernel())
    for table, key, value in ((names, "a", 2.5), (names, "b", max), (other, "x", 0), (other, "len", len)):
        kept = table.get(key, ABSENT)
        table[key] = value
        assert is_slow(kernel()) and is_slow(kernel())
        if kept is ABSENT:
            del table[key]
        else:
            del table[key]
            if key != "x":
                assert is_slow(kernel())
            table[key] = kept
        assert not is_slow(kernel())


def test_guards_on_cells(make) -> None:
    value: object = "first"

    def closure() -> object:
        return value

    assert closure.__closure__ is not None
    kernel = make([], guards=[CellGuard(closure.__closure__[0], value)])
    assert not is_slow(kernel())
    value = "second"
    assert is_slow(kernel())
    value = "first"
    assert not is_slow(kernel())


# ------------------------------------------------------------------------------------------------ the callable as an object


def test_bindings_are_tried_in_order(entries) -> None:
    kernel = Kernel()
    integer = Binding(
        entries["nothing"], bytes(8), [IntegerArgument(0)], result=ResultSpec("i64"), keywords=["x"]
    )  # fmt: skip
    real = Binding(entries["nothing"], bytes(8), [FloatArgument(0)], result=ResultSpec("f64"), keywords=["x"])
    kernel._install(integer, real)
    assert kernel(3) == 3 and kernel(2.5) == 2.5 and is_slow(kernel("x")) and kernel(x=4) == 4
    kernel._install(real, integer)
    assert kernel(3) == 3 and kernel(2.5) == 2.5
    kernel._uninstall()
    assert is_slow(kernel(3))
    kernel._install()
    assert is_slow(kernel(3))


def test_a_kernel_in_a_class_is_a_method(make) -> None:
    def body() -> Kernel:
        return make([IdentityArgument(instance), IntegerArgument(0)])

    class Owner:
        pass

    instance = Owner()
    Owner.kernel = body()
    assert not is_slow(instance.kernel(3)) and not is_slow(Owner.kernel(instance, 3))
    bound = instance.kernel
    assert not is_slow(bound(4)) and bound.__self__ is instance
    assert Owner().kernel(3)[0] == "slow"


def test_a_kernel_without_bindings(entries) -> None:
    assert Kernel()(1, x=2) == ("slow", (1,), {"x": 2})
    with pytest.raises(NotImplementedError):
        type("Bare", (NativeKernel,), {"__slots__": ()})()()
    assert callable(Kernel())


def test_a_kernel_may_be_reinstalled_while_it_runs(entries) -> None:
    class Changing(NativeKernel):
        __slots__ = ()

        def _failed(self, status):
            self._uninstall()
            gc.collect()
            return status

    kernel = Changing()
    gc.freeze()  # what other tests left is not looked through each time
    try:
        for status in range(1, 50):
            kernel._install(Binding(entries["status"], status.to_bytes(8, "little"), []))
            assert kernel() == status
    finally:
        gc.unfreeze()
    with pytest.raises(NotImplementedError):
        kernel()


def test_calls_from_several_threads(make) -> None:
    kernel = make([IntegerArgument(0)], size=8, result=ResultSpec("i64"), release_gil=True)
    wrong: list[int] = []

    def work(start: int) -> None:
        wrong.extend(value for value in range(start, start + 3000) if kernel(value) != value)

    workers = [threading.Thread(target=work, args=(start,)) for start in (0, 10_000, 20_000)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not wrong


def test_each_launch_says_for_the_next_whether_other_threads_run(make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launch_binding, "LONG_RUN_CYCLES", 100_000_000)  # on a busy machine, too
    kernel = make([IntegerArgument(0, bits=32)], size=8, entry="nap", may_release=True)
    fixed = make([IntegerArgument(0, bits=32)], size=8, entry="nap")
    block, other = kernel._installed[0].block, fixed._installed[0].block
    for microseconds in (0, 0, 150_000, 150_000, 0, 0):
        kernel(microseconds)
        fixed(microseconds)
        assert (block.release, other.release) == (int(microseconds > 0), 0)


def test_references_are_balanced(make) -> None:
    array, other, marker = np.zeros(3), np.zeros(3), object()
    arguments = [ArrayArgument(0, F64, 1, written=True), IdentityArgument(marker), IntegerArgument(24)]
    kernel = make(arguments, names="abc")
    failing = make([IntegerArgument(0, bits=32)], entry="status")
    big = 1 << 40
    binding = kernel._installed[0]
    objects = [array, other, marker, big, kernel, failing, binding, kernel._slow_call.__func__, None, "a", "b"]

    def calls() -> None:
        for _ in range(100):
            kernel(array, marker, big)
            kernel(other, marker, c=big)
            kernel(other, c=big, b=marker)
            kernel(array, other, big)
            kernel(array, b=other, c=big)
            kernel(array)
            failing(9)
            failing(0)

    calls()
    gc.collect()
    before = [sys.getrefcount(item) for item in objects]
    blocks = sys.getallocatedblocks()
    for _ in range(5):
        calls()
    gc.collect()
    assert [sys.getrefcount(item) for item in objects] == before
    assert abs(sys.getallocatedblocks() - blocks) < 50


def test_kernels_and_bindings_are_freed(entries) -> None:
    class Kept:
        freed = 0

        def __del__(self) -> None:
            Kept.freed += 1

    class Dying(NativeKernel):
        __slots__ = ()

    for _ in range(3):
        kernel = Dying()
        kernel._install(Binding(entries["nothing"], bytes(8), [], keep_alive=Kept()))
        kernel()
        del kernel
    gc.collect()
    assert Kept.freed == 3


def test_the_plain_twin_takes_the_slow_path() -> None:
    program = (
        "import importlib\n"
        "from quadrants.runtime import launch, launch_probe, native\n"
        "native.available = lambda: False\n"
        "launch_probe.facts.cache_clear()\n"
        "launch = importlib.reload(launch)\n"
        "class Kernel(launch.NativeKernel):\n"
        "    __slots__ = ()\n"
        "    def _slow_call(self, arguments, keywords): return arguments, keywords\n"
        "class Owner: kernel = Kernel()\n"
        "owner = Owner(); kernel = Owner.kernel\n"
        "kernel._install(launch.Binding(0, b'', []))\n"
        "assert not launch.is_native() and kernel(1, x=2) == ((1,), {'x': 2}) and owner.kernel() == ((owner,), None)\n"
    )
    import subprocess

    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_threads_that_need_the_launcher_at_once_load_it_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The second of them put a table without the functions for other packages' arrays in the first one's place."""
    monkeypatch.setattr(launch, "_symbols", None)
    monkeypatch.setattr(launch, "_has_foreign", False)
    waiting = [threading.Thread(target=launch._with_foreign), threading.Thread(target=launch._launcher)]
    with launch._lock:
        for thread in waiting:
            thread.start()
        for thread in waiting:
            thread.join(0.05)  # until it waits for the lock, most likely
    for thread in waiting:
        thread.join()
    assert launch._has_foreign and "qd_bind_interface" in launch._launcher()
