"""The inliner stays linear in the code written, whatever the call tree, and tells of loops that stay in functions."""

from __future__ import annotations

from quadrants.ir.builder import Builder
from quadrants.ir.nodes import Function, Module
from quadrants.ir.text import parse_module
from quadrants.ir.types import f32
from quadrants.ir.verify import verify
from quadrants.passes import inline
from quadrants.passes.context import PassContext
from quadrants.passes.structure import calls, count_ops


def _tree(levels: int, leaf_ops: int, loops: bool = False) -> Module:
    """A call tree: each function calls the next one twice; the last one computes, in a loop if wanted."""
    lines = ["quadrants-ir 1", "stage kernel"]
    for level in range(levels):
        head = "kernel @f0" if level == 0 else f"function @f{level}"
        lines.append(f"{head}(%x: f32, %a: array<f32, 1, C>) -> f32 {{")
        lines.append(f"  %y = call @f{level + 1}(%x, %a) : f32")
        lines.append(f"  %z = call @f{level + 1}(%y, %a) : f32")
        lines += ["  return %z", "}"]
    lines.append(f"function @f{levels}(%x: f32, %a: array<f32, 1, C>) -> f32 {{")
    if loops:
        lines += ["  %zero = constant 0 : i64", "  %n = dim %a, 0 : i64"]
        lines += ["  for %i in %zero .. %n {", "    store %x, %a[%i]", "  }"]
    last = "%x"
    for number in range(leaf_ops):
        lines.append(f"  %v{number} = mul {last}, %x : f32")
        last = f"%v{number}"
    lines += [f"  return {last}", "}"]
    return parse_module("\n".join(lines) + "\n")


def test_call_trees_do_not_explode() -> None:
    for leaf_ops in (3, 30, 300):
        for loops in (False, True):
            module = _tree(12, leaf_ops, loops)
            inline.run(module, PassContext())
            verify(module)
            assert sum(count_ops(function.body) for function in module.functions.values()) < 8000


def test_loops_of_small_call_trees_become_the_kernels() -> None:
    module = _tree(3, 100, loops=True)
    inline.run(module, PassContext())
    assert [op.kind for op in module.kernel.body.ops].count("for") == 8
    assert list(module.functions) == ["f0"]


def test_a_budget_that_ends_is_told() -> None:
    module, context = _tree(12, 3, loops=True), PassContext()
    inline.run(module, context)
    assert calls(module.kernel.body)
    assert any("too large" in notice.text for notice in context.notices)


def test_a_large_function_called_once_is_inlined_and_called_twice_is_not() -> None:
    for count in (1, 2):
        module = Module("main")
        large = module.add(Function("large", (f32,), (f32,)))
        builder, value = Builder(large.body), large.parameters[0]
        for _ in range(100):
            value = builder.mul(value, value)
        builder.op("return", value)
        main = module.add(Function("main", (f32,), (f32,), "kernel"))
        builder, value = Builder(main.body), main.parameters[0]
        for _ in range(count):
            value = builder.emit("call", value, callee="large", types=(f32,))
        builder.op("return", value)
        inline.run(module, PassContext())
        verify(module)
        assert (len(module.functions) == 1) == (count == 1)
