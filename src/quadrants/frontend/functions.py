"""User functions as IR functions: one a specialisation on argument types, shared by all calls of a kernel."""

from __future__ import annotations

import ast
import types
from typing import TYPE_CHECKING, Any

from quadrants.errors import QuadrantsCompilationError, QuadrantsTypeError
from quadrants.frontend import numbers, protocol
from quadrants.frontend.annotations import resolve_annotation
from quadrants.frontend.assign import assign
from quadrants.frontend.calls import Arguments, bind_arguments, flatten, rebuild, written_templates
from quadrants.frontend.dispatch import evaluate
from quadrants.frontend.identity import check_only_name, given_back, identities, is_tangled
from quadrants.frontend.lent import changed_in_place, lent_names
from quadrants.frontend.returns import Result, drop_unchanged, settle_returns
from quadrants.frontend.source import FunctionSource, function_source, place, source_location
from quadrants.frontend.statements import function_body, record_return
from quadrants.frontend.values import (
    Array,
    Binding,
    Run,
    Sequence,
    Slot,
    Static,
    is_changeable,
    is_number,
    is_tile,
    nature_of,
)
from quadrants.frontend.walker import Restart, Unknown, Walker
from quadrants.ir.nodes import Function, Op, Value
from quadrants.ir.types import i64, matrix_type
from quadrants.passes.places import is_own

if TYPE_CHECKING:
    from quadrants.frontend.compilation import Compilation

__all__ = ["Callee", "Specialisation", "call_callee", "call_function", "library_function"]

RECURSION_ATTEMPTS = 6


class Specialisation:
    """A function compiled for one set of argument types."""

    __slots__ = (
        "asked",
        "captured",
        "function",
        "given_back",
        "guess",
        "incomplete",
        "is_tangled",
        "kept",
        "name",
        "pending",
        "result",
        "templates",
    )

    def __init__(self, name: str) -> None:
        self.name = name
        self.function: Function | None = None
        self.captured: list[tuple[Any, Any, Run | Array]] = []
        self.result: Result | None = None
        self.guess: Result | None = None
        # Whether a call met it while it was being compiled.
        self.asked = False
        self.templates: tuple[str, ...] = ()
        # The parameters that the result may be, or may hold parts of.
        self.given_back: tuple[str, ...] = ()
        # Whether two objects in the result may be one; the parameters that each changed one may hold parts of.
        self.is_tangled = False
        self.kept: dict[str, list[str]] = {}
        # Whether the last attempt left out paths whose types hang on results that are not known yet.
        self.incomplete = False
        self.pending: list[Op] = []


class Callee:
    """What is called: a Python function, or a nested one whose free names are passed as further arguments. `identity`
    tells it from others, `function` is the Python function in whose surroundings its names are looked up."""

    __slots__ = ("annotations", "function", "identity", "name", "source")

    def __init__(self, function: types.FunctionType, identity: Any, source: FunctionSource, name: str) -> None:
        self.function = function
        self.identity = identity
        self.source = source
        self.name = name
        self.annotations: dict[str, protocol.Annotation | None] = {}
        if identity is function:
            self.annotations = {
                key: protocol.annotation(resolve_annotation(function, wish))
                for key, wish in function.__annotations__.items()
            }


_callees: dict[types.FunctionType, Callee] = {}


def callee_of(function: types.FunctionType) -> Callee:
    """The callee that a Python function is."""
    known = _callees.get(function)
    if known is None:
        known = _callees[function] = Callee(function, function, function_source(function), function.__qualname__)
    return known


Bound = dict[str, tuple[Binding, "ast.expr | None"]]


def call_function(walker: Walker, function: types.FunctionType, bound: Bound, node: ast.AST) -> Binding:
    """A call of a user function: specialises it if need be, and emits the call."""
    return call_callee(walker, callee_of(function), bound, node)


