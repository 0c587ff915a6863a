"""The loader on objects that LLVM makes, and on bytes that it must refuse."""

from __future__ import annotations

import ctypes
import math
import platform
import random
import subprocess
import sys

import pytest

from quadrants.runtime.loader import Library, LoaderError, process_symbol

llvm = pytest.importorskip("llvmlite.binding")

HOST = platform.machine()
ON_X64 = HOST == "x86_64"


def compiled(text: str, relocation: str = "pic", code_model: str = "small", machine: str = HOST) -> bytes:
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    triple = f"{machine}-unknown-linux-gnu"
    target = llvm.Target.from_triple(triple)
    module = llvm.parse_assembly(f'target triple = "{triple}"\n{text}')
    return target.create_target_machine(reloc=relocation, codemodel=code_model).emit_object(module)


def called(address: int, result: type, *arguments: tuple[type, object]) -> object:
    function = ctypes.CFUNCTYPE(result, *[kind for kind, _ in arguments])(address)
    return function(*[value for _, value in arguments])


def test_constants_data_and_zeroed_memory() -> None:
    loaded = Library().load(
        compiled("""
@table = internal constant [3 x i64] [i64 10, i64 20, i64 30]
@counter = global i64 5
@zeroed = global [4 x i64] zeroinitializer
@pointer = internal global ptr @counter
define i64 @get(i64 %i) nounwind {
  %p = getelementptr i64, ptr @table, i64 %i
  %v = load i64, ptr %p
  %q = load ptr, ptr @pointer
  %c = load i64, ptr %q
  %n = add i64 %c, 1
  store i64 %n, ptr %q
  %z = load i64, ptr @zeroed
  %s = add i64 %v, %c
  %t = add i64 %s, %z
  ret i64 %t
}""")
    )
    assert called(loaded.address("get"), ctypes.c_int64, (ctypes.c_int64, 1)) == 25
    assert called(loaded.address("get"), ctypes.c_int64, (ctypes.c_int64, 2)) == 36
    assert ctypes.c_int64.from_address(loaded.address("counter")).value == 7
    with pytest.raises(LoaderError, match="no global symbol 'table'"):
        loaded.address("table")


def test_objects_call_one_another() -> None:
    library = Library()
    library.load(compiled("define i64 @twice(i64 %x) nounwind {\n %r = shl i64 %x, 1\n ret i64 %r\n}"))
    user = library.load(
        compiled("""
declare i64 @twice(i64)
define i64 @four_times(i64 %x) nounwind {
  %a = call i64 @twice(i64 %x)
  %b = call i64 @twice(i64 %a)
  ret i64 %b
}""")
    )
    assert called(user.address("four_times"), ctypes.c_int64, (ctypes.c_int64, 5)) == 20


def test_a_group_may_be_cyclic() -> None:
    def parity(name: str, other: str, at_zero: int) -> bytes:
        return compiled(f"""
declare i64 @{other}(i64)
define i64 @{name}(i64 %x) nounwind {{
  %zero = icmp eq i64 %x, 0
  br i1 %zero, label %stop, label %go
stop:
  ret i64 {at_zero}
go:
  %y = sub i64 %x, 1
  %r = call i64 @{other}(i64 %y)
  ret i64 %r
}}""")

    even, odd = Library().load_group([parity("even", "odd", 1), parity("odd", "even", 0)])
    assert called(even.address("even"), ctypes.c_int64, (ctypes.c_int64, 7)) == 0
    assert called(odd.address("odd"), ctypes.c_int64, (ctypes.c_int64, 7)) == 1


def test_functions_of_the_mathematics_library() -> None:
    loaded = Library().load(
        compiled("""
declare double @pow(double, double)
declare float @sinf(float)
define double @power(double %x, double %y) nounwind {
  %r = call double @pow(double %x, double %y)
  ret double %r
}
define float @sine(float %x) nounwind {
  %r = call float @sinf(float %x)
  ret float %r
}""")
    )
    arguments = (ctypes.c_double, 2.5), (ctypes.c_double, 3.0)
    assert called(loaded.address("power"), ctypes.c_double, *arguments) == 2.5**3
    assert called(loaded.address("sine"), ctypes.c_float, (ctypes.c_float, 1.0)) == pytest.approx(math.sin(1), 1e-6)


