"""Detecting which call path depends on which parameter, from pilot runs that count."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import partial
from itertools import pairwise

from insitu.design.blackbox import MainLoop, deduce_structure, find_loop_candidates
from insitu.design.dependencies import Structure, add_labels
from insitu.design.pilot import far_configurations, pilot_configurations
from insitu.errors import UsageError
from insitu.workflows.pilots import Pilots

TIMEOUT_S = 60.0
RANK_OPTIONS = ("-n", "-np", "--ntasks", "--n", "-c")
RANK_NAMES = ("p", "procs", "ranks", "nprocs", "np")

DerivedParameter = tuple[str, tuple[tuple[str, Fraction], ...]]


@dataclass(frozen=True, slots=True)
class DetectOptions:
    """What `detect_dependencies` runs.

    Attributes:
        derived: parameters that follow from others, each a product of powers.
        far: one value per parameter, farther out than its pilot values, that is tried as well.
        uses_labels: follow the parameters through one run of the program; then the values of
            `far` are tried only for parameters that have a label and no effect on any count.
        timeout_s: the longest that a pilot run may take.
        iteration: the parameter that is the number of iterations of the main loop, "" to find it.
        taint_program: a compiled program as clang's DataFlowSanitizer builds it, for `uses_labels`.
    """

    derived: tuple[DerivedParameter, ...] = ()
    far: Mapping[str, float] = field(default_factory=dict)
    uses_labels: bool = False
    timeout_s: float = TIMEOUT_S
    iteration: str = ""
    taint_program: str = ""


@dataclass(frozen=True, slots=True)
class Detection:
    """The dependencies of each call path.

    Attributes:
        structure: dependencies by counts and, if they were used, labels.
        main_loop: the loop that contains most of the work; None if there is none.
        labelled_parameters: parameters whose label reached any call path.
        loop_candidates: without a main loop, the parameters that may be its number of iterations.
    """

    structure: Structure
    main_loop: MainLoop | None
    labelled_parameters: frozenset[str]
    loop_candidates: tuple[str, ...] = ()


def detect_dependencies(
    command: Sequence[str],
    levels: Mapping[str, Sequence[float]],
    options: DetectOptions = DetectOptions(),
    report: Callable[[str], None] = lambda progress: None,
) -> Detection:
    """Detect which call path depends on which parameter by counting the work of small runs.

    This runs the base configuration twice, two alternatives per parameter, every pair of
    parameters, and all parameters together.

    Args:
        command: the program with its launcher; `{NAME}` stands for the value of a parameter.
        levels: three small values per parameter, the base first.
        options: what to run besides.
        report: called with the progress, as in "3 of 12", and with "" at the end of each run.

    Raises:
        LaunchError: a run failed or counted nothing.
        UsageError: the command names a parameter that has no value, an option makes no sense, or
            the work is not proportional to `options.iteration`.
    """
    far_configurations(levels, options.far)  # refuses values that are not farther out
    _require_placeholders(command, levels)
    ranks = find_rank_parameter(command, list(levels))
    pilots = Pilots(command, options.timeout_s, report)

    configurations = pilot_configurations(levels)
    labels: Mapping[str, frozenset[str]] = {}
    if options.uses_labels:
        labels = pilots.labels(configurations[0], ranks, options.taint_program)
    counts = pilots.count(configurations)
    deduce = partial(
        deduce_structure, ranks=ranks, derived=options.derived, iteration=options.iteration
    )
    structure, main_loop = deduce(configurations, counts)

    far = dict(options.far)
    if options.uses_labels:
        structure = add_labels(structure, labels)
        without_effect: set[str] = set()
        for dependency in structure.dependencies:
            without_effect.update(dependency.labelled)
        far = {name: value for name, value in far.items() if name in without_effect}

    if far:
        configurations += far_configurations(levels, far)
        counts = pilots.count(configurations)
        structure, main_loop = deduce(configurations, counts)
        structure = add_labels(structure, labels, far)

    candidates = () if main_loop else find_loop_candidates(configurations, counts)
    return Detection(structure, main_loop, frozenset().union(*labels.values()), candidates)


def _require_placeholders(command: Sequence[str], parameters: Iterable[str]) -> None:
    """Refuse a parameter that the command does not take: every run would be the same.

    Raises:
        UsageError: there is one.
    """
    for name in parameters:
        if not any(f"{{{name}" in word for word in command):
            raise UsageError(
                f"the command does not contain {{{name}}}, so {name} would change nothing; write"
                f" {{{name}}} where the program takes its value, as in `app.py --size {{{name}}}`"
            )


def find_rank_parameter(command: Sequence[str], parameters: Sequence[str]) -> str:
    """Return the parameter that is the number of ranks: by the launcher's option, or by its name.

    Empty if there is none.
    """
    for option, value in pairwise(command):
        name = value.strip("{}")
        if option in RANK_OPTIONS and name in parameters:
            return name
    return next((name for name in parameters if name in RANK_NAMES), "")