def call_callee(walker: Walker, callee: Callee, bound: Bound, node: ast.AST) -> Binding:
    compilation = walker.compilation
    converted = {
        name: (_converted(walker, callee, name, binding, node), syntax) for name, (binding, syntax) in bound.items()
    }
    running = compilation.running.get(callee.identity, 0) > 0
    lists = [name for name, (binding, _) in converted.items() if is_changeable(binding)]
    changed = written_templates(callee.source.node, [], lists)
    parts = {
        name: flatten(walker, binding, node, running or name in changed) for name, (binding, _) in converted.items()
    }
    key = (callee.identity, tuple((name, part[0]) for name, part in parts.items()))
    specialisation = compilation.functions.get(key)
    if specialisation is None:
        bindings = {name: binding for name, (binding, _) in converted.items()}
        try:
            specialisation = _specialise(compilation, callee, key, bindings, node, walker)
        except QuadrantsCompilationError as error:
            if not is_own(_location(callee.source)):
                raise
            raise error.moved(source_location(place(walker.file, node)), f"in {callee.name}") from None
    values = [value for _, part in parts.values() for value in part]
    return _emit_call(walker, specialisation, values, converted, node)


def _converted(walker: Walker, callee: Callee, name: str, binding: Binding, node: ast.AST) -> Binding:
    """An argument brought to its parameter's annotation, where that names a number or matrix type."""
    wish = callee.annotations.get(name)
    if wish is not None and wish.kind == "template" and type(binding) is Static and is_number(binding.value):
        written = written_templates(callee.source.node, [name], [])
        return numbers.to_run(walker, binding, node) if written else binding
    if wish is None or wish.kind not in ("scalar", "matrix", "int", "float"):
        return binding
    if type(binding) is Static and binding.value is None:
        return binding
    scalar = {"int": walker.default_int, "float": walker.default_float}.get(wish.kind, wish.scalar)
    if wish.kind == "matrix" and scalar is not None:
        return Run(numbers.convert(walker, binding, matrix_type(scalar, wish.shape), node))
    if scalar is None or (type(binding) is Array and not binding.indexed):
        return binding
    return Run(numbers.coerce(walker, binding, numbers.to_run(walker, binding, node), scalar))


def _specialise(
    compilation: Compilation,
    callee: Callee,
    key: Any,
    bindings: dict[str, Binding],
    node: ast.AST,
    caller: Walker,
) -> Specialisation:
    specialisation = Specialisation(compilation.function_name(callee.name))
    compilation.functions[key] = specialisation
    compilation.reached(callee.function)
    compilation.running[callee.identity] = compilation.running.get(callee.identity, 0) + 1
    if compilation.running[callee.identity] > 200:
        raise caller.error(
            node,
            f"{callee.name} calls itself with ever new constants or types",
            hint="give the recursion parameter a type: `n: qd.i32`",
        )
    slot_types: dict[str, Any] = {}
    try:
        for _ in range(RECURSION_ATTEMPTS):
            if _settled_walk(compilation, specialisation, callee, key, bindings, slot_types):
                break
        else:
            raise caller.error(
                node,
                f"the result type of the recursive function {callee.name} does not settle",
                hint="annotate its result: `-> qd.f32`",
                kind=QuadrantsTypeError,
            )
    except BaseException:  # an interrupt, too: half a function is not taken for one
        compilation.functions.pop(key, None)
        raise
    finally:
        compilation.running[callee.identity] -= 1
    assert specialisation.function is not None
    if specialisation.incomplete:
        # It hangs on a function further out: what is known now is that function's guess; the next call tries again.
        compilation.functions.pop(key, None)
        compilation.incomplete = True
    else:
        compilation.module.add(specialisation.function)
    return specialisation


def _settled_walk(
    compilation: Compilation,
    specialisation: Specialisation,
    callee: Callee,
    key: Any,
    bindings: dict[str, Binding],
    slot_types: dict[str, Any],
) -> bool:
    """Attempts until no slot has to be wider, which happens once a slot and type at most."""
    while True:
        try:
            return _walk_function(compilation, specialisation, callee, key, bindings, slot_types)
        except Restart:
            continue


