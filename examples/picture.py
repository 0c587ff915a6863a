"""Pictures for the examples with nothing but NumPy: a palette, dots on a canvas, and a PNG writer."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path

import numpy as np

BACKGROUND = np.array([14, 17, 27], np.uint8)
STOPS = np.array(
    [[8, 8, 32], [52, 24, 110], [150, 40, 110], [232, 96, 60], [252, 190, 70], [255, 250, 210]], np.float32
)


def palette(values: np.ndarray) -> np.ndarray:
    """Maps numbers of any shape in [0, 1] (others are clamped) to uint8 colours of shape (..., 3), dark to bright."""
    place = np.clip(values, 0, 1) * (len(STOPS) - 1)
    low = np.minimum(place.astype(int), len(STOPS) - 2)
    part = (place - low)[..., None]
    return (STOPS[low] * (1 - part) + STOPS[low + 1] * part).astype(np.uint8)


def dots(points: np.ndarray, colours: np.ndarray, size: int = 320, radius: int = 1) -> np.ndarray:
    """Draws points of shape (n, 2) in the unit square, y up, as a (size, size, 3) image; later points lie on top."""
    image = np.tile(BACKGROUND, (size, size, 1))
    column = np.nan_to_num(points[:, 0] * size).astype(int)
    row = size - 1 - np.nan_to_num(points[:, 1] * size).astype(int)
    for across in range(radius + 1):
        for down in range(radius + 1):
            r, c = row + down, column + across
            inside = (r >= 0) & (r < size) & (c >= 0) & (c < size)
            image[r[inside], c[inside]] = colours[inside]
    return image


def strip(frames: list[np.ndarray], gap: int = 6) -> np.ndarray:
    """Puts images of one height side by side on white."""
    between = np.full((len(frames[0]), gap, 3), 255, np.uint8)
    return np.hstack([part for frame in frames for part in (frame, between)][:-1])


def save(path: str | Path, image: np.ndarray) -> None:
    """Writes a uint8 image of shape (height, width, 3) as a PNG file; folders are made as needed."""
    height, width, _ = image.shape
    rows = np.hstack([np.zeros((height, 1), np.uint8), np.ascontiguousarray(image).reshape(height, -1)]).tobytes()

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    data = chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows, 9)) + chunk(b"IEND", b"")
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_bytes(b"\x89PNG\r\n\x1a\n" + data)
    print(f"wrote {path}")
