"""Functions of WGSL for what takes more than an expression, with the language's meaning: floors, saturation, NaN, wrapping.

Each is a template; `{T}` is the type that holds the number. A module has those that it calls, and what these call.
"""

from __future__ import annotations

import re

from quadrants.ir.types import ScalarType
from quadrants.targets.webgpu.scalars import register

__all__ = ["HELPERS", "cast_helper", "texts_of"]

_FLOATS = {
    "f32": {
        "T": "f32",
        "U": "u32",
        "u": "u",
        "f": "f",
        "sign": "0x80000000u",
        "size": "0x7fffffffu",
        "inf": "0x7f800000u",
        "mantissa": "23u",
        "fraction": "0x7fffffu",
        "hidden": "0x800000u",
        "split": "4097.0f",
        "huge": "1.0e30f",
    },
    "f64": {
        "T": "f64",
        "U": "u64",
        "u": "lu",
        "f": "lf",
        "sign": "0x8000000000000000lu",
        "size": "0x7ffffffffffffffflu",
        "inf": "0x7ff0000000000000lu",
        "mantissa": "52u",
        "fraction": "0xffffffffffffflu",
        "hidden": "0x10000000000000lu",
        "split": "134217729.0lf",
        "huge": "1.0e290lf",
    },
}
_INTEGERS = {
    name: {"T": name, "u": {"i32": "i", "u32": "u", "i64": "li", "u64": "lu"}[name]}
    for name in ("i32", "u32", "i64", "u64")
}

