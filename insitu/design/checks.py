"""Check points: whether parameters that are varied together act together in a call path after all.

A deduced design varies parameters together if no call path shares them. If one of them still slows
down the call paths of the other, through caches or contention, no count shows it, and the design
cannot tell. At a check point the parameters move apart: a call path whose time there differs from
what its own parameters predict depends on the other parameter, too.
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
LEAST_EFFECT = 0.05  # relative; smaller effects do not spoil predictions
FACTOR = 2.0  # larger effects are printed as a factor instead of percent
COEFFICIENTS = 2  # of a typical law, for the degrees of freedom of its residuals
TINY = 1e-300  # keeps divisions finite
Pair = tuple[str, str]


@dataclass(frozen=True, slots=True)
class HiddenInteraction:
    """An interaction that only a check point shows.

    Attributes:
        callpath: where it acts.
        pair: a parameter of the call path, and the parameter that acts on it unseen.
        excess: measured over predicted, minus 1, at the check point with the largest deviation.
        at: that check point.
        dependency: of the call path, with the pair added.
        law: of the call path, fitted to all runs with that dependency.
    """

    callpath: str
    pair: Pair
    excess: float
    at: tuple[tuple[str, float], ...]
    dependency: Dependency
    law: Law

    def finding(self, *, is_counted: bool = False) -> Finding:
        """Describe the interaction, from times or from numbers of calls."""
        point = ", ".join(f"{name}={number(value)}" for name, value in self.at)
        own, other = self.pair

        if self.excess > FACTOR:
            adverb = "often" if is_counted else "long"
            comparison = f"{self.excess + 1:.3g} times as {adverb} at {point} as"
        else:
            word = "more" if self.excess > 0 else "less"
            word = f"{word} often" if is_counted else word
            comparison = f"{percent(abs(self.excess))} {word} at {point} than"

        verb = "is called" if is_counted else "takes"
        evidence = "the pilot runs did not show this" if is_counted else "no count shows this"
        text = f"{verb} {comparison} {own} explains: {own} and {other} act together; {evidence}"
        return Finding("hidden-interaction", text, self.callpath)


@dataclass(frozen=True, slots=True)
class MeasuredPoints:
    """Measured values of some points of a design.

    points: (n_points, n_parameters). values: (n_callpaths, n_points), in seconds or calls.
    """

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
    """Compare check points with what the other runs predict, for each call path.

    The laws that the runs of a call path allow give a mean and a variance at each check point. The
    noise of a run is added: the given one, or the scatter of the runs if that is larger. The sum of
    the squared standardised deviations follows a chi-square distribution. An interaction is
    reported if the sum is so improbable that any call path would reach it by chance in 5 % of
    designs, and if the largest deviation is 5 % or more. If several parameters may be the cause,
    the one that explains all runs best is reported.

    Args:
        runs: of the design, without check points.
        checks: of the check points.
        names: of the parameters, in the order of the columns.
        dependencies: of the call paths, in the order of the rows.
        confounded: pairs of parameters that the design varies together.
        noise: of a run, relative, at least.
    """
    if not len(checks.points):
        return []
    from scipy.special import chdtrc  # slow to load, and not needed to collect a run

    suspects = []
    for i, dependency in enumerate(dependencies):
        pairs = _candidate_pairs(dependency, confounded)
        if pairs:
            suspects.append((i, pairs))

    interactions = []
    for i, pairs in suspects:
        (law,) = sample_laws(
            runs.points, runs.values[i : i + 1], names, [dependencies[i]], noise=noise
        )
        values = checks.values[i]
        expected, deviation = _predict(law, runs, i, checks.points, noise)
        distances = (values - expected) / deviation
        probability = float(chdtrc(len(values), float(np.sum(distances**2))))
        farthest = int(np.argmax(np.abs(distances)))
        excess = float(values[farthest] / expected[farthest] - 1)
        if probability >= SIGNIFICANCE / len(suspects) or abs(excess) < LEAST_EFFECT:
            continue

        all_points = MeasuredPoints(
            np.vstack([runs.points, checks.points]), np.hstack([runs.values, checks.values])
        )
        pair, extended, law = _best_pair(all_points, i, names, dependencies[i], pairs, noise=noise)
        at = tuple(zip(names, map(float, checks.points[farthest]), strict=True))
        interactions.append(
            HiddenInteraction(
                callpath=dependencies[i].callpath,
                pair=pair,
                excess=excess,
                at=at,
                dependency=extended,
                law=law,
            )
        )

    return interactions


def add_interaction(dependency: Dependency, pair: Pair) -> Dependency:
    """Let every nest that depends on the first of the pair also depend on both."""
    own, other = pair
    extended = [
        Nest.of(nest.parameters | {other}) for nest in dependency.nests if own in nest.parameters
    ]
    nests = tuple(dict.fromkeys((*dependency.nests, Nest.of([other]), *extended)))
    return Dependency(dependency.callpath, nests, dependency.share, dependency.status)


def _best_pair(
    measured: MeasuredPoints,
    row: int,
    names: Sequence[str],
    dependency: Dependency,
    pairs: Sequence[Pair],
    *,
    noise: float,
) -> tuple[Pair, Dependency, Law]:
    """Return the pair that explains all runs best, with the extended dependency and its law."""
    values = measured.values[row : row + 1]

    fits = []
    for pair in pairs:
        extended = add_interaction(dependency, pair)
        (law,) = sample_laws(measured.points, values, names, [extended], noise=noise)
        fits.append((_misfit(law, measured, row), pair, extended, law))

    _, pair, extended, law = min(fits, key=lambda fit: fit[0])
    return pair, extended, law


def _candidate_pairs(dependency: Dependency, confounded: Sequence[Pair]) -> list[Pair]:
    """Pair the parameters of a call path with those that move with them but are not its own."""
    own = dependency.parameters
    reversed_pairs = [(second, first) for first, second in confounded]
    return [
        (first, second)
        for first, second in (*confounded, *reversed_pairs)
        if first in own and second not in own
    ]


def _predict(
    law: Law, runs: MeasuredPoints, row: int, points: FloatArray, noise: float
) -> tuple[FloatArray, FloatArray]:
    """Return mean and standard deviation (n_points,) of a run at each of the points."""
    sampled = law.at(points)
    mean = np.maximum(sampled.mean(axis=0), TINY)
    scatter = max(noise, _misfit(law, runs, row))
    return mean, np.sqrt(sampled.var(axis=0) + (scatter * mean) ** 2)


def _misfit(law: Law, runs: MeasuredPoints, row: int) -> float:
    """Return the root mean square of the relative residuals."""
    values = np.maximum(runs.values[row], TINY)
    squares = (law.at(runs.points).mean(axis=0) / values - 1) ** 2
    return math.sqrt(float(squares.sum()) / max(len(squares) - COEFFICIENTS, 1))
