"""Decompositions of small matrices: the sizes that there are; the work is done by library/decompositions.py."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from quadrants.errors import QuadrantsTypeError
from quadrants.frontend import numbers
from quadrants.frontend.calls import Arguments
from quadrants.frontend.decomposition_sizes import SIZES, listed_sizes, working_type
from quadrants.frontend.functions import library_function
from quadrants.frontend.intrinsic_table import Handler, intrinsic, is_given, named_dtype
from quadrants.frontend.values import Binding, Run, Static
from quadrants.ir.types import ScalarType, scalar_of, shape_of

if TYPE_CHECKING:
    from quadrants.frontend.walker import Walker

__all__: list[str] = []


def _result_type(walker: Walker, wish: list[Binding], known: ScalarType, node: ast.AST) -> ScalarType:
    if not wish or not is_given(wish[0]):
        return known
    result = named_dtype(walker, wish[0], node)
    if not result.is_float:
        raise walker.error(node, "dt is a float type", found=str(result), kind=QuadrantsTypeError)
    return result


def _matrix(walker: Walker, name: str, binding: Binding, node: ast.AST) -> Run:
    run = numbers.as_float(walker, binding, node)
    shape = shape_of(run.type)
    if len(shape) != 2 or shape[0] != shape[1] or shape[0] not in SIZES[name]:
        raise walker.error(
            node,
            f"qd.{name} takes a square matrix",
            found=numbers.describe(run),
            expected=listed_sizes(name),
            kind=QuadrantsTypeError,
        )
    return run


def _decomposition(name: str) -> Handler:
    def handler(walker: Walker, arguments: Arguments, node: ast.AST) -> Binding:
        binding, *wish = arguments.take(walker, node, ("A", "dt"), defaults=1)
        run = _matrix(walker, name, binding, node)
        result = _result_type(walker, wish, scalar_of(run.type), node)
        operands: list[Binding] = [run, Static(working_type(result)), Static(result)]
        return library_function(walker, name, Arguments(operands, {}, [None] * 3), node)

    return handler


for _name in ("eig", "make_spd", "polar_decompose", "svd", "sym_eig"):
    intrinsic(_name)(_decomposition(_name))


@intrinsic("solve")
def _solve(walker: Walker, arguments: Arguments, node: ast.AST) -> Binding:
    binding, other, *wish = arguments.take(walker, node, ("A", "b", "dt"), defaults=1)
    run, right = _matrix(walker, "solve", binding, node), numbers.as_float(walker, other, node)
    if shape_of(right.type) != shape_of(run.type)[:1]:
        raise walker.error(
            node,
            "the right-hand side of qd.solve is a vector with an element for every row of the matrix",
            found=f"{run.type} and {numbers.describe(right)}",
            kind=QuadrantsTypeError,
        )
    known, _ = numbers.join(walker, numbers.facts_of(run), numbers.facts_of(right))
    result = _result_type(walker, wish, known, node)
    operands: list[Binding] = [run, right, Static(working_type(result)), Static(result)]
    return library_function(walker, "solve", Arguments(operands, {}, [None] * 4), node)