_FLOAT_TEMPLATES = {
    "is_nan": "fn is_nan_@T@(x: @T@) -> bool { return (bitcast<@U@>(x) & @size@) > @inf@; }",
    "is_inf": "fn is_inf_@T@(x: @T@) -> bool { return (bitcast<@U@>(x) & @size@) == @inf@; }",
    "copysign": "fn copysign_@T@(x: @T@, s: @T@) -> @T@ {"
    " return bitcast<@T@>((bitcast<@U@>(x) & @size@) | (bitcast<@U@>(s) & @sign@)); }",
    "min": "fn min_@T@(a: @T@, b: @T@) -> @T@ {"
    " if (is_nan_@T@(a)) { return b; } if (is_nan_@T@(b)) { return a; } return select(b, a, a < b); }",
    "max": "fn max_@T@(a: @T@, b: @T@) -> @T@ {"
    " if (is_nan_@T@(a)) { return b; } if (is_nan_@T@(b)) { return a; } return select(b, a, a > b); }",
    "sign": "fn sign_@T@(x: @T@) -> @T@ { if (x > 0.0@f@) { return 1.0@f@; } if (x < 0.0@f@) { return -1.0@f@; }"
    " return select(x, 0.0@f@, x == 0.0@f@); }",
    "trunc": "fn trunc_@T@(x: @T@) -> @T@ { return copysign_@T@(trunc(x), x); }",
    "round": "fn round_@T@(x: @T@) -> @T@ { return copysign_@T@(round(x), x); }",
    "floor": "fn floor_@T@(x: @T@) -> @T@ { let r = floor(x); return select(r, x, x == 0.0@f@); }",
    "ceil": "fn ceil_@T@(x: @T@) -> @T@ { return copysign_@T@(ceil(x), x); }",
    # By the bits, one binary place at a time, as a division by hand: exact for all quotients.
    "fmod": """fn fmod_@T@(x: @T@, y: @T@) -> @T@ {
  let sign = bitcast<@U@>(x) & @sign@;
  var a = bitcast<@U@>(x) & @size@;
  let b = bitcast<@U@>(y) & @size@;
  if (b == 0@u@ || a >= @inf@ || b > @inf@) { return bitcast<@T@>(@inf@ | (@hidden@ >> 1u)); }
  if (a < b) { return x; }
  var ea = i32(a >> @mantissa@);
  var eb = i32(b >> @mantissa@);
  var ma = select(a & @fraction@, (a & @fraction@) | @hidden@, ea > 0);
  var mb = select(b & @fraction@, (b & @fraction@) | @hidden@, eb > 0);
  ea = max(ea, 1);
  eb = max(eb, 1);
  while (ma < @hidden@) { ma = ma << 1u; ea = ea - 1; }
  while (mb < @hidden@) { mb = mb << 1u; eb = eb - 1; }
  loop {
    if (ma >= mb) { ma = ma - mb; }
    if (ea <= eb) { break; }
    ma = ma << 1u;
    ea = ea - 1;
  }
  if (ma == 0@u@) { return bitcast<@T@>(sign); }
  while (ma < @hidden@) { ma = ma << 1u; ea = ea - 1; }
  if (ea >= 1) { ma = (ma - @hidden@) | (@U@(ea) << @mantissa@); } else { ma = ma >> u32(1 - ea); }
  return bitcast<@T@>(ma | sign);
}""",
    "mod": """fn mod_@T@(a: @T@, b: @T@) -> @T@ {
  let m = fmod_@T@(a, b);
  if (m == 0.0@f@) { return copysign_@T@(0.0@f@, b); }
  if ((m < 0.0@f@) != (b < 0.0@f@) && !is_nan_@T@(m)) { return opaque_@T@(m + b); }
  return m;
}""",
    "floordiv": """fn floordiv_@T@(a: @T@, b: @T@) -> @T@ {
  let exact = opaque_@T@(a / opaque_@T@(b));
  if (b == 0.0@f@) { return exact; }
  let m = fmod_@T@(a, b);
  var d = opaque_@T@(opaque_@T@(a - m) / b);
  if (m != 0.0@f@ && (m < 0.0@f@) != (b < 0.0@f@)) { d = opaque_@T@(d - 1.0@f@); }
  if (is_nan_@T@(d)) { return d; }
  if (d == 0.0@f@) { return copysign_@T@(0.0@f@, exact); }
  let whole = floor_@T@(d);
  if (opaque_@T@(d - whole) > 0.5@f@) { return opaque_@T@(whole + 1.0@f@); }
  return whole;
}""",
    # For drivers that round the product, too: it is taken apart (Dekker), so that what cancels leaves the exact rest; the
    # sum is off by little more than half a unit. Huge factors, whose parts would overflow, are multiplied as they are.
    "fma": """fn fma_@T@(a: @T@, b: @T@, c: @T@) -> @T@ {
  let p = opaque_@T@(a * b);
  let plain = opaque_@T@(p + c);
  if (!(abs(a) < @huge@ && abs(b) < @huge@ && abs(p) < @huge@) || is_nan_@T@(c) || is_inf_@T@(plain)) { return plain; }
  let ta = opaque_@T@(a * @split@);
  let ah = opaque_@T@(ta - opaque_@T@(ta - a));
  let al = opaque_@T@(a - ah);
  let tb = opaque_@T@(b * @split@);
  let bh = opaque_@T@(tb - opaque_@T@(tb - b));
  let bl = opaque_@T@(b - bh);
  let left = opaque_@T@(opaque_@T@(opaque_@T@(ah * bh) - p) + opaque_@T@(ah * bl));
  let rest = opaque_@T@(opaque_@T@(left + opaque_@T@(al * bh)) + opaque_@T@(al * bl));
  let back = opaque_@T@(plain - p);
  let lost = opaque_@T@(opaque_@T@(p - opaque_@T@(plain - back)) + opaque_@T@(c - back));
  let low = opaque_@T@(lost + rest);
  if (low == 0.0@f@) { return plain; }
  return opaque_@T@(plain + low);
}""",
    # What no compiler sees through: the driver may take floats for real numbers, this keeps it from doing so.
    "opaque": "fn opaque_@T@(x: @T@) -> @T@ { return bitcast<@T@>(bitcast<@U@>(x) ^ nothing_@U@); }",
}
_INTEGER_TEMPLATES = {
    "truncdiv": "fn truncdiv_@T@(a: @T@, b: @T@) -> @T@ { if (b == 0@u@) { return 0@u@; } return a / b; }",
    "truncmod": "fn truncmod_@T@(a: @T@, b: @T@) -> @T@ { if (b == 0@u@) { return 0@u@; } return a % b; }",
}
_SIGNED_TEMPLATES = {
    "truncdiv": "fn truncdiv_@T@(a: @T@, b: @T@) -> @T@ {"
    " if (b == 0@u@) { return 0@u@; } if (b == -1@u@) { return 0@u@ - a; } return a / b; }",
    "truncmod": "fn truncmod_@T@(a: @T@, b: @T@) -> @T@ { if (b == 0@u@ || b == -1@u@) { return 0@u@; } return a % b; }",
    "floordiv": """fn floordiv_@T@(a: @T@, b: @T@) -> @T@ {
  let q = truncdiv_@T@(a, b);
  let r = truncmod_@T@(a, b);
  return select(q, q - 1@u@, r != 0@u@ && ((r < 0@u@) != (b < 0@u@)));
}""",
    "mod": """fn mod_@T@(a: @T@, b: @T@) -> @T@ {
  let r = truncmod_@T@(a, b);
  return select(r, r + b, r != 0@u@ && ((r < 0@u@) != (b < 0@u@)));
}""",
}
_POWER = """fn power_@T@(a: @T@, b: @T@) -> @T@ {
  SIGNED
  var power = 1@u@;
  var base = a;
  var left = @W@(b);
  loop {
    if (left == @W@()) { break; }
    if ((left & @W@(1u)) != @W@()) { power = power * base; }
    base = base * base;
    left = left >> 1u;
  }
  return power;
}"""
_INVERSE = (
    "if (b < 0@u@) { if (a == 1@u@) { return 1@u@; }"
    " if (a == -1@u@) { return select(1@u@, -1@u@, (b & 1@u@) != 0@u@); } return 0@u@; }"
)

