"""Least squares fits of all hypotheses to many series on the same points.

Two stages keep it cheap. Every hypothesis gets a score from its least squares fit, in closed form
through the normal equations that all series share. The evidence is computed for the best few only.
"""

from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from insitu.modeling.evidence.marginal import Float32Array, log_evidence
from insitu.modeling.evidence.relative_data import RelativeData
from insitu.modeling.measurement import FloatArray, IntArray

Number = TypeVar("Number", np.float64, np.intp, np.bool_)

TYPICAL_NOISE = 0.01  # relative, assumed for the score of the first stage
LOG_PRICE_OF_CONSTANT = 2.0  # log evidence that a constant beside the terms costs in the score
SMALLEST_SQUARE = 1e-60  # a column whose squared length is smaller is zero on the measured points
DEPENDENT = 1e-11  # columns are dependent if less than this share of them is their own
DEPENDENT_SINGLE = np.float32(1e-6)  # the same in single precision
INFEASIBLE_RSS = np.float32(1e30)  # residuals of what is not feasible
UNSEEN_TERM_SHARE = 0.5  # share of the one-term prior with an invisible term that the constant gets

# Positions of the inverse normal equations in `Candidates.inverse`: (row, column) each.
INVERSE_ELEMENTS = ((0, 0), (1, 1), (2, 2), (0, 1), (0, 2), (1, 2))


@dataclass(frozen=True, slots=True)
class Candidates:
    """Fits of the hypotheses that survived the first stage, h per series s.

    first, second: (s, h) indices of terms, -1 for none. coefficients: constant, first and second
    term, (s, h) each. inverse: elements of the inverse normal equations in the order of
    INVERSE_ELEMENTS, (s, h) each. log_evidence: (s, h, L) with the prior, -inf where a coefficient
    would be negative.
    """

    first: IntArray
    second: IntArray
    coefficients: tuple[FloatArray, ...]
    inverse: tuple[FloatArray, ...]
    log_evidence: FloatArray

    def select(self, rows: IntArray) -> "Candidates":
        """Return the candidates of some of the series (k,)."""
        return Candidates(
            first=self.first[rows],
            second=self.second[rows],
            coefficients=tuple(values[rows] for values in self.coefficients),
            inverse=tuple(values[rows] for values in self.inverse),
            log_evidence=self.log_evidence[rows],
        )


