"""The tree of `qd.root` and `qd.FieldsBuilder`: how fields without a shape get one. Dense nodes only."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from typing import Any

import numpy as np

from quadrants import knobs
from quadrants.errors import QuadrantsRuntimeError
from quadrants.lang.field import Field, normalised_offset

__all__ = ["Axis", "FieldsBuilder", "SNode", "SNodeTree", "axes", "root"]

_LARGEST_AXIS = 12


class Axis:
    """One index axis of fields; `qd.i` is the first."""

    __slots__ = ("id",)

    def __init__(self, number: int) -> None:
        self.id = number

    def __repr__(self) -> str:
        return f"axis {'ijkl'[self.id] if self.id < 4 else self.id}"


_AXES = tuple(map(Axis, range(_LARGEST_AXIS)))


def axes(*numbers: int) -> list[Axis]:
    """The axes of these numbers (0 to 11), for `dense`."""
    return [_AXES[number] for number in numbers]


class SNode:
    """A node of the tree: a range along some axes. `dense` makes a node below, `place` puts fields into it."""

    def __init__(self, parent: SNode | None, kind: str, sizes: dict[int, int], builder: FieldsBuilder) -> None:
        self._parent = parent
        self._kind = kind
        self._sizes = sizes
        self._builder = builder

    def dense(self, axes: Any, dimensions: Any) -> SNode:
        """A node of `dimensions` (an int or one int per axis) along `axes`; sizes of nested nodes multiply per axis.
        QuadrantsRuntimeError for sizes that are not positive or do not fit the axes."""
        self._builder._require_open()
        chosen = list(axes) if isinstance(axes, Iterable) else [axes]
        given = [dimensions] * len(chosen) if isinstance(dimensions, (int, np.integer)) else list(dimensions)
        if len(given) != len(chosen) or not all(isinstance(axis, Axis) for axis in chosen):
            raise QuadrantsRuntimeError(f"{len(chosen)} axes cannot take the sizes {dimensions}")
        if any(size <= 0 for size in given):
            raise QuadrantsRuntimeError(f"Every dimension of a node should be positive, not {dimensions}")
        sizes = dict(self._sizes)
        for axis, size in zip(chosen, given):
            sizes[axis.id] = sizes.get(axis.id, 1) * int(size)
        return SNode(self, "dense", sizes, self._builder)

    def place(self, *args: Any, offset: Any = None) -> SNode:
        """Give fields (or lists of them) this node's shape; `offset` is the smallest index per axis. ValueError for
        what is no field, QuadrantsRuntimeError for a field that has a shape already."""
        self._builder._require_open()
        for entry in args:
            if isinstance(entry, (list, tuple)):
                self.place(*entry, offset=offset)
            elif isinstance(entry, Field):
                self._place_one(entry, offset)
            else:
                raise ValueError(f"place takes fields, not {type(entry).__name__}")
        return self

    def _place_one(self, field: Field, offset: Any) -> None:
        if field._shape is not None:
            raise QuadrantsRuntimeError(f"field {field._name or '(no name)'} already has the shape {field._shape}")
        shape = self.shape
        field._set_shape(shape, None, normalised_offset(offset, len(shape)))
        field._snode = SNode(self, "place", self._sizes, self._builder)
        self._builder._fields.append(field)
        for role in field._parameters:
            field._place_twin(role)

    def parent(self, n: int = 1) -> SNode:
        """The node `n` levels above; QuadrantsRuntimeError above the root."""
        node = self
        for _ in range(n):
            if node._parent is None:
                raise QuadrantsRuntimeError("qd.root has no parent")
            node = node._parent
        return node

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of fields placed here: the sizes of the axes that occur, in the order of the axes."""
        return tuple(self._sizes[axis] for axis in sorted(self._sizes))

    def lazy_grad(self) -> None:
        """Allocate `.grad` of every real field placed in this tree."""
        self._builder.lazy_grad()

    def lazy_dual(self) -> None:
        """Allocate `.dual` of every real field placed in this tree."""
        self._builder.lazy_dual()

    def pointer(self, *args: Any, **options: Any) -> SNode:
        """Sparse nodes are not supported: QuadrantsRuntimeError."""
        raise _sparse("pointer")

    def bitmasked(self, *args: Any, **options: Any) -> SNode:
        """Sparse nodes are not supported: QuadrantsRuntimeError."""
        raise _sparse("bitmasked")

    def dynamic(self, *args: Any, **options: Any) -> SNode:
        """Sparse nodes are not supported: QuadrantsRuntimeError."""
        raise _sparse("dynamic")

    def quant_array(self, *args: Any, **options: Any) -> SNode:
        """Quantised nodes are not supported: QuadrantsRuntimeError."""
        raise _sparse("quant_array")

    def deactivate_all(self) -> None:
        """Only sparse nodes can be deactivated: QuadrantsRuntimeError."""
        raise QuadrantsRuntimeError("dense nodes cannot be deactivated: use field.fill(0)")

    def __str__(self) -> str:
        if self._parent is None:
            return "qd.root"
        above = f"{self._parent} => "
        return f"{above}{self._kind}" if self._kind == "place" else f"{above}{self._kind} {list(self.shape)}"

    __repr__ = __str__


