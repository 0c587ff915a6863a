"""The op table: one row an operation. Printer, verifier, folder, interpreter, documentation and random programs derive
from the rows; a new scalar operation is one row here. A row with an `expansion` needs nothing of any target.

Elementwise rows take scalars or matrices of one shape. Operands of a row have one type unless its rule says otherwise:
conversions are explicit (`cast`, `splat`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Union

from quadrants.ir import evaluate as ev
from quadrants.ir import rules
from quadrants.ir.nodes import Value
from quadrants.ir.types import Type
from quadrants.records import Record

if TYPE_CHECKING:
    from quadrants.ir.builder import Builder

__all__ = ["OPS", "TERMINATORS", "Row", "is_pure", "result_types"]

Rule = Callable[[tuple[Type, ...], dict[str, Any]], tuple[Type, ...]]
Gradients = tuple[Value | None, ...]
# The builder, the gradient, the result and one to three operands; and the builder and one to three operands.
Derivative = Union[
    "Callable[[Builder, Value, Value, Value], Gradients]",
    "Callable[[Builder, Value, Value, Value, Value], Gradients]",
    "Callable[[Builder, Value, Value, Value, Value, Value], Gradients]",
]
Expansion = Union["Callable[[Builder, Value], Value]", "Callable[[Builder, Value, Value], Value]"]


class Row(Record):
    """What the compiler knows of one operation.

    effects: 'pure' | 'reads' | 'writes' | 'atomic' | 'traps' | 'team' | 'control'.
    evaluate: its meaning on NumPy scalars or arrays, given the result's scalar type first; None for memory and control.
    exact: where `evaluate` gives every target's bits, so that constants may be folded: on 'integers' (and truth values),
    on 'floats' (f32 and f64; NaN apart), on 'both', or '' nowhere.
    expansion: (builder, *operands) -> the result by other rows: what a target without the operation computes.
    derivative: (builder, gradient, result, *operands) -> one gradient (or None) an operand; None: not differentiable.
    """

    name: str
    rule: Rule
    arity: int
    doc: str
    effects: str = "pure"
    commutative: bool = False
    associative: bool = False
    identity: float | bool | None = None
    evaluate: Callable[..., Any] | None = None
    exact: str = ""
    expansion: Expansion | None = None
    derivative: Derivative | None = None
    elementwise: bool = False
    cost: float = 1.0


OPS: dict[str, Row] = {}
TERMINATORS = frozenset({"yield", "break", "continue", "return"})


def _row(
    name: str,
    rule: Rule,
    arity: int,
    doc: str,
    effects: str = "pure",
    evaluate: Callable[..., Any] | None = None,
    cost: float = 1.0,
) -> None:
    OPS[name] = Row(name, rule, arity, doc, effects, evaluate=evaluate, cost=cost)


def _elementwise(
    name: str,
    rule: Rule,
    arity: int,
    evaluate: Callable[..., Any],
    doc: str,
    exact: str = "",
    commutative: bool = False,
    associative: bool = False,
    identity: float | bool | None = None,
    expansion: Expansion | None = None,
    derivative: Derivative | None = None,
    cost: float = 1.0,
) -> None:
    OPS[name] = Row(
        name,
        rule,
        arity,
        doc,
        commutative=commutative,
        associative=associative,
        identity=identity,
        evaluate=evaluate,
        exact=exact,
        expansion=expansion,
        derivative=derivative,
        elementwise=True,
        cost=cost,
    )


def is_pure(kind: str) -> bool:
    return OPS[kind].effects == "pure"


def result_types(kind: str, operand_types: tuple[Type, ...], attributes: dict[str, Any]) -> tuple[Type, ...]:
    """The result types by the row's rule; TypeError says what does not fit."""
    return OPS[kind].rule(operand_types, attributes)


