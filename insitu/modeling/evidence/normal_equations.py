"""Least squares fits of the hypotheses of a lattice to many series on the same points.

Two stages keep it cheap: every hypothesis gets a score from its least squares fit, in closed form
through the normal equations that all series share; the evidence is computed for the best few only.
"""

from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from insitu.modeling.evidence.marginal import Singles, log_evidence
from insitu.modeling.evidence.relative_data import Data
from insitu.modeling.measurement import FloatArray, IntArray

Number = TypeVar("Number", np.float64, np.intp, np.bool_)

TYPICAL_NOISE = 0.01  # for the score of the first stage
PRICE_OF_CONSTANT = 2.0  # the same, logarithm
VANISHING = 1e-60  # columns whose square is smaller are zero on the points measured
DEPENDENT = 1e-11  # columns whose part of their own is smaller cannot be told apart
ALIKE = np.float32(1e-6)  # the same in single precision
FAR = np.float32(1e30)  # residuals of what is not feasible
CONSTANT_ONLY = 0.5  # weight of one-term functions whose term cannot be seen


@dataclass(frozen=True, slots=True)
class Candidates:
    """Fits of the hypotheses that survived, h per series s.

    first, second: (s, h) indices of terms, -1 for none. coefficients: constant, first, second, each
    (s, h). inverse: of the normal equations, in the order 00 11 22 01 02 12. log_evidence: (s, h,
    L), prior included, -inf where a coefficient would be negative.
    """

    first: IntArray
    second: IntArray
    coefficients: tuple[FloatArray, ...]
    inverse: tuple[FloatArray, ...]
    log_evidence: FloatArray


class Normal:
    """Normal equations of all single terms with the constant: centred, and without it.

    Terms t by series s, so that what belongs to a series broadcasts and terms are taken by row.
    """

    def __init__(self, data: Data) -> None:
        rows = np.where(np.isfinite(data.rows), data.rows, 0.0)
        weights, moments = data.weights.T, data.moments.T
        self.data, self.rows = data, rows
        self.ones = np.maximum(data.weights.sum(axis=1), 1e-300)  # Σw
        self.total = data.moments.sum(axis=1)  # Σwy
        self.mean = rows @ weights / self.ones  # (T, s)
        self.square = np.maximum((rows * rows) @ weights, 1e-300)
        self.product = rows @ moments
        spread = self.square - self.mean**2 * self.ones
        self.independent = spread > np.maximum(DEPENDENT * self.square, VANISHING)
        self.spread = np.where(self.independent, spread, self.square)
        self.centred = self.product - self.mean * self.total
        self.level = self.total / self.ones
        self.squares = data.squares
        self.around = np.maximum(self.squares - self.total * self.level, 0.0)
        self.sizes = np.sqrt(np.where(weights > 0, weights, 0.0))  # 1/y, (n, s)
        self.largest = np.maximum(self.sizes.max(axis=0, initial=0.0), 1e-300)
        self.counts = data.counts
        self.unit = _Unit(self.spread, self.centred, self.mean)
        self.unit_alone = _Unit(self.square, self.product, self.mean)

    def largest_share(self, chosen: IntArray) -> FloatArray:
        """The largest value of the terms relative to the data: (q, s)."""
        answer = np.full(chosen.shape, 1e-300)
        for column, sizes in zip(self.rows.T, self.sizes, strict=True):
            np.maximum(answer, column[chosen] * sizes, out=answer)
        return answer

    def score_singles(self, prior: FloatArray) -> Singles:
        """How good the better of term and constant + term looks: (T, s)."""
        unit, alone = self.unit, self.unit_alone
        level = np.where(self.counts > 1, _single(self.level), np.float32(0))
        feasible = (unit.along > 0) & (level > unit.along * unit.mean)
        rss = _left(self.around, unit.along * unit.along)
        rss = np.where(feasible, (rss + self.floor()) * self.price(), FAR)
        without = _left(self.squares, alone.along * alone.along)
        rss = np.minimum(rss, without + self.floor())
        return np.asarray(_single(prior)[:, None] - _single(self.counts / 2) * np.log(rss))

    def floor(self) -> Singles:
        """What the noise adds to the residuals, roughly."""
        return _single(self.counts * TYPICAL_NOISE**2)

    def price(self) -> Singles:
        """Of a constant, as a factor of the residuals."""
        return _single(np.exp(2 * PRICE_OF_CONSTANT / np.maximum(self.counts, 1)))

    def constant(
        self, levels: FloatArray, prior: float, seen: FloatArray, singles: float
    ) -> Candidates:
        """The constant function; it also stands for one-term functions whose term cannot be
        seen.

        Args:
            levels: (L,) of noise. prior: logarithm. seen: (L,), see `negligible`. singles: the
                prior of all one-term functions.
        """
        evidence = log_evidence(
            levels,
            degrees=self.counts[None] - 1,
            rss=self.around[None],
            log_determinant=np.log(self.ones[None]),
            estimates=(self.level[None],),
            deviations=(1 / np.sqrt(self.ones[None]),),
            largest=(self.largest[None],),
        )
        evidence += np.log(np.exp(prior) + CONSTANT_ONLY * singles * seen)
        none = np.full((1, len(self.level)), -1, dtype=np.intp)
        inverse = {0: 1 / self.ones[None]}
        return _family((none, none), (self.level[None], None, None), inverse, evidence)

    def singles(
        self, best: IntArray, prior: FloatArray, levels: FloatArray, seen: FloatArray
    ) -> list[Candidates]:
        """The best terms (q, s), with the constant and without."""
        mean, spread = _taken(self.mean, best), _taken(self.spread, best)
        square, product = _taken(self.square, best), _taken(self.product, best)
        centred, share = _taken(self.centred, best), self.largest_share(best)
        slope = centred / spread
        offset = self.level - slope * mean
        variance = 1 / self.ones + mean**2 / spread
        evidence = log_evidence(
            levels,
            degrees=np.broadcast_to(self.counts - 2, best.shape),
            rss=np.maximum(self.around - slope * centred, 0.0),
            log_determinant=np.log(self.ones * spread),
            estimates=(offset, slope),
            deviations=(np.sqrt(variance), 1 / np.sqrt(spread)),
            largest=(np.broadcast_to(self.largest, best.shape), share),
        )
        feasible = (slope >= 0) & (offset >= 0) & (self.counts >= 2)
        evidence += (prior[best] + _where(feasible & _taken(self.independent, best)))[..., None]
        none = np.full(best.shape, -1, dtype=np.intp)
        inverse = {0: variance, 1: 1 / spread, 3: -mean / spread}
        with_constant = _family((best, none), (offset, slope, None), inverse, evidence)
        alone = product / square
        evidence = log_evidence(
            levels,
            degrees=np.broadcast_to(self.counts - 1, best.shape),
            rss=np.maximum(self.squares - alone * product, 0.0),
            log_determinant=np.log(square),
            estimates=(alone,),
            deviations=(1 / np.sqrt(square),),
            largest=(share,),
        )
        evidence += (prior[best] + _where(square > VANISHING))[..., None] + np.log(seen)
        return [
            with_constant,
            _family((best, none), (None, alone, None), {1: 1 / square}, evidence),
        ]


