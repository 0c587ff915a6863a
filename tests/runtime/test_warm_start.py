"""Warm starts: what is found on disk, what is not any more, and that both give what a compile gives.

A module that is loaded anew from its file has new functions and kernels, as a new process has; what only a real one can
show stands in test_warm_processes.py.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from tests.modules import written

import quadrants as qd
from quadrants import knobs
from quadrants.runtime import native
from quadrants.runtime.manifest import cache_counters

NAME = "module_of_a_warm_start"

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore:.*wins over QD_OFFLINE_CACHE")]


@pytest.fixture
def cache(tmp_path: Path) -> Iterator[Path]:
    """A disk cache of its own, empty."""
    before = native._cache_directory
    folder = tmp_path / "cache"
    use(folder)
    yield folder
    qd.reset()
    sys.modules.pop(NAME, None)
    native.use_cache(before)


def use(folder: Path, **options: Any) -> None:
    """Options of a new start with that cache."""
    if options:
        qd.init(offline_cache=True, offline_cache_file_path=str(folder), log_level="warn", **options)
    else:
        qd.reset()
        knobs.current.assign("offline_cache", True)
        knobs.current.assign("offline_cache_file_path", folder)


def load(tmp_path: Path, text: str) -> ModuleType:
    return written(tmp_path / f"{NAME}.py", text)


class Outcome:
    """What running something did to the counters."""

    def __init__(self) -> None:
        self._before = cache_counters()

    def __str__(self) -> str:
        now = cache_counters()
        changed = {name: now[name] - self._before[name] for name in now if now[name] != self._before[name]}
        return ", ".join(f"{number} {name}" for name, number in changed.items())


HIT, COMPILED = "1 hits", "1 misses, 1 stores"


def outcome_of(tmp_path: Path, text: str, *arguments: Any) -> tuple[str, Any]:
    """What the module's `main` did to the counters, and its result."""
    module = load(tmp_path, text)
    outcome = Outcome()
    return str((outcome, result := module.main(*arguments))[0]), result


BASE = """\
import enum
import numpy as np
import quadrants as qd

SCALE = 2.0
SIZES = (1, 2)
TABLE = {"gain": 4.0, "other": 1}
KIND = qd.f64
unread = 1

class Config:
    shift = 1.0

class Mode(enum.Enum):
    fast = 1
    slow = 2

MODE = Mode.fast

def inner(x):
    return x * SCALE

def helper(x, gain=2.0):
    y: qd.f64 = inner(x) * gain
    return y + SIZES[1]

def unused(x):
    return x

def offset(k):
    def add(x):
        return x + k
    return add

add = offset(10.0)

@qd.kernel
def work(a):
    for i in range(len(a)):
        a[i] = add(helper(a[i])) + Config.shift + qd.cast(TABLE["gain"], KIND)
        if qd.static(MODE == Mode.slow):
            a[i] = -1.0

def main():
    a = np.arange(3.0)
    work(a)
    return a.tolist()
"""


def test_a_second_start_finds_what_the_first_compiled(cache: Path, tmp_path: Path) -> None:
    first = outcome_of(tmp_path, BASE)
    second = outcome_of(tmp_path, BASE)
    assert first == (COMPILED, [17.0, 21.0, 25.0])
    assert second == (HIT, first[1])


CHANGES = [
    ("a captured number", "SCALE = 2.0", "SCALE = 3.0"),
    ("its type", "SCALE = 2.0", "SCALE = 2"),
    ("a tuple", "SIZES = (1, 2)", "SIZES = (1, 3)"),
    ("a dictionary", '"gain": 4.0', '"gain": 5.0'),
    ("a data type", "KIND = qd.f64", "KIND = qd.f32"),
    ("a class attribute", "shift = 1.0", "shift = 1.5"),
    ("an enumeration's member", "MODE = Mode.fast", "MODE = Mode.slow"),
    ("a function", "return x * SCALE", "return x - SCALE"),
    ("a default", "gain=2.0", "gain=4.0"),
    ("a local annotation", "y: qd.f64", "y: qd.f32"),
    ("a new local annotation", "    return y + SIZES[1]", "    z: qd.f32 = y + SIZES[1]\n    return z"),
    ("a closure's variable", "offset(10.0)", "offset(11.0)"),
    ("a closure's code", "return x + k", "return x - k"),
    ("a builtin that is hidden", "unread = 1", "def len(a):\n    return 2"),
    ("another function of that name", "add = offset(10.0)", "def add(x):\n    return x"),
]