# Arithmetic.  Integers wrap; floats are IEEE.
_elementwise(
    "add",
    rules.number,
    2,
    ev.add,
    "a + b",
    exact="both",
    commutative=True,
    associative=True,
    identity=0,
    derivative=lambda b, g, r, x, y: (g, g),
)
_elementwise("sub", rules.number, 2, ev.sub, "a - b", exact="both", derivative=lambda b, g, r, x, y: (g, b.neg(g)))
_elementwise(
    "mul",
    rules.number,
    2,
    ev.mul,
    "a * b",
    exact="both",
    commutative=True,
    associative=True,
    identity=1,
    derivative=lambda b, g, r, x, y: (b.mul(g, y), b.mul(g, x)),
)
_elementwise(
    "div",
    rules.floating,
    2,
    ev.div,
    "a / b",
    exact="floats",
    cost=5,
    derivative=lambda b, g, r, x, y: (b.div(g, y), b.neg(b.div(b.mul(g, r), y))),
)
_elementwise(
    "floordiv",
    rules.number,
    2,
    ev.floordiv,
    "the floor of a / b; integer division by zero is 0",
    exact="integers",
    cost=10,
)
_elementwise(
    "mod",
    rules.number,
    2,
    ev.mod,
    "a - b * (a // b), with b's sign; integers: 0 where b is 0",
    exact="integers",
    cost=10,
    derivative=lambda b, g, r, x, y: (g, b.neg(b.mul(g, b.floordiv(x, y)))),
)
_elementwise(
    "truncdiv",
    rules.integer,
    2,
    ev.truncdiv,
    "a / b rounded towards zero; division by zero is 0",
    exact="integers",
    cost=10,
)
_elementwise(
    "truncmod",
    rules.integer,
    2,
    ev.truncmod,
    "the remainder of truncdiv, with a's sign; 0 where b is 0",
    exact="integers",
    cost=10,
)
_elementwise(
    "pow",
    rules.number,
    2,
    ev.pow,
    "a ** b; integers: a negative power is 1 / (a ** -b) truncated",
    exact="integers",
    cost=40,
    derivative=lambda b, g, r, x, y: (
        b.mul(g, b.mul(y, b.pow(x, b.sub(y, b.one_like(y))))),
        b.mul(g, b.mul(r, b.log(x))),
    ),
)
_elementwise("neg", rules.number, 1, ev.neg, "-a", exact="both", derivative=lambda b, g, r, x: (b.neg(g),))
_elementwise(
    "abs",
    rules.number,
    1,
    ev.abs_,
    "the absolute value (the smallest integer stays as it is)",
    exact="both",
    derivative=lambda b, g, r, x: (b.mul(g, b.sign(x)),),
)
_elementwise("sign", rules.number, 1, ev.sign, "-1, 0 or 1 (NaN stays)", exact="both")
_elementwise(
    "min",
    rules.number,
    2,
    ev.minimum,
    "the smaller; of NaN and a number the number",
    exact="both",
    commutative=True,
    associative=True,
    derivative=lambda b, g, r, x, y: (b.select(b.le(x, y), g, b.zero_like(g)), b.select(b.le(x, y), b.zero_like(g), g)),
)
_elementwise(
    "max",
    rules.number,
    2,
    ev.maximum,
    "the larger; of NaN and a number the number",
    exact="both",
    commutative=True,
    associative=True,
    derivative=lambda b, g, r, x, y: (b.select(b.ge(x, y), g, b.zero_like(g)), b.select(b.ge(x, y), b.zero_like(g), g)),
)
_elementwise(
    "fma",
    rules.floating,
    3,
    ev.fma,
    "a * b + c, rounded once where the target can",
    derivative=lambda b, g, r, x, y, z: (b.mul(g, y), b.mul(g, x), g),
)