HELPERS: dict[str, str] = {
    "param64": "fn param64(k: u32) -> u64 { return u64(params[k]) | (u64(params[k + 1u]) << 32u); }",
    # Numbers that are not negative; most are small, and divisions of 64 bits are long code on GPUs.
    "divide_index": """fn divide_index(a: i64, b: i64) -> i64 {
  if (((a | b) >> 32u) == 0li) { return i64(u32(a) / u32(b)); }
  return a / b;
}""",
    "round_bf16": """fn round_bf16(x: f32) -> f32 {
  let bits = bitcast<u32>(x);
  if ((bits & 0x7fffffffu) > 0x7f800000u) { return bitcast<f32>(0x7fc00000u); }
  return bitcast<f32>((bits + 0x7fffu + ((bits >> 16u) & 1u)) & 0xffff0000u);
}""",
    "round_f16": """fn round_f16(x: f32) -> f32 {
  let bits = bitcast<u32>(x);
  let sign = bits & 0x80000000u;
  let a = bits & 0x7fffffffu;
  if (a >= 0x7f800000u) { return x; }
  if (a >= 0x477ff000u) { return bitcast<f32>(0x7f800000u | sign); }
  if (a < 0x38800000u) {
    let r = opaque_f32(opaque_f32(bitcast<f32>(a) + 0.5f) - 0.5f);
    return bitcast<f32>(bitcast<u32>(r) | sign);
  }
  return bitcast<f32>(((a + 0xfffu + ((a >> 13u) & 1u)) & 0xffffe000u) | sign);
}""",
    "double_to_odd": """fn double_to_odd(x: f64) -> f32 {
  let near = f32(x);
  let back = f64(near);
  if (back == x || is_nan_f64(x)) { return near; }
  var bits = bitcast<u32>(near);
  if (abs(back) > abs(x)) { bits = bits - 1u; }
  return bitcast<f32>(bits | 1u);
}""",
    "popcount64": "fn popcount64(x: u64) -> u32 { return countOneBits(u32(x & 0xfffffffflu)) + countOneBits(u32(x >> 32u)); }",
    "clz64": """fn clz64(x: u64) -> u32 {
  let high = u32(x >> 32u);
  return select(countLeadingZeros(high), 32u + countLeadingZeros(u32(x & 0xfffffffflu)), high == 0u);
}""",
    "ctz64": """fn ctz64(x: u64) -> u32 {
  let low = u32(x & 0xfffffffflu);
  return select(countTrailingZeros(low), 32u + countTrailingZeros(u32(x >> 32u)), low == 0u);
}""",
}
for _name, _template in _FLOAT_TEMPLATES.items():
    for _type, _words in _FLOATS.items():
        HELPERS[f"{_name}_{_type}"] = re.sub(r"@(\w+)@", lambda found, words=_words: words[found[1]], _template)
for _type, _words in _INTEGERS.items():
    _chosen = dict(_SIGNED_TEMPLATES if _type[0] == "i" else _INTEGER_TEMPLATES)
    _chosen["power"] = _POWER.replace("SIGNED", _INVERSE if _type[0] == "i" else "")
    for _name, _template in _chosen.items():
        _all = {**_words, "W": "u" + _type[1:]}
        HELPERS[f"{_name}_{_type}"] = re.sub(r"@(\w+)@", lambda found, words=_all: words[found[1]], _template)


def cast_helper(source: ScalarType, target: ScalarType) -> str:
    """The name of the helper that truncates and saturates a float to an integer; it is made if need be."""
    wide, held = register(source), register(target)
    name = f"cast_{wide}_{target.name}"
    if name not in HELPERS:
        suffix = "lf" if wide == "f64" else "f"
        ends = {"i32": "i", "u32": "u", "i64": "li", "u64": "lu"}[held]
        least = f"({target.minimum + 1}{ends} - 1{ends})" if target.is_signed else f"0{ends}"
        HELPERS[name] = (
            f"fn {name}(x: {wide}) -> {held} {{ if (is_nan_{wide}(x)) {{ return 0{ends}; }}"
            f" if (x >= {target.maximum + 1}.0{suffix}) {{ return {target.maximum}{ends}; }}"
            f" if (x <= {target.minimum}.0{suffix}) {{ return {least}; }} return {held}(x); }}"
        )
    return name


def texts_of(names: set[str]) -> list[str]:
    """The texts of helpers and of all that they call."""
    found: dict[str, str] = {}
    left = sorted(names)
    while left:
        name = left.pop()
        if name in found:
            continue
        found[name] = HELPERS[name]
        left += [called for called in re.findall(r"(\w+)\(", HELPERS[name]) if called in HELPERS and called != name]
    return [found[name] for name in sorted(found)]
