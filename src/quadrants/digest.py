"""Hashes, without loading a cryptographic library."""

from __future__ import annotations

try:
    from _blake2 import blake2b
except ImportError:  # an interpreter that keeps its hashes elsewhere
    from hashlib import blake2b

__all__ = ["blake2b", "hex_digest"]


def hex_digest(*parts: str | bytes) -> str:
    """A hash of texts or bytes, the borders between them included, as 32 hexadecimal digits."""
    state = blake2b(digest_size=16)
    for part in parts:
        data = part.encode("utf-8", "surrogatepass") if isinstance(part, str) else part
        state.update(len(data).to_bytes(8, "little"))
        state.update(data)
    return state.hexdigest()