# Bits.
_elementwise(
    "bit_and", rules.bits, 2, ev.bit_and, "a & b", exact="integers", commutative=True, associative=True, identity=-1
)
_elementwise(
    "bit_or", rules.bits, 2, ev.bit_or, "a | b", exact="integers", commutative=True, associative=True, identity=0
)
_elementwise(
    "bit_xor", rules.bits, 2, ev.bit_xor, "a ^ b", exact="integers", commutative=True, associative=True, identity=0
)
_elementwise("bit_not", rules.bits, 1, ev.bit_not, "~a; on u1 the logical not", exact="integers")
_elementwise(
    "shl",
    rules.integer,
    2,
    ev.shl,
    "a << b; everything is shifted out by the width or more, or by a negative count",
    exact="integers",
)
_elementwise("shr", rules.integer, 2, ev.shr, "a >> b, arithmetic for signed types", exact="integers")
_elementwise("ushr", rules.integer, 2, ev.ushr, "a >> b, zeros from the left whatever the sign", exact="integers")
_elementwise("popcount", rules.integer, 1, ev.popcount, "how many bits are set", exact="integers")
_elementwise("clz", rules.integer, 1, ev.clz, "how many zero bits lead; the width for 0", exact="integers")
_elementwise("ctz", rules.integer, 1, ev.ctz, "how many zero bits trail; the width for 0", exact="integers")

# Comparisons: NaN is unequal to everything.
for _name, _fn, _doc in (
    ("eq", ev.eq, "a == b"),
    ("ne", ev.ne, "a != b"),
    ("lt", ev.lt, "a < b"),
    ("le", ev.le, "a <= b"),
    ("gt", ev.gt, "a > b"),
    ("ge", ev.ge, "a >= b"),
):
    _elementwise(_name, rules.compare, 2, _fn, _doc, exact="both", commutative=_name in ("eq", "ne"))
_elementwise("is_nan", rules.test, 1, ev.is_nan, "whether a is not a number", exact="floats")
_elementwise("is_inf", rules.test, 1, ev.is_inf, "whether a is an infinity", exact="floats")
_elementwise(
    "select",
    rules.select,
    3,
    ev.select,
    "b where a, else c; both are evaluated",
    derivative=lambda b, g, r, c, x, y: (None, b.select(c, g, b.zero_like(g)), b.select(c, b.zero_like(g), g)),
)

