"""Posterior of the hypotheses of a lattice, for many series on the same points at once.

Two stages keep it cheap: every hypothesis gets a score from its least squares fit, in closed form
through the normal equations that all series share; the evidence is computed for the best few only.
"""

from dataclasses import dataclass

import numpy as np

from insitu.measurement import FloatArray, IntArray
from insitu.modeling.lattice import Lattice
from insitu.modeling.marginal import log_evidence, negligible

SINGLES, DOUBLES = 6, 4  # hypotheses of one and two terms whose evidence is computed
TYPICAL_NOISE = 0.01  # for the score of the first stage
PRICE_OF_CONSTANT = 2.0  # the same, logarithm
USABLE = 1e-3  # values below this part of the largest have no ratio
SMALLEST_RATIO = 1e-3
VANISHING = 1e-60  # columns whose square is smaller are zero on the points measured
DEPENDENT = 1e-11  # columns whose part of their own is smaller cannot be told apart
CONSTANT_ONLY = 0.5  # weight of one-term functions whose term cannot be seen


@dataclass(frozen=True, slots=True)
class Data:
    """Series s in relative form on n points.

    rows: (T, n), terms scaled to a largest value of 1; trust: (s, n), how many measurements each
    value is worth, 0 where not measured; weights: (s, n), trust by the square of the size that
    errors are relative to; moments: (s, n), weight times value; squares: (s,) sum of weight times
    squared value; counts: (s,) measured points.
    """

    rows: FloatArray
    trust: FloatArray
    weights: FloatArray
    moments: FloatArray
    squares: FloatArray
    counts: FloatArray

    def part(self, series: IntArray | slice, points: slice = slice(None)) -> "Data":
        """Some of the series on some of the points."""
        weights, moments = self.weights[series, points], self.moments[series, points]
        safe = np.where(weights > 0, weights, 1.0)
        return Data(
            self.rows[:, points],
            self.trust[series, points],
            weights,
            moments,
            (moments**2 / safe).sum(axis=1),
            (weights > 0).sum(axis=1).astype(float),
        )


def relative_data(
    rows: FloatArray, trust: FloatArray, values: FloatArray, size: FloatArray
) -> Data:
    """Data with errors relative to `size`, which is positive; trust is 0 where not measured."""
    weights = np.where(trust > 0, trust / size**2, 0.0)
    moments = weights * values
    counts = (trust > 0).sum(axis=1).astype(float)
    return Data(rows, trust, weights, moments, (moments * values).sum(axis=1), counts)


def fitted_mean(found: "Candidates", probabilities: FloatArray, rows: FloatArray) -> FloatArray:
    """The posterior mean of the function at each point: (s, n)."""
    extended = np.vstack([np.where(np.isfinite(rows), rows, 0.0), np.zeros(rows.shape[1])])
    offset, first, second = found.coefficients
    answer = np.empty((len(offset), rows.shape[1]))
    for i, column in enumerate(extended.T):
        fitted = offset + first * column[found.first] + second * column[found.second]
        answer[:, i] = (probabilities * fitted).sum(axis=1)
    return answer


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


def candidates(
    data: Data, lattice: Lattice, levels: FloatArray, *, pairs: bool = True
) -> Candidates:
    """Fit every hypothesis, keep the best by score, and compute their evidence at each noise
    level.
    """
    normal = _Normal(data)
    prior = lattice.singles + _pairless(data)
    seen = negligible(levels)
    parts = [normal.constant(levels, lattice.constant, seen, float(np.exp(lattice.singles).sum()))]
    count = min(SINGLES, len(prior))
    best = np.argpartition(-normal.score_singles(prior), count - 1, axis=1)[:, :count]
    parts += normal.singles(best, lattice.singles, levels, seen)
    if pairs and data.rows.shape[1] > 2 and len(lattice.pairs):
        doubles = _Doubles(normal, lattice.pairs)
        count = min(DOUBLES, len(lattice.pairs))
        score = doubles.score(lattice.doubles)
        best = np.argpartition(-score, count - 1, axis=1)[:, :count]
        parts += doubles.fits(best, lattice.doubles, levels, seen)
    found = _joined(parts)
    found.log_evidence[...] += _by_ratio(found, normal)[..., None] / (2 * levels**2)
    return found


