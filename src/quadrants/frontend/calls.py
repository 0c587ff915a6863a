"""Calls: of the language's functions, of Python's, of user functions (compiled once a specialisation), of local ones."""

from __future__ import annotations

import ast
import functools
import inspect
import random
import types
from collections.abc import Collection
from typing import TYPE_CHECKING, Any

import numpy as np

from quadrants.errors import QuadrantsSyntaxError, QuadrantsTypeError
from quadrants.frontend import numbers, protocol
from quadrants.frontend.assign import unpacked
from quadrants.frontend.dispatch import evaluate
from quadrants.frontend.exact import Kept, exact_key
from quadrants.frontend.externals import call_external
from quadrants.frontend.identity import current, identities
from quadrants.frontend.known import with_known_indices
from quadrants.frontend.lent import as_they_are
from quadrants.frontend.local import inline_local
from quadrants.frontend.scan import (
    assigned_names,
    bound_names,
    element_names,
    member_names,
    subtree,
    touched_names,
    written_arguments,
)
from quadrants.frontend.values import (
    Array,
    Binding,
    BoundMethod,
    Iteration,
    Nature,
    Part,
    Run,
    Sequence,
    Slot,
    Static,
    is_number,
    static_tuple,
)
from quadrants.ir.external import pointee
from quadrants.ir.nodes import Value
from quadrants.ir.types import ScalarType

if TYPE_CHECKING:
    from quadrants.frontend.walker import Walker

__all__ = ["Arguments", "LocalFunction", "call"]


class LocalFunction(Binding):
    """A function or lambda defined inside a kernel: its body is compiled where it is called, `defaults` are what its parameters'
    were where it was defined."""

    __slots__ = ("defaults", "node", "owner")

    def __init__(self, node: ast.FunctionDef | ast.Lambda, owner: Walker) -> None:
        self.node = node
        self.owner = owner
        of_last = (*node.args.posonlyargs, *node.args.args)[-len(node.args.defaults) :]
        given = [*zip(of_last, node.args.defaults), *zip(node.args.kwonlyargs, node.args.kw_defaults)]
        self.defaults = {
            argument.arg: _kept(owner, default, evaluate(owner, default))
            for argument, default in given
            if default is not None
        }


def _kept(walker: Walker, node: ast.expr, binding: Binding) -> Binding:
    """What a name would hold that were bound to this here: values are copied."""
    if type(binding) is Slot and binding.nature is not Nature.LIST:
        return numbers.to_run(walker, binding, node)
    return numbers.settled(walker, binding, node)


class Arguments:
    """The evaluated arguments of a call, with their syntax for messages and for writing results back: `nodes` of those by position,
    `keyword_nodes` of the others."""

    __slots__ = ("keyword_nodes", "keywords", "nodes", "positional")

    def __init__(
        self,
        positional: list[Binding],
        keywords: dict[str, Binding],
        nodes: list[ast.expr | None],
        keyword_nodes: dict[str, ast.expr] | None = None,
    ) -> None:
        self.positional = positional
        self.keywords = keywords
        self.nodes = nodes
        self.keyword_nodes = keyword_nodes or {}

    def behind(self, given: list[Binding], nodes: list[ast.expr | None]) -> Arguments:
        """The same arguments, with others in front."""
        return Arguments([*given, *self.positional], self.keywords, [*nodes, *self.nodes], self.keyword_nodes)

    def first_node(self, name: str) -> ast.expr | None:
        """The syntax of the first argument, of the parameter with that name."""
        return self.nodes[0] if self.nodes else self.keyword_nodes.get(name)

    def take(self, walker: Walker, node: ast.AST, names: tuple[str, ...], defaults: int = 0) -> list[Binding]:
        """The arguments in the order of `names`; the last `defaults` may be missing (then left out at the end)."""
        found = dict(zip(names, self.positional))
        if len(self.positional) > len(names) or set(self.keywords) - set(names) or set(found) & set(self.keywords):
            raise walker.error(node, f"wrong arguments: takes ({', '.join(names)})", kind=QuadrantsTypeError)
        found.update(self.keywords)
        missing = [name for name in names[: len(names) - defaults] if name not in found]
        if missing:
            raise walker.error(node, f"argument {missing[0]!r} is missing", kind=QuadrantsTypeError)
        return [found[name] for name in names if name in found]

    @property
    def all_static(self) -> bool:
        return all(type(binding) is Static for binding in (*self.positional, *self.keywords.values()))

    def with_static_tuples(self) -> Arguments:
        """The same arguments, tuples of what is known at compile time as objects."""
        keywords = {name: static_tuple(binding) for name, binding in self.keywords.items()}
        positional = [static_tuple(binding) for binding in self.positional]
        return Arguments(positional, keywords, self.nodes, self.keyword_nodes)

    def objects(self) -> tuple[list[Any], dict[str, Any]]:
        """The Python objects that arguments which are all static stand for."""
        positional = [binding.value for binding in self.positional if type(binding) is Static]
        return positional, {name: binding.value for name, binding in self.keywords.items() if type(binding) is Static}


