"""Modeler "refine": iterative refinement of exponents by mediants, as in paper [REF §3].

Functions are `c0 + c1 · x^α · log2(x)^β`. Four slices (β = 0, 1, 2 and α = 0) are searched for
their best integer exponent; then each slice is refined: the mediants of its best exponent with
both bounds are tried, and bounds drawn in. Regression minimises RSS; SMAPE decides when a finer
exponent is accepted, when refinement ends, and whether a function that is not constant is worth it.
"""

from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, NamedTuple

import numpy as np

from insitu.modeling.base import Model, Segment
from insitu.modeling.measurement import FloatArray
from insitu.modeling.pmnf import ONE, ZERO, Factor, Function, Term
from insitu.modeling.quality import quality, smape
from insitu.modeling.residual import spread_of
from insitu.modeling.search import report_few_points
from insitu.modeling.series import Series

ALPHAS, BETAS = range(6), range(3)  # integers to begin with: α < 6, β < 3 [REF §3.2]
SLICES = (ZERO, ONE, Fraction(2), None)  # fixed β; None: α = 0 and β varies [REF §3.2]
MOST = 20  # iterations; the paper sees 1 to 3


class Hypothesis(NamedTuple):
    """A fitted function and its errors."""

    exponent: Fraction
    function: Function
    rss: float
    smape: float


@dataclass(frozen=True, slots=True)
class Refine:
    """Paper 001; its thresholds are options [REF §3.3]."""

    acceptance: float = 1.5
    termination: float = 2.0
    non_constancy: float = 2.0
    name: ClassVar[str] = "refine"
    min_points: ClassVar[int] = 5
    shares_noise: ClassVar[bool] = False

    def fit(self, series: Series) -> list[Model]:
        """See Modeler; one parameter only. Below three points the answer is the constant.

        Raises:
            ModelingError: for several parameters.
        """
        models = []
        for x, y in series.measured_points(self.name):
            function = self._function(series.parameters[0], x[:, 0], y)
            models.append(
                Model(
                    parameters=series.parameters,
                    segments=(Segment(-np.inf, np.inf, function),),
                    quality=quality(y, function(x), coefficients=1 + len(function.terms)),
                    modeler=self.name,
                    coordinates=x,
                    values=y,
                    spreads=spread_of(function, x, y),
                    findings=report_few_points(len(y)),
                )
            )
        return models

    def _function(self, parameter: str, x: FloatArray, y: FloatArray) -> Function:
        mean = float(np.mean(y)) if len(y) else float("nan")
        constant = hypothesis(parameter, x, y, ZERO, ZERO)
        if len(y) < 3 or constant is None:
            return Function((parameter,), mean)
        slices = [_Slice(parameter, x, y, fixed) for fixed in SLICES]
        slices = [one for one in slices if one.best is not None]
        if not slices:
            return constant.function
        accepted = min((one.best for one in slices if one.best), key=lambda h: h.rss)
        for _ in range(MOST):
            gains = [one.refine() for one in slices]
            candidate = min((one.best for one in slices if one.best), key=lambda h: h.rss)
            if _gain(accepted.smape, candidate.smape) >= self.acceptance:
                accepted = candidate
            if max(gains) < self.termination:
                break
        is_better = _gain(constant.smape, accepted.smape) >= self.non_constancy
        return accepted.function if is_better else constant.function


class _Slice:
    """One line through the plane of exponents: its best hypothesis and the bounds around it."""

    def __init__(
        self, parameter: str, x: FloatArray, y: FloatArray, fixed: Fraction | None
    ) -> None:
        self.parameter, self.x, self.y, self.fixed = parameter, x, y, fixed
        integers = [Fraction(i) for i in (BETAS if fixed is None else ALPHAS)]
        tried = [self._try(exponent) for exponent in integers]
        found = [one for one in tried if one is not None]
        self.best = min(found, key=lambda one: one.rss) if found else None
        if self.best is not None:
            self.lower = max(self.best.exponent - 1, ZERO)
            self.upper = self.best.exponent + 1

    def _try(self, exponent: Fraction) -> Hypothesis | None:
        alpha, beta = (ZERO, exponent) if self.fixed is None else (exponent, self.fixed)
        if not alpha and not beta:
            return None
        return hypothesis(self.parameter, self.x, self.y, alpha, beta)

    def refine(self) -> float:
        """One iteration [REF §3.3, Fig. 2]; answers by which factor SMAPE improved."""
        best = self.best
        if best is None:
            return 1.0
        low, high = mediant(self.lower, best.exponent), mediant(best.exponent, self.upper)
        left, right = (
            self._try(exponent) if exponent != best.exponent else None for exponent in (low, high)
        )
        candidates = [one for one in (left, right) if one is not None and one.rss < best.rss]
        if not candidates:
            self.lower, self.upper = low, high
            return 1.0
        winner = min(candidates, key=lambda one: one.rss)
        if winner is left:
            self.upper = best.exponent
        else:
            self.lower = best.exponent
        self.best = winner
        return _gain(best.smape, winner.smape)


def mediant(a: Fraction, b: Fraction) -> Fraction:
    """Between two fractions, with the smallest denominator in between them [REF §3.3]."""
    return Fraction(a.numerator + b.numerator, a.denominator + b.denominator)


def hypothesis(
    parameter: str, x: FloatArray, y: FloatArray, alpha: Fraction, beta: Fraction
) -> Hypothesis | None:
    """`c0 + c1 · x^alpha · log2(x)^beta` by least squares through y (n,) at x (n,); None where the
    term cannot be told apart.
    """
    factor = Factor(parameter, alpha, beta)
    exponent = alpha or beta
    if not len(y):
        return None
    if not exponent:
        function = Function((parameter,), float(np.mean(y)))
    else:
        term = factor(x)
        centred = term - term.mean()
        spread = float(centred @ centred)
        if not np.isfinite(spread) or spread <= 1e-20 * float(term @ term):
            return None
        slope = float(centred @ (y - y.mean())) / spread
        offset = float(y.mean() - slope * term.mean())
        function = Function((parameter,), offset, (Term(slope, (factor,)),))
    fitted = function(x)
    return Hypothesis(exponent, function, float(np.sum((y - fitted) ** 2)), float(smape(y, fitted)))


def _gain(before: float, after: float) -> float:
    """By which factor an error improved; errors of rounding count as none."""
    floor = 1e-9
    return max(before, floor) / max(after, floor)