def _by_ratio(found: Candidates, normal: "_Normal") -> FloatArray:
    """What the residual sum of squares loses when errors are ratios: (s, h).

    Least squares measures errors relative to the values, so nothing can be more than 100 % too low;
    the logarithm of the ratio does not let a constant pass for noisy growth.
    """
    data = normal.data
    extended = np.vstack([normal.rows, np.zeros(normal.rows.shape[1])])
    offset, first, second = found.coefficients
    change = np.zeros(offset.shape)
    for i in range(extended.shape[1]):
        column = extended[:, i]
        fitted = offset + first * column[found.first] + second * column[found.second]
        w, m = data.weights[:, i, None], data.moments[:, i, None]
        value = m / np.where(w > 0, w, 1.0)
        ratio = fitted / np.where(value > 0, value, 1.0)
        usable = (w > 0) & (value > USABLE)
        logarithm = np.log(np.clip(ratio, SMALLEST_RATIO, 1 / SMALLEST_RATIO))
        lost = w * (value - fitted) ** 2 - data.trust[:, i, None] * logarithm**2
        change += np.where(usable, lost, 0.0)
    return change


def _pairless(data: Data) -> FloatArray:
    """-inf for terms that are zero or not finite on the points."""
    usable = np.isfinite(data.rows).all(axis=1) & (np.abs(data.rows).max(axis=1, initial=0) > 0)
    return np.where(usable, 0.0, -np.inf)


