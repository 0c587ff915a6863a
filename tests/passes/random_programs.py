"""Random small programs for the properties of passes: valid, terminating, in range, and full of what passes rewrite."""

from __future__ import annotations

import random

import numpy as np

from quadrants.ir.builder import Builder
from quadrants.ir.nodes import Block, Function, Module, Op, Value
from quadrants.ir.types import ArrayType, Type, array_type, f32, f64, i32, i64, matrix_type, u1

SIZE = 8
_INTEGER_BINARY = ("add", "sub", "mul", "floordiv", "mod", "min", "max", "bit_and", "bit_or", "bit_xor", "shl", "shr")
_FLOAT_BINARY = ("add", "sub", "mul", "div", "min", "max")
_COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge")
_NUMBERS = {
    i32: (0, 1, -1, 2, 3, 7, 2**31 - 1, -(2**31)),
    i64: (0, 1, 2, 3, -1),
    f32: (0.0, -0.0, 1.0, -1.0, 2.0, 0.5, 3.25),
    f64: (0.0, 1.0, -1.0, 4.0, 0.1),
}
_SCALARS = (i32, i64, f32, f64, u1)


def overlapping(seed: int) -> bool:
    """Whether the program of a seed is compiled for, and given, two arrays that are one."""
    return seed % 4 == 3


