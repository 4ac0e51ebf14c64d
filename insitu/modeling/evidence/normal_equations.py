"""Least squares fits of all hypotheses to many series on the same points.

Two stages keep it cheap. Every hypothesis gets a score from its least squares fit, in closed form
through the normal equations that all series share. The evidence is computed for the best few only.

With relative errors, the smallest value of a series weighs most. Where it outweighs all others by
far, sums lose the digits that matter unless they are taken relative to that point.
"""

from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from insitu.modeling.evidence.marginal import log_evidence
from insitu.modeling.evidence.relative_data import RelativeData
from insitu.modeling.measurement import FloatArray, IntArray

Number = TypeVar("Number", np.float64, np.intp, np.bool_)

TYPICAL_NOISE = 0.01  # relative, assumed for the score of the first stage …
SMALLEST_NOISE = 1e-6  # … and the least, for the score of series that have hardly any
LOG_PRICE_OF_CONSTANT = 2.0  # log evidence that a constant beside the terms costs in the score
DOMINANT = 1e4  # times all other weights of a series: a point that weighs more dominates the sums
SMALLEST_SQUARE = 1e-60  # a column whose squared length is smaller is zero on the measured points
DEPENDENT = 1e-11  # columns are dependent if less than this share of them is their own
INFEASIBLE_RSS = np.float32(1e30)  # residuals of what is not feasible
ROUNDING = 1e-9  # a smaller coefficient is zero, relative to its standard deviation at noise 1:
# its sign, which decides what is feasible, would depend on the processor
UNSEEN_TERM_SHARE = 0.5  # share of the one-term prior with an invisible term that the constant gets

# Positions of the inverse normal equations in `Candidates.inverse`: (row, column) each.
INVERSE_ELEMENTS = ((0, 0), (1, 1), (2, 2), (0, 1), (0, 2), (1, 2))


@dataclass(frozen=True, slots=True)
class Candidates:
    """Fits of the hypotheses that survived the first stage, h per series s.

    first, second: (s, h) indices of terms, -1 for none. coefficients: constant, first and second
    term, (s, h) each. inverse: elements of the inverse normal equations in the order of
    INVERSE_ELEMENTS, (s, h) each. log_evidence: (s, h, L) with the prior, -inf where a coefficient
    would be negative; `fit_terms` and its like leave out the residuals, which `posterior` adds.
    """

    first: IntArray
    second: IntArray
    coefficients: tuple[FloatArray, ...]
    inverse: tuple[FloatArray, ...]
    log_evidence: FloatArray

    def select(self, rows: IntArray | slice) -> "Candidates":
        """Return the candidates of some of the series (k,)."""
        return Candidates(
            first=self.first[rows],
            second=self.second[rows],
            coefficients=tuple(values[rows] for values in self.coefficients),
            inverse=tuple(values[rows] for values in self.inverse),
            log_evidence=self.log_evidence[rows],
        )

    def replace(self, rows: IntArray, others: "Candidates") -> None:
        """Take the candidates of some of the series (k,) from others, which have equally many."""
        self.first[rows], self.second[rows] = others.first, others.second
        self.log_evidence[rows] = others.log_evidence
        for own, other in zip(
            (*self.coefficients, *self.inverse),
            (*others.coefficients, *others.inverse),
            strict=True,
        ):
            own[rows] = other


