"""What pictures of models have in common, whatever draws them: axes, how far, which ranks."""

import math
from dataclasses import dataclass

import numpy as np

from insitu.modeling.measurement import FloatArray, IntArray

FARTHER = 2.0  # times the largest coordinate measured, where a curve ends
WIDE = 8.0  # a spread above which an axis is logarithmic
STRIP_RANKS = 512  # ranks in a strip; of more, evenly chosen ones


@dataclass(frozen=True, slots=True)
class Axis:
    """Values to places on the page; logarithmic where the values spread far."""

    low: float
    high: float
    start: float
    end: float
    is_log: bool

    def __call__(self, values: FloatArray) -> FloatArray:
        """Places; NaN stays."""
        if self.is_log:
            part = np.log(np.maximum(values, self.low) / self.low) / math.log(self.high / self.low)
        else:
            part = (values - self.low) / ((self.high - self.low) or 1.0)
        return np.asarray(self.start + np.clip(part, 0.0, 1.2) * (self.end - self.start))

    def ticks(self, most: int) -> list[float]:
        """Round values within, no more than about `most`."""
        if self.is_log:
            base = 2.0 if self.high / self.low < 5000 and self.low >= 1 else 10.0
            first = math.ceil(math.log(self.low, base) - 1e-9)
            last = math.floor(math.log(self.high, base) + 1e-9)
            step = max(1, math.ceil((last - first + 1) / most))
            return [base**power for power in range(first, last + 1, step)]
        raw = (self.high - self.low) / most or 1.0
        size = 10.0 ** math.floor(math.log10(raw))
        step_size = next(size * m for m in (1, 2, 5, 10) if size * m >= raw * 0.999)
        first = math.ceil(self.low / step_size)
        return [step_size * i for i in range(first, math.floor(self.high / step_size + 1e-9) + 1)]


def is_wide(low: float, high: float) -> bool:
    """Whether values between these need a logarithmic axis."""
    return low > 0 and high / low >= WIDE


def evenly(ranks: int) -> IntArray:
    """Which of so many ranks are drawn in a strip: (n,), ascending, all where there is room."""
    return np.unique(np.linspace(0, ranks - 1, min(ranks, STRIP_RANKS)).astype(np.intp))
