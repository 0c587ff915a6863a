"""Operations that take more than a few instructions, as functions of LLVM text private to the module that uses them.

Each entry is a template over the LLVM type. They are defined once a module and inlined where LLVM finds that good.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from quadrants.ir.types import ScalarType
from quadrants.targets.llvm.remainder import remainder_text
from quadrants.targets.llvm.scalars import register_type

if TYPE_CHECKING:
    from quadrants.targets.llvm.writer import Unit, Writer

__all__ = ["call_helper"]

# Remainder and floor of a float division, bit for bit as Python and NumPy define them by `fmod`. While the quotient is
# so small that its rounding errs by less than an eighth, the remainder from the nearest whole quotient is exact (one
# fused multiply-add); everything else (large quotients, infinities, zero divisors, NaN) takes `frem`.
_NEAR_QUOTIENT = """
entry:
  %exact = fdiv T %a, %b
  %nearest = call T @llvm.roundeven.S(T %exact)
  %size = call T @llvm.fabs.S(T %exact)
  %divisor = call T @llvm.fabs.S(T %b)
  %small = fcmp olt T %size, LIMIT
  %finite = fcmp olt T %divisor, 0x7FF0000000000000
  %near = and i1 %small, %finite
  br i1 %near, label %fast, label %slow
fast:
  %minus = fneg T %nearest
  %close = call T @llvm.fma.S(T %minus, T %b, T %a)
  %cb = fcmp olt T %close, 0.0
  %bb = fcmp olt T %b, 0.0
  %cz = fcmp une T %close, 0.0
  %cd = xor i1 %cb, %bb
  %cw = and i1 %cd, %cz
"""
_FLOAT_MOD = (
    "define internal T @NAME(T %a, T %b) alwaysinline nounwind memory(none) {"
    + _NEAR_QUOTIENT
    + """
  br label %join
slow:
  %far = frem T %a, %b
  %fb = fcmp olt T %far, 0.0
  %sb = fcmp olt T %b, 0.0
  %fz = fcmp une T %far, 0.0
  %fd = xor i1 %fb, %sb
  %fw = and i1 %fd, %fz
  br label %join
join:
  %m = phi T [ %close, %fast ], [ %far, %slow ]
  %wrong = phi i1 [ %cw, %fast ], [ %fw, %slow ]
  %moved = fadd T %m, %b
  %fixed = select i1 %wrong, T %moved, T %m
  %iszero = fcmp oeq T %m, 0.0
  %zero = call T @llvm.copysign.S(T 0.0, T %b)
  %r = select i1 %iszero, T %zero, T %fixed
  ret T %r
}
"""
)
_FLOAT_FLOORDIV = (
    "define internal T @NAME(T %a, T %b) alwaysinline nounwind memory(none) {"
    + _NEAR_QUOTIENT
    + """
  %below = fadd T %nearest, -1.0
  %quick = select i1 %cw, T %below, T %nearest
  br label %join
slow:
  %m = frem T %a, %b
  %whole = fsub T %a, %m
  %div = fdiv T %whole, %b
  %mb = fcmp olt T %m, 0.0
  %sb = fcmp olt T %b, 0.0
  %mz = fcmp une T %m, 0.0
  %md = xor i1 %mb, %sb
  %mw = and i1 %md, %mz
  %lower = fadd T %div, -1.0
  %d = select i1 %mw, T %lower, T %div
  %floor = call T @llvm.floor.S(T %d)
  %rest = fsub T %d, %floor
  %up = fcmp ogt T %rest, 0.5
  %above = fadd T %floor, 1.0
  %f = select i1 %up, T %above, T %floor
  %bzero = fcmp oeq T %b, 0.0
  %far = select i1 %bzero, T %exact, T %f
  br label %join