class _Unit:
    """Terms scaled to length 1, in single precision: what scores are made of."""

    def __init__(self, square: FloatArray, product: FloatArray, mean: FloatArray) -> None:
        self.scale = 1 / np.sqrt(square)
        self.along = _single(product * self.scale)
        self.mean = _single(mean * self.scale)


class Doubles:
    """Normal equations of pairs of terms with the constant and without."""

    def __init__(self, normal: Normal, pairs: IntArray) -> None:
        self.normal, self.pairs = normal, pairs

    def score(self, prior: FloatArray) -> Singles:
        """How good the better of both forms looks: (P, s)."""
        normal, (first, second) = self.normal, self.pairs.T
        rows = normal.rows
        cross = (rows[first] * rows[second]) @ normal.data.weights.T
        unit, alone = normal.unit, normal.unit_alone
        shared = cross * alone.scale[first]
        shared *= alone.scale[second]
        two = _explained(alone.along[first], alone.along[second], _single(shared))[0]
        two = _left(normal.squares, two) + normal.floor()
        mean = normal.mean * np.sqrt(normal.ones)
        cross -= mean[first] * mean[second]
        cross *= unit.scale[first]
        cross *= unit.scale[second]
        three, along, across = _explained(unit.along[first], unit.along[second], _single(cross))
        three = (_left(normal.around, three) + normal.floor()) * normal.price()
        above = along * unit.mean[first] + across * unit.mean[second] >= _single(normal.level)
        rss = np.minimum(np.where(above, FAR, three), two)
        return _single(prior)[:, None] - _single(normal.counts / 2) * np.log(rss)

    def fits(
        self, best: IntArray, prior: FloatArray, levels: FloatArray, seen: FloatArray
    ) -> list[Candidates]:
        """The best pairs (q, s), with the constant and without."""
        normal = self.normal
        first, second = self.pairs[best, 0], self.pairs[best, 1]
        shares = normal.largest_share(first), normal.largest_share(second)
        means = _taken(normal.mean, first), _taken(normal.mean, second)
        cross = np.zeros(first.shape)
        for column, weights in zip(normal.rows.T, normal.data.weights.T, strict=True):
            cross += column[first] * column[second] * weights
        parts = [(one, _taken(one, first), _taken(one, second)) for one in _equations(normal)]
        spread, centred, square, product = (part[1:] for part in parts)
        two = _Two(*spread, cross - means[0] * means[1] * normal.ones, *centred)
        offset = normal.level - two.first * means[0] - two.second * means[1]
        v11, v22, v12 = two.inverse()
        v01, v02 = -(means[0] * v11 + means[1] * v12), -(means[0] * v12 + means[1] * v22)
        v00 = 1 / normal.ones - means[0] * v01 - means[1] * v02
        independent = _taken(normal.independent, first) & _taken(normal.independent, second)
        evidence = log_evidence(
            levels,
            degrees=np.broadcast_to(normal.counts - 3, best.shape),
            rss=np.maximum(normal.around - two.explained, 0.0),
            log_determinant=np.log(normal.ones * two.determinant),
            estimates=(offset, two.first, two.second),
            deviations=(np.sqrt(v00), np.sqrt(v11), np.sqrt(v22)),
            largest=(np.broadcast_to(normal.largest, best.shape), *shares),
        )
        feasible = two.feasible & (offset >= 0) & (normal.counts >= 3) & independent
        evidence += (prior[best] + _where(feasible))[..., None]
        inverse = {0: v00, 1: v11, 2: v22, 3: v01, 4: v02, 5: v12}
        three = _family((first, second), (offset, two.first, two.second), inverse, evidence)
        two = _Two(*square, cross, *product)
        v11, v22, v12 = two.inverse()
        evidence = log_evidence(
            levels,
            degrees=np.broadcast_to(normal.counts - 2, best.shape),
            rss=np.maximum(normal.squares - two.explained, 0.0),
            log_determinant=np.log(two.determinant),
            estimates=(two.first, two.second),
            deviations=(np.sqrt(v11), np.sqrt(v22)),
            largest=shares,
        )
        feasible = two.feasible & (normal.counts >= 2)
        evidence += (prior[best] + _where(feasible))[..., None] + np.log(seen)
        inverse = {1: v11, 2: v22, 5: v12}
        return [three, _family((first, second), (None, two.first, two.second), inverse, evidence)]


