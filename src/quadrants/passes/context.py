"""What a pass may know and tell besides the module itself."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

from quadrants import knobs
from quadrants.ir.external import Routine
from quadrants.ir.nodes import Function, Location, Module
from quadrants.records import MutableRecord, Record, fresh

__all__ = ["Notice", "PassContext"]


class Notice(Record):
    """A choice that the user may want to know of: `pass_name` made it, for the code at `locations`."""

    pass_name: str
    text: str
    locations: tuple[Location | None, ...] = ()


class PassContext(MutableRecord):
    """The surroundings of one run of the pipeline.

    `options` are the user's, `record` is the target's capability record (None where none is known yet). Passes append
    to `notices` and add to `counters`; the driver fills `times` (seconds a pass), `sizes` (operations after a pass,
    where `count_ops` is set) and `executed`. Before each optional rewrite a pass asks `permit`, so that a wrong rewrite
    can be found by bisection: `rewrite_limit` is how many are still allowed, None for all. `memory_effects` keeps an
    analysis between passes that do not change it, `census` one between passes that do not run; `settled` (operations by
    kind, by function), `unsettled` (whether a function has changed since) and `narrow` (functions with work left for the
    lowered stage) save the second round of passes where the first one was enough. `focus` is the function that a
    local pass is to look at, None for all. `lane_options` collects numbers of lanes that the model cannot tell from
    the one that it chose; `lanes_to_try`, if not 0, is chosen where it is one of them. `routine_for` gives the
    library's routine for a kind of task on a scalar type, or the reason why there is none; None where no libraries
    are to be used.
    """

    options: knobs.Options = fresh(knobs.Options)
    record: Any = None
    notices: list[Notice] = fresh(list[Notice])
    counters: dict[str, int] = fresh(dict[str, int])
    times: dict[str, float] = fresh(dict[str, float])
    sizes: dict[str, int] = fresh(dict[str, int])
    executed: list[str] = fresh(list[str])
    count_ops: bool = False
    rewrite_limit: int | None = None
    memory_effects: Any = None
    census: Any = None
    settled: dict[str, Counter[str]] = fresh(dict[str, "Counter[str]"])
    unsettled: dict[str, bool] = fresh(dict[str, bool])
    narrow: set[str] = fresh(set[str])
    focus: Function | None = None
    lane_options: set[int] = fresh(set[int])
    lanes_to_try: int = 0
    routine_for: Callable[[str, str], Routine | str] | None = None
    dump: Callable[[str, str], None] | None = None

    def functions(self, module: Module) -> Iterable[Function]:
        """The functions that a local pass is to look at now: all, or the one that the driver has come to."""
        return module.functions.values() if self.focus is None else (self.focus,)

    def notice(self, pass_name: str, text: str, *locations: Location | None) -> None:
        """Tell the user of a choice, with the places in the source that explain it."""
        self.notices.append(Notice(pass_name, text, locations))

    def count(self, name: str, amount: int = 1) -> None:
        """Add to a counter."""
        self.counters[name] = self.counters.get(name, 0) + amount

    def permit(self) -> bool:
        """Whether one more optional rewrite may be made; takes it from `rewrite_limit`."""
        if self.rewrite_limit is None:
            return True
        self.rewrite_limit -= 1
        return self.rewrite_limit >= 0
