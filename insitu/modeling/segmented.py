"""Modeler "segmented": windows of five points whose models fit badly, as in paper [SEG §3].

Each window of five consecutive points is modelled. A series is segmented if the normalised error of
a window exceeds θ, or if it lies between both thresholds and is more than ε times that of the
window before. The pattern of windows with an error above the lower threshold locates the change:
three in a row, at a point that both functions share; four in a row, between two points. Recursion
finds further changes.
"""

from dataclasses import dataclass
from fractions import Fraction
from itertools import groupby, pairwise
from typing import ClassVar

import numpy as np

from insitu.entities import Finding
from insitu.modeling.base import ChangePoint, Model, Segment
from insitu.modeling.measurement import FloatArray
from insitu.modeling.pmnf import Function
from insitu.modeling.quality import nrss, quality
from insitu.modeling.refine import Hypothesis, fit_hypothesis
from insitu.modeling.residual import spread_of
from insitu.modeling.search import report_few_points, report_short_segments
from insitu.modeling.series import Series
from insitu.modeling.spread import Spread

EXPONENTS = tuple(Fraction(i, 2) for i in range(7))  # I [SEG §2]
LOGARITHMS = tuple(Fraction(j) for j in range(3))  # J [SEG §2]
ETA = 1e-20  # η, which keeps the ratio of errors finite [SEG §3.1]
ROUNDING = 1e-12  # smaller errors are rounding and count as zero
NOT_LOCATED = "change-not-located"

Cut = tuple[int, int]  # the last point before a change and the first after it


@dataclass(frozen=True, slots=True)
class Segmented:
    """Segmentation by the errors of windows; its options are the constants of [SEG §3.1].

    window: points. heterogeneous, threshold: lower and upper threshold (θ) of the nRSS. ratio: ε,
    between the errors of neighbouring windows.
    """

    window: int = 5
    heterogeneous: float = 0.1
    threshold: float = 0.5  # θ
    ratio: float = 4.0  # ε
    name: ClassVar[str] = "segmented"
    min_points: ClassVar[int] = 5
    shares_noise: ClassVar[bool] = False

    def fit(self, series: Series) -> list[Model]:
        """Return one model per series of one parameter; see Modeler.

        Below six points nothing is segmented.

        Raises:
            ModelingError: there are several parameters.
        """
        series.require_one_parameter(self.name)
        return [
            self._model(series.parameters[0], coordinates, values)
            for coordinates, values in series.measured_points()
        ]

    def _model(self, parameter: str, coordinates: FloatArray, y: FloatArray) -> Model:
        x = coordinates[:, 0]
        cuts, all_located = self._cuts(parameter, x, y)
        starts = [0, *(first for _, first in cuts)]
        ends = [*(last + 1 for last, _ in cuts), len(x)]

        segments: list[Segment] = []
        spreads: list[Spread] = []
        fitted, n_coefficients = np.empty(len(y)), 0
        for k, (start, end) in enumerate(zip(starts, ends, strict=True)):
            function = best_function(parameter, x[start:end], y[start:end])
            lower = -np.inf if k == 0 else float(x[start])
            upper = np.inf if k == len(cuts) else float(x[end - 1])
            segments.append(Segment(lower, upper, function))
            spreads += spread_of(function, coordinates[start:end], y[start:end])
            fitted[start:end] = function(coordinates[start:end])
            n_coefficients += 1 + len(function.terms)

        findings = report_few_points(len(y))
        if not all_located:
            text = (
                "behaviour changes, but the pattern of errors does not show where; "
                "measure more points"
            )
            findings = (*findings, Finding(NOT_LOCATED, text))
        changes = tuple([ChangePoint(float(x[i]), float(x[j])) for i, j in cuts])
        findings = (*findings, *report_short_segments(x, changes, parameter))
        return Model(
            parameters=(parameter,),
            segments=tuple(segments),
            quality=quality(y, fitted, coefficients=n_coefficients),
            modeler=self.name,
            coordinates=coordinates,
            values=y,
            change_points=changes,
            spreads=tuple(spreads) if len(spreads) == len(segments) else (),
            findings=findings,
        )

    def _cuts(self, parameter: str, x: FloatArray, y: FloatArray) -> tuple[list[Cut], bool]:
        """The cuts, ascending, and whether all changes could be located."""
        errors = self.errors(parameter, x, y)
        if not self.is_segmented(errors):
            return [], True
        cut = self.locate(errors)
        if cut is None:
            return [], False

        last, first = cut
        before, before_located = self._cuts(parameter, x[: last + 1], y[: last + 1])
        after, after_located = self._cuts(parameter, x[first:], y[first:])
        shifted = [(i + first, j + first) for i, j in after]
        return [*before, cut, *shifted], before_located and after_located

    def errors(self, parameter: str, x: FloatArray, y: FloatArray) -> list[float]:
        """Return the nRSS of the model of each window [SEG §3.1]; none below six points.

        Args:
            x, y: (n,) points.
        """
        if len(x) <= self.window:
            return []
        errors = []
        for start in range(len(x) - self.window + 1):
            window = slice(start, start + self.window)
            function = best_function(parameter, x[window], y[window])
            error = nrss(y[window], function(x[window]))
            errors.append(0.0 if error < ROUNDING else error)
        return errors

    def is_segmented(self, errors: list[float]) -> bool:
        """Return whether an error is large, or medium and much larger than the one before it.

        [SEG §3.1]
        """
        if any(error > self.threshold for error in errors):
            return True
        for before, error in pairwise(errors):
            is_medium = self.heterogeneous <= error <= self.threshold
            if is_medium and error / (before + ETA) > self.ratio:
                return True
        return False

    def locate(self, errors: list[float]) -> Cut | None:
        """Return the points between which behaviour changes, or the common point twice.

        None if the pattern of errors does not show it. [SEG §3.2]
        """
        start = 0
        for is_bad, windows in groupby(error > self.heterogeneous for error in errors):
            length = len(list(windows))
            second = start + 1  # the second bad window begins at this point
            if is_bad and length == 3:
                return second + 2, second + 2
            if is_bad and length == 4:
                return second + 2, second + 3
            start += length
        return None


def best_function(parameter: str, x: FloatArray, y: FloatArray) -> Function:
    """Return the function with the smallest RSS: a constant and one term of [SEG §2].

    Args:
        x, y: (n,) points; up to two have the constant, none at all the constant NaN.
    """
    best: Hypothesis | None = None
    for alpha in EXPONENTS:
        for beta in LOGARITHMS:
            hypothesis = fit_hypothesis(parameter, x, y, alpha, beta)
            if hypothesis is None or (len(y) <= 2 and hypothesis.exponent):
                continue
            if best is None or hypothesis.rss < best.rss:
                best = hypothesis
    return best.function if best else Function((parameter,), float("nan"))
