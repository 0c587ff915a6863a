"""Expressions: `evaluate(walker, node)` gives what the node stands for, leaving code for what happens at run time."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from quadrants.errors import QuadrantsTypeError
from quadrants.frontend import numbers, protocol
from quadrants.frontend.merge import NoUnion, convert_to, same_static, unify
from quadrants.frontend.values import Array, Binding, Iteration, Run, Sequence, Slot, Static, is_number
from quadrants.frontend.walker import Unknown
from quadrants.ir.nodes import Block, Op, Value
from quadrants.ir.ops import is_pure
from quadrants.ir.types import matrix_type, scalar_of, shape_of, u1

if TYPE_CHECKING:
    from quadrants.frontend.walker import Walker

__all__ = [
    "BINARY",
    "element",
    "evaluate",
    "expression_text",
    "flat_indices",
    "index_list",
    "partial",
    "sliced_element",
    "swizzle_positions",
]

BINARY: dict[type, str] = {
    ast.Add: "add",
    ast.Sub: "sub",
    ast.Mult: "mul",
    ast.Div: "div",
    ast.FloorDiv: "floordiv",
    ast.Mod: "mod",
    ast.Pow: "pow",
    ast.MatMult: "matmul",
    ast.BitAnd: "bit_and",
    ast.BitOr: "bit_or",
    ast.BitXor: "bit_xor",
    ast.LShift: "shl",
    ast.RShift: "shr",
}
COMPARE: dict[type, str] = {ast.Eq: "eq", ast.NotEq: "ne", ast.Lt: "lt", ast.LtE: "le", ast.Gt: "gt", ast.GtE: "ge"}
# How large a side of `and`, `or` or a conditional may be to be computed always rather than branched around.
EAGER_OPS = 6
_SWIZZLES = ("xyzw", "rgba", "stpq")


def evaluate(walker: Walker, node: ast.expr) -> Binding:
    handler = EXPRESSIONS.get(type(node))
    if handler is None:
        raise walker.error(node, f"`{type(node).__name__}` expressions are not supported in a kernel")
    return handler(walker, node)


def _constant(walker: Walker, node: ast.Constant) -> Binding:
    if isinstance(node.value, (complex, bytes)):
        raise walker.error(
            node,
            f"kernels have no {type(node.value).__name__} values",
            hint="use a vector of two numbers and qd.math.cmul for complex numbers"
            if isinstance(node.value, complex)
            else "",
        )
    return Static(node.value)


def _name(walker: Walker, node: ast.Name) -> Binding:
    return walker.lookup(node.id, node)


def _binary(walker: Walker, node: ast.BinOp) -> Binding:
    left = _settled(walker, evaluate(walker, node.left), node.left)
    right = evaluate(walker, node.right)
    walker.at(node)
    return numbers.binary(
        walker, BINARY[type(node.op)], _operand(walker, left, node), _operand(walker, right, node), node
    )


def _settled(walker: Walker, binding: Binding, node: ast.AST) -> Binding:
    """An element's value, read now: what is evaluated next may write it."""
    return walker.load(binding, node) if type(binding) is Array and binding.is_element else binding


def _operand(walker: Walker, binding: Binding, node: ast.AST) -> Binding:
    if type(binding) is Static and not is_number(binding.value) and protocol.is_array(binding.value):
        raise _whole_array(walker, walker.compilation.array_of(walker, binding.value, node), node)
    if type(binding) is Array and not binding.indexed:
        raise _whole_array(walker, binding, node)
    return binding


def _whole_array(walker: Walker, array: Array, node: ast.AST) -> Exception:
    return walker.error(
        node,
        "whole-array arithmetic is not computed in a kernel",
        found=numbers.describe(array),
        hint="loop over the array and compute its elements: `for i in range(len(a)): …`",
    )


