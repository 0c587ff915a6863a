"""Products of matrices as nests of loops, for the passes that know them: TYPE, STEP and BODY are put in."""

from __future__ import annotations

from quadrants.ir.nodes import Module
from quadrants.ir.text import parse_module
from quadrants.ir.verify import verify

__all__ = ["CARRIED", "KERNEL", "PRODUCT", "UPDATED", "module_of"]

KERNEL = """quadrants-ir 1
stage lowered
kernel @f(%a: array<TYPE, 2, C>, %b: array<TYPE, 2, A>, %c: array<TYPE, 2, C>) {
  %m = dim %c, 0 : i64
  %n = dim %c, 1 : i64
  %d = dim %a, 1 : i64
  %0 = constant 0 : i64
  %z = constant 3 : TYPE
BODY
}
"""
PRODUCT = """%x = load %a[%i, %k] : TYPE
  %y = load %b[%k, %j] : TYPE
  %p = mul %x, %y : TYPE"""
CARRIED = f"""parallel for %i, %j in %0 .. %m, %0 .. %n {{
  %s = for %k in %0 .. %d carry (%t = %z) : TYPE {{
    {PRODUCT}
    %u = STEP %t, %p {{reassociate = True}} : TYPE
    yield %u
  }}
  %old = load %c[%i, %j] : TYPE
  %new = sub %s, %old : TYPE
  store %new, %c[%i, %j]
}}"""
UPDATED = """parallel for %i in %0 .. %m {
  for %k in %0 .. %d {
    %x = load %a[%i, %k] : TYPE
    for %j in %0 .. %n {
      %y = load %b[%k, %j] : TYPE
      %p = mul %y, %x : TYPE
      %o = update STEP %p, %c[%i, %j] : TYPE
    }
  }
}"""


def module_of(form: str, step: str = "add", scalar: str = "f64") -> Module:
    start = "3.0" if scalar[0] == "f" else "3"
    text = KERNEL.replace("BODY", form).replace("constant 3", f"constant {start}")
    module = parse_module(text.replace("TYPE", scalar).replace("STEP", step))
    verify(module)
    return module