def _walk_function(
    compilation: Compilation,
    specialisation: Specialisation,
    callee: Callee,
    key: Any,
    bindings: dict[str, Binding],
    slot_types: dict[str, Any],
) -> bool:
    """One attempt; False if it has to be walked again with another guess of a recursive result. Raises Restart for a
    wider slot."""
    source = callee.source
    ir_function = Function(specialisation.name)
    walker = Walker(compilation, callee.function, source, ir_function)
    walker.slot_types = slot_types
    specialisation.captured = captured = walker.captured = []
    specialisation.pending = []
    ir_function.location = _location(source)
    names = dict(key[1])
    templates = [
        name
        for name, binding in bindings.items()
        if (type(binding) in (Run, Slot) or is_tile(binding))
        and (wish := callee.annotations.get(name)) is not None
        and wish.kind == "template"
    ]
    lists = [name for name, binding in bindings.items() if is_changeable(binding) and name not in templates]
    tiles = [name for name in templates if is_tile(bindings[name])]
    walker.template_names = specialisation.templates = written_templates(source.node, templates, lists, tiles)
    outer_incomplete, compilation.incomplete = compilation.incomplete, False
    try:
        for name, binding in bindings.items():
            inside = rebuild(binding, names[name], _parameters(ir_function, binding, names[name], name))
            walker.bind(name, inside, source.node)
            walker.entry[name] = inside
        walker.lent = lent_names(source.node, walker.entry) - set(templates)
        if isinstance(source.node, ast.Lambda):
            _lambda_body(walker, source.node)
        else:
            function_body(walker, source.node.body)
        if not specialisation.asked:
            drop_unchanged(walker)
            specialisation.templates = walker.template_names
        wish = callee.annotations.get("return")
        specialisation.given_back = _given_back(walker)
        specialisation.is_tangled = any(is_tangled(found) for _, found, _, _ in walker.returns)
        specialisation.kept = _kept(walker)
        result = settle_returns(walker, wish)
    finally:
        specialisation.incomplete, compilation.incomplete = compilation.incomplete, outer_incomplete
    ir_function.result_types = result.types
    ir_function.attributes["parameter_names"] = [parameter.name for parameter in ir_function.parameters]
    head = compilation.running[callee.identity] == 1 or specialisation.guess is None
    if specialisation.incomplete and not walker.returns and head:
        raise walker.error(
            source.node,
            f"{callee.name} calls itself on every path",
            hint="some path has to return without a call",
        )
    known = specialisation.guess is not None and specialisation.guess.is_like(result)
    if (specialisation.incomplete or specialisation.pending) and not known and specialisation.asked:
        specialisation.guess = result
        return False
    specialisation.result = result
    specialisation.function = ir_function
    for op in specialisation.pending:
        op.operands += tuple([binding.value for _, _, binding in captured])
    return True


def _given_back(walker: Walker) -> tuple[str, ...]:
    """The parameters that the result may be, or may hold parts of."""
    results = identities([found for _, found, _, _ in walker.returns])
    return tuple([name for name, given in walker.entry.items() if results & identities([given])])


def _kept(walker: Walker) -> dict[str, list[str]]:
    """For each parameter that is changed, those others that it may hold parts of from then on."""
    kept: dict[str, list[str]] = {}
    for position, name in enumerate(walker.template_names):
        now = identities([templates[position] for _, _, templates, _ in walker.returns if templates])
        kept[name] = [other for other, given in walker.entry.items() if other != name and now & identities([given])]
    return kept


def _lambda_body(walker: Walker, node: ast.Lambda) -> None:
    record_return(walker, evaluate(walker, node.body), node)


def _location(source: Any) -> Any:
    return place(source.file, source.node)


def _parameters(function: Function, binding: Binding, key: Any, name: str) -> Any:
    """An endless supply of new parameters for the run-time parts of one argument, typed by the key."""
    for type_ in key_types(key):
        yield function.body.add_argument(type_, name)


