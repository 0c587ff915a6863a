"""The pipeline: the list of passes, with what each is for and why it stands where it stands. The driver runs it."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence

from quadrants import knobs
from quadrants.ir.nodes import STAGES, Module
from quadrants.ir.threads import MEETINGS, TEAM_OPS
from quadrants.passes.census import Census
from quadrants.passes.context import PassContext
from quadrants.passes.elementary import EXPANDED
from quadrants.records import Record

__all__ = ["CONSTRAINTS", "PIPELINE", "STRETCHES", "Constraint", "Pass", "check_pipeline"]


Run = Callable[[Module, PassContext], None]


class Pass(Record):
    """One step of the pipeline: `run` of the module of that name in this folder, or of `file`, which is imported when the
    pass first runs; or the function `run`.

    `stage` is the module's stage when the pass runs, `leads_to` the stage afterwards ('' for the same). A `required`
    pass gives meaning or form that later steps rely on; the others only improve, and can be left out. `wanted` says
    whether the options ask for the pass at all; `finds`, whether there can be something for it in a module: where it says
    no, the pass would change nothing and is not run, so that a kernel waits for no import of a pass that it has no use
    for. A pass `keeps_effects` if it adds no access, call or parameter: what is known of memory effects then holds on.
    """

    name: str
    stage: str
    reason: str
    leads_to: str = ""
    required: bool = False
    wanted: Callable[[knobs.Options], bool] = lambda options: True
    finds: Callable[[Census], bool] = lambda census: True
    keeps_effects: bool = False
    file: str = ""
    run: Run | None = None

    def apply(self, module: Module, context: PassContext) -> None:
        """Runs the pass on a module, in place."""
        run: Run = self.run or importlib.import_module(f"quadrants.passes.{self.file or self.name}").run
        run(module, context)


class Constraint(Record):
    """`before` stands in front of `after` in the pipeline, because of `reason`."""

    before: str
    after: str
    reason: str


def _checked(options: knobs.Options) -> bool:
    return options.debug or options.check_out_of_bound


PIPELINE: tuple[Pass, ...] = (
    Pass("join_returns", "kernel", "functions that return early can be inlined, too"),
    Pass("inline", "kernel", "small calls cost nothing; loops of functions become the kernel's"),
    Pass(
        "blocks",
        "kernel",
        "threads of blocks that wait for one another are loops between the meetings",
        required=True,
        finds=lambda census: not census.kinds.isdisjoint(TEAM_OPS),
    ),
    Pass("mark_aliases", "kernel", "a function may get one array twice", required=True),
    Pass(
        "settle_updates",
        "kernel",
        "most values leave the element that they are added to alone",
        finds=lambda census: "update_loaded" in census.kinds,
    ),
    Pass("unroll", "kernel", "components of vectors are known elements"),
    Pass("simplify", "kernel", "constants, laws of algebra, decided branches", keeps_effects=True),
    Pass("cse", "kernel", "analyses compare indices and bounds by identity", keeps_effects=True),
    Pass("forward_stores", "kernel", "values stay out of memory", keeps_effects=True),
    Pass(
        "dead_code",
        "kernel",
        "what is carried for nothing looks like a dependence",
        keeps_effects=True,
    ),
    Pass("sink_slots", "kernel", "private memory of one iteration is no dependence"),
    Pass("inductions", "kernel", "values that the counter tells are no dependence"),
    Pass("parallelise", "kernel", "the truth table of loops", leads_to="tasks", required=True),
    Pass(
        "settle_updates2",
        "tasks",
        "an element is read before its update's value is computed, unless iterations meet there",
        required=True,
        file="settle_updates",
        finds=lambda census: "update_loaded" in census.kinds,
    ),
    Pass(
        "mark_rows",
        "tasks",
        "lanes may take loops within that are independent",
        wanted=lambda options: not _checked(options),  # there a check stops the first iteration that fails
    ),
    Pass(
        "random_streams",
        "tasks",
        "random numbers depend on iterations, not on threads",
        required=True,
        finds=lambda census: "random" in census.kinds,
    ),
    Pass(
        "scans",
        "tasks",
        "prefixes of integers are added up block by block",
        wanted=lambda options: not _checked(options),
        finds=lambda census: census.carries_integers and "store" in census.kinds,
    ),
    Pass(
        "privatise",
        "tasks",
        "a shared sum is kept in registers and added once",
        finds=lambda census: "update" in census.kinds,
    ),
    Pass(
        "fuse",
        "tasks",
        "what two loops touch comes from memory once",
        wanted=lambda options: not _checked(options),  # there what fails leaves behind what Python would
        finds=lambda census: census.parallel > 1,
    ),
    Pass(
        "straighten",
        "tasks",
        "reductions under conditions run in vector lanes",
        wanted=lambda options: not options.debug,  # there only what Python computes is computed, and checked
        finds=lambda census: census.carries and not census.kinds.isdisjoint(("if", "select")),
    ),
    Pass(
        "widen_sums",
        "tasks",
        "sums are fast, exact, and the same in every run",
        required=True,
        finds=lambda census: census.carries,
    ),
    Pass(
        "drop_atomics", "tasks", "atomics only where iterations can meet", finds=lambda census: "update" in census.kinds
    ),
    Pass(
        "order_atomics",
        "tasks",
        "deterministic mode: sums have one order",
        required=True,
        wanted=lambda options: options.deterministic,
        finds=lambda census: census.atomics,
    ),
    Pass(
        "scatter",
        "tasks",
        "sums into shared arrays run on private copies",
        wanted=lambda options: not options.debug,  # there each sum is checked
        finds=lambda census: census.atomics,
    ),
    Pass(
        "argument_bounds",
        "tasks",
        "functions whose callers count from the start do so, too",
        keeps_effects=True,
    ),
    Pass(
        "check_bounds",
        "tasks",
        "debug mode stops before memory is touched",
        required=True,
        wanted=_checked,
    ),
    Pass(
        "cut_loops",
        "tasks",
        "borders, remainders and comparisons leave the middle of loops to vector lanes",
        wanted=lambda options: not _checked(options),
    ),
    Pass("wrap_indices", "tasks", "targets count indices from the start", required=True),
    Pass(
        "gather_once",
        "tasks",
        "what many iterations reach by index lies in the order in which they reach it",
        wanted=lambda options: not _checked(options),  # there the index that is out of range is told
        finds=lambda census: census.depth > 1 and census.reads_integers,
    ),
    Pass("cost", "tasks", "short loops are not worth a thread's wake-up", required=True),
    Pass(
        "hoist",
        "tasks",
        "what does not change is computed once, in front of the loop",
        keeps_effects=True,
    ),
    Pass(
        "dead_stores",
        "tasks",
        "memory that is overwritten unseen is not written",
        keeps_effects=True,
    ),
    Pass("lower_matrices", "tasks", "targets have scalars", leads_to="lowered", required=True),
    Pass("simplify2", "lowered", "elements show what matrices hid", keeps_effects=True, file="simplify"),
    Pass("cse2", "lowered", "index arithmetic of matrix elements is shared", keeps_effects=True, file="cse"),
    Pass("dead_code2", "lowered", "elements that nothing uses", keeps_effects=True, file="dead_code"),
    Pass(
        "libraries",
        "lowered",
        "a library's routine does a whole task where that is wanted and wins",
        wanted=lambda options: options.libraries != "off" and not _checked(options),
        finds=lambda census: census.depth > 2,
    ),
    Pass(
        "tile",
        "lowered",
        "large sums of products run on packed panels, with a tile of sums in registers",
        finds=lambda census: census.depth > 2,
    ),
    Pass(
        "stage_tiles",
        "lowered",
        "blocks of a device's threads load what large sums of products share once",
        finds=lambda census: census.launches and census.depth > 2,
    ),
    Pass(
        "share_rows",
        "lowered",
        "teams of a device's threads read rows along their elements, and few iterations keep a device busy",
        wanted=lambda options: not _checked(options),  # there a check stops the first iteration that fails
        finds=lambda census: census.launches and census.depth > 1,
    ),
    Pass(
        "stage_boxes",
        "lowered",
        "blocks of a device's threads load what their stencils share once",
        wanted=lambda options: not _checked(options),  # there an index that is out of range is told
        finds=lambda census: census.launches and census.parallel > 0,
    ),
    Pass(
        "scatter_in_blocks",
        "lowered",
        "threads that add to few elements wait for those of their block alone",
        wanted=lambda options: not _checked(options),  # there each sum is checked
        finds=lambda census: census.launches and census.atomics,
    ),
    Pass(
        "jam",
        "lowered",
        "sums over one range share its loads, and wait less for one another",
        finds=lambda census: census.carries_lines,
    ),
    Pass(
        "interchange",
        "lowered",
        "walks down columns read memory along its lines",
        finds=lambda census: census.carries_lines,
    ),
    Pass(
        "expand_functions",
        "lowered",
        "targets lack elementary functions, and libraries have none for lanes",
        required=True,
        keeps_effects=True,
        finds=lambda census: not census.kinds.isdisjoint(EXPANDED),
    ),
    Pass(
        "vectorise_rows",
        "lowered",
        "rows of neighbours within an iteration run in lanes",
        finds=lambda census: census.independent,
    ),
    Pass(
        "vectorise_inside",
        "lowered",
        "what an item adds up over its neighbours runs in lanes",
        finds=lambda census: census.carries_inside,
    ),
    Pass(
        "contract",
        "lowered",
        "a product and a sum are one instruction, the same in lanes and alone",
        keeps_effects=True,
    ),
    Pass("vectorise", "lowered", "iterations that part, or reach apart, run in vector lanes"),
    Pass(
        "mark_vectors",
        "lowered",
        "the code generator makes vectors of no other loops",
        keeps_effects=True,
        finds=lambda census: census.marked_vectors and census.depth > 0,
    ),
    Pass(
        "meetings",
        "lowered",
        "threads meet in what the hardware has: shuffles and votes of subgroups, memory and barriers of blocks",
        required=True,
        finds=lambda census: not census.kinds.isdisjoint(MEETINGS),
    ),
    Pass(
        "split_reductions",
        "lowered",
        "what is launched on a device gives no values back",
        required=True,
        finds=lambda census: census.launches,
    ),
    Pass(
        "split_tasks",
        "lowered",
        "a device's compiler takes longer than a task grows",
        required=True,
        finds=lambda census: census.launches,
    ),
    Pass(
        "offload",
        "lowered",
        "the host launches what touches memory",
        required=True,
        finds=lambda census: census.launches,
    ),
)
STRETCHES: tuple[tuple[str, ...], ...] = (
    ("simplify", "cse", "forward_stores", "dead_code", "sink_slots", "inductions"),
    ("straighten", "widen_sums"),
    ("check_bounds", "cut_loops", "wrap_indices"),
    ("hoist", "dead_stores"),
    ("lower_matrices", "simplify2", "cse2"),
)
"""Passes in a row that look at one function at a time (`context.functions`) and at nothing of others but their effects,
none of which change before the last one that asks: the driver takes each function through a whole stretch while it is in
the processor's caches. What their `finds` say holds for the whole stretch."""

