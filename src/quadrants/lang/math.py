"""`qd.math`: vector and matrix functions in the manner of shading languages, complex numbers on 2-vectors, bits.

Functions that are not operations of the compiler are plain Python here and are compiled like user code, so they work
on numbers and vectors, in kernels and on the host.
"""

from __future__ import annotations

from typing import Any

from quadrants.ir.types import u32
from quadrants.lang.intrinsic import intrinsic, kernel_only
from quadrants.lang.matrix import Matrix, Vector
from quadrants.lang.ops import (
    acos,
    asin,
    atan2,
    ceil,
    clz,
    cos,
    exp,
    ffs,
    floor,
    isinf,
    isnan,
    log,
    log2,
    max,
    min,
    popcnt,
    pow,
    round,
    select,
    sign,
    sin,
    sqrt,
    tan,
    tanh,
)
from quadrants.lang.types import matrix, vector

__all__ = [
    "acos",
    "asin",
    "atan2",
    "cconj",
    "cdiv",
    "ceil",
    "cexp",
    "cinv",
    "clamp",
    "clog",
    "clz",
    "cmul",
    "cos",
    "cpow",
    "cross",
    "csqrt",
    "degrees",
    "determinant",
    "distance",
    "dot",
    "e",
    "exp",
    "eye",
    "ffs",
    "floor",
    "fns",
    "fract",
    "inf",
    "inverse",
    "isinf",
    "isnan",
    "ivec2",
    "ivec3",
    "ivec4",
    "length",
    "log",
    "log2",
    "mat2",
    "mat3",
    "mat4",
    "max",
    "min",
    "mix",
    "mod",
    "nan",
    "normalize",
    "pi",
    "popcnt",
    "pow",
    "radians",
    "reflect",
    "refract",
    "rot_by_axis",
    "rot_yaw_pitch_roll",
    "rotation2d",
    "rotation3d",
    "round",
    "scale",
    "sign",
    "sin",
    "smoothstep",
    "sqrt",
    "step",
    "tan",
    "tanh",
    "translate",
    "uvec2",
    "uvec3",
    "uvec4",
    "vdir",
    "vec2",
    "vec3",
    "vec4",
]

e = 2.718281828459045
pi = 3.141592653589793
inf = float("inf")
nan = float("nan")

vec2, vec3, vec4 = (vector(n, float) for n in (2, 3, 4))
ivec2, ivec3, ivec4 = (vector(n, int) for n in (2, 3, 4))
uvec2, uvec3, uvec4 = (vector(n, u32) for n in (2, 3, 4))
mat2, mat3, mat4 = (matrix(n, n, float) for n in (2, 3, 4))


def __dir__() -> list[str]:
    return __all__


def mix(x: Any, y: Any, a: Any) -> Any:
    """x for a = 0, y for a = 1, on the line through both for other a. Numbers, vectors or matrices; elementwise."""
    return x * (1.0 - a) + y * a


def clamp(x: Any, xmin: Any, xmax: Any) -> Any:
    """The number nearest to x between xmin and xmax. Numbers, vectors or matrices of one shape, or bounds that are
    numbers."""
    return min(xmax, max(xmin, x))


def step(edge: Any, x: Any) -> Any:
    """0.0 where x < edge, else 1.0. Numbers or vectors; elementwise."""
    return select(x < edge, 0.0, 1.0)


def fract(x: Any) -> Any:
    """x - floor(x), in [0, 1), of a float number or vector; elementwise."""
    return x - floor(x)


def smoothstep(edge0: Any, edge1: Any, x: Any) -> Any:
    """0 below edge0, 1 above edge1, and a cubic with flat ends between. Float numbers or vectors; elementwise."""
    t = clamp((x - edge0) / (edge1 - edge0), 0.0, 1.0)
    return t * t * (3.0 - 2.0 * t)


def normalize(v: Any) -> Any:
    """The vector of length 1 in the direction of v, a float vector; NaN for the zero vector."""
    return v / v.norm()


def reflect(x: Any, n: Any) -> Any:
    """The vector x mirrored at the plane of unit normal n, a vector of the same length."""
    return x - 2.0 * x.dot(n) * n


def refract(x: Any, n: Any, eta: Any) -> Any:
    """The unit vector x refracted at the surface of unit normal n, with the ratio eta of the indices of refraction;
    zero for total reflection."""
    cosine = x.dot(n)
    k = 1.0 - eta * eta * (1.0 - cosine * cosine)
    return select(k < 0.0, 0.0 * x, eta * x - (eta * cosine + sqrt(max(k, 0.0))) * n)


def degrees(x: Any) -> Any:
    """Radians to degrees: x * 180 / pi, of a number or vector."""
    return x * (180.0 / pi)


def radians(x: Any) -> Any:
    """Degrees to radians: x * pi / 180, of a number or vector."""
    return x * (pi / 180.0)


def distance(x: Any, y: Any) -> Any:
    """The length of x - y, two vectors of one length; a float."""
    return (x - y).norm()


def dot(x: Any, y: Any) -> Any:
    """The inner product of two vectors of one length; a number of their type."""
    return x.dot(y)


def cross(x: Any, y: Any) -> Any:
    """The cross product of two vectors of length 3 (or 2: a number)."""
    return x.cross(y)


def length(x: Any) -> Any:
    """The Euclidean length of a vector; a float number."""
    return x.norm()