def call(walker: Walker, node: ast.Call) -> Binding:
    called = with_known_indices(walker, node.func)
    if called is not node.func:
        node = ast.copy_location(ast.Call(called, node.args, node.keywords), node)
    function = evaluate(walker, called)
    since = len(walker.changes)
    if type(function) is Static and protocol.intrinsic_name(function.value) in _STATIC_CONTEXT:
        walker.static_depth += 1
        try:
            arguments = _arguments(walker, function, node)
        finally:
            walker.static_depth -= 1
    else:
        arguments = _arguments(walker, function, node)
    walker.at(node)
    if type(function) is not BoundMethod:
        return call_binding(walker, function, arguments, node)
    if isinstance(node.func, ast.Attribute):
        function.owner = as_they_are(walker, [function.owner], [node.func.value], since)[0]
        return call_binding(walker, function, arguments, node)
    since = len(walker.changes)
    result = call_binding(walker, function, arguments, node)
    if identities([function.owner]).intersection(frozenset().union(*walker.changes[since:])):
        text = f"a method with a name of its own changes its object: .{function.name}"
        raise walker.error(node, text, hint=f"call it on the object: `x.{function.name}(…)`")
    return result


_STATIC_CONTEXT = frozenset({"static", "static_assert", "static_print"})


def _may_write(node: ast.Call) -> bool:
    """Whether an argument but the first calls something, which may write elements that others before it name."""
    given = [*node.args, *[keyword.value for keyword in node.keywords]]
    later = [part for part in given[1:] if type(part) is not ast.Name and type(part) is not ast.Constant]
    return any(isinstance(child, ast.Call) for part in later for child in subtree(part))


def _is_place(function: Binding, position: int) -> bool:
    """Whether an element as this argument is a place, not what it holds: an atomic's target, or what a pointer is to point
    to."""
    if type(function) is not Static:
        return False
    name = protocol.intrinsic_name(function.value) or ""
    if name.startswith("atomic_") or name == "volatile_load":
        return position == 0
    declaration = protocol.external(function.value)
    parameters = () if declaration is None or isinstance(declaration, str) else declaration.parameters
    return position < len(parameters) and pointee(parameters[position]) is not None


