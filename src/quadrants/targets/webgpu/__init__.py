"""Vulkan, Metal and D3D12 through WebGPU: one emitter of WGSL, run by `wgpu`."""
