"""The verifier: one broken program for each law, and the words that say what is broken."""

from __future__ import annotations

import pytest

from quadrants.ir.nodes import Block, Function, Module, Op, Value
from quadrants.ir.text import parse_module
from quadrants.ir.types import f32, i64
from quadrants.ir.verify import VerificationError, verify


def module_of(
    body: str, head: str = "%x: f32, %y: array<f32, 1, C>", stage: str = "kernel", results: str = ""
) -> Module:
    arrow = f" -> {results}" if results else ""
    before, _, body = body.rpartition("===\n")
    return parse_module(f"quadrants-ir 1\nstage {stage}\n{before}kernel @k({head}){arrow} {{\n{body}\n}}\n")


VALID = [
    ("kernel", "%z = constant 0 : i64\n%v = load %y[%z] : f32\nstore %v, %y[%z]", ""),
    ("kernel", "return %x", "f32"),
    (
        "kernel",
        """function @g(%a: array<f32, 1, A>, %b: f32) -> f32 {
          %t = lt %b, %b
          if %t {
            return %b
          }
          %r = call @g(%a, %b) : f32
          return %r
        }
        ===
        %r = call @g(%y, %x) : f32
        return %r""",
        "f32",
    ),
    (
        "tasks",
        """%z = constant 0
        : i64""".replace("\n        ", " ")
        + """
        %n = dim %y, 0
        for %t in %z .. %n {
          %r = parallel for %i in %z .. %n carry (%a = %x) {chunk = 64, reductions = ("add",)} : f32 {
            %b = is_nan %a
            if %b {
              continue %a
            }
            for %j in %z .. %n {
              if %b {
                break
              }
            }
            yield %a
          }
        }""",
        "",
    ),
]


@pytest.mark.parametrize("case", range(len(VALID)))
def test_valid_programs(case: int) -> None:
    stage, body, results = VALID[case]
    verify(module_of(body, stage=stage, results=results))


