"""Least squares fits of pairs of terms to many series on the same points."""

from dataclasses import dataclass

import numpy as np

from insitu.modeling.evidence.marginal import log_evidence
from insitu.modeling.evidence.noise import BoolArray
from insitu.modeling.evidence.normal_equations import (
    DEPENDENT,
    INFEASIBLE_RSS,
    INVERSE_ELEMENTS,
    SMALLEST_SQUARE,
    Candidates,
    NormalEquations,
    clip_rounding,
    make_candidates,
    residual_squares,
    take_best,
)
from insitu.modeling.measurement import FloatArray, IntArray
from insitu.modeling.orthogonal import OrthogonalFits, solve_orthogonally

# Terms are dependent if less than this share of their squares is their own, by precision.
DEPENDENT_SINGLE, DEPENDENT_DOUBLE = np.float32(1e-6), np.float64(1e-11)
ILL_CONDITIONED = 1e-5  # determinant below which normal equations lose more than five digits


class PairEquations:
    """Normal equations of pairs of terms, with the constant and without."""

    def __init__(self, normal: NormalEquations, pairs: IntArray) -> None:
        """Take the pairs (P, 2) of terms from the equations of the single terms."""
        self.normal, self.pairs = normal, pairs

    def score(self, log_prior: FloatArray) -> FloatArray:
        """Return the score of the better of both forms: (P,) to (P, s)."""
        normal, (first, second) = self.normal, self.pairs.T
        terms = normal.terms
        beside, alone = normal.beside_constant, normal.alone
        cross = (terms[first] * terms[second]) @ normal.data.weights.T

        def take(values: FloatArray, indices: IntArray) -> FloatArray:
            return np.take(values, indices, axis=0)  # several times as fast as by index

        cosine = cross * take(alone.scale, first)
        cosine *= take(alone.scale, second)
        explained = _explained_by_two(
            take(alone.projection, first), take(alone.projection, second), normal.round(cosine)
        )[0]
        without = residual_squares(normal.round(normal.squares), explained)

        # In place, since these are the largest arrays of a batch.
        mean = normal.mean_t * np.sqrt(normal.sum_w)
        cross -= take(mean, first) * take(mean, second)
        cross[:, normal.dominated] = 0.0  # all digits are lost; see below
        cross *= take(beside.scale, first)
        cross *= take(beside.scale, second)
        explained, of_first, of_second = _explained_by_two(
            take(beside.projection, first), take(beside.projection, second), normal.round(cross)
        )
        with_constant = residual_squares(normal.round(normal.centred_squares), explained)
        of_first *= take(beside.mean, first)
        of_second *= take(beside.mean, second)
        needs_negative_constant = of_first + of_second >= normal.round(normal.mean_y)
        np.copyto(with_constant, INFEASIBLE_RSS, where=needs_negative_constant)

        # As many coefficients as points fit anything: which pair is best would be rounding.
        with_constant[:, normal.counts <= 3] = INFEASIBLE_RSS
        without[:, normal.counts <= 2] = INFEASIBLE_RSS

        for row in normal.dominated.tolist():
            with_constant[:, row] = self._residuals_of_dominated(row, has_constant=True)
            without[:, row] = self._residuals_of_dominated(row, has_constant=False)
        return normal.score(log_prior, with_constant, without)

    def _residuals_of_dominated(self, row: int, *, has_constant: bool) -> FloatArray:
        """The residual squares of each pair for a series that one point dominates: (P,)."""
        first, second = self.pairs.T
        series = np.full(len(first), row)
        fits = self._solve(first, second, series, has_constant=has_constant)
        is_positive = (fits.coefficients >= 0).all(axis=1) & fits.is_independent
        return np.where(is_positive, fits.squares, INFEASIBLE_RSS)

    def _solve(
        self, first: IntArray, second: IntArray, series: IntArray, *, has_constant: bool
    ) -> OrthogonalFits:
        """Solutions that lose no digits, of h pairs of terms in one series each: (h,) each."""
        data, terms = self.normal.data, self.normal.terms
        weights = data.weights[series]
        root = np.sqrt(weights)
        right = data.moments[series] / np.where(root > 0, root, 1.0)

        columns = [terms[first] * root, terms[second] * root]
        if has_constant:
            columns.insert(0, root)
        return solve_orthogonally(np.stack(columns, axis=1), right)

    def fit(
        self, best: IntArray, log_prior: FloatArray, levels: FloatArray, invisible: FloatArray
    ) -> list[Candidates]:
        """Return fits of the best pairs (q, s), with the constant and without."""
        normal = self.normal
        terms = self.pairs[best, 0], self.pairs[best, 1]
        shares = normal.largest_share(terms[0]), normal.largest_share(terms[1])

        cross = np.zeros(best.shape)  # Σw t₁ t₂
        points = zip(normal.terms.T, normal.data.weights.T, strict=True)
        for column, weights in points:
            cross += column[terms[0]] * column[terms[1]] * weights

        beside = self._solve_ill(terms, self._fit_with_constant(terms, cross))
        alone = self._solve_ill(terms, self._fit_without_constant(terms, cross))
        prior = log_prior[best][..., None]
        return [
            self._weigh(terms, beside, levels, largest=(normal.largest, *shares), log_prior=prior),
            self._weigh(terms, alone, levels, largest=shares, log_prior=prior + np.log(invisible)),
        ]

    def _fit_with_constant(self, terms: tuple[IntArray, IntArray], cross: FloatArray) -> "_Fits":
        normal, (first, second) = self.normal, terms
        mean_1, mean_2 = take_best(normal.mean_t, first), take_best(normal.mean_t, second)
        solution = _TwoByTwo(
            aa=take_best(normal.centred_tt, first),
            bb=take_best(normal.centred_tt, second),
            ab=cross - mean_1 * mean_2 * normal.sum_w,
            ay=take_best(normal.centred_ty, first),
            by=take_best(normal.centred_ty, second),
        )
        offset = normal.mean_y - solution.first * mean_1 - solution.second * mean_2

        # The inverse of the three normal equations from that of the two centred ones.
        v11, v22, v12 = solution.inverse()
        v01 = -(mean_1 * v11 + mean_2 * v12)
        v02 = -(mean_1 * v12 + mean_2 * v22)
        v00 = 1 / normal.sum_w - mean_1 * v01 - mean_2 * v02

        are_terms = take_best(normal.is_independent, first)
        are_terms = are_terms & take_best(normal.is_independent, second)
        return _Fits(
            coefficients={0: offset, 1: solution.first, 2: solution.second},
            inverse={0: v00, 1: v11, 2: v22, 3: v01, 4: v02, 5: v12},
            log_determinant=np.log(normal.sum_w * solution.determinant),
            is_sound=solution.is_sound & are_terms,
            is_ill=solution.is_ill & are_terms,
        )

    def _fit_without_constant(self, terms: tuple[IntArray, IntArray], cross: FloatArray) -> "_Fits":
        normal, (first, second) = self.normal, terms
        solution = _TwoByTwo(
            aa=take_best(normal.sum_tt, first),
            bb=take_best(normal.sum_tt, second),
            ab=cross,
            ay=take_best(normal.sum_ty, first),
            by=take_best(normal.sum_ty, second),
        )
        v11, v22, v12 = solution.inverse()
        return _Fits(
            coefficients={1: solution.first, 2: solution.second},
            inverse={1: v11, 2: v22, 5: v12},
            log_determinant=np.log(solution.determinant),
            is_sound=solution.is_sound,
            is_ill=solution.is_ill,
        )

    def _solve_ill(self, terms: tuple[IntArray, IntArray], fits: "_Fits") -> "_Fits":
        """Replace the fits that closed forms compute with too few digits."""
        is_ill = fits.is_ill.copy()
        is_ill[:, self.normal.dominated] = True
        rows, series = np.nonzero(is_ill)
        if len(rows) == 0:
            return fits

        columns = sorted(fits.coefficients)
        solved = self._solve(
            terms[0][is_ill], terms[1][is_ill], series, has_constant=columns[0] == 0
        )
        for i, column in enumerate(columns):
            fits.coefficients[column][is_ill] = solved.coefficients[:, i]
        for element in fits.inverse:
            i, j = (columns.index(k) for k in INVERSE_ELEMENTS[element])
            fits.inverse[element][is_ill] = solved.inverse[:, i, j]
        fits.log_determinant[is_ill] = solved.log_determinant
        fits.is_sound[is_ill] = solved.is_independent
        return fits

    def _weigh(
        self,
        terms: tuple[IntArray, IntArray],
        fits: "_Fits",
        levels: FloatArray,
        *,
        largest: tuple[FloatArray, ...],
        log_prior: FloatArray,
    ) -> Candidates:
        """The candidates of one form, infeasible where a coefficient is negative.

        Args:
            log_prior: (q, s, 1) or (q, s, L).
        """
        columns = sorted(fits.coefficients)
        is_feasible = fits.is_sound & (self.normal.counts > len(columns))
        deviations = [np.sqrt(np.maximum(fits.inverse[i], 0.0)) for i in columns]
        for column, deviation in zip(columns, deviations, strict=True):
            estimate, is_positive = clip_rounding(fits.coefficients[column], deviation)
            fits.coefficients[column] = estimate
            is_feasible = is_feasible & is_positive

        estimates = [np.where(is_feasible, fits.coefficients[i], 0.0) for i in columns]
        evidence = log_evidence(
            levels,
            degrees=self.normal.counts - len(columns),
            log_determinant=fits.log_determinant,
            estimates=tuple(estimates),
            deviations=tuple(deviations),
            largest=largest,
        )
        evidence = np.where(is_feasible[..., None], evidence + log_prior, -np.inf)
        coefficients = (None, *estimates) if len(columns) == 2 else tuple(estimates)
        return make_candidates(terms, coefficients, fits.inverse, evidence)


