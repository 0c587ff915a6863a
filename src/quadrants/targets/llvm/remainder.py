"""The exact remainder of floats (C's `fmod`) as LLVM text, for targets whose code generator has only an approximation."""

from __future__ import annotations

__all__ = ["remainder_text"]

# Long division of the mantissas, a bit a step: as many steps as the exponents are apart.
_TEXT = """define internal T @NAME(T %a, T %b) noinline nounwind memory(none) {
entry:
  %ia = bitcast T %a to I
  %ib = bitcast T %b to I
  %ua = and I %ia, MAGNITUDE
  %ub = and I %ib, MAGNITUDE
  %sign = xor I %ia, %ua
  %bzero = icmp eq I %ub, 0
  %bnan = icmp ugt I %ub, INFINITY
  %aodd = icmp uge I %ua, INFINITY
  %bodd = or i1 %bzero, %bnan
  %odd = or i1 %aodd, %bodd
  br i1 %odd, label %none, label %numbers
none:
  %product = fmul T %a, %b
  %nan = fdiv T %product, %product
  ret T %nan
numbers:
  %smaller = icmp ult I %ua, %ub
  br i1 %smaller, label %same, label %divide
same:
  ret T %a
divide:
  %ea0 = lshr I %ua, FRACTION
  %eb0 = lshr I %ub, FRACTION
  %asub = icmp eq I %ea0, 0
  %bsub = icmp eq I %eb0, 0
  %az = call I @llvm.ctlz.I(I %ua, i1 false)
  %bz = call I @llvm.ctlz.I(I %ub, i1 false)
  %ashift = sub I %az, SPARE
  %bshift = sub I %bz, SPARE
  %aup = shl I %ua, %ashift
  %bup = shl I %ub, %bshift
  %aesub = sub I 1, %ashift
  %besub = sub I 1, %bshift
  %afraction = and I %ua, MASK
  %bfraction = and I %ub, MASK
  %anormal = or I %afraction, ONE
  %bnormal = or I %bfraction, ONE
  %ma = select i1 %asub, I %aup, I %anormal
  %mb = select i1 %bsub, I %bup, I %bnormal
  %ea = select i1 %asub, I %aesub, I %ea0
  %eb = select i1 %bsub, I %besub, I %eb0
  br label %step
step:
  %m = phi I [ %ma, %divide ], [ %doubled, %more ]
  %e = phi I [ %ea, %divide ], [ %lower, %more ]
  %difference = sub I %m, %mb
  %less = icmp slt I %difference, 0
  %rest = select i1 %less, I %m, I %difference
  %last = icmp eq I %e, %eb
  br i1 %last, label %done, label %more
more:
  %doubled = shl I %rest, 1
  %lower = sub I %e, 1
  br label %step
done:
  %nothing = icmp eq I %rest, 0
  br i1 %nothing, label %zero, label %some
zero:
  %signed = bitcast I %sign to T
  ret T %signed
some:
  %rz = call I @llvm.ctlz.I(I %rest, i1 false)
  %rshift = sub I %rz, SPARE
  %rup = shl I %rest, %rshift
  %er = sub I %eb, %rshift
  %isnormal = icmp sgt I %er, 0
  %fraction = and I %rup, MASK
  %placed = shl I %er, FRACTION
  %normal = or I %fraction, %placed
  %down = sub I 1, %er
  %least = select i1 %isnormal, I 0, I %down
  %subnormal = lshr I %rup, %least
  %size = select i1 %isnormal, I %normal, I %subnormal
  %bits = or I %size, %sign
  %r = bitcast I %bits to T
  ret T %r
}
"""


def remainder_text(symbol: str, llvm_type: str) -> tuple[str, str]:
    """The function for `float` or `double`, and the declaration that it needs."""
    bits, fraction = (32, 23) if llvm_type == "float" else (64, 52)
    numbers = {
        "MAGNITUDE": (1 << (bits - 1)) - 1,
        "INFINITY": ((1 << (bits - 1 - fraction)) - 1) << fraction,
        "FRACTION": fraction,
        "SPARE": bits - 1 - fraction,
        "MASK": (1 << fraction) - 1,
        "ONE": 1 << fraction,
    }
    text = _TEXT.replace("NAME", symbol)
    for word, number in numbers.items():
        text = text.replace(f", {word}\n", f", {number}\n")
    integer = f"i{bits}"
    text = text.replace("T ", f"{llvm_type} ").replace(" to T\n", f" to {llvm_type}\n")
    text = text.replace(" I ", f" {integer} ").replace("(I ", f"({integer} ").replace(" I\n", f" {integer}\n")
    return text.replace(".I(", f".{integer}("), f"declare {integer} @llvm.ctlz.{integer}({integer}, i1)"