@pytest.mark.parametrize(("old", "new"), [change[1:] for change in CHANGES], ids=[change[0] for change in CHANGES])
def test_a_change_is_seen(cache: Path, tmp_path: Path, old: str, new: str) -> None:
    outcome_of(tmp_path, BASE)
    changed = BASE.replace(old, new)
    assert changed != BASE
    found = outcome_of(tmp_path, changed)
    knobs.current.assign("offline_cache", False)
    assert found == (COMPILED, load(tmp_path, changed).main())
    knobs.current.assign("offline_cache", True)
    assert outcome_of(tmp_path, changed)[0] == HIT
    assert outcome_of(tmp_path, BASE)[0] == HIT


STILL = [
    ("an unread global", "unread = 1", "unread = 2"),
    ("an unused function", "def unused(x):\n    return x", "def unused(x):\n    return -x"),
    ("an unread entry", "class Config:\n", "class Config:\n    other = 3\n"),
    ("lines above", "import enum\n", "# a comment\n\nimport enum\n"),
    ("a comment at the end", "def main():", "# nothing\ndef main():"),
]


@pytest.mark.parametrize(("old", "new"), [change[1:] for change in STILL], ids=[change[0] for change in STILL])
def test_what_is_not_reached_does_not_matter(cache: Path, tmp_path: Path, old: str, new: str) -> None:
    first = outcome_of(tmp_path, BASE)
    assert outcome_of(tmp_path, BASE.replace(old, new)) == (HIT, first[1])


MEMORY = """\
import numpy as np
import quadrants as qd

count = qd.field(qd.i64, shape=4)
pairs = qd.Vector.field(2, qd.f32, shape=4)
weights = np.arange(8.0).reshape(4, 2)
direction = qd.Vector([1.0, 2.0])

@qd.kernel
def work(k: int) -> float:
    total = 0.0
    for i in range(4):
        count[i] += k
        pairs[i] = direction * i
        total += weights[i].sum()
    return total

def main():
    return work(3), count.to_numpy().tolist(), pairs.to_numpy().tolist()
"""


def test_captured_memory_is_that_of_this_process(cache: Path, tmp_path: Path) -> None:
    first, second = outcome_of(tmp_path, MEMORY), outcome_of(tmp_path, MEMORY)
    assert (first[0], second[0]) == (COMPILED, HIT)
    assert first[1] == second[1] == (28.0, [3, 3, 3, 3], [[0.0, 0.0], [1.0, 2.0], [2.0, 4.0], [3.0, 6.0]])


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("qd.field(qd.i64, shape=4)", "qd.field(qd.i32, shape=4)"),
        ("qd.Vector([1.0, 2.0])", "qd.Vector([1.0, 3.0])"),
        ("weights = np.arange(8.0).reshape(4, 2)", "weights = np.arange(12.0).reshape(4, 3)"),
        ("weights = np.arange(8.0).reshape(4, 2)", "weights = np.arange(8.0, dtype=np.float32).reshape(4, 2)"),
        ("weights = np.arange(8.0).reshape(4, 2)", "weights = np.arange(16.0).reshape(8, 2)[::2]"),
    ],
)
def test_other_captured_memory(cache: Path, tmp_path: Path, old: str, new: str) -> None:
    outcome_of(tmp_path, MEMORY)
    found = outcome_of(tmp_path, MEMORY.replace(old, new))
    knobs.current.assign("offline_cache", False)
    assert found == (COMPILED, load(tmp_path, MEMORY.replace(old, new)).main())


def test_sizes_of_captured_memory_do_not_matter(cache: Path, tmp_path: Path) -> None:
    outcome_of(tmp_path, MEMORY)
    longer = MEMORY.replace("shape=4", "shape=9").replace("np.arange(8.0).reshape(4, 2)", "np.ones((5, 2))")
    assert outcome_of(tmp_path, longer)[0] == HIT


OBJECTS = """\
import dataclasses
import numpy as np
import quadrants as qd

@dataclasses.dataclass
class Options:
    step: float = 0.5
    unread: int = 1

class Solver:
    rate = 3.0

    def __init__(self):
        self.options = Options()
        self.parts = [Part(1.0), Part(2.0)]
        self.state = qd.field(qd.f64, shape=3)

    @property
    def half(self):
        return self.options.step / 2

    def advance(self, x):
        return x + self.options.step * self.rate

    @qd.func
    def twice(self, x):
        return 2 * x

    @qd.kernel
    def run(self):
        for i in self.state:
            self.state[i] = self.twice(self.advance(i)) + self.half + self.parts[1].mass

class Part:
    def __init__(self, mass):
        self.mass = mass

def main():
    solver = Solver()
    solver.run()
    return solver.state.to_numpy().tolist()
"""


