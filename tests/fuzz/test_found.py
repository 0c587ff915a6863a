"""What the fuzzer found once: the reduced programs stay right, under the options that they failed with and others."""

from __future__ import annotations

from pathlib import Path

import pytest

from quadrants.evidence.fuzz import trial
from quadrants.evidence.fuzz.expressions import Style
from quadrants.evidence.fuzz.settings import Settings

PROGRAMS = sorted((Path(__file__).parent / "found").glob("*.py"))
OTHERS = (
    Settings("reference", {"opt_level": 0}),
    Settings("reference", {"lanes": 8}),
    Settings("cpu", {"opt_level": 0}),
    Settings("cpu"),
    Settings("cpu", {"lanes": 8}, busy=True),
)


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.stem)
def test_found(path: Path, tmp_path: Path) -> None:
    module = trial.load(path.read_text(), tmp_path, path.stem)
    own = Settings(**module.SETTINGS)
    expected = trial.expectations(module, module.SIZES, own.defaults)
    for settings in (own, *(Settings(s.arch, s.options, own.defaults, busy=s.busy) for s in OTHERS)):
        failure = trial.check(module, expected, settings, Style(*module.STYLE))
        assert failure is None, f"under {settings}: {failure}"