def _arguments(walker: Walker, function: Binding, node: ast.Call) -> Arguments:
    positional: list[Binding] = []
    nodes: list[ast.expr | None] = []
    keywords: dict[str, Binding] = {}
    keyword_nodes: dict[str, ast.expr] = {}
    early = _may_write(node)
    since = len(walker.changes)

    def argument(part: ast.expr, position: int) -> tuple[Binding, ast.expr]:
        known = with_known_indices(walker, part)
        binding = evaluate(walker, known)
        return (
            numbers.settled(walker, binding, part) if early and not _is_place(function, position) else binding
        ), known

    for part in written_arguments(node):
        if isinstance(part, ast.Starred):
            items = unpacked(walker, evaluate(walker, part.value), part)
            positional.extend(items)
            nodes.extend([None] * len(items))
        else:
            binding, known = argument(part, len(positional))
            positional.append(binding)
            nodes.append(known)
    for keyword in node.keywords:
        if keyword.arg is not None:  # atomics call their place "x"
            position = 0 if keyword.arg == "x" else 1
            keywords[keyword.arg], keyword_nodes[keyword.arg] = argument(keyword.value, position)
            continue
        value = evaluate(walker, keyword.value)
        if not (type(value) is Static and isinstance(value.value, dict)):
            raise walker.error(node, "** takes a static dictionary in a kernel")
        keywords.update({name: Static(item) for name, item in value.value.items()})
    now = as_they_are(walker, keywords.values(), [keyword_nodes.get(name) for name in keywords], since)
    return Arguments(as_they_are(walker, positional, nodes, since), dict(zip(keywords, now)), nodes, keyword_nodes)


def call_binding(walker: Walker, function: Binding, arguments: Arguments, node: ast.AST) -> Binding:
    """Calls what `function` stands for."""
    if type(function) is BoundMethod:
        return function.handler(walker, function.owner, arguments, node)
    if type(function) is LocalFunction:
        return _call_local(walker, function, arguments, node)
    if type(function) is Sequence and function.record is not None:
        from quadrants.frontend.record_values import method_for

        method = method_for(walker, function, "__call__")
        if method is not None:
            return call_binding(walker, method, arguments, node)
    if type(function) is not Static:
        raise walker.error(node, f"{numbers.describe(function)} is not callable", kind=QuadrantsTypeError)
    return _call_object(walker, function.value, arguments, node)


def _call_object(walker: Walker, value: Any, arguments: Arguments, node: ast.AST) -> Binding:
    from quadrants.frontend.intrinsics import INTRINSICS, python_intrinsic

    name = protocol.intrinsic_name(value)
    if name is not None:
        handler = INTRINSICS.get(name)
        if handler is None:
            raise walker.error(node, f"'{name}' is not available in kernels of this release")
        return handler(walker, arguments, node)
    if protocol.makes_type(value):
        return _make_type(walker, value, arguments.with_static_tuples(), node)
    if isinstance(getattr(value, "__self__", None), str):
        from quadrants.frontend.printing import call_of_text

        return call_of_text(walker, value, arguments, node)
    if walker.static_depth or _only_looks(value):
        known = arguments.with_static_tuples()
        if known.all_static:
            return _call_now(walker, value, known, node)
    declaration = protocol.external(value)
    if declaration is not None:
        return call_external(walker, declaration, arguments, node)
    handler = python_intrinsic(value)
    if handler is not None:
        return handler(walker, arguments, node)
    if isinstance(value, ScalarType):
        return _cast_call(walker, value, arguments, node)
    found = protocol.annotation(value) if not isinstance(value, type) else None
    if found is not None and found.kind == "matrix":
        from quadrants.frontend.intrinsics import construct_annotated

        return construct_annotated(walker, found, arguments, node)
    if isinstance(value, type):
        return _call_class(walker, value, arguments, node)
    return _call_function(walker, protocol.replacement(value) or value, arguments, node)


def _only_looks(value: Any) -> bool:
    """Whether a bound method only looks into a container that is known at compile time."""
    return type(getattr(value, "__self__", None)) in (dict, tuple) and value.__name__ in _LOOKS


_LOOKS = ("count", "get", "index", "items", "keys", "values")


def _cast_call(walker: Walker, scalar: ScalarType, arguments: Arguments, node: ast.AST) -> Binding:
    if len(arguments.positional) != 1 or arguments.keywords:
        raise walker.error(node, f"{scalar}(…) takes one number", kind=QuadrantsTypeError)
    operand = arguments.positional[0]
    return Run(numbers.coerce(walker, operand, numbers.to_run(walker, operand, node), scalar))


