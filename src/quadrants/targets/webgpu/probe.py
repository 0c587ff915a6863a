"""What a driver makes of floats, asked of the driver itself: by one shader, when the device is made.

WGSL promises neither that `fma` is rounded once nor that sums are not simplified as if floats were real numbers.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from quadrants.records import Record

__all__ = ["Driver", "probe"]


class Driver(Record):
    """opaque: whether results have to be hidden from the driver, which takes floats for real numbers; fused: the WGSL
    types whose `fma` is rounded once; subgroup: how many invocations side by side are a subgroup, in every shader, 0 if that is not
    sure; adds_floats: whether a sum of f32 that threads add to is one operation; updates_wide: and updates of 64-bit integers."""

    opaque: bool = False
    fused: frozenset[str] = frozenset()
    subgroup: int = 0
    adds_floats: bool = False
    updates_wide: bool = False


_HEAD = "@group(0) @binding(0) var<storage, read_write> data: array<u32>;\n"
# The numbers come from memory, so that nothing is computed when the shader is compiled.
_F32 = """  let x = bitcast<f32>(data[0]);
  let y = bitcast<f32>(data[1]);
  let one = bitcast<f32>(data[2]);
  let large = bitcast<f32>(data[3]);
  let infinity = bitcast<f32>(data[4]);
  data[8] = u32(fma(x, x, y) != 0.0f);
  data[9] = u32((large + one) - large == 0.0f);
  let nothing = infinity - infinity;
  data[10] = u32((bitcast<u32>(nothing) & 0x7fffffffu) > 0x7f800000u);
  data[11] = u32((bitcast<u32>(nothing * 0.0f) & 0x7fffffffu) > 0x7f800000u);
"""
_F64 = """  let wide = f64(one) + f64(data[6]) / 1073741824.0lf;
  data[12] = u32(fma(wide, wide, -(f64(one) + f64(data[6]) / 536870912.0lf)) != 0.0lf);
"""


_SIDE_BY_SIDE = 256
_SUBGROUPS = f"""@compute @workgroup_size({_SIDE_BY_SIDE}) fn main(@builtin(local_invocation_index) place: u32,
  @builtin(subgroup_size) size: u32, @builtin(subgroup_invocation_id) member: u32) {{
  data[2u * place] = size;
  data[2u * place + 1u] = member;
}}
"""


def probe(wgpu: Any, device: Any, has_f64: bool, may_have_subgroups: bool) -> Driver:
    """Runs shaders and waits for them. `may_have_subgroups`: their size is the same in every shader."""
    step = np.float32(2.0**-12)
    numbers = np.array([1 + step, -(1 + 2 * step), 1, 2.0**30, np.inf], np.float32).view(np.uint32)
    data = np.zeros(16, np.uint32)
    data[:5] = numbers
    data[6] = 1
    text = f"{_HEAD}@compute @workgroup_size(1) fn main() {{\n{_F32}{_F64 if has_f64 else ''}}}\n"
    found = _ran(wgpu, device, text, data)
    fused = {name for name, at in (("f32", 8), ("f64", 12)) if found[at]}
    subgroup = _subgroup(wgpu, device) if may_have_subgroups else 0
    return Driver(opaque=not found[9:12].all(), fused=frozenset(fused), subgroup=subgroup)


def _subgroup(wgpu: Any, device: Any) -> int:
    """The size of subgroups, if their members are invocations side by side and 64 at most; else 0."""
    found = _ran(wgpu, device, _HEAD + _SUBGROUPS, np.zeros(2 * _SIDE_BY_SIDE, np.uint32))
    sizes, members = found[::2], found[1::2]
    size = int(sizes[0])
    is_plain = 1 < size <= 64 and not size & (size - 1) and (sizes == size).all()
    return size if is_plain and (members == np.arange(_SIDE_BY_SIDE) % size).all() else 0


def _ran(wgpu: Any, device: Any, text: str, data: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The data behind one workgroup of a shader."""
    usage = wgpu.BufferUsage
    buffer = device.create_buffer_with_data(data=data.tobytes(), usage=usage.STORAGE | usage.COPY_SRC)
    pipeline = device.create_compute_pipeline(
        layout="auto", compute={"module": device.create_shader_module(code=text), "entry_point": "main"}
    )
    entries = [{"binding": 0, "resource": {"buffer": buffer, "offset": 0, "size": buffer.size}}]
    group = device.create_bind_group(layout=pipeline.get_bind_group_layout(0), entries=entries)
    encoder = device.create_command_encoder()
    work = encoder.begin_compute_pass()
    work.set_pipeline(pipeline)
    work.set_bind_group(0, group)
    work.dispatch_workgroups(1)
    work.end()
    device.queue.submit([encoder.finish()])
    return np.frombuffer(device.queue.read_buffer(buffer), np.uint32)
