"""Ramps: values of ranks that rise or fall from rank to rank, as numbers of samples.

One rank is hardly above the next one, so that none of them is certainly; all ranks and scales
together show it.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from insitu.modeling.measurement import FloatArray

LEAST_RANKS = 4  # that tell a ramp from one slow rank
LEAST_SCALES = 3  # of so many ranks
# By which samples rise from rank to rank, and likewise without the rank that has most. Of 222
# campaigns of tests/evaluation, ramps have 5.1 or more, all other functions 3.6 or less.
LEAST_SIGMA = 4.5
STEEPEST = 2.0  # slope over the mean, of work in proportion to the number of a rank


@dataclass(frozen=True, slots=True)
class Ramp:
    """A line through the samples of ranks, over their position from -1/2 to 1/2.

    slope: over the mean. sigma: by how many standard errors it differs from 0.
    """

    slope: float
    sigma: float


def find_ramp(samples: Sequence[FloatArray]) -> Ramp | None:
    """The ramp of samples at several scales, each (p,); None unless it is certain."""
    known = [vector for vector in samples if vector.any()]
    if len(known) < LEAST_SCALES:
        return None
    positions = [(np.arange(len(vector)) + 0.5) / len(vector) - 0.5 for vector in known]
    pairs = list(zip(known, positions, strict=True))
    directions = {bool(vector @ at > 0) for vector, at in pairs}
    if len(directions) > 1:
        return None
    slowest = [int(np.argmax(vector)) for vector in known]
    others = [
        (np.delete(vector, rank), np.delete(at, rank))
        for (vector, at), rank in zip(pairs, slowest, strict=True)
    ]
    whole, without_slowest = _fit(pairs), _fit(others)
    if whole is None or without_slowest is None:
        return None
    is_certain = min(abs(whole.sigma), abs(without_slowest.sigma)) >= LEAST_SIGMA
    return whole if is_certain else None


def _fit(pairs: Sequence[tuple[FloatArray, FloatArray]]) -> Ramp | None:
    """The line with one slope for all scales, through samples over positions, each (n_ranks,).

    Its error is that of a Poisson distribution, or of the residuals if this is larger.

    Returns:
        None without samples.
    """
    lines = [(vector, float(vector.mean()), at - at.mean()) for vector, at in pairs if vector.any()]
    covariance = sum(float(vector @ centred) for vector, _, centred in lines)
    variance = sum(mean * float(centred @ centred) for _, mean, centred in lines)
    if variance <= 0:
        return None
    slope = covariance / variance
    residuals = sum(
        float(np.sum((vector - mean * (1 + slope * centred)) ** 2)) / mean
        for vector, mean, centred in lines
    )
    freedom = sum(len(vector) - 1 for vector, *_ in lines) - 1
    dispersion = max(residuals / max(freedom, 1), 1.0)
    return Ramp(
        slope=min(max(slope, -STEEPEST), STEEPEST),
        sigma=covariance / float(np.sqrt(variance * dispersion)),
    )
