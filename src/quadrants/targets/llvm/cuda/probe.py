"""Whether a GPU's warpgroups multiply matrices in shared memory as the contract in `shared_products.py` says: asked of it before
a process compiles or restores the first kernel that has them do so (`NvidiaDriver.warpgroups`).

One small product for each form that kernels take, of whole numbers, so that nothing is rounded: `wgmma`, `mma.sync` and NumPy give the
same. The text is PTX as it is: a start from the cache loads no LLVM for it.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

import numpy as np

from quadrants.errors import QuadrantsRuntimeError
from quadrants.ir.shared_fragments import CORE, LINE_BYTES, ROWS, TEAM, Factor, places_of_sums
from quadrants.records import Record
from quadrants.targets.llvm.cuda.shared_products import descriptor_offsets, descriptor_step, product_lines
from quadrants.targets.llvm.device_driver import LaunchDriver, Loaded

__all__ = ["objection", "probe_text"]

_DEPTH_BYTES = 64
"""The depth, which two instructions take."""
_ROOM = 40 << 10
"""Bytes of shared memory: a GPU that takes the two offsets for one another reads nothing beyond, of 64 columns."""


class _Form(Record):
    """A kind of factors, whether lines of the left and of the right one are along the width, and how many columns there are."""

    kind: str
    left: bool
    right: bool
    columns: int = ROWS

    @property
    def name(self) -> str:
        return f"{self.kind}_{'wd'[not self.left]}{'wd'[not self.right]}_{self.columns}"

    @property
    def given(self) -> int:
        """Bytes of both factors."""
        return (ROWS + self.columns) * _DEPTH_BYTES

    @property
    def taken(self) -> int:
        """Bytes of the sums."""
        return 4 * ROWS * self.columns

    @property
    def line(self) -> int:
        return 4 if self.kind == "tf32" else 8

    def factor(self, along_width: bool, width: int) -> Factor:
        return Factor(self.line, along_width, width, 4 * self.line)


_FORMS = [_Form(kind, left, right) for kind in ("f16", "bf16") for left in (False, True) for right in (False, True)]
_FORMS.append(_Form("tf32", False, False))
_WIDE = [_Form("f16", False, True, 256), _Form("bf16", True, False, 256)]
"""What is asked where the others are right: the most columns that there are."""


def objection(driver: LaunchDriver) -> str:
    """What speaks against products by warpgroups on a driver's GPU: '' where they are right. Waits for it."""
    try:
        return _compared(driver)
    except (QuadrantsRuntimeError, MemoryError) as error:
        if driver.is_lost:
            told = (
                f"{error}\n  this came of asking the GPU whether its warpgroups multiply: QD_WARPGROUPS=0 does not ask"
            )
            raise QuadrantsRuntimeError(told) from None
        return str(error)


def _compared(driver: LaunchDriver) -> str:
    loaded = driver.load(probe_text())
    for forms in (_FORMS, _WIDE):
        checks = [_ask(driver, loaded, number, form) for number, form in enumerate(forms)]
        wrong = [form.name for form, check in zip(forms, checks) if not check()]
        if wrong:
            return f"its products are wrong ({', '.join(wrong)})"
    return ""


def _ask(driver: LaunchDriver, loaded: Loaded, seed: int, form: _Form) -> Callable[[], bool]:
    """Launches a form's kernel; what is given waits for it, and says whether its sums are right."""
    left, right = _numbers(seed, form, ROWS), _numbers(seed + 100, form, form.columns)
    given, taken = driver.allocate(form.given), driver.allocate(form.taken)
    given.write(0, _picture(form, left, form.left) + _picture(form, right, form.right))
    driver.launch(loaded.kernel(form.name), 1, TEAM, struct.pack("<2Q", given.address, taken.address))

    def check() -> bool:
        assert given.size  # the kernel may still read it
        sums: Any = np.frombuffer(taken.read(0, form.taken), np.float32).reshape(TEAM, -1)
        rows, columns = places_of_sums(form.columns)
        return bool((sums == (left @ right.T)[rows, columns]).all())

    return check


def _numbers(seed: int, form: _Form, width: int) -> Any:
    """Whole numbers by width and depth, whose products' sums are exact in f32."""
    return np.random.default_rng(seed).integers(-8, 9, (width, 4 * form.line)).astype(np.float32)


