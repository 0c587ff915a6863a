"""A small writer of LLVM text with structured control flow, in which the native runtime is written.

A `Function` collects instructions; a `Value` is an operand with Python's operators; a `Record` gives the fields of a
`ctypes.Structure` in memory, so that machine code and Python read one definition of every table they share. Variables
live in stack slots that LLVM promotes. Integers are signed in comparisons; addresses count bytes.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeAlias

from quadrants.targets import hosts
from quadrants.targets.hosts import Host

__all__ = ["Function", "Module", "Operand", "Record", "Value", "Variable"]

Operand: TypeAlias = "Value | int | float | None"

_TYPE_OF_FIELD = {
    ctypes.c_int64: "i64",
    ctypes.c_int32: "i32",
    ctypes.c_uint8: "i8",
    ctypes.c_void_p: "ptr",
    ctypes.c_double: "double",
}
_BYTES_OF_TYPE = {"i8": 1, "i32": 4, "i64": 8, "ptr": 8, "float": 4, "double": 8}


class Module:
    """LLVM text of one object file: functions, external symbols and zeroed global records. `host`: the machine it is for,
    where that is another than this process's."""

    def __init__(self, host: Host | None = None) -> None:
        found = host or hosts.host()
        assert found is not None, "no row of the hosts' table fits this machine"
        self.host: Host = found
        self.functions: list[Function] = []
        self.declared: dict[str, str] = {}
        self.defined: set[str] = set()

    def function(self, name: str, result: str, *parameters: str, exported: bool = True) -> Function:
        """Begin a function; `parameters` are "type name" pairs, in order."""
        function = Function(self, name, result, parameters, exported)
        self.functions.append(function)
        self.defined.add(name)
        return function

    def zeroed(self, name: str, record: type[ctypes.Structure]) -> None:
        """Define an exported, zero-initialised global of a record's size, on cache lines of its own."""
        size = ctypes.sizeof(record)
        self.declared[name] = f"@{name} = global [{size} x i8] zeroinitializer, align 64"
        self.defined.add(name)

    def declare(self, name: str, result: str, types: str) -> None:
        """Declare a function that another module or the process defines."""
        self.declared.setdefault(name, f"declare {result} @{name}({types}) nounwind")

    def text(self) -> str:
        """The module as LLVM text."""
        declared = [line for name, line in self.declared.items() if name not in self.defined or "global" in line]
        parts = [f'target triple = "{self.host.triple}"', *declared]
        parts.extend(function.text() for function in self.functions)
        parts.append(f'attributes #0 = {{ nounwind "target-cpu"="{self.host.processor}" "frame-pointer"="none" }}')
        return "\n".join(parts) + "\n"


class Value:
    """An operand: a constant, a parameter or the result of an instruction of its function."""

    __slots__ = ("function", "name", "type")

    def __init__(self, function: Function, type_name: str, name: str) -> None:
        self.function = function
        self.type = type_name
        self.name = name

    def _with(self, operation: str, other: Operand) -> Value:
        return self.function.instruction(self.type, f"{operation} {self.type} {self.name}, {_text(other, self.type)}")

    def _compare(self, condition: str, other: Operand) -> Value:
        text = f"icmp {condition} {self.type} {self.name}, {_text(other, self.type)}"
        return self.function.instruction("i1", text)

    def __add__(self, other: Operand) -> Value:
        return self._with("fadd" if self.type in ("float", "double") else "add", other)

    def __sub__(self, other: Operand) -> Value:
        return self._with("sub", other)

    def __mul__(self, other: Operand) -> Value:
        return self._with("mul", other)

    def __floordiv__(self, other: Operand) -> Value:
        """Quotient of non-negative integers."""
        return self._with("udiv", other)

    def __and__(self, other: Operand) -> Value:
        return self._with("and", other)

    def __or__(self, other: Operand) -> Value:
        return self._with("or", other)

    def __xor__(self, other: Operand) -> Value:
        return self._with("xor", other)

    def __lt__(self, other: Operand) -> Value:
        return self._compare("slt", other)

    def __le__(self, other: Operand) -> Value:
        return self._compare("sle", other)

    def __gt__(self, other: Operand) -> Value:
        return self._compare("sgt", other)

    def __ge__(self, other: Operand) -> Value:
        return self._compare("sge", other)

    def added(self, other: Value, element: str) -> Value:
        """Sum of vectors of the given element type."""
        return self._with("fadd" if element in ("float", "double") else "add", other)

    def shifted_right(self, bits: int) -> Value:
        """Logical shift right."""
        return self._with("lshr", bits)

    def is_equal(self, other: Operand) -> Value:
        return self._compare("eq", other)

    def is_not(self, other: Operand) -> Value:
        return self._compare("ne", other)

    def is_below(self, other: Operand) -> Value:
        """Unsigned less-than; also orders addresses."""
        return self._compare("ult", other)

    def converted(self, operation: str, type_name: str) -> Value:
        """One of LLVM's conversions: sext, zext, trunc, sitofp, fptrunc, ptrtoint…"""
        return self.function.instruction(type_name, f"{operation} {self.type} {self.name} to {type_name}")


