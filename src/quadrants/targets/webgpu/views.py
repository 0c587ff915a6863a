"""How a shader reaches memory: views of the windows that it binds, by kind of element, and what it takes to choose among the
windows of an array that goes through several."""

from __future__ import annotations

from quadrants.targets.webgpu.windows import Range

__all__ = ["KINDS", "STATUS", "Views"]

KINDS = {
    "heap": "array<u32>",
    "heap64": "array<u64>",
    "heap_atomic": "array<atomic<u32>>",
    "heap64_atomic": "array<atomic<u64>>",
    "heap_float": "array<atomic<f32>>",
    "status": "array<atomic<u32>>",
}
"""The kinds of views in the order of their bindings; all but the status show the heap."""

STATUS = "status"


class Views:
    """The views that one shader binds, and the functions that choose among windows.

    `span_bits`: a window has at most 2**span_bits bytes. `shared`: plain accesses go through the atomic view, too, so that a
    window takes one binding, or two with atomics of 64 bits: for GPUs with few bindings.
    """

    def __init__(self, span_bits: int, shared: bool = False) -> None:
        self._span_bits = span_bits
        self._shared = shared
        self._used: dict[tuple[str, int], str] = {}
        self._functions: dict[str, str] = {}

    def used(self) -> list[tuple[str, int]]:
        """(kind, window) of the views, in the order of their bindings."""
        return sorted(self._used, key=lambda view: (list(KINDS).index(view[0]), view[1]))

    def declarations(self) -> list[str]:
        """The lines that bind them behind the parameters, and the functions."""
        return [
            f"@group(0) @binding({k + 1}) var<storage, read_write> {self._used[view]}: {KINDS[view[0]]};"
            for k, view in enumerate(self.used())
        ] + list(self._functions.values())

    def held(self, windows: Range) -> str:
        """The type of addresses and strides of an array. Law: those of 32 bits may wrap on the way to an element: its address is
        less than 2**32."""
        return "u32" if windows[1] << self._span_bits <= 1 << 32 else "i64"

    def _behind(self, windows: Range, address: str) -> str:
        return f"({address} + {'4u' if self.held(windows) == 'u32' else '4li'})"

    def status(self) -> str:
        """The name of the status."""
        return self._view(STATUS, 0)

    def _view(self, kind: str, window: int) -> str:
        name = self._used[kind, window] = kind if kind == STATUS else f"{kind}_{window}"
        return name

    def load(self, windows: Range, wide: bool, address: str) -> str:
        """The bits of a number at an address: a u64, or a u32."""
        if self._shared and wide:
            low, high = (
                self._atomic_load(windows, False, address),
                self._atomic_load(windows, False, f"({address} + 4li)"),
            )
            return f"(u64({low}) | (u64({high}) << 32u))"
        if self._shared:
            return self._atomic_load(windows, False, address)
        kind = "heap64" if wide else "heap"
        return self._chosen("load", kind, windows, address, "", _held(wide), "{}")

    def store(self, windows: Range, wide: bool, address: str, bits: str) -> list[str]:
        """The statements that put the bits of a number there."""
        if self._shared and wide:
            return [
                *self.store(windows, False, address, f"u32({bits} & 0xfffffffflu)"),
                *self.store(windows, False, self._behind(windows, address), f"u32({bits} >> 32u)"),
            ]
        if self._shared:
            return [self._chosen("put", "heap_atomic", windows, address, bits, "", "atomicStore(&{}, {value})") + ";"]
        kind = "heap64" if wide else "heap"
        return [self._chosen("store", kind, windows, address, bits, "", "{} = {value}") + ";"]

    def _atomic_load(self, windows: Range, wide: bool, address: str) -> str:
        kind = "heap64_atomic" if wide else "heap_atomic"
        return self._chosen("peek", kind, windows, address, "", _held(wide), "atomicLoad(&{})")

    def atomic_load(self, windows: Range, wide: bool, address: str) -> str:
        """The word that holds a number there: 64 bits, or 32."""
        return self._atomic_load(windows, wide, address)

    def exchange(self, windows: Range, wide: bool, address: str, old: str, new: str) -> str:
        """Whether the word there was still `old`, and is `new` now."""
        held, kind = _held(wide), "heap64_atomic" if wide else "heap_atomic"
        first, count = windows
        place = self._element(kind, first, address)
        if count == 1:
            return f"atomicCompareExchangeWeak(&{place}, {old}, {new}).exchanged"
        cases = [
            f"return atomicCompareExchangeWeak(&{self._element(kind, first + k, 'at')}, old_word, new_word).exchanged;"
            for k in range(count)
        ]
        name = f"exchange_{kind}_{first}_{count}"
        self._functions[name] = self._choice(name, windows, f", old_word: {held}, new_word: {held}", "bool", cases)
        return f"{name}({address}, {old}, {new})"

    def update(self, windows: Range, wide: bool, address: str, operation: str, bits: str) -> str:
        """What `atomicAdd` and its like give: the word that was there before."""
        kind = "heap64_atomic" if wide else "heap_atomic"
        return self._chosen(operation, kind, windows, address, bits, _held(wide), operation + "(&{}, {value})")

    def add_float(self, windows: Range, address: str, value: str) -> str:
        """Adds to a number of f32; gives what was there before. '' where there is no binding to spare for it."""
        if self._shared:
            return ""
        return self._chosen("add", "heap_float", windows, address, value, "f32", "atomicAdd(&{}, {value})")

    def store_narrow(self, windows: Range, address: str, size: int, bits: str) -> str:
        """The statement that puts a number of that many bits among its word's others."""
        first, count = windows
        name = f"store_narrow_{first}_{count}"
        word = self._atomic_load(windows, False, "address")
        done = self.exchange(windows, False, "address", "old_word", "new_word")
        self._functions[name] = f"""fn {name}(address: {self.held(windows)}, size: u32, value: u32) {{
  loop {{
    let old_word = {word};
    let new_word = insertBits(old_word, value, (u32(address) & 3u) * 8u, size);
    if ({done}) {{ break; }}
  }}
}}"""
        return f"{name}({address}, {size}u, {bits});"

    def _chosen(self, what: str, kind: str, windows: Range, address: str, value: str, result: str, access: str) -> str:
        """An access to an element of a view, whose window is known, or found by the address."""
        first, count = windows
        if count == 1:
            return access.format(self._element(kind, first, address), value=value)
        takes = f", value: {'f32' if kind == 'heap_float' else _held('64' in kind)}" if value else ""
        accesses = [access.format(self._element(kind, first + k, "at"), value="value") for k in range(count)]
        name = f"{what}_{kind}_{first}_{count}"
        self._functions[name] = self._choice(
            name, windows, takes, result, [f"return {text};" if result else f"{text};" for text in accesses]
        )
        return f"{name}({address}{', ' + value if value else ''})"

    def _choice(self, name: str, windows: Range, takes: str, result: str, cases: list[str]) -> str:
        held = self.held(windows)
        lines = [f"    case {k}u: {{ {case} }}" for k, case in enumerate(cases[:-1])]
        return "\n".join(
            [
                f"fn {name}(address: {held}{takes}){f' -> {result}' if result else ''} {{",
                f"  let at: {held} = address & {(1 << self._span_bits) - 1}{'u' if held == 'u32' else 'li'};",
                f"  switch (u32(address >> {self._span_bits}u)) {{",
                *lines,
                f"    default: {{ {cases[-1]} }}",
                "  }",
                "}",
            ]
        )

    def _element(self, kind: str, window: int, address: str) -> str:
        return f"{self._view(kind, window)}[u32({address} >> {3 if '64' in kind else 2}u)]"


def _held(wide: bool) -> str:
    return "u64" if wide else "u32"
