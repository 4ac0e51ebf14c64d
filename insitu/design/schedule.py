"""The schedule of a campaign: the order of its runs, what remains, and how long it will take."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

import numpy as np

from insitu.design.campaign_plan import AUTO
from insitu.design.factorial import ExperimentDesign, Point
from insitu.design.mainloop import PRECISION, Z95, judge_runs
from insitu.entities import RANKS

MAX_REPETITIONS = 5  # with repetitions = "auto"
FIRST_REPETITIONS = 2  # with "auto", before the noise is known
LEAST_SECONDS = 1e-6  # lower bound of durations, whose logarithm is taken
# What is known about exponents of durations before there are runs: mostly between 0 and 1. Without
# it, a single run with two ranks has multiplied the remaining time by ten.
PRIOR_EXPONENT, PRIOR_SPREAD = 0.5, 0.5
DURATION_NOISE = 0.25  # standard deviation of the logarithm of a duration on a busy machine


@dataclass(frozen=True, slots=True)
class Attempt:
    """A run that was started: its configuration, duration and exit code.

    code: of the program, 124 if it exceeded the time limit.
    """

    point: Point
    seconds: float
    code: int = 0


@dataclass(frozen=True, slots=True)
class Progress:
    """The progress of one configuration.

    Attributes:
        point: the configuration.
        done: number of complete runs.
        wanted: number of runs it should have.
        failed: number of failures since the last success.
        seconds: expected duration of a further run, NaN if unknown.
        interrupted_s: how long runs took that were interrupted after the last success, such as by
            the time limit of a job. They are no failures: `insitu campaign run` makes them again.
    """

    point: Point
    done: int
    wanted: int
    failed: int
    seconds: float
    interrupted_s: tuple[float, ...] = ()

    @property
    def remaining(self) -> int:
        """Number of runs that remain."""
        return max(self.wanted - self.done, 0)

    @property
    def core_hours(self) -> float:
        """Expected cost of the runs that remain."""
        return self.remaining * self.seconds * self.point[RANKS] / 3600


def compute_progress(
    design: ExperimentDesign,
    repetitions: int,
    complete: Mapping[Point, Sequence[float]],
    attempts: Sequence[Attempt],
    loops: Mapping[Point, Sequence[Sequence[float]]] | None = None,
) -> list[Progress]:
    """Return the progress of each configuration of a design and of its check points.

    Configurations with few ranks come first.

    Args:
        design: the configurations.
        repetitions: of each configuration, AUTO for as many as the noise requires.
        complete: duration in seconds of each complete run, by configuration.
        attempts: in the order of their start.
        loops: duration in seconds of each iteration of the main loop of each run, where known.
    """
    durations: dict[Point, list[float]] = {}
    for attempt in attempts:
        if not attempt.code:
            durations.setdefault(attempt.point, []).append(attempt.seconds)
    known = durations or complete  # the time of an attempt includes start and end of the job

    progress = []
    points = (*design.points, *design.checks)

    for point in sorted(points, key=lambda point: (point[RANKS], point.values)):
        seconds = complete.get(point, ())
        wanted = repetitions
        if repetitions == AUTO:
            wanted = required_repetitions(seconds, (loops or {}).get(point, ()))
        own = known.get(point)
        expected = fmean(own) if own else estimate_seconds(point, known)
        progress.append(
            Progress(
                point=point,
                done=len(seconds),
                wanted=wanted,
                failed=_count_failures(point, attempts),
                seconds=expected,
            )
        )

    return progress


def required_repetitions(seconds: Sequence[float], loops: Sequence[Sequence[float]] = ()) -> int:
    """Return how many runs give the mean to 5 %: (1.96 CV / 0.05)^2, at most 5.

    The iterations of a linear main loop are repetitions themselves [DET §3.3]: their variation
    determines how many iterations are enough, and one run may have them all. Otherwise the
    variation of whole runs decides, which takes at least 2 of them.

    Args:
        seconds: duration of each run.
        loops: duration in seconds of each iteration of the main loop of each run, see `judge_runs`.
    """
    measured_loops = [loop for loop in loops if loop]
    verdict = judge_runs(measured_loops)
    if verdict is not None and verdict.is_linear:
        iterations_per_run = fmean(len(loop) for loop in measured_loops)
        needed = math.ceil(verdict.iterations / iterations_per_run)
        return min(max(needed, 1), MAX_REPETITIONS)

    if len(seconds) < FIRST_REPETITIONS or fmean(seconds) <= 0:
        return FIRST_REPETITIONS
    needed = math.ceil((Z95 * stdev(seconds) / fmean(seconds) / PRECISION) ** 2)
    return min(max(needed, FIRST_REPETITIONS), MAX_REPETITIONS)


def estimate_seconds(point: Point, durations: Mapping[Point, Sequence[float]]) -> float:
    """Return how long a run will take, by a power law through the durations so far.

    The logarithms of durations are fitted by least squares. Each exponent is drawn towards
    PRIOR_EXPONENT as long as few runs, or runs at similar values, determine it. NaN without runs.

    Args:
        point: the configuration of the run.
        durations: in seconds, of each run, by configuration.
    """
    means = [(measured, fmean(seconds)) for measured, seconds in durations.items() if seconds]
    if not means:
        return math.nan

    names = [name for name, _ in point.values]
    logarithms = np.log([[measured[name] for name in names] for measured, _ in means])
    logarithms -= np.log([point[name] for name in names])  # so that the constant is the estimate
    targets = np.log([max(seconds, LEAST_SECONDS) for _, seconds in means])

    columns = np.hstack([np.ones((len(means), 1)), logarithms])
    prior = np.hstack([np.zeros((len(names), 1)), np.eye(len(names))])
    weight = DURATION_NOISE / PRIOR_SPREAD
    solution = np.linalg.lstsq(
        np.vstack([columns, weight * prior]),
        np.concatenate([targets, np.full(len(names), weight * PRIOR_EXPONENT)]),
        rcond=None,
    )[0]
    return float(np.exp(solution[0]))


def choose_next_run(
    progress: Sequence[Progress],
    *,
    budget_core_h: float,
    is_retrying: bool,
    tried: Sequence[Point] = (),
) -> Progress | None:
    """Return what to run next; None if nothing remains or the budget is too small.

    Every configuration runs once before any of them is repeated, few ranks first, so that models
    are available early.

    Args:
        progress: of all configurations.
        budget_core_h: remaining core hours.
        is_retrying: configurations that failed are tried again.
        tried: configurations that have failed since this session began; not tried again now.
    """
    candidates = [
        configuration
        for configuration in progress
        if configuration.remaining and configuration.point not in tried
    ]

    for configuration in sorted(candidates, key=lambda configuration: configuration.done):
        if configuration.failed and not is_retrying:
            continue
        cost = configuration.seconds * configuration.point[RANKS] / 3600
        if math.isnan(cost) or cost <= budget_core_h:
            return configuration

    return None


def _count_failures(point: Point, attempts: Sequence[Attempt]) -> int:
    """Count the failures of a configuration since its last success."""
    failures = 0
    for attempt in attempts:
        if attempt.point == point:
            failures = failures + 1 if attempt.code else 0
    return failures
