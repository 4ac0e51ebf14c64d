"""In which order the runs of a campaign are made, which are left, and how long they will take."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

import numpy as np

from insitu.design.campaign_plan import AUTO
from insitu.design.factorial import ExperimentDesign, Point
from insitu.design.mainloop import PRECISION, Z95, judge_runs
from insitu.entities import RANKS

MAX_REPETITIONS = 5  # of a configuration whose noise decides
FIRST_REPETITIONS = 2  # before its noise is known


@dataclass(frozen=True, slots=True)
class Attempt:
    """A run that was tried: its configuration, how long it took, how it ended.

    code: of the program, 124 where it took too long.
    """

    point: Point
    seconds: float
    code: int = 0


@dataclass(frozen=True, slots=True)
class Progress:
    """How far one configuration has come.

    seconds: expected of one more run, NaN where nothing is known.
    """

    point: Point
    done: int
    wanted: int
    failed: int
    seconds: float

    @property
    def left(self) -> int:
        """How many runs are still to make."""
        return max(self.wanted - self.done, 0)

    @property
    def core_hours(self) -> float:
        """Of the runs that are left."""
        return self.left * self.seconds * self.point[RANKS] / 3600


def compute_progress(
    design: ExperimentDesign,
    repetitions: int,
    sealed: Mapping[Point, Sequence[float]],
    attempts: Sequence[Attempt],
    loops: Mapping[Point, Sequence[Sequence[float]]] | None = None,
) -> list[Progress]:
    """How far each configuration of a design has come, check points too, few ranks first.

    Args:
        design: which configurations.
        repetitions: of each, AUTO for as many as the noise asks for.
        sealed: seconds of each run that is kept, by configuration.
        attempts: that were made, in order; failures after the last success count.
        loops: seconds of each iteration of the main loop, of each run, where they are known.
    """
    found = []
    taken: dict[Point, list[float]] = {}
    for attempt in attempts:
        if not attempt.code:
            taken.setdefault(attempt.point, []).append(attempt.seconds)
    known = taken or sealed  # an attempt's time includes start and end of the job
    asked = (*design.points, *design.checks)
    for point in sorted(asked, key=lambda point: (point[RANKS], point.values)):
        seconds = sealed.get(point, ())
        wanted = repetitions
        if repetitions == AUTO:
            wanted = required_repetitions(seconds, (loops or {}).get(point, ()))
        failed = 0
        for attempt in attempts:
            if attempt.point == point:
                failed = failed + 1 if attempt.code else 0
        own = known.get(point)
        expected = fmean(own) if own else estimate_seconds(point, known)
        found.append(Progress(point, len(seconds), wanted, failed, expected))
    return found


def required_repetitions(seconds: Sequence[float], loops: Sequence[Sequence[float]] = ()) -> int:
    """How many runs give the mean to 5 %: (1.96 CV / 0.05)^2, at most 5.

    A main loop whose iterations cost the same is a repetition in itself [DET §3.3]: where that is
    so, their variation tells how many iterations are enough, and one run may have them. Otherwise
    it is the variation of whole runs, of which there are 2 at least.

    Args:
        seconds: of each run.
        loops: of each run, seconds of each iteration of its main loop; see `judge_runs`.
    """
    verdict = judge_runs([loop for loop in loops if loop])
    if verdict is not None and verdict.is_linear:
        in_one = fmean(len(loop) for loop in loops if loop)
        return min(max(math.ceil(verdict.iterations / in_one), 1), MAX_REPETITIONS)
    if len(seconds) < FIRST_REPETITIONS or fmean(seconds) <= 0:
        return FIRST_REPETITIONS
    needed = math.ceil((Z95 * stdev(seconds) / fmean(seconds) / PRECISION) ** 2)
    return min(max(needed, FIRST_REPETITIONS), MAX_REPETITIONS)


def estimate_seconds(point: Point, sealed: Mapping[Point, Sequence[float]]) -> float:
    """How long a run will take: a power law through the runs that were made.

    Least squares in logarithms, as many parameters as vary among the runs; with few runs the
    longest of them, NaN where there is none.
    """
    known = [(at, fmean(seconds)) for at, seconds in sealed.items() if seconds]
    if not known:
        return math.nan
    names = [name for name, _ in point.values]
    logs = np.log([[at[name] for name in names] for at, _ in known])
    varying = np.ptp(logs, axis=0) > 0
    columns = np.hstack([np.ones((len(known), 1)), logs[:, varying]])
    if len(known) <= columns.shape[1]:
        return max(seconds for _, seconds in known)
    target = np.log([max(seconds, 1e-6) for _, seconds in known])
    solution = np.linalg.lstsq(columns, target, rcond=None)[0]
    at = np.log([point[name] for name in names])[varying]
    return float(np.exp(np.concatenate([[1.0], at]) @ solution))


def choose_next_run(
    progress: Sequence[Progress],
    *,
    budget_core_h: float,
    is_retrying: bool,
    tried: Sequence[Point] = (),
) -> Progress | None:
    """What to run next, None where nothing is left or the budget would not bear it.

    Every configuration once before any of them again, few ranks first, so that models appear early.

    Args:
        progress: of all configurations.
        budget_core_h: that is left.
        is_retrying: configurations that failed are tried again.
        tried: that have failed since this began; not again now.
    """
    open_ones = [
        one
        for one in progress
        if one.left and one.point not in tried and (is_retrying or not one.failed)
    ]
    for one in sorted(open_ones, key=lambda one: one.done):
        cost = one.seconds * one.point[RANKS] / 3600
        if math.isnan(cost) or cost <= budget_core_h:
            return one
    return None