def _unary(walker: Walker, node: ast.UnaryOp) -> Binding:
    operand = evaluate(walker, node.operand)
    walker.at(node)
    if isinstance(node.op, ast.Not):
        truth = numbers.truth(walker, operand, node.operand)
        return Static(not truth.value) if type(truth) is Static else Run(walker.builder.emit("bit_not", truth.value))  # type: ignore[attr-defined]
    if isinstance(node.op, ast.USub):
        return numbers.negate(walker, operand, node)
    if isinstance(node.op, ast.Invert):
        return numbers.invert(walker, operand, node)
    return operand


def _compare(walker: Walker, node: ast.Compare) -> Binding:
    """Chains compare each operand once and stop at the first that fails."""
    left = _settled(walker, evaluate(walker, node.left), node.left)
    result: Binding | None = None
    for operator, right_node in zip(node.ops, node.comparators):
        if result is not None and type(result) is Static and not result.value:
            return result
        right = _settled(walker, evaluate(walker, right_node), right_node)
        walker.at(node)
        found = _one_comparison(walker, operator, left, right, node)
        result = found if result is None else _both(walker, result, found, node)
        left = right
    assert result is not None
    return result


def _both(walker: Walker, left: Binding, right: Binding, node: ast.AST) -> Binding:
    if type(left) is Static:
        return right if left.value else left
    return numbers.binary(walker, "bit_and", left, right, node)


def _one_comparison(walker: Walker, operator: ast.cmpop, left: Binding, right: Binding, node: ast.Compare) -> Binding:
    if isinstance(operator, (ast.Is, ast.IsNot)):
        return _identity(walker, isinstance(operator, ast.IsNot), left, right, node)
    if isinstance(operator, (ast.In, ast.NotIn)):
        return _membership(walker, isinstance(operator, ast.NotIn), left, right, node)
    return numbers.compare(walker, COMPARE[type(operator)], left, right, node)


def _identity(walker: Walker, negated: bool, left: Binding, right: Binding, node: ast.Compare) -> Binding:
    if type(left) is Static and type(right) is Static:
        return Static((left.value is right.value) != negated)
    if type(right) is Static and right.value is None:
        return Static(negated)
    raise walker.error(node, "`is` compares objects, which a kernel does not have at run time", hint="use ==")


def _membership(walker: Walker, negated: bool, left: Binding, right: Binding, node: ast.Compare) -> Binding:
    if type(left) is Static and type(right) is Static:
        walker.compilation.evaluated(left.value, right.value)
        return Static((left.value in right.value) != negated)
    items = (
        right.items
        if type(right) is Sequence
        else [Static(item) for item in right.value]
        if type(right) is Static
        else None
    )
    if items is None:
        raise walker.error(node, "`in` takes a tuple of values in a kernel", found=numbers.describe(right))
    result: Binding = Static(False)
    for item in items:
        equal = numbers.compare(walker, "eq", left, item, node)
        if type(result) is Static and type(equal) is Static:
            result = Static(result.value or equal.value)
        elif type(result) is Static and not result.value:
            result = equal
        elif not (type(equal) is Static and not equal.value):
            result = numbers.binary(walker, "bit_or", result, equal, node)
    if not negated:
        return result
    return Static(not result.value) if type(result) is Static else Run(walker.builder.emit("bit_not", result.value))  # type: ignore[attr-defined]


# Lazy expressions.


def _boolean(walker: Walker, node: ast.BoolOp) -> Binding:
    """`and`, `or`: the operand that decides is the value; what is right of it does not run."""
    is_and = isinstance(node.op, ast.And)
    left = evaluate(walker, node.values[0])
    for right_node in node.values[1:]:
        test = numbers.truth(walker, left, node)
        if type(test) is Static:
            if bool(test.value) != is_and:
                return left
            left = evaluate(walker, right_node)
            continue
        left = _lazy(walker, test, right_node if is_and else left, left if is_and else right_node, node)  # type: ignore[arg-type]
    return left


def _conditional(walker: Walker, node: ast.IfExp) -> Binding:
    test = numbers.truth(walker, evaluate(walker, node.test), node.test)
    if type(test) is Static:
        return evaluate(walker, node.body if test.value else node.orelse)
    return _lazy(walker, test, node.body, node.orelse, node)  # type: ignore[arg-type]


