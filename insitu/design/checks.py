"""Check points: whether parameters that moved together act together in a call path after all.

A deduced design moves parameters together that no call path shares. Where one slows the other's
call paths all the same, through caches or contention, no count shows it, and the design cannot
tell. At a check point they move apart: a call path that takes another time there than its own
parameters explain depends on the other one, too.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from insitu.design.dependencies import Dependency, Nest
from insitu.design.laws import NOISE, Law, sample_laws
from insitu.entities import Finding, number
from insitu.modeling.measurement import FloatArray
from insitu.units import percent

SIGNIFICANCE = 0.05  # probability of any false alarm, over all call paths
LEAST_EFFECT = 0.05  # relative; less does not spoil what is predicted
FACTOR = 2.0  # above it people read factors, not percent
Pair = tuple[str, str]


@dataclass(frozen=True, slots=True)
class HiddenInteraction:
    """An interaction that only a check point shows.

    pair: the call path's own parameter, and the one that acts on it unseen. excess: measured over
    predicted, minus 1, at the check point that is farthest off. dependency: the call path's, with
    the pair allowed. law: what it may follow, from all runs.
    """

    callpath: str
    pair: Pair
    excess: float
    at: tuple[tuple[str, float], ...]
    dependency: Dependency
    law: Law

    def finding(self, *, is_counted: bool = False) -> Finding:
        """The same for people: of times, or of how often it is called."""
        where = ", ".join(f"{name}={number(value)}" for name, value in self.at)
        word = "more" if self.excess > 0 else "less"
        verb, adverb = ("is called", "often") if is_counted else ("takes", "long")
        much = f"{percent(abs(self.excess))} {word}{' often' if is_counted else ''}"
        than = "than"
        if self.excess > FACTOR:
            much, than = f"{self.excess + 1:.3g} times as {adverb}", "as"
        showed = "which the pilot runs did not show" if is_counted else "which no count shows"
        text = (
            f"{verb} {much} at {where} {than} {self.pair[0]} explains:"
            f" {self.pair[0]} and {self.pair[1]} act together, {showed}"
        )
        return Finding("hidden-interaction", text, self.callpath)


@dataclass(frozen=True, slots=True)
class MeasuredPoints:
    """Runs of a design: points (n_points, n_parameters), values (n_callpaths, n_points) in s."""

    points: FloatArray
    values: FloatArray


def find_hidden_interactions(
    runs: MeasuredPoints,
    checks: MeasuredPoints,
    names: Sequence[str],
    dependencies: Sequence[Dependency],
    confounded: Sequence[Pair],
    *,
    noise: float = NOISE,
) -> list[HiddenInteraction]:
    """Compare check points with what the other runs predict of them, one call path after another.

    The laws that a call path's runs allow give a mean and a variance at each check point, to which
    the noise of a run is added: the larger of what is given and what the runs scatter. The
    squares of the distances in such units follow chi-square; a call path is named where they are
    so improbable that, of all call paths, 5 % would have one by chance, and the farthest is 5 % off
    or more. Where several parameters may be the cause, it is the one with which all runs are
    explained best.

    Args:
        runs: of the design, without check points.
        checks: of the check points.
        names: of the parameters, in the order of the columns.
        dependencies: of the call paths, in the order of the rows.
        confounded: pairs of parameters that the design moves together.
        noise: of a run, relative, at least.
    """
    if not len(checks.points):
        return []
    from scipy.special import chdtrc  # slow to load, and not needed to gather a run

    together = [
        (i, pairs) for i, one in enumerate(dependencies) if (pairs := _pairs(one, confounded))
    ]
    found = []
    laws = sample_laws(runs.points, runs.values, names, dependencies, noise=noise)
    for i, pairs in together:
        law = laws[i]
        values = checks.values[i]
        expected, spread = _expected(law, runs, i, checks.points, noise)
        distances = (values - expected) / spread
        probability = float(chdtrc(len(values), float(np.sum(distances**2))))
        at = int(np.argmax(np.abs(distances)))
        excess = float(values[at] / expected[at] - 1)
        if probability >= SIGNIFICANCE / len(together) or abs(excess) < LEAST_EFFECT:
            continue
        everything = MeasuredPoints(
            np.vstack([runs.points, checks.points]), np.hstack([runs.values, checks.values])
        )
        tried = []
        for pair in pairs:
            allowed = add_interaction(dependencies[i], pair)
            row = everything.values[i : i + 1]
            (law,) = sample_laws(everything.points, row, names, [allowed], noise=noise)
            tried.append((_misfit(law, everything, i), pair, allowed, law))
        _, pair, allowed, refitted = min(tried, key=lambda one: one[0])
        place = tuple(zip(names, map(float, checks.points[at]), strict=True))
        found.append(
            HiddenInteraction(dependencies[i].callpath, pair, excess, place, allowed, refitted)
        )
    return found


def add_interaction(dependency: Dependency, pair: Pair) -> Dependency:
    """The same with what depends on the first of the pair depending on both, besides."""
    own, other = pair
    more = [
        Nest.of(nest.parameters | {other}) for nest in dependency.nests if own in nest.parameters
    ]
    nests = tuple(dict.fromkeys((*dependency.nests, Nest.of([other]), *more)))
    return Dependency(dependency.callpath, nests, dependency.share, dependency.status)


def _pairs(dependency: Dependency, confounded: Sequence[Pair]) -> list[Pair]:
    """Its own parameters with those that move with them but are not its own."""
    both = (*confounded, *((other, one) for one, other in confounded))
    own = dependency.parameters
    return [(one, other) for one, other in both if one in own and other not in own]


def _expected(
    law: Law, runs: MeasuredPoints, row: int, points: FloatArray, noise: float
) -> tuple[FloatArray, FloatArray]:
    """Mean and standard deviation of what a run at each of the points takes."""
    sampled = law.at(points)
    mean = np.maximum(sampled.mean(axis=0), 1e-300)
    scatter = max(noise, _misfit(law, runs, row))
    return mean, np.sqrt(sampled.var(axis=0) + (scatter * mean) ** 2)


def _misfit(law: Law, runs: MeasuredPoints, row: int) -> float:
    """Root of the mean square of the relative distances between runs and laws."""
    values = np.maximum(runs.values[row], 1e-300)
    squares = (law.at(runs.points).mean(axis=0) / values - 1) ** 2
    return math.sqrt(float(squares.sum()) / max(len(squares) - 2, 1))
