"""Spreads: the functions that compete for a segment, the basis of prediction intervals."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from insitu.modeling.adjustments import (
    divide_evenly,
    from_rows,
    log_grid_factor,
    no_adjustments,
    replace_coordinate,
    to_rows,
)
from insitu.modeling.distance import drift_reach
from insitu.modeling.grid_trend import GridTrend, points_of, read_local
from insitu.modeling.local_laws import LocalLaws
from insitu.modeling.measurement import FloatArray
from insitu.modeling.pmnf import powers
from insitu.modeling.student import (
    HUGE,
    median_of_mixtures,
    positive_bounds_of_mixtures,
    student_quantile,
)

LARGEST = float(np.finfo(float).max)
# Relative standard deviation beyond the measured coordinates, at most the drift: quiet times stay
# within 0.1 % of a function, and are off by 1 % at the next number of cores. In two families of 16
# and 14 such series, the intervals held 81 and 79 % without it, all with it (benchmarks/real.md).
UNSEEN = 0.005
MEDIAN_REACH = 0.99  # quantile of a function, beyond which the median of several cannot lie


@dataclass(frozen=True, slots=True, eq=False)
class Spread:
    """Functions that compete for one segment: k of them with t terms at most, over m parameters.

    exponents: (k, t, m, 3) with alpha, beta, gamma of each factor. coefficients: (k, 1 + t), the
    constant first. covariances: (k, 1 + t, 1 + t) of the coefficients. weights: (k,), posterior
    probabilities. sigma: relative noise of one measurement (0.02 is 2 %). degrees: degrees of
    freedom of sigma, infinite where it is known. tails: (k, 5) or None, what becomes of each
    function of one parameter behind its last points: start, and mean and standard deviation of
    the logarithm of a factor there, and of a change of its exponent; see `evidence/newest.py`.
    drift: relative standard deviation, one doubling beyond the measured coordinates, of what no
    function describes; see `drift_reach`. local: what the newest points alone predict, None if that
    has no weight.
    is_led: whether the distribution is centred on the first function; otherwise on the median.
    adjustments: (k, 4) or None, of each function of one parameter, see `adjustments.py`. quotient:
    the columns of work n and processes p, where n / ceil(n / p) takes the place of p, or None.
    """

    exponents: FloatArray
    coefficients: FloatArray
    covariances: FloatArray
    weights: FloatArray
    sigma: float
    degrees: float
    tails: FloatArray | None = None
    drift: float = 0.0
    local: LocalLaws | GridTrend | None = None
    is_led: bool = False
    adjustments: FloatArray | None = None
    quotient: tuple[int, int] | None = None

    def __reduce__(self) -> tuple[object, tuple[object, ...]]:
        """Pickle four small arrays as one, which takes a quarter of the time."""
        arrays = (self.exponents, self.coefficients, self.covariances, self.weights)
        flat = np.concatenate([array.ravel() for array in arrays]).tobytes()
        numbers = (self.sigma, self.degrees, self.tails, self.drift)
        rest = (*numbers, self.local, self.is_led, self.adjustments, self.quotient)
        return _from_bytes, (flat, self.exponents.shape[:3], rest)

    def to_dict(self, *, has_arrays: bool = True) -> dict[str, Any]:  # Any: JSON
        """Return a form that JSON can hold; `from_dict` reads it back exactly.

        Args:
            has_arrays: with exponents, coefficients, covariances and weights.
        """
        data: dict[str, Any] = {}
        if has_arrays:
            data = {
                "shape": list(self.exponents.shape),
                "exponents": self.exponents.ravel().tolist(),
                "coefficients": self.coefficients.tolist(),
                "covariances": self.covariances.tolist(),
                "weights": self.weights.tolist(),
            }
        data["sigma"] = self.sigma
        data["degrees"] = None if np.isinf(self.degrees) else self.degrees
        if self.tails is not None:
            data["tails"] = self.tails.tolist()
        if self.drift:
            data["drift"] = self.drift
        if self.local is not None:
            data["local"] = self.local.to_dict()
        if self.is_led:
            data["is_led"] = True
        if self.adjustments is not None:
            data["adjustments"] = to_rows(self.adjustments)
        if self.quotient is not None:
            data["quotient"] = list(self.quotient)
        return data

    @classmethod
    def from_dict(
        cls, data: Mapping[str, Any], *, arrays: Mapping[str, FloatArray] | None = None
    ) -> "Spread":
        """Read what `to_dict` has written.

        Args:
            data: what it has written.
            arrays: the arrays by name, where it was written without.
        """
        degrees, tails, local = data["degrees"], data.get("tails"), data.get("local")
        adjustments = data.get("adjustments")
        if arrays is None:
            names = ("coefficients", "covariances", "weights")
            arrays = {name: np.array(data[name], dtype=float) for name in names}
            exponents = np.array(data["exponents"], dtype=float)
            arrays["exponents"] = exponents.reshape(data["shape"])
        return cls(
            exponents=arrays["exponents"],
            coefficients=arrays["coefficients"],
            covariances=arrays["covariances"],
            weights=arrays["weights"],
            sigma=float(data["sigma"]),
            degrees=np.inf if degrees is None else float(degrees),
            tails=None if tails is None else np.array(tails, dtype=float).reshape(-1, 5),
            drift=float(data.get("drift", 0.0)),
            local=None if local is None else read_local(local),
            is_led=bool(data.get("is_led", False)),
            adjustments=None if adjustments is None else from_rows(adjustments),
            quotient=tuple(data["quotient"]) if "quotient" in data else None,
        )

    def all_adjustments(self) -> FloatArray:
        """Return `adjustments`, those that change nothing if there are none: (k, 4)."""
        if self.adjustments is None:
            return no_adjustments(len(self.weights))
        return self.adjustments

    def all_tails(self) -> FloatArray:
        """Return `tails`, with nothing behind any function if there are none: (k, 5)."""
        return np.zeros((len(self.weights), 5)) if self.tails is None else self.tails

    def multiply(self, factor: float) -> "Spread":
        """Return the same functions, all of them multiplied by a positive factor."""
        return replace(
            self,
            coefficients=self.coefficients * factor,
            covariances=self.covariances * factor**2,
            local=None if self.local is None else self.local.multiply(factor),
        )

    def with_back_test(
        self, drift: float, local: LocalLaws | GridTrend | None, *, is_led: bool = False
    ) -> "Spread":
        """Return the same functions with this drift, beside these local laws.

        Args:
            is_led: whether the distribution is centred on the first function.
        """
        return Spread(  # `replace` takes three times as long, for every series of a campaign
            exponents=self.exponents,
            coefficients=self.coefficients,
            covariances=self.covariances,
            weights=self.weights,
            sigma=self.sigma,
            degrees=self.degrees,
            tails=self.tails,
            drift=drift,
            local=local,
            is_led=is_led or self.is_led,
            adjustments=self.adjustments,
            quotient=self.quotient,
        )

    def median(self, points: FloatArray) -> FloatArray:
        """Return the centre of the predictive distribution, its median: (n,).

        It is taken before the functions are widened beyond the measured coordinates: what all of
        them may miss says nothing about which of them is right. Where the first function leads, it
        is the centre, and `distribution` moves the others to it.

        Args:
            points: (n, m).
        """
        centre, scale = self.functions(self.median_points(points))
        leading = np.asarray(centre[0]) if self.is_led else self._median_of(centre, scale)
        return self._average(points, leading)[0] if self.local is not None else leading

    def median_points(self, points: FloatArray) -> FloatArray:
        """Return points (n, m), and behind them those where a trend needs the functions.

        All of them together are (n', m).
        """
        if not isinstance(self.local, GridTrend):
            return points
        others = points_of(points, self.local.starts)
        return np.concatenate([points, others.reshape(-1, points.shape[1])])

    @property
    def needs_median(self) -> bool:
        """Whether the median of the functions is more than what the first of them predicts."""
        return len(self.weights) > 1 and not (self.is_led and self.local is None)

    def disagreement(self, points: FloatArray) -> FloatArray:
        """Return by what factor the functions differ from each other: (n,).

        It is that between one standard deviation below and above the mean of their logarithms,
        which are weighted by their posterior; infinite where a function is not positive.

        Args:
            points: (n, m).
        """
        centre = np.einsum("kc,kcn->kn", self.coefficients, self._design(points))
        weights = self.weights[:, None] / self.weights.sum()
        is_positive = ((centre > 0) & (centre < HUGE)).all(axis=0)
        logs = np.log(np.where(is_positive, centre, 1.0))
        deviation = np.sqrt((weights * (logs - (weights * logs).sum(axis=0)) ** 2).sum(axis=0))
        return np.where(is_positive, np.exp(2 * deviation), np.inf)

    def _median_of(self, centre: FloatArray, scale: FloatArray) -> FloatArray:
        """The median of the functions alone: (n,)."""
        if not self.needs_median:
            return np.asarray(centre[0])
        return median_of_mixtures(centre, scale, self.weights[:, None], self.degrees)

    @np.errstate(over="ignore", invalid="ignore")  # far out, some functions are infinite
    def predictive(
        self, points: FloatArray, *, beyond: FloatArray | float = 0.0
    ) -> tuple[FloatArray, FloatArray]:
        """Return what each function predicts, and its standard deviation: (k, n) each.

        A measurement is a Student variable of `degrees` with this centre and scale.

        Args:
            points: (n, m).
            beyond: (n,), standard deviation of what the functions miss there, relative to the
                noise: doublings beyond the measured coordinates.
        """
        if self.local is None:
            return self._widen(points, *self.functions(points), beyond=beyond)[:2]
        return self._predict(points, beyond=beyond)[:2]

    def distribution(
        self, points: FloatArray, *, beyond: FloatArray | float = 0.0
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return `predictive`, multiplied so that its median is what `median` returns: (k, n) each.

        That functions are wider there than coefficients and noise make them does not move it. The
        third is what share of each variance errors of the value have above the function; see
        `log_distance`.
        """
        centre, scale, linear, median = self._predict(points, beyond=beyond)
        if not self.is_movable(centre, scale):
            return centre, scale, linear
        moved = positive_bounds_of_mixtures(
            centre,
            scale,
            np.broadcast_to(self.weights[:, None], centre.shape),
            linear=linear,
            shares=np.full((1, len(points)), 0.5),
            degrees=self.degrees,
            reach=student_quantile(MEDIAN_REACH, self.degrees),
        )
        factor = median / moved[0]
        return centre * factor, scale * factor, linear

    def is_movable(self, centre: FloatArray, scale: FloatArray) -> bool:
        """Return whether these functions (k, n) have a median that a factor moves."""
        return len(self.weights) > 1 and bool(((centre > 0) & (centre + scale < HUGE)).all())

    def _predict(
        self, points: FloatArray, *, beyond: FloatArray | float
    ) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        """What `distribution` returns before it is multiplied, and what `median` returns."""
        functions = self.functions(self.median_points(points))
        return self.combine(points, functions, self._median_of(*functions), beyond=beyond)

    @np.errstate(over="ignore", invalid="ignore")  # far out, some functions are infinite
    def combine(
        self,
        points: FloatArray,
        functions: tuple[FloatArray, FloatArray],
        medians: FloatArray,
        *,
        beyond: FloatArray | float,
    ) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        """Return what `distribution` returns before it is multiplied, and what `median` returns.

        Args:
            points: (n, m). functions: at `median_points` of these, (k, n') each.
            medians: of the functions, (n',). beyond: as for `predictive`.
        """
        n_points = len(points)
        leading = np.asarray(functions[0][0]) if self.is_led else medians
        centre, scale = (array[:, :n_points] for array in functions)
        median = leading[:n_points]
        if self.local is not None:
            alone = medians[:n_points]
            averages = self._average(points, np.concatenate([alone, leading[n_points:]]))
            centre, scale = _blend(centre, scale, averages, alone=alone)
            median = self._average(points, leading)[0] if self.is_led else averages[0]
        return (*self._widen(points, centre, scale, beyond=beyond), median)

    def _average(
        self, points: FloatArray, values: FloatArray
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Values at `median_points` (n',), averaged with local laws or a trend at points (n, m)."""
        n_points = len(points)
        if isinstance(self.local, GridTrend):
            others = values[n_points:].reshape(-1, n_points)
            return self.local.blend_from(points, values[:n_points], others)
        assert self.local is not None
        return self.local.blend(points, values)

    def _widen(
        self,
        points: FloatArray,
        centre: FloatArray,
        scale: FloatArray,
        *,
        beyond: FloatArray | float,
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Functions, (k, n) each, as wide as they are beyond the measured coordinates.

        What functions miss beyond the measured coordinates is a factor, so above them it is an
        error of the logarithm. Below them it counts as one of the value, which reaches further
        down, since they miss growth that ends more often. What local laws say is averaged as
        logarithms already, so their share has no such error.
        """
        share: FloatArray | float = 1.0
        if self.local is not None:
            share = self.local.share_of_functions(points)
        missed = np.hypot(self.sigma * beyond, self.drift * drift_reach(beyond))
        missed = np.hypot(missed, np.where(np.asarray(beyond) > 0, min(self.drift, UNSEEN), 0.0))
        widened = np.hypot(scale, missed * centre)

        is_finite = (widened > 0) & (widened < HUGE)
        of_value = np.divide(scale, widened, out=np.ones_like(widened), where=is_finite) ** 2
        return centre, widened, 1 - share * (1 - of_value)

    @np.errstate(over="ignore", invalid="ignore")  # far out, some functions are infinite
    def functions(self, points: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return what each function predicts, and its standard deviation: (k, n) each."""
        design = self._design(points)
        centre = np.einsum("kc,kcn->kn", self.coefficients, design)
        variance = np.einsum("kcn,kcd,kdn->kn", design, self.covariances, design)
        scale = np.sqrt(np.maximum(variance, 0) + (self.sigma * centre) ** 2)
        if self.tails is not None:
            scale = np.hypot(scale, np.abs(centre) * self._tail_deviation(points))
        if self.adjustments is not None:
            relative = log_grid_factor(points[:, 0], self.adjustments)[1]
            scale = np.hypot(scale, np.abs(centre) * relative)
        return centre, scale

    @np.errstate(over="ignore", invalid="ignore")  # far out, some functions are infinite
    def covariance(
        self, points: FloatArray, at: FloatArray, *, beyond: FloatArray | float, beyond_at: float
    ) -> FloatArray:
        """Return the covariance of measurements at points with one at another point: (k, n).

        Their noise is independent. They share the coefficients, and what a function misses, in
        proportion to how far beyond the measured coordinates they lie.

        Args:
            points: (n, m). at: (m,). beyond, beyond_at: as for `predictive`, at both.
        """
        design, other = self._design(points), self._design(at[None])[..., 0]
        shared = np.einsum("kcn,kcd,kd->kn", design, self.covariances, other)
        centres = np.einsum("kc,kcn->kn", self.coefficients, design)
        centre = np.einsum("kc,kc->k", self.coefficients, other)[:, None]
        of_drift = self.drift**2 * drift_reach(beyond) * drift_reach(beyond_at)
        missed = self.sigma**2 * beyond * beyond_at + of_drift
        return np.asarray(shared + missed * centres * centre)

    def _design(self, points: FloatArray) -> FloatArray:
        """The design matrix of each function: (k, 1 + t, n)."""
        k, t = self.exponents.shape[:2]
        design = np.ones((k, 1 + t, len(points)))
        if self.quotient is not None:
            points = divide_evenly(points, self.quotient)
        x = points.T
        if self.adjustments is not None:
            x = replace_coordinate(points[:, 0], self.adjustments)[:, None, None]
        design[:, 1:] = powers(x, self.exponents[:, :, :, None]).prod(axis=2)
        if self.tails is not None:
            is_behind, stretch = self._behind(points)
            log_factor = self.tails[:, 1, None] + self.tails[:, 3, None] * stretch
            design *= np.exp(np.where(is_behind, log_factor, 0.0))[:, None]
        if self.adjustments is not None:
            design *= np.exp(log_grid_factor(points[:, 0], self.adjustments)[0])[:, None]
        return design

    def _behind(self, points: FloatArray) -> tuple[NDArray[np.bool_], FloatArray]:
        """Whether points lie behind the start of each tail, and by which log ratio: (k, n) each."""
        start, x = self.all_tails()[:, :1], points[:, 0]
        is_behind = (x > start) & (start > 0)
        ratio = np.where(is_behind, x, 1.0) / np.where(is_behind, start, 1.0)
        return np.asarray(is_behind), np.log(ratio)

    def _tail_deviation(self, points: FloatArray) -> FloatArray:
        """The relative standard deviation that tails add at points: (k, n)."""
        is_behind, stretch = self._behind(points)
        tails = self.all_tails()
        deviation = np.hypot(tails[:, 2, None], tails[:, 4, None] * stretch)
        return np.asarray(np.where(is_behind, deviation, 0.0))


def _blend(
    centre: FloatArray,
    scale: FloatArray,
    averages: tuple[FloatArray, FloatArray, FloatArray],
    *,
    alone: FloatArray,
) -> tuple[FloatArray, FloatArray]:
    """Functions (k, n) as they are when averaged with the local laws.

    The geometric mean of a function and the local laws varies with the function, but less. It is
    less certain where these laws disagree.

    Args:
        averages: of the median of the functions and the laws, see `LocalLaws.blend`.
        alone: (n,), the median of the functions.
    """
    blended, share, disagreement = averages
    is_usable = (centre > 0) & (centre < HUGE) & (alone > 0) & (alone < HUGE)
    safe_centre, safe_median = np.where(is_usable, centre, 1.0), np.where(is_usable, alone, 1.0)
    averaged = blended * (safe_centre / safe_median) ** share
    relative = np.hypot(share * scale / safe_centre, disagreement)
    return (
        np.where(is_usable, averaged, centre),
        np.where(is_usable, averaged * relative, scale),
    )


def _from_bytes(
    flat: bytes,
    shape: tuple[int, int, int],
    rest: tuple[Any, ...],  # Any: the other fields, in order
) -> Spread:
    k, t, m = shape
    numbers = np.frombuffer(flat)
    ends = np.cumsum([k * t * m * 3, k * (1 + t), k * (1 + t) ** 2])
    exponents, coefficients, covariances, weights = np.split(numbers, ends)
    return Spread(
        exponents.reshape(k, t, m, 3),
        coefficients.reshape(k, 1 + t),
        covariances.reshape(k, 1 + t, 1 + t),
        weights,
        *rest,
    )