def _lazy(walker: Walker, test: Run, yes: ast.expr | Binding, no: ast.expr | Binding, node: ast.expr) -> Binding:
    """One of two values by a run-time test; only that one is computed unless both are cheap."""
    env = walker.env
    blocks: list[Block] = []
    bindings: list[Binding] = []
    for side in (yes, no):
        walker.env = dict(env)
        try:
            block, binding = walker.trial(
                lambda side=side: evaluate(walker, side) if isinstance(side, ast.expr) else side
            )
        except Unknown:
            continue
        blocks.append(block)
        bindings.append(binding)
    walker.env = env
    if not bindings:
        raise Unknown
    if len(bindings) == 1:
        return bindings[0]
    if same_static(*bindings):
        for block in blocks:
            walker.splice(block)
        return bindings[0]
    if (
        type(bindings[0]) is Sequence
        and type(bindings[1]) is Sequence
        and len(bindings[0].items) == len(bindings[1].items)
    ):
        for block in blocks:
            walker.splice(block)
        return Sequence(
            [
                _choose(walker, test, [Block(), Block()], [a, b], node)
                for a, b in zip(bindings[0].items, bindings[1].items)
            ]
        )
    return _choose(walker, test, blocks, bindings, node)


def _choose(walker: Walker, test: Run, blocks: list[Block], bindings: list[Binding], node: ast.expr) -> Run:
    try:
        type_, weak = unify(walker, bindings, node)
    except NoUnion as reason:
        raise walker.error(node, f"the two values have no common type: {reason}", kind=QuadrantsTypeError) from None
    values: list[Value] = []
    for block, binding in zip(blocks, bindings):
        with walker.inside(block):
            values.append(convert_to(walker, binding, type_, node))
    if all(len(block.ops) <= EAGER_OPS and all(is_pure(op.kind) for op in block.ops) for block in blocks):
        for block in blocks:
            walker.splice(block)
        return Run(_select(walker, test.value, values, type_), weak)
    for block, value in zip(blocks, values):
        block.ops.append(Op("yield", (value,), (), None, (), walker.builder.location))
    op = Op("if", (test.value,), (type_,), {"types": (type_,)}, tuple(blocks), walker.builder.location)
    walker.builder.block.ops.append(op)
    return Run(op.result, weak)


def _select(walker: Walker, test: Value, values: list[Value], type_: Any) -> Value:
    if type_ is u1:
        yes, no = values
        if _is_constant(no, False):
            return walker.builder.emit("bit_and", test, yes)
        if yes is test:
            return walker.builder.emit("bit_or", test, no)
    return walker.builder.emit("select", test, *values)


def _is_constant(value: Value, number: Any) -> bool:
    return type(value.owner) is Op and value.owner.kind == "constant" and value.owner.attribute("value") == number


# Members and elements.


def swizzle_positions(name: str) -> list[int] | None:
    """The components that a swizzle names, None if the name is none."""
    if 1 <= len(name) <= 4:
        for letters in _SWIZZLES:
            if all(letter in letters for letter in name):
                return [letters.index(letter) for letter in name]
    return None


def _attribute(walker: Walker, node: ast.Attribute) -> Binding:
    base = evaluate(walker, node.value)
    walker.at(node)
    return member(walker, base, node.attr, node)


def member(walker: Walker, base: Binding, name: str, node: ast.AST) -> Binding:
    """`base.name`."""
    from quadrants.frontend.methods import method_of

    if type(base) is Static and not is_number(base.value) and protocol.matrix_constant(base.value) is None:
        return _static_member(walker, base, name, node)
    if type(base) is Sequence and name in base.names:
        return base.items[base.names.index(name)]
    found = method_of(walker, base, name, node)
    if found is not None:
        return found
    positions = swizzle_positions(name)
    if positions is not None and type(base) in (Run, Slot, Array, Sequence, Static):
        return swizzle(walker, base, positions, node)
    raise walker.error(node, f"{numbers.describe(base)} has no attribute '{name}'")


