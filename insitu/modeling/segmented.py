"""Modeler "segmented": windows of five points whose models fit badly, as in paper [SEG §3].

Each window of five consecutive points is modelled. A series is segmented where a window's
normalised error exceeds θ, or where it lies between both thresholds and grows by more than ε from
one window to the next. The pattern of windows with an error above the lower threshold tells where
behaviour changes: three in a row, at a point that both functions share; four in a row, between two
points. Recursion finds further changes.
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
from insitu.modeling.refine import hypothesis
from insitu.modeling.residual import spread_of
from insitu.modeling.search import report_few_points
from insitu.modeling.series import Series
from insitu.modeling.spread import Spread

EXPONENTS = tuple(Fraction(i, 2) for i in range(7))  # I [SEG §2]
LOGARITHMS = tuple(Fraction(j) for j in range(3))  # J [SEG §2]
TINY = 1e-20  # η of the ratio [SEG §3.1]
ROUNDING = 1e-12  # errors below are no errors
NOT_LOCATED = "change-not-located"


@dataclass(frozen=True, slots=True)
class Segmented:
    """Paper 000; its constants are options [SEG §3.1]."""

    window: int = 5
    heterogeneous: float = 0.1
    threshold: float = 0.5  # θ
    ratio: float = 4.0  # ε
    name: ClassVar[str] = "segmented"
    min_points: ClassVar[int] = 5
    shares_noise: ClassVar[bool] = False

    def fit(self, series: Series) -> list[Model]:
        """See Modeler; one parameter only. Below six points nothing is segmented.

        Raises:
            ModelingError: for several parameters.
        """
        return [
            self._model(series.parameters[0], coordinates, values)
            for coordinates, values in series.measured_points(self.name)
        ]

    def _model(self, parameter: str, coordinates: FloatArray, y: FloatArray) -> Model:
        x = coordinates[:, 0]
        cuts, located = self._cuts(parameter, x, y)
        starts, ends = [0, *(high for _, high in cuts)], [*(low + 1 for low, _ in cuts), len(x)]
        segments, fitted, columns = [], np.empty(len(y)), 0
        spreads: list[Spread] = []
        for k, (start, end) in enumerate(zip(starts, ends, strict=True)):
            function = best_function(parameter, x[start:end], y[start:end])
            lower = -np.inf if k == 0 else float(x[start])
            upper = np.inf if k == len(cuts) else float(x[end - 1])
            segments.append(Segment(lower, upper, function))
            spreads += spread_of(function, coordinates[start:end], y[start:end])
            fitted[start:end] = function(coordinates[start:end])
            columns += 1 + len(function.terms)
        findings = report_few_points(len(y))
        if not located:
            text = "behaviour changes, but the pattern of errors does not tell where; measure more"
            findings = (*findings, Finding(NOT_LOCATED, text))
        return Model(
            parameters=(parameter,),
            segments=tuple(segments),
            quality=quality(y, fitted, coefficients=columns),
            modeler=self.name,
            coordinates=coordinates,
            values=y,
            change_points=tuple(ChangePoint(float(x[i]), float(x[j])) for i, j in cuts),
            spreads=tuple(spreads) if len(spreads) == len(segments) else (),
            findings=findings,
        )

    def _cuts(
        self, parameter: str, x: FloatArray, y: FloatArray
    ) -> tuple[list[tuple[int, int]], bool]:
        """Indices of the last point before and the first after each change, and if all were
        located.
        """
        errors = self.errors(parameter, x, y)
        if not self.is_segmented(errors):
            return [], True
        place = self.locate(errors)
        if place is None:
            return [], False
        low, high = place
        before, first = self._cuts(parameter, x[: low + 1], y[: low + 1])
        after, second = self._cuts(parameter, x[high:], y[high:])
        shifted = [(i + high, j + high) for i, j in after]
        return [*before, place, *shifted], first and second

    def errors(self, parameter: str, x: FloatArray, y: FloatArray) -> list[float]:
        """nRSS of the model of each window of y (n,) at x (n,) [SEG §3.1]; none below 6 points."""
        if len(x) <= self.window:
            return []
        answer = []
        for start in range(len(x) - self.window + 1):
            part = slice(start, start + self.window)
            function = best_function(parameter, x[part], y[part])
            error = nrss(y[part], function(x[part]))
            answer.append(0.0 if error < ROUNDING else error)
        return answer

    def is_segmented(self, errors: list[float]) -> bool:
        """Whether any error is large, or medium and much larger than the one before [SEG §3.1]."""
        if any(error > self.threshold for error in errors):
            return True
        return any(
            self.heterogeneous <= error <= self.threshold and error / (before + TINY) > self.ratio
            for before, error in pairwise(errors)
        )

    def locate(self, errors: list[float]) -> tuple[int, int] | None:
        """Points between which behaviour changes, or twice the common point [SEG §3.2]."""
        place = 0
        for bad, group in groupby(error > self.heterogeneous for error in errors):
            length = len(list(group))
            second = place + 1  # the window of the second one
            if bad and length == 3:
                return second + 2, second + 2
            if bad and length == 4:
                return second + 2, second + 3
            place += length
        return None


def best_function(parameter: str, x: FloatArray, y: FloatArray) -> Function:
    """The function of the default space of [SEG §2], one term and a constant, with the smallest
    RSS for y (n,) at x (n,).
    """
    found = [
        one
        for alpha in EXPONENTS
        for beta in LOGARITHMS
        if (one := hypothesis(parameter, x, y, alpha, beta)) and (len(y) > 2 or not one.exponent)
    ]
    if not found:
        return Function((parameter,), float("nan"))
    return min(found, key=lambda one: one.rss).function