Z = "%z = constant 0 : i64\n%n = dim %y, 0\n"
INVALID = {
    "operands of two types": (
        "kernel",
        "%d = cast %x : f64\n%b = generic add(%x, %d) : f32",
        "operands differ in type",
    ),
    "wrong result type": ("kernel", "%b = neg %x : f64", r"the results are \(f64\), by the rule of neg \(f32\)"),
    "wrong operand kind": ("kernel", "%b = generic popcount(%x) : f32", "takes integers, not f32"),
    "arity": ("kernel", "%b = generic add(%x) : f32", "add takes 2 operands, not 1"),
    "unknown operation": ("kernel", "%b = generic frob(%x) : f32", "unknown operation 'frob'"),
    "missing attribute": ("kernel", "%b = generic cast(%x) : f32", "lacks the attribute 'type'"),
    "arrays are no numbers": ("kernel", "%b = generic cast(%y) {type = f32} : f32", "an operand is an array"),
    "no terminator": ("kernel", "unterminated", "does not end in a terminator"),
    "terminator in the middle": ("kernel", "return\n%b = neg %x\nreturn", "before the end of its region"),
    "yield ends a function": ("kernel", "yield", "yield cannot end this region; return can"),
    "results": ("kernel", "return %x, %x", r"return gives \(f32, f32\), not \(\)"),
    "out of scope": ("kernel", Z + "for %i in %z .. %n {\n%b = neg %x\n}\n%c = neg %b", "%b: f32 is not visible"),
    "loop argument out of scope": ("kernel", Z + "for %i in %z .. %n {\n}\n%c = neg %i", "%i: i64 is not visible"),
    "own result": ("kernel", Z + "%r = for %i in %z .. %n carry (%a = %x) : f32 {\nyield %r\n}", "is not visible"),
    "break without loop": ("kernel", "break", "break cannot end this region"),
    "break in if without loop": ("kernel", "%c = is_nan %x\nif %c {\nbreak\n}", "break outside of a loop"),
    "break types": ("kernel", Z + "for %i in %z .. %n {\nbreak %x\n}", r"break gives \(f32\), not \(\)"),
    "continue types": ("kernel", Z + "%r = for %i in %z .. %n carry (%a = %x) {\ncontinue\n}", r"continue gives \(\)"),
    "yield types": ("kernel", Z + "%r = for %i in %z .. %n carry (%a = %x) {\nyield %i\n}", r"yield gives \(i64\)"),
    "if results": ("kernel", "%c = is_nan %x\n%r = if %c : f32 {\nyield %x\n}", r"yield gives \(\), not \(f32\)"),
    "if condition": ("kernel", "generic if(%x) {\n^()\nyield\n} and {\n^()\nyield\n}", "the condition is f32, not u1"),
    "if arguments": (
        "kernel",
        "%c = is_nan %x\ngeneric if(%c) {\n^(%q: f32)\nyield\n} and {\n^()\nyield\n}",
        "a region takes",
    ),
    "regions": ("kernel", "%c = is_nan %x\ngeneric if(%c) {\n^()\nyield\n}", "if has 2 regions, not 1"),
    "for rank": ("kernel", Z + "generic for(%z, %n) {rank = 0} : i64, i64 {\n^()\nyield\n}", "for of rank 0"),
    "for bounds": ("kernel", Z + "generic for(%x, %n) {rank = 1} {\n^(%i: i64)\nyield\n}", "takes 2 indices of i64"),
    "for arguments": (
        "kernel",
        Z + "generic for(%z, %n) {rank = 1} {\n^(%i: f32)\nyield\n}",
        r"a region takes \(f32\)",
    ),
    "carried array": (
        "kernel",
        Z + "%q = for %i in %z .. %n carry (%a = %y) {\nyield %a\n}",
        "a carried value is an array",
    ),
    "while condition": ("kernel", "while {\nyield %x\n} do {\n}", r"yield gives \(f32\), not \(u1\)"),
    "while left in its condition": (
        "kernel",
        "%c = is_nan %x\nwhile {\nbreak\n} do {\n}",
        "break cannot end this region",
    ),
    "break below a condition": (
        "kernel",
        "%c = is_nan %x\nwhile {\nif %c {\nbreak\n}\nyield %c\n} do {\n}",
        "within the condition of a while",
    ),
    "callee": ("kernel", "call @g()", "call of @g, which the module does not have"),
    "call arguments": ("kernel", "function @g(%a: f64) {\n}\n===\ncall @g(%x)", r"it takes \(f64\)"),
    "call results": ("kernel", "function @g(%a: f32) {\n}\n===\n%r = call @g(%x) : f32", r"@g gives \(\), not \(f32\)"),
    "call of a kernel": ("kernel", "call @k(%x, %y)", "call of the kernel @k"),
    "dense parameter": (
        "kernel",
        "function @g(%a: array<f32, 1, C>) {\n}\nfunction @h(%b: array<f32, 1, A>) {\ncall @g(%b)\n}\n===\n",
        "it takes",
    ),
    "constant range": ("kernel", "%c = constant 256 : u8", "256 is no constant of u8"),
    "constant kind": ("kernel", "%c = constant 0.5 : i32", "0.5 is no constant of i32"),
    "constant shape": ("kernel", "%c = constant (1, 2, 3) : matrix<i32, 2>", "is no constant of matrix"),
    "index type": ("kernel", "%c = constant 0 : i32\n%v = generic load(%y, %c) : f32", "takes 1 indices of i64"),
    "too many indices": ("kernel", Z + "%v = generic load(%y, %z, %z) : f32", "2 indices into array"),
    "too few indices": ("kernel", "%v = generic load(%y) : f32", "0 indices into array"),
    "stored type": ("kernel", Z + "generic store(%n, %y, %z)", "store of i64 into an element of type f32"),
    "combiner": ("kernel", Z + "%o = update div %x, %y[%z]", "update by 'div'"),
    "update of another type": ("kernel", Z + 'generic update_loaded(%x, %n, %y, %z) {by = "add"}', "one type"),
    "combiner of floats": ("kernel", Z + "%o = update bit_or %x, %y[%z]", "bit_or does not combine f32"),
    "exchange of floats": ("kernel", Z + "%o = generic compare_exchange(%x, %x, %y, %z) : f32", "one integer type"),
    "axis": ("kernel", "%d = generic dim(%y) {axis = 1} : i64", "axis 1 of array"),
    "print pieces": ("kernel", 'print %x {format = ("a",)}', "1 operands want 2 pieces"),
    "print specs": ("kernel", 'print %x {format = ("a", "b"), specs = ()}', "0 format specs for 1 operands"),
    "check message": ("kernel", "%c = is_nan %x\ncheck %c", "check lacks the attribute 'message'"),
    "parallel too early": ("kernel", Z + "parallel for %i in %z .. %n {\n}", "a parallel loop in stage kernel"),
    "parallel within parallel": (
        "tasks",
        Z + "parallel for %i in %z .. %n {\nfor %k in %z .. %n {\nparallel for %j in %z .. %n {\n}\n}\n}",
        "a parallel loop within a parallel loop",
    ),
    "parallel in a function": (
        "tasks",
        "function @g(%n: i64) {\nparallel for %i in %n .. %n {\n}\n}\n===\n",
        "a parallel loop in a function",
    ),
    "parallel carries": (
        "tasks",
        Z + "%r = parallel for %i in %z .. %n carry (%a = %x) {\nyield %a\n}",
        "1 carried values with the reductions",
    ),
    "reduction's chunk": (
        "tasks",
        Z + '%r = parallel for %i in %z .. %n carry (%a = %x) {reductions = ("add",)} {\nyield %a\n}',
        "reductions need a fixed one",
    ),
    "reduction's combiner": (
        "tasks",
        Z + '%r = parallel for %i in %z .. %n carry (%a = %x) {chunk = 1, reductions = ("bit_or",)} {\nyield %a\n}',
        "bit_or does not combine f32",
    ),
    "cost": ("tasks", Z + "parallel for %i in %z .. %n {cost = 0} {\n}", "the cost is 0"),
    "parallel break": ("tasks", Z + "parallel for %i in %z .. %n {\nbreak\n}", "break leaves a parallel loop"),
    "parallel return": (
        "tasks",
        Z + "%c = is_nan %x\nparallel for %i in %z .. %n {\nif %c {\nreturn\n}\n}",
        "return leaves a parallel loop",
    ),
    "lowered matrix": ("lowered", "%m = splat %x : matrix<f32, 2>", "is a matrix in stage lowered"),
    "lowered wrap": ("lowered", Z + "%v = load %y[%z] {wrap = True}", "`wrap` in stage lowered"),
    "lowered result": ("lowered", "unterminated", "a result is a matrix"),
}


