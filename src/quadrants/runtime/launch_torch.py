"""Machine code that reads tensors of a torch whose classes have no table of DLPack's functions: by torch's stable functions of C,
it fills in what such a table's functions would.
"""

from __future__ import annotations

from quadrants.runtime.launch_records import TensorRecord
from quadrants.runtime.native_text import Function, Module, Record, Value

__all__ = ["build"]

_MOST_DEVICES = 2  # of torch's kinds of devices: CPU, CUDA; DLPack's numbers are one more
_MOST_TYPES = 32


def build(module: Module, tensor_at: int, asks: bool) -> None:
    """Write `qd_torch_read` for objects that keep their tensor at an offset, and `qd_torch_ask` if that `asks`."""
    _build_read(module, tensor_at)
    if asks:
        f = module.function("qd_torch_ask", "i32", "i32 kind", "i32 number", "ptr stream")
        _, number, stream = f.parameters
        f.give(f.call("aoti_torch_get_current_cuda_stream", "i32", number, stream))


def _build_read(module: Module, tensor_at: int) -> None:
    """qd_torch_read(object, tensor): fill in a DLTensor; 0, or another number for what is none. `qd_torch_types` is a table of
    DLPack's words for torch's types."""
    f = module.function("qd_torch_read", "i32", "ptr object", "ptr tensor")
    item, out = f.parameters
    handle, tensor = f.offset(item, tensor_at), Record(f, out, TensorRecord)
    kind, number, type_ = (_asked(f, handle, name, "i32") for name in ("device_type", "device_index", "dtype"))
    f.give_if(f.constant("i32", _MOST_DEVICES - 1).is_below(kind), 1)
    f.give_if(f.constant("i32", _MOST_TYPES - 1).is_below(type_), 1)
    place = tensor.address("device")
    f.store("i32", kind + 1, place)
    f.store("i32", f.larger(number, 0), place, 4)  # a CPU has none
    f.store(
        "i32", f.load("i32", f.external("qd_torch_types"), type_.converted("zext", "i64") * 4), tensor.address("type")
    )
    f.store("i32", _asked(f, handle, "dim", "i64").converted("trunc", "i32"), tensor.address("rank"))
    for field, name in (("shape", "sizes"), ("strides", "strides"), ("data", "data_ptr")):
        tensor.set(field, _asked(f, handle, name, "ptr"))
    tensor.set("byte_offset", 0)
    f.give(0)


def _asked(f: Function, handle: Value, name: str, type_name: str) -> Value:
    slot = f.entry_slot(f"alloca {type_name}")
    f.give_if(f.call(f"aoti_torch_get_{name}", "i32", handle, slot).is_not(0), 1)
    return f.load(type_name, slot)
