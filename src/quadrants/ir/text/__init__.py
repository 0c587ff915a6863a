"""The text form of the IR: lossless, versioned, and what dumps, bug reports and tests speak.

    quadrants-ir 1
    stage kernel
    kernel @saxpy(%y: array<f32, 1, C>, %a: f32, %x: array<f32, 1, C>) {
      %0 = constant 0 : i64
      %n = dim %y, 0 : i64
      for %i in %0 .. %n {  // saxpy.py:6:4
        %1 = load %x[%i] : f32
        %2 = mul %a, %1 : f32
        %3 = update add %2, %y[%i] : f32
      }
    }

Laws: `print_module(parse_module(text)) == text` for every text that `print_module` gives; an empty `yield` or `return`
at a region's end is not written (and takes the location of the operation that owns the region); attributes whose names
begin with an underscore are a pass's own notes and are not written.
"""

from __future__ import annotations

from quadrants.ir.text.parser import IRSyntaxError, parse_module
from quadrants.ir.text.printer import print_function, print_module, print_op

__all__ = ["IRSyntaxError", "parse_module", "print_function", "print_module", "print_op"]
