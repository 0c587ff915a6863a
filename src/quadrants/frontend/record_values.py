"""Records: objects of named tuples and dataclasses that a kernel makes or is given, with what their classes define."""

from __future__ import annotations

import ast
import linecache
import types
from typing import TYPE_CHECKING, Any

from quadrants.errors import QuadrantsTypeError
from quadrants.frontend import numbers
from quadrants.frontend.calls import Arguments, bind_class, call_binding
from quadrants.frontend.domains import wrap
from quadrants.frontend.values import Binding, BoundMethod, Sequence, Static, is_open
from quadrants.records import dataclass_names

if TYPE_CHECKING:
    from quadrants.frontend.walker import Walker

__all__ = [
    "assigned_member",
    "call_of_dataclasses",
    "contains",
    "is_generated",
    "make",
    "member_of_record",
    "method_for",
    "replaced",
    "truth_of_record",
]


def make(walker: Walker, kind: type, arguments: Arguments, node: ast.AST) -> Sequence:
    """`kind(…)`: an object of a named tuple or dataclass."""
    names = getattr(kind, "_fields", None)
    if names is None:
        names = dataclass_names(kind)
    if names is None:
        raise walker.error(
            node,
            f"the class {kind.__name__} cannot be made in a kernel",
            hint=_hint(kind),
        )
    _check_initialiser(walker, kind, node)
    given = bind_class(walker, kind, arguments, node)
    items = [given[name] if name in given else _default(walker, kind, name, node) for name in names]
    return Sequence([numbers.settled(walker, item, node) for item in items], names=tuple(names), record=kind)


def _check_initialiser(walker: Walker, kind: type, node: ast.AST) -> None:
    own = _own_initialiser(kind)
    if own:
        raise walker.error(
            node,
            f"the class {kind.__name__} has a method {own} of its own, which a kernel does not run",
            hint="leave it out, and make its objects by a function",
        )


def _hint(kind: type) -> str:
    if kind in (set, frozenset):
        return "`x in (1, 2, 3)` looks into a tuple; an array of flags tells which numbers are in"
    if kind.__module__ == "itertools" or kind in (map, filter):
        return "inside qd.static(…) it can, of what is known at compile time"
    return "a tuple, a named tuple or a dataclass can"


def _own_initialiser(kind: type) -> str:
    """The name of a method that Python runs to make an object, and that is no generated one; '' for none."""
    if hasattr(kind, "__post_init__"):
        return "__post_init__"
    names = ("__new__",) if issubclass(kind, tuple) else ("__init__", "__setattr__")
    return next((name for name in names if not is_generated(getattr(kind, name))), "")


def is_generated(function: Any) -> bool:
    """Whether a method was made by `dataclass` or `namedtuple`, or is Python's own, rather than written."""
    if not isinstance(function, types.FunctionType):
        return True
    name = function.__code__.co_filename
    # Consoles and notebooks give what is typed in such names, too, but have its lines.
    return name == "<string>" or (name.startswith("<") and not linecache.getlines(name))


def _default(walker: Walker, kind: type, name: str, node: ast.AST) -> Binding:
    """What a member is that is not given."""
    compilation = walker.compilation
    if issubclass(kind, tuple):
        defaults: dict[str, Any] = getattr(kind, "_field_defaults", {})
        compilation.captured_attribute(walker, kind, "_field_defaults", defaults)
        compilation.evaluated(defaults)
        return wrap(defaults[name])
    import dataclasses

    compilation.captured_attribute(walker, kind, "__init__", kind.__init__)  # which has the defaults
    field = next(field for field in dataclasses.fields(kind) if field.name == name)
    if field.default is not dataclasses.MISSING:
        return wrap(field.default)
    if field.default_factory is dataclasses.MISSING:
        text = f"{kind.__name__}.{name} is not set when an object is made, which a kernel cannot tell"
        raise walker.error(node, text, hint="give it a default")
    made = field.default_factory()
    compilation.called(field.default_factory, [], {})
    return _made(made)


def _made(value: Any) -> Binding:
    """An object that Python has made for a member: one of a dataclass is a record, which can change."""
    names = dataclass_names(type(value)) if is_open(type(value)) else None
    if names is None:
        return wrap(value)
    return Sequence([_made(getattr(value, name)) for name in names], names=tuple(names), record=type(value))


def member_of_record(walker: Walker, base: Sequence, name: str, node: ast.AST) -> Binding | None:
    """A member of a record, or what its class has under that name; None if there is none."""
    if name in base.names:
        return base.items[base.names.index(name)]
    if base.record is None:
        return None
    if name == "_replace" and issubclass(base.record, tuple):
        return BoundMethod(base, name, replaced)
    found = _in_class(base.record, name)
    if isinstance(found, property):
        walker.compilation.captured_attribute(walker, base.record, name, found)
        place = node.value if isinstance(node, ast.Attribute) else None
        return _call_with(walker, found.fget, base, place, Arguments([], {}, []), node)
    if isinstance(found, (types.FunctionType, classmethod)) or _is_function(found):
        return _method(walker, base, name, found, True)
    if found is None or (is_generated(found) and not isinstance(found, staticmethod) and callable(found)):
        return None
    value = getattr(base.record, name)
    return walker.compilation.captured_attribute(walker, base.record, name, value)


def _is_function(found: Any) -> bool:
    from quadrants.frontend import protocol

    return not isinstance(found, staticmethod) and protocol.plain_function(found) is not None


def _in_class(record: type, name: str) -> Any:
    """What the class, or one that it is made from, has under a name, as it stands there; None for nothing."""
    for base in record.__mro__[:-1]:
        if name in base.__dict__ and base is not tuple:
            return base.__dict__[name]
    return None