def _static_member(walker: Walker, base: Static, name: str, node: ast.AST) -> Binding:
    if protocol.is_array(base.value):
        found = _storage_member(walker, base, name, node)
        if found is not None:
            return found
    try:
        value = getattr(base.value, name)
    except AttributeError as reason:
        raise walker.error(node, str(reason)) from None
    return walker.compilation.captured_attribute(walker, base.value, name, value)


def _storage_member(walker: Walker, base: Static, name: str, node: ast.AST) -> Binding | None:
    """Members of a captured field or array: its shape is static where that is asked for, else read at run time."""
    from quadrants.frontend.methods import method_of

    if (
        name in ("shape", "dtype", "ndim", "n", "m", "grad", "dual", "snode", "parent", "element_shape")
        or walker.static_depth
    ):
        return None
    return method_of(walker, walker.compilation.array_of(walker, base.value, node), name, node)


def swizzle(walker: Walker, base: Binding, positions: list[int], node: ast.AST) -> Run:
    """Components of a vector by letters: one is a number, several a vector."""
    if type(base) is Array:
        left = base.type.rank - len(base.prefix)
        if left == 1 and base.indexed:
            from quadrants.frontend.assign import component_of, element_value_type

            array, type_ = element_value_type(walker, base, node)
            return component_of(walker, array, positions, type_, node)
    run = numbers.to_run(walker, base, node)
    shape = shape_of(run.type)
    if len(shape) != 1 or max(positions) >= shape[0]:
        raise walker.error(node, f"{numbers.describe(run)} has no such component", kind=QuadrantsTypeError)
    parts = [walker.builder.emit("extract", run.value, walker.builder.index(position)) for position in positions]
    if len(parts) == 1:
        return Run(parts[0], run.weak)
    return Run(walker.builder.emit("construct", *parts, type=matrix_type(scalar_of(run.type), (len(parts),))), run.weak)


def index_list(walker: Walker, node: ast.expr) -> list[Binding]:
    """The indices of a subscript, slices as static slices."""
    parts = node.elts if isinstance(node, ast.Tuple) else [node]
    return [_slice(walker, part) if isinstance(part, ast.Slice) else evaluate(walker, part) for part in parts]


def _slice(walker: Walker, node: ast.Slice) -> Binding:
    bounds = []
    for part in (node.lower, node.upper, node.step):
        bound = Static(None) if part is None else evaluate(walker, part)
        if type(bound) is not Static:
            raise walker.error(
                node, "the bounds of a slice must be known at compile time", hint="loop over the indices"
            )
        bounds.append(bound.value)
    from quadrants.frontend.assign import SliceIndex

    return SliceIndex(slice(*bounds))


def flat_indices(walker: Walker, indices: list[Binding], node: ast.AST) -> list[Binding]:
    """Indices with vectors and tuples spread: `a[vec]`, `a[i, vec]`; None stands for no index (0-D fields)."""
    flat: list[Binding] = []
    for index in indices:
        if type(index) is Static and index.value is None:
            continue
        if type(index) is Static and isinstance(index.value, (tuple, list)):
            flat.extend(Static(item) for item in index.value)
        elif type(index) is Sequence:
            flat.extend(flat_indices(walker, index.items, node))
        elif (
            type(index) is Slot
            or (type(index) is Run and shape_of(index.type))
            or type(index) is Array
            or (type(index) is Static and protocol.matrix_constant(index.value) is not None)
        ):
            run = numbers.to_run(walker, index, node)
            flat.extend(Run(value, run.weak) for value in numbers.elements(walker, run.value)) if shape_of(
                run.type
            ) else flat.append(run)
        else:
            flat.append(index)
    return flat


def _subscript(walker: Walker, node: ast.Subscript) -> Binding:
    base = evaluate(walker, node.value)
    indices = index_list(walker, node.slice)
    walker.at(node)
    return element(walker, base, indices, node)


