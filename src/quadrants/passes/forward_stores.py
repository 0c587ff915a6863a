"""Forward stores: a load of an element whose content is known gives that value; a store of that content is dropped.

Content is known from a store or load of the same array value at the same indices, until something may write there.
One walk over structured control flow: a branch knows what was known before it; after it, what either branch may have
written is forgotten; a loop forgets beforehand what its body may write.
"""

from __future__ import annotations

from quadrants.ir.nodes import Block, Function, Module, Op, Value
from quadrants.ir.threads import ORDERING
from quadrants.ir.types import ArrayType
from quadrants.passes.context import PassContext
from quadrants.passes.memory import ARRAY_POSITION, Key, MemoryEffects, element_key, may_meet, memory_effects
from quadrants.records import Record

__all__ = ["forward_in", "run"]


class _Content(Record):
    """What an element holds; `wrap`: its index may count from the end."""

    value: Value
    wrap: bool


def run(module: Module, context: PassContext) -> None:
    """Forwards stores and loads in every function, in place; stage `kernel` or `tasks`."""
    effects = memory_effects(module, context)
    for function in context.functions(module):
        if not effects.block(function.body).reads:
            continue
        forwarder = _Forwarder(function, effects, context)
        function.body.ops = forwarder.walk(function.body.ops)


def forward_in(block: Block, function: Function, effects: MemoryEffects, context: PassContext) -> None:
    """Forwards within one block and its regions, taking nothing to be known in front of it."""
    block.ops = _Forwarder(function, effects, context).walk(block.ops)


class _Forwarder:
    """What is known of memory at one point of the walk, with a log by which a region's changes are taken back."""

    __slots__ = ("context", "effects", "known", "log", "may_alias", "replaced")

    def __init__(self, function: Function, effects: MemoryEffects, context: PassContext) -> None:
        self.effects = effects
        self.context = context
        self.may_alias = bool(function.attributes.get("may_alias"))
        self.known: dict[Value, dict[Key, _Content]] = {}
        self.log: list[tuple[Value, Key, _Content | None]] = []
        self.replaced: dict[Value, Value] = {}

    def walk(self, ops: list[Op]) -> list[Op]:
        """The operations that stay."""
        out: list[Op] = []
        replaced, visitors = self.replaced, _VISITORS
        mapped = replaced.keys()
        for op in ops:
            operands = op.operands
            if not mapped.isdisjoint(operands):
                op.operands = tuple([replaced.get(operand, operand) for operand in operands])
            visitor = visitors.get(op.kind)
            if visitor is None or not visitor(self, op, out):
                out.append(op)
        return out

    # Knowledge.

    def _set(self, array: Value, key: Key, content: _Content | None) -> None:
        elements = self.known.setdefault(array, {})
        self.log.append((array, key, elements.get(key)))
        if content is None:
            elements.pop(key, None)
        else:
            elements[key] = content

    def _forget(self, array: Value, key: Key = (), wrap: bool = False) -> None:
        """Forgets what a write of these elements may change: by default all of the array's."""
        elements = self.known.get(array)
        if elements:
            for other, content in list(elements.items()):
                if may_meet(key, other, wrap or content.wrap):
                    self._set(array, other, None)
        if self.may_alias and not _is_slot(array):
            for another, elements in self.known.items():
                if another is not array and not _is_slot(another):
                    for other in list(elements):
                        self._set(another, other, None)

    def _take_back(self, mark: int) -> list[tuple[Value, Key]]:
        """Restores what was known at `mark`; gives the elements that had changed since."""
        log = self.log
        changed: list[tuple[Value, Key]] = []
        while len(log) > mark:
            array, key, content = log.pop()
            if content is None:
                self.known[array].pop(key, None)
            else:
                self.known[array][key] = content
                changed.append((array, key))
        return changed

    # Visitors: each says whether the operation is gone.

    def visit_load(self, op: Op, out: list[Op]) -> bool:
        array, indices = op.operands[0], op.operands[1:]
        key = element_key(indices)
        elements = self.known.get(array)
        if elements:
            content = elements.get(key)
            if content is not None:
                if self.context.permit():
                    self.replaced[op.results[0]] = content.value
                    return True
            elif len(key) > 1 and self._load_part(op, key, elements, out):
                return True
        self._set(array, key, _Content(op.results[0], bool(op.attribute("wrap"))))
        return False

    def _load_part(self, op: Op, key: Key, elements: dict[Key, _Content], out: list[Op]) -> bool:
        """Takes an element out of a matrix that is known to lie at a part of the indices."""
        for length in range(len(key) - 1, max(len(key) - 3, -1), -1):
            content = elements.get(key[:length])
            if content is None:
                continue
            shape = getattr(content.value.type, "shape", ())
            inside = all(type(index) is int and 0 <= index < size for index, size in zip(key[length:], shape))
            if not inside or len(shape) != len(key) - length or not self.context.permit():
                return False
            extract = Op(
                "extract",
                (content.value, *op.operands[1 + length :]),
                (op.results[0].type,),
                None,
                (),
                op.location,
            )
            out.append(extract)
            self.replaced[op.results[0]] = extract.results[0]
            return True
        return False

    def visit_store(self, op: Op, out: list[Op]) -> bool:
        value, array = op.operands[:2]
        key = element_key(op.operands[2:])
        elements = self.known.get(array)
        if elements and (content := elements.get(key)) is not None and content.value is value:
            if self.context.permit():
                self.context.memory_effects = None
                return True
        wrap = bool(op.attribute("wrap"))
        self._forget(array, key, wrap)
        self._set(array, key, _Content(value, wrap))
        return False

    def visit_update(self, op: Op, out: list[Op]) -> bool:
        position = ARRAY_POSITION[op.kind]
        self._forget(op.operands[position], element_key(op.operands[position + 1 :]), bool(op.attribute("wrap")))
        return False

    def visit_call(self, op: Op, out: list[Op]) -> bool:
        for array in self.effects.call(op).writes:
            self._forget(array)
        return False

    def visit_ordering(self, op: Op, out: list[Op]) -> bool:
        """Other threads may have written to all that is not private."""
        for array in list(self.known):
            if not _is_slot(array):
                self._forget(array)
        return False

    def visit_if(self, op: Op, out: list[Op]) -> bool:
        changed: list[tuple[Value, Key]] = []
        for region in op.regions:
            mark = len(self.log)
            region.ops = self.walk(region.ops)
            back = self._take_back(mark)
            if region.ops[-1].kind == "yield":
                changed.extend(back)
        for array, key in changed:
            if key in self.known[array]:
                self._set(array, key, None)
        return False

    def visit_loop(self, op: Op, out: list[Op]) -> bool:
        for region in op.regions:
            for array in self.effects.block(region).writes:
                self._forget(array)
        for region in op.regions:  # the body of a `while` does not see what its condition has computed
            mark = len(self.log)
            region.ops = self.walk(region.ops)
            self._take_back(mark)
        return False


def _is_slot(array: Value) -> bool:
    return type(array.type) is ArrayType and array.type.is_slot


_VISITORS = {
    "load": _Forwarder.visit_load,
    "store": _Forwarder.visit_store,
    "update": _Forwarder.visit_update,
    "update_loaded": _Forwarder.visit_update,
    "compare_exchange": _Forwarder.visit_update,
    "call": _Forwarder.visit_call,
    "external": _Forwarder.visit_call,
    **dict.fromkeys(ORDERING, _Forwarder.visit_ordering),
    "if": _Forwarder.visit_if,
    "for": _Forwarder.visit_loop,
    "while": _Forwarder.visit_loop,
}