@pytest.mark.parametrize("name", INVALID)
def test_each_law(name: str) -> None:
    stage, body, message = INVALID[name]
    module = module_of(body, stage=stage, results="matrix<f32, 2>" if name == "lowered result" else "")
    with pytest.raises(VerificationError, match=message) as caught:
        verify(module)
    assert "@" in str(caught.value)


def test_partial_index_when_lowered() -> None:
    module = module_of("%z = constant 0 : i64\nstore %m, %y[%z]", "%m: matrix<f32, 2>, %y: array<f32, 2, 2, C>")
    verify(module)
    module.stage = "lowered"
    with pytest.raises(VerificationError, match="matrix in stage lowered"):
        verify(module)


def test_the_error_names_function_place_and_operation() -> None:
    module = module_of("%b = neg %x : f64  // user.py:7:4-9")
    with pytest.raises(VerificationError) as caught:
        verify(module)
    error = caught.value
    assert error.function == "k"
    assert error.op is module.kernel.body.ops[0]
    assert error.location is not None and error.location.line == 7
    assert str(error).startswith("user.py:7:5: function @k: ")
    assert "%b = neg %x : f64" in str(error)


def test_laws_of_modules() -> None:
    module = module_of("")
    module.stage = "soup"
    with pytest.raises(VerificationError, match="unknown stage"):
        verify(module)
    module = module_of("")
    module.entry = "nothing"
    with pytest.raises(VerificationError, match="no kernel"):
        verify(module)
    module = module_of("")
    module.functions["other"] = module.functions["k"]
    with pytest.raises(VerificationError, match="listed as @other"):
        verify(module)


def test_laws_of_functions() -> None:
    module = module_of("")
    module.kernel.attributes["parameter_names"] = ("x",)
    with pytest.raises(VerificationError, match="1 parameter names for 2"):
        verify(module)
    module = module_of("", head="%s: array<f32, 1, 3, L>")
    with pytest.raises(VerificationError, match="is memory of threads"):
        verify(module)
    module = module_of("")
    module.kernel.attributes["kind"] = "task"
    module.entry = ""
    with pytest.raises(VerificationError, match="the kind is 'task'"):
        verify(module)


def built(*ops: Op, parameters: tuple[Value, ...] = ()) -> Module:
    function = Function("k", (), (), "kernel")
    function.body.arguments = list(parameters)
    for parameter in parameters:
        parameter.owner = function.body
    function.body.ops = [*ops, Op("return")]
    module = Module("k")
    module.add(function)
    return module


def test_identity_of_nodes() -> None:
    x = Value(f32, None, "x")
    op = Op("neg", (x,), (f32,))
    verify(built(op, parameters=(x,)))
    with pytest.raises(VerificationError, match="stands in two places"):
        verify(built(op, op, parameters=(x,)))
    foreign = Op("neg", (x,), (f32,))
    foreign.results[0].owner = op
    with pytest.raises(VerificationError, match="names another owner"):
        verify(built(foreign, parameters=(x,)))
    with pytest.raises(VerificationError, match="defined twice"):
        verify(built(parameters=(x, x)))


def test_a_block_has_one_owner() -> None:
    zero = Op("constant", (), (i64,), {"type": i64, "value": 0})
    block = Block((i64,))
    block.ops = [Op("yield")]
    loops = [Op("for", (zero.result, zero.result), (), {"rank": 1}, (block,)) for _ in range(2)]
    with pytest.raises(VerificationError, match="a block has two owners"):
        verify(built(zero, *loops))