def element(walker: Walker, base: Binding, indices: list[Binding], node: ast.AST) -> Binding:
    """`base[indices]`."""
    if type(base) is Static:
        if protocol.is_array(base.value):
            base = walker.compilation.array_of(walker, base.value, node)
        elif protocol.matrix_constant(base.value) is None:
            return _static_element(walker, base, indices, node)
    if type(base) is Sequence:
        return _sequence_element(walker, base, indices, node)
    if type(base) is Array:
        return partial(walker, base, indices, node)
    if type(base) is Iteration:
        raise walker.error(node, f"{numbers.describe(base)} cannot be indexed in a kernel")
    return _matrix_element(walker, base, indices, node)


def _static_element(walker: Walker, base: Static, indices: list[Binding], node: ast.AST) -> Binding:
    if all(type(index) is Static or isinstance(index, Static) for index in indices):
        keys = tuple(index.value for index in indices)  # type: ignore[attr-defined]
        walker.compilation.evaluated(base.value, *keys)
        try:
            return Static(base.value[keys[0] if len(keys) == 1 else keys])
        except (IndexError, KeyError, TypeError) as reason:
            raise walker.error(node, f"{type(reason).__name__}: {reason}") from None
    if isinstance(base.value, (tuple, list)):
        from quadrants.frontend.domains import wrap

        return _sequence_element(walker, wrap(base.value), indices, node)  # type: ignore[arg-type]
    raise walker.error(node, f"{numbers.describe(base)} takes static indices only")


def _sequence_element(walker: Walker, base: Sequence, indices: list[Binding], node: ast.AST) -> Binding:
    first = indices[0]
    if isinstance(first, Static):
        try:
            found = base.items[first.value]
        except (IndexError, TypeError) as reason:
            raise walker.error(node, f"{type(reason).__name__}: {reason}") from None
        found = Sequence(found, base.is_list) if isinstance(found, list) else found
        return element(walker, found, indices[1:], node) if len(indices) > 1 else found
    run = numbers.sequence_to_matrix(walker, base, node)
    return _matrix_element(walker, run, indices, node)


def partial(walker: Walker, array: Array, indices: list[Binding], node: ast.AST) -> Binding:
    """An array with more indices: its element, a view, or (fields) the element's component."""
    from quadrants.frontend.assign import SliceIndex

    if any(isinstance(index, SliceIndex) for index in indices):
        return _sliced(walker, array, indices, node)
    indices = flat_indices(walker, indices, node)
    if len(array.prefix) + len(indices) > array.type.rank:
        raise walker.error(
            node,
            f"{len(indices)} indices into {numbers.describe(array)}",
            expected=f"at most {array.type.rank - len(array.prefix)}",
            kind=_index_error(),
        )
    done = len(array.prefix)
    if not array.is_numpy and done < array.domain and done + len(indices) < array.domain:
        raise walker.error(
            node,
            f"{len(indices)} indices into {numbers.describe(array)}",
            expected=f"{array.domain - done}",
            hint="fields and ndarrays are indexed with all their axes",
            kind=_index_error(),
        )
    values = []
    for axis, index in enumerate(indices, done):
        value = _static_axis(walker, array, axis, index, node) or walker.as_index(index, node)
        if axis < len(array.offset) and array.offset[axis]:
            value = walker.builder.emit("sub", value, walker.builder.index(array.offset[axis]))
        values.append(value)
    return array.extended(tuple(values))


def _static_axis(walker: Walker, array: Array, axis: int, index: Binding, node: ast.AST) -> Value | None:
    """A static index into an axis of static size: checked, negative ones brought round."""
    first_static = array.type.rank - len(array.type.trailing)
    if type(index) is not Static or not isinstance(index.value, int) or axis < first_static:
        return None
    size = array.type.trailing[axis - first_static]
    if not -size <= index.value < size:
        raise walker.error(node, f"index {index.value} is out of range for size {size}", kind=_index_error())
    return walker.builder.index(index.value % size)


