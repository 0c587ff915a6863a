"""What the loader knows of each processor: how addresses are written into its code, and how it jumps far.

A relocation has a number; its row says which address it is about, what is measured of that address, and how the bits of
the result stand in the instruction. What has no row is refused: it is nothing that position-independent code of the
small code model contains.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import TypeAlias

from quadrants.knobs import Arch

__all__ = ["ARM64", "CALL", "MACHINES", "SYMBOL", "TABLE", "X64", "Machine", "OutOfReach", "Relocation"]

SYMBOL, TABLE, CALL = 0, 1, 2
"""What a relocation is about: a symbol; the table's entry that has the symbol's address; a function to call, which may be
reached through a stub."""


_Measure: TypeAlias = "Callable[[int, int], int]"
_Write: TypeAlias = "Callable[[bytearray, int, int], None]"


class OutOfReach(ValueError):
    """A distance that has more bits than the instruction has room for."""


class Relocation:
    """One kind of relocation: what it is about, its bytes, `measure(address, here)`, and `write(content, place, number)`,
    which raises OutOfReach for a number that does not fit, ValueError for one that no assembler makes."""

    __slots__ = ("about", "measure", "width", "write")

    def __init__(self, about: int, width: int, measure: _Measure, write: _Write) -> None:
        self.about = about
        self.width = width
        self.measure = measure
        self.write = write


class Machine:
    """One processor: its name, ELF's number of it, its relocations and the names of those that are refused by name, and its
    stubs: `write_stub(content, stub, slot)` writes a jump to the address in the table's slot; both are places in the content."""

    __slots__ = ("name", "number", "refused", "relocations", "stub_bytes", "write_stub")

    def __init__(
        self,
        name: str,
        number: int,
        relocations: dict[int, Relocation],
        refused: dict[int, str],
        stub_bytes: int,
        write_stub: _Write,
    ) -> None:
        self.name = name
        self.number = number
        self.relocations = relocations
        self.refused = refused
        self.stub_bytes = stub_bytes
        self.write_stub = write_stub


# ------------------------------------------------------------------------------------------------------ what is measured


def _absolute(address: int, here: int) -> int:
    return address


def _distance(address: int, here: int) -> int:
    return address - here


def _pages(address: int, here: int) -> int:
    """Pages of 4 KiB between the two, whatever the system's pages are."""
    return (address >> 12) - (here >> 12)


def _within_page(address: int, here: int) -> int:
    return address & 0xFFF


# ------------------------------------------------------------------------------------------------------- how it is written


def _write_word(content: bytearray, place: int, number: int) -> None:
    struct.pack_into("<Q", content, place, number % (1 << 64))


def _write_signed_word(content: bytearray, place: int, number: int) -> None:
    struct.pack_into("<q", content, place, number)


def _write_half(content: bytearray, place: int, number: int) -> None:
    if not -(1 << 31) <= number < 1 << 31:
        raise OutOfReach
    struct.pack_into("<i", content, place, number)


def _insert(content: bytearray, place: int, mask: int, bits: int) -> None:
    (old,) = struct.unpack_from("<I", content, place)
    struct.pack_into("<I", content, place, old & ~mask | bits)


def _write_branch(content: bytearray, place: int, distance: int) -> None:
    """`b` and `bl`: 26 bits, in instructions: 128 MiB in both directions."""
    if distance & 3:
        raise ValueError("a jump between instructions")
    if not -(1 << 27) <= distance < 1 << 27:
        raise OutOfReach
    _insert(content, place, 0x03FFFFFF, distance >> 2 & 0x03FFFFFF)


def _write_page(content: bytearray, place: int, pages: int) -> None:
    """`adrp`: 21 bits, the lowest two apart from the others: 4 GiB in both directions."""
    if not -(1 << 20) <= pages < 1 << 20:
        raise OutOfReach
    _insert(content, place, 0x60FFFFE0, (pages & 3) << 29 | (pages >> 2 & 0x7FFFF) << 5)


def _low_bits(scale: int) -> _Write:
    """The 12 bits of `add`, `ldr` and `str`, which count in units of the access's size, 1 << scale."""

    def write(content: bytearray, place: int, number: int) -> None:
        if number & ((1 << scale) - 1):
            raise ValueError("an access to an address that is not a multiple of its size")
        _insert(content, place, 0xFFF << 10, number >> scale << 10)

    return write


