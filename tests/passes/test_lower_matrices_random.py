"""Random programs over integer matrices compute the same bits before and after matrices are taken apart."""

from __future__ import annotations

import random

import numpy as np
import pytest

from quadrants.ir.builder import Builder
from quadrants.ir.interpret import interpret
from quadrants.ir.nodes import Block, Function, Module, Op, Value
from quadrants.ir.text import parse_module, print_module
from quadrants.ir.types import MatrixType, Type, array_type, i32, i64, matrix_type
from quadrants.ir.verify import verify
from quadrants.passes.lower_matrices import run

pytestmark = pytest.mark.slow

SHAPES = ((2,), (3,), (5,), (2, 2), (2, 3), (3, 2), (3, 3))
TYPES: tuple[Type, ...] = (i32, *[matrix_type(i32, shape) for shape in SHAPES])


class Generator:
    """Writes a random kernel; `scope` holds the values that may be used, by type."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.scope: dict[Type, list[Value]] = {}
        self.loops: list[tuple[Type, ...]] = []
        self.arrays: list[Value] = []

    def module(self) -> Module:
        arrays = (array_type(i32, 2, (3,), "A"), array_type(i32, 3, (2, 3), "C"))
        results = tuple(self.random.choices(TYPES, k=3))
        function = Function("k", (*TYPES, i64, *arrays), results, "kernel")
        for parameter in function.parameters[:-2]:
            self.add(parameter)
        self.arrays = function.parameters[-2:]
        builder = Builder(function.body)
        self.statements(builder, 3)
        builder.op("return", *[self.pick(builder, type_) for type_ in results])
        module = Module("k", "tasks")
        module.add(function)
        return module

    def add(self, value: Value) -> None:
        self.scope.setdefault(value.type, []).append(value)

    def pick(self, builder: Builder, type_: Type) -> Value:
        return self.random.choice(self.scope[type_])

    def index(self, builder: Builder, size: int) -> Value:
        """An index in range, known or not."""
        if self.random.random() < 0.5:
            return builder.index(self.random.randrange(size))
        return builder.mod(self.pick(builder, i64), builder.index(size))

    def condition(self, builder: Builder) -> Value:
        return builder.lt(self.pick(builder, i32), self.pick(builder, i32))

    def statements(self, builder: Builder, depth: int) -> None:
        for _ in range(self.random.randint(2, 6)):
            kinds = ["compute"] * 6 + ["memory"] * 3 + (["loop", "branch", "while"] if depth else [])
            getattr(self, self.random.choice(kinds))(builder, depth)

    def nested(self, block: Block, depth: int) -> Builder:
        builder = Builder(block)
        self.statements(builder, depth - 1)
        return builder

    def scoped(self) -> dict[Type, list[Value]]:
        return {type_: list(values) for type_, values in self.scope.items()}

    def compute(self, builder: Builder, depth: int) -> None:
        type_ = self.random.choice(TYPES)
        shape = type_.shape if type(type_) is MatrixType else ()
        pick = self.random.choice
        a, b = self.pick(builder, type_), self.pick(builder, type_)
        choices = [
            lambda: builder.emit(pick(["add", "mul", "bit_xor", "min"]), a, b),
            lambda: builder.select(self.condition(builder), a, b),
            lambda: builder.select(builder.lt(a, b), b, a),
            lambda: builder.neg(a),
        ]
        if shape:
            choices += [
                lambda: builder.extract(a, *[self.index(builder, size) for size in shape]),
                lambda: builder.insert(a, self.pick(builder, i32), *[self.index(builder, size) for size in shape]),
                lambda: builder.emit(pick(["reduce_add", "reduce_mul", "reduce_max"]), a),
                lambda: builder.splat(self.pick(builder, i32), type_),
            ]
            rights = [other for other in SHAPES if other[0] == shape[-1] and len(shape) + len(other) > 2]
            if rights:
                choices += [lambda: builder.matmul(a, self.pick(builder, matrix_type(i32, pick(rights))))] * 2
        if len(shape) == 2:
            choices.append(lambda: builder.transpose(a))
        self.add(pick(choices)())

    def memory(self, builder: Builder, depth: int) -> None:
        rows, blocks = self.arrays
        first = self.index(builder, 4)
        place = self.random.choice([(rows, first), (blocks, first), (blocks, first, self.index(builder, 2))])
        type_ = place[0].type.indexed(len(place) - 1)
        kind = self.random.choice(["load", "store", "update"])
        if kind == "load":
            self.add(builder.load(*place))
        elif kind == "store":
            builder.op("store", self.pick(builder, type_), *place)
        else:
            self.add(builder.update(self.pick(builder, type_), *place, by=self.random.choice(["add", "max"])))

    def loop(self, builder: Builder, depth: int) -> None:
        carried = tuple(self.random.choices(TYPES, k=self.random.randint(0, 3)))
        block = Block((i64, *carried))
        op = builder.op(
            "for",
            builder.index(0),
            builder.index(self.random.randrange(4)),
            *[self.pick(builder, type_) for type_ in carried],
            regions=(block,),
            rank=1,
        )
        self.body(block, block.arguments, carried, depth)
        for result in op.results:
            self.add(result)

    def body(self, block: Block, arguments: list[Value], carried: tuple[Type, ...], depth: int) -> None:
        outer, self.scope = self.scope, self.scoped()
        for argument in arguments:
            self.add(argument)
        self.loops.append(carried)
        inner = self.nested(block, depth)
        inner.op("yield", *[self.pick(inner, type_) for type_ in carried])
        self.loops.pop()
        self.scope = outer

    def while_(self, builder: Builder, depth: int) -> None:
        carried = (i32, *self.random.choices(TYPES, k=2))
        condition, body = Block(carried), Block(carried)
        start = builder.constant(self.random.randrange(3), i32)
        inits = [start, *[self.pick(builder, type_) for type_ in carried[1:]]]
        op = builder.op("while", *inits, regions=(condition, body))
        test = Builder(condition)
        test.op("yield", test.gt(condition.arguments[0], test.constant(0, i32)))
        outer, self.scope = self.scope, self.scoped()
        for argument in body.arguments:
            self.add(argument)
        inner = Builder(body)
        less = inner.sub(body.arguments[0], inner.constant(1, i32))
        self.loops.append(())
        self.statements(inner, 0)
        self.loops.pop()
        inner.op("yield", less, *[self.pick(inner, type_) for type_ in carried[1:]])
        self.scope = outer
        for result in op.results:
            self.add(result)

    def branch(self, builder: Builder, depth: int) -> None:
        types = tuple(self.random.choices(TYPES, k=self.random.randint(0, 2)))
        regions = (Block(), Block())
        op = builder.op("if", self.condition(builder), regions=regions, types=types)
        leaves = self.random.randrange(4) if self.loops and self.loops[-1] else -1
        for position, region in enumerate(regions):
            outer, self.scope = self.scope, self.scoped()
            inner = self.nested(region, depth)
            kind = {0: "break", 1: "continue"}.get(leaves, "yield") if position == 0 else "yield"
            taken = types if kind == "yield" else self.loops[-1]
            inner.op(kind, *[self.pick(inner, type_) for type_ in taken])
            self.scope = outer
        for result in op.results:
            self.add(result)


setattr(Generator, "while", Generator.while_)


def arguments(seed: int) -> list[object]:
    random_numbers = np.random.default_rng(seed)
    values: list[object] = [
        random_numbers.integers(-5, 5, type_.shape if type(type_) is MatrixType else ()) for type_ in TYPES
    ]
    arrays = [random_numbers.integers(-5, 5, shape).astype(np.int32) for shape in ((4, 3), (4, 2, 3))]
    return [*values, int(random_numbers.integers(0, 9)), *arrays]


@pytest.mark.parametrize("seed", range(60))
def test_random_programs(seed: int) -> None:
    module = Generator(seed).module()
    verify(module)
    text = print_module(module)
    expected_arguments = arguments(seed)
    expected = interpret(module, expected_arguments)
    for small in (0, 3, 64):
        lowered = parse_module(text)
        run(lowered, None, small)
        verify(lowered)
        assert all(type(op) is Op for op in lowered.kernel.body.ops)
        found_arguments = arguments(seed)
        found = interpret(lowered, found_arguments)
        for one, other in zip((*found, *found_arguments), (*expected, *expected_arguments)):
            np.testing.assert_array_equal(one, other, err_msg=text)