def _call_now(walker: Walker, value: Any, arguments: Arguments, node: ast.AST) -> Binding:
    """A call inside qd.static: Python itself runs it."""
    positional, keywords = arguments.objects()
    try:
        result = value(*positional, **keywords)
    except Exception as reason:  # the user's function may raise anything: it is told with the line
        raise walker.error(node, f"{type(reason).__name__} while evaluating at compile time: {reason}") from reason
    walker.compilation.called(value, positional, keywords)
    return Static(result)


def _make_type(walker: Walker, maker: Any, arguments: Arguments, node: ast.AST) -> Binding:
    """A type of vectors or matrices: nothing is observed, since the same arguments give the same type."""
    if not arguments.all_static:
        raise walker.error(node, "the sizes of a type must be known at compile time", kind=QuadrantsTypeError)
    positional, keywords = arguments.objects()
    try:
        return Static(maker(*positional, **keywords))
    except (TypeError, QuadrantsSyntaxError) as reason:
        raise walker.error(node, str(reason), kind=QuadrantsTypeError) from None


def _call_class(walker: Walker, value: type, arguments: Arguments, node: ast.AST) -> Binding:
    scalar = numbers.scalar_of_numpy(np.dtype(value)) if issubclass(value, np.generic) else None
    if scalar is not None:
        return _cast_call(walker, scalar, arguments, node)
    if value in (np.dtype, np.finfo, np.iinfo) and arguments.all_static:
        known = [_numpy_type(binding) for binding in arguments.positional]
        return _call_now(walker, value, Arguments(known, arguments.keywords, arguments.nodes), node)
    from quadrants.frontend.record_values import make

    return make(walker, value, arguments, node)


def _numpy_type(binding: Binding) -> Binding:
    """A scalar type as NumPy has it."""
    value = binding.value if type(binding) is Static else None
    return Static(value.numpy) if isinstance(value, ScalarType) and value.numpy is not None else binding


def _call_function(walker: Walker, value: Any, arguments: Arguments, node: ast.AST) -> Binding:
    if isinstance(value, functools.partial):
        given = [Static(argument) for argument in value.args]
        keywords = {name: Static(argument) for name, argument in value.keywords.items()}
        arguments = arguments.behind([*given], [None] * len(given))
        arguments.keywords = {**keywords, **arguments.keywords}
        return call_binding(walker, Static(value.func), arguments, node)
    owner: list[Binding] = []
    called = value
    if isinstance(value, types.MethodType):
        owner = [Static(value.__self__)]
        value = value.__func__
    function = protocol.plain_function(value) or value
    if isinstance(function, types.MethodType):
        owner = [Static(function.__self__)]
        function = function.__func__
    if function.__module__ == "dataclasses":
        from quadrants.frontend.record_values import call_of_dataclasses

        found = call_of_dataclasses(walker, function, arguments, node)
        if found is not None:
            return found
    if not isinstance(function, types.FunctionType) or (function.__module__ or "").partition(".")[0] in _NOT_COMPILED:
        raise _not_callable(walker, called, node)
    if _is_kernel(value):
        raise walker.error(
            node,
            f"{function.__name__} is a kernel: a kernel cannot call a kernel",
            hint="decorate it with @qd.func, or call it from Python",
        )
    if owner:
        arguments = arguments.behind(owner, [None])
    bound = bind_arguments(walker, function, arguments, node)
    return walker.compilation.call_function(walker, function, bound, arguments, node)


_NOT_COMPILED = ("numpy", "dataclasses")
_GENERATORS = (random.Random, np.random.RandomState, np.random.Generator)