def _index_error() -> Any:
    from quadrants.errors import QuadrantsIndexError

    return QuadrantsIndexError


def _sliced(walker: Walker, array: Array, indices: list[Binding], node: ast.AST) -> Binding:
    """Slices of the static axes of an element: `F[i][:, 0]`, `pos[i, :2]`."""
    from quadrants.frontend.assign import SliceIndex

    first = next(position for position, index in enumerate(indices) if isinstance(index, SliceIndex))
    return _matrix_element(
        walker, walker.load(sliced_element(walker, array, indices[:first], node), node), indices[first:], node
    )


def sliced_element(walker: Walker, array: Array, indices: list[Binding], node: ast.AST) -> Array:
    """The element that the indices in front of a slice reach: only the static axes of elements are sliced."""
    if len(array.prefix) + len(indices) < array.domain and not array.is_numpy:
        raise walker.error(node, "fields are not sliced in a kernel", hint="loop over the indices")
    head = partial(walker, array, indices, node) if indices else array
    assert type(head) is Array
    if not head.indexed:
        raise walker.error(
            node, "whole arrays are not sliced in a kernel", hint="loop over the indices, or slice before the call"
        )
    return head


def _matrix_element(walker: Walker, base: Binding, indices: list[Binding], node: ast.AST) -> Binding:
    """Elements, rows and static slices of a matrix value."""
    from quadrants.frontend.assign import SliceIndex, component_axes

    shape = shape_of(base.element) if type(base) is Slot else shape_of(numbers.to_run(walker, base, node).type)
    if not shape:
        raise walker.error(node, f"{numbers.describe(base)} cannot be indexed", kind=QuadrantsTypeError)
    axes = component_axes(walker, indices, shape, node)
    whole = len(flat_indices(walker, indices, node)) == len(shape) and not any(
        isinstance(index, SliceIndex) for index in indices
    )
    if whole:
        position = [axis[0] for axis in axes]
        if type(base) is Slot:
            return Run(walker.builder.emit("load", base.memory, *position), base.weak)
        run = numbers.to_run(walker, base, node)
        return Run(walker.builder.emit("extract", run.value, *position), run.weak)
    import itertools

    run = numbers.to_run(walker, base, node)
    sliced = [isinstance(index, SliceIndex) for index in indices] + [True] * (len(shape) - len(indices))
    kept = tuple(len(axis) for axis, keep in zip(axes, sliced) if keep)
    values = [walker.builder.emit("extract", run.value, *position) for position in itertools.product(*axes)]
    return Run(walker.builder.emit("construct", *values, type=matrix_type(scalar_of(run.type), kept)), run.weak)


# Displays.


def _tuple(walker: Walker, node: ast.Tuple) -> Binding:
    return Sequence(_elements(walker, node.elts))


def _list(walker: Walker, node: ast.List) -> Binding:
    return Sequence(_elements(walker, node.elts), is_list=True)


def _elements(walker: Walker, nodes: list[ast.expr]) -> list[Binding]:
    from quadrants.frontend.assign import unpacked

    items: list[Binding] = []
    for part in nodes:
        if isinstance(part, ast.Starred):
            items.extend(unpacked(walker, evaluate(walker, part.value), part))
        else:
            items.append(_settled(walker, evaluate(walker, part), part))
    return items


def _comprehension(walker: Walker, node: ast.ListComp | ast.GeneratorExp) -> Binding:
    """Comprehensions over static ranges: a list of values."""
    from quadrants.frontend.assign import assign
    from quadrants.frontend.domains import static_items, static_product

    items: list[Binding] = []

    def run(generators: list[ast.comprehension]) -> None:
        if not generators:
            items.append(_settled(walker, evaluate(walker, node.elt), node.elt))
            return
        generator = generators[0]
        iterated = evaluate(walker, generator.iter)
        if type(iterated) is Iteration:
            iterated = _static_range(iterated) or (
                Sequence(found)
                if (found := static_product(iterated) if iterated.kind == "ndrange" else None) is not None
                else iterated
            )
        found_items = static_items(walker, iterated, generator.iter)
        if found_items is None:
            raise walker.error(
                generator.iter,
                "a comprehension in a kernel runs over what is known at compile time",
                found=numbers.describe(iterated),
                hint="write a loop",
            )
        for item in found_items:
            assign(walker, generator.target, item)
            conditions = [numbers.truth(walker, evaluate(walker, test), test) for test in generator.ifs]
            if any(type(condition) is not Static for condition in conditions):
                raise walker.error(node, "the condition of a comprehension must be known at compile time")
            if all(condition.value for condition in conditions):  # type: ignore[attr-defined]
                run(generators[1:])

    before = walker.env
    walker.env = dict(before)
    run(node.generators)
    walker.env = before
    return Sequence(items, is_list=True)