def _method(
    walker: Walker, base: Sequence, name: str, found: Any, is_called: bool, place: ast.expr | None = None
) -> BoundMethod:
    """A method of a record's class; `is_called`: it is what stands in front of a call's parentheses; else the record is at
    `place`, if it has one."""
    assert base.record is not None
    function = getattr(base.record, name)
    walker.compilation.captured_attribute(walker, base.record, name, function)

    def handler(walker: Walker, owner: Binding, arguments: Arguments, node: ast.AST) -> Binding:
        if isinstance(found, classmethod):
            return call_binding(walker, Static(function), arguments, node)
        syntax = node.func if is_called and isinstance(node, ast.Call) else None
        called = syntax.value if isinstance(syntax, ast.Attribute) else place
        return _call_with(walker, function, owner, called, arguments, node)

    return BoundMethod(base, name, handler)


def _call_with(
    walker: Walker, function: Any, owner: Binding, place: ast.expr | None, arguments: Arguments, node: ast.AST
) -> Binding:
    """Calls a function of a class with the object in front of the arguments; `place` then holds what it has made of it."""
    return call_binding(walker, Static(function), arguments.behind([owner], [place]), node)


def method_for(walker: Walker, binding: Binding, name: str, place: ast.expr | None = None) -> BoundMethod | None:
    """The method that Python would call for an operator, where the class of a record has one that is written; None for
    none. `place`: the expression that names the record, for methods that change it."""
    if type(binding) is not Sequence or binding.record is None:
        return None
    found = _in_class(binding.record, name)
    if found is None or (not _is_function(found) and is_generated(found)):
        return None
    return _method(walker, binding, name, found, False, place)


def truth_of_record(walker: Walker, binding: Sequence, node: ast.AST) -> Binding:
    """What tells the truth of a record: the result of its class's __bool__ or __len__; without, only an empty tuple is
    false."""
    for name in ("__bool__", "__len__"):
        method = method_for(walker, binding, name)
        if method is not None:
            return call_binding(walker, method, Arguments([], {}, []), node)
    assert binding.record is not None
    return Static(bool(binding.items) or not issubclass(binding.record, tuple))


def contains(walker: Walker, binding: Sequence, item: Binding, node: ast.AST) -> Binding | None:
    """`item in binding` by the method of a record's class; None for a named tuple without, which has its members."""
    method = method_for(walker, binding, "__contains__")
    if method is not None:
        return call_binding(walker, method, Arguments([item], {}, [None]), node)
    assert binding.record is not None
    if issubclass(binding.record, tuple) and method_for(walker, binding, "__iter__") is None:
        return None
    raise walker.error(
        node,
        f"an object of {binding.record.__name__} holds no values that `in` could look for",
        hint="give the class a method __contains__, or name the members: `x in (p.x, p.y)`",
        kind=QuadrantsTypeError,
    )


def replaced(walker: Walker, owner: Binding, arguments: Arguments, node: ast.AST) -> Binding:
    """`owner._replace(…)`, `dataclasses.replace(owner, …)`: a record with other members."""
    assert type(owner) is Sequence and owner.record is not None
    unknown = [name for name in arguments.keywords if name not in owner.names]
    if arguments.positional or unknown:
        text = f"wrong arguments: takes ({', '.join(f'{name}=…' for name in owner.names)})"
        raise walker.error(node, text, kind=QuadrantsTypeError)
    if not issubclass(owner.record, tuple):
        _check_initialiser(walker, owner.record, node)
    items = [arguments.keywords.get(name, item) for name, item in zip(owner.names, owner.items)]
    return Sequence([numbers.settled(walker, item, node) for item in items], names=owner.names, record=owner.record)


def call_of_dataclasses(walker: Walker, function: Any, arguments: Arguments, node: ast.AST) -> Binding | None:
    """A function of the module `dataclasses` on a record; None for others."""
    owner = arguments.positional[0] if arguments.positional else None
    if type(owner) is not Sequence or owner.record is None:
        return None
    if function.__name__ == "replace":
        return replaced(walker, owner, Arguments(arguments.positional[1:], arguments.keywords, []), node)
    return Sequence(owner.items) if function.__name__ == "astuple" else None


def assigned_member(walker: Walker, owner: Sequence, name: str, value: Binding, node: ast.AST) -> Sequence:
    """The record with another value of a member."""
    assert owner.record is not None
    kind = owner.record.__name__
    if name not in owner.names:
        raise walker.error(node, f"{kind} has no member '{name}'", found=f"members {', '.join(owner.names)}")
    if not is_open(owner.record):
        hint = "make another one of it: " + (
            f"p._replace({name}=…)" if issubclass(owner.record, tuple) else f"dataclasses.replace(p, {name}=…)"
        )
        raise walker.error(node, f"{kind}.{name} cannot be assigned", hint=hint, kind=QuadrantsTypeError)
    if not is_generated(owner.record.__setattr__):
        text = f"the class {kind} has a method __setattr__ of its own, which a kernel does not run"
        raise walker.error(node, text, hint="leave it out, and change members by a method")
    if owner.given:
        raise walker.error(
            node,
            f"this would change an object that the kernel's caller has, but a kernel is given its numbers: {kind}.{name}",
            hint="write into an array, return the new value, or make an object of the kernel's own: dataclasses.replace(p)",
        )
    position = owner.names.index(name)
    return owner.of([*owner.items[:position], numbers.settled(walker, value, node), *owner.items[position + 1 :]])