class _Normal:
    """Normal equations of all single terms with the constant: centred, and without it."""

    def __init__(self, data: Data) -> None:
        rows = np.where(np.isfinite(data.rows), data.rows, 0.0)
        self.data, self.rows = data, rows
        self.ones = np.maximum(data.weights.sum(axis=1), 1e-300)[:, None]  # Σw
        self.total = data.moments.sum(axis=1)[:, None]  # Σwy
        self.mean = data.weights @ rows.T / self.ones  # (s, T)
        self.square = np.maximum(data.weights @ (rows * rows).T, 1e-300)
        self.product = data.moments @ rows.T
        spread = self.square - self.mean**2 * self.ones
        self.independent = spread > np.maximum(DEPENDENT * self.square, VANISHING)
        self.spread = np.where(self.independent, spread, self.square)
        self.centred = self.product - self.mean * self.total
        self.level = self.total / self.ones
        self.squares = data.squares[:, None]
        self.around = np.maximum(self.squares - self.total * self.level, 0.0)
        self.sizes = np.sqrt(np.where(data.weights > 0, data.weights, 0.0))  # 1/y
        self.largest = np.maximum(self.sizes.max(axis=1, initial=0.0), 1e-300)[:, None]
        self.counts = data.counts[:, None]

    def largest_share(self, chosen: IntArray) -> FloatArray:
        """The largest value of the terms relative to the data: (s, q)."""
        answer = np.zeros(chosen.shape)
        for i in range(self.rows.shape[1]):
            np.maximum(answer, self.rows[:, i][chosen] * self.sizes[:, i : i + 1], out=answer)
        return np.maximum(answer, 1e-300)

    def score_singles(self, prior: FloatArray) -> FloatArray:
        """How good the better of term and constant + term looks: (s, T)."""
        floor = self.counts * TYPICAL_NOISE**2
        slope = self.centred / self.spread
        with_constant = np.maximum(self.around - slope * self.centred, 0.0)
        alone = np.maximum(self.squares - self.product**2 / self.square, 0.0)
        feasible = (slope > 0) & (self.level > slope * self.mean) & (self.counts > 1)
        rss = np.where(
            feasible,
            np.minimum(alone + floor, (with_constant + floor) * self._price()),
            alone + floor,
        )
        return np.asarray(prior - self.counts / 2 * np.log(rss))

    def _price(self) -> FloatArray:
        return np.exp(2 * PRICE_OF_CONSTANT / np.maximum(self.counts, 1))

    def constant(
        self, levels: FloatArray, prior: float, seen: FloatArray, singles: float
    ) -> Candidates:
        """The constant function; it also stands for one-term functions whose term cannot be
        seen.
        """
        evidence = log_evidence(
            levels,
            degrees=self.counts - 1,
            rss=self.around,
            log_determinant=np.log(self.ones),
            estimates=(self.level,),
            deviations=(1 / np.sqrt(self.ones),),
            largest=(self.largest,),
        )
        evidence += np.log(np.exp(prior) + CONSTANT_ONLY * singles * seen)
        none = np.full(self.level.shape, -1, dtype=np.intp)
        return _family((none, none), (self.level, None, None), {0: 1 / self.ones}, evidence)

    def singles(
        self, best: IntArray, prior: FloatArray, levels: FloatArray, seen: FloatArray
    ) -> list[Candidates]:
        """The best terms, with the constant and without."""
        take = np.take_along_axis
        mean, spread = take(self.mean, best, 1), take(self.spread, best, 1)
        square, product = take(self.square, best, 1), take(self.product, best, 1)
        centred, share = take(self.centred, best, 1), self.largest_share(best)
        slope = centred / spread
        offset = self.level - slope * mean
        variance = 1 / self.ones + mean**2 / spread
        evidence = log_evidence(
            levels,
            degrees=self.counts - 2,
            rss=np.maximum(self.around - slope * centred, 0.0),
            log_determinant=np.log(self.ones * spread),
            estimates=(offset, slope),
            deviations=(np.sqrt(variance), 1 / np.sqrt(spread)),
            largest=(self.largest, share),
        )
        feasible = (slope >= 0) & (offset >= 0) & (self.counts >= 2)
        evidence += prior[best][..., None] + _where(feasible & take(self.independent, best, 1))
        none = np.full(best.shape, -1, dtype=np.intp)
        inverse = {0: variance, 1: 1 / spread, 3: -mean / spread}
        with_constant = _family((best, none), (offset, slope, None), inverse, evidence)
        alone = product / square
        evidence = log_evidence(
            levels,
            degrees=self.counts - 1,
            rss=np.maximum(self.squares - alone * product, 0.0),
            log_determinant=np.log(square),
            estimates=(alone,),
            deviations=(1 / np.sqrt(square),),
            largest=(share,),
        )
        evidence += prior[best][..., None] + np.log(seen) + _where(square > VANISHING)
        return [
            with_constant,
            _family((best, none), (None, alone, None), {1: 1 / square}, evidence),
        ]