def _static_range(iteration: Iteration) -> Binding | None:
    if iteration.kind == "range" and all(type(part) is Static for part in iteration.parts):
        return Static(range(*[part.value for part in iteration.parts]))
    return None


def _dictionary(walker: Walker, node: ast.Dict) -> Binding:
    keys = [evaluate(walker, key) if key is not None else None for key in node.keys]
    values = [evaluate(walker, value) for value in node.values]
    if all(type(key) is Static for key in keys) and all(type(value) is Static for value in values):
        return Static({key.value: value.value for key, value in zip(keys, values)})  # type: ignore[union-attr,attr-defined]
    raise walker.error(node, "a dictionary in a kernel holds static values only", hint="use a tuple or a dataclass")


def _named(walker: Walker, node: ast.NamedExpr) -> Binding:
    binding = evaluate(walker, node.value)
    walker.bind(node.target.id, binding, node)
    return walker.env[node.target.id]


def _lambda(walker: Walker, node: ast.Lambda) -> Binding:
    from quadrants.frontend.calls import LocalFunction

    return LocalFunction(node, walker)


def _call(walker: Walker, node: ast.Call) -> Binding:
    from quadrants.frontend.calls import call

    return call(walker, node)


def _formatted(walker: Walker, node: ast.JoinedStr) -> Binding:
    from quadrants.frontend.printing import formatted

    return formatted(walker, node)


def expression_text(walker: Walker, node: ast.expr) -> tuple[str, list[Value]]:
    """A message: its text with {} for the run-time values, and these."""
    if not isinstance(node, ast.JoinedStr):
        binding = evaluate(walker, node)
        if type(binding) is Static:
            walker.compilation.evaluated(binding.value)
            return str(binding.value), []
        return "{}", [numbers.to_run(walker, binding, node).value]
    text, values = [], []
    for part in node.values:
        if isinstance(part, ast.Constant):
            text.append(str(part.value).replace("{", "{{").replace("}", "}}"))
            continue
        assert isinstance(part, ast.FormattedValue)
        binding = evaluate(walker, part.value)
        spec = "" if part.format_spec is None else expression_text(walker, part.format_spec)[0]
        if type(binding) is Static:
            walker.compilation.evaluated(binding.value)
            shown = format(binding.value, spec)
            text.append(shown.replace("{", "{{").replace("}", "}}"))
            continue
        text.append("{:" + spec + "}" if spec else "{}")
        values.append(numbers.to_run(walker, binding, part).value)
    return "".join(text), values


EXPRESSIONS: dict[type, Callable[[Any, Any], Binding]] = {
    ast.Constant: _constant,
    ast.Name: _name,
    ast.BinOp: _binary,
    ast.UnaryOp: _unary,
    ast.Compare: _compare,
    ast.BoolOp: _boolean,
    ast.IfExp: _conditional,
    ast.Attribute: _attribute,
    ast.Subscript: _subscript,
    ast.Tuple: _tuple,
    ast.List: _list,
    ast.ListComp: _comprehension,
    ast.GeneratorExp: _comprehension,
    ast.Dict: _dictionary,
    ast.NamedExpr: _named,
    ast.Lambda: _lambda,
    ast.Call: _call,
    ast.JoinedStr: _formatted,
}
