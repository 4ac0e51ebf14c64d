"""Series in relative form: the data that hypotheses are fitted to."""

from dataclasses import dataclass, replace

import numpy as np

from insitu.modeling.evidence.noise import BoolArray
from insitu.modeling.measurement import FloatArray, IntArray
from insitu.modeling.series import SIZE_OF_ZERO

ZERO_GAP = 1e-9  # relative to the next larger value: what is smaller is zero, and so is all below
MIN_SIZE = 1e-50  # of all other errors, so that products of three weights stay finite


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

    def select(
        self, series: IntArray | slice, points: slice | BoolArray = slice(None)
    ) -> "RelativeData":
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

    def repeat(self, is_used: BoolArray) -> "RelativeData":
        """Return the series k times, each time with a weight of zero for other points: (k · s, n).

        Args:
            is_used: (k, n), the points that keep their weight.
        """
        n_points = self.weights.shape[1]

        def repeat(values: FloatArray) -> FloatArray:
            return np.where(is_used[:, None], values, 0.0).reshape(-1, n_points)

        repeated = replace(
            self,
            repetitions=repeat(self.repetitions),
            weights=repeat(self.weights),
            moments=repeat(self.moments),
        )
        return repeated.select(slice(None))


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


def smallest_sizes(relative: FloatArray) -> FloatArray:
    """Return the least size that the error of each value is relative to: (s, n).

    A value is zero if it and all smaller ones are so far below the next larger value that rounding
    may have left them, as a difference of large numbers does. Values may span any range without
    such a gap.

    Args:
        relative: (s, n), divided by the largest of their series.
    """
    sizes = np.abs(relative)
    ascending = np.sort(sizes, axis=1)
    is_gap = ascending[:, :-1] < ZERO_GAP * ascending[:, 1:]
    above_gaps = np.where(is_gap, ascending[:, 1:], 0.0)
    smallest = above_gaps.max(axis=1, initial=0.0)[:, None]  # of the values that are not zero
    is_zero = (sizes < smallest) | (sizes == 0)
    return np.where(is_zero, SIZE_OF_ZERO, MIN_SIZE)