def test_objects_are_followed_member_by_member(cache: Path, tmp_path: Path) -> None:
    assert outcome_of(tmp_path, OBJECTS) == (COMPILED, [5.25, 7.25, 9.25])
    assert outcome_of(tmp_path, OBJECTS) == (HIT, [5.25, 7.25, 9.25])
    assert outcome_of(tmp_path, OBJECTS.replace("unread: int = 1", "unread: int = 2"))[0] == HIT


@pytest.mark.parametrize(
    ("old", "new", "first"),
    [
        ("step: float = 0.5", "step: float = 1.0", 8.5),
        ("rate = 3.0", "rate = 4.0", 6.25),
        ("Part(2.0)", "Part(7.0)", 10.25),
        ("return 2 * x", "return 4 * x", 8.25),
        ("self.options.step / 2", "self.options.step / 4", 5.125),
        ("return x + self.options.step", "return x - self.options.step", -0.75),
    ],
)
def test_a_change_within_an_object(cache: Path, tmp_path: Path, old: str, new: str, first: float) -> None:
    outcome_of(tmp_path, OBJECTS)
    outcome, values = outcome_of(tmp_path, OBJECTS.replace(old, new))
    assert outcome == COMPILED and values[0] == first


RECORDS = """\
import dataclasses
import typing
import quadrants as qd

@dataclasses.dataclass
class Vec:
    x: float
    y: float = 0.5

    def dot(self, o):
        return self.x * o.x + self.y * o.y

    def __add__(self, o):
        return Vec(self.x + o.x, self.y + o.y)

    @property
    def half(self):
        return self.x / 2

class Ray(typing.NamedTuple):
    origin: float
    direction: float = 2.0

    def at(self, t):
        return self.origin + t * self.direction

@qd.kernel
def work(v, x) -> qd.f64:
    w = v + Vec(x)
    return w.dot(v) + w.half + Ray(x).at(3.0)

def main():
    return work(Vec(1.0, 2.0), 4.0)
"""


def test_classes_of_records_are_found_again(cache: Path, tmp_path: Path) -> None:
    assert outcome_of(tmp_path, RECORDS) == (COMPILED, 22.5)
    assert outcome_of(tmp_path, RECORDS) == (HIT, 22.5)


def test_classes_of_results_are_found_again(cache: Path, tmp_path: Path) -> None:
    text = RECORDS.replace(" -> qd.f64:", ":").replace(
        "    return w.dot(v) + w.half + Ray(x).at(3.0)", "    return w, Ray(x)"
    )
    for expected in (COMPILED, HIT):
        outcome, (w, ray) = outcome_of(tmp_path, text)
        assert outcome == expected and (w.dot(w), ray.at(1.0)) == (31.25, 6.0)


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("self.x * o.x +", "self.x * o.x -", 12.5),
        ("Vec(self.x + o.x,", "Vec(self.x - o.x,", 10.5),
        ("self.x / 2", "self.x / 4", 21.25),
        ("y: float = 0.5", "y: float = 1.5", 24.5),
        ("direction: float = 2.0", "direction: float = 3.0", 25.5),
        ("self.origin + t", "self.origin - t", 10.5),
    ],
)
def test_a_change_of_a_records_class(cache: Path, tmp_path: Path, old: str, new: str, expected: float) -> None:
    outcome_of(tmp_path, RECORDS)
    assert outcome_of(tmp_path, RECORDS.replace(old, new)) == (COMPILED, expected)


def test_members_of_a_class_are_live(tmp_path: Path) -> None:
    module = load(tmp_path, OBJECTS)
    solver = module.Solver()
    seen = []
    for change in (lambda: None, lambda: setattr(module.Solver, "rate", 4.0), lambda: setattr(solver, "rate", 5.0)):
        change()
        solver.run()
        seen.append(solver.state[0])
    module.Solver.twice = qd.func(lambda self, x: 0 * x)
    solver.run()
    assert seen == [5.25, 6.25, 7.25] and solver.state[0] == 2.25
    sys.modules.pop(NAME)