class Generator:
    """Makes one module from a seed. `scope` is a stack of the values visible; arrays stand apart."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.module = Module("main")
        self.scope: list[Value] = []
        self.arrays: list[Value] = []
        self.budget = 60
        self.loops: list[list[Type]] = []
        self.helpers: list[Function] = []
        self.overlapping = overlapping(seed)

    def make(self) -> Module:
        for index in range(self.random.randrange(3)):
            self.helpers.append(self.module.add(self.function(f"helper{index}", "function", 15)))
        self.module.add(self.function("main", "kernel", 60))
        if self.overlapping:
            self.module.kernel.attributes["may_alias"] = True
        return self.module

    def function(self, name: str, kind: str, budget: int) -> Function:
        self.budget = budget
        arrays = (array_type(i32, 1), array_type(f32, 1), array_type(f32, 2, (3,)), array_type(i32, 1))
        function = Function(name, (i32, f32, i64, *arrays), (i32, f32), kind)
        function.attributes["parameter_names"] = ("n", "x", "k", "a", "b", "v", "c")
        self.scope = list(function.parameters[:3])
        self.arrays = list(function.parameters[3:])
        self.loops = []
        builder = Builder(function.body)
        self.body(builder, 0)
        builder.op("return", self.total(builder), self.value(builder, f32))
        return function

    def total(self, builder: Builder) -> Value:
        """The function's first result."""
        return self.value(builder, i32)

    # Values.

    def value(self, builder: Builder, type_: Type) -> Value:
        """A visible value of a type, else a constant."""
        fitting = [value for value in self.scope if value.type is type_]
        if fitting and self.random.random() < 0.85:
            return self.random.choice(fitting)
        if type_ is u1:
            return self.add(builder.constant(self.random.random() < 0.5, u1))
        if type_ in _NUMBERS:
            return self.add(builder.constant(self.random.choice(_NUMBERS[type_]), type_))
        return self.add(builder.constant(self.random.choice((0.0, 1.0)), type_))

    def add(self, value: Value) -> Value:
        self.scope.append(value)
        return value

    def index(self, builder: Builder, size: int) -> Value:
        """An index in range."""
        if self.random.random() < 0.5:
            return builder.index(self.random.randrange(size))
        raw = self.value(builder, i64)
        return builder.mod(raw, builder.index(size))

    # Statements.

    def body(self, builder: Builder, depth: int) -> None:
        for _ in range(self.random.randrange(2, 9)):
            if self.budget <= 0:
                return
            self.budget -= 1
            self.random.choice(self.statements if depth < 3 else self.simple)(self, builder, depth)

    def arithmetic(self, builder: Builder, depth: int) -> None:
        type_ = self.random.choice(_SCALARS)
        if type_ is u1:
            kind = self.random.choice(("bit_and", "bit_or", "bit_xor", "bit_not"))
            operands = [self.value(builder, u1) for _ in range(1 if kind == "bit_not" else 2)]
            self.add(builder.emit(kind, *operands))
            return
        if self.random.random() < 0.15:
            self.add(builder.emit(self.random.choice(("neg", "abs")), self.value(builder, type_)))
            return
        kind = self.random.choice(_FLOAT_BINARY if type_.is_float else _INTEGER_BINARY)
        self.add(builder.emit(kind, self.value(builder, type_), self.value(builder, type_)))

    def comparison(self, builder: Builder, depth: int) -> None:
        type_ = self.random.choice((i32, i64, f32))
        kind = self.random.choice(_COMPARISONS)
        self.add(builder.emit(kind, self.value(builder, type_), self.value(builder, type_)))

    def selection(self, builder: Builder, depth: int) -> None:
        type_ = self.random.choice(_SCALARS)
        self.add(builder.select(self.value(builder, u1), self.value(builder, type_), self.value(builder, type_)))

    def conversion(self, builder: Builder, depth: int) -> None:
        value = self.value(builder, self.random.choice(_SCALARS))
        self.add(builder.cast(value, self.random.choice(_SCALARS)))

    def matrix(self, builder: Builder, depth: int) -> None:
        vector = matrix_type(f32, (3,))
        made = builder.construct(*[self.value(builder, f32) for _ in range(3)], type=vector)
        if self.random.random() < 0.5:
            made = builder.add(made, self.value(builder, vector))
        self.add(made)
        self.add(builder.extract(made, self.index(builder, 3)))

    def place(self, builder: Builder) -> tuple[Value, list[Value], Type]:
        array = self.random.choice(self.arrays)
        assert isinstance(array.type, ArrayType)
        indices = [self.index(builder, SIZE)]
        if array.type.rank == 2 and self.random.random() < 0.6:
            indices.append(self.index(builder, 3))
        return array, indices, array.type.indexed(len(indices))

    def wrapped(self, builder: Builder, indices: list[Value]) -> dict[str, bool]:
        """At times makes the first index one that may count from the end."""
        if self.random.random() < 0.7:
            return {}
        if self.random.random() < 0.6:
            indices[0] = builder.sub(indices[0], builder.index(self.random.randrange(SIZE)))
        return {"wrap": True}

    def load(self, builder: Builder, depth: int) -> None:
        array, indices, _ = self.place(builder)
        wrap = self.wrapped(builder, indices)
        self.add(builder.load(array, *indices, **wrap))

    def store(self, builder: Builder, depth: int) -> None:
        array, indices, type_ = self.place(builder)
        wrap = self.wrapped(builder, indices)
        builder.op("store", self.value(builder, type_), array, *indices, **wrap)
        if self.random.random() < 0.5:
            self.add(builder.load(array, *indices, **wrap))

    def update(self, builder: Builder, depth: int) -> None:
        array = self.random.choice((self.arrays[0], self.arrays[3]))
        by = self.random.choice(("add", "min", "max", "bit_xor"))
        op = builder.op("update", self.value(builder, i32), array, self.index(builder, SIZE), by=by)
        if self.random.random() < 0.3:
            self.add(op.results[0])

    def size(self, builder: Builder, depth: int) -> None:
        self.add(builder.dim(self.random.choice(self.arrays), axis=0))

    def call(self, builder: Builder, depth: int) -> None:
        if self.helpers:
            helper = self.random.choice(self.helpers)
            numbers = [self.value(builder, type_) for type_ in (i32, f32, i64)]
            arrays = list(self.arrays)
            arrays[3] = self.random.choice((arrays[0], arrays[3]))
            op = builder.op("call", *numbers, *arrays, callee=helper.name, types=helper.result_types)
            self.scope.extend(op.results)

    # Regions.

    def region(self, block: Block, depth: int, types: list[Type], *, jumps: bool) -> None:
        """Fills a region that yields values of `types`, or at times leaves the loop around."""
        seen = len(self.scope)
        self.scope.extend(block.arguments)
        builder = Builder(block)
        self.body(builder, depth)
        if jumps and self.loops and self.random.random() < 0.15:
            carried = self.loops[-1]
            kind = self.random.choice(("break", "continue"))
            builder.op(kind, *[self.value(builder, type_) for type_ in carried])
        elif jumps and self.random.random() < 0.1:
            builder.op("return", self.value(builder, i32), self.value(builder, f32))
        else:
            builder.op("yield", *[self.value(builder, type_) for type_ in types])
        del self.scope[seen:]

    def types(self) -> list[Type]:
        return [self.random.choice((i32, f32, i64, u1)) for _ in range(self.random.randrange(3))]

    def branch(self, builder: Builder, depth: int) -> None:
        types = self.types()
        regions = (Block(), Block())
        condition = self.value(builder, u1)
        self.region(regions[0], depth + 1, types, jumps=True)
        self.region(regions[1], depth + 1, types, jumps=True)
        op = builder.op("if", condition, regions=regions, types=tuple(types))
        self.scope.extend(op.results)

    def loop(self, builder: Builder, depth: int) -> None:
        types = self.types()
        rank = self.random.choice((1, 1, 2))
        lows = [builder.index(self.random.randrange(2)) for _ in range(rank)]
        size = builder.dim(self.arrays[0], axis=0)
        highs = [self.random.choice((builder.index(self.random.randrange(4)), lows[0], size)) for _ in range(rank)]
        inits = [self.value(builder, type_) for type_ in types]
        body = Block((i64,) * rank + tuple(types))
        self.loops.append(types)
        self.region(body, depth + 1, types, jumps=False)
        self.loops.pop()
        op = builder.op("for", *lows, *highs, *inits, regions=(body,), rank=rank)
        self.scope.extend(op.results)

    def repetition(self, builder: Builder, depth: int) -> None:
        """A `while` that counts to a small number, and may leave before."""
        types = self.types()
        inits = [self.value(builder, type_) for type_ in types]
        zero = builder.index(0)
        carried = (i64, *types)
        condition, body = Block(carried), Block(carried)
        test = Builder(condition)
        test.op("yield", test.lt(condition.arguments[0], test.index(self.random.randrange(4))))
        seen = len(self.scope)
        self.scope.extend(body.arguments[1:])
        inner = Builder(body)
        self.loops.append([])
        before, self.loops = self.loops, []
        self.body(inner, depth + 1)
        self.loops = before
        self.loops.pop()
        following = inner.add(body.arguments[0], inner.index(1))
        inner.op("yield", following, *[self.value(inner, type_) for type_ in types])
        del self.scope[seen:]
        op = builder.op("while", zero, *inits, regions=(condition, body))
        self.scope.extend(op.results)

    simple = (
        arithmetic,
        arithmetic,
        arithmetic,
        comparison,
        selection,
        conversion,
        matrix,
        load,
        store,
        update,
        size,
        call,
    )
    statements = (*simple, branch, branch, loop, loop, repetition)


