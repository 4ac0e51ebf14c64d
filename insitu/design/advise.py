"""The next configuration: the run that lowers the uncertainty of a prediction most for its cost.

The runs so far allow many laws for each call path. `laws.py` samples them from their posterior. A
run at a configuration x would lower the variance of the prediction at a target by

    cov(f(x), f(target))^2 / (var f(x) + noise^2)

summed over call paths, as for jointly normal values. The best run maximises this per cost^0.7.
Until there are enough runs to fit laws, runs that differ in all parameters are chosen instead.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Protocol

import numpy as np

from insitu.design.factorial import Cost, Levels, Point
from insitu.design.laws import NOISE
from insitu.entities import RANKS
from insitu.errors import UsageError
from insitu.modeling.measurement import FloatArray

COST_POWER = 0.7  # below 1: with 1, only the smallest runs are ever chosen
LEAST_NOISE = 0.005  # relative, of a run, however exact it seems
FIRST_RUNS = 5  # prime, so that every pair of columns has each level once
CANDIDATES_LIMIT = 20_000  # configurations, each of which is compared with all laws
TIE = 1e-6  # relative, of benefits: closer ones differ by the rounding of the processor
TINY = 1e-300  # keeps divisions finite


class LawDistribution(Protocol):
    """Samples of the laws that a call path may follow."""

    def at(self, points: FloatArray) -> FloatArray:
        """Return the values of all samples: (SAMPLES, n_points)."""


@dataclass(frozen=True, slots=True)
class ConditionedLaw:
    """The laws of a call path after a run at a point, whatever the run will measure.

    For jointly normal values a run at x changes the covariance of a and b to

        cov(a, b) - cov(a, x) cov(b, x) / (var x + noise^2).

    Potter's square-root update changes the samples accordingly; their means stay.

    Attributes:
        law: before the run.
        point: (1, n_parameters), the configuration of the run.
        noise: relative, of the run.
    """

    law: LawDistribution
    point: FloatArray
    noise: float = NOISE

    def at(self, points: FloatArray) -> FloatArray:
        """Return the values of all samples: (SAMPLES, n_points)."""
        at_run, values = self.law.at(self.point)[:, 0], self.law.at(points)
        mean = at_run.mean()
        deviations = at_run - mean
        variance = float(deviations @ deviations)  # times the number of samples
        noise = len(deviations) * (max(self.noise, LEAST_NOISE) * mean) ** 2

        remaining = math.sqrt(noise / max(variance + noise, TINY))
        weight = (1.0 - remaining) / max(variance, TINY)
        covariance = deviations @ (values - values.mean(axis=0))
        conditioned: FloatArray = values - weight * np.outer(deviations, covariance)
        return conditioned


def choose_first_runs(
    levels: Levels, count: int = FIRST_RUNS, *, ranks: str = RANKS
) -> list[Point]:
    """Return runs that differ in all parameters and are as uncorrelated as possible.

    The runs are the rows of a Latin square: run i takes level i * k modulo `count` of the k-th
    parameter, k = 1, 2, …. If `count` is prime, every pair of columns has each level once. The
    number of ranks falls where other parameters rise, which costs least. The run with the fewest
    ranks comes first.
    """
    points = []
    for i in range(count):
        values = {}
        for k, (name, of_parameter) in enumerate(levels.items(), start=1):
            ordered = sorted(of_parameter, reverse=name == ranks)
            index = (i * k) % count
            values[name] = ordered[round(index * (len(ordered) - 1) / max(count - 1, 1))]
        points.append(Point.of(values, levels))

    return sorted(dict.fromkeys(points), key=lambda point: dict(point.values).get(ranks, 1.0))


def relative_uncertainty(laws: Sequence[LawDistribution], target: FloatArray) -> float:
    """Return the relative standard deviation of the sum of all call paths.

    Args:
        laws: of all call paths.
        target: (n, n_parameters); the result is the mean over these points.
    """
    total = sum(law.at(target) for law in laws)
    return float(np.mean(np.std(total, axis=0) / np.maximum(np.mean(total, axis=0), TINY)))


def choose_next_point(
    laws: Sequence[LawDistribution],
    candidates: Sequence[Point],
    target: FloatArray,
    cost: Cost,
    noise: float = NOISE,
) -> Point:
    """Return the candidate whose run lowers the variance at the target most, per cost^0.7.

    Args:
        laws: of all call paths.
        candidates: configurations that may be run.
        target: (n, n_parameters), what is to be predicted.
        cost: of a run.
        noise: of a run, relative.

    Raises:
        UsageError: there is no candidate.
    """
    if not candidates:
        raise UsageError("no configuration is left to run; give more levels")
    reductions = variance_reductions(laws, candidates, target, noise).sum(axis=0)
    costs = np.array([cost(point) for point in candidates])
    benefits = reductions / costs**COST_POWER

    # The first of equal candidates, even if rounding makes another the larger by a bit.
    return candidates[int(np.argmax(benefits >= benefits.max() * (1.0 - TIE)))]


def variance_reductions(
    laws: Sequence[LawDistribution],
    candidates: Sequence[Point],
    target: FloatArray,
    noise: float = NOISE,
) -> FloatArray:
    """Return by how much a run at each candidate lowers the variance of each law at the target.

    Returns:
        (n_laws, n_candidates), in the square of the unit of the values.
    """
    points = np.array([[value for _, value in point.values] for point in candidates])
    reductions = np.zeros((len(laws), len(candidates)))

    for row, law in zip(reductions, laws, strict=True):
        at_points, at_target = law.at(points), law.at(target)
        deviations = at_points - at_points.mean(axis=0)
        covariance = deviations.T @ (at_target - at_target.mean(axis=0)) / len(at_points)
        noise_variance = (max(noise, LEAST_NOISE) * at_points.mean(axis=0)) ** 2
        variance = at_points.var(axis=0) + noise_variance
        row[:] = (covariance**2).sum(axis=1) / np.maximum(variance, TINY)

    return reductions


def list_candidates(levels: Levels, existing: Sequence[Point]) -> list[Point]:
    """Return all configurations that have not been run.

    Raises:
        UsageError: there are too many.
    """
    count = int(np.prod([len(values) for values in levels.values()]))
    if count > CANDIDATES_LIMIT:
        raise UsageError(f"{count} candidates are too many; give fewer levels")

    excluded = set(existing)
    points = (
        Point(tuple(zip(levels, values, strict=True))) for values in product(*levels.values())
    )
    return [point for point in points if point not in excluded]