def _sparse(kind: str) -> QuadrantsRuntimeError:
    return QuadrantsRuntimeError(f"{kind} nodes are not supported: use dense, whose memory is committed when touched")


class SNodeTree:
    """A finished tree of `FieldsBuilder.finalize`."""

    _count = 0

    def __init__(self, fields: list[Field]) -> None:
        self._fields = fields
        self.id = SNodeTree._count
        SNodeTree._count += 1

    def destroy(self) -> None:
        """Free all fields of the tree: later uses raise QuadrantsRuntimeError."""
        for field in self._fields:
            for freed in (field, field.__dict__.get("grad"), field.__dict__.get("dual")):
                if freed is not None:
                    freed._free()


class FieldsBuilder:
    """A tree of its own for fields that are made together: `dense(...).place(...)`, then `finalize()`."""

    def __init__(self) -> None:
        self._finalized = False
        self._fields: list[Field] = []
        self._top = SNode(None, "root", {}, self)

    def _require_open(self) -> None:
        if self._finalized:
            raise QuadrantsRuntimeError("FieldsBuilder finalized")

    def dense(self, indices: Any, dimensions: Any) -> SNode:
        """A node under the root; see SNode.dense."""
        return self._top.dense(indices, dimensions)

    def place(self, *args: Any, offset: Any = None) -> SNode:
        """Make the fields 0-D; see SNode.place."""
        return self._top.place(*args, offset=offset)

    def pointer(self, *args: Any, **options: Any) -> SNode:
        """Sparse nodes are not supported: QuadrantsRuntimeError."""
        raise _sparse("pointer")

    def bitmasked(self, *args: Any, **options: Any) -> SNode:
        """Sparse nodes are not supported: QuadrantsRuntimeError."""
        raise _sparse("bitmasked")

    def dynamic(self, *args: Any, **options: Any) -> SNode:
        """Sparse nodes are not supported: QuadrantsRuntimeError."""
        raise _sparse("dynamic")

    def quant_array(self, *args: Any, **options: Any) -> SNode:
        """Quantised nodes are not supported: QuadrantsRuntimeError."""
        raise _sparse("quant_array")

    def deactivate_all(self) -> None:
        """Only sparse nodes can be deactivated: QuadrantsRuntimeError."""
        self._top.deactivate_all()

    def lazy_grad(self) -> None:
        """Allocate `.grad` of every real field placed so far."""
        self._twins("grad")

    def lazy_dual(self) -> None:
        """Allocate `.dual` of every real field placed so far."""
        self._twins("dual")

    def _twins(self, role: str) -> None:
        own = {id(field.__dict__.get(name)) for field in self._fields for name in ("grad", "dual")}
        for field in self._fields:
            if field._scalar.is_float and id(field) not in own:
                field._place_twin(role)

    def finalize(self, raise_warning: bool = True) -> SNodeTree:
        """Close the builder and allocate its fields; warns if there are none and `raise_warning`."""
        self._require_open()
        self._finalized = True
        if not self._fields and raise_warning:
            warnings.warn("finalizing a FieldsBuilder without fields", stacklevel=2)
        for field in self._fields:
            field._place()
        return SNodeTree(self._fields)


class _Root(FieldsBuilder):
    """The tree of `qd.root`: fields are placed at their first use, so it is never finalized; emptied by `qd.reset`."""

    def finalize(self, raise_warning: bool = True) -> SNodeTree:
        """QuadrantsRuntimeError: qd.root stays open."""
        raise QuadrantsRuntimeError("qd.root is not finalized by hand: fields are allocated at their first use")

    @property
    def shape(self) -> tuple[int, ...]:
        """()."""
        return ()

    def parent(self, n: int = 1) -> SNode:
        """QuadrantsRuntimeError: the root is the top."""
        return self._top.parent(n)

    def __str__(self) -> str:
        return "qd.root"

    __repr__ = __str__


root = _Root()


@knobs.on_reset
def _clear_root() -> None:
    root.__init__()


def leaf_of(field: Field) -> SNode:
    """The node of a field's own place; a field with a shape of its own sits in a dense node under the root."""
    if field._snode is None:
        sizes = dict(enumerate(field.shape))
        dense = SNode(root._top, "dense", sizes, root) if sizes else root._top
        field._snode = SNode(dense, "place", sizes, root)
    return field._snode