class NormalEquations:
    """Normal equations of all single terms, with the constant (centred) and without it.

    Arrays are terms by series, (T, s), so that what belongs to a series broadcasts and terms are
    taken by row. Sums over the points are written with the letters of least squares: Σw, Σwy, Σwt,
    Σwt², Σwty for weights w, values y and terms t.
    """

    def __init__(self, data: RelativeData, *, is_exact: bool = False) -> None:
        """Sum over the points, once for all hypotheses.

        Args:
            data: the series.
            is_exact: compute scores in double precision, for series that have hardly any noise.
        """
        self.is_exact = is_exact
        terms = np.where(np.isfinite(data.terms), data.terms, 0.0)
        weights, moments = data.weights.T, data.moments.T
        self.data, self.terms = data, terms
        self.counts, self.squares = data.counts, data.squares

        # Of the series: (s,).
        self.sum_w = np.maximum(data.weights.sum(axis=1), 1e-300)  # Σw
        self.sum_wy = data.moments.sum(axis=1)  # Σwy
        self.mean_y = self.sum_wy / self.sum_w
        self.centred_squares = np.maximum(self.squares - self.sum_wy * self.mean_y, 0.0)

        # Of the terms without the constant: (T, s).
        self.mean_t = terms @ weights
        self.mean_t /= self.sum_w
        self.sum_tt = np.maximum((terms * terms) @ weights, 1e-300)  # Σwt²
        self.sum_ty = terms @ moments  # Σwty

        # Of the terms beside the constant, centred: (T, s).
        # In place, since these are large arrays.
        of_mean = self.mean_t**2
        of_mean *= self.sum_w
        self.centred_tt = np.subtract(self.sum_tt, of_mean, out=of_mean)
        of_mean = self.mean_t * self.sum_wy
        self.centred_ty = np.subtract(self.sum_ty, of_mean, out=of_mean)
        limit = DEPENDENT * self.sum_tt
        np.maximum(limit, SMALLEST_SQUARE, out=limit)
        heaviest = data.weights.max(axis=1, initial=0.0)
        is_dominated = (heaviest > DOMINANT * (self.sum_w - heaviest)) & (data.counts > 1)
        self.dominated = np.flatnonzero(is_dominated)
        for row in self.dominated.tolist():
            limit[:, row] = self._centre_at_heaviest(row)

        self.is_independent = self.centred_tt > limit
        np.copyto(self.centred_tt, self.sum_tt, where=~self.is_independent)

        # The data relative to which terms are large or small: 1/size, (n, s) and (s,).
        self.inverse_sizes = np.sqrt(np.where(weights > 0, weights, 0.0))
        self.largest = np.maximum(self.inverse_sizes.max(axis=0, initial=0.0), 1e-300)

        self.beside_constant = self._scale_to_unit(self.centred_tt, self.centred_ty)
        self.alone = self._scale_to_unit(self.sum_tt, self.sum_ty)

    def _centre_at_heaviest(self, row: int) -> FloatArray:
        """Take the centred sums of one series relative to its heaviest point, which adds nothing.

        Returns:
            What the squares of each term must exceed (T,) to be more than rounding.
        """
        weights, moments = self.data.weights[row], self.data.moments[row]
        heaviest = int(np.argmax(weights))
        values = moments / np.where(weights > 0, weights, 1.0)
        terms = self.terms - self.terms[:, heaviest, None]
        y = values - values[heaviest]

        offset_t = (terms * weights).sum(axis=1) / self.sum_w[row]
        offset_y = (weights * y).sum() / self.sum_w[row]
        self.mean_t[:, row] = self.terms[:, heaviest] + offset_t
        self.mean_y[row] = values[heaviest] + offset_y

        centred = terms - offset_t[:, None]
        self.centred_tt[:, row] = (centred**2 * weights).sum(axis=1)
        self.centred_ty[:, row] = (centred * (y - offset_y) * weights).sum(axis=1)
        self.centred_squares[row] = ((y - offset_y) ** 2 * weights).sum()

        of_others = np.where(np.arange(len(weights)) == heaviest, 0.0, weights)
        squares_of_others: FloatArray = (self.terms**2 * of_others).sum(axis=1)
        return np.maximum(DEPENDENT * squares_of_others, SMALLEST_SQUARE)

    def _scale_to_unit(self, square: FloatArray, product: FloatArray) -> "_UnitTerms":
        scale = np.sqrt(square)
        np.divide(1, scale, out=scale)
        return _UnitTerms(
            scale, projection=self.round(product * scale), mean=self.round(self.mean_t * scale)
        )

    def largest_share(self, chosen: IntArray) -> FloatArray:
        """Return the largest value of the chosen terms relative to the data: (q, s) to (q, s)."""
        result = np.full(chosen.shape, 1e-300)
        for column, inverse_sizes in zip(self.terms.T, self.inverse_sizes, strict=True):
            np.maximum(result, column[chosen] * inverse_sizes, out=result)
        return result

    def score_terms(self, log_prior: FloatArray) -> FloatArray:
        """Return the score of the better of `term` and `constant + term`: (T,) to (T, s)."""
        beside, alone = self.beside_constant, self.alone
        mean_y = np.where(self.counts > 1, self.round(self.mean_y), np.float32(0))
        is_feasible = (beside.projection > 0) & (mean_y > beside.projection * beside.mean)

        with_constant = residual_squares(
            self.round(self.centred_squares), beside.projection * beside.projection
        )
        with_constant = np.where(is_feasible, with_constant, INFEASIBLE_RSS)
        without = residual_squares(self.round(self.squares), alone.projection * alone.projection)
        return self.score(log_prior, with_constant, without)

    def score(
        self, log_prior: FloatArray, with_constant: FloatArray, without: FloatArray
    ) -> FloatArray:
        """Return the score of hypotheses in the better of two forms: (h, s).

        Args:
            log_prior: (h,). with_constant, without: (h, s), residual squares with the constant
                beside the hypothesis and without it, in the precision of the scores.
        """
        floor = self.counts * TYPICAL_NOISE**2
        if self.is_exact:
            smallest = np.minimum(with_constant.min(axis=0), without.min(axis=0))
            floor = np.clip(smallest, self.counts * SMALLEST_NOISE**2, floor)

        price = np.exp(2 * LOG_PRICE_OF_CONSTANT / np.maximum(self.counts, 1))
        # In place, since these are the largest arrays of a batch.
        rss = with_constant + self.round(floor)
        rss *= self.round(price)
        np.minimum(rss, without + self.round(floor), out=rss)
        np.log(rss, out=rss)
        rss *= self.round(self.counts / 2)
        return np.asarray(np.subtract(self.round(log_prior)[:, None], rss, out=rss))

    def round(self, values: FloatArray) -> FloatArray:
        """Return values in the precision of scores: single, in half the time, or double."""
        return np.asarray(values, dtype=np.float64 if self.is_exact else np.float32)

    def fit_constant(
        self, levels: FloatArray, log_prior: float, invisible: FloatArray, *, prior_of_terms: float
    ) -> Candidates:
        """Return the constant; it also stands for functions whose one term cannot be seen.

        Args:
            levels: (L,) of noise.
            log_prior: of the constant.
            invisible: (L,), from `invisible_prior`.
            prior_of_terms: the prior of all one-term functions.
        """
        evidence = log_evidence(
            levels,
            degrees=self.counts[None] - 1,
            log_determinant=np.log(self.sum_w[None]),
            estimates=(self.mean_y[None],),
            deviations=(1 / np.sqrt(self.sum_w[None]),),
            largest=(self.largest[None],),
        )
        evidence += np.log(np.exp(log_prior) + UNSEEN_TERM_SHARE * prior_of_terms * invisible)

        no_term = np.full((1, len(self.mean_y)), -1, dtype=np.intp)
        inverse = {0: 1 / self.sum_w[None]}
        return make_candidates(
            (no_term, no_term), (self.mean_y[None], None, None), inverse, evidence
        )

    def fit_terms(
        self, best: IntArray, log_prior: FloatArray, levels: FloatArray, invisible: FloatArray
    ) -> list[Candidates]:
        """Return fits of the best terms (q, s), with the constant and without."""
        share = self.largest_share(best)
        no_term = np.full(best.shape, -1, dtype=np.intp)

        # constant + term
        mean_t, centred_tt = take_best(self.mean_t, best), take_best(self.centred_tt, best)
        centred_ty = take_best(self.centred_ty, best)
        slope = centred_ty / centred_tt
        offset = self.mean_y - slope * mean_t
        variance = 1 / self.sum_w + mean_t**2 / centred_tt
        evidence = log_evidence(
            levels,
            degrees=self.counts - 2,
            log_determinant=np.log(self.sum_w * centred_tt),
            estimates=(offset, slope),
            deviations=(np.sqrt(variance), 1 / np.sqrt(centred_tt)),
            largest=(self.largest, share),
        )
        offset, is_positive = clip_rounding(offset, np.sqrt(variance))
        is_feasible = (slope >= 0) & is_positive & (self.counts >= 2)
        is_feasible = is_feasible & take_best(self.is_independent, best)
        evidence += (log_prior[best] + log_indicator(is_feasible))[..., None]
        inverse = {0: variance, 1: 1 / centred_tt, 3: -mean_t / centred_tt}
        with_constant = make_candidates((best, no_term), (offset, slope, None), inverse, evidence)

        # term alone
        sum_tt, sum_ty = take_best(self.sum_tt, best), take_best(self.sum_ty, best)
        coefficient = sum_ty / sum_tt
        evidence = log_evidence(
            levels,
            degrees=self.counts - 1,
            log_determinant=np.log(sum_tt),
            estimates=(coefficient,),
            deviations=(1 / np.sqrt(sum_tt),),
            largest=(share,),
        )
        log_prior_here = log_prior[best] + log_indicator(sum_tt > SMALLEST_SQUARE)
        evidence += log_prior_here[..., None] + np.log(invisible)
        inverse = {1: 1 / sum_tt}
        alone = make_candidates((best, no_term), (None, coefficient, None), inverse, evidence)

        return [with_constant, alone]


