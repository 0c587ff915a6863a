"""Loads relocatable ELF objects into the process, without LLVM and without a linker, on every system.

Objects come from our own code generation: position independent, code model small, no unwinding. They are mapped into
memory that lives as long as the process (`code_memory`), so an address once handed out never dangles. What is particular to
a processor is its row of `relocations`. A malformed object raises `LoaderError` before anything of it becomes executable.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Mapping, Sequence

from quadrants.knobs import host_arch
from quadrants.records import Record
from quadrants.runtime.code_memory import PAGE, protect, reserve
from quadrants.runtime.relocations import CALL, MACHINES, TABLE, Machine, OutOfReach, Relocation
from quadrants.targets import hosts

__all__ = ["Library", "LoadedObject", "LoaderError", "process_symbol"]


class LoaderError(RuntimeError):
    """An object file cannot be loaded: malformed, of another machine, or with a symbol that nobody defines."""


_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_RELOCATION = struct.Struct("<QIIq")

_RELOCATABLE = 1
_KIND_NULL, _KIND_SYMBOLS, _KIND_ADDENDS, _KIND_ZERO, _KIND_NO_ADDENDS = 0, 2, 4, 8, 9
_CONSTRUCTORS = (".init_array", ".fini_array", ".preinit_array", ".ctors", ".dtors")
_FLAG_WRITE, _FLAG_LOADED, _FLAG_EXECUTE, _FLAG_THREAD_LOCAL = 1, 2, 4, 0x400
_INDEX_UNDEFINED, _INDEX_ABSOLUTE, _INDEX_COMMON, _INDEX_RESERVED = 0, 0xFFF1, 0xFFF2, 0xFF00
_BIND_LOCAL, _BIND_WEAK = 0, 2
_TYPE_THREAD_LOCAL, _TYPE_INDIRECT = 6, 10

_CODE, _CONSTANTS, _DATA = 0, 1, 2
_PROTECTION = {_CODE: 1 | 4, _CONSTANTS: 1, _DATA: 1 | 2}
_SLOT_BYTES = 8


class LoadedObject(Record):
    """One object in memory: the addresses of the global symbols that it defines."""

    symbols: Mapping[str, int]

    def address(self, name: str) -> int:
        """The address of a global that this object defines; `LoaderError` if it defines none of that name."""
        try:
            return self.symbols[name]
        except KeyError:
            raise LoaderError(f"the object defines no global symbol {name!r}") from None


class Library:
    """Objects that may use one another's globals.

    A symbol that an object leaves undefined is looked up among the symbols given to the call, those of the objects
    loaded with it, those of this library (given, or loaded before), and those of the process (C and mathematics).

    Objects of another machine than the host's can be loaded, too, and not run.
    """

    def __init__(self, symbols: Mapping[str, int] | None = None, machine: Machine | None = None) -> None:
        self.symbols: dict[str, int] = dict(symbols or {})
        self.machine = machine or MACHINES[host_arch()]

    def load(self, object_bytes: bytes, symbols: Mapping[str, int] | None = None) -> LoadedObject:
        """Load one object. Raises `LoaderError`."""
        return self.load_group([object_bytes], symbols)[0]

    def load_group(self, objects: Sequence[bytes], symbols: Mapping[str, int] | None = None) -> list[LoadedObject]:
        """Load objects that refer to one another, in any order and in cycles. Raises `LoaderError`."""
        try:
            images = [_Image(_parse(content, self.machine), self.machine) for content in objects]
            exported = [image.place() for image in images]
            scopes = [symbols or {}, *exported, self.symbols]
            for image in images:
                image.relocate(scopes)
            for image, names in zip(images, exported):
                image.install()
                self.symbols.update(names)
        except (struct.error, IndexError, ValueError, OverflowError) as error:
            raise LoaderError(f"malformed object file: {error}") from error
        except (OSError, MemoryError) as error:
            raise LoaderError(f"no executable memory for the code: {error}") from error
        return [LoadedObject(names) for names in exported]


# ---------------------------------------------------------------------------------------------- symbols of the process


def process_symbol(name: str) -> int | None:
    """The address of a C symbol of this process or of the mathematics and compiler support libraries, or None."""
    address = _process_symbols.get(name)
    if address is None:
        address = _search_process(name)
        if address is not None:
            _process_symbols[name] = address
    return address


_process_symbols: dict[str, int] = {}
_process_libraries: list[ctypes.CDLL] = []


def _search_process(name: str) -> int | None:
    if not _process_libraries:
        _process_libraries.append(ctypes.CDLL(None))
        host = hosts.host()
        for path in host.libraries if host is not None else ():
            try:
                _process_libraries.append(ctypes.CDLL(path))
            except OSError:  # a C library that keeps everything in one file, as musl does
                continue
    for library in _process_libraries:
        try:
            return ctypes.addressof(ctypes.c_char.in_dll(library, name))
        except ValueError:
            continue
    return None


# ------------------------------------------------------------------------------------------------------------- parsing


class _Section:
    __slots__ = ("alignment", "content", "flags", "info", "kind", "name", "place", "size")

    def __init__(self, kind: int, flags: int, size: int, info: int, alignment: int, content: bytes) -> None:
        self.kind = kind
        self.flags = flags
        self.size = size
        self.info = info
        self.alignment = alignment
        self.content = content
        self.name = ""
        self.place = -1

    @property
    def group(self) -> int:
        if self.flags & _FLAG_EXECUTE:
            return _CODE
        return _DATA if self.flags & _FLAG_WRITE else _CONSTANTS


class _Symbol:
    __slots__ = ("binding", "name", "section", "size", "value")

    def __init__(self, name: str, binding: int, section: int, value: int, size: int) -> None:
        self.name = name
        self.binding = binding
        self.section = section
        self.value = value
        self.size = size


class _Parsed:
    __slots__ = ("sections", "symbols")

    def __init__(self, sections: list[_Section]) -> None:
        self.sections = sections
        self.symbols: list[_Symbol] = []


def _text(strings: bytes, start: int) -> str:
    return strings[start : strings.index(b"\0", start)].decode()


def _parse(content: bytes, machine: Machine) -> _Parsed:
    header = _HEADER.unpack_from(content, 0)
    if header[0][:7] != b"\x7fELF\x02\x01\x01" or header[1] != _RELOCATABLE or header[2] != machine.number:
        raise LoaderError(f"not a relocatable ELF object for {machine.name}")
    records = [_SECTION.unpack_from(content, header[6] + index * _SECTION.size) for index in range(header[12])]
    sections = [_parse_section(record, content) for record in records]
    names = sections[header[13]].content
    parsed = _Parsed(sections)
    for record, section in zip(records, sections):
        section.name = _text(names, record[0]) if section.kind != _KIND_NULL else ""
        if section.name.startswith(_CONSTRUCTORS):
            raise LoaderError("global constructors are not supported")
        if section.name == ".eh_frame":  # nothing unwinds through this code
            section.flags = 0
        if section.kind == _KIND_SYMBOLS:
            parsed.symbols = [
                _parse_symbol(symbol, sections[record[6]].content, sections)
                for symbol in _SYMBOL.iter_unpack(section.content)
            ]
    return parsed


def _parse_section(record: tuple[int, ...], content: bytes) -> _Section:
    _, kind, flags, _, first, size, _, info, alignment, _ = record
    if kind == _KIND_NO_ADDENDS:
        raise LoaderError("relocations without addends are not supported")
    if flags & _FLAG_THREAD_LOCAL:
        raise LoaderError("thread-local variables are not supported")
    if alignment > PAGE or alignment & (alignment - 1):
        raise LoaderError(f"malformed object file: alignment {alignment}")
    in_file = kind not in (_KIND_NULL, _KIND_ZERO)
    if (in_file and first + size > len(content)) or size > 1 << 31:
        raise LoaderError("malformed object file: a section reaches past the end")
    return _Section(kind, flags, size, info, max(alignment, 1), content[first : first + size] if in_file else b"")


def _parse_symbol(record: tuple[int, ...], strings: bytes, sections: list[_Section]) -> _Symbol:
    name_offset, info, _, section, value, size = record
    name = _text(strings, name_offset)
    if info & 15 in (_TYPE_THREAD_LOCAL, _TYPE_INDIRECT):
        raise LoaderError(f"symbol {name!r}: thread-local and indirect symbols are not supported")
    if _INDEX_UNDEFINED < section < _INDEX_RESERVED and value > sections[section].size:
        raise LoaderError(f"malformed object file: symbol {name!r} lies outside its section")
    return _Symbol(name, info >> 4, section, value, size)


# ---------------------------------------------------------------------------------------------- placing and relocating


class _Image:
    """One object between parsing and installing: sections packed into code, constants and data, each on own pages.

    Calls that do not reach their function go through stubs, other uses through a table of addresses, both built here.
    """

    def __init__(self, parsed: _Parsed, machine: Machine) -> None:
        self.machine = machine
        self.sections = parsed.sections
        self.symbols = parsed.symbols
        self.relocations = self._parse_relocations()
        self.addresses: list[int | None] = [None] * len(self.symbols)
        self.commons: dict[int, int] = {}
        self.slots: dict[int, int] = {}
        self.stubs: dict[int, int] = {}
        self.bounds: list[tuple[int, int]] = []
        self.content = bytearray()
        self.base = 0

    def _parse_relocations(self) -> list[tuple[_Section, int, Relocation, int, int]]:
        found: list[tuple[_Section, int, Relocation, int, int]] = []
        for section in self.sections:
            if section.kind != _KIND_ADDENDS:
                continue
            target = self.sections[section.info]
            if target.flags & _FLAG_LOADED:
                for offset, number, symbol, addend in _RELOCATION.iter_unpack(section.content):
                    found.append((target, offset, self._relocation(number), symbol, addend))
        return found

    def _relocation(self, number: int) -> Relocation:
        found = self.machine.relocations.get(number)
        if found is None:
            name = self.machine.refused.get(number, number)
            raise LoaderError(f"relocation {name} is not supported: compile with pic")
        return found

    def place(self) -> dict[str, int]:
        """Decide every address, reserve the memory, and return the globals that the object defines."""
        end = 0
        for group in (_CODE, _CONSTANTS, _DATA):
            start = end = -(-end // PAGE) * PAGE
            for section in self.sections:
                if section.flags & _FLAG_LOADED and section.group == group:
                    section.place = -(-end // section.alignment) * section.alignment
                    end = section.place + section.size
            end = self._place_extras(group, -(-end // 16) * 16)
            self.bounds.append((start, end))
        self.content = bytearray(end)
        self.base = reserve(end)
        for section in self.sections:
            if section.place >= 0:
                self.content[section.place : section.place + len(section.content)] = section.content
        return self._define_symbols()

    def _place_extras(self, group: int, end: int) -> int:
        """Stubs follow the code, the table of addresses follows the constants, common symbols follow the data."""
        if group == _DATA:
            for index, symbol in enumerate(self.symbols):
                if symbol.section == _INDEX_COMMON:
                    self.commons[index] = end
                    end += -(-symbol.size // 16) * 16
            return end
        if group == _CODE:
            wanted, places, size = self._symbols_with_stub(), self.stubs, self.machine.stub_bytes
        else:
            wanted, places, size = self._symbols_with_slot(), self.slots, _SLOT_BYTES
        for index in wanted:
            places[index] = end
            end += size
        return end

    def _symbols_with_stub(self) -> list[int]:
        calls = dict.fromkeys(symbol for _, _, kind, symbol, _ in self.relocations if kind.about == CALL)
        return [index for index in calls if self.symbols[index].section == _INDEX_UNDEFINED]

    def _symbols_with_slot(self) -> list[int]:
        uses = dict.fromkeys(symbol for _, _, kind, symbol, _ in self.relocations if kind.about == TABLE)
        return list(dict.fromkeys([*self.stubs, *uses]))

    def _define_symbols(self) -> dict[str, int]:
        exported: dict[str, int] = {}
        for index, symbol in enumerate(self.symbols):
            if index in self.commons:
                address = self.base + self.commons[index]
            elif symbol.section == _INDEX_ABSOLUTE:
                address = symbol.value
            elif _INDEX_UNDEFINED < symbol.section < _INDEX_RESERVED:
                section = self.sections[symbol.section]
                if section.place < 0:
                    continue
                address = self.base + section.place + symbol.value
            else:
                continue
            self.addresses[index] = address
            if symbol.binding != _BIND_LOCAL:
                exported[symbol.name] = address
        return exported

    def relocate(self, scopes: Sequence[Mapping[str, int]]) -> None:
        """Fill in every address. Raises `LoaderError` for a symbol that no scope and not the process defines."""
        for index in dict.fromkeys(symbol for _, _, _, symbol, _ in self.relocations):
            if self.addresses[index] is None:
                self.addresses[index] = _find_symbol(self.symbols[index], scopes)
        for index, slot in self.slots.items():
            struct.pack_into("<Q", self.content, slot, self._address(index))
        for index, stub in self.stubs.items():
            self.machine.write_stub(self.content, stub, self.slots[index])
        for section, offset, relocation, symbol, addend in self.relocations:
            self._apply(section, offset, relocation, symbol, addend)

    def _address(self, symbol: int) -> int:
        address = self.addresses[symbol]
        if address is None:
            raise LoaderError(f"symbol {self.symbols[symbol].name!r} lies in a section that is not loaded")
        return address

    def _apply(self, section: _Section, offset: int, relocation: Relocation, symbol: int, addend: int) -> None:
        if offset + relocation.width > section.size or section.kind == _KIND_ZERO:
            raise LoaderError("malformed object file: a relocation lies outside its section")
        place = section.place + offset
        here = self.base + place
        address = self.base + self.slots[symbol] if relocation.about == TABLE else self._address(symbol)
        try:
            relocation.write(self.content, place, relocation.measure(address + addend, here))
        except OutOfReach:
            if relocation.about != CALL or symbol not in self.stubs:
                raise LoaderError(
                    f"symbol {self.symbols[symbol].name!r} is too far away for a direct reference"
                ) from None
            relocation.write(self.content, place, relocation.measure(self.base + self.stubs[symbol] + addend, here))

    def install(self) -> None:
        """Copy the object into its memory, give each part its final protection, and let the processor see new code."""
        ctypes.memmove(self.base, bytes(self.content), len(self.content))
        for group, (start, end) in enumerate(self.bounds):
            if end > start and group != _DATA:
                protect(self.base + start, end - start, _PROTECTION[group])
                if group == _CODE:
                    _flush(self.base + start, end - start)


def _flush(address: int, size: int) -> None:
    """Have instruction fetches see code that was written as data."""
    host = hosts.host()
    if host is None or not host.flush:
        return
    function = process_symbol(host.flush)
    if function is None:
        raise LoaderError(f"there is no {host.flush}, which makes the processor see new code")
    second = address + size if host.flush_takes_end else size
    ctypes.PYFUNCTYPE(None, ctypes.c_void_p, ctypes.c_size_t)(function)(address, second)


def _find_symbol(symbol: _Symbol, scopes: Sequence[Mapping[str, int]]) -> int:
    for scope in scopes:
        address = scope.get(symbol.name)
        if address is not None:
            return address
    address = process_symbol(symbol.name)
    if address is None and symbol.binding == _BIND_WEAK:
        return 0
    if address is None:
        raise LoaderError(f"undefined symbol {symbol.name!r}")
    return address
