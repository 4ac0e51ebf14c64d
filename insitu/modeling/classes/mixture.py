"""Behaviour classes from noisy times: one mixture for all runs of a series."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from insitu.modeling.classes.candidates import (
    CONVERGED,
    OUTLIER_DENSITY,
    OUTLIERS,
    Candidate,
    select_candidate,
    shapes_at,
)
from insitu.modeling.classes.cluster import BoolArray
from insitu.modeling.classes.univariate import (
    Clustering,
    SegmentSums,
    best_clusterings,
    separated_clusterings,
    sum_segments,
)
from insitu.modeling.measurement import FloatArray, IntArray

MOST = 5  # classes tried
CLASS_PRICE = 2.0  # parameters that a class counts as: criteria for mixtures are too generous
PRESENT = 0.7  # expected ranks from which on a class is present in a run
NEAREST = 1.8  # standard deviations by which neighbouring classes must differ
SCREENING, REFINING = 3, 25  # rounds of expectation and maximisation
CELLS = (2.5, 0.5)  # within which values are merged, in floors: for screening, for the answer
WIDTHS = (1.5, 4.0)  # of groups that starts are taken from, in floors
START_SPREADS = (0.0015, 0.01, 0.04)  # relative, of ranks within a class, to begin with
CLOSE = 1.6  # spread of a guess, in floors, at which no mixture is asked
SAME_SPREAD = 0.02  # in logarithm
EQUAL_STEPS = np.array([0.03, 0.06, 0.12, 0.25, 0.5])  # between classes, to begin with


@dataclass(frozen=True, slots=True)
class Mixture:
    """Classes of one series.

    labels: per run the cluster of each rank (n_ranks,), ascending by value; is_outlier: (n_ranks,)
    each, ranks that fit no class; spread: relative standard deviation of ranks within their class;
    is_guess: whether they are the classes of a guess, and so the same in all runs.
    """

    labels: tuple[IntArray, ...]
    is_outlier: tuple[BoolArray, ...]
    spread: float
    is_guess: bool = False


@dataclass(frozen=True, slots=True)
class _Data:
    """Logarithms of all runs in one row, runs one after the other, near ones merged."""

    y: FloatArray  # (n,)
    weight: FloatArray  # (n,) ranks behind each
    run: IntArray  # (n,)
    starts: IntArray  # (n_runs,)
    ranks: FloatArray  # (n_runs,)
    centres: tuple[FloatArray, ...]  # per run candidates for a class
    groups: Sequence[Sequence[Clustering]]  # per width of a group the best 1, 2, … of every run
    segments: SegmentSums
    floor: float


@dataclass(slots=True)
class _State:
    """Several hypotheses s about K classes; classes come first, so that sums over them are fast.

    Class c lies at base[run] + log(1 + excess_c · shape(x)).
    """

    excess: FloatArray  # (K, s), first is 0
    share: FloatArray  # (K, s, n_runs)
    shape: FloatArray  # (s, n_runs)
    base: FloatArray  # (s, n_runs)
    spread: FloatArray  # (s,)
    likelihood: FloatArray  # (s,)

    def pick(self, chosen: IntArray) -> "_State":
        return _State(
            self.excess[:, chosen],
            self.share[:, chosen],
            self.shape[chosen],
            self.base[chosen],
            self.spread[chosen],
            self.likelihood[chosen],
        )

    def offsets(self) -> FloatArray:
        """(K, s, n_runs)"""
        offsets: FloatArray = np.log1p(self.excess[:, :, None] * self.shape)
        return offsets


def find_classes(
    values: Sequence[FloatArray],
    *,
    x: FloatArray,
    floor: float,
    margin: float = 0.0,
    ways: Sequence[Candidate] = (),
) -> Mixture:
    """Find classes that keep their ratio, or drift apart with x, in all runs together.

    The logarithm of a rank's value is normal about its class, with one spread for all; a share of
    ranks is slow for other reasons. The number of classes, and how their ratio depends on x, is
    the one with the best Bayesian information criterion among those whose classes differ by more
    than the noise.

    Args:
        values: per run one positive value per rank.
        x: per run the number of ranks, or what else varies.
        floor: least relative spread of ranks, from repetitions.
        margin: by how much several classes must be better than one, in the criterion.
        ways: guesses at the classes, which are taken where they explain the values better than any
            mixture does, or about as well as repetitions repeat each other.
    """
    logs = [np.log(one) for one in values]
    coarse, data = _prepare(logs, floor)
    shapes = shapes_at(x)
    single = _single(data)
    guess = select_candidate(logs, ways, x=x, floor=floor)
    alone = float(_criterion(data, single)[0]) - margin
    if guess is not None and guess.criterion < alone and guess.spread <= CLOSE * floor:
        return Mixture(guess.labels, guess.is_outlier, guess.spread, True)
    best, lowest, worse = single, np.inf, 0
    for count in range(1, MOST + 1):
        state = single if count == 1 else _search(coarse, data, count, shapes)
        criterion = _criterion(data, state) - (margin if count == 1 else 0.0)
        chosen = int(np.argmin(criterion))
        if criterion[chosen] < lowest:
            best, lowest, worse = state.pick(np.array([chosen])), float(criterion[chosen]), 0
        elif (worse := worse + 1) == 2:
            break
    spread, groups, criterion_of_groups = _loose(data)
    if guess is not None and guess.criterion < min(criterion_of_groups, lowest):
        return Mixture(guess.labels, guess.is_outlier, guess.spread, True)
    if criterion_of_groups < lowest:
        nearest = [
            abs(one[:, None] - group).argmin(axis=1)
            for one, group in zip(logs, groups, strict=True)
        ]
        normal = [np.zeros(len(one), dtype=bool) for one in logs]
        return Mixture(tuple(nearest), tuple(normal), spread)
    return _answer(logs, data, best)


def _loose(data: _Data) -> tuple[float, list[FloatArray], float]:
    """Groups that lie clearly apart, run by run, with no law of their ratio: spread, centres, cost.

    What explains classes whose distance follows no shape, when noise is small beside it.
    """
    best: tuple[float, list[FloatArray], float] = (data.floor, [], np.inf)
    ranks = float(data.ranks.sum())
    tried: set[float] = set()
    for width in START_SPREADS:
        spread = max(data.floor, width)
        for _ in range(3):
            if not _is_new(spread, tried):
                break
            groups, costs, scatter = separated_clusterings(data.segments, spread, MOST + 1)
            cost = float(costs.sum())
            cost += 2 * ranks * (np.log(spread) + 0.919 - np.log(1 - OUTLIERS))
            if cost < best[2]:
                best = (spread, groups, cost)
            spread = max(data.floor, float(np.sqrt(scatter / ranks)))
    return best


def _is_new(spread: float, tried: set[float]) -> bool:
    """Whether no spread within 2 % was tried; it is from now on."""
    mark = round(np.log(spread) / SAME_SPREAD)
    is_new = mark not in tried
    tried.add(mark)
    return is_new


def _prepare(logs: Sequence[FloatArray], floor: float) -> tuple[_Data, _Data]:
    """Merge near values, so that the cost does not depend on the ranks: coarsely, and finely."""
    fine = _merged(logs, floor * CELLS[1])
    sets = sum_segments([(y, weight) for y, weight in fine])
    found = [best_clusterings(sets, floor * width, MOST + 1) for width in WIDTHS]
    candidates = [found[0][0], found[0][2], found[0][-1], found[1][-1]]
    middles = []
    for run in range(len(logs)):
        some = np.concatenate([groups.centres[run] for groups in candidates])
        middles.append(np.unique(some[np.isfinite(some)]))
    both = [
        _joined(parts, middles, found, sets, floor)
        for parts in (_merged(logs, floor * CELLS[0]), fine)
    ]
    return both[0], both[1]


def _merged(logs: Sequence[FloatArray], cell: float) -> list[tuple[FloatArray, FloatArray]]:
    """Per run ascending values at least about a cell apart, and how many ranks each stands for."""
    merged = []
    for one in logs:
        place = np.unique(np.round(one / cell), return_inverse=True)[1].ravel()
        counts = np.bincount(place).astype(np.float64)
        merged.append((np.bincount(place, weights=one) / counts, counts))
    return merged


def _joined(
    parts: Sequence[tuple[FloatArray, FloatArray]],
    middles: Sequence[FloatArray],
    groups: Sequence[Sequence[Clustering]],
    sets: SegmentSums,
    floor: float,
) -> _Data:
    """All runs in one row."""
    lengths = [len(y) for y, _ in parts]
    return _Data(
        np.concatenate([y for y, _ in parts]),
        np.concatenate([weight for _, weight in parts]),
        np.repeat(np.arange(len(parts)), lengths),
        np.concatenate([[0], np.cumsum(lengths)[:-1]]).astype(np.intp),
        np.array([weight.sum() for _, weight in parts]),
        tuple(middles),
        groups,
        sets,
        floor,
    )


def _start(data: _Data, excess: FloatArray, shape: FloatArray) -> _State:
    """Hypotheses (K, s) before anything is fitted."""
    classes, states = excess.shape
    runs = len(data.starts)
    return _State(
        excess,
        np.full((classes, states, runs), 1 / classes),
        shape,
        np.zeros((states, runs)),
        np.full(states, max(data.floor * 1.5, 0.005)),
        np.zeros(states),
    )


def _single(data: _Data) -> _State:
    state = _start(data, np.zeros((1, 1)), np.ones((1, len(data.starts))))
    _place(data, state)
    _improve(data, state, REFINING)
    return state


def _search(coarse: _Data, data: _Data, count: int, shapes: Sequence[FloatArray]) -> _State:
    """Hypotheses with so many classes: screen many starts, refine the best."""
    excesses, drifts = [], []
    largest = np.argsort(-data.ranks, kind="stable")[:3]
    for shape in shapes:
        steps = np.expm1(np.log1p(EQUAL_STEPS)[:, None] * np.arange(count))
        found = []
        for groups in data.groups:
            middles = groups[count - 1].centres
            for run in largest:
                if shape[run] > 0 and np.isfinite(middles[run, 0]):
                    found.append(np.expm1(middles[run] - middles[run, 0]) / shape[run])
        starts = np.concatenate([steps, np.array(found).reshape(-1, count)])
        starts = starts[np.unique(np.round(starts / data.floor), axis=0, return_index=True)[1]]
        excesses.append(starts)
        drifts.append(np.broadcast_to(shape, (len(starts), len(shape))))
    state = _start(data, np.concatenate(excesses).T.copy(), np.concatenate(drifts))
    _place(coarse, state)
    _improve(coarse, state, SCREENING)
    state = state.pick(np.argsort(-state.likelihood, kind="stable")[:4])
    _place(data, state)
    _improve(data, state, REFINING)
    return state


def _place(data: _Data, state: _State) -> None:
    """Choose the base of each run so that its classes lie where its values are."""
    offsets = state.offsets()
    tolerance = np.maximum(state.spread, 0.01)[:, None, None]
    ends = [*data.starts[1:].tolist(), len(data.y)]
    for run, (middles, start, end) in enumerate(zip(data.centres, data.starts, ends, strict=True)):
        here = offsets[:, :, run]  # (K, s)
        bases = (middles[:, None] - here.T[:, None, :]).reshape(here.shape[1], -1)
        above = data.y[start:end] - bases[:, :, None]
        misfit = abs(above - here[0][:, None, None])
        for offset in here[1:]:
            np.minimum(misfit, abs(above - offset[:, None, None]), out=misfit)
        score = np.minimum((misfit / tolerance) ** 2 / 2, 12.0) @ data.weight[start:end]
        state.base[:, run] = np.take_along_axis(bases, score.argmin(axis=1)[:, None], 1)[:, 0]


def _expect(data: _Data, state: _State) -> FloatArray:
    """Probability that each value belongs to each class: (K, s, n); sets the likelihood."""
    spread = state.spread[:, None]
    density = (data.y - (state.base + state.offsets())[:, :, data.run]) / spread
    density *= -0.5 * density
    density += np.log(state.share * ((1 - OUTLIERS) / spread))[:, :, data.run] - 0.919
    highest = np.maximum(density.max(axis=0), OUTLIER_DENSITY)
    density -= highest
    np.exp(density, out=density)
    total = density.sum(axis=0) + np.exp(OUTLIER_DENSITY - highest)
    state.likelihood = (np.log(total) + highest) @ data.weight
    density /= total
    return density


def _improve(data: _Data, state: _State, rounds: int) -> None:
    """Expectation and maximisation, in place."""
    for number in range(rounds):
        before = state.likelihood
        weight = _expect(data, state) * data.weight
        if number and np.all(state.likelihood - before < CONVERGED):
            return
        count = np.add.reduceat(weight, data.starts, axis=2)
        total = np.add.reduceat(weight * data.y, data.starts, axis=2)
        present = count.sum(axis=0)
        state.share = (count + 0.5 / len(count)) / (present + 0.5)
        offsets = state.offsets()
        base = (total - count * offsets).sum(axis=0) / np.maximum(present, 1e-9)
        state.base = np.where(present > 0.5, base, state.base)
        slope = state.shape / (1 + state.excess[:, :, None] * state.shape)
        residual = total - count * (state.base + offsets)
        step = (slope * residual).sum(axis=2) / ((count * slope**2).sum(axis=2) + 1e-9)
        excess = state.excess + step
        state.excess = np.maximum(excess - excess[0], 0.0)
        error = data.y - (state.base + state.offsets())[:, :, data.run]
        square = (weight * error**2).sum(axis=(0, 2)) / np.maximum(present.sum(axis=1), 1.0)
        state.spread = np.sqrt(np.maximum(square, data.floor**2))
    _expect(data, state)


def _criterion(data: _Data, state: _State) -> FloatArray:
    """Bayesian information criterion; infinite where neighbours cannot be told apart."""
    count = state.share * data.ranks
    used = count > PRESENT
    price = (1 + CLASS_PRICE * (len(count) - 1)) * np.log(data.ranks.sum())
    price += 0.5 * (used.sum(axis=0) - 1) @ np.log(data.ranks)
    order = np.argsort(state.excess, axis=0)[:, :, None]
    offsets = np.take_along_axis(state.offsets(), order, axis=0)
    count = np.take_along_axis(count * used, order, axis=0)
    both = np.minimum(count[1:], count[:-1])
    distance = (both * np.diff(offsets, axis=0)).sum(axis=2) / np.maximum(both.sum(axis=2), 1e-9)
    apart = (distance >= NEAREST * state.spread) | (both.sum(axis=2) == 0)
    return np.where(apart.all(axis=0), price - 2 * state.likelihood, np.inf)


def _answer(logs: Sequence[FloatArray], data: _Data, state: _State) -> Mixture:
    """The most probable class of each rank; outliers go to the likeliest class below them."""
    order = np.argsort(state.excess[:, 0])
    middles = (state.base + state.offsets())[order, 0].T
    shares, spread = state.share[order, 0].T, float(state.spread[0])
    labels, outliers = [], []
    for run, one in enumerate(logs):
        error = one[:, None] - middles[run]
        density = np.log(shares[run]) - (error / spread) ** 2 / 2 - np.log(spread) - 0.919
        strange = density.max(axis=1) < OUTLIER_DENSITY
        below = np.where(error > 0, shares[run], -1.0).argmax(axis=1)
        labels.append(np.where(strange, below, density.argmax(axis=1)))
        outliers.append(strange)
    index = np.unique(np.concatenate(labels), return_inverse=True)[1].ravel()
    cuts = np.cumsum([len(one) for one in logs])[:-1]
    return Mixture(tuple(np.split(index, cuts)), tuple(outliers), spread)