def _not_callable(walker: Walker, value: Any, node: ast.AST) -> Exception:
    hint = "kernels call Python functions, qd.* functions, and functions of numbers of math and numpy"
    if value in (np.zeros, np.ones, np.empty, np.full, np.zeros_like, np.arange, np.linspace, np.eye):
        hint = "a small vector is made by qd.Vector([0.0] * 3) or qd.Vector.zero(float, 3); pass larger arrays in"
    elif getattr(value, "__module__", "") == "random" or type(getattr(value, "__self__", None)) in _GENERATORS:
        hint = "qd.random(float) gives a number in [0, 1), qd.randn() one of the normal distribution"
    name = getattr(value, "__name__", type(value).__name__)
    return walker.error(node, f"{name} cannot be called in a kernel", hint=hint, kind=QuadrantsTypeError)


def _is_kernel(value: Any) -> bool:
    return getattr(type(value), "_is_kernel", False) is True


def bind_arguments(
    walker: Walker, function: types.FunctionType, arguments: Arguments, node: ast.AST
) -> dict[str, tuple[Binding, ast.expr | None]]:
    """Parameters to (argument, its syntax), by Python's rules for calls."""
    signature = _signature(function)
    slots = [(binding, syntax) for binding, syntax in zip(arguments.positional, arguments.nodes)]
    try:
        named = {name: (binding, arguments.keyword_nodes.get(name)) for name, binding in arguments.keywords.items()}
        bound = signature.bind(*slots, **named)
    except TypeError as reason:
        raise walker.error(node, f"{function.__name__}(): {reason}", kind=QuadrantsSyntaxError) from None
    found: dict[str, tuple[Binding, ast.expr | None]] = {}
    for name, parameter in signature.parameters.items():
        if name in bound.arguments:
            value = bound.arguments[name]
            if parameter.kind is inspect.Parameter.VAR_POSITIONAL:
                value = (Sequence([binding for binding, _ in value]), None)
            elif parameter.kind is inspect.Parameter.VAR_KEYWORD:
                raise walker.error(node, "** parameters are not supported in a kernel")
            found[name] = value
        elif parameter.kind is inspect.Parameter.VAR_POSITIONAL:
            found[name] = (Sequence([]), None)
        elif parameter.default is not inspect.Parameter.empty:
            found[name] = (Static(parameter.default), None)
    return found


def bind_class(walker: Walker, kind: type, arguments: Arguments, node: ast.AST) -> dict[str, Binding]:
    """The arguments of `kind(…)` by name, by Python's rules for calls."""
    try:
        return _signature(kind).bind(*arguments.positional, **arguments.keywords).arguments
    except TypeError as reason:
        raise walker.error(node, f"{kind.__name__}(): {reason}", kind=QuadrantsTypeError) from None


_signatures: dict[Any, inspect.Signature] = {}


def _signature(function: types.FunctionType | type) -> inspect.Signature:
    known = _signatures.get(function)
    if known is None:
        known = _signatures[function] = inspect.signature(function, follow_wrapped=False)
    return known


# Local functions.


def _call_local(walker: Walker, local: LocalFunction, arguments: Arguments, node: ast.AST) -> Binding:
    """Compiles the body of a nested function here: its own names over those of the function around it."""
    return inline_local(walker, local.node, local.owner, _bind_local(walker, local, arguments, node), node)