def _picture(form: _Form, matrix: Any, along_width: bool) -> bytes:
    """A factor as shared memory holds it."""
    if form.kind == "f16":
        held = matrix.astype(np.float16)
    else:
        held = matrix if form.kind == "tf32" else (matrix.view(np.uint32) >> 16).astype(np.uint16)
    line, (width, depth) = form.line, matrix.shape
    if along_width:
        cores = held.reshape(width // line, line, depth // CORE, CORE).transpose(2, 0, 3, 1)
    else:
        cores = held.reshape(width // CORE, CORE, depth // line, line).transpose(2, 0, 1, 3)
    return cores.tobytes()


_KERNEL = """.visible .entry NAME(
	.param .align 8 .b8 NAME_param_0[16]
)
.maxntid 128, 1, 1
{
	.reg .pred %p<1>;
	.reg .b32 %w<4>;
	.reg .b32 %s<SUMS>;
	.reg .b32 %t;
	.reg .b64 %from;
	.reg .b64 %to;
	.reg .b64 %at;
	.reg .b64 %a<2>;
	.reg .b64 %b<2>;
	.shared .align 128 .b8 NAME_memory[ROOM];
	mov.u32 %t, %tid.x;
	ld.param.b64 %from, [NAME_param_0];
	ld.param.b64 %to, [NAME_param_0+8];
	cvta.to.global.u64 %from, %from;
	cvta.to.global.u64 %to, %to;
	mov.b64 %at, NAME_memory;
	shr.u64 %a0, %at, 4;
	and.b64 %a0, %a0, 16383;
	add.s64 %b0, %a0, RIGHT;
	add.s64 %a0, %a0, LEFT;
	add.s64 %a1, %a0, LEFT_STEP;
	add.s64 %b1, %b0, RIGHT_STEP;
	mad.wide.u32 %from, %t, 16, %from;
	mad.wide.u32 %at, %t, 16, %at;
	mad.wide.u32 %to, %t, OWN, %to;
	COPY
	fence.proxy.async.shared::cta;
	bar.sync 0;
	mov.pred %p0, 1;
	ZEROS
	PRODUCTS
	STORES
	ret;
}
"""


def probe_text() -> str:
    """The module: a kernel for each form, of one block, which copies two factors and multiplies them."""
    head = ".version 8.1\n.target sm_90a\n.address_size 64\n"
    return head + "".join([_kernel(form) for form in (*_FORMS, *_WIDE)])


def _kernel(form: _Form) -> str:
    words = "{%w0, %w1, %w2, %w3}"
    step = TEAM * LINE_BYTES
    copy = [
        line
        for at in range(0, form.given, step)
        for line in (f"ld.global.v4.b32 {words}, [%from+{at}];", f"st.shared.v4.b32 [%at+{at}], {words};")
    ]
    sums = [f"%s{k}" for k in range(form.columns // 2)]
    flags = "" if form.kind == "tf32" else f", {int(form.left)}, {int(form.right)}"
    left, right = form.factor(form.left, ROWS), form.factor(form.right, form.columns)
    pairs = [("%a0", "%b0"), ("%a1", "%b1")]
    replaced = {
        "LEFT_STEP": str(descriptor_step(left)),
        "RIGHT_STEP": str(descriptor_step(right)),
        "LEFT": str(descriptor_offsets(left)),
        "RIGHT": str(descriptor_offsets(right) + ROWS * _DEPTH_BYTES // LINE_BYTES),
        "COPY": "\n\t".join(copy),
        "ZEROS": "\n\t".join([f"mov.b32 {name}, 0;" for name in sums]),
        "PRODUCTS": "\n\t".join(product_lines(form.kind, form.columns, sums, pairs, "%p0", flags)),
        "STORES": "\n\t".join([f"st.global.b32 [%to+{4 * k}], {name};" for k, name in enumerate(sums)]),
        "OWN": str(4 * len(sums)),
        "SUMS": str(len(sums)),
        "ROOM": str(_ROOM),
        "NAME": form.name,
    }
    text = _KERNEL
    for word, value in replaced.items():
        text = text.replace(word, value)
    return text