ARGUMENTS = """\
import numpy as np
import quadrants as qd

def double(x):
    return 2 * x

def triple(x):
    return 3 * x

@qd.kernel
def work(a, k, f: qd.template(), part):
    for i in range(len(a)):
        a[i] = f(a[i]) + k + part[0]

def main(dtype=np.float64, k=1, f="double", part=(1, 2)):
    a = np.ones(3, dtype)
    work(a, k, globals()[f], part)
    return a[0].item()
"""


@pytest.mark.parametrize(
    ("changed", "result"),
    [
        ({"dtype": np.float32}, 4.0),
        ({"k": 1.0}, 4.0),
        ({"k": np.float32(1.0)}, 4.0),
        ({"f": "triple"}, 5.0),
        ({"part": (1.0, 2)}, 4.0),
        ({"part": (1, 2, 3)}, 4.0),
    ],
    ids=repr,
)
def test_other_arguments_have_forms_of_their_own(
    cache: Path, tmp_path: Path, changed: dict[str, Any], result: float
) -> None:
    outcome_of(tmp_path, ARGUMENTS)
    for expected in (COMPILED, HIT):
        module = load(tmp_path, ARGUMENTS)
        outcome = Outcome()
        assert module.main(**changed) == result
        assert str(outcome) == expected
    assert outcome_of(tmp_path, ARGUMENTS) == (HIT, 4.0)


OPTIONS = """\
import numpy as np
import quadrants as qd

@qd.kernel
def work(a):
    for i in range(len(a)):
        a[i] = a[i] + 1 / 3

def main():
    a = np.ones(3)
    work(a)
    return a[0]
"""


@pytest.mark.parametrize(
    "options",
    [
        {"debug": True},
        {"opt_level": 0},
        {"default_fp": qd.f64, "default_ip": qd.i64},
        {"disable_passes": "cse"},
        {"cpu_max_num_threads": (os.cpu_count() or 1) + 1},
    ],
    ids=repr,
)
def test_options_have_forms_of_their_own(cache: Path, tmp_path: Path, options: dict[str, Any]) -> None:
    use(cache, default_ip=qd.i32)
    outcome_of(tmp_path, OPTIONS)
    for expected in (COMPILED, HIT):
        use(cache, **options)
        assert outcome_of(tmp_path, OPTIONS)[0] == expected


def test_without_the_option_nothing_is_written(cache: Path, tmp_path: Path) -> None:
    knobs.current.assign("offline_cache", False)
    assert outcome_of(tmp_path, BASE)[0] == ""
    assert not cache.exists()


def test_the_reference_target_is_not_kept(cache: Path, tmp_path: Path) -> None:
    use(cache, arch=qd.reference)
    assert outcome_of(tmp_path, OPTIONS)[0] == ""


STATIC = """\
import random
import time
import numpy as np
import quadrants as qd

class Box:
    def __init__(self, items):
        self.items = items

    def __len__(self):
        return len(self.items)

box = Box([1, 2])

seen = []
FACTOR = 2

def chosen():
    seen.append(1)
    return time.time_ns() % 2

def twice(n):
    return FACTOR * n

def table(n=3):
    return [twice(i) for i in range(n)]

def importing():
    import time
    return 1

def of_box(b):
    return len(b.items)

@qd.kernel
def work(a):
    STATEMENT

def main():
    a = np.zeros(2)
    work(a)
    return work.report().splitlines()[-1].partition("kept on disk: ")[2]
"""


@pytest.mark.parametrize(
    ("statement", "reason"),
    [
        ("a[0] = qd.static(chosen())", "chosen is called while compiling"),
        ("a[0] = qd.static(random.random())", "Random.random is called while compiling"),
        ("a[0] = qd.static(of_box(box))", "of_box is called while compiling"),
        ("a[0] = qd.static(importing())", "importing, called while compiling, imports"),
        ("a[0] = qd.static(table()[1]) + qd.static(twice(2))", ""),
        ("qd.static_print(1)", "it prints while compiling"),
        ("a[0] = len(box)", "an object of type Box was looked into while compiling"),
        ("print(box)", "an object of type Box was looked into while compiling"),
        ("a[0] = qd.static(len(box.items) + max(1, 2) + int(np.sqrt(4.0)))", ""),
    ],
)
def test_what_cannot_be_told_is_not_kept(cache: Path, tmp_path: Path, statement: str, reason: str) -> None:
    outcome, found = outcome_of(tmp_path, STATIC.replace("STATEMENT", statement))
    assert outcome == ("1 misses, 1 not cacheable" if reason else COMPILED)
    assert found.startswith(reason) and bool(found) == bool(reason)