def _bind_local(walker: Walker, local: LocalFunction, arguments: Arguments, node: ast.AST) -> dict[str, Binding]:
    definition = local.node
    names = [argument.arg for argument in (*definition.args.posonlyargs, *definition.args.args)]
    rest = definition.args.vararg
    if definition.args.kwarg:
        raise walker.error(node, "** parameters are not supported in a kernel")
    named = [argument.arg for argument in definition.args.kwonlyargs]
    found = dict(zip(names, arguments.positional))
    more = arguments.positional[len(names) :]
    if rest is not None:
        found[rest.arg] = Sequence(more)
    if (more and rest is None) or set(arguments.keywords) - {*names, *named}:
        raise walker.error(node, f"the nested function takes {len(names)} arguments", kind=QuadrantsTypeError)
    doubly = [name for name in names[: len(arguments.positional)] if name in arguments.keywords]
    if doubly:
        raise walker.error(node, f"argument {doubly[0]!r} is given twice", kind=QuadrantsTypeError)
    found.update(arguments.keywords)
    for name, default in local.defaults.items():
        if name not in found:
            found[name] = current(walker, default) if type(default) is Sequence else default
    missing = [name for name in (*names, *named) if name not in found]
    if missing:
        raise walker.error(node, f"argument {missing[0]!r} is missing", kind=QuadrantsTypeError)
    return found


# What crosses a call: keys, values, and bindings made anew inside.


def flatten(walker: Walker, binding: Binding, node: ast.AST, weak_numbers: bool) -> tuple[Any, list[Value]]:
    """(key of the specialisation, the run-time values passed). Static things are part of the key; with `weak_numbers`
    numbers are passed, so that a recursion does not specialise on each."""
    if type(binding) is Static:
        value = binding.value
        if weak_numbers and is_number(value) and type(value) is not bool:
            run = numbers.to_run(walker, binding, node)
            return ("run", run.type, True, Nature.VALUE), [run.value]
        return ("static", exact_key(value)), []
    if type(binding) is Run:
        return ("run", binding.type, binding.weak, binding.nature), [binding.value]
    if type(binding) is Slot:
        run = numbers.to_run(walker, binding, node)
        return ("run", run.type, run.weak, binding.nature), [run.value]
    if type(binding) is Array:
        facts = (binding.kind, binding.domain, binding.offset, len(binding.prefix), binding.origin, binding.indexed)
        return ("array", binding.type, *facts), [binding.value, *binding.prefix]
    if type(binding) is Sequence:
        parts = [flatten(walker, item, node, weak_numbers) for item in binding.items]
        key = (
            "sequence",
            binding.is_list,
            (binding.names, binding.record, binding.given),
            tuple(key for key, _ in parts),
        )
        return key, [value for _, values in parts for value in values]
    if type(binding) is Part:
        numbers.to_run(walker, binding, node)  # says what it is good for
    if type(binding) is LocalFunction:
        return ("static", Kept(binding)), []
    if type(binding) is Iteration:
        raise walker.error(node, "a loop range cannot be passed to a function", hint="pass its bounds")
    raise walker.error(node, f"{numbers.describe(binding)} cannot be passed to a function")


def rebuild(binding: Binding, key: Any, values: Any) -> Binding:
    """The binding inside the callee: run-time parts from the iterator `values` (its parameters)."""
    kind = key[0]
    if kind == "run":
        return Run(next(values), key[2], key[3])
    if kind == "array":
        array: Any = binding
        value = next(values)
        prefix = tuple(next(values) for _ in array.prefix)
        return Array(value, array.kind, array.domain, prefix, array.offset, array.origin, array.example, array.indexed)
    if kind == "sequence":
        assert type(binding) is Sequence
        items = [rebuild(item, part, values) for item, part in zip(binding.items, key[3])]
        return binding.of(items)
    return binding


def written_templates(
    function_node: Any, templates: list[str], lists: list[str], tiles: Collection[str] = ()
) -> tuple[str, ...]:
    """The parameters that come back to the caller: templates that the function assigns (those that are tiles have methods
    that do), and lists and records that it changes (or functions that it calls may), unless it binds their names to
    something else."""
    if not isinstance(function_node, ast.FunctionDef):
        return ()
    assigned = set(assigned_names(function_node.body, function_node))
    assigned.update(set(tiles).intersection(touched_names(function_node)))
    written = element_names(function_node) | member_names(function_node) | set(touched_names(function_node))
    changed = written - bound_names(function_node)
    return (*(name for name in templates if name in assigned), *(name for name in lists if name in changed))