# Elementary functions.
_elementwise(
    "sqrt",
    rules.floating,
    1,
    ev.sqrt,
    "the square root",
    exact="floats",
    cost=5,
    derivative=lambda b, g, r, x: (b.div(g, b.add(r, r)),),
)
_elementwise(
    "rsqrt",
    rules.floating,
    1,
    ev.rsqrt,
    "1 / sqrt(a)",
    cost=8,
    expansion=lambda b, x: b.div(b.one_like(x), b.sqrt(x)),
    derivative=lambda b, g, r, x: (b.neg(b.div(b.mul(g, r), b.add(x, x))),),
)
_elementwise(
    "cbrt",
    rules.floating,
    1,
    ev.cbrt,
    "the cube root",
    cost=20,
    derivative=lambda b, g, r, x: (b.div(g, b.mul(b.literal_like(r, 3), b.mul(r, r))),),
)
_elementwise("exp", rules.floating, 1, ev.exp, "e ** a", cost=15, derivative=lambda b, g, r, x: (b.mul(g, r),))
_elementwise(
    "exp2",
    rules.floating,
    1,
    ev.exp2,
    "2 ** a",
    cost=15,
    derivative=lambda b, g, r, x: (b.mul(g, b.mul(r, b.literal_like(r, 0.6931471805599453))),),
)
_elementwise(
    "expm1",
    rules.floating,
    1,
    ev.expm1,
    "e ** a - 1, precise near 0",
    cost=20,
    derivative=lambda b, g, r, x: (b.mul(g, b.exp(x)),),
)
_elementwise(
    "log", rules.floating, 1, ev.log, "the natural logarithm", cost=15, derivative=lambda b, g, r, x: (b.div(g, x),)
)
_elementwise(
    "log2",
    rules.floating,
    1,
    ev.log2,
    "the logarithm to base 2",
    cost=15,
    derivative=lambda b, g, r, x: (b.div(g, b.mul(x, b.literal_like(x, 0.6931471805599453))),),
)
_elementwise(
    "log10",
    rules.floating,
    1,
    ev.log10,
    "the logarithm to base 10",
    cost=15,
    derivative=lambda b, g, r, x: (b.div(g, b.mul(x, b.literal_like(x, 2.302585092994046))),),
)
_elementwise(
    "log1p",
    rules.floating,
    1,
    ev.log1p,
    "log(1 + a), precise near 0",
    cost=20,
    derivative=lambda b, g, r, x: (b.div(g, b.add(x, b.one_like(x))),),
)
_elementwise(
    "sin",
    rules.floating,
    1,
    ev.sin,
    "the sine of a in radians",
    cost=20,
    derivative=lambda b, g, r, x: (b.mul(g, b.cos(x)),),
)
_elementwise(
    "cos",
    rules.floating,
    1,
    ev.cos,
    "the cosine of a in radians",
    cost=20,
    derivative=lambda b, g, r, x: (b.neg(b.mul(g, b.sin(x))),),
)
_elementwise(
    "tan",
    rules.floating,
    1,
    ev.tan,
    "the tangent of a in radians",
    cost=25,
    derivative=lambda b, g, r, x: (b.mul(g, b.add(b.mul(r, r), b.one_like(r))),),
)
_elementwise(
    "asin",
    rules.floating,
    1,
    ev.asin,
    "the arc sine",
    cost=25,
    derivative=lambda b, g, r, x: (b.div(g, b.sqrt(b.sub(b.one_like(x), b.mul(x, x)))),),
)
_elementwise(
    "acos",
    rules.floating,
    1,
    ev.acos,
    "the arc cosine",
    cost=25,
    derivative=lambda b, g, r, x: (b.neg(b.div(g, b.sqrt(b.sub(b.one_like(x), b.mul(x, x))))),),
)
_elementwise(
    "atan",
    rules.floating,
    1,
    ev.atan,
    "the arc tangent",
    cost=25,
    derivative=lambda b, g, r, x: (b.div(g, b.add(b.mul(x, x), b.one_like(x))),),
)
_elementwise(
    "sinh",
    rules.floating,
    1,
    ev.sinh,
    "the hyperbolic sine",
    cost=25,
    derivative=lambda b, g, r, x: (b.mul(g, b.cosh(x)),),
)
_elementwise(
    "cosh",
    rules.floating,
    1,
    ev.cosh,
    "the hyperbolic cosine",
    cost=25,
    derivative=lambda b, g, r, x: (b.mul(g, b.sinh(x)),),
)
_elementwise(
    "tanh",
    rules.floating,
    1,
    ev.tanh,
    "the hyperbolic tangent",
    cost=25,
    derivative=lambda b, g, r, x: (b.mul(g, b.sub(b.one_like(r), b.mul(r, r))),),
)
_elementwise(
    "asinh",
    rules.floating,
    1,
    ev.asinh,
    "the inverse hyperbolic sine",
    cost=25,
    derivative=lambda b, g, r, x: (b.div(g, b.sqrt(b.add(b.mul(x, x), b.one_like(x)))),),
)
_elementwise(
    "acosh",
    rules.floating,
    1,
    ev.acosh,
    "the inverse hyperbolic cosine",
    cost=25,
    derivative=lambda b, g, r, x: (b.div(g, b.sqrt(b.sub(b.mul(x, x), b.one_like(x)))),),
)
_elementwise(
    "atanh",
    rules.floating,
    1,
    ev.atanh,
    "the inverse hyperbolic tangent",
    cost=25,
    derivative=lambda b, g, r, x: (b.div(g, b.sub(b.one_like(x), b.mul(x, x))),),
)
_elementwise(
    "erf",
    rules.floating,
    1,
    ev.erf,
    "the error function",
    cost=25,
    derivative=lambda b, g, r, x: (b.mul(g, b.mul(b.literal_like(x, 1.1283791670955126), b.exp(b.neg(b.mul(x, x))))),),
)
_elementwise("floor", rules.floating, 1, ev.floor, "the largest whole number not above a", exact="floats")
_elementwise("ceil", rules.floating, 1, ev.ceil, "the smallest whole number not below a", exact="floats")
_elementwise("trunc", rules.floating, 1, ev.trunc, "a without its fraction", exact="floats")
_elementwise("round", rules.floating, 1, ev.round_, "the nearest whole number, halves to even", exact="floats")
_elementwise(
    "atan2",
    rules.floating,
    2,
    ev.atan2,
    "the angle of the point (b, a)",
    cost=40,
    derivative=lambda b, g, r, y, x: (
        b.div(b.mul(g, x), b.add(b.mul(x, x), b.mul(y, y))),
        b.neg(b.div(b.mul(g, y), b.add(b.mul(x, x), b.mul(y, y)))),
    ),
)
_elementwise(
    "hypot",
    rules.floating,
    2,
    ev.hypot,
    "sqrt(a * a + b * b) without overflow on the way",
    cost=15,
    derivative=lambda b, g, r, x, y: (b.div(b.mul(g, x), r), b.div(b.mul(g, y), r)),
)
_elementwise("copysign", rules.floating, 2, ev.copysign, "a with b's sign", exact="floats")

