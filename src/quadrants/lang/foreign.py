"""Arrays of other packages as the launcher takes them: in place, by what their classes offer to machine code."""

from __future__ import annotations

import ctypes
import functools
from typing import Any

from quadrants.frontend.arguments import as_numpy
from quadrants.ir.types import ArrayType
from quadrants.program import Program
from quadrants.runtime import launch
from quadrants.targets.device.dlpack import CPU, Exchange, exchange_of, place_word, type_word
from quadrants.targets.device.torch_tensors import exchange_of_torch, is_plain, keys_word, stable_functions, type_words
from quadrants.targets.device.views import DeviceView

__all__ = ["foreign_argument"]


def foreign_argument(
    program: Program, value: Any, position: int, written: bool, asked: set[int], is_captured: bool = False
) -> launch.ForeignArgument | None:
    """What a launch needs of the parameter at a position, an array that lies where the kernel runs; None where its class has
    nothing for machine code, or memory has to be copied. `asked`: the functions that tell streams which another argument's launch
    calls already; code was made for the shape of one that `is_captured`."""
    array = as_numpy(value)
    device: Any = None if program.device is None else program.device.code.device
    if isinstance(array, DeviceView) is (device is None):
        return None
    source: Any = array.source if isinstance(array, DeviceView) else value
    kind, is_torch = type(source), hasattr(type(source), "data_ptr")
    exchange = _exchange_of_torch(kind, source) if is_torch else exchange_of(kind, kind)
    made = _described(program, array, kind, position, written, is_captured)
    if exchange is None:
        is_described = device is not None and not is_torch and hasattr(kind, "__cuda_array_interface__")
        return made(text=array.dtype.str, read_only=not array.flags.writeable) if is_described else None
    inside = keys_word(source) if is_torch else None
    if not array.flags.writeable or (is_torch and inside is None):
        return None
    place = (CPU, 0) if device is None else device.dlpack_device
    if device is not None and not exchange.ask:
        return None
    ask = 0 if device is None or exchange.ask in asked else exchange.ask
    asked.add(exchange.ask)
    elements = type_word(program.frame.parameter_types[position].scalar)
    return made(read=exchange.read, ask=ask, elements=elements, place=place_word(place), inside=inside)


def _exchange_of_torch(kind: type, tensor: Any) -> Exchange | None:
    """What a torch without DLPack's table has instead is made of its functions of C."""
    if not is_plain(kind):
        return None
    inside = keys_word(tensor)
    return exchange_of_torch(kind) or (_made_of_functions(inside[0]) if inside is not None else None)


@functools.cache
def _made_of_functions(tensor_at: int) -> Exchange | None:
    """For objects that keep their tensor at an offset."""
    functions = stable_functions()
    if functions is None:
        return None
    made = launch.torch_functions(tensor_at, {**functions, "qd_torch_types": ctypes.addressof(type_words())})
    return Exchange(made["qd_torch_read"], made.get("qd_torch_ask", 0))


def _described(program: Program, array: Any, kind: type, position: int, written: bool, is_captured: bool) -> Any:
    """What both ways have in common, to be called with the rest."""
    offset, type_ = program.frame.parameters[position], program.frame.parameter_types[position]
    assert type(type_) is ArrayType
    static = array.shape if is_captured else type_.trailing
    sizes = tuple((type_.rank - len(static) + axis, size) for axis, size in enumerate(static))
    common = (offset, kind, type_.rank, array.itemsize, type_.layout == "C", written, sizes)
    return lambda **more: launch.ForeignArgument(*common, **more)