@dataclass(frozen=True, slots=True)
class _UnitTerms:
    """Terms scaled to length 1, in the precision of the scores: what scores are made of.

    (T, s) each; scale: in double precision. projection: of the series on each term. mean: of it.
    """

    scale: FloatArray
    projection: FloatArray
    mean: FloatArray


def residual_squares(squares: FloatArray, explained: FloatArray) -> FloatArray:
    """Return the squares that are left when a hypothesis explains some of them."""
    left = squares - explained
    return np.asarray(np.maximum(left, 0, out=left))


def take_best(values: NDArray[Number], best: IntArray) -> NDArray[Number]:
    """The rows of the best hypotheses of each series: (h, s) to (q, s)."""
    return values[best, np.arange(best.shape[1])]


def clip_rounding(estimate: FloatArray, deviation: FloatArray) -> tuple[FloatArray, np.ndarray]:
    """Return estimates with zeros for what is rounding, and which estimates are not negative.

    Args:
        estimate: of a coefficient. deviation: of this estimate at noise 1.
    """
    is_rounding = np.abs(estimate) <= ROUNDING * deviation
    return np.where(is_rounding, 0.0, estimate), is_rounding | (estimate > 0)


def log_indicator(is_feasible: np.ndarray) -> FloatArray:
    """Return 0 where something is feasible and minus infinity elsewhere."""
    return np.where(is_feasible, 0.0, -np.inf)