# Conversions and constants.
_row("constant", rules.constant, 0, "the number `value` (a matrix: nested tuples) as `type`", evaluate=ev.constant)
_elementwise(
    "cast",
    rules.cast,
    1,
    ev.cast,
    "a as `type`: floats to integers truncate and saturate, NaN is 0; integers wrap; u1 is a != 0",
    exact="both",
    derivative=lambda b, g, r, x: (b.cast_like(g, x),),
)
_elementwise("bitcast", rules.bitcast, 1, ev.bitcast, "the bits of a as `type` of the same width")
_elementwise(
    "lookup",
    rules.lookup,
    1,
    ev.lookup,
    "entry a of the constant `table` of numbers, as `type`; the last one where a is out of range",
    cost=4,
)

# Matrices.
_row("splat", rules.splat, 1, "a matrix `type` with a everywhere", evaluate=ev.splat)
_row("construct", rules.construct, -1, "a matrix `type` of its elements, row by row", evaluate=ev.construct)
_row(
    "extract",
    rules.extract,
    -1,
    "the element of a matrix at the indices (unchecked: they are in range)",
    evaluate=ev.extract,
)
_row("insert", rules.insert, -1, "the matrix a with the element at the indices replaced by b", evaluate=ev.insert)
_row(
    "matmul",
    rules.matmul,
    2,
    "the matrix product a @ b (matrix by matrix, matrix by vector, vector by matrix)",
    evaluate=ev.matmul,
    cost=8,
)
_row("transpose", rules.transpose, 1, "the matrix a with rows and columns exchanged", evaluate=ev.transpose)
for _name, _fn in (
    ("add", ev.reduce_add),
    ("mul", ev.reduce_mul),
    ("min", ev.reduce_min),
    ("max", ev.reduce_max),
    ("and", ev.reduce_and),
    ("or", ev.reduce_or),
):
    _row(f"reduce_{_name}", rules.reduce, 1, f"all elements of a combined by `{_name}`, in order", evaluate=_fn, cost=3)