def key_types(key: Any) -> Any:
    """The types of the run-time parts that a key of `flatten` stands for."""
    if key[0] == "run":
        yield key[1]
    elif key[0] == "array":
        yield key[1]
        for _ in range(key[5]):
            yield i64
    elif key[0] == "sequence":
        for part in key[3]:
            yield from key_types(part)


def _emit_call(
    walker: Walker, specialisation: Specialisation, values: list[Value], bound: Bound, node: ast.AST
) -> Binding:
    result = specialisation.result
    pending = result is None
    if result is None:
        specialisation.asked = True
        if specialisation.guess is None:
            walker.compilation.incomplete = True
            raise Unknown
        result = specialisation.guess
    else:
        values = [*values, *(_captured_here(walker, entry, node) for entry in specialisation.captured)]
    op = walker.builder.op("call", *values, callee=specialisation.name, types=result.types)
    if pending:
        specialisation.pending.append(op)
    outcome, templates = result.rebuild(op.results)
    for name, value in zip(specialisation.templates, templates):
        given, syntax = bound[name]
        if type(value) is Run:
            value.nature = nature_of(given)
        _check_changed(walker, name, bound, node)
        if syntax is not None and isinstance(syntax, (ast.Name, ast.Subscript, ast.Attribute)):
            kept = [bound[other][0] for other in specialisation.kept.get(name, ())]
            _give_back(walker, syntax, given_back(_with_arrays(given, value), kept), node)
    if specialisation.is_tangled:
        outcome = given_back(outcome, [outcome])
    return given_back(outcome, [bound[name][0] for name in specialisation.given_back])


def _check_changed(walker: Walker, name: str, bound: Bound, node: ast.AST) -> None:
    """Refuses a function that changes an object which it is given twice, or which something else in reach may be."""
    given, syntax = bound[name]
    own = identities([given]) if is_changeable(given) else frozenset()
    others = [binding for other, (binding, _) in bound.items() if other != name]
    if own & identities(others):
        raise walker.error(
            node,
            f'"{name}" is changed by the function, which is given it under another name, too',
            hint="an object that changes has one name in a kernel: give the function `dataclasses.replace(…)` of it",
        )
    check_only_name(walker, given, syntax, node)


def _give_back(walker: Walker, syntax: ast.expr, value: Binding, node: ast.AST) -> None:
    """The argument that the syntax names is what a call has made of it."""
    if isinstance(syntax, ast.Name):
        changed_in_place(walker, syntax, node)
        walker.bind(syntax.id, value, syntax)
    else:
        assign(walker, _as_store(syntax), value)


def _with_arrays(given: Binding, back: Binding) -> Binding:
    """What came back of an argument, with the arrays that are members of it as the caller has them."""
    if type(given) is Sequence and type(back) is Sequence:
        return given.of([_with_arrays(one, other) for one, other in zip(given.items, back.items)])
    return given if type(back) is Array else back


def _as_store(syntax: ast.expr) -> ast.expr:
    """An element or a member as the target of an assignment."""
    if isinstance(syntax, ast.Subscript):
        return ast.copy_location(ast.Subscript(syntax.value, syntax.slice, ast.Store()), syntax)
    assert isinstance(syntax, ast.Attribute)
    return ast.copy_location(ast.Attribute(syntax.value, syntax.attr, ast.Store()), syntax)


def _captured_here(walker: Walker, entry: tuple[Any, Any, Run | Array], node: ast.AST) -> Value:
    """What a callee captured, as the caller has it."""
    return walker.compilation.capture(walker, entry[0], entry[1], node).value


def library_function(walker: Walker, name: str, arguments: Arguments, node: ast.AST) -> Binding:
    """A call of a function that the library registered under `name`."""
    function = protocol.library(name)
    return call_function(walker, function, bind_arguments(walker, function, arguments, node), node)
