"""What a target makes of a module: machine code and all that the runtime needs to load it, run it and speak for it."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

import numpy as np

from quadrants.digest import blake2b
from quadrants.ir.formatting import format_message, format_print
from quadrants.ir.nodes import Location
from quadrants.records import Record, fresh

__all__ = ["Artifact", "Message", "PrintFormat", "content_id", "decode_prints"]


def content_id(*parts: object) -> int:
    """A positive 63-bit number that is the same for the same parts in every process: ids of messages and formats."""
    digest = blake2b(repr(parts).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") >> 1


class Message(Record):
    """What a failed check says: `text` with one {} for each value, the kind of `error`, where, the values' types."""

    text: str
    error: str
    location: Location | None
    types: tuple[str, ...]

    def render(self, words: Sequence[int]) -> str:
        """The text with the values that the failed check stored, one 64-bit word each."""
        return format_message(self.text, [_decoded(word, name) for word, name in zip(words, self.types)])


class PrintFormat(Record):
    """How a print's record is written: `pieces` of text between the values, the values' format `specs` and types."""

    pieces: tuple[str, ...]
    specs: tuple[str, ...]
    types: tuple[str, ...]

    def render(self, words: Sequence[int]) -> str:
        """The printed text of a record's values, one 64-bit word each."""
        return format_print(self.pieces, self.specs, [_decoded(word, name) for word, name in zip(words, self.types)])


def _decoded(word: int, type_name: str) -> Any:
    """A 64-bit word of a record as a NumPy scalar of the type's width, so that it prints as its own precision does."""
    raw = word & 0xFFFFFFFFFFFFFFFF
    if type_name == "u1":
        return np.bool_(raw != 0)
    if type_name in ("f16", "bf16", "f32", "f64"):
        value = struct.unpack("<d", struct.pack("<Q", raw))[0]
        return {"f16": np.float16, "f64": np.float64}.get(type_name, np.float32)(value)
    bits = int(type_name[1:])
    return (
        np.array(raw, np.uint64)
        .view("int64" if type_name[0] == "i" else "uint64")
        .astype(f"{'int' if type_name[0] == 'i' else 'uint'}{bits}")[()]
    )


def decode_prints(records: bytes, formats: dict[int, PrintFormat]) -> list[str]:
    """The texts of consecutive print records { i64 format id; one 64-bit word a value }; KeyError for an unknown id."""
    words = np.frombuffer(records, np.int64).tolist()
    texts, at = [], 0
    while at < len(words):
        form = formats[words[at]]
        texts.append(form.render(words[at + 1 : at + 1 + len(form.types)]))
        at += 1 + len(form.types)
    return texts


class Artifact(Record):
    """A compiled kernel.

    objects: (name, bytes) of relocatable objects; each name is one of its symbols and a hash of its content, so that
    kernels share the objects of functions; the kernel's own come last, the symbol `entry` of the last is `i32 entry(ptr frame)`.
    externals: symbols that none of the objects defines, for the runtime and the C library to supply.
    messages, prints: what failed checks and print records mean, by their ids.
    texts: the program of each object, as the code generator got it.
    """

    objects: tuple[tuple[str, bytes], ...]
    entry: str
    externals: tuple[str, ...]
    messages: dict[int, Message] = fresh(dict[int, Message])
    prints: dict[int, PrintFormat] = fresh(dict[int, PrintFormat])
    texts: tuple[str, ...] = ()

    @property
    def llvm_text(self) -> str:
        """The whole program before the code generator's own optimiser, the kernel last."""
        return "\n".join(self.texts)