class NormalEquations:
    """Normal equations of all single terms, with the constant (centred) and without it.

    Arrays are terms by series, (T, s), so that what belongs to a series broadcasts and terms are
    taken by row. Sums over the points are written with the letters of least squares: Σw, Σwy, Σwt,
    Σwt², Σwty for weights w, values y and terms t.
    """

    def __init__(self, data: RelativeData) -> None:
        """Sum over the points, once for all hypotheses."""
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
        self.mean_t = terms @ weights / self.sum_w
        self.sum_tt = np.maximum((terms * terms) @ weights, 1e-300)  # Σwt²
        self.sum_ty = terms @ moments  # Σwty

        # Of the terms beside the constant, centred: (T, s).
        centred_tt = self.sum_tt - self.mean_t**2 * self.sum_w
        limit = np.maximum(DEPENDENT * self.sum_tt, SMALLEST_SQUARE)
        self.is_independent = centred_tt > limit
        self.centred_tt = np.where(self.is_independent, centred_tt, self.sum_tt)
        self.centred_ty = self.sum_ty - self.mean_t * self.sum_wy

        # The data relative to which terms are large or small: 1/size, (n, s) and (s,).
        self.inverse_sizes = np.sqrt(np.where(weights > 0, weights, 0.0))
        self.largest = np.maximum(self.inverse_sizes.max(axis=0, initial=0.0), 1e-300)

        self.beside_constant = _UnitTerms(self.centred_tt, self.centred_ty, self.mean_t)
        self.alone = _UnitTerms(self.sum_tt, self.sum_ty, self.mean_t)

    def largest_share(self, chosen: IntArray) -> FloatArray:
        """Return the largest value of the chosen terms relative to the data: (q, s) to (q, s)."""
        result = np.full(chosen.shape, 1e-300)
        for column, inverse_sizes in zip(self.terms.T, self.inverse_sizes, strict=True):
            np.maximum(result, column[chosen] * inverse_sizes, out=result)
        return result

    def score_terms(self, log_prior: FloatArray) -> Float32Array:
        """Return the score of the better of `term` and `constant + term`: (T,) to (T, s)."""
        beside, alone = self.beside_constant, self.alone
        mean_y = np.where(self.counts > 1, _to_single(self.mean_y), np.float32(0))
        is_feasible = (beside.projection > 0) & (mean_y > beside.projection * beside.mean)

        with_constant = _residual_squares(
            self.centred_squares, beside.projection * beside.projection
        )
        with_constant = (with_constant + self.noise_floor()) * self.price_of_constant()
        with_constant = np.where(is_feasible, with_constant, INFEASIBLE_RSS)
        without = _residual_squares(self.squares, alone.projection * alone.projection)
        rss = np.minimum(with_constant, without + self.noise_floor())

        half_counts = _to_single(self.counts / 2)
        return np.asarray(_to_single(log_prior)[:, None] - half_counts * np.log(rss))

    def noise_floor(self) -> Float32Array:
        """Return the residuals that typical noise leaves: (s,)."""
        return _to_single(self.counts * TYPICAL_NOISE**2)

    def price_of_constant(self) -> Float32Array:
        """Return the factor on the residuals that a constant costs: (s,)."""
        return _to_single(np.exp(2 * LOG_PRICE_OF_CONSTANT / np.maximum(self.counts, 1)))

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
            rss=self.centred_squares[None],
            log_determinant=np.log(self.sum_w[None]),
            estimates=(self.mean_y[None],),
            deviations=(1 / np.sqrt(self.sum_w[None]),),
            largest=(self.largest[None],),
        )
        evidence += np.log(np.exp(log_prior) + UNSEEN_TERM_SHARE * prior_of_terms * invisible)

        no_term = np.full((1, len(self.mean_y)), -1, dtype=np.intp)
        inverse = {0: 1 / self.sum_w[None]}
        return _candidates((no_term, no_term), (self.mean_y[None], None, None), inverse, evidence)

    def fit_terms(
        self, best: IntArray, log_prior: FloatArray, levels: FloatArray, invisible: FloatArray
    ) -> list[Candidates]:
        """Return fits of the best terms (q, s), with the constant and without."""
        share = self.largest_share(best)
        no_term = np.full(best.shape, -1, dtype=np.intp)

        # constant + term
        mean_t, centred_tt = _take(self.mean_t, best), _take(self.centred_tt, best)
        centred_ty = _take(self.centred_ty, best)
        slope = centred_ty / centred_tt
        offset = self.mean_y - slope * mean_t
        variance = 1 / self.sum_w + mean_t**2 / centred_tt
        evidence = log_evidence(
            levels,
            degrees=np.broadcast_to(self.counts - 2, best.shape),
            rss=np.maximum(self.centred_squares - slope * centred_ty, 0.0),
            log_determinant=np.log(self.sum_w * centred_tt),
            estimates=(offset, slope),
            deviations=(np.sqrt(variance), 1 / np.sqrt(centred_tt)),
            largest=(np.broadcast_to(self.largest, best.shape), share),
        )
        is_feasible = (slope >= 0) & (offset >= 0) & (self.counts >= 2)
        is_feasible = is_feasible & _take(self.is_independent, best)
        evidence += (log_prior[best] + _log_indicator(is_feasible))[..., None]
        inverse = {0: variance, 1: 1 / centred_tt, 3: -mean_t / centred_tt}
        with_constant = _candidates((best, no_term), (offset, slope, None), inverse, evidence)

        # term alone
        sum_tt, sum_ty = _take(self.sum_tt, best), _take(self.sum_ty, best)
        coefficient = sum_ty / sum_tt
        evidence = log_evidence(
            levels,
            degrees=np.broadcast_to(self.counts - 1, best.shape),
            rss=np.maximum(self.squares - coefficient * sum_ty, 0.0),
            log_determinant=np.log(sum_tt),
            estimates=(coefficient,),
            deviations=(1 / np.sqrt(sum_tt),),
            largest=(share,),
        )
        log_prior_here = log_prior[best] + _log_indicator(sum_tt > SMALLEST_SQUARE)
        evidence += log_prior_here[..., None] + np.log(invisible)
        inverse = {1: 1 / sum_tt}
        alone = _candidates((best, no_term), (None, coefficient, None), inverse, evidence)

        return [with_constant, alone]


class _UnitTerms:
    """Terms scaled to length 1, in single precision: what scores are made of."""

    def __init__(self, square: FloatArray, product: FloatArray, mean: FloatArray) -> None:
        self.scale = 1 / np.sqrt(square)
        self.projection = _to_single(product * self.scale)  # of the series on each term
        self.mean = _to_single(mean * self.scale)