class MemoryGenerator(Generator):
    """Programs that do little but read and write few elements, so that accesses meet all the time."""

    def index(self, builder: Builder, size: int) -> Value:
        """A constant, a counter, or one more than these."""
        fitting = [value for value in self.scope if value.type is i64]
        chosen = self.random.choice((*fitting, None))
        if chosen is None:
            return builder.index(self.random.randrange(2))
        return chosen if self.random.random() < 0.6 else builder.add(chosen, builder.index(1))

    def value(self, builder: Builder, type_: Type) -> Value:
        if type_ is i64:
            fitting = [value for value in self.scope if value.type is i64]
            return self.random.choice(fitting) if fitting else builder.index(1)
        return super().value(builder, type_)

    def total(self, builder: Builder) -> Value:
        """A sum of all that can be seen, so that each difference shows."""
        total = builder.constant(0, i32)
        for value in self.scope:
            if value.type is i32:
                total = builder.add(builder.mul(total, builder.constant(3, i32)), value)
        return total

    def types(self) -> list[Type]:
        return [i32] * self.random.randrange(2)

    def place(self, builder: Builder) -> tuple[Value, list[Value], Type]:
        array = self.random.choice((self.arrays[0], self.arrays[3]))
        return array, [self.index(builder, SIZE)], i32

    def bump(self, builder: Builder, depth: int) -> None:
        """An element that becomes itself and something."""
        array, indices, _ = self.place(builder)
        changed = builder.add(builder.load(array, *indices), self.value(builder, i32))
        builder.op("store", changed, array, *indices)

    def burst(self, builder: Builder, depth: int) -> None:
        """Accesses of one array at two indices, which may be equal."""
        array, first, _ = self.place(builder)
        indices = (first, self.place(builder)[1])
        for _ in range(5):
            index = self.random.choice(indices)
            if self.random.random() < 0.5:
                self.add(builder.load(array, *index))
            else:
                builder.op("store", self.value(builder, i32), array, *index)

    def mix(self, builder: Builder, depth: int) -> None:
        self.add(builder.emit(self.random.choice(("add", "sub", "mul")), *[self.value(builder, i32) for _ in range(2)]))

    def wrapped(self, builder: Builder, indices: list[Value]) -> dict[str, bool]:
        if self.random.random() < 0.8:
            return {}
        if self.random.random() < 0.5:
            indices[0] = builder.sub(indices[0], builder.index(SIZE))
        return {"wrap": True}

    def loop(self, builder: Builder, depth: int) -> None:
        types = self.types()
        low = builder.index(self.random.randrange(2))
        counts = [value for value in self.scope if value.type is i64]
        high = self.random.choice((*counts, builder.index(self.random.randrange(4)), low))
        inits = [self.value(builder, type_) for type_ in types]
        body = Block((i64, *types))
        self.loops.append(types)
        self.region(body, depth + 1, types, jumps=False)
        self.loops.pop()
        self.scope.extend(builder.op("for", low, high, *inits, regions=(body,), rank=1).results)

    simple = (
        Generator.load,
        Generator.store,
        bump,
        burst,
        burst,
        mix,
        Generator.update,
        Generator.comparison,
        Generator.call,
    )
    statements = (*simple, Generator.branch, loop, loop, Generator.repetition)


def random_module(seed: int) -> Module:
    """A module of stage `kernel`."""
    return (MemoryGenerator if seed % 2 else Generator)(seed).make()


def arguments(seed: int) -> list:
    """Arguments for the kernel of a random module."""
    source = np.random.default_rng(seed)
    first, second = (source.integers(-9, 9, SIZE).astype(np.int32) for _ in range(2))
    return [
        np.int32(source.integers(-5, 6)),
        np.float32(source.normal()),
        np.int64(source.integers(0, 4)),
        first,
        source.normal(size=SIZE).astype(np.float32),
        source.normal(size=(SIZE, 3)).astype(np.float32),
        first if overlapping(seed) else second,
    ]


def operations(module: Module) -> list[Op]:
    from quadrants.ir.nodes import walk

    return [op for function in module.functions.values() for op in walk(function.body)]