def _text(operand: Operand, type_name: str) -> str:
    if isinstance(operand, Value):
        assert operand.type == type_name, f"{operand.type} {operand.name} where {type_name} is expected"
        return operand.name
    if operand is None or (type_name == "ptr" and operand == 0):
        return "null"
    if isinstance(operand, float):
        return f"0x{struct.unpack('<Q', struct.pack('<d', operand))[0]:016X}"
    return str(int(operand))


class Variable:
    """A mutable local; read and written through `value`."""

    __slots__ = ("address", "function", "type")

    def __init__(self, function: Function, type_name: str, initial: Operand) -> None:
        self.function = function
        self.type = type_name
        self.address = function.entry_slot(f"alloca {type_name}")
        self.value = initial

    @property
    def value(self) -> Value:
        return self.function.load(self.type, self.address)

    @value.setter
    def value(self, operand: Operand) -> None:
        self.function.store(self.type, operand, self.address)


class Function:
    """One function under construction; instructions are appended to its current block."""

    def __init__(self, module: Module, name: str, result: str, parameters: tuple[str, ...], exported: bool) -> None:
        self.module = module
        self.name = name
        self.result = result
        self.linkage = "" if exported else "internal "
        self.parameters = [Value(self, *_split_parameter(parameter)) for parameter in parameters]
        self.slots: list[str] = []
        self.lines: list[str] = []
        self.counter = 0
        self.open = True
        self.loop_ends: list[str] = []

    def text(self) -> str:
        header = ", ".join(f"{value.type} {value.name}" for value in self.parameters)
        lines = [f"define {self.linkage}{self.result} @{self.name}({header}) #0 {{", *self.slots, *self.lines, "}"]
        return "\n".join(lines)

    # -- instructions

    def fresh(self) -> str:
        self.counter += 1
        return f"v{self.counter}"

    def emit(self, line: str) -> None:
        if self.open:
            self.lines.append("  " + line)

    def instruction(self, type_name: str, text: str) -> Value:
        """Append `text` as an instruction with a result."""
        name = "%" + self.fresh()
        self.emit(f"{name} = {text}")
        return Value(self, type_name, name)

    def constant(self, type_name: str, number: int | float) -> Value:
        return Value(self, type_name, _text(number, type_name))

    def external(self, name: str) -> Value:
        """The address of an object or function, of this module or defined elsewhere."""
        if name not in self.module.defined:
            self.module.declared.setdefault(name, f"@{name} = external global i8")
        return Value(self, "ptr", f"@{name}")

    def entry_slot(self, text: str) -> Value:
        name = "%" + self.fresh()
        self.slots.append(f"  {name} = {text}")
        return Value(self, "ptr", name)

    def variable(self, type_name: str, initial: Operand) -> Variable:
        return Variable(self, type_name, initial)

    def stack(self, record: type[ctypes.Structure]) -> Value:
        """Room for a record on the stack, for the whole call."""
        return self.entry_slot(f"alloca [{ctypes.sizeof(record)} x i8], align 16")

    def stack_bytes(self, size: Value) -> Value:
        """Room for `size` bytes on the stack, aligned to a cache line, until the function returns."""
        return self.instruction("ptr", f"alloca i8, i64 {size.name}, align 64")

    def offset(self, base: Value, distance: Operand) -> Value:
        """The address `distance` bytes after `base`."""
        return self.instruction("ptr", f"getelementptr i8, ptr {base.name}, i64 {_text(distance, 'i64')}")

    def load(self, type_name: str, base: Value, distance: Operand = 0) -> Value:
        return self.instruction(type_name, f"load {type_name}, ptr {self._at(base, distance)}")

    def store(self, type_name: str, operand: Operand, base: Value, distance: Operand = 0) -> None:
        self.emit(f"store {type_name} {_text(operand, type_name)}, ptr {self._at(base, distance)}")

    def _at(self, base: Value, distance: Operand) -> str:
        return base.name if isinstance(distance, int) and distance == 0 else self.offset(base, distance).name

    def load_vector(self, type_name: str, base: Value, distance: Operand) -> Value:
        """Load a vector without any demand on its alignment beyond that of an element of four bytes."""
        return self.instruction(type_name, f"load {type_name}, ptr {self._at(base, distance)}, align 4")

    def store_vector(self, operand: Value, base: Value, distance: Operand) -> None:
        self.emit(f"store {operand.type} {operand.name}, ptr {self._at(base, distance)}, align 4")

    def load_atomic(self, type_name: str, address: Value, order: str) -> Value:
        align = _BYTES_OF_TYPE[type_name]
        return self.instruction(type_name, f"load atomic {type_name}, ptr {address.name} {order}, align {align}")

    def store_atomic(self, type_name: str, operand: Operand, address: Value, order: str) -> None:
        align = _BYTES_OF_TYPE[type_name]
        text = _text(operand, type_name)
        self.emit(f"store atomic {type_name} {text}, ptr {address.name} {order}, align {align}")

    def update(self, operation: str, type_name: str, address: Value, operand: Operand, order: str) -> Value:
        """An atomic read-modify-write; gives the old value."""
        text = f"atomicrmw {operation} ptr {address.name}, {type_name} {_text(operand, type_name)} {order}"
        return self.instruction(type_name, text)

    def exchange_if(self, type_name: str, address: Value, old: Operand, new: Operand, order: str) -> Value:
        """Store `new` where `old` is found, atomically; true if it was."""
        pair = self.instruction(
            "pair",
            f"cmpxchg ptr {address.name}, {type_name} {_text(old, type_name)}, {type_name} {_text(new, type_name)} "
            f"{order} monotonic",
        )
        return self.instruction("i1", f"extractvalue {{ {type_name}, i1 }} {pair.name}, 1")

    def call(self, callee: str | Value, result: str, *arguments: Operand, types: str = "", variadic: int = -1) -> Value:
        """Call a function. `types` (comma-separated) is needed where an argument is a bare Python number.

        `variadic` is the number of fixed parameters of a C function with variable arguments.
        """
        kinds = types.split(",") if types else [_type_of(argument) for argument in arguments]
        if isinstance(callee, str):
            fixed = kinds if variadic < 0 else [*kinds[:variadic], "..."]
            self.module.declare(callee, result, ", ".join(fixed))
        prototype = result if variadic < 0 else f"{result} ({', '.join([*kinds[:variadic], '...'])})"
        target = f"@{callee}" if isinstance(callee, str) else callee.name
        values = ", ".join(f"{kind} {_text(value, kind)}" for kind, value in zip(kinds, arguments))
        text = f"call {prototype} {target}({values})"
        if result != "void":
            return self.instruction(result, text)
        self.emit(text)
        return Value(self, "void", "")

    def select(self, condition: Value, yes: Operand, no: Operand, type_name: str) -> Value:
        text = f"select i1 {condition.name}, {type_name} {_text(yes, type_name)}, {type_name} {_text(no, type_name)}"
        return self.instruction(type_name, text)

    def smaller(self, left: Value, right: Operand) -> Value:
        return self.select(left < right, left, right, left.type)

    def larger(self, left: Value, right: Operand) -> Value:
        return self.select(left > right, left, right, left.type)

    # -- control

    def begin(self, label: str) -> None:
        self.lines.append(f"{label}:")
        self.open = True

    def jump(self, label: str) -> None:
        self.emit(f"br label %{label}")
        self.open = False

    def branch(self, condition: Value, yes: str, no: str) -> None:
        self.emit(f"br i1 {condition.name}, label %{yes}, label %{no}")
        self.open = False

    def give(self, operand: Operand = None) -> None:
        """Return from the function; what follows in the same block is dropped."""
        self.emit("ret void" if self.result == "void" else f"ret {self.result} {_text(operand, self.result)}")
        self.open = False

    @contextmanager
    def when(self, condition: Value) -> Iterator[None]:
        """What follows in the `with` block runs only if the condition holds."""
        yes, after = self.fresh(), self.fresh()
        self.branch(condition, yes, after)
        self.begin(yes)
        yield
        self.jump(after)
        self.begin(after)

    @contextmanager
    def loop(self) -> Iterator[None]:
        """Repeat the `with` block until `leave_if` or `give` leaves it."""
        head, after = self.fresh(), self.fresh()
        self.jump(head)
        self.begin(head)
        self.loop_ends.append(after)
        yield
        self.loop_ends.pop()
        self.jump(head)
        self.begin(after)

    @contextmanager
    def count(self, limit: Operand, start: Operand = 0, step: int = 1) -> Iterator[Value]:
        """Repeat the `with` block for `start`, `start + step`… below `limit` (i64)."""
        index = self.variable("i64", start)
        with self.loop():
            current = index.value
            self.leave_if(current >= limit)
            yield current
            index.value = current + step

    def leave_if(self, condition: Value) -> None:
        """Leave the innermost loop if the condition holds."""
        stay = self.fresh()
        self.branch(condition, self.loop_ends[-1], stay)
        self.begin(stay)

    def give_if(self, condition: Value, operand: Operand = None) -> None:
        """Return if the condition holds."""
        with self.when(condition):
            self.give(operand)