class PairEquations:
    """Normal equations of pairs of terms, with the constant and without."""

    def __init__(self, normal: NormalEquations, pairs: IntArray) -> None:
        """Take the pairs (P, 2) of terms from the equations of the single terms."""
        self.normal, self.pairs = normal, pairs

    def score(self, log_prior: FloatArray) -> Float32Array:
        """Return the score of the better of both forms: (P,) to (P, s)."""
        normal, (first, second) = self.normal, self.pairs.T
        terms = normal.terms
        beside, alone = normal.beside_constant, normal.alone
        cross = (terms[first] * terms[second]) @ normal.data.weights.T

        cosine = cross * alone.scale[first]
        cosine *= alone.scale[second]
        explained = _explained_by_two(
            alone.projection[first], alone.projection[second], _to_single(cosine)
        )[0]
        without = _residual_squares(normal.squares, explained) + normal.noise_floor()

        # In place, since these are the largest arrays of a batch.
        mean = normal.mean_t * np.sqrt(normal.sum_w)
        cross -= mean[first] * mean[second]
        cross *= beside.scale[first]
        cross *= beside.scale[second]
        explained, of_first, of_second = _explained_by_two(
            beside.projection[first], beside.projection[second], _to_single(cross)
        )
        with_constant = _residual_squares(normal.centred_squares, explained)
        with_constant = (with_constant + normal.noise_floor()) * normal.price_of_constant()
        at_mean = of_first * beside.mean[first] + of_second * beside.mean[second]
        needs_negative_constant = at_mean >= _to_single(normal.mean_y)

        rss = np.minimum(np.where(needs_negative_constant, INFEASIBLE_RSS, with_constant), without)
        half_counts = _to_single(normal.counts / 2)
        return np.asarray(_to_single(log_prior)[:, None] - half_counts * np.log(rss))

    def fit(
        self, best: IntArray, log_prior: FloatArray, levels: FloatArray, invisible: FloatArray
    ) -> list[Candidates]:
        """Return fits of the best pairs (q, s), with the constant and without."""
        first, second = self.pairs[best, 0], self.pairs[best, 1]
        shares = self.normal.largest_share(first), self.normal.largest_share(second)

        cross = np.zeros(first.shape)  # Σw t₁ t₂
        points = zip(self.normal.terms.T, self.normal.data.weights.T, strict=True)
        for column, weights in points:
            cross += column[first] * column[second] * weights

        return [
            self._fit_with_constant(best, cross, log_prior, levels, shares=shares),
            self._fit_without_constant(
                best, cross, log_prior, levels, shares=shares, invisible=invisible
            ),
        ]

    def _fit_with_constant(
        self,
        best: IntArray,
        cross: FloatArray,
        log_prior: FloatArray,
        levels: FloatArray,
        *,
        shares: tuple[FloatArray, FloatArray],
    ) -> Candidates:
        normal = self.normal
        first, second = self.pairs[best, 0], self.pairs[best, 1]
        mean_1, mean_2 = _take(normal.mean_t, first), _take(normal.mean_t, second)
        solution = _TwoByTwo(
            aa=_take(normal.centred_tt, first),
            bb=_take(normal.centred_tt, second),
            ab=cross - mean_1 * mean_2 * normal.sum_w,
            ay=_take(normal.centred_ty, first),
            by=_take(normal.centred_ty, second),
        )
        offset = normal.mean_y - solution.first * mean_1 - solution.second * mean_2

        # The inverse of the three normal equations from that of the two centred ones.
        v11, v22, v12 = solution.inverse()
        v01 = -(mean_1 * v11 + mean_2 * v12)
        v02 = -(mean_1 * v12 + mean_2 * v22)
        v00 = 1 / normal.sum_w - mean_1 * v01 - mean_2 * v02

        evidence = log_evidence(
            levels,
            degrees=np.broadcast_to(normal.counts - 3, best.shape),
            rss=np.maximum(normal.centred_squares - solution.explained, 0.0),
            log_determinant=np.log(normal.sum_w * solution.determinant),
            estimates=(offset, solution.first, solution.second),
            deviations=(np.sqrt(v00), np.sqrt(v11), np.sqrt(v22)),
            largest=(np.broadcast_to(normal.largest, best.shape), *shares),
        )
        are_independent = _take(normal.is_independent, first) & _take(normal.is_independent, second)
        is_feasible = solution.is_feasible & (offset >= 0) & (normal.counts >= 3) & are_independent
        evidence += (log_prior[best] + _log_indicator(is_feasible))[..., None]

        coefficients = (offset, solution.first, solution.second)
        inverse = {0: v00, 1: v11, 2: v22, 3: v01, 4: v02, 5: v12}
        return _candidates((first, second), coefficients, inverse, evidence)

    def _fit_without_constant(
        self,
        best: IntArray,
        cross: FloatArray,
        log_prior: FloatArray,
        levels: FloatArray,
        *,
        shares: tuple[FloatArray, FloatArray],
        invisible: FloatArray,
    ) -> Candidates:
        normal = self.normal
        first, second = self.pairs[best, 0], self.pairs[best, 1]
        solution = _TwoByTwo(
            aa=_take(normal.sum_tt, first),
            bb=_take(normal.sum_tt, second),
            ab=cross,
            ay=_take(normal.sum_ty, first),
            by=_take(normal.sum_ty, second),
        )
        v11, v22, v12 = solution.inverse()

        evidence = log_evidence(
            levels,
            degrees=np.broadcast_to(normal.counts - 2, best.shape),
            rss=np.maximum(normal.squares - solution.explained, 0.0),
            log_determinant=np.log(solution.determinant),
            estimates=(solution.first, solution.second),
            deviations=(np.sqrt(v11), np.sqrt(v22)),
            largest=shares,
        )
        is_feasible = solution.is_feasible & (normal.counts >= 2)
        log_prior_here = log_prior[best] + _log_indicator(is_feasible)
        evidence += log_prior_here[..., None] + np.log(invisible)

        coefficients = (None, solution.first, solution.second)
        return _candidates((first, second), coefficients, {1: v11, 2: v22, 5: v12}, evidence)


