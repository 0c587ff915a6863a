"""Names of Taichi's family that this release lacks, and what does their work here: for the errors of those who ask for them."""

from __future__ import annotations

__all__ = ["absent"]

_STRUCTS = "objects of Python's dataclasses are made, passed and changed in kernels; a field for each member holds many of them"
_SPARSE = "fields are dense; an array of flags, or a list of the cells that are used, tells which ones count"
_GRADIENTS = "kernels are not differentiated in this release; dual numbers, as a dataclass with operators, give derivatives forwards"
_SOLVERS = (
    "sparse matrices are arrays of starts, columns and values, which kernels loop over; qd.solve is for small systems"
)
_MESHES = "a mesh is arrays of indices, which kernels loop over"
_INSTEAD = {
    **dict.fromkeys(("Struct", "StructField", "dataclass", "struct"), _STRUCTS),
    **dict.fromkeys(("activate", "append", "deactivate", "deactivate_all_snodes", "is_active", "length"), _SPARSE),
    **dict.fromkeys(("get_addr", "rescale_index", "sparse"), _SPARSE),
    **dict.fromkeys(("ad", "stop_grad"), _GRADIENTS),
    **dict.fromkeys(("linalg", "sparse_matrix_builder"), _SOLVERS),
    **dict.fromkeys(("Mesh", "MeshInstance", "mesh_local", "mesh_patch_idx"), _MESHES),
    **dict.fromkeys(
        ("BitpackedFields", "quant"), "numbers of 8 and 16 bits are the narrowest; kernels pack others by shifts"
    ),
    **dict.fromkeys(
        ("real_func", "experimental", "ref", "pure"), "every function that is called is compiled once, as @qd.func is"
    ),
    "perf_dispatch": "time the variants from Python",
    "tools": "write pictures and meshes from arrays, by to_numpy()",
}


def absent(module: str, name: str) -> AttributeError:
    """What is raised for a name that a module of ours does not have."""
    instead = _INSTEAD.get(name)
    hint = f" in this release: {instead}" if instead else ""
    return AttributeError(f"module '{module}' has no attribute '{name}'{hint}")