class _Doubles:
    """Normal equations of pairs of terms with the constant and without."""

    def __init__(self, normal: _Normal, pairs: IntArray) -> None:
        self.normal, self.pairs = normal, pairs
        first, second = pairs.T
        rows = normal.rows
        self.cross = normal.data.weights @ (rows[first] * rows[second]).T
        shared = self.cross - normal.mean[:, first] * normal.mean[:, second] * normal.ones
        self.centred = _Two(
            normal.spread[:, first],
            normal.spread[:, second],
            shared,
            normal.centred[:, first],
            normal.centred[:, second],
        )
        self.plain = _Two(
            normal.square[:, first],
            normal.square[:, second],
            self.cross,
            normal.product[:, first],
            normal.product[:, second],
        )
        self.offset = (
            normal.level
            - self.centred.first * normal.mean[:, first]
            - self.centred.second * normal.mean[:, second]
        )

    def score(self, prior: FloatArray) -> FloatArray:
        """How good the better of both forms looks: (s, P)."""
        normal = self.normal
        floor = normal.counts * TYPICAL_NOISE**2
        three = np.maximum(normal.around - self.centred.explained, 0.0) + floor
        two = np.maximum(normal.squares - self.plain.explained, 0.0) + floor
        far = np.float64(1e30)
        three = np.where(self.centred.feasible & (self.offset > 0), three * normal._price(), far)
        two = np.where(self.plain.feasible, two, far)
        return np.asarray(prior - normal.counts / 2 * np.log(np.minimum(three, two)))

    def fits(
        self, best: IntArray, prior: FloatArray, levels: FloatArray, seen: FloatArray
    ) -> list[Candidates]:
        """The best pairs, with the constant and without."""
        normal, take = self.normal, np.take_along_axis
        first, second = self.pairs[best, 0], self.pairs[best, 1]
        shares = normal.largest_share(first), normal.largest_share(second)
        two, offset = self.centred.taken(best), take(self.offset, best, 1)
        means = take(normal.mean, first, 1), take(normal.mean, second, 1)
        v11, v22, v12 = two.inverse()
        v01, v02 = -(means[0] * v11 + means[1] * v12), -(means[0] * v12 + means[1] * v22)
        v00 = 1 / normal.ones - means[0] * v01 - means[1] * v02
        independent = take(normal.independent, first, 1) & take(normal.independent, second, 1)
        evidence = log_evidence(
            levels,
            degrees=normal.counts - 3,
            rss=np.maximum(normal.around - two.explained, 0.0),
            log_determinant=np.log(normal.ones * two.determinant),
            estimates=(offset, two.first, two.second),
            deviations=(np.sqrt(v00), np.sqrt(v11), np.sqrt(v22)),
            largest=(normal.largest, *shares),
        )
        feasible = two.feasible & (offset >= 0) & (normal.counts >= 3) & independent
        weight = prior[best][..., None]
        evidence += weight + _where(feasible)
        inverse = {0: v00, 1: v11, 2: v22, 3: v01, 4: v02, 5: v12}
        three = _family((first, second), (offset, two.first, two.second), inverse, evidence)
        two = self.plain.taken(best)
        v11, v22, v12 = two.inverse()
        evidence = log_evidence(
            levels,
            degrees=normal.counts - 2,
            rss=np.maximum(normal.squares - two.explained, 0.0),
            log_determinant=np.log(two.determinant),
            estimates=(two.first, two.second),
            deviations=(np.sqrt(v11), np.sqrt(v22)),
            largest=shares,
        )
        evidence += weight + np.log(seen) + _where(two.feasible & (normal.counts >= 2))
        inverse = {1: v11, 2: v22, 5: v12}
        return [three, _family((first, second), (None, two.first, two.second), inverse, evidence)]


class _Two:
    """Two normal equations in closed form, element by element."""

    def __init__(
        self, aa: FloatArray, bb: FloatArray, ab: FloatArray, ay: FloatArray, by: FloatArray
    ) -> None:
        self.aa, self.bb, self.ab, self.ay, self.by = aa, bb, ab, ay, by
        determinant = aa * bb - ab * ab
        sound = determinant > np.maximum(DEPENDENT * aa * bb, VANISHING)
        self.determinant = np.where(sound, determinant, np.maximum(aa * bb, 1e-300))
        self.first = (ay * bb - by * ab) / self.determinant
        self.second = (by * aa - ay * ab) / self.determinant
        self.feasible = sound & (self.first >= 0) & (self.second >= 0)
        self.explained = self.first * ay + self.second * by

    def taken(self, best: IntArray) -> "_Two":
        return _Two(
            *(
                np.take_along_axis(values, best, 1)
                for values in (self.aa, self.bb, self.ab, self.ay, self.by)
            )
        )

    def inverse(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        return (
            self.bb / self.determinant,
            self.aa / self.determinant,
            -self.ab / self.determinant,
        )


def _where(feasible: np.ndarray) -> FloatArray:
    return np.where(feasible, 0.0, -np.inf)[..., None]


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


def _joined(parts: list[Candidates]) -> Candidates:
    def along(arrays: list[FloatArray]) -> FloatArray:
        return np.concatenate(arrays, axis=1)

    return Candidates(
        np.concatenate([part.first for part in parts], axis=1),
        np.concatenate([part.second for part in parts], axis=1),
        tuple(along([part.coefficients[i] for part in parts]) for i in range(3)),
        tuple(along([part.inverse[i] for part in parts]) for i in range(6)),
        along([part.log_evidence for part in parts]),
    )