@pytest.mark.parametrize(("old", "new"), [("FACTOR = 2", "FACTOR = 3"), ("FACTOR * n", "FACTOR + n"), ("n=3", "n=4")])
def test_functions_called_while_compiling(cache: Path, tmp_path: Path, old: str, new: str) -> None:
    text = STATIC.replace("STATEMENT", "a[0] = qd.static(len(table()) + table()[1])")
    text = text.replace('work.report().splitlines()[-1].partition("kept on disk: ")[2]', "a[0]")
    assert outcome_of(tmp_path, text) == (COMPILED, 5.0)
    assert outcome_of(tmp_path, text) == (HIT, 5.0)
    outcome, value = outcome_of(tmp_path, text.replace(old, new))
    assert outcome == COMPILED and value != 5.0


LIVE = """\
import numpy as np
import quadrants as qd

speed = 1.5

@qd.kernel
def work(a):
    for i in range(len(a)):
        a[i] = speed

def main(*values):
    global speed
    seen = []
    for speed in values or (speed,):
        a = np.zeros(2)
        work(a)
        seen.append(a[0])
    return seen
"""


def test_numbers_that_change_stay_parameters(cache: Path, tmp_path: Path) -> None:
    assert outcome_of(tmp_path, LIVE, 1.5, 2.5, 3.5) == ("2 misses, 2 stores", [1.5, 2.5, 3.5])
    assert outcome_of(tmp_path, LIVE, 7.5, 8.5) == (HIT, [7.5, 8.5])
    assert outcome_of(tmp_path, LIVE, 7, 8.5)[1] == [7.0, 8.5]


TEXTS = """\
import numpy as np
import quadrants as qd

@qd.kernel
def work(a, limit):
    print("limit", limit)
    for i in range(len(a)):
        assert a[i] < limit, f"too large: {a[i]}"

def main(limit):
    work(np.arange(3.0), limit)
"""