# Memory.  An array operand takes up to rank indices; fewer leave the static axes: the value is then a matrix.
_row(
    "load",
    rules.load,
    -1,
    "the element of an array at the indices (at an address that is a multiple of `aligned` bytes, if given)",
    effects="reads",
    cost=4,
)
_row(
    "store",
    rules.store,
    -1,
    "writes a value (first operand) to an array's element at the indices (at an address that is a multiple of `aligned` bytes, if given)",
    effects="writes",
    cost=4,
)
_row(
    "update",
    rules.update,
    -1,
    "array[indices] = array[indices] `by` value (first operand), atomic unless `atomic` is False; gives the old value",
    effects="atomic",
    cost=8,
)
_row(
    "update_loaded",
    rules.update_loaded,
    -1,
    "array[indices] = before (second) `by` value (first): an update whose old value was loaded before the value was known",
    effects="atomic",
    cost=8,
)
_row(
    "compare_exchange",
    rules.compare_exchange,
    -1,
    "writes `value` (second) where the element equals `expected` (first), atomically; gives the old value",
    effects="atomic",
    cost=20,
)
_row("dim", rules.dim, 1, "the size of an array's `axis`", cost=0.1)
_row("step", rules.dim, 1, "how many elements apart neighbours along an array's `axis` lie", cost=0.1)
_row(
    "lines_aligned",
    rules.lines_aligned,
    1,
    "whether neighbours along an array's last axis lie side by side, and each line of them starts at a multiple of `bytes` bytes",
    cost=0.1,
)
_row("slot", rules.slot, 0, "private memory for one value of `type`, undefined at first", effects="writes", cost=0.1)
_row(
    "temporary",
    rules.temporary,
    -1,
    "where the condition holds and there is memory: a new array of `type` and sizes, undefined at first; and whether so",
    effects="writes",
    cost=50,
)
_row("release", rules.release, 1, "gives a temporary array's memory back, if there is any", effects="writes", cost=50)
_row(
    "external",
    rules.external,
    -1,
    "calls the C function `symbol` of `library` with `parameters`; arrays with all indices are pointers to the element",
    effects="atomic",
    cost=20,
)
_row(
    "external_pure",
    rules.external,
    -1,
    "`external` whose result of `type` follows from the numbers",
    evaluate=ev.external,
    cost=20,
)
_row("tally", rules.tally, 0, "counts, for the report, how often `what` is done", effects="writes", cost=1)
_row("random", rules.random, 0, "64 random bits: the next of the stream that is current", effects="atomic", cost=6)

# Lanes.  Elementwise rows take lanes as they take matrices.  An index of an access is a lane's own (lanes of i64), or
# one i64 to which lane k adds k times the axis' entry of `steps`; the last operand is the mask: lanes that are off
# touch no memory and read 0.  Lanes write one after the other.
_row("lane_index", rules.lane_index, 0, "the numbers 0, 1, 2… of the lanes of `type`", evaluate=ev.lane_index)
_row("broadcast", rules.broadcast, 1, "a in every lane of `type`", evaluate=ev.broadcast)
_row("extract_lane", rules.extract_lane, 1, "the number in `lane`", evaluate=ev.extract_lane)
_row("any_lane", rules.lane_test, 1, "whether a is true in some lane", evaluate=ev.any_lane)
_row("all_lanes", rules.lane_test, 1, "whether a is true in all lanes", evaluate=ev.all_lanes)
_row("lane_load", rules.lane_load, -1, "each lane's element of an array", effects="reads", cost=8)
_row("lane_store", rules.lane_store, -1, "writes each lane's value to its element", effects="writes", cost=16)
_row("lane_update", rules.lane_update, -1, "an `update` by each lane in turn", effects="atomic", cost=32)
# Private copies whose elements lie side by side for all lanes: a slot of `rows, lanes`, from row `place` on; then array,
# indices, and the number of elements, one behind the other (row by row).  Lane k's index of `axis` is k more than lane 0's.
_row("interleave", rules.interleave, -1, "copies elements of an array to the rows of a slot", effects="writes", cost=32)
_row("deinterleave", rules.interleave, -1, "copies rows of a slot to an array's elements", effects="writes", cost=32)

