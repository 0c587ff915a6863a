"""Relocations of Arm64, on any machine: objects are placed here and compared with what a linker makes of them at the same
addresses, and run by an emulator where they jump far."""

from __future__ import annotations

import ctypes
import shutil
import struct
import subprocess
from pathlib import Path

import pytest

from quadrants.runtime.loader import Library, LoadedObject, LoaderError
from quadrants.runtime.relocations import ARM64, OutOfReach

from .test_loader import compiled

_LINKER = shutil.which("aarch64-linux-gnu-ld")
linked = pytest.mark.skipif(_LINKER is None, reason="there is no aarch64-linux-gnu-ld on this machine")

WORDS = """
@bytes = internal global [64 x i8] zeroinitializer, align 16
@near = internal global { i8, i16, i32, i64, <4 x float> } zeroinitializer, align 16
@pointer = internal global ptr getelementptr (i8, ptr @bytes, i64 24)
@table = internal constant [3 x double] [double 1.0, double 2.5, double 3.0]
define void @store(i8 %a, i16 %b, i32 %c, i64 %d, <4 x float> %e) nounwind {
  store i8 %a, ptr @near
  store i16 %b, ptr getelementptr (i8, ptr @near, i64 2)
  store i32 %c, ptr getelementptr (i8, ptr @near, i64 4)
  store i64 %d, ptr getelementptr (i8, ptr @near, i64 8)
  store <4 x float> %e, ptr getelementptr (i8, ptr @near, i64 16)
  ret void
}
define ptr @where(i64 %i) nounwind {
  %p = getelementptr double, ptr @table, i64 %i
  %v = load double, ptr %p
  %w = load ptr, ptr @pointer
  store double %v, ptr %w
  ret ptr %w
}
"""

CALLS = """
declare void @other(i64)
define internal i64 @own(i64 %x) nounwind noinline {
  call void @other(i64 %x)
  ret i64 1
}
define i64 @caller(i64 %x) nounwind {
  call void @other(i64 %x)
  %r = call i64 @own(i64 %x)
  %s = add i64 %r, 3
  ret i64 %s
}
define void @last(i64 %x) nounwind {
  tail call void @other(i64 %x)
  ret void
}
"""

GLOBALS = """
@elsewhere = external global i64
@ours = global i64 7
define i64 @get() nounwind {
  %a = load i64, ptr @elsewhere
  %b = load i64, ptr @ours
  %c = add i64 %a, %b
  ret i64 %c
}
"""


def loaded(text: str, symbols: dict[str, int] | None = None) -> LoadedObject:
    return Library(symbols, ARM64).load(compiled(text, machine="aarch64"))


def by_linker(folder: Path, text: str, sections: dict[str, int], symbols: dict[str, int]) -> dict[str, bytes]:
    """The contents of sections as the GNU linker makes them at these addresses."""
    assert _LINKER is not None
    (folder / "part.o").write_bytes(compiled(text, machine="aarch64"))
    command = [_LINKER, "-static", "--no-relax", "-e", "0", "-o", folder / "part", folder / "part.o"]
    command += [f"--section-start={name}={address:#x}" for name, address in sections.items()]
    command += [f"--defsym={name}={address:#x}" for name, address in symbols.items()]
    subprocess.run(command, check=True, capture_output=True)
    content = (folder / "part").read_bytes()
    (first,) = struct.unpack_from("<Q", content, 40)
    count, names = struct.unpack_from("<HH", content, 60)
    records = [struct.unpack_from("<IIQQQQIIQQ", content, first + 64 * k) for k in range(count)]
    found = {}
    for record in records:
        start = records[names][4] + record[0]
        name = content[start : content.index(b"\0", start)].decode()
        if name in sections:
            assert record[3] == sections[name]
            found[name] = content[record[4] : record[4] + record[5]]
    return found


def places(library: Library, text: str) -> tuple[dict[str, int], dict[str, int]]:
    """Where the loader put the sections of an object: the addresses by name, and their sizes."""
    from quadrants.runtime import loader

    image = loader._Image(loader._parse(compiled(text, machine="aarch64"), ARM64), ARM64)
    image.place()
    image.relocate([library.symbols])
    image.install()
    used = [section for section in image.sections if section.place >= 0 and section.size]
    return (
        {section.name: image.base + section.place for section in used},
        {section.name: len(section.content) for section in used},
    )


@linked
@pytest.mark.parametrize(
    ("text", "distances"),
    [(WORDS, {}), (CALLS, {"other": 0x10000}), (CALLS, {"other": -0x7000000}), (CALLS, {"other": 0x7FF0000})],
    ids=["addresses", "calls", "calls far back", "calls far ahead"],
)
def test_code_is_what_a_linker_makes(tmp_path: Path, text: str, distances: dict[str, int]) -> None:
    library = Library(machine=ARM64)
    library.load(compiled("define void @here() nounwind {\n ret void\n}", machine="aarch64"))
    library.symbols.update({name: library.symbols["here"] + distance for name, distance in distances.items()})
    sections, sizes = places(library, text)
    expected = by_linker(tmp_path, text, sections, {name: library.symbols[name] for name in distances})
    assert ".text" in expected and len(expected) >= (1 if distances else 3)
    for name, content in expected.items():
        assert ctypes.string_at(sections[name], sizes[name]) == content[: sizes[name]], name


