"""The next configuration: where one more run tells most per core-hour about what is asked.

Each call path has many laws that its runs so far do not rule out. They are sampled: hypotheses over
the products of powers that its dependencies allow, each as probable as the Bayesian information
criterion says, with coefficients drawn from their posterior. A run at a configuration would lower
the variance at the target by

    cov(f(x), f(target))^2 / (var f(x) + noise^2)

summed over call paths, as for jointly normal values; the best run has the most of that per
cost^0.7. Runs that differ in everything come first, for without them nothing is known.
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

COST_POWER = 0.7  # below 1: with the cost itself only the smallest runs are ever chosen
LEAST_NOISE = 0.005  # relative, of a run, however exact it seems
FIRST_RUNS = 5  # a prime number, so that every pair of columns has each level once
CANDIDATES_LIMIT = 20_000  # configurations, each of which is compared with all laws


class LawDistribution(Protocol):
    """Laws that a call path may follow, by their samples."""

    def at(self, points: FloatArray) -> FloatArray:
        """Values of all samples: (SAMPLES, n_points)."""


@dataclass(frozen=True, slots=True)
class ConditionedLaw:
    """The same laws after a run at a point (1, n_parameters), whatever it will measure.

    For jointly normal values a run at x leaves of the covariance of a and b

        cov(a, b) - cov(a, x) cov(b, x) / (var x + noise^2)

    and the samples are changed to have that, by Potter's square root; their means stay.
    """

    law: LawDistribution
    point: FloatArray
    noise: float = NOISE

    def at(self, points: FloatArray) -> FloatArray:
        """Values of all samples: (SAMPLES, n_points)."""
        here, values = self.law.at(self.point)[:, 0], self.law.at(points)
        mean = here.mean()
        here = here - mean
        own = float(here @ here)
        noise = len(here) * (max(self.noise, LEAST_NOISE) * mean) ** 2
        left = math.sqrt(noise / max(own + noise, 1e-300))
        weight = (1.0 - left) / max(own, 1e-300)
        along = here @ (values - values.mean(axis=0))
        changed: FloatArray = values - weight * np.outer(here, along)
        return changed


def choose_first_runs(
    levels: Levels, count: int = FIRST_RUNS, *, ranks: str = RANKS
) -> list[Point]:
    """Runs that differ in everything, uncorrelated as far as that goes: a Latin square's rows.

    The i-th run takes level i of the first parameter and level i * k modulo the count of the k-th,
    k = 1, 2, …: for a prime number of levels every pair of columns has each level once. The number
    of ranks falls where others rise, which costs least; the run with the fewest ranks comes first.
    """
    found = []
    for i in range(count):
        values = {}
        for k, (name, of) in enumerate(levels.items(), start=1):
            ordered = sorted(of, reverse=name == ranks)
            at = (i * k) % count
            values[name] = ordered[round(at * (len(ordered) - 1) / max(count - 1, 1))]
        found.append(Point.of(values, levels))
    return sorted(dict.fromkeys(found), key=lambda one: dict(one.values).get(ranks, 1.0))


def relative_uncertainty(laws: Sequence[LawDistribution], target: FloatArray) -> float:
    """Relative standard deviation of the sum of all call paths, mean over (n, n_parameters)."""
    total = sum(law.at(target) for law in laws)
    return float(np.mean(np.std(total, axis=0) / np.maximum(np.mean(total, axis=0), 1e-300)))


def choose_next_point(
    laws: Sequence[LawDistribution],
    candidates: Sequence[Point],
    target: FloatArray,
    cost: Cost,
    noise: float = NOISE,
) -> Point:
    """The candidate whose run lowers the variance at the target most, per cost^0.7.

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
    gain = variance_reductions(laws, candidates, target, noise).sum(axis=0)
    prices = np.array([cost(point) for point in candidates])
    return candidates[int(np.argmax(gain / prices**COST_POWER))]


def variance_reductions(
    laws: Sequence[LawDistribution],
    candidates: Sequence[Point],
    target: FloatArray,
    noise: float = NOISE,
) -> FloatArray:
    """By how much a run at each candidate lowers the variance of each law at the target.

    Returns:
        (n_laws, n_candidates), in the square of the unit of the values.
    """
    at = np.array([[value for _, value in point.values] for point in candidates])
    found = np.zeros((len(laws), len(candidates)))
    for row, law in zip(found, laws, strict=True):
        here, there = law.at(at), law.at(target)
        here_c, there_c = here - here.mean(axis=0), there - there.mean(axis=0)
        covariance = here_c.T @ there_c / len(here)
        spread = here.var(axis=0) + (max(noise, LEAST_NOISE) * here.mean(axis=0)) ** 2
        row[:] = (covariance**2).sum(axis=1) / np.maximum(spread, 1e-300)
    return found


def list_candidates(levels: Levels, taken: Sequence[Point]) -> list[Point]:
    """All configurations that were not run yet.

    Raises:
        UsageError: there are too many.
    """
    count = int(np.prod([len(of) for of in levels.values()]))
    if count > CANDIDATES_LIMIT:
        raise UsageError(f"{count} candidates are too many; give fewer levels")
    found = (Point(tuple(zip(levels, at, strict=True))) for at in product(*levels.values()))
    return [point for point in found if point not in set(taken)]