def test_given_symbols_come_first() -> None:
    value = ctypes.c_int64(41)
    text = "@answer = external global i64\ndefine i64 @get() nounwind {\n %v = load i64, ptr @answer\n ret i64 %v\n}"
    loaded = Library({"answer": 0}).load(compiled(text), {"answer": ctypes.addressof(value)})
    assert called(loaded.address("get"), ctypes.c_int64) == 41


def test_an_undefined_symbol_is_named() -> None:
    text = (
        "declare void @nobody_defines_me()\ndefine void @f() nounwind {\n call void @nobody_defines_me()\n ret void\n}"
    )
    with pytest.raises(LoaderError, match="undefined symbol 'nobody_defines_me'"):
        Library().load(compiled(text))
    assert process_symbol("nobody_defines_me") is None


def test_absolute_addressing_is_refused() -> None:
    text = (
        "@x = dso_local global [9 x i64] zeroinitializer\ndefine i64 @f(i64 %i) nounwind {\n"
        " %p = getelementptr i64, ptr @x, i64 %i\n %v = load i64, ptr %p\n ret i64 %v\n}"
    )
    model, name = ("small", "R_X86_64_32S?") if ON_X64 else ("large", "R_AARCH64_MOVW_UABS")
    with pytest.raises(LoaderError, match=f"{name}.*pic"):
        Library().load(compiled(text, "static", model))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("@x = thread_local global i64 1\ndefine ptr @f() nounwind {\n ret ptr @x\n}", "thread-local"),
        (
            "@llvm.global_ctors = appending global [1 x { i32, ptr, ptr }] "
            "[{ i32, ptr, ptr } { i32 1, ptr @f, ptr null }]\ndefine void @f() nounwind {\n ret void\n}",
            "constructors",
        ),
    ],
)
def test_what_is_not_supported_is_said(text: str, message: str) -> None:
    with pytest.raises(LoaderError, match=message):
        Library().load(compiled(text))


def test_another_machine_is_refused() -> None:
    if not hasattr(llvm, "initialize_all_targets"):
        pytest.skip("this llvmlite cannot make objects of other machines")
    other, name = ("aarch64", "x86-64") if ON_X64 else ("x86_64", "Arm64")
    with pytest.raises(LoaderError, match=f"not a relocatable ELF object for {name}"):
        Library().load(compiled("define void @f() nounwind {\n ret void\n}", machine=other))


ON_EXIT = """
import ctypes, sys
from quadrants.runtime.loader import Library
found = Library().load(bytes.fromhex(sys.argv[1]))
ctypes.CDLL(None).on_exit(ctypes.c_void_p(found.address("last")), None)
"""


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "on_exit"), reason="this C library has no on_exit")
def test_code_outlives_the_interpreter() -> None:
    """Threads of the pool are still there when Python has ended."""
    text = """
declare i64 @write(i32, ptr, i64)
@said = internal constant [4 x i8] c"last"
define void @last(i32 %status, ptr %argument) nounwind {
  %n = call i64 @write(i32 1, ptr @said, i64 4)
  ret void
}"""
    command = [sys.executable, "-c", ON_EXIT, compiled(text).hex()]
    assert subprocess.run(command, capture_output=True, check=True).stdout == b"last"


@pytest.mark.parametrize("content", [b"", b"\x7fELF", b"not an object at all" * 10, b"\x00" * 4096])
def test_bytes_that_are_no_object(content: bytes) -> None:
    with pytest.raises(LoaderError):
        Library().load(content)


def test_damaged_objects_never_crash() -> None:
    good = compiled("""
@table = internal constant [3 x i64] [i64 10, i64 20, i64 30]
declare double @pow(double, double)
define double @f(i64 %i) nounwind {
  %p = getelementptr i64, ptr @table, i64 %i
  %v = load i64, ptr %p
  %x = sitofp i64 %v to double
  %r = call double @pow(double %x, double 2.0)
  ret double %r
}""")
    for length in range(0, len(good), 13):
        with pytest.raises(LoaderError):
            Library().load(good[:length])
    source = random.Random(7)
    for _ in range(500):
        damaged = bytearray(good)
        for _ in range(source.randrange(1, 8)):
            damaged[source.randrange(len(damaged))] = source.randrange(256)
        try:
            Library().load(bytes(damaged))
        except LoaderError:
            continue