def make_candidates(
    terms: tuple[IntArray, IntArray],
    coefficients: tuple[FloatArray | None, ...],
    inverse: dict[int, FloatArray],
    evidence: FloatArray,
) -> Candidates:
    """Candidates of one form, with zeros for what the form does not have."""
    zero = np.zeros(terms[0].shape)
    return Candidates(
        first=terms[0],
        second=terms[1],
        coefficients=tuple(zero if value is None else value for value in coefficients),
        inverse=tuple(inverse.get(i, zero) for i in range(len(INVERSE_ELEMENTS))),
        log_evidence=evidence,
    )


def concatenate_candidates(forms: list[Candidates]) -> Candidates:
    """Return the candidates of all forms together, series first: (q, s) each to (s, h)."""

    def join(arrays: list[NDArray[Number]]) -> NDArray[Number]:
        return np.concatenate(arrays).swapaxes(0, 1)

    return Candidates(
        first=join([form.first for form in forms]),
        second=join([form.second for form in forms]),
        coefficients=tuple(join([form.coefficients[i] for form in forms]) for i in range(3)),
        inverse=tuple(
            join([form.inverse[i] for form in forms]) for i in range(len(INVERSE_ELEMENTS))
        ),
        log_evidence=join([form.log_evidence for form in forms]),
    )
