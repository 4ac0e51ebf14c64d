"""Which runs to make next, one after the other, with what each tells and what it costs."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from insitu.design.advise import (
    FIRST_RUNS,
    ConditionedLaw,
    LawDistribution,
    choose_first_runs,
    choose_next_point,
    list_candidates,
    relative_uncertainty,
    variance_reductions,
)
from insitu.design.campaign_plan import GOAL
from insitu.design.dependencies import Dependency, Nest
from insitu.design.factorial import Levels, Point
from insitu.design.laws import sample_laws
from insitu.design.measured_runs import MeasuredRuns
from insitu.entities import RANKS
from insitu.errors import UsageError

LEAST_RUNS = 3  # from which the cost of a further run can be told
LARGER = (2.0, 4.0)  # times the largest value that was run, where nobody says what may be run
MOST_CANDIDATES = 4_000
MOST_LEVELS = 8  # of a parameter, where nobody says which


@dataclass(frozen=True, slots=True)
class Proposal:
    """A run to make.

    seconds: how long it will take, NaN where not known; uncertainty: relative uncertainty of the
    prediction when it has been made, NaN for a first run; callpath: of which it tells most, and
    which part of all it tells that is, empty and NaN for a first run.
    """

    point: Point
    seconds: float = math.nan
    uncertainty: float = math.nan
    callpath: str = ""
    share: float = math.nan

    @property
    def core_seconds(self) -> float:
        """Its time on all its ranks."""
        return self.seconds * dict(self.point.values).get(RANKS, 1.0)


@dataclass(frozen=True, slots=True)
class Proposals:
    """Runs to make in this order, and what is known of the run time at the target without them.

    seconds, uncertainty: that time and its relative uncertainty, NaN while first runs are missing;
    is_exhausted: nothing is left of what may be run.
    """

    target: Point
    goal: float
    runs: tuple[Proposal, ...]
    seconds: float = math.nan
    uncertainty: float = math.nan
    is_exhausted: bool = False

    @property
    def is_enough(self) -> bool:
        """Whether the goal is reached already."""
        return self.uncertainty <= self.goal


def propose_runs(
    known: MeasuredRuns,
    target: Sequence[float],
    levels: Levels,
    *,
    dependencies: Mapping[str, Dependency] | None = None,
    goal: float = GOAL,
    count: int = 1,
    is_out: Callable[[Point], bool] = lambda _: False,
) -> Proposals:
    """Choose the next runs: those that differ in everything, then those that tell most.

    Args:
        known: what was run, over the parameters of `levels` in their order.
        target: what is to be predicted.
        levels: what may be run.
        dependencies: of call paths, where known; the others may depend on everything.
        goal: relative uncertainty of the prediction that is enough.
        count: how many runs, at most.
        is_out: whether a configuration is out of the question.

    Raises:
        UsageError: levels are too many.
    """
    asked = Point(tuple(zip(known.names, map(float, target), strict=True)))
    taken = [Point(tuple(zip(known.names, map(float, row), strict=True))) for row in known.points]
    laws = _laws(known, dependencies or {}) if len(taken) >= LEAST_RUNS else []
    start = [one for one in choose_first_runs(levels) if one not in taken and not is_out(one)]
    if len(taken) < FIRST_RUNS and start:
        missing = start[: min(count, FIRST_RUNS - len(taken))]
        return Proposals(asked, goal, tuple(Proposal(one, _time(laws, one)) for one in missing))
    if not laws:
        return Proposals(asked, goal, (), is_exhausted=True)
    candidates = [one for one in list_candidates(levels, taken) if not is_out(one)]
    where = np.array([list(map(float, target))])
    now = doubt = relative_uncertainty(laws, where)
    seconds = float(np.median(sum(law.at(where) for law in laws)))
    cost = partial(_cost, tuple(laws))  # what is foreseen does not change what is expected
    runs: list[Proposal] = []
    while len(runs) < count and doubt > goal and candidates:
        point = choose_next_point(laws, candidates, where, cost)
        told = variance_reductions(laws, [point], where)[:, 0]
        most = int(np.argmax(told))
        takes = _time(laws, point)
        at = np.array([[value for _, value in point.values]])
        laws = [ConditionedLaw(law, at) for law in laws]
        doubt = relative_uncertainty(laws, where)
        part = float(told[most] / max(told.sum(), 1e-300))
        runs.append(Proposal(point, takes, doubt, known.callpaths[most], part))
        candidates.remove(point)
    is_exhausted = not candidates and not runs
    return Proposals(asked, goal, tuple(runs), seconds, now, is_exhausted)


def default_levels(known: MeasuredRuns, target: Sequence[float]) -> dict[str, tuple[float, ...]]:
    """What may be run where nobody says it: the values that were, and up to four times as large.

    Not beyond the target, and of many values only some.

    Raises:
        UsageError: nothing was run.
    """
    if not len(known.points):
        raise UsageError("say what may be run: --levels p=8..128:5, or [levels] in campaign.toml")
    levels = {}
    for name, column, end in zip(known.names, known.points.T, target, strict=True):
        values = np.unique(column)
        chosen = np.linspace(0, len(values) - 1, min(len(values), MOST_LEVELS)).round().astype(int)
        largest = float(values[-1])
        larger = [largest * times for times in LARGER if largest * times <= end]
        levels[name] = (*np.unique(values[chosen]).tolist(), *larger)
    while math.prod(map(len, levels.values())) > MOST_CANDIDATES:
        longest = max(levels, key=lambda name: len(levels[name]))
        levels[longest] = levels[longest][1:]  # small runs tell least
    return levels


def _laws(known: MeasuredRuns, dependencies: Mapping[str, Dependency]) -> list[LawDistribution]:
    """Of each call path; all parameters, each alone and all together, where nothing is known."""
    alone = tuple(Nest.of([name]) for name in known.names)
    anything = (*alone, Nest.of(known.names)) if len(alone) > 1 else alone
    of = [
        _varied(dependencies.get(path, Dependency(path, anything)), known.names)
        for path in known.callpaths
    ]
    return list(sample_laws(known.points, known.values, known.names, of))


def _varied(dependency: Dependency, names: Sequence[str]) -> Dependency:
    """The same in the parameters that runs vary; others are the same in all of them."""
    bare = (
        Nest(tuple(one for one in nest.factors if one[0] in names)) for nest in dependency.nests
    )
    return replace(dependency, nests=tuple(dict.fromkeys(nest for nest in bare if nest.factors)))


def _cost(laws: Sequence[LawDistribution], point: Point) -> float:
    return max(_time(laws, point), 1e-9) * dict(point.values).get(RANKS, 1.0)


def _time(laws: Sequence[LawDistribution], point: Point) -> float:
    if not laws:
        return math.nan
    where = np.array([[value for _, value in point.values]])
    return float(np.mean(sum(law.at(where) for law in laws)))