@dataclass(frozen=True, slots=True)
class _Fits:
    """Least squares of q pairs of terms in s series: (q, s) each.

    coefficients: by column, 0 for the constant, 1 and 2 for the terms. inverse: of the normal
    equations, by index into INVERSE_ELEMENTS. is_sound: whether the columns are independent.
    is_ill: whether the closed form may have lost digits.
    """

    coefficients: dict[int, FloatArray]
    inverse: dict[int, FloatArray]
    log_determinant: FloatArray
    is_sound: BoolArray
    is_ill: BoolArray


def _explained_by_two(
    u: FloatArray, v: FloatArray, cosine: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """What two terms of length 1 explain of the squares of a series, and both coefficients.

    Minus infinity, in effect, if a coefficient would be negative or the terms are dependent.

    Args:
        u, v: projections of the series on both terms. cosine: of the angle between the terms.
    """
    limit = DEPENDENT_DOUBLE if cosine.dtype == np.float64 else DEPENDENT_SINGLE
    determinant = cosine * cosine
    np.subtract(1, determinant, out=determinant)
    first, second = cosine * v, cosine * u
    np.subtract(u, first, out=first)
    np.subtract(v, second, out=second)
    is_sound = (first >= 0) & (second >= 0) & (determinant > limit)

    inverse = np.maximum(determinant, limit, out=determinant)
    np.divide(1, inverse, out=inverse)
    first *= inverse
    second *= inverse
    explained = u * first
    explained += v * second
    np.copyto(explained, -INFEASIBLE_RSS, where=~is_sound)
    return explained, first, second


class _TwoByTwo:
    """Two normal equations in closed form, element by element.

    The matrix is [[aa, ab], [ab, bb]], the right side (ay, by).
    """

    def __init__(
        self, *, aa: FloatArray, bb: FloatArray, ab: FloatArray, ay: FloatArray, by: FloatArray
    ) -> None:
        self.aa, self.bb, self.ab = aa, bb, ab
        product = np.maximum(aa * bb, 1e-300)
        determinant = aa * bb - ab * ab
        self.is_sound = determinant > np.maximum(DEPENDENT * product, SMALLEST_SQUARE)
        self.is_ill = determinant < ILL_CONDITIONED * product
        self.determinant = np.where(self.is_sound, determinant, product)
        self.first = (ay * bb - by * ab) / self.determinant
        self.second = (by * aa - ay * ab) / self.determinant

    def inverse(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return elements (0, 0), (1, 1) and (0, 1) of the inverse matrix."""
        return (
            self.bb / self.determinant,
            self.aa / self.determinant,
            -self.ab / self.determinant,
        )
