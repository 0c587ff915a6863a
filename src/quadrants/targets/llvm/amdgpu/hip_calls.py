"""The functions of HIP that are called, with their parameters as C has them: what does not fit is an error of Python's.

Tests compare them with HIP's header (tests/amdgpu/test_hip_header.py). What is asked for by number is the same in ROCm 5 to 7.
"""

from __future__ import annotations

import ctypes
from typing import Any

__all__ = ["CONSTANTS", "PARAMETERS", "PROPERTIES", "declare"]

_POINTER, _TEXT, _SIZE, _NUMBER, _SIGNED = (
    ctypes.c_void_p,
    ctypes.c_char_p,
    ctypes.c_size_t,
    ctypes.c_uint,
    ctypes.c_int,
)
PROPERTIES = ("hipGetDevicePropertiesR0600", "hipGetDeviceProperties")
"""What ROCm 6 and newer call it, and older ones: the structure has another layout, and the newer name is of no older library."""
PARAMETERS: dict[str, tuple[Any, ...]] = {
    **dict.fromkeys(PROPERTIES, (_POINTER, _SIGNED)),
    "hipGetDeviceCount": (_POINTER,),
    "hipSetDevice": (_SIGNED,),
    "hipDeviceGetAttribute": (_POINTER, _SIGNED, _SIGNED),
    "hipGetErrorString": (_SIGNED,),
    "hipMalloc": (_POINTER, _SIZE),
    "hipFree": (_POINTER,),
    "hipMemcpy": (_POINTER, _POINTER, _SIZE, _SIGNED),
    "hipModuleLoadData": (_POINTER, _POINTER),
    "hipModuleGetFunction": (_POINTER, _POINTER, _TEXT),
    "hipModuleGetGlobal": (_POINTER, _POINTER, _POINTER, _TEXT),
    "hipModuleLaunchKernel": (_POINTER, *[_NUMBER] * 7, _POINTER, _POINTER, _POINTER),
    "hipStreamSynchronize": (_POINTER,),
    "hipEventCreateWithFlags": (_POINTER, _NUMBER),
    "hipEventRecord": (_POINTER, _POINTER),
    "hipEventSynchronize": (_POINTER,),
    "hipEventElapsedTime": (_POINTER, _POINTER, _POINTER),
    "hipEventDestroy": (_POINTER,),
}
CONSTANTS = {
    "hipErrorOutOfMemory": 2,
    "hipDeviceAttributeMultiprocessorCount": 63,
    "hipMemcpyHostToDevice": 1,
    "hipMemcpyDeviceToHost": 2,
    "hipEventDefault": 0,
    "hipEventDisableTiming": 2,
}


def declare(library: Any) -> Any:
    """Tells a library its functions' parameters and results; those that it lacks are missed when they are called."""
    for name, types in PARAMETERS.items():
        function = getattr(library, name, None)
        if function is not None:
            function.argtypes, function.restype = types, ctypes.c_int
    library.hipGetErrorString.restype = ctypes.c_char_p
    return library
