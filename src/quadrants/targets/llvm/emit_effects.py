"""Prints and checks: records of 64-bit words handed to the runtime, which words them by the artifact's tables; random
bits, which the runtime has; tallies, which are words of the runtime's by the names of what they count."""

from __future__ import annotations

from collections.abc import Callable

from quadrants.ir.external import TALLY
from quadrants.ir.nodes import Op
from quadrants.targets.artifact import Message, PrintFormat, content_id
from quadrants.targets.llvm.arrays import store_word, to_word
from quadrants.targets.llvm.writer import Writer, scalar

__all__ = ["HANDLERS", "fail_unless"]


def _print(writer: Writer, op: Op) -> None:
    types = tuple(operand.type.name for operand in op.operands)
    specs = tuple(op.attribute("specs") or ("",) * len(types))
    form = PrintFormat(tuple(op.attributes["format"]), specs, types)
    number = content_id("print", form.pieces, form.specs, form.types)
    writer.unit.prints[number] = form
    words = [str(number), *[to_word(writer, scalar(operand), writer.name(operand)) for operand in op.operands]]
    record = writer.words(len(words))
    for k, word in enumerate(words):
        store_word(writer, record, k, word)
    writer.call("void", "qd_print", f"ptr {record}, i64 {8 * len(words)}", "ptr, i64", "nounwind")


def _check(writer: Writer, op: Op) -> None:
    condition, *values = op.operands
    types = tuple(value.type.name for value in values)
    message = Message(op.attribute("message", ""), op.attribute("error", "assert"), op.location, types)

    def words() -> list[str]:
        return [to_word(writer, scalar(value), writer.name(value)) for value in values]

    fail_unless(writer, writer.name(condition), message, words)


def fail_unless(writer: Writer, condition: str, message: Message, words: Callable[[], list[str]]) -> None:
    """Leaves the function unless the condition holds. `words` writes the code for the message's values, 64 bits each,
    where they are needed: after the check has failed."""
    good, bad = writer.new_label(), writer.new_label()
    writer.branch(condition, good, bad, likely=True)
    writer.begin(bad)
    number = content_id("check", message.text, message.error, message.location, message.types)
    writer.unit.messages[number] = message
    values = words()
    record = writer.words(len(values)) if values else "null"
    for k, word in enumerate(values):
        store_word(writer, record, k, word)
    writer.call("void", "qd_fail", f"i64 {number}, ptr {record}, i64 {len(values)}", "i64, ptr, i64", "nounwind cold")
    writer.fail()
    writer.begin(good)


def _random(writer: Writer, op: Op) -> None:
    writer.names[op.results[0]] = writer.call("i64", "qd_random", "", "", "nounwind")


def _tally(writer: Writer, op: Op) -> None:
    symbol = '"' + (TALLY + op.attributes["what"]).replace('"', "\\22") + '"'
    writer.unit.declare(symbol, f"@{symbol} = external global i64, align 8")
    writer.line(f"atomicrmw add ptr @{symbol}, i64 1 monotonic, align 8")


def _fence(writer: Writer, op: Op) -> None:
    """Of a block that has been taken apart, what other blocks see: they run on other threads."""
    writer.line("fence seq_cst")


HANDLERS = {"fence": _fence, "print": _print, "check": _check, "random": _random, "tally": _tally}
