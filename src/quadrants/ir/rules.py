"""Type rules of the op table: operand types and attributes to result types, or a TypeError that says what does not fit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from quadrants.ir.fragments import COUNTS, SUMS, THREADS, depth_of, held_of
from quadrants.ir.shared_fragments import TEAM, products_of
from quadrants.ir.threads import COPIED
from quadrants.ir.types import (
    ArrayType,
    LaneType,
    MatrixType,
    ScalarType,
    Type,
    bf16,
    f16,
    f32,
    i64,
    lanes_of,
    matrix_type,
    scalar_of,
    shape_of,
    shared_type,
    slot_type,
    u1,
    u64,
    with_scalar,
)

Attributes = dict[str, Any]
Types = tuple[Type, ...]


def _uniform(accepts: Callable[[ScalarType], bool], what: str) -> Callable[[Types, Attributes], Types]:
    accepted: dict[Type, Types] = {}

    def rule(operands: Types, attributes: Attributes) -> Types:
        first = operands[0]
        for other in operands:
            if other is not first:
                raise TypeError(f"operands differ in type: {', '.join(map(str, operands))}")
        found = accepted.get(first)
        if found is None:
            if type(first) is ArrayType or not accepts(scalar_of(first)):
                raise TypeError(f"takes {what}, not {first}")
            found = accepted[first] = (first,)
        return found

    return rule


number = _uniform(lambda scalar: scalar.bits > 1, "numbers")
floating = _uniform(lambda scalar: scalar.kind == "f", "floats")
integer = _uniform(lambda scalar: scalar.kind != "f" and scalar.bits > 1, "integers")
bits = _uniform(lambda scalar: scalar.kind != "f", "integers or truth values")
_any = _uniform(lambda scalar: True, "values")


def compare(operands: Types, attributes: Attributes) -> Types:
    return (with_scalar(_any(operands, attributes)[0], u1),)


def test(operands: Types, attributes: Attributes) -> Types:
    return (with_scalar(floating(operands, attributes)[0], u1),)


def select(operands: Types, attributes: Attributes) -> Types:
    condition, yes, no = operands
    _any((yes, no), attributes)
    if condition is not u1 and condition is not with_scalar(yes, u1):
        raise TypeError(f"the condition is {condition}: a u1, or a matrix of u1 of the values' shape")
    return (yes,)


def constant(operands: Types, attributes: Attributes) -> Types:
    return (attributes["type"],)


def cast(operands: Types, attributes: Attributes) -> Types:
    target = attributes["type"]
    if shape_of(target) != shape_of(operands[0]) or lanes_of(target) != lanes_of(operands[0]):
        raise TypeError(f"cannot cast {operands[0]} to {target}: the shapes differ")
    return (target,)


def bitcast(operands: Types, attributes: Attributes) -> Types:
    target = cast(operands, attributes)[0]
    if scalar_of(target).bits != scalar_of(operands[0]).bits:
        raise TypeError(f"cannot take the bits of {operands[0]} as {target}: the widths differ")
    return (target,)


def lookup(operands: Types, attributes: Attributes) -> Types:
    if scalar_of(operands[0]) is not i64 or not attributes["table"]:
        raise TypeError(f"an entry of a table has an i64 index, not {operands[0]}, and the table has an entry")
    return cast(operands, attributes)


def splat(operands: Types, attributes: Attributes) -> Types:
    target = attributes["type"]
    if type(target) is not MatrixType or target.scalar is not operands[0]:
        raise TypeError(f"splat of {operands[0]} to {target}")
    return (target,)


def construct(operands: Types, attributes: Attributes) -> Types:
    target = attributes["type"]
    if type(target) is not MatrixType or target.count != len(operands) or any(o is not target.scalar for o in operands):
        raise TypeError(f"{len(operands)} elements {', '.join(map(str, operands[:4]))} do not make {target}")
    return (target,)


def _indices(types: Types, count: int) -> None:
    if len(types) != count or any(index is not i64 for index in types):
        raise TypeError(f"takes {count} indices of i64, not ({', '.join(map(str, types))})")


def extract(operands: Types, attributes: Attributes) -> Types:
    matrix = operands[0]
    if type(matrix) is not MatrixType:
        raise TypeError(f"extract from {matrix}")
    _indices(operands[1:], len(matrix.shape))
    return (matrix.scalar,)


def insert(operands: Types, attributes: Attributes) -> Types:
    matrix, value = operands[:2]
    if type(matrix) is not MatrixType or value is not matrix.scalar:
        raise TypeError(f"insert of {value} into {matrix}")
    _indices(operands[2:], len(matrix.shape))
    return (matrix,)


def matmul(operands: Types, attributes: Attributes) -> Types:
    left, right = operands
    if type(left) is not MatrixType or type(right) is not MatrixType or left.scalar is not right.scalar:
        raise TypeError(f"matrix product of {left} and {right}")
    rows, columns = left.shape[:-1], right.shape[1:]
    if left.shape[-1] != right.shape[0] or not (rows or columns):
        raise TypeError(f"matrix product of shapes {left.shape} and {right.shape}")
    return (matrix_type(left.scalar, rows + columns),)


def transpose(operands: Types, attributes: Attributes) -> Types:
    matrix = operands[0]
    if type(matrix) is not MatrixType or len(matrix.shape) != 2:
        raise TypeError(f"transpose of {matrix}")
    return (matrix_type(matrix.scalar, (matrix.shape[1], matrix.shape[0])),)


def reduce(operands: Types, attributes: Attributes) -> Types:
    if type(operands[0]) is not MatrixType and type(operands[0]) is not LaneType:
        raise TypeError(f"reduction of {operands[0]}")
    return (scalar_of(operands[0]),)


def _element(array: Type, indices: Types) -> Type:
    if type(array) is not ArrayType:
        raise TypeError(f"{array} is not an array")
    _indices(indices, len(indices))
    try:
        return array.indexed(len(indices))
    except ValueError as error:
        raise TypeError(str(error)) from None


def load(operands: Types, attributes: Attributes) -> Types:
    return (_element(operands[0], operands[1:]),)


def store(operands: Types, attributes: Attributes) -> Types:
    value, array, *indices = operands
    element = _element(array, tuple(indices))
    if element is not value:
        raise TypeError(f"store of {value} into an element of type {element}")
    return ()


def update(operands: Types, attributes: Attributes) -> Types:
    store(operands, attributes)
    return (operands[0],)


def update_loaded(operands: Types, attributes: Attributes) -> Types:
    value, before, *place = operands
    if value is not before:
        raise TypeError(f"update_loaded of {before} by {value}: one type")
    return store((value, *place), attributes)


def compare_exchange(operands: Types, attributes: Attributes) -> Types:
    expected, value, array, *indices = operands
    if expected is not value or type(value) is not ScalarType or value.kind == "f":
        raise TypeError(f"compare_exchange of {expected} and {value}: one integer type")
    return update((value, array, *indices), attributes)


def dim(operands: Types, attributes: Attributes) -> Types:
    array = operands[0]
    if type(array) is not ArrayType or not 0 <= attributes["axis"] < array.rank:
        raise TypeError(f"axis {attributes.get('axis')} of {array}")
    return (i64,)


def random(operands: Types, attributes: Attributes) -> Types:
    return (u64,)


def slot(operands: Types, attributes: Attributes) -> Types:
    return (slot_type(attributes["type"]),)


def shared(operands: Types, attributes: Attributes) -> Types:
    return (shared_type(attributes["type"]),)


def temporary(operands: Types, attributes: Attributes) -> Types:
    type_ = attributes["type"]
    if type(type_) is not ArrayType or type_.layout != "C" or type_.trailing:
        raise TypeError(f"a temporary array is dense and of sizes known when it is made, not {type_}")
    if operands[0] is not u1:
        raise TypeError(f"the condition is a {operands[0]}, not a u1")
    _indices(operands[1:], type_.rank)
    return (type_, u1)


def tally(operands: Types, attributes: Attributes) -> Types:
    if not isinstance(attributes.get("what"), str):
        raise TypeError("a tally says in words of what")
    return ()


def release(operands: Types, attributes: Attributes) -> Types:
    if type(operands[0]) is not ArrayType:
        raise TypeError(f"takes a temporary array, not {operands[0]}")
    return ()


def for_(operands: Types, attributes: Attributes) -> Types:
    rank = attributes["rank"]
    _indices(operands[: 2 * rank], 2 * rank)
    return operands[2 * rank :]


def while_(operands: Types, attributes: Attributes) -> Types:
    return operands


def if_(operands: Types, attributes: Attributes) -> Types:
    if operands[0] is not u1:
        raise TypeError(f"the condition is {operands[0]}, not u1")
    return tuple(attributes.get("types", ()))


def call(operands: Types, attributes: Attributes) -> Types:
    return tuple(attributes.get("types", ()))


def terminator(operands: Types, attributes: Attributes) -> Types:
    return ()


def effect(operands: Types, attributes: Attributes) -> Types:
    return ()


def check(operands: Types, attributes: Attributes) -> Types:
    if operands[0] is not u1:
        raise TypeError(f"the condition is {operands[0]}, not u1")
    return ()


# Lanes.


def lane_index(operands: Types, attributes: Attributes) -> Types:
    target = attributes["type"]
    if type(target) is not LaneType or target.scalar is not i64:
        raise TypeError(f"lane_index as {target}: lanes of i64 are expected")
    return (target,)


def broadcast(operands: Types, attributes: Attributes) -> Types:
    target = attributes["type"]
    if type(target) is not LaneType or target.scalar is not operands[0]:
        raise TypeError(f"broadcast of {operands[0]} to {target}")
    return (target,)


def extract_lane(operands: Types, attributes: Attributes) -> Types:
    source = operands[0]
    if type(source) is not LaneType or not 0 <= attributes["lane"] < source.lanes:
        raise TypeError(f"lane {attributes['lane']} of {source}")
    return (source.scalar,)


def lane_test(operands: Types, attributes: Attributes) -> Types:
    if type(operands[0]) is not LaneType or operands[0].scalar is not u1:
        raise TypeError(f"takes lanes of u1, not {operands[0]}")
    return (u1,)


def _lane_access(operands: Types, attributes: Attributes) -> LaneType:
    """The array, indices and mask of an access by lanes; gives the type of what is read or written."""
    array, *indices, mask = operands
    lane_test((mask,), attributes)
    if type(array) is not ArrayType or len(indices) != array.rank:
        raise TypeError(f"{len(indices)} indices into {array}: lanes reach whole elements")
    if len(attributes["steps"]) != len(indices):
        raise TypeError(f"{len(attributes['steps'])} steps for {len(indices)} indices")
    wide = with_scalar(mask, i64)
    for index, step in zip(indices, attributes["steps"]):
        if index is not i64 and (index is not wide or step):
            raise TypeError(f"an index is {index}: i64 with a step, or {wide} with step 0")
    found = with_scalar(mask, array.scalar)
    assert type(found) is LaneType
    return found


def lane_load(operands: Types, attributes: Attributes) -> Types:
    return (_lane_access(operands, attributes),)


def lane_store(operands: Types, attributes: Attributes) -> Types:
    value, *rest = operands
    element = _lane_access(tuple(rest), attributes)
    if value is not element:
        raise TypeError(f"store of {value} into elements of type {element}")
    return ()


def lane_update(operands: Types, attributes: Attributes) -> Types:
    lane_store(operands, attributes)
    return (operands[0],)


def interleave(operands: Types, attributes: Attributes) -> Types:
    slot, place, array, *indices, count = operands
    if type(slot) is not ArrayType or not slot.is_slot or slot.rank != 2:
        raise TypeError(f"rows of lanes in {slot}: a slot of rows and lanes is expected")
    if type(array) is not ArrayType or array.is_slot or array.scalar is not slot.scalar or len(indices) != array.rank:
        raise TypeError(f"{len(indices)} indices into {array}, for rows in {slot}")
    _indices((place, *indices, count), array.rank + 2)
    if not 0 <= attributes["axis"] < array.rank - 1:
        raise TypeError(f"axis {attributes['axis']} of {array}: one before the last is expected")
    return ()


# Threads of a block.

WIDTHS = (1, 2, 4, 8, 16, 32, 64)


def _width(attributes: Attributes, block: bool) -> None:
    width = attributes["width"]
    if width not in WIDTHS and not (block and width == 0):
        raise TypeError(f"a team of {width} threads")


def _members(operands: Types, attributes: Attributes) -> None:
    """The threads of a subgroup of the hardware's that are there."""
    if operands and (operands[0] is not u64 or attributes["subgroup"] not in WIDTHS):
        raise TypeError(f"members of a subgroup as {operands[0]}: a u64 is expected, and the subgroup's size")