# ---------------------------------------------------------------------------------------------------------- the processors


def _jump_x64(content: bytearray, stub: int, slot: int) -> None:
    """jmp *[rip + distance]"""
    struct.pack_into("<HiH", content, stub, 0x25FF, slot - stub - 6, 0xCCCC)


def _jump_arm64(content: bytearray, stub: int, slot: int) -> None:
    """adrp x16, slot; ldr x16, [x16, low bits of slot]; br x16. The register is one that every call may change."""
    struct.pack_into("<IIII", content, stub, 0x90000010, 0xF9400210, 0xD61F0200, 0xD4200000)
    _write_page(content, stub, _pages(slot, stub))
    _low_bits(3)(content, stub + 4, _within_page(slot, stub))


_TABLE_DISTANCE = Relocation(TABLE, 4, _distance, _write_half)

X64 = Machine(
    name="x86-64",
    number=62,
    relocations={
        1: Relocation(SYMBOL, 8, _absolute, _write_word),  # 64
        2: Relocation(SYMBOL, 4, _distance, _write_half),  # PC32
        4: Relocation(CALL, 4, _distance, _write_half),  # PLT32
        9: _TABLE_DISTANCE,  # GOTPCREL
        24: Relocation(SYMBOL, 8, _distance, _write_signed_word),  # PC64
        41: _TABLE_DISTANCE,  # GOTPCRELX
        42: _TABLE_DISTANCE,  # REX_GOTPCRELX
    },
    refused={3: "R_X86_64_GOT32", 10: "R_X86_64_32", 11: "R_X86_64_32S", 19: "R_X86_64_TLSGD"},
    stub_bytes=8,
    write_stub=_jump_x64,
)

_PAGE = Relocation(SYMBOL, 4, _pages, _write_page)
_CALL = Relocation(CALL, 4, _distance, _write_branch)

ARM64 = Machine(
    name="Arm64",
    number=183,
    relocations={
        257: Relocation(SYMBOL, 8, _absolute, _write_word),  # ABS64
        260: Relocation(SYMBOL, 8, _distance, _write_signed_word),  # PREL64
        261: Relocation(SYMBOL, 4, _distance, _write_half),  # PREL32
        275: _PAGE,  # ADR_PREL_PG_HI21
        277: Relocation(SYMBOL, 4, _within_page, _low_bits(0)),  # ADD_ABS_LO12_NC
        278: Relocation(SYMBOL, 4, _within_page, _low_bits(0)),  # LDST8_ABS_LO12_NC
        282: _CALL,  # JUMP26
        283: _CALL,  # CALL26
        284: Relocation(SYMBOL, 4, _within_page, _low_bits(1)),  # LDST16_ABS_LO12_NC
        285: Relocation(SYMBOL, 4, _within_page, _low_bits(2)),  # LDST32_ABS_LO12_NC
        286: Relocation(SYMBOL, 4, _within_page, _low_bits(3)),  # LDST64_ABS_LO12_NC
        299: Relocation(SYMBOL, 4, _within_page, _low_bits(4)),  # LDST128_ABS_LO12_NC
        311: Relocation(TABLE, 4, _pages, _write_page),  # ADR_GOT_PAGE
        312: Relocation(TABLE, 4, _within_page, _low_bits(3)),  # LD64_GOT_LO12_NC
    },
    refused={
        258: "R_AARCH64_ABS32",
        264: "R_AARCH64_MOVW_UABS_G0_NC",
        266: "R_AARCH64_MOVW_UABS_G1_NC",
        268: "R_AARCH64_MOVW_UABS_G2_NC",
        269: "R_AARCH64_MOVW_UABS_G3",
        274: "R_AARCH64_ADR_PREL_LO21",
        309: "R_AARCH64_GOT_LD_PREL19",
        562: "R_AARCH64_TLSDESC_ADR_PAGE21",
    },
    stub_bytes=16,
    write_stub=_jump_arm64,
)

MACHINES = {Arch.x64: X64, Arch.arm64: ARM64}
