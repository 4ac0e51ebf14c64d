"""Axes and limits that all plots of models share, whatever draws them."""

import math
from dataclasses import dataclass

import numpy as np

from insitu.modeling.measurement import FloatArray, IntArray

FARTHER = 2.0  # curves end at this multiple of the largest measured coordinate
WIDE = 8.0  # ratio of the largest to the smallest value from which an axis is logarithmic
STRIP_RANKS = 512  # ranks in a strip; larger runs show an even selection
OVERSHOOT = 1.2  # positions beyond the axis are kept up to this fraction, then clipped


@dataclass(frozen=True, slots=True)
class Axis:
    """Maps values from `low` to `high` to positions from `start` to `end` on the page."""

    low: float
    high: float
    start: float
    end: float
    is_log: bool

    def __call__(self, values: FloatArray) -> FloatArray:
        """Positions of values, of the same shape; NaN stays NaN."""
        if self.is_log:
            ratio = math.log(self.high / self.low)
            fraction = np.log(np.maximum(values, self.low) / self.low) / ratio
        else:
            fraction = (values - self.low) / ((self.high - self.low) or 1.0)
        return np.asarray(self.start + np.clip(fraction, 0.0, OVERSHOOT) * (self.end - self.start))

    def ticks(self, most: int) -> list[float]:
        """About `most` round values within the axis, or fewer."""
        if self.is_log:
            # Powers of two suit numbers of ranks; over many decades they would be too dense.
            base = 2.0 if self.high / self.low < 5000 and self.low >= 1 else 10.0
            first = math.ceil(math.log(self.low, base) - 1e-9)
            last = math.floor(math.log(self.high, base) + 1e-9)
            step = max(1, math.ceil((last - first + 1) / most))
            return [base**power for power in range(first, last + 1, step)]

        raw = (self.high - self.low) / most or 1.0
        decade = 10.0 ** math.floor(math.log10(raw))
        size = next(decade * digit for digit in (1, 2, 5, 10) if decade * digit >= raw * 0.999)
        first = math.ceil(self.low / size)
        last = math.floor(self.high / size + 1e-9)
        return [size * i for i in range(first, last + 1)]


def is_wide(low: float, high: float) -> bool:
    """Whether values from `low` to `high` need a logarithmic axis."""
    return low > 0 and high / low >= WIDE


def select_evenly(n_ranks: int) -> IntArray:
    """Indices of the ranks drawn in a strip: (n,), ascending; all ranks if they fit."""
    indices = np.linspace(0, n_ranks - 1, min(n_ranks, STRIP_RANKS))
    return np.unique(indices.astype(np.intp))
