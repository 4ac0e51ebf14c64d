"""Experiment designs: which configurations to run, how often, and why; the classical ones."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product

from insitu.entities import number
from insitu.errors import UsageError

Levels = Mapping[str, Sequence[float]]
Cost = Callable[["Point"], float]
REPETITIONS = 5  # of classical designs against noise [DET §3.3]
POINTS_LIMIT = 100_000  # more than anybody runs: a mistake in the levels


@dataclass(frozen=True, slots=True, order=True)
class Point:
    """One configuration to run: the value of each parameter, in the design's order."""

    values: tuple[tuple[str, float], ...]

    @classmethod
    def of(cls, values: Mapping[str, float], order: Iterable[str]) -> "Point":
        """From values by name."""
        return cls(tuple((name, float(values[name])) for name in order))

    def __getitem__(self, name: str) -> float:
        return dict(self.values)[name]

    def __str__(self) -> str:
        return ", ".join(f"{name}={number(value)}" for name, value in self.values)


@dataclass(frozen=True, slots=True)
class ExperimentDesign:
    """Configurations to run, each `repetitions` times.

    iterations: of the main loop in each run, 0 where the program decides. full: configurations of
    the full factorial design, to compare. insights: why it may be smaller than that, one sentence
    each. confounded: pairs of parameters that move together, and so cannot be told apart
    in a function that depends on both against all expectation. checks: points that would show it.
    """

    points: tuple[Point, ...]
    repetitions: int = 1
    iterations: int = 0
    full: int = 0
    insights: tuple[str, ...] = ()
    confounded: tuple[tuple[str, str], ...] = ()
    checks: tuple[Point, ...] = field(default=())

    @property
    def runs(self) -> int:
        """How many executions it takes, check points not counted."""
        return len(self.points) * self.repetitions

    @property
    def full_runs(self) -> int:
        """How many executions the full factorial design takes with its usual repetitions."""
        return self.full * REPETITIONS


def full_factorial(levels: Levels, repetitions: int = REPETITIONS) -> ExperimentDesign:
    """Every combination of levels, repeated against noise.

    Raises:
        UsageError: there are more combinations than anyone runs.
    """
    count = count_combinations(levels)
    if count > POINTS_LIMIT:
        raise UsageError(
            f"a full factorial design of {len(levels)} parameters has {count} configurations;"
            " use fewer levels or `--method deduced`"
        )
    points = tuple(Point(tuple(zip(levels, at, strict=True))) for at in product(*levels.values()))
    return ExperimentDesign(points, repetitions, full=len(points))


def sparse_design(levels: Levels, repetitions: int = REPETITIONS) -> ExperimentDesign:
    """One line per parameter, the others lowest, and one more point for each pair.

    As Extra-P's sparse modeler takes it [DET §6.3]: 16 points for three parameters of five levels,
    10 for two; a pair meets at the second level of both.
    """
    lowest = {name: min(of) for name, of in levels.items()}
    found = [lowest | {name: value} for name, of in levels.items() for value in sorted(of)]
    names = list(levels)
    found += [
        lowest | {one: second(levels[one]), other: second(levels[other])}
        for at, one in enumerate(names)
        for other in names[at + 1 :]
    ]
    points = dict.fromkeys(Point.of(values, levels) for values in found)
    return ExperimentDesign(tuple(points), repetitions, full=count_combinations(levels))


def count_combinations(levels: Levels) -> int:
    """The number of configurations of a full factorial design."""
    count = 1
    for of in levels.values():
        count *= len(set(of))
    return count


def second(levels: Sequence[float]) -> float:
    """The second lowest level, or the only one."""
    return sorted(levels)[min(1, len(levels) - 1)]


def core_seconds(ranks: str) -> Cost:
    """The cost of a run as the number of its ranks, for want of a time; 1 where nothing says it."""
    return lambda point: dict(point.values).get(ranks, 1.0)