def _equations(normal: Normal) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    return normal.spread, normal.centred, normal.square, normal.product


def _explained(u: Singles, v: Singles, shared: Singles) -> tuple[Singles, Singles, Singles]:
    """What two terms of length 1 explain of a series, from its part along each of them.

    Also their coefficients; nothing, where one would be negative or both are the same.
    """
    determinant = 1 - shared * shared
    first, second = u - shared * v, v - shared * u
    sound = (first >= 0) & (second >= 0) & (determinant > ALIKE)
    inverse = 1 / np.maximum(determinant, ALIKE)
    first *= inverse
    second *= inverse
    return np.where(sound, u * first + v * second, -FAR), first, second


class _Two:
    """Two normal equations in closed form, element by element."""

    def __init__(
        self, aa: FloatArray, bb: FloatArray, ab: FloatArray, ay: FloatArray, by: FloatArray
    ) -> None:
        self.bb, self.ab, self.aa = bb, ab, aa
        determinant = aa * bb - ab * ab
        sound = determinant > np.maximum(DEPENDENT * aa * bb, VANISHING)
        self.determinant = np.where(sound, determinant, np.maximum(aa * bb, 1e-300))
        self.first = (ay * bb - by * ab) / self.determinant
        self.second = (by * aa - ay * ab) / self.determinant
        self.feasible = sound & (self.first >= 0) & (self.second >= 0)
        self.explained = self.first * ay + self.second * by

    def inverse(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        return (
            self.bb / self.determinant,
            self.aa / self.determinant,
            -self.ab / self.determinant,
        )


def _left(squares: FloatArray, explained: Singles) -> Singles:
    """Residuals that a hypothesis leaves of a sum of squares."""
    return np.asarray(np.maximum(_single(squares) - explained, np.float32(0)))


def _taken(values: NDArray[Number], best: IntArray) -> NDArray[Number]:
    """Of each series the rows of its best hypotheses: (q, s) of (h, s)."""
    return values[best, np.arange(best.shape[1])]


def _single(values: FloatArray) -> Singles:
    return np.asarray(values, dtype=np.float32)


def _where(feasible: np.ndarray) -> FloatArray:
    return np.where(feasible, 0.0, -np.inf)


def _family(
    terms: tuple[IntArray, IntArray],
    coefficients: tuple[FloatArray | None, ...],
    inverse: dict[int, FloatArray],
    evidence: FloatArray,
) -> Candidates:
    """Hypotheses of one form, with zeros for what the form does not have."""
    zero = np.zeros(terms[0].shape)
    return Candidates(
        *terms,
        tuple(zero if value is None else value for value in coefficients),
        tuple(inverse.get(i, zero) for i in range(6)),
        evidence,
    )


def joined(parts: list[Candidates]) -> Candidates:
    """All forms together, series first: (s, h)."""

    def along(arrays: list[NDArray[Number]]) -> NDArray[Number]:
        return np.concatenate(arrays).swapaxes(0, 1)

    return Candidates(
        along([part.first for part in parts]),
        along([part.second for part in parts]),
        tuple(along([part.coefficients[i] for part in parts]) for i in range(3)),
        tuple(along([part.inverse[i] for part in parts]) for i in range(6)),
        along([part.log_evidence for part in parts]),
    )
