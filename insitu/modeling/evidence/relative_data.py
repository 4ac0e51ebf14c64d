"""Series in relative form, which is what hypotheses are fitted to."""

from dataclasses import dataclass

import numpy as np

from insitu.modeling.measurement import FloatArray, IntArray


@dataclass(frozen=True, slots=True)
class Data:
    """Series s in relative form on n points.

    rows: (T, n), terms scaled to a largest value of 1; trust: (s, n), how many measurements each
    value is worth, 0 where not measured; weights: (s, n), trust by the square of the size that
    errors are relative to; moments: (s, n), weight times value; squares: (s,) sum of weight times
    squared value; counts: (s,) measured points.
    """

    rows: FloatArray
    trust: FloatArray
    weights: FloatArray
    moments: FloatArray
    squares: FloatArray
    counts: FloatArray

    def part(self, series: IntArray | slice, points: slice = slice(None)) -> "Data":
        """The series of these numbers (k,), on some of the points."""
        weights, moments = self.weights[series, points], self.moments[series, points]
        safe = np.where(weights > 0, weights, 1.0)
        return Data(
            self.rows[:, points],
            self.trust[series, points],
            weights,
            moments,
            (moments**2 / safe).sum(axis=1),
            (weights > 0).sum(axis=1).astype(float),
        )


def relative_data(
    rows: FloatArray, trust: FloatArray, values: FloatArray, size: FloatArray
) -> Data:
    """Data of values (s, n) with errors relative to `size` (s, n), which is positive.

    Args:
        rows: (T, n) terms. trust: (s, n), 0 where not measured.
    """
    weights = np.where(trust > 0, trust / size**2, 0.0)
    moments = weights * values
    counts = (trust > 0).sum(axis=1).astype(float)
    return Data(rows, trust, weights, moments, (moments * values).sum(axis=1), counts)