def thread_index(operands: Types, attributes: Attributes) -> Types:
    if attributes["of"] not in ("block", "grid"):
        raise TypeError(f"the thread's place in a {attributes['of']}")
    return (i64,)


def fence(operands: Types, attributes: Attributes) -> Types:
    if attributes["scope"] not in ("subgroup", "block", "grid", "products"):
        raise TypeError(f"a fence for {attributes['scope']}")
    return ()


def barrier(operands: Types, attributes: Attributes) -> Types:
    return ()


def team_barrier(operands: Types, attributes: Attributes) -> Types:
    if len(operands) > 1:
        raise TypeError(f"team_barrier takes 1 operand at most, not {len(operands)}")
    _width(attributes, False)
    _members(operands, attributes)
    return ()


def shuffle(operands: Types, attributes: Attributes) -> Types:
    if not 2 <= len(operands) <= 3:
        raise TypeError(f"shuffle takes 2 operands, or 3, not {len(operands)}")
    value, source = operands[:2]
    _width(attributes, True)
    _members(operands[2:], attributes)
    if type(value) is ArrayType or source is not i64:
        raise TypeError(f"shuffle of {value} by {source}: a value and an i64 are expected")
    return (value,)


def ballot(operands: Types, attributes: Attributes) -> Types:
    if not 1 <= len(operands) <= 2:
        raise TypeError(f"ballot takes 1 operand, or 2, not {len(operands)}")
    _width(attributes, False)
    _members(operands[1:], attributes)
    if operands[0] is not u1:
        raise TypeError(f"a vote is u1, not {operands[0]}")
    return (u64,)


