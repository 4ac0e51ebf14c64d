"""Local laws: what the newest points of a series alone predict, without any function.

A local law is ln y = level + slope · φ(ln x/x_n) beyond the largest coordinate x_n, with
φ(L) = (1 - e^(-decay·L)) / decay. Without decay it is a line on logarithmic axes. They predict real
programs about as well as functions do, and they miss for other reasons, so a weighted geometric
mean of both is better than either where a back-test shows it; see `evidence/back_test.py`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from insitu.modeling.measurement import FloatArray

LINE_POINTS = 3  # newest points that a local law is fitted to
LONGEST_RAMP = 1.0  # doublings beyond the largest coordinate, at which local laws fully count
MIN_DECAY = 1e-9  # smaller decays are none
SMALLEST, LARGEST = 1e-300, 1e300


class LocalLaw(NamedTuple):
    """Local laws of series s: (s,) each.

    level: ln y at the largest coordinate. slope: power of x there. decay: per ln x.
    """

    level: FloatArray
    slope: FloatArray
    decay: FloatArray

    def log_values(self, log_ratio: float) -> FloatArray:
        """Return ln y where ln x/x_n is `log_ratio`: (s,)."""
        return np.asarray(self.level + self.slope * reach_of_slope(self.decay, log_ratio))


def ramp_of(x: FloatArray) -> float:
    """Return how many doublings beyond coordinates x (n,) local laws have their full weight.

    At the next coordinate, if steps go on as the last one: there a back-test compares them with
    functions, whether coordinates double or are as close as 345 and 350.
    """
    if len(x) < 2 or x[-2] <= 0:
        return LONGEST_RAMP
    return min(float(np.log2(x[-1] / x[-2])), LONGEST_RAMP)


def last_value(values: FloatArray) -> LocalLaw:
    """Return laws that keep the newest of values (s, n), all positive."""
    zero = np.zeros(len(values))
    return LocalLaw(np.log(values[:, -1]), zero, zero)


def last_line(x: FloatArray, values: FloatArray) -> LocalLaw:
    """Return least squares lines through the newest points on logarithmic axes.

    Args:
        x: (n,), at least two. values: (s, n), positive.
    """
    log_x, log_y = np.log(x[-LINE_POINTS:]), np.log(values[:, -LINE_POINTS:])
    centred = log_x - log_x.mean()
    slope = log_y @ centred / (centred @ centred)
    level = log_y.mean(axis=1) + slope * (log_x[-1] - log_x.mean())
    return LocalLaw(level, slope, np.zeros(len(values)))


def damped_trend(x: FloatArray, values: FloatArray) -> LocalLaw:
    """Return laws whose slope goes on to change as it did between the last three points.

    Only where it shrinks: growth that ends, as in p / (p + k), or falls that level off. Slopes that
    grow or change their sign are kept as they are, and set to zero.

    Args:
        x: (n,), at least three. values: (s, n), positive.
    """
    log_x, log_y = np.log(x[-LINE_POINTS:]), np.log(values[:, -LINE_POINTS:])
    steps = np.diff(log_x)
    before, newest = (np.diff(log_y, axis=1) / steps).T
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(before != 0, newest / before, 1.0)
    ratio = np.clip(ratio, 1e-3, 1.0)

    # Slopes are those in the middle of the steps.
    decay = -np.log(ratio) / steps.mean()
    slope = newest * np.exp(-decay * steps[1] / 2)
    return LocalLaw(log_y[:, -1], np.where(newest * before > 0, slope, 0.0), decay)


@dataclass(frozen=True, slots=True, eq=False)
class LocalLaws:
    """The local laws of one series, beside its functions.

    start: the largest coordinate. weights: (m,), sum to less than 1; the rest is that of the
    functions. levels, slopes, decays: (m,). ramp: doublings beyond the start, at which they have
    their full weight.
    """

    start: float
    weights: FloatArray
    levels: FloatArray
    slopes: FloatArray
    decays: FloatArray
    ramp: float = LONGEST_RAMP

    def weights_at(self, x: FloatArray) -> FloatArray:
        """Return the weight of each law at values of the parameter: (n,) to (m, n)."""
        with np.errstate(divide="ignore", invalid="ignore"):
            doublings = np.log2(x / self.start)
        return np.asarray(
            self.weights[:, None] * np.clip(np.nan_to_num(doublings) / self.ramp, 0.0, 1.0)
        )

    def log_values(self, x: FloatArray) -> FloatArray:
        """Return the logarithm of each law at values of the parameter: (n,) to (m, n)."""
        ratio = np.log(np.maximum(x, self.start) / self.start)
        reach = reach_of_slope(self.decays[:, None], ratio)
        return np.asarray(self.levels[:, None] + self.slopes[:, None] * reach)

    def share_of_functions(self, points: FloatArray) -> FloatArray:
        """Return the weight of the functions at points (n, 1): (n,)."""
        return np.asarray(1 - self.weights_at(points[:, 0]).sum(axis=0))

    def blend(
        self, points: FloatArray, values: FloatArray
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return geometric means of predictions and local laws.

        Args:
            points: (n, 1). values: (n,), predictions of the functions.

        Returns:
            The means (n,), the share of the functions in them (n,), and the standard deviation of
            the logarithms that are averaged (n,). Values that are not positive stay as they are.
        """
        x = points[:, 0]
        return blend_with_laws(self.weights_at(x), self.log_values(x), values)

    def multiply(self, factor: float) -> "LocalLaws":
        """Return the same laws, all of them multiplied by a positive factor."""
        levels = self.levels + np.log(factor)
        return replace(self, levels=levels)

    def to_dict(self) -> dict[str, Any]:  # Any: JSON
        """Return a form that JSON can hold; `from_dict` reads it back exactly."""
        data: dict[str, Any] = {
            "start": self.start,
            "weights": self.weights.tolist(),
            "levels": self.levels.tolist(),
            "slopes": self.slopes.tolist(),
            "decays": self.decays.tolist(),
        }
        return data if self.ramp == LONGEST_RAMP else data | {"ramp": self.ramp}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> "LocalLaws":
        """Read what `to_dict` has written."""
        names = ("weights", "levels", "slopes", "decays")
        weights, levels, slopes, decays = (np.array(data[name], dtype=float) for name in names)
        ramp = float(data.get("ramp", LONGEST_RAMP))
        return cls(float(data["start"]), weights, levels, slopes, decays, ramp)


def blend_with_laws(
    weights: FloatArray, logs: FloatArray, values: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return what `LocalLaws.blend` returns, for local laws that may differ from point to point.

    Args:
        weights, logs: (m, n), of each law at each point.
        values: (n,), predictions of the functions.
    """
    is_usable = (values > SMALLEST) & (values < LARGEST)
    log_values = np.log(np.where(is_usable, values, 1.0))
    share = 1 - weights.sum(axis=0)

    mean = share * log_values + (weights * logs).sum(axis=0)
    variance = share * (log_values - mean) ** 2 + (weights * (logs - mean) ** 2).sum(axis=0)
    return (
        np.where(is_usable, np.exp(np.clip(mean, -690.0, 690.0)), values),
        np.where(is_usable, share, 1.0),
        np.where(is_usable, np.sqrt(variance), 0.0),
    )


def reach_of_slope(decay: FloatArray, log_ratio: FloatArray | float) -> FloatArray:
    """Return φ: how far a slope that decays reaches."""
    is_decaying = np.abs(decay) > MIN_DECAY
    divisor = np.where(is_decaying, decay, 1.0)
    return np.where(is_decaying, -np.expm1(-divisor * log_ratio) / divisor, log_ratio)