def instructions(address: int, count: int) -> list[int]:
    return list(struct.unpack(f"<{count}I", ctypes.string_at(address, 4 * count)))


def signed(bits: int, width: int) -> int:
    return bits - (1 << width) if bits >> (width - 1) else bits


def page_of(instruction: int, here: int) -> int:
    """What an `adrp` gives."""
    assert instruction & 0x9F000000 == 0x90000000
    pages = signed((instruction >> 5 & 0x7FFFF) << 2 | instruction >> 29 & 3, 21)
    return (here & -4096) + pages * 4096


def word_of(instruction: int, page: int) -> int:
    """The word that an `ldr` of 64 bits from a page reads."""
    assert instruction & 0xFFC00000 == 0xF9400000
    return ctypes.c_uint64.from_address(page + (instruction >> 10 & 0xFFF) * 8).value


def test_other_objects_are_reached_through_the_table() -> None:
    value = ctypes.c_int64(5)
    found = loaded(GLOBALS, {"elsewhere": ctypes.addressof(value)})
    code = instructions(found.address("get"), 8)
    pages = {
        word & 31: page_of(word, found.address("get") + 4 * k)
        for k, word in enumerate(code)
        if word & 0x9F000000 == 0x90000000
    }
    reads = [
        word_of(word, pages[word >> 5 & 31])
        for word in code
        if word & 0xFFC00000 == 0xF9400000 and word >> 5 & 31 in pages
    ]
    assert {ctypes.addressof(value), found.address("ours")} <= set(reads)


# Far more than 2**27: the object that calls may lie some megabytes nearer than the one that the distance is counted from.
@pytest.mark.parametrize("distance", [1 << 36, -(1 << 36), 1 << 40])
def test_calls_out_of_reach_go_through_a_stub(distance: int) -> None:
    target = loaded("define void @here() nounwind {\n ret void\n}").address("here") + distance & (1 << 48) - 1
    found = loaded(
        "declare void @far()\ndefine void @f() nounwind {\n tail call void @far()\n ret void\n}", {"far": target}
    )
    (jump,) = instructions(found.address("f"), 1)
    assert jump >> 26 == 0b000101
    stub = found.address("f") + 4 * signed(jump & 0x03FFFFFF, 26)
    assert abs(stub - found.address("f")) < 1 << 20  # else there is nothing to read there
    first, second, third, _ = instructions(stub, 4)
    assert (first & 31, second & 31, second >> 5 & 31, third) == (16, 16, 16, 0xD61F0200)  # adrp, ldr, br of x16
    assert word_of(second, page_of(first, stub)) == target


@pytest.mark.parametrize(
    ("number", "instruction", "fits", "too_far"),
    [
        (283, 0x94000000, (1 << 27) - 4, 1 << 27),
        (283, 0x94000000, -(1 << 27), -(1 << 27) - 4),
        (275, 0x90000000, (1 << 20) - 1, 1 << 20),
        (275, 0x90000000, -(1 << 20), -(1 << 20) - 1),
        (261, 0, (1 << 31) - 1, 1 << 31),
    ],
)
def test_the_last_distance_that_fits(number: int, instruction: int, fits: int, too_far: int) -> None:
    content = bytearray(struct.pack("<I", instruction))
    write = ARM64.relocations[number].write
    write(content, 0, fits)
    (word,) = struct.unpack("<I", content)
    if number == 283:
        assert word >> 26 == 0b100101 and 4 * signed(word & 0x03FFFFFF, 26) == fits
    elif number == 275:
        assert page_of(word, 0) == fits * 4096
    else:
        assert signed(word, 32) == fits
    with pytest.raises(OutOfReach):
        write(content, 0, too_far)
    assert struct.unpack("<I", content) == (word,)


def test_code_of_other_models_is_refused_by_name() -> None:
    text = "@x = dso_local global i64 7\ndefine ptr @f() nounwind {\n ret ptr @x\n}"
    with pytest.raises(LoaderError, match=r"R_AARCH64_MOVW_UABS_G0_NC is not supported: compile with pic"):
        Library(machine=ARM64).load(compiled(text, "static", "large", "aarch64"))
    with pytest.raises(LoaderError, match="not a relocatable ELF object for Arm64"):
        Library(machine=ARM64).load(compiled(text, machine="x86_64"))


def test_addresses_too_far_for_data_are_told() -> None:
    text = "@x = external dso_local global i64\ndefine ptr @f() nounwind {\n ret ptr @x\n}"
    with pytest.raises(LoaderError, match="'x' is too far away for a direct reference"):
        Library({"x": 1 << 47}, ARM64).load(compiled(text, machine="aarch64"))