def _split_parameter(parameter: str) -> tuple[str, str]:
    type_name, name = parameter.split(" ")
    return type_name, "%" + name


def _type_of(argument: Operand) -> str:
    assert isinstance(argument, Value), "a bare number as an argument needs `types`"
    return argument.type


class Record:
    """The fields of a `ctypes.Structure` at an address, as machine code sees them."""

    __slots__ = ("base", "function", "layout")

    def __init__(self, function: Function, base: Value, layout: type[ctypes.Structure]) -> None:
        self.function = function
        self.base = base
        self.layout = layout

    def address(self, name: str) -> Value:
        return self.function.offset(self.base, getattr(self.layout, name).offset)

    def type_of(self, name: str) -> str:
        for field in self.layout._fields_:
            if field[0] == name:
                return _TYPE_OF_FIELD[field[1]]
        raise KeyError(name)

    def get(self, name: str) -> Value:
        return self.function.load(self.type_of(name), self.base, getattr(self.layout, name).offset)

    def set(self, name: str, operand: Operand) -> None:
        self.function.store(self.type_of(name), operand, self.base, getattr(self.layout, name).offset)

    def increase(self, name: str, amount: Operand = 1) -> None:
        """Add to a field without atomicity."""
        self.set(name, self.get(name) + amount)
