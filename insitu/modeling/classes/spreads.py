"""Continuous distributions of times that differ between ranks in no order, without groups.

The values of a run are spread evenly or exponentially above a base, with normal noise. Such a
distribution is a mixture of many normal distributions whose shares and distances are known, so that
expectation maximisation fits it as it fits classes.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from insitu.modeling.classes.candidates import (
    CONVERGED,
    HALF_LOG_2PI,
    OUTLIER_DENSITY,
    OUTLIER_SHARE,
)
from insitu.modeling.classes.univariate import merge_values, scatter_within
from insitu.modeling.measurement import FloatArray, IntArray

# Of equal probability. With noise of 1 % and values that differ by half, twice as many change the
# criterion of 2,000 values by less than 4.
N_CELLS = 40
N_TAIL_CELLS = 6  # that the last of them is divided into, each half as probable as the one before
MERGED = 0.5  # spreads of the noise, within which values are merged
ROUNDS = 25  # of expectation and maximisation
START_FACTORS = (0.6, 1.0, 1.6)  # of the scale at which a distribution has the variance of values


@dataclass(frozen=True, slots=True)
class _Cells:
    """A distribution in cells: probability, middle and width of each, (n_cells,).

    direction: 1 where values lie above the base, -1 where below.
    """

    share: FloatArray
    middle: FloatArray
    width: FloatArray
    direction: int

    def offsets(self, scale: float) -> FloatArray:
        """The logarithm of the middle of each cell, relative to the base."""
        offsets: FloatArray = self.direction * np.log1p(scale * self.middle)
        return offsets

    def slopes(self, scale: float) -> FloatArray:
        """The derivatives of these to the scale."""
        slopes: FloatArray = self.direction * self.middle / (1 + scale * self.middle)
        return slopes

    def blur(self, scale: float) -> FloatArray:
        """The variance with which cells, as normal distributions, join without gaps."""
        variance: FloatArray = (scale * self.width / (1 + scale * self.middle) / 2) ** 2
        return variance


@dataclass(frozen=True, slots=True)
class _Values:
    """Merged logarithms of all runs: value, ranks behind it and run, (n,); scatter within them."""

    y: FloatArray
    weight: FloatArray
    run: IntArray
    within: float
    floor: float


def _even_cells() -> _Cells:
    edges = np.arange(N_CELLS + 1) / N_CELLS
    middle = (edges[1:] + edges[:-1]) / 2
    return _Cells(np.full(N_CELLS, 1 / N_CELLS), middle, np.diff(edges), 1)


def _exponential_cells(direction: int) -> _Cells:
    above = 1 - np.arange(N_CELLS) / N_CELLS  # the probability of larger values
    above = np.concatenate([above, above[-1] * 0.5 ** np.arange(1, N_TAIL_CELLS + 1)])
    edges = -np.log(above)
    share = -np.diff(np.append(above, 0.0))
    width = np.append(np.diff(edges), 2.0)  # the last is open; its standard deviation is 1
    middle = np.append((edges[1:] + edges[:-1]) / 2, edges[-1] + 1)
    return _Cells(share, middle, width, direction)


SPREADS = (_even_cells(), _exponential_cells(1), _exponential_cells(-1))


def spread_criterion(logs: Sequence[FloatArray], *, floor: float) -> float:
    """The Bayesian information criterion of the continuous distribution that fits best.

    Each run has a base of its own, which is free in all descriptions; all have one scale.

    Args:
        logs: per run the logarithm of one value per rank.
        floor: least relative spread of ranks.
    """
    merged = merge_values(logs, MERGED * floor)
    values = _Values(
        y=np.concatenate([y for y, _ in merged]),
        weight=np.concatenate([weight for _, weight in merged]),
        run=np.repeat(np.arange(len(merged)), [len(y) for y, _ in merged]),
        within=scatter_within(logs, merged),
        floor=floor,
    )
    likelihood = max(_fit(values, cells, factor) for cells in SPREADS for factor in START_FACTORS)
    ranks = sum(len(run_logs) for run_logs in logs)
    # Its scale and the noise are parameters, and the choice of the distribution is paid for.
    return float(2 * np.log(ranks) + 2 * np.log(len(SPREADS)) - 2 * likelihood)


def _fit(values: _Values, cells: _Cells, factor: float) -> float:
    """The largest log-likelihood of a distribution of any scale and noise."""
    y, weight, run, floor = values.y, values.weight, values.run, values.floor
    per_run = np.bincount(run, weight)
    above = y - (np.bincount(run, weight * y) / per_run)[run]
    deviation = float(np.sqrt(weight @ above**2 / weight.sum()))
    own = float(np.sqrt(cells.share @ (cells.middle - cells.share @ cells.middle) ** 2))
    scale, noise = factor * float(np.expm1(deviation)) / own, floor
    base = (y - above) - cells.share @ cells.offsets(scale)

    best = -np.inf
    for _ in range(ROUNDS):
        offsets, slopes, blur = cells.offsets(scale), cells.slopes(scale), cells.blur(scale)
        variance = noise**2 + blur
        error = (y - base)[:, None] - offsets
        density = np.log((1 - OUTLIER_SHARE) * cells.share / np.sqrt(variance)) - HALF_LOG_2PI
        density = density - error**2 / (2 * variance)
        highest = np.maximum(density.max(axis=1), OUTLIER_DENSITY)
        density = np.exp(density - highest[:, None])
        total = density.sum(axis=1) + np.exp(OUTLIER_DENSITY - highest)
        likelihood = float(weight @ (np.log(total) + highest)) - values.within / (2 * noise**2)

        is_converged = abs(likelihood - best) < CONVERGED
        best = max(best, likelihood)
        if is_converged:
            break

        share = density / total[:, None] * weight[:, None]
        precise = share / variance
        pull = np.bincount(run, (precise * error).sum(axis=1))
        moved = pull / np.maximum(np.bincount(run, precise.sum(axis=1)), 1e-9)
        base = base + moved[run]
        error = error - moved[run][:, None]

        step = float((precise * error * slopes).sum() / max((precise * slopes**2).sum(), 1e-300))
        step = float(np.clip(step, -scale / 2, scale))
        error = error - slopes * step
        scale += step
        squares = float((share * (error**2 - blur)).sum()) + values.within
        noise = float(np.sqrt(max(squares / max(share.sum(), 1e-9), floor**2)))
    return best
