"""What torch's tensors keep beside what DLPack tells of them: whether what they show is what stands in their memory.

A tensor may only note that its elements are negated or conjugated, and be a wrapper of others while functions of torch are
transformed. The set of its dispatch keys says so, in a word of the tensor whose place is looked up in known tensors: one
that is found nowhere leaves launches to Python.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import sys
from typing import Any

from quadrants.ir import types as ir_types
from quadrants.targets.device.dlpack import Exchange, exchange_of, type_word

__all__ = ["exchange_of_torch", "is_plain", "keys_of", "keys_word", "stable_functions", "type_words"]

_STABLE = "aoti_torch_get_"
_READS = ("device_type", "device_index", "dtype", "dim", "sizes", "strides", "data_ptr")
_ASKS = "current_cuda_stream"
_TYPES = {
    0: ir_types.u8,
    1: ir_types.i8,
    2: ir_types.i16,
    3: ir_types.i32,
    4: ir_types.i64,
    5: ir_types.f16,
    6: ir_types.f32,
    7: ir_types.f64,
    11: ir_types.u1,
    15: ir_types.bf16,
    27: ir_types.u16,
    28: ir_types.u32,
    29: ir_types.u64,
}
"""torch's numbers for types of elements."""
_POINTERS, _WORDS = 4, 24  # how much of a tensor's object, and of what it points to, is looked at


def is_plain(kind: type) -> bool:
    """Whether a class is torch's own for tensors or parameters; others have their own ideas of what they are."""
    torch: Any = sys.modules.get("torch")  # others have such tensors, too
    return torch is not None and (kind is torch.Tensor or kind is torch.nn.Parameter)


def exchange_of_torch(kind: type) -> Exchange | None:
    """DLPack's functions for a plain class of torch's; None for a torch that has no table of them."""
    torch: Any = sys.modules["torch"]
    return exchange_of(kind, torch.Tensor)


@functools.cache
def stable_functions() -> dict[str, int] | None:
    """torch's stable functions of C that tell of a tensor, by name, and the one that tells the stream where this torch knows CUDA.
    None for a torch without them."""
    torch: Any = sys.modules["torch"]
    try:
        library = ctypes.CDLL(torch._C.__file__)
        found = {_STABLE + name: getattr(library, _STABLE + name) for name in _READS}
    except (AttributeError, OSError):
        return None
    with contextlib.suppress(AttributeError):  # a torch for CPUs
        found[_STABLE + _ASKS] = getattr(library, _STABLE + _ASKS)
    return {name: ctypes.cast(function, ctypes.c_void_p).value or 0 for name, function in found.items()}


@functools.cache
def type_words() -> Any:
    """DLPack's words for torch's types; 0 for those that kernels do not have."""
    words = (ctypes.c_uint32 * 32)()
    for number, scalar in _TYPES.items():
        words[number] = type_word(scalar)
    return words


def keys_of(tensor: Any) -> int:
    """A tensor's dispatch keys, as bits."""
    torch: Any = sys.modules["torch"]
    return torch._C._dispatch_keys(tensor).raw_repr()


def keys_word(tensor: Any) -> tuple[int, int, int, int] | None:
    """(offset, offset, mask, word): the pointer at the first offset of tensors leads to a word at the second that is the same,
    masked, for all whose memory is what they show. None where that is not known."""
    found = _place()
    if found is None:
        return None
    first, second, mask = found
    word = keys_of(tensor) & mask
    return first, second, _signed(mask), _signed(word)


def _signed(word: int) -> int:
    return word - (1 << 64) if word >> 63 else word


@functools.cache
def _place() -> tuple[int, int, int] | None:
    torch: Any = sys.modules["torch"]
    try:
        plain = torch.zeros(3, device="cpu")
        samples = [
            plain,
            torch._neg_view(plain),
            torch.zeros(2, 3, dtype=torch.int64, device="cpu"),
            torch.zeros(2, dtype=torch.complex64, device="cpu").conj(),
            torch.empty(4, device="meta"),
            torch.nn.Parameter(torch.zeros((), device="cpu")),
        ]
        with torch.inference_mode():
            samples.append(torch.zeros(1, device="cpu"))
        firsts = [_words(id(sample), _POINTERS, sample._cdata) for sample in samples]
        seconds = [_words(sample._cdata, _WORDS, keys_of(sample)) for sample in samples]
    except (AttributeError, RuntimeError, TypeError):
        return None
    first, second = set.intersection(*firsts), set.intersection(*seconds)
    if len(first) != 1 or len(second) != 1:
        return None
    of_inference = keys_of(plain) ^ keys_of(samples[-1])  # keys of derivatives, which kernels leave alone
    return first.pop(), second.pop(), ((1 << 64) - 1) & ~of_inference


def _words(address: int, count: int, word: int) -> set[int]:
    """The offsets at which a word stands among so many at an address."""
    found = (ctypes.c_uint64 * count).from_address(address)
    return {8 * k for k in range(count) if found[k] == word}