def mod(x: Any, y: Any) -> Any:
    """x - y * floor(x / y), with y's sign. Float numbers or vectors; elementwise."""
    return x - y * floor(x / y)


def determinant(m: Any) -> Any:
    """The determinant of a square matrix; a number of its type."""
    return m.determinant()


def inverse(mat: Any) -> Any:
    """The inverse of a square float matrix; infinities or NaN for a singular one."""
    return mat.inverse()


def vdir(ang: Any) -> Any:
    """The 2-vector (cos ang, sin ang) of an angle in radians."""
    return Vector([cos(ang), sin(ang)])


@intrinsic
def eye(n: Any) -> Any:
    """The identity matrix of n rows, of the default float."""
    return Matrix.identity(float, n)


def translate(dx: Any, dy: Any, dz: Any) -> Any:
    """The 4x4 float matrix that moves points by the numbers (dx, dy, dz)."""
    return Matrix([[1.0, 0.0, 0.0, dx], [0.0, 1.0, 0.0, dy], [0.0, 0.0, 1.0, dz], [0.0, 0.0, 0.0, 1.0]])


def scale(sx: Any, sy: Any, sz: Any) -> Any:
    """The 4x4 float matrix that scales the axes by the numbers sx, sy, sz."""
    return Matrix([[sx, 0.0, 0.0, 0.0], [0.0, sy, 0.0, 0.0], [0.0, 0.0, sz, 0.0], [0.0, 0.0, 0.0, 1.0]])


def rot_by_axis(axis: Any, ang: Any) -> Any:
    """The 4x4 matrix of the rotation by the angle `ang` about `axis`, a 3-vector of any length."""
    c, s = cos(ang), sin(ang)
    u = normalize(axis)
    t = (1.0 - c) * u
    return Matrix(
        [
            [c + t[0] * u[0], t[0] * u[1] - s * u[2], t[0] * u[2] + s * u[1], 0.0],
            [t[1] * u[0] + s * u[2], c + t[1] * u[1], t[1] * u[2] - s * u[0], 0.0],
            [t[2] * u[0] - s * u[1], t[2] * u[1] + s * u[0], c + t[2] * u[2], 0.0],
            [0.0, 0.0, 0.0, 1.0],
        ]
    )


def rot_yaw_pitch_roll(yaw: Any, pitch: Any, roll: Any) -> Any:
    """The 4x4 matrix of the rotation by `roll` about z, then `pitch` about x, then `yaw` about y."""
    cy, sy = cos(yaw), sin(yaw)
    cp, sp = cos(pitch), sin(pitch)
    cr, sr = cos(roll), sin(roll)
    return Matrix(
        [
            [cy * cr + sy * sp * sr, sy * sp * cr - cy * sr, sy * cp, 0.0],
            [cp * sr, cp * cr, -sp, 0.0],
            [cy * sp * sr - sy * cr, sy * sr + cy * sp * cr, cy * cp, 0.0],
            [0.0, 0.0, 0.0, 1.0],
        ]
    )


def rotation2d(ang: Any) -> Any:
    """The 2x2 matrix of the rotation by the angle `ang`, in radians."""
    c, s = cos(ang), sin(ang)
    return Matrix([[c, -s], [s, c]])


def rotation3d(ang_x: Any, ang_y: Any, ang_z: Any) -> Any:
    """The 4x4 matrix of the rotation by `ang_z` about z, then `ang_x` about x, then `ang_y` about y."""
    return rot_yaw_pitch_roll(ang_y, ang_x, ang_z)


def cmul(x: Any, y: Any) -> Any:
    """The product of two complex numbers (2-vectors of real and imaginary part)."""
    return Vector([x[0] * y[0] - x[1] * y[1], x[0] * y[1] + x[1] * y[0]])


def cconj(z: Any) -> Any:
    """The complex conjugate of z, a 2-vector of real and imaginary part."""
    return Vector([z[0], -z[1]])


def cinv(z: Any) -> Any:
    """1 / z of a complex number, a float 2-vector of real and imaginary part."""
    return cconj(z) / z.dot(z)


def cdiv(x: Any, y: Any) -> Any:
    """x / y of complex numbers (float 2-vectors of real and imaginary part)."""
    return cmul(x, cinv(y))


def csqrt(z: Any) -> Any:
    """The square root with a non-negative real part of the complex number z, a float 2-vector."""
    r = sqrt(z.norm())
    a = atan2(z[1], z[0]) / 2.0
    return r * vdir(a)


def cpow(z: Any, n: Any) -> Any:
    """The complex number z (a float 2-vector) to the real power n; 0 for z = 0."""
    squared = z.dot(z)
    r = select(squared > 0.0, pow(select(squared > 0.0, squared, 1.0), n / 2.0), 0.0)
    return r * vdir(n * atan2(z[1], z[0]))


def cexp(z: Any) -> Any:
    """e to the power of the complex number z, a float 2-vector."""
    return exp(z[0]) * vdir(z[1])


def clog(z: Any) -> Any:
    """The logarithm of the complex number z (a float 2-vector), with its imaginary part in (-pi, pi]."""
    return Vector([log(z.norm()), atan2(z[1], z[0])])


@intrinsic
def fns(mask: Any, base: Any, offset: Any) -> Any:
    """The position of the offset-th set bit of the u32 `mask`, counted from bit `base`: upwards for positive, downwards
    for negative `offset`, and `base` itself for 0 if it is set; 0xFFFFFFFF if there is none. In kernels only."""
    kernel_only("math.fns")