def team_combine(operands: Types, attributes: Attributes) -> Types:
    _width(attributes, True)
    by = bits if attributes["by"] in ("bit_and", "bit_or", "bit_xor") else number
    if attributes["by"] not in ("add", "mul", "min", "max", "bit_and", "bit_or", "bit_xor"):
        raise TypeError(f"threads combine nothing by {attributes['by']}")
    return by(operands, attributes)


def team_multiply(operands: Types, attributes: Attributes) -> Types:
    if attributes["width"] != THREADS:
        raise TypeError(f"small matrices are held by {THREADS} threads, not {attributes['width']}")
    factor = operands[0] if operands else f32
    if factor not in (f16, bf16, f32):
        raise TypeError(f"products of {factor} in a team")
    count = sum(COUNTS[depth_of(scalar_of(factor).bits)])
    if operands != (factor,) * count + (f32,) * len(SUMS):
        raise TypeError(f"{count} numbers of {factor} and {len(SUMS)} of f32 are expected")
    return (f32,) * len(SUMS)


def team_multiply_shared(operands: Types, attributes: Attributes) -> Types:
    if len(operands) < 4:
        raise TypeError("two factors with their starts are expected")
    _, right = products_of(operands, attributes)
    count = right.width // 2
    if (operands[1], *operands[3:]) != (i64, i64, *(f32,) * count):
        raise TypeError(f"factors with starts of i64 and {count} numbers of f32 are expected")
    if attributes.get("pending", 0) not in (0, 1):
        raise TypeError(f"products of {attributes['pending']} operations that are pending")
    return (f32,) * count