def test_messages_speak_of_the_lines_of_today(cache: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    use(cache, debug=True)
    assert outcome_of(tmp_path, TEXTS, 5.0)[0] == COMPILED
    module = load(tmp_path, "\n\n" + TEXTS)
    outcome = Outcome()
    with pytest.raises(qd.QuadrantsAssertionError, match=rf"too large: 2\.0\n.*{NAME}\.py:10"):
        module.main(2.0)
    assert str(outcome) == HIT
    assert capfd.readouterr().out == "limit 5.0\nlimit 2.0\n"


ORDERED = """\
import numpy as np
import quadrants as qd

@qd.kernel
def work(a):
    for i in range(1, len(a)):
        a[i] = a[i - 1] + 1

def main():
    a = np.zeros(3)
    work(a)
    return work.report()
"""


def test_notices_are_told_again(cache: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    from quadrants.lang import bindings

    said = []
    for expected in (COMPILED, HIT):
        bindings._shown.clear()
        outcome, report = outcome_of(tmp_path, ORDERED)
        assert outcome == expected and "runs in order" in report
        said.append(capfd.readouterr().err)
    assert "runs in order" in said[0] and said[0] == said[1]
    outcome, report = outcome_of(tmp_path, "\n" + ORDERED)
    assert outcome == COMPILED and f"{NAME}.py:7" in report


def test_report_and_programs_of_a_form_from_disk(cache: Path, tmp_path: Path) -> None:
    reports, programs, codes = [], [], []
    for _ in range(2):
        module = load(tmp_path, OPTIONS)
        module.main()
        reports.append(module.work.report().splitlines())
        programs.append(module.work.ir())
        codes.append(module.work.assembly())
    assert reports[0][:-1] == reports[1][:-1]
    assert "compiled in" in reports[0][-1] and "from the disk cache in" in reports[1][-1]
    assert programs[0] == programs[1] and codes[0] == codes[1]


RESULTS = """\
import quadrants as qd
import numpy as np

NOTHING = None

@qd.kernel
def work(a, n):
    if qd.static(NOTHING is not None):
        a[0] = 1.0
    return a[0] + n, (n, [n > 2, a[1]]), qd.Vector([n, n + 1]), None

def main():
    return repr(work(np.array([0.5, 1.5]), 3))
"""


def test_results_of_any_shape(cache: Path, tmp_path: Path) -> None:
    first, second = outcome_of(tmp_path, RESULTS), outcome_of(tmp_path, RESULTS)
    assert (first[0], second[0]) == (COMPILED, HIT) and first[1] == second[1]


SIZES = """\
import numpy as np
import quadrants as qd

@qd.kernel
def work(a):
    for i in range(len(a)):
        b = a[i]
        b *= 2

def main(size):
    a = np.ones((4, size))
    work(a)
    return a.sum()
"""


def test_static_sizes_have_forms_of_their_own(cache: Path, tmp_path: Path) -> None:
    for expected in (COMPILED, HIT):
        for size in (2, 3, 4):
            assert outcome_of(tmp_path, SIZES, size) == (expected, 8.0 * size)


LITERALS = """\
import numpy as np
import quadrants as qd

@qd.kernel
def work(a):
    a[0] = qd.static(len("a,b".split(","))) + (qd.Matrix.identity(qd.i32, 2) + qd.Vector.one(qd.i32, 2).x).trace()
    print("{} {}".format(a[0], 2))

def main():
    a = np.zeros(1)
    work(a)
    return a[0]
"""


def test_methods_of_what_stands_in_the_code(cache: Path, tmp_path: Path) -> None:
    assert outcome_of(tmp_path, LITERALS) == (COMPILED, 6.0)
    assert outcome_of(tmp_path, LITERALS) == (HIT, 6.0)


ALIASED = """\
import numpy as np
import quadrants as qd

@qd.kernel
def work(a, b):
    for i in range(len(a)):
        a[i] = b[i] + 1

def main():
    a = np.zeros(8)
    work(a[:4], a[4:])
    work(a[1:], a[:-1])
    return a.tolist()
"""


def test_arguments_that_share_memory(cache: Path, tmp_path: Path) -> None:
    assert outcome_of(tmp_path, ALIASED)[0] == "2 misses, 2 stores"
    assert outcome_of(tmp_path, ALIASED)[0] == "2 hits"


# Damage.


def _truncated(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-7])


def _foreign(path: Path) -> None:
    path.write_bytes(b"something else entirely" * 10)


@pytest.mark.parametrize("spoil", [_truncated, _foreign, Path.unlink])
@pytest.mark.parametrize("kind", ["*.entry", "*.object"])
def test_damaged_entries_are_replaced(cache: Path, tmp_path: Path, spoil: Callable[[Path], None], kind: str) -> None:
    _, value = outcome_of(tmp_path, OPTIONS)
    for path in cache.glob(kind):
        spoil(path)
    from quadrants import program

    program._loaded.clear()
    assert outcome_of(tmp_path, OPTIONS) == (COMPILED, value)
    program._loaded.clear()
    assert outcome_of(tmp_path, OPTIONS) == (HIT, value)


def test_a_folder_that_cannot_be_written_costs_only_time(tmp_path: Path, cache: Path) -> None:
    (tmp_path / "file").write_text("")
    use(tmp_path / "file" / "cache")
    assert outcome_of(tmp_path, OPTIONS)[1] == outcome_of(tmp_path, OPTIONS)[1]


def test_forms_of_one_kernel_are_few(cache: Path, tmp_path: Path) -> None:
    texts = [LIVE.replace("speed = 1.5", f"speed = {number}.5") for number in range(2, 20)]
    for text in texts:
        assert outcome_of(tmp_path, text)[0] == COMPILED
    assert outcome_of(tmp_path, texts[-1])[0] == HIT
    assert outcome_of(tmp_path, texts[0])[0] == COMPILED


def test_functions_of_the_library_that_are_evaluated_while_compiling(tmp_path: Path, cache: Path) -> None:
    text = """\
import numpy as np
import quadrants as qd

@qd.kernel
def work(a, out):
    for i in range(len(out)):
        u, s, v = qd.svd(qd.Matrix([[a[i, 0, 0], a[i, 0, 1]], [a[i, 1, 0], a[i, 1, 1]]]))
        out[i] = qd.round(s[0, 0])

def main():
    out = np.zeros(1, np.float32)
    work(np.array([[[3, 0], [0, 2]]], np.float32), out)
    return float(out[0])
"""
    assert outcome_of(tmp_path, text) == (COMPILED, 3.0)
    assert outcome_of(tmp_path, text) == (HIT, 3.0)
