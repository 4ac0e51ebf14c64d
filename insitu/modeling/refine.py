"""Modeler "refine": iterative refinement of exponents by mediants, as in paper [REF §3].

Functions are `c0 + c1 · x^α · log2(x)^β`. Four slices of the plane of exponents (β = 0, 1, 2 and
α = 0) are searched for their best integer exponent. Then each slice is refined: the mediants of its
best exponent with both bounds are tried, and the bounds move closer. Regression minimises the RSS.
SMAPE decides when a finer exponent is accepted, when refinement ends, and whether a function that
is not constant is worth it. With several parameters, the functions of each are combined.
"""

from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, NamedTuple

import numpy as np

from insitu.modeling.base import Model, Segment
from insitu.modeling.combine import combine_parameters
from insitu.modeling.measurement import FloatArray
from insitu.modeling.pmnf import ONE, ZERO, Factor, Function, Term
from insitu.modeling.quality import quality, smape
from insitu.modeling.residual import spread_of
from insitu.modeling.search import report_few_points
from insitu.modeling.series import Series

ALPHAS, BETAS = range(6), range(3)  # integers to begin with: α < 6, β < 3 [REF §3.2]
SLICES = (ZERO, ONE, Fraction(2), None)  # fixed β; None: α = 0 and β varies [REF §3.2]
MAX_ITERATIONS = 20  # the paper sees 1 to 3
INDISTINCT = 1e-20  # a term whose variation is this small, relative to its square, is constant
ROUNDING_SMAPE = 1e-9  # percent; smaller errors are rounding


class Hypothesis(NamedTuple):
    """A fitted function with its exponent in the slice and its errors."""

    exponent: Fraction
    function: Function
    rss: float
    smape: float


@dataclass(frozen=True, slots=True)
class Refine:
    """Iterative refinement; the options are factors between values of SMAPE [REF §3.3].

    acceptance: by which a finer exponent must improve. termination: below which refinement ends.
    non_constancy: by which growth must improve on the constant.
    """

    acceptance: float = 1.5
    termination: float = 2.0
    non_constancy: float = 2.0
    name: ClassVar[str] = "refine"
    min_points: ClassVar[int] = 5
    shares_noise: ClassVar[bool] = False

    def fit(self, series: Series) -> list[Model]:
        """Return one model per series; see Modeler.

        Below three points the model is the constant. Functions of several parameters combine the
        functions of each [REF §3].
        """
        models = []
        for x, y in series.measured_points():
            if len(series.parameters) == 1:
                function = self._function(series.parameters[0], x[:, 0], y)
            else:
                function = combine_parameters(series.parameters, x, y, self._function)
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
        constant = fit_hypothesis(parameter, x, y, ZERO, ZERO)
        if len(y) < 3 or constant is None:
            return Function((parameter,), float(np.mean(y)) if len(y) else float("nan"))

        slices = [_Slice(parameter, x, y, fixed) for fixed in SLICES]
        slices = [line for line in slices if line.best is not None]
        if not slices:
            return constant.function

        accepted = _best_of(slices)
        for _ in range(MAX_ITERATIONS):
            gains = [line.refine() for line in slices]
            candidate = _best_of(slices)
            if _gain(accepted.smape, candidate.smape) >= self.acceptance:
                accepted = candidate
            if max(gains) < self.termination:
                break

        is_growth = _gain(constant.smape, accepted.smape) >= self.non_constancy
        return accepted.function if is_growth else constant.function


class _Slice:
    """One line through the plane of exponents: its best hypothesis and the bounds around it."""

    def __init__(
        self, parameter: str, x: FloatArray, y: FloatArray, fixed: Fraction | None
    ) -> None:
        self.parameter, self.x, self.y, self.fixed = parameter, x, y, fixed
        self.best: Hypothesis | None = None
        for exponent in BETAS if fixed is None else ALPHAS:
            hypothesis = self._try(Fraction(exponent))
            if hypothesis and (self.best is None or hypothesis.rss < self.best.rss):
                self.best = hypothesis

        if self.best is not None:
            self.lower = max(self.best.exponent - 1, ZERO)
            self.upper = self.best.exponent + 1

    def _try(self, exponent: Fraction) -> Hypothesis | None:
        alpha, beta = (ZERO, exponent) if self.fixed is None else (exponent, self.fixed)
        if not alpha and not beta:
            return None
        return fit_hypothesis(self.parameter, self.x, self.y, alpha, beta)

    def refine(self) -> float:
        """Do one iteration, and return by which factor SMAPE improved [REF §3.3, Fig. 2]."""
        best = self.best
        if best is None:
            return 1.0

        low, high = mediant(self.lower, best.exponent), mediant(best.exponent, self.upper)
        left = self._try(low) if low != best.exponent else None
        right = self._try(high) if high != best.exponent else None
        better = [h for h in (left, right) if h is not None and h.rss < best.rss]
        if not better:
            self.lower, self.upper = low, high
            return 1.0

        self.best = min(better, key=lambda hypothesis: hypothesis.rss)
        if self.best is left:
            self.upper = best.exponent
        else:
            self.lower = best.exponent
        return _gain(best.smape, self.best.smape)


def _best_of(slices: list[_Slice]) -> Hypothesis:
    hypotheses = [line.best for line in slices if line.best is not None]
    return min(hypotheses, key=lambda hypothesis: hypothesis.rss)


def mediant(a: Fraction, b: Fraction) -> Fraction:
    """Return the fraction between two others with the smallest denominator [REF §3.3]."""
    return Fraction(a.numerator + b.numerator, a.denominator + b.denominator)


def fit_hypothesis(
    parameter: str, x: FloatArray, y: FloatArray, alpha: Fraction, beta: Fraction
) -> Hypothesis | None:
    """Fit `c0 + c1 · x^alpha · log2(x)^beta` by least squares; None if it cannot be determined.

    Args:
        x, y: (n,) points of one parameter.
    """
    if not len(y):
        return None

    factor = Factor(parameter, alpha, beta)
    exponent = alpha or beta
    if not exponent:
        function = Function((parameter,), float(np.mean(y)))
    else:
        term = factor(x)
        centred = term - term.mean()
        variation = float(centred @ centred)
        if not np.isfinite(variation) or variation <= INDISTINCT * float(term @ term):
            return None
        slope = float(centred @ (y - y.mean())) / variation
        offset = float(y.mean() - slope * term.mean())
        function = Function((parameter,), offset, (Term(slope, (factor,)),))

    fitted = function(x)
    rss = float(np.sum((y - fitted) ** 2))
    return Hypothesis(exponent, function, rss, float(smape(y, fitted)))


def _gain(before: float, after: float) -> float:
    """The factor by which SMAPE improved."""
    return max(before, ROUNDING_SMAPE) / max(after, ROUNDING_SMAPE)
