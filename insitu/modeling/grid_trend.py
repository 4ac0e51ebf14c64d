"""Trends over several parameters: how growth along each goes on from its newest values.

Beyond the largest value x̂ₖ of a parameter, ln y grows by

    gₖ = slopeₖ · φ(decayₖ, ln xₖ/x̂ₖ)

with slope and decay of the damped trend of `local_laws.py` along the lines of the grid. Functions
of several parameters have no hypothesis for growth that ends or speeds up, and one parameter may
need it where another does not. So what functions f add along each parameter is averaged with gₖ:

    ln y(x) = ln f(x) + Σₖ weightₖ · (levelₖ + gₖ - Δₖ)
    Σₖ Δₖ = ln f(x) - ln f(x′),    x′ₖ = min(xₖ, x̂ₖ)

where Δₖ is what f adds along parameter k, half of what it adds along both at once included, and
levelₖ by how much the values at x̂ₖ exceed f, in the mean over them: the trend goes on from what was
measured. See `evidence/smaller_grid.py` for the weights.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from insitu.modeling.local_laws import (
    LARGEST,
    LINE_POINTS,
    LONGEST_RAMP,
    SMALLEST,
    LocalLaws,
    damped_trend,
    last_line,
    ramp_of,
    reach_of_slope,
)
from insitu.modeling.measurement import FloatArray, IntArray

MAX_LOG = 690.0  # of numbers that are finite


@dataclass(frozen=True, slots=True, eq=False)
class GridTrend:
    """The trend of one series over m parameters, beside its functions.

    weights: (m,), along each parameter, at most 1; the rest is that of the functions. starts: (m,),
    largest values. slopes, decays: (m,). ramps: (m,), doublings beyond the starts, at which the
    trend fully counts. levels: (m,), logarithms by which values at the starts exceed the functions.
    """

    weights: FloatArray
    starts: FloatArray
    slopes: FloatArray
    decays: FloatArray
    ramps: FloatArray
    levels: FloatArray

    def share_of_functions(self, points: FloatArray) -> FloatArray:
        """Return the weight of the functions at points (n, m), all parameters together: (n,)."""
        weights, doublings = self._weights_at(points)
        total = np.maximum(doublings.sum(axis=1), SMALLEST)
        return np.asarray(1 - (weights * doublings).sum(axis=1) / total)

    def _weights_at(self, points: FloatArray) -> tuple[FloatArray, FloatArray]:
        """The weights along each parameter at points, and doublings beyond its start: (n, m)."""
        doublings = np.log2(np.maximum(points / self.starts, 1.0))
        return self.weights * np.clip(doublings / self.ramps, 0.0, 1.0), doublings

    def blend_from(
        self, points: FloatArray, values: FloatArray, others: FloatArray
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return averages of predictions and trend; see `LocalLaws.blend`.

        Args:
            points: (n, m). values: (n,), predictions of the functions.
            others: the same at `points_of` the points, (1 + m, n).
        """
        everything = np.concatenate([values[None], others])
        is_usable = ((everything > SMALLEST) & (everything < LARGEST)).all(axis=0)
        log_values, *logs = np.log(np.where(is_usable, everything, 1.0))
        weights, _ = self._weights_at(points)
        growth = _log_growth(self.slopes, self.decays, points / self.starts)
        differences = self.levels + growth - split_growth(log_values, logs)

        mean = log_values + (weights * differences).sum(axis=1)
        variance = (weights * (1 - weights) * differences**2).sum(axis=1)
        return (
            np.where(is_usable, np.exp(np.clip(mean, -MAX_LOG, MAX_LOG)), values),
            np.where(is_usable, self.share_of_functions(points), 1.0),
            np.where(is_usable, np.sqrt(variance), 0.0),
        )

    def multiply(self, factor: float) -> "GridTrend":
        """Return the trend of the values times a positive factor, which is the same."""
        return self

    def to_dict(self) -> dict[str, Any]:  # Any: JSON
        """Return a form that JSON can hold; `from_dict` reads it back exactly."""
        return {
            "weights": self.weights.tolist(),
            "starts": self.starts.tolist(),
            "slopes": self.slopes.tolist(),
            "decays": self.decays.tolist(),
            "ramps": self.ramps.tolist(),
            "levels": self.levels.tolist(),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> "GridTrend":
        """Read what `to_dict` has written."""
        names = ("weights", "starts", "slopes", "decays", "ramps")
        arrays = {name: np.array(data[name], dtype=float) for name in names}
        levels = data.get("levels", [0.0] * len(data["weights"]))  # earlier trends had none
        return cls(**arrays, levels=np.array(levels, dtype=float))


def read_local(data: Mapping[str, Any]) -> LocalLaws | GridTrend:
    """Read what `to_dict` of either has written."""
    return GridTrend.from_dict(data) if "starts" in data else LocalLaws.from_dict(data)


class GridTrends(NamedTuple):
    """The trends of series on the same points: slopes, decays (s, m), starts and ramps (m,)."""

    starts: FloatArray
    slopes: FloatArray
    decays: FloatArray
    ramps: FloatArray

    def of(self, i: int, weights: FloatArray, levels: FloatArray) -> GridTrend:
        """Return the trend of one series with weights and levels (m,)."""
        slopes, decays = self.slopes[i], self.decays[i]
        return GridTrend(weights, self.starts, slopes, decays, self.ramps, levels)

    def log_growth(self, point: FloatArray) -> FloatArray:
        """Return what the trend of each series adds along each parameter up to a point: (s, m)."""
        return _log_growth(self.slopes, self.decays, point / self.starts)


def _log_growth(slopes: FloatArray, decays: FloatArray, ratios: FloatArray) -> FloatArray:
    return np.asarray(slopes * reach_of_slope(decays, np.log(np.maximum(ratios, 1.0))))


def points_of(points: FloatArray, starts: FloatArray) -> FloatArray:
    """Return where functions are needed for points (n, m), in order: (1 + m, n, m).

    The nearest points, with all values at most the starts (m,), and those where one value is.
    """
    nearest = np.minimum(points, starts)
    of_each = [nearest]
    for k in range(len(starts)):
        along = points.copy()
        along[:, k] = nearest[:, k]
        of_each.append(along)
    return np.array(of_each)


def split_growth(log_values: FloatArray, others: Sequence[FloatArray]) -> FloatArray:
    """Return what functions add along each parameter beyond its start: (n, m), in logarithms.

    Args:
        log_values: (n,), at the points. others: 1 + m of them, at `points_of` these.
    """
    nearest, *along = others
    added = np.stack([log_values - other for other in along], axis=1)
    rest = log_values - nearest - added.sum(axis=1)
    return np.asarray(added + rest[:, None] / len(along))


def fit_trends(coordinates: FloatArray, log_values: FloatArray) -> GridTrends:
    """Return the trends along each parameter, from the mean over the lines of its newest values.

    Growth that speeds up goes on with the mean of its slopes: functions describe it, and measured
    programs mostly do not go on to grow as fast as in their last step. Where no line has the
    newest three, the slope is that of a plane through all points.

    Args:
        coordinates: (n, m), positive. log_values: (s, n).
    """
    n_series, n_parameters = len(log_values), coordinates.shape[1]
    slopes, decays = np.zeros((2, n_series, n_parameters))
    ramps = np.full(n_parameters, LONGEST_RAMP)
    for k in range(n_parameters):
        x = np.unique(coordinates[:, k])
        if len(x) == 1:
            continue
        ramps[k] = ramp_of(x)
        lines = _newest_of_lines(coordinates, k, x[-LINE_POINTS:])
        if len(x) < LINE_POINTS or len(lines) == 0:
            slopes[:, k] = _slopes_of_planes(coordinates, log_values)[:, k]
            continue
        means = np.exp(_without_level(log_values[:, lines].mean(axis=1)))
        trend, line = damped_trend(x, means), last_line(x, means)
        slopes[:, k] = np.where(trend.decay > 0, trend.slope, line.slope)
        decays[:, k] = trend.decay
    return GridTrends(coordinates.max(axis=0), slopes, decays, ramps)


def levels_at_starts(coordinates: FloatArray, residuals: FloatArray) -> FloatArray:
    """Return the mean residual at the largest value of each parameter that varies: (s, m).

    Args:
        coordinates: (n, m). residuals: (s, n), logarithms of values over functions.
    """
    levels = np.zeros((len(residuals), coordinates.shape[1]))
    for k, column in enumerate(coordinates.T):
        is_largest = column == column.max()
        if not is_largest.all():
            levels[:, k] = residuals[:, is_largest].mean(axis=1)
    return levels


def _newest_of_lines(coordinates: FloatArray, k: int, newest: FloatArray) -> IntArray:
    """The points of each line along parameter k with these values, in order: (n_lines, 3)."""
    others = np.delete(coordinates, k, axis=1)
    of_values = [np.flatnonzero(coordinates[:, k] == value) for value in newest]
    at = [{tuple(others[point].tolist()): int(point) for point in points} for points in of_values]
    lines = [
        [points[other] for points in at] for other in at[0] if all(other in points for points in at)
    ]
    return np.array(lines, dtype=np.intp).reshape(len(lines), len(newest))


def _without_level(log_values: FloatArray) -> FloatArray:
    """Logarithms (s, n) less the last of each series: only slopes matter."""
    return np.asarray(log_values - log_values[:, -1:])


def _slopes_of_planes(coordinates: FloatArray, log_values: FloatArray) -> FloatArray:
    """The powers of least squares planes in log space through series (s, n): (s, m)."""
    design = np.column_stack([np.ones(len(coordinates)), np.log(coordinates)])
    return np.asarray(np.linalg.lstsq(design, log_values.T, rcond=None)[0][1:].T)
