"""Fits of the hypotheses to all points of series and without some of them, each computed once.

The newest and the first point are examined, and the largest scales are held out: all need fits of
the other points. For a few series most of the time goes to calls, not to numbers, so all fits of a
small pool are computed at once, with a weight of zero for the points that are left out.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from insitu.modeling.evidence.hypothesis_space import HypothesisSpace
from insitu.modeling.evidence.noise import BoolArray
from insitu.modeling.evidence.normal_equations import Candidates
from insitu.modeling.evidence.posterior import fit_hypotheses, log_total
from insitu.modeling.evidence.relative_data import RelativeData
from insitu.modeling.measurement import FloatArray, IntArray

BOUND_MARGIN = 1e-6  # of a logarithm, for rounding

LeftOut = tuple[int, ...]  # indices of points, ascending


@dataclass(frozen=True, slots=True)
class PointFits:
    """Fits of series s on n points, computed when they are first needed.

    data: of the series. levels: (L,) of noise. known: fits without some of the points.
    """

    data: RelativeData
    space: HypothesisSpace
    levels: FloatArray
    known: dict[LeftOut, Candidates] = field(default_factory=dict)

    def without(self, left_out: LeftOut = ()) -> Candidates:
        """Return the fits of all points but these."""
        if left_out not in self.known:
            n_points = self.data.weights.shape[1]
            n_kept = n_points - len(left_out)
            points: slice | BoolArray = slice(0, n_kept)
            if left_out != tuple(range(n_kept, n_points)):
                points = ~np.isin(np.arange(n_points), left_out)
            data = self.data.select(slice(None), points) if left_out else self.data
            self.known[left_out] = fit_hypotheses(data, self.space, self.levels)
        return self.known[left_out]

    def compute(self, all_left_out: Sequence[LeftOut]) -> None:
        """Compute the fits without each of these at once."""
        n_series, n_points = self.data.weights.shape
        is_used = np.ones((len(all_left_out), n_points), dtype=bool)
        for i, left_out in enumerate(all_left_out):
            is_used[i, list(left_out)] = False

        fits = fit_hypotheses(self.data.repeat(is_used), self.space, self.levels)
        for i, left_out in enumerate(all_left_out):
            self.known[left_out] = fits.select(slice(i * n_series, (i + 1) * n_series))

    def find_possibly_off(
        self,
        point: int,
        noise: FloatArray,
        *,
        prior: float,
        max_density: float,
        min_log_odds: float,
    ) -> IntArray:
        """Return the series in which a point may leave the law of the others: indices (k,).

        The others are excluded by a bound: no shift makes the point more probable than the largest
        density of its prior. Most series are excluded, and their shifts need not be weighed.

        Args:
            point: its index. noise: (s, L), prior of the levels. prior: that the point is off.
            max_density: the largest density of the logarithm of the point. min_log_odds: that it
                is off, below which a series is excluded.
        """
        repetitions = self.data.repetitions[:, point]
        log_density = np.log(max_density / np.sqrt(np.where(repetitions > 0, repetitions, 1.0)))
        off = log_total(self.without((point,)).log_evidence, noise) + log_density + np.log(prior)
        bound = off - log_total(self.without().log_evidence, noise) - np.log(1 - prior)
        is_excluded = bound < min_log_odds - BOUND_MARGIN  # NaN is not
        return np.flatnonzero(~is_excluded)

    def select(self, rows: IntArray | slice) -> "PointFits":
        """Return the fits of some of the series (k,)."""
        known = {left_out: fits.select(rows) for left_out, fits in self.known.items()}
        return replace(self, data=self.data.select(rows), known=known)

    def at_levels(self, chosen: IntArray) -> "PointFits":
        """Return the fits at some of the levels: indices (k,).

        The arrays are contiguous, as they are in another process: sums depend on it in the last
        bit.
        """
        known = {}
        for left_out, fits in self.known.items():
            log_evidence = np.ascontiguousarray(fits.log_evidence[:, :, chosen])
            known[left_out] = replace(fits, log_evidence=log_evidence)
        return replace(self, levels=self.levels[chosen], known=known)
