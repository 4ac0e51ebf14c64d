"""Experiment designs: which configurations to run, how often and why; the classical designs."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations, product

from insitu.entities import number
from insitu.errors import UsageError

Levels = Mapping[str, Sequence[float]]
Cost = Callable[["Point"], float]
REPETITIONS = 5  # of classical designs against noise [DET §3.3]
POINTS_LIMIT = 100_000  # more is a mistake in the levels


@dataclass(frozen=True, slots=True, order=True)
class Point:
    """One configuration to run: the value of each parameter, in the design's order."""

    values: tuple[tuple[str, float], ...]

    @classmethod
    def of(cls, values: Mapping[str, float], order: Iterable[str]) -> "Point":
        """Build a point from values by name."""
        return cls(tuple((name, float(values[name])) for name in order))

    def __getitem__(self, name: str) -> float:
        return dict(self.values)[name]

    def __str__(self) -> str:
        return ", ".join(f"{name}={number(value)}" for name, value in self.values)


@dataclass(frozen=True, slots=True)
class ExperimentDesign:
    """Configurations to run, each `repetitions` times.

    Attributes:
        points: to run, the cheapest first.
        repetitions: of each point.
        iterations: of the main loop in each run at least, 0 if the program decides.
        full: number of configurations of the full factorial design, for comparison.
        insights: sentences that say why this design may be smaller.
        confounded: pairs of parameters that are varied together. The design cannot distinguish
            their effects in a function that unexpectedly depends on both.
        checks: points that would show such a function.
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
        """Number of runs, without check points."""
        return len(self.points) * self.repetitions

    @property
    def full_runs(self) -> int:
        """Number of runs of the full factorial design with its usual repetitions."""
        return self.full * REPETITIONS


def full_factorial(levels: Levels, repetitions: int = REPETITIONS) -> ExperimentDesign:
    """Return every combination of levels, repeated against noise.

    Raises:
        UsageError: there are too many combinations.
    """
    count = count_combinations(levels)
    if count > POINTS_LIMIT:
        raise UsageError(
            f"a full factorial design of {len(levels)} parameters has {count} configurations;"
            " use fewer levels or `--method deduced`"
        )
    points = tuple(
        Point(tuple(zip(levels, values, strict=True))) for values in product(*levels.values())
    )
    return ExperimentDesign(points, repetitions, full=len(points))


def sparse_design(levels: Levels, repetitions: int = REPETITIONS) -> ExperimentDesign:
    """Return a line per parameter with the others at their lowest level, and a point per pair.

    This is the design of Extra-P's sparse modeler [DET §6.3]: 16 points for three parameters of
    five levels, 10 for two. The point of a pair has both at their second level.
    """
    lowest = {name: min(values) for name, values in levels.items()}

    configurations = []
    for name, values in levels.items():
        configurations += [lowest | {name: value} for value in sorted(values)]

    for first, second in combinations(levels, 2):
        pair = {first: _second_lowest(levels[first]), second: _second_lowest(levels[second])}
        configurations.append(lowest | pair)

    points = dict.fromkeys(Point.of(values, levels) for values in configurations)
    return ExperimentDesign(tuple(points), repetitions, full=count_combinations(levels))


def count_combinations(levels: Levels) -> int:
    """Return the number of configurations of a full factorial design."""
    count = 1
    for values in levels.values():
        count *= len(set(values))
    return count


def core_seconds(ranks: str) -> Cost:
    """Return a cost proportional to the number of ranks, as if all runs took equally long.

    The cost is 1 if no parameter is the number of ranks.
    """
    return lambda point: dict(point.values).get(ranks, 1.0)


def _second_lowest(levels: Sequence[float]) -> float:
    """Return the second lowest level, or the only one."""
    return sorted(levels)[min(1, len(levels) - 1)]