CONSTRAINTS: tuple[Constraint, ...] = (
    Constraint("join_returns", "inline", "only a body with one return can stand in place of a call"),
    Constraint("inline", "blocks", "what is copied is taken apart once, with the loop it stands in"),
    Constraint("blocks", "unroll", "loops are at the top level, as the user wrote them"),
    Constraint("blocks", "parallelise", "the loop over blocks is the parallel one"),
    Constraint("inline", "mark_aliases", "calls that are gone overlap nothing"),
    Constraint("inline", "unroll", "loops of functions are short where their arguments are constants"),
    Constraint("unroll", "simplify", "counters have become constants"),
    Constraint("inline", "simplify", "arguments that are constants decide branches of the callee"),
    Constraint("inline", "parallelise", "loops of functions called at the top level are loops of the top level"),
    Constraint("mark_aliases", "settle_updates", "what is written under another name changes the element, too"),
    Constraint("settle_updates", "forward_stores", "the load in front of the value is still that of the update"),
    Constraint("parallelise", "settle_updates2", "what is parallel is not in Python's order"),
    Constraint("settle_updates2", "privatise", "sums are updates"),
    Constraint("mark_aliases", "forward_stores", "forwarding asks which parameters may overlap"),
    Constraint("simplify", "cse", "numbers on the right of commutative operations make more of them equal"),
    Constraint("cse", "forward_stores", "equal elements are recognised by equal index values"),
    Constraint("cse", "parallelise", "equal indices of two accesses are recognised by equal values"),
    Constraint("forward_stores", "dead_code", "forwarding leaves values without use"),
    Constraint("dead_code", "inductions", "dead carried values are no inductions"),
    Constraint("dead_code", "parallelise", "a dead carried value would keep a loop in order"),
    Constraint("sink_slots", "parallelise", "a slot in front of a loop is shared by its iterations"),
    Constraint("inductions", "parallelise", "an induction would keep a loop in order"),
    Constraint("inline", "random_streams", "functions that draw get more parameters and results"),
    Constraint("random_streams", "cost", "the estimate counts what the streams cost"),
    Constraint("parallelise", "scans", "only what is left in order is split"),
    Constraint("random_streams", "scans", "an iteration that draws does more than compute"),
    Constraint("scans", "privatise", "sums of blocks are loops like others"),
    Constraint("random_streams", "fuse", "each loop of the user's has streams of its own"),
    Constraint("privatise", "fuse", "what a loop adds up has become a value, and stands behind it"),
    Constraint("fuse", "widen_sums", "sums of joined loops are widened together"),
    Constraint("fuse", "drop_atomics", "joined loops are looked at as one"),
    Constraint("privatise", "straighten", "private sums under conditions are straightened, too"),
    Constraint("straighten", "widen_sums", "what has no branches is summed in blocks"),
    Constraint("privatise", "widen_sums", "private sums are widened, too"),
    Constraint("privatise", "drop_atomics", "what is private needs no atomic"),
    Constraint("drop_atomics", "order_atomics", "what is not atomic meets nothing"),
    Constraint("order_atomics", "scatter", "private copies are added in any order, too"),
    Constraint("drop_atomics", "scatter", "only what stays atomic is worth a copy"),
    Constraint("parallelise", "wrap_indices", "a cut loop or a select hides how indices depend on the counter"),
    Constraint("widen_sums", "cut_loops", "the loop within a block is the one to be cut"),
    Constraint("parallelise", "cut_loops", "pieces of a loop are looked at as one"),
    Constraint("drop_atomics", "cut_loops", "no piece of a loop tells what the others do"),
    Constraint("argument_bounds", "wrap_indices", "what callers pass shows that indices of functions are not negative"),
    Constraint("cut_loops", "wrap_indices", "a select hides that an index is the counter less a constant"),
    Constraint("check_bounds", "wrap_indices", "the message shows the index that the user wrote"),
    Constraint("wrap_indices", "gather_once", "the loop that gathers takes indices as they are"),
    Constraint("scatter", "gather_once", "a loop in two forms would be looked at twice"),
    Constraint("gather_once", "cost", "the loop that gathers has a cost, too"),
    Constraint("wrap_indices", "cost", "the estimate counts what is left in the body"),
    Constraint("wrap_indices", "hoist", "the sizes that wrapped indices are measured by leave the loops"),
    Constraint("widen_sums", "cost", "the estimate counts what is left in the body"),
    Constraint("hoist", "dead_stores", "loads that have left a loop do not keep stores there alive"),
    Constraint("hoist", "lower_matrices", "a matrix moves in one piece"),
    Constraint("lower_matrices", "simplify2", "construct and extract are gone"),
    Constraint("simplify2", "cse2", "numbers on the right of commutative operations make more of them equal"),
    Constraint("cse2", "dead_code2", "merging leaves values without use"),
    Constraint("dead_code2", "libraries", "what nothing uses would hide that a task is a plain product"),
    Constraint("libraries", "tile", "tiles are for what no library does"),
    Constraint("dead_code2", "tile", "what nothing uses would be computed in every tile"),
    Constraint("dead_code2", "stage_tiles", "what nothing uses would be computed in every tile"),
    Constraint("stage_tiles", "jam", "large sums of products gain more from shared memory"),
    Constraint("stage_tiles", "contract", "products and sums of tiles are fused, too"),
    Constraint("stage_tiles", "share_rows", "large sums of products gain more from shared memory"),
    Constraint("share_rows", "stage_boxes", "whose threads take which elements of a row is settled"),
    Constraint("cut_loops", "stage_boxes", "what is read at borders is read by loops of their own"),
    Constraint("stage_boxes", "contract", "products and sums of stencils are fused, too"),
    Constraint("scatter", "scatter_in_blocks", "which loops only add to arrays"),
    Constraint("scatter_in_blocks", "contract", "what is added is fused, too"),
    Constraint("share_rows", "contract", "products and sums of rows are fused, too"),
    Constraint("tile", "jam", "large sums of products gain more from tiles"),
    Constraint("jam", "interchange", "products of matrices are taken by rows"),
    Constraint("interchange", "vectorise", "few columns are left to lanes"),
    Constraint("interchange", "vectorise_inside", "few columns are left to lanes"),
    Constraint("jam", "vectorise", "lanes are chosen for what is left"),
    Constraint("jam", "vectorise_inside", "lanes are chosen for what is left"),
    Constraint("tile", "vectorise", "small sums of products are left to lanes"),
    Constraint("tile", "vectorise_inside", "sums of products gain more from tiles"),
    Constraint("dead_code2", "vectorise_inside", "what nothing uses would be masked, too"),
    Constraint("parallelise", "mark_rows", "within which loops to look"),
    Constraint("mark_rows", "wrap_indices", "a select hides how indices depend on the counter"),
    Constraint("tile", "vectorise_rows", "sums of products gain more from tiles"),
    Constraint("vectorise_rows", "vectorise_inside", "rows are longer than what each of their elements adds up"),
    Constraint("vectorise_inside", "vectorise", "a loop whose iterations use lanes cannot be one of many side by side"),
    Constraint("dead_code2", "expand_functions", "what nothing uses would be written out"),
    Constraint("cse2", "expand_functions", "equal calls are one"),
    Constraint("expand_functions", "vectorise", "bodies are written for numbers"),
    Constraint("expand_functions", "vectorise_rows", "bodies are written for numbers"),
    Constraint("expand_functions", "vectorise_inside", "bodies are written for numbers"),
    Constraint("dead_code2", "contract", "a product that is used once more is not fused"),
    Constraint("contract", "vectorise", "lanes round as single iterations do"),
    Constraint("vectorise_inside", "contract", "lanes of all kinds are fused"),
    Constraint("expand_functions", "contract", "polynomials are sums of products"),
    Constraint("vectorise", "mark_vectors", "loops in lanes of ours are left alone"),
    Constraint("vectorise", "split_reductions", "what stays in the host's loops is settled"),
    Constraint("contract", "meetings", "the code of meetings is as each target rounds it"),
    Constraint("vectorise", "meetings", "nothing moves code past meetings any more"),
    Constraint("meetings", "split_reductions", "reductions bring meetings of their own that need no more"),
    Constraint("split_reductions", "offload", "partials are combined on the device, too"),
    Constraint("split_reductions", "split_tasks", "loops that are split carry nothing"),
    Constraint("split_tasks", "offload", "what is split is still the kernel's"),
    Constraint("dead_code2", "vectorise", "what nothing uses would be masked, too"),
)


def check_pipeline(passes: Sequence[Pass] = PIPELINE, constraints: Sequence[Constraint] = CONSTRAINTS) -> None:
    """ValueError where names repeat, stages do not follow one another, or a constraint is broken."""
    position = {step.name: index for index, step in enumerate(passes)}
    if len(position) < len(passes):
        raise ValueError("two passes have one name")
    stage = STAGES[0]
    for step in passes:
        if step.stage != stage:
            raise ValueError(f"pass {step.name} takes stage {step.stage}, but stands where the stage is {stage}")
        stage = step.leads_to or stage
    for constraint in constraints:
        before, after = constraint.before, constraint.after
        if before not in position or after not in position:
            raise ValueError(f"constraint {before} before {after}: there is no such pass")
        if position[before] >= position[after]:
            raise ValueError(f"pass {before} must stand before {after}: {constraint.reason}")


check_pipeline()
