"""Proposals: the next runs, one after the other, with what each contributes and costs."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

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
from insitu.modeling.affordable_values import limit_to_affordable
from insitu.modeling.measurement import FloatArray
from insitu.modeling.rank_counts import next_rank_counts
from insitu.units import percent, quantity

LEAST_RUNS = 3  # needed to predict the cost of a further run
UNCLEAR_FROM = 0.5  # relative uncertainty of a prediction that nobody would rely on
RIGHT_WITHIN = 2.0  # times; times of further runs that are known less well are not printed
LARGER = (2.0, 4.0)  # default levels beyond the measured ones, as multiples of the largest
DEFAULT_CANDIDATES_LIMIT = 4_000
DEFAULT_LEVELS_LIMIT = 8  # of each parameter


@dataclass(frozen=True, slots=True)
class Proposal:
    """A run to make.

    Attributes:
        point: its configuration.
        seconds: predicted duration, NaN if unknown.
        uncertainty: relative uncertainty of the prediction after the run, NaN for a first run.
        callpath: the one whose uncertainty the run lowers most, "" for a first run.
        share: of the reduction that is due to this call path, NaN for a first run.
        reason: why the run is needed apart from that, "" if there is no other reason.
    """

    point: Point
    seconds: float = math.nan
    uncertainty: float = math.nan
    callpath: str = ""
    share: float = math.nan
    reason: str = ""

    @property
    def core_seconds(self) -> float:
        """The predicted duration times the number of ranks."""
        return self.seconds * dict(self.point.values).get(RANKS, 1.0)


@dataclass(frozen=True, slots=True)
class Proposals:
    """Runs to make in this order, and the prediction at the target without them.

    Attributes:
        target: what is predicted.
        goal: relative uncertainty that is precise enough.
        runs: to make.
        seconds: predicted run time at the target, NaN while first runs are missing.
        uncertainty: relative, of that time, NaN while first runs are missing.
        is_exhausted: all configurations that may be run have been run.
        unclear: why the models of the campaign predict no run time at the target, "" if they do or
            if there are none. The laws of the call paths may still agree about it.
    """

    target: Point
    goal: float
    runs: tuple[Proposal, ...]
    seconds: float = math.nan
    uncertainty: float = math.nan
    is_exhausted: bool = False
    unclear: str = ""

    @property
    def is_enough(self) -> bool:
        """Whether the goal is reached already, and no run is needed for another reason."""
        return self.uncertainty <= self.goal and not self.unclear and not self.runs

    @property
    def is_clear(self) -> bool:
        """Whether the predicted run time is one that somebody would rely on."""
        return self.uncertainty <= UNCLEAR_FROM and not self.unclear

    @property
    def doubt(self) -> str:
        """Why the predicted run time is none, "" if it is one or if first runs are missing."""
        if self.unclear or self.is_clear or not math.isfinite(self.uncertainty):
            return self.unclear.removeprefix("unclear").lstrip(": ")
        return (
            f"the laws that fit the runs scatter there by {percent(self.uncertainty)}, "
            "and `insitu predict` prints the bounds of the more probable ones"
        )

    def describe_prediction(self) -> str:
        """What the runs so far predict, and how surely; "" while first runs are missing."""
        so_far = "predicted from the runs so far:"
        if self.unclear or (math.isfinite(self.uncertainty) and not self.is_clear):
            doubt = f", {self.doubt}" if self.doubt else ""
            return f"{so_far} unclear at {self.target}{doubt}"
        if not math.isfinite(self.uncertainty):
            return ""
        return (
            f"{so_far} {quantity(self.seconds, 's')} at {self.target}, uncertainty"
            f" {percent(self.uncertainty)}, goal {percent(self.goal)}"
        )


def propose_runs(
    measured: MeasuredRuns,
    target: Sequence[float],
    levels: Levels,
    *,
    dependencies: Mapping[str, Dependency] | None = None,
    goal: float = GOAL,
    count: int = 1,
    is_out: Callable[[Point], bool] = lambda _: False,
) -> Proposals:
    """Choose the next runs: first those that differ in all parameters, then the best for the cost.

    Args:
        measured: runs so far, over the parameters of `levels` in their order.
        target: what is to be predicted.
        levels: what may be run.
        dependencies: of call paths, where known; the others may depend on everything.
        goal: relative uncertainty of the prediction that is precise enough.
        count: the largest number of runs.
        is_out: whether a configuration must not be run.

    Raises:
        UsageError: there are too many levels.
    """
    target_point = _point(measured.names, target)
    existing = [_point(measured.names, row) for row in measured.points]
    laws: list[LawDistribution] = []
    if len(existing) >= LEAST_RUNS:
        laws = _sample_laws(measured, dependencies or {})

    first_runs = [
        point for point in choose_first_runs(levels) if point not in existing and not is_out(point)
    ]
    if len(existing) < FIRST_RUNS and first_runs:
        missing = first_runs[: min(count, FIRST_RUNS - len(existing))]
        proposals = tuple(Proposal(point, _predict_seconds(laws, point)) for point in missing)
        return Proposals(target_point, goal, proposals)
    if not laws:
        return Proposals(target_point, goal, (), is_exhausted=True)

    candidates = [point for point in list_candidates(levels, existing) if not is_out(point)]
    target_array = np.array([list(map(float, target))])
    runs = _choose_runs(
        laws, candidates, target_array, callpaths=measured.callpaths, goal=goal, count=count
    )
    if not _describe_longest(laws, measured):
        runs = [replace(run, seconds=math.nan) for run in runs]
    return Proposals(
        target=target_point,
        goal=goal,
        runs=tuple(runs),
        seconds=float(np.median(sum(law.at(target_array) for law in laws))),
        uncertainty=relative_uncertainty(laws, target_array),
        is_exhausted=not candidates and not runs,
    )


def default_levels(measured: MeasuredRuns, target: Sequence[float]) -> dict[str, tuple[float, ...]]:
    """Return what may be run by default: the measured values, and up to four times as large ones.

    Numbers of ranks continue as they began, such as cubes or powers of two. Values do not exceed
    the target, nor those whose runs would take far too long. Of many measured values only some are
    used.

    Raises:
        UsageError: there are no runs with times.
    """
    if not len(measured.points):
        raise UsageError(
            "there are no runs with times yet: give the levels that may be run, with"
            " --levels p=8..128:5 or in [levels] of campaign.toml"
        )

    levels = {}
    for name, column, end in zip(measured.names, measured.points.T, target, strict=True):
        values = np.unique(column)
        n_levels = min(len(values), DEFAULT_LEVELS_LIMIT)
        chosen = np.linspace(0, len(values) - 1, n_levels).round().astype(int)
        largest = float(values[-1])
        if name == RANKS:
            sizes = list(map(round, values))
            # One rank alone has no properties: twice and four times as many are as good as others.
            known = sizes if largest > 1 else [2]
            limit = min(end, LARGER[-1] * largest)
            larger_sizes = next_rank_counts(known, len(LARGER), limit)
            if largest == 1 and end >= 2:
                larger_sizes = [2, *larger_sizes]
            larger = list(map(float, larger_sizes))
        else:
            wanted = [largest * factor for factor in LARGER if largest * factor <= end]
            axis, seconds = _times_along(measured, name)
            larger = [limit_to_affordable(axis, seconds, value) for value in wanted]
        levels[name] = (*np.unique(values[chosen]).tolist(), *dict.fromkeys(larger))

    while math.prod(map(len, levels.values())) > DEFAULT_CANDIDATES_LIMIT:
        longest = max(levels, key=lambda name: len(levels[name]))
        levels[longest] = levels[longest][1:]  # small runs contribute least
    return levels


def _times_along(measured: MeasuredRuns, name: str) -> tuple[FloatArray, FloatArray]:
    """The values of a parameter, ascending, and the times of their runs, each (n,), where the other
    parameters are as at its largest value."""
    column = measured.names.index(name)
    others = np.delete(measured.points, column, axis=1)
    last = int(np.argmax(measured.points[:, column]))
    rows = np.flatnonzero((others == others[last]).all(axis=1))
    rows = rows[np.argsort(measured.points[rows, column])]
    return measured.points[rows, column], measured.values[:, rows].sum(axis=0)


def _choose_runs(
    laws: Sequence[LawDistribution],
    candidates: Sequence[Point],
    target: FloatArray,
    *,
    callpaths: Sequence[str],
    goal: float,
    count: int,
) -> list[Proposal]:
    """Choose runs one after the other, each as if those before it had been made."""
    # A further run changes the variance of the laws, not their means, hence not the cost either.
    costs = dict(zip(candidates, _core_seconds(laws, candidates), strict=True))
    conditioned = list(laws)
    remaining = list(candidates)
    uncertainty = relative_uncertainty(laws, target)

    runs: list[Proposal] = []
    while len(runs) < count and uncertainty > goal and remaining:
        point = choose_next_point(conditioned, remaining, target, costs.__getitem__)
        reductions = variance_reductions(conditioned, [point], target)[:, 0]
        largest = int(np.argmax(reductions))
        seconds = _predict_seconds(conditioned, point)

        values = np.array([[value for _, value in point.values]])
        conditioned = [ConditionedLaw(law, values) for law in conditioned]
        uncertainty = relative_uncertainty(conditioned, target)
        runs.append(
            Proposal(
                point=point,
                seconds=seconds,
                uncertainty=uncertainty,
                callpath=callpaths[largest],
                share=float(reductions[largest] / max(reductions.sum(), 1e-300)),
            )
        )
        remaining.remove(point)

    return runs


def _point(names: Sequence[str], values: Sequence[float] | FloatArray) -> Point:
    return Point(tuple(zip(names, map(float, values), strict=True)))


def _sample_laws(
    measured: MeasuredRuns, dependencies: Mapping[str, Dependency]
) -> list[LawDistribution]:
    """Sample the laws of each call path.

    A call path without known dependencies may depend on each parameter alone and on all together.
    """
    any_nest = tuple(Nest.of([name]) for name in measured.names)
    if len(any_nest) > 1:
        any_nest = (*any_nest, Nest.of(measured.names))

    of_callpaths = []
    for path in measured.callpaths:
        dependency = dependencies.get(path, Dependency(path, any_nest))
        of_callpaths.append(_restrict(dependency, measured.names))
    return list(sample_laws(measured.points, measured.values, measured.names, of_callpaths))


def _restrict(dependency: Dependency, names: Sequence[str]) -> Dependency:
    """Drop the parameters that are the same in all runs."""
    nests: dict[Nest, None] = {}
    for nest in dependency.nests:
        factors = tuple(factor for factor in nest.factors if factor[0] in names)
        if factors:
            nests[Nest(factors)] = None
    return replace(dependency, nests=tuple(nests))


def _core_seconds(laws: Sequence[LawDistribution], candidates: Sequence[Point]) -> list[float]:
    """Return the predicted core seconds of each candidate, evaluating each law once."""
    if not candidates:
        return []
    values = np.array([[value for _, value in point.values] for point in candidates])
    seconds = np.mean(sum(law.at(values) for law in laws), axis=0)
    ranks = [dict(point.values).get(RANKS, 1.0) for point in candidates]
    core_seconds: list[float] = (np.maximum(seconds, 1e-9) * ranks).tolist()
    return core_seconds


def _describe_longest(laws: Sequence[LawDistribution], measured: MeasuredRuns) -> bool:
    """Whether the laws describe how long the longest run took, so that they tell what others take.

    They have no exponential growth.
    """
    seconds = measured.values.sum(axis=0)
    longest = int(np.argmax(seconds))
    described = float(np.mean(sum(law.at(measured.points[longest : longest + 1]) for law in laws)))
    return bool(seconds[longest] <= RIGHT_WITHIN * described <= RIGHT_WITHIN**2 * seconds[longest])


def _predict_seconds(laws: Sequence[LawDistribution], point: Point) -> float:
    if not laws:
        return math.nan
    values = np.array([[value for _, value in point.values]])
    return float(np.mean(sum(law.at(values) for law in laws)))