def team_multiplied(operands: Types, attributes: Attributes) -> Types:
    if attributes["width"] != TEAM or not operands or operands != (f32,) * len(operands):
        raise TypeError(f"sums of f32 that {TEAM} threads hold are expected")
    return operands


def _place_in_block(memory: Type, place: Types) -> ScalarType:
    if type(memory) is not ArrayType or memory.layout != "B" or memory.rank != 1:
        raise TypeError(f"a place in {memory}: a block's memory of one axis is expected")
    _indices(place, 1)
    return memory.scalar


def team_load(operands: Types, attributes: Attributes) -> Types:
    scalar = _place_in_block(operands[0] if operands else f32, operands[1:])
    count, transposed = attributes["count"], attributes.get("transposed")
    if attributes["width"] != THREADS or count not in (1, 2, 4):
        raise TypeError(f"{count} matrices for {attributes['width']} threads")
    if scalar not in (f16, bf16, f32) or (transposed and scalar is f32):
        raise TypeError(f"matrices of {scalar}{', transposed' if transposed else ''}")
    return (scalar,) * (count * held_of(scalar.bits))


def copy_begin(operands: Types, attributes: Attributes) -> Types:
    scalar = _place_in_block(operands[0], operands[1:2])
    array, *indices = operands[2:-1]
    if type(array) is not ArrayType or not array.has_descriptor or array.scalar is not scalar:
        raise TypeError(f"a copy of {array} to numbers of {scalar}")
    _indices((*indices, operands[-1]), array.rank + 1)
    if attributes["elements"] * scalar.bytes not in COPIED:
        raise TypeError(f"a copy of {attributes['elements']} numbers of {scalar}")
    return ()


def copy_wait(operands: Types, attributes: Attributes) -> Types:
    if attributes["groups"] not in range(8):
        raise TypeError(f"a wait for all but {attributes['groups']} groups")
    return ()


def lines_aligned(operands: Types, attributes: Attributes) -> Types:
    array = operands[0]
    if type(array) is not ArrayType or not array.has_descriptor or not array.rank or attributes["bytes"] not in COPIED:
        raise TypeError(f"lines of {array} at multiples of {attributes['bytes']}")
    return (u1,)


# Functions of C.


def external(operands: Types, attributes: Attributes) -> Types:
    left = list(operands)
    for parameter in attributes["parameters"]:
        if not left:
            raise TypeError(f"takes {len(attributes['parameters'])} arguments")
        first = left.pop(0)
        if not parameter.startswith("*"):
            if type(first) is not ScalarType or first.name != parameter:
                raise TypeError(f"an argument is {first}, not {parameter}")
            continue
        if (
            type(first) is not ArrayType
            or parameter[1:] not in ("", first.scalar.name)
            or (first.layout == "A" and not attributes.get("strided"))
        ):
            raise TypeError(f"an argument is {first}, not dense memory of {parameter[1:] or 'numbers'}")
        _indices(tuple(left[: first.rank]), first.rank)
        del left[: first.rank]
    if left:
        raise TypeError(f"takes {len(attributes['parameters'])} arguments")
    found = attributes.get("type")
    return (found,) if found is not None else ()