def _explained_by_two(
    u: Float32Array, v: Float32Array, cosine: Float32Array
) -> tuple[Float32Array, Float32Array, Float32Array]:
    """What two terms of length 1 explain of the squares of a series, and both coefficients.

    Minus infinity, in effect, if a coefficient would be negative or the terms are dependent.

    Args:
        u, v: projections of the series on both terms. cosine: of the angle between the terms.
    """
    determinant = 1 - cosine * cosine
    first, second = u - cosine * v, v - cosine * u
    is_sound = (first >= 0) & (second >= 0) & (determinant > DEPENDENT_SINGLE)
    inverse = 1 / np.maximum(determinant, DEPENDENT_SINGLE)
    first *= inverse
    second *= inverse
    return np.where(is_sound, u * first + v * second, -INFEASIBLE_RSS), first, second


class _TwoByTwo:
    """Two normal equations in closed form, element by element.

    The matrix is [[aa, ab], [ab, bb]], the right side (ay, by).
    """

    def __init__(
        self, *, aa: FloatArray, bb: FloatArray, ab: FloatArray, ay: FloatArray, by: FloatArray
    ) -> None:
        self.aa, self.bb, self.ab = aa, bb, ab
        determinant = aa * bb - ab * ab
        is_sound = determinant > np.maximum(DEPENDENT * aa * bb, SMALLEST_SQUARE)
        self.determinant = np.where(is_sound, determinant, np.maximum(aa * bb, 1e-300))
        self.first = (ay * bb - by * ab) / self.determinant
        self.second = (by * aa - ay * ab) / self.determinant
        self.is_feasible = is_sound & (self.first >= 0) & (self.second >= 0)
        self.explained = self.first * ay + self.second * by

    def inverse(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return elements (0, 0), (1, 1) and (0, 1) of the inverse matrix."""
        return (
            self.bb / self.determinant,
            self.aa / self.determinant,
            -self.ab / self.determinant,
        )


def _residual_squares(squares: FloatArray, explained: Float32Array) -> Float32Array:
    """The squares that are left when a hypothesis explains some of them."""
    return np.asarray(np.maximum(_to_single(squares) - explained, np.float32(0)))


def _take(values: NDArray[Number], best: IntArray) -> NDArray[Number]:
    """The rows of the best hypotheses of each series: (h, s) to (q, s)."""
    return values[best, np.arange(best.shape[1])]


def _to_single(values: FloatArray) -> Float32Array:
    return np.asarray(values, dtype=np.float32)


def _log_indicator(is_feasible: np.ndarray) -> FloatArray:
    return np.where(is_feasible, 0.0, -np.inf)


def _candidates(
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