# Threads of a block (`ir/threads.py`).  A team is the `width` threads side by side that a thread
# is one of, 0: its block; the last one of a block may have fewer.
_row(
    "shared", rules.shared, 0, "memory for one value of `type` that a block shares, undefined at first", effects="team"
)
_row(
    "thread_index",
    rules.thread_index,
    0,
    "the thread's number in its block, or of all (`of`: block, grid)",
    "team",
    cost=0,
)
_row("barrier", rules.barrier, 0, "waits until all threads of the block are here; all see what they wrote", "team")
_row("fence", rules.fence, 0, "what the thread wrote is seen by its `scope` before what it writes from here on", "team")
# Three may have a last operand: which of the hardware's subgroup's threads (as many as `subgroup` says) are there, a bit for each.
_row(
    "team_barrier",
    rules.team_barrier,
    -1,
    "waits until the team's members that come here are here; they see what they wrote",
    "team",
    cost=2,
)
_row(
    "shuffle", rules.shuffle, -1, "a of the team's member with number b; its own a where there is none", "team", cost=4
)
_row(
    "ballot", rules.ballot, -1, "a u64 with the bit of each of the team's members set for which a holds", "team", cost=4
)
_row("team_reduce", rules.team_combine, 1, "a of all of the team's members combined `by`, in order", "team", cost=16)
_row(
    "team_scan",
    rules.team_combine,
    1,
    "a of the team's members up to this one combined `by`, in order",
    "team",
    cost=16,
)
_row(
    "team_multiply",
    rules.team_multiply,
    -1,
    "sums of a small matrix that 32 threads hold, and a product of two, added to them (`ir/fragments.py`)",
    "team",
    cost=32,
)
_row(
    "team_multiply_shared",
    rules.team_multiply_shared,
    -1,
    "sums that 128 threads hold, and a product of matrices in shared memory, added to them, now or while threads go on (`pending`; "
    "`ir/shared_fragments.py`)",
    "team",
    cost=64,
)
_row(
    "team_multiplied",
    rules.team_multiplied,
    -1,
    "the same sums, when no product of the team's is pending any more (`ir/shared_fragments.py`)",
    "team",
    cost=8,
)
_row(
    "team_load",
    rules.team_load,
    -1,
    "what the thread gets of `count` matrices of 8 rows of 16 bytes, whose starts in a block's memory 32 threads give "
    "(`ir/fragments.py`)",
    "team",
    cost=8,
)
_row(
    "copy_begin",
    rules.copy_begin,
    -1,
    "begins to copy `elements` neighbours along an array's last axis to as many in a block's memory; behind the first `length` "
    "(last operand) are zeros, and where it is 0 the indices need not be the array's",
    "team",
    cost=8,
)
_row("copy_commit", rules.barrier, 0, "what copies the thread began since it last did so are a group", "team")
_row("copy_wait", rules.copy_wait, 0, "waits until at most the last `groups` groups of the thread are not done", "team")

# Control.
_row(
    "for",
    rules.for_,
    -1,
    "`rank` nested counters from lows to highs by 1 (i64); carries values; `parallel`: in any order",
    effects="control",
    cost=0,
)
_row(
    "while",
    rules.while_,
    -1,
    "while the first region yields true, the second runs; carries values",
    effects="control",
    cost=0,
)
_row(
    "if",
    rules.if_,
    1,
    "the first region where the condition holds, else the second; yields values",
    effects="control",
    cost=0,
)
_row(
    "call",
    rules.call,
    -1,
    "calls the function `callee`; arrays by reference, numbers and matrices by value",
    effects="control",
    cost=5,
)
_row("yield", rules.terminator, -1, "ends a region with values", effects="control", cost=0)
_row("break", rules.terminator, -1, "leaves the innermost loop with its carried values", effects="control", cost=0)
_row(
    "continue",
    rules.terminator,
    -1,
    "goes to the next iteration of the innermost loop with its carried values",
    effects="control",
    cost=0,
)
_row("return", rules.terminator, -1, "leaves the function with its results", effects="control", cost=0)
_row("print", rules.effect, -1, "prints the operands by `format` (the parts between them)", effects="traps", cost=50)
_row(
    "check",
    rules.check,
    -1,
    "fails with `message` (and the other operands) unless the condition holds",
    effects="traps",
    cost=1,
)