join:
  %q = phi T [ %quick, %fast ], [ %far, %slow ]
  %iszero = fcmp oeq T %q, 0.0
  %zero = call T @llvm.copysign.S(T 0.0, T %exact)
  %r = select i1 %iszero, T %zero, T %q
  ret T %r
}
"""
)
# Powers of integers by squaring; a negative exponent gives 1 / (a ** -b) truncated.
_INTEGER_POWER = """define internal T @NAME(T %a, T %b) nounwind memory(none) {
entry:
  %negative = icmp slt T %b, 0
  %signed = and i1 %negative, SIGNED
  br i1 %signed, label %inverse, label %loop
inverse:
  %odd = trunc T %b to i1
  %isone = icmp eq T %a, 1
  %isminus = icmp eq T %a, -1
  %turned = select i1 %odd, T -1, T 1
  %unit = select i1 %isminus, T %turned, T 0
  %inverted = select i1 %isone, T 1, T %unit
  ret T %inverted
loop:
  %power = phi T [ 1, %entry ], [ %grown, %body ]
  %base = phi T [ %a, %entry ], [ %square, %body ]
  %left = phi T [ %b, %entry ], [ %half, %body ]
  %more = icmp ne T %left, 0
  br i1 %more, label %body, label %done
body:
  %bit = trunc T %left to i1
  %product = mul T %power, %base
  %grown = select i1 %bit, T %product, T %power
  %square = mul T %base, %base
  %half = lshr T %left, 1
  br label %loop
done:
  ret T %power
}
"""
# The nearest bf16 as a float, halves to even; NaN is the quiet one.
_ROUND_BF16 = """define internal float @NAME(float %a) alwaysinline nounwind memory(none) {
entry:
  %bits = bitcast float %a to i32
  %shifted = lshr i32 %bits, 16
  %last = and i32 %shifted, 1
  %half = add i32 %last, 32767
  %sum = add i32 %bits, %half
  %high = and i32 %sum, -65536
  %number = bitcast i32 %high to float
  %isnan = fcmp uno float %a, 0.0
  %r = select i1 %isnan, float 0x7FF8000000000000, float %number
  ret float %r
}
"""
# A double to float, rounded to odd, so that rounding the float to half once more gives the half nearest to the double.
_DOUBLE_TO_ODD = """define internal float @NAME(double %a) alwaysinline nounwind memory(none) {
entry:
  %near = fptrunc double %a to float
  %back = fpext float %near to double
  %inexact = fcmp one double %back, %a
  %size = call double @llvm.fabs.f64(double %a)
  %backsize = call double @llvm.fabs.f64(double %back)
  %larger = fcmp ogt double %backsize, %size
  %bits = bitcast float %near to i32
  %down = zext i1 %larger to i32
  %lower = sub i32 %bits, %down
  %odd = zext i1 %inexact to i32
  %result = or i32 %lower, %odd
  %r = bitcast i32 %result to float
  ret float %r
}
"""

_TEMPLATES = {
    "float_mod": (_FLOAT_MOD, ("roundeven", "fabs", "fma", "copysign")),
    "float_floordiv": (_FLOAT_FLOORDIV, ("roundeven", "fabs", "fma", "copysign", "floor")),
    "integer_power": (_INTEGER_POWER, ()),
    "round_bf16": (_ROUND_BF16, ()),
    "double_to_odd": (_DOUBLE_TO_ODD, ("fabs",)),
}
_FLOATS = {"float": ("f32", "0x4140000000000000"), "double": ("f64", "0x4310000000000000")}  # 2**21, 2**50


def call_helper(writer: Writer, helper: str, scalar: ScalarType, *operands: str) -> str:
    """Calls a helper on operands of `scalar`'s register type; it is defined in the unit at its first use."""
    unit = writer.unit
    llvm_type = register_type(scalar)
    suffix, limit = _FLOATS.get(llvm_type, (scalar.name, ""))
    symbol = f"qd.{helper}.{suffix}"
    if symbol not in unit.declarations:
        template, intrinsics = _TEMPLATES[helper]
        for stem in intrinsics:
            parameters = ", ".join([llvm_type] * {"fma": 3, "copysign": 2}.get(stem, 1))
            unit.declare(f"llvm.{stem}.{suffix}", f"declare {llvm_type} @llvm.{stem}.{suffix}({parameters})")
        if "frem" in template and not writer.program.record.exact_remainder:
            template = template.replace("frem T %a", f"call T @{_remainder(unit, llvm_type)}(T %a")
            template = template.replace("(T %a, %b\n", "(T %a, T %b)\n")
        signed = "true" if scalar.is_signed else "false"
        text = template.replace("NAME", symbol).replace("LIMIT", limit).replace("SIGNED", signed)
        unit.declare(symbol, text.replace("T ", f"{llvm_type} ").replace(".S(", f".{suffix}("))
    arguments = ", ".join([f"{llvm_type} {operand}" for operand in operands])
    result = "float" if helper in ("round_bf16", "double_to_odd") else llvm_type
    return writer.assign(f"call {result} @{symbol}({arguments})")


def _remainder(unit: Unit, llvm_type: str) -> str:
    """The symbol of the exact remainder, which the unit defines."""
    symbol = f"qd.remainder.{llvm_type}"
    text, needed = remainder_text(symbol, llvm_type)
    integer = "i32" if llvm_type == "float" else "i64"
    unit.declare(f"llvm.ctlz.{integer}", needed)
    unit.declare(symbol, text)
    return symbol
