"""Series in relative form: the data that hypotheses are fitted to."""

from dataclasses import dataclass

import numpy as np

from insitu.modeling.measurement import FloatArray, IntArray


@dataclass(frozen=True, slots=True)
class RelativeData:
    """Series s on n points, with what the normal equations need.

    terms: (T, n), each scaled to a largest value of 1. repetitions: (s, n), how many independent
    measurements each value is worth, 0 where nothing was measured. weights: (s, n), repetitions
    divided by the square of the size that errors are relative to. moments: (s, n), weight times
    value. squares: (s,), sum of weight times squared value. counts: (s,), measured points.
    """

    terms: FloatArray
    repetitions: FloatArray
    weights: FloatArray
    moments: FloatArray
    squares: FloatArray
    counts: FloatArray

    def select(self, series: IntArray | slice, points: slice = slice(None)) -> "RelativeData":
        """Return the data of some series (k,), on some of the points."""
        weights, moments = self.weights[series, points], self.moments[series, points]
        divisors = np.where(weights > 0, weights, 1.0)

        return RelativeData(
            terms=self.terms[:, points],
            repetitions=self.repetitions[series, points],
            weights=weights,
            moments=moments,
            squares=(moments**2 / divisors).sum(axis=1),
            counts=(weights > 0).sum(axis=1).astype(float),
        )


def scale_errors(
    terms: FloatArray, repetitions: FloatArray, values: FloatArray, size: FloatArray
) -> RelativeData:
    """Return data whose errors are relative to `size`.

    Args:
        terms: (T, n), scaled. repetitions: (s, n), 0 where nothing was measured.
        values: (s, n). size: (s, n), positive.
    """
    weights = np.where(repetitions > 0, repetitions / size**2, 0.0)
    moments = weights * values
    return RelativeData(
        terms=terms,
        repetitions=repetitions,
        weights=weights,
        moments=moments,
        squares=(moments * values).sum(axis=1),
        counts=(repetitions > 0).sum(axis=1).astype(float),
    )
