"""The elementary functions as IR text, which the pass `expand_functions` puts in place of operations.

    python -m quadrants.library.elementary_text     # writes src/quadrants/passes/functions/*.qir anew

Python's source is compiled when a function is changed, not when it is used: a kernel with a sine parses one small text.
`tests/library/test_elementary_text.py` says when the texts are out of date.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from quadrants import knobs
from quadrants.frontend.arguments import describe_argument
from quadrants.frontend.compilation import compile_source
from quadrants.ir.nodes import Function, Module, walk
from quadrants.ir.text import print_module
from quadrants.ir.types import ScalarType, f32, f64, scalar_of
from quadrants.library import elementary_alone, elementary_f32, elementary_f64
from quadrants.passes import expand_functions
from quadrants.passes.context import PassContext
from quadrants.passes.driver import run_pipeline

__all__ = ["text_of", "texts"]

_EXACT = frozenset({"add", "sub", "mul", "div", "fma"})


def texts() -> Iterator[tuple[Path, str]]:
    """Each file of texts and what belongs there."""
    for scalar, module, alone in (
        (f32, elementary_f32, False),
        (f64, elementary_f64, False),
        (f32, elementary_alone, True),
    ):
        functions = {**module.FUNCTIONS, **{expand_functions.far_name(row): far for row, far in module.FAR.items()}}
        for name, function in functions.items():
            yield expand_functions.path_of(name, scalar, alone), text_of(name, scalar, function)


def text_of(name: str, scalar: ScalarType, function: Callable[..., Any]) -> str:
    """A function of numbers of one type, as one IR function of stage 'lowered'. Its float operations are `exact`: to be
    computed as they are written, since the errors of the one are what the next makes good."""
    options = knobs.current
    held = np.dtype(scalar.name.replace("f", "float")).type
    code = function.__code__
    parameters = code.co_varnames[: code.co_argcount]
    types = options.default_int, options.default_float
    arguments = [(parameter, describe_argument(parameter, held(0), None, *types)) for parameter in parameters]
    module = compile_source(function, arguments, options, set(), None).module
    run_pipeline(module, context=PassContext(options))
    kernel = module.kernel
    for op in walk(kernel.body):
        if op.kind in _EXACT and scalar_of(op.results[0].type).is_float:
            op.attributes["exact"] = True
    own = Function(f"{name}_{scalar.name}", (), kernel.result_types)
    own.body = kernel.body
    alone = Module(stage=module.stage)
    alone.add(own)
    return print_module(alone, locations=False)


def main() -> None:
    for path, text in texts():
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)


if __name__ == "__main__":
    main()
