"""Behaviour classes from noisy times: one mixture of normal distributions for all runs.

The logarithm of a rank's value is normal about its class, with one spread for all classes. Class c
of run r lies at base_r + log(1 + excess_c · shape_r), so classes keep their ratio, or drift apart
with the number of ranks. A small share of the ranks are outliers. Mixtures are fitted by
expectation maximisation [A. P. Dempster et al., J. R. Stat. Soc. B 39 (1977)], many hypotheses at
a time, and compared by the Bayesian information criterion.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from insitu.modeling.classes.candidates import (
    CONVERGED,
    HALF_LOG_2PI,
    OUTLIER_DENSITY,
    OUTLIER_SHARE,
    Candidate,
    FittedCandidate,
    drift_shapes,
    select_candidate,
)
from insitu.modeling.classes.cluster import BoolArray
from insitu.modeling.classes.gradients import describe_smooth
from insitu.modeling.classes.patterns import select_pattern
from insitu.modeling.classes.univariate import (
    Clustering,
    SegmentSums,
    best_clusterings,
    find_separated,
    merge_values,
    scatter_within,
    sum_segments,
)
from insitu.modeling.measurement import FloatArray, IntArray

MAX_CLASSES = 5  # classes tried
CLASS_PRICE = 2.0  # parameters that a class counts as: criteria for mixtures are too generous
PRESENT = 0.7  # expected ranks from which on a class is present in a run
NEAREST = 1.8  # standard deviations by which neighbouring classes must differ
SCREENING_ROUNDS, REFINING_ROUNDS = 3, 25  # of expectation and maximisation
REFINED = 4  # hypotheses that are refined after screening
COARSE_CELL, FINE_CELL = 2.5, 0.5  # within which values are merged, in units of the floor
START_WIDTHS = (1.5, 4.0)  # spread of the clusters that starts are taken from, in floors
START_STEPS = np.array([0.03, 0.06, 0.12, 0.25, 0.5])  # relative, between classes in other starts
START_RUNS = 3  # runs with most ranks, whose clusters are starts
TRUSTED_CANDIDATE = 1.6  # spread of a candidate, in floors, up to which no mixture is fitted
MAX_BASE_MISFIT = 12.0  # of one value in the choice of a base, half a squared deviation
# Share of ranks that a pattern found in the values may leave out. Medians over repetitions are
# rarely outliers; with a larger share, a wrong pattern passes the ranks of a small class for them.
REPEATED_OUTLIERS, UNREPEATED_OUTLIERS = 0.003, 0.01
PSEUDO_COUNT = 0.5  # ranks added to each run for the shares of its classes


@dataclass(frozen=True, slots=True)
class Mixture:
    """The classes of one series: of each rank the cluster, ascending by value, per run (n_ranks,).

    is_outlier: ranks that fit no class; spread: relative standard deviation of ranks within theirs;
    log_choices: logarithm of the number of partitions it was chosen from, infinite for any; smooth:
    what the values do where ranks differ without classes, empty otherwise; smooth_criterion: of
    that description, infinite otherwise.
    """

    labels: tuple[IntArray, ...]
    is_outlier: tuple[BoolArray, ...]
    spread: float
    log_choices: float = np.inf
    smooth: str = ""
    smooth_criterion: float = np.inf

    @property
    def is_candidate(self) -> bool:
        """Whether these are the classes of a candidate partition, and so the same in all runs."""
        return bool(np.isfinite(self.log_choices))


@dataclass(frozen=True, slots=True)
class _Observations:
    """Logarithms of the values of all runs, one run after the other, near values merged.

    y: (n,); weight: (n,), ranks behind each; run: (n,); starts: (n_runs,), index of the first of
    each run; ranks: (n_runs,); within: sum of the squared distances between values and those that
    they are merged into; centres: per run candidates for the centre of a class; clusterings: per
    width of a cluster the best 1, 2, … of every run; segments: statistics of the runs; floor:
    least spread.
    """

    y: FloatArray
    weight: FloatArray
    run: IntArray
    starts: IntArray
    ranks: FloatArray
    within: float
    centres: tuple[FloatArray, ...]
    clusterings: Sequence[Sequence[Clustering]]
    segments: SegmentSums
    floor: float


@dataclass(frozen=True, slots=True)
class _Hypotheses:
    """Several hypotheses s about K classes. Classes come first, so that sums over them are fast.

    excess: (K, s), the first is 0; share: (K, s, n_runs); shape, base: (s, n_runs); spread: (s,);
    likelihood: (s,), its logarithm.
    """

    excess: FloatArray
    share: FloatArray
    shape: FloatArray
    base: FloatArray
    spread: FloatArray
    likelihood: FloatArray

    def pick(self, chosen: IntArray) -> "_Hypotheses":
        """Some of the hypotheses, by index."""
        return _Hypotheses(
            excess=self.excess[:, chosen],
            share=self.share[:, chosen],
            shape=self.shape[chosen],
            base=self.base[chosen],
            spread=self.spread[chosen],
            likelihood=self.likelihood[chosen],
        )

    def offsets(self) -> FloatArray:
        """How far each class lies above the base: (K, s, n_runs)."""
        offsets: FloatArray = np.log1p(self.excess[:, :, None] * self.shape)
        return offsets


def find_classes(
    values: Sequence[FloatArray],
    *,
    x: FloatArray,
    floor: float,
    margin: float = 0.0,
    candidates: Sequence[Candidate] = (),
    ranks: Sequence[IntArray] | None = None,
) -> Mixture:
    """Find classes that keep their ratio, or drift apart with x, in all runs together.

    The number of classes, and how their ratio depends on x, is the one with the best Bayesian
    information criterion among those whose classes differ by more than the noise.

    Args:
        values: per run one positive value per rank.
        x: (n_runs,), the number of ranks, or what else varies.
        floor: least relative spread of ranks, from repetitions.
        margin: by how much several classes must be better than one, in the criterion.
        candidates: partitions that are taken where they explain the values better than any mixture
            does, or about as well as repetitions repeat each other.
        ranks: per run the rank of each value; default: 0, 1, …
    """
    logs = [np.log(run_values) for run_values in values]
    coarse, fine = _prepare(logs, floor)
    single = _fit_single_class(fine)
    candidate = select_candidate(logs, candidates, x=x, floor=floor)

    positions = [np.arange(len(run_logs)) for run_logs in logs] if ranks is None else ranks

    # A candidate that leaves no more than the noise needs no comparison with mixtures.
    one_class = float(_criterion(fine, single)[0]) - margin
    limit = REPEATED_OUTLIERS if margin == 0.0 else UNREPEATED_OUTLIERS
    if (
        candidate is not None
        and candidate.spread <= TRUSTED_CANDIDATE * floor
        and candidate.criterion < one_class
        and np.concatenate(candidate.is_outlier).mean() <= limit
    ):
        one_class_of_all = _describe_smooth(logs, positions, single, candidate.criterion, floor)
        return one_class_of_all or _mixture_of(candidate)

    # Regular patterns of ranks, such as every eighth or the first half.
    pattern = select_pattern(logs, positions, x=x, floor=floor, max_outliers=limit)
    if pattern is not None and (candidate is None or pattern.criterion < candidate.criterion):
        candidate = pattern

    best, lowest = _select_mixture(coarse, fine, single, shapes=drift_shapes(x), margin=margin)
    spread, centres, separated_cost = find_separated(
        fine.segments, floor=floor, within=fine.within, max_clusters=MAX_CLASSES + 1
    )

    # Ranks that differ without groups, as in a gradient, are one class.
    lowest_of_classes = min(separated_cost, lowest, candidate.criterion if candidate else np.inf)
    if lowest_of_classes < one_class:
        one_class_of_all = _describe_smooth(logs, positions, single, lowest_of_classes, floor)
        if one_class_of_all is not None:
            return one_class_of_all

    if candidate is not None and candidate.criterion < min(separated_cost, lowest):
        return _mixture_of(candidate)
    if separated_cost < lowest:
        return _assign_nearest(logs, centres, spread)
    return _assign_most_probable(logs, best)


def _describe_smooth(
    logs: Sequence[FloatArray],
    positions: Sequence[IntArray],
    single: _Hypotheses,
    lowest: float,
    floor: float,
) -> Mixture | None:
    """The one class of ranks that differ without groups; None if classes describe them better.

    Args:
        logs, positions, floor: as in `describe_smooth`.
        single: the hypothesis of one class.
        lowest: criterion of the best classes.
    """
    criterion, smooth = describe_smooth(logs, positions, floor=floor)
    if criterion >= lowest:
        return None
    one_class = _assign_most_probable(logs, single)
    return replace(one_class, smooth=smooth, smooth_criterion=criterion)


def _mixture_of(fitted: FittedCandidate) -> Mixture:
    return Mixture(fitted.labels, fitted.is_outlier, fitted.spread, fitted.log_choices)


def _select_mixture(
    coarse: _Observations,
    fine: _Observations,
    single: _Hypotheses,
    *,
    shapes: Sequence[FloatArray],
    margin: float,
) -> tuple[_Hypotheses, float]:
    """The hypothesis with the lowest criterion, and that criterion.

    The search ends when two numbers of classes in a row are no better than the best before.
    """
    best, lowest, failures = single, np.inf, 0
    for count in range(1, MAX_CLASSES + 1):
        if count == 1:
            hypotheses = single
            criterion = _criterion(fine, hypotheses) - margin
        else:
            hypotheses = _search(coarse, fine, count, shapes)
            criterion = _criterion(fine, hypotheses)

        chosen = int(np.argmin(criterion))
        if criterion[chosen] < lowest:
            best = hypotheses.pick(np.array([chosen]))
            lowest = float(criterion[chosen])
            failures = 0
        else:
            failures += 1
            if failures == 2:
                break
    return best, lowest


def _prepare(logs: Sequence[FloatArray], floor: float) -> tuple[_Observations, _Observations]:
    """Merge near values, so that the cost does not depend on the ranks: coarsely, and finely."""
    fine_values = merge_values(logs, floor * FINE_CELL)
    coarse_values = merge_values(logs, floor * COARSE_CELL)
    segments = sum_segments(fine_values)
    clusterings = [
        best_clusterings(segments, floor * width, MAX_CLASSES + 1) for width in START_WIDTHS
    ]

    # A base is chosen so that some class lies at one of these: 1, 3 or 6 clusters.
    narrow, wide = clusterings
    sources = (narrow[0], narrow[2], narrow[-1], wide[-1])
    centres = []
    for run in range(len(logs)):
        run_centres = np.concatenate([clustering.centres[run] for clustering in sources])
        centres.append(np.unique(run_centres[np.isfinite(run_centres)]))

    def observations(merged: Sequence[tuple[FloatArray, FloatArray]]) -> _Observations:
        lengths = [len(y) for y, _ in merged]
        return _Observations(
            y=np.concatenate([y for y, _ in merged]),
            weight=np.concatenate([weight for _, weight in merged]),
            run=np.repeat(np.arange(len(merged)), lengths),
            starts=np.concatenate([[0], np.cumsum(lengths)[:-1]]).astype(np.intp),
            ranks=np.array([weight.sum() for _, weight in merged]),
            within=scatter_within(logs, merged),
            centres=tuple(centres),
            clusterings=clusterings,
            segments=segments,
            floor=floor,
        )

    return observations(coarse_values), observations(fine_values)


def _start(data: _Observations, excess: FloatArray, shape: FloatArray) -> _Hypotheses:
    """Hypotheses about these classes, (K, s), before anything is fitted."""
    n_classes, n_hypotheses = excess.shape
    n_runs = len(data.starts)
    return _Hypotheses(
        excess=excess,
        share=np.full((n_classes, n_hypotheses, n_runs), 1 / n_classes),
        shape=shape,
        base=np.zeros((n_hypotheses, n_runs)),
        spread=np.full(n_hypotheses, max(data.floor * 1.5, 0.005)),
        likelihood=np.zeros(n_hypotheses),
    )


def _fit_single_class(data: _Observations) -> _Hypotheses:
    start = _start(data, np.zeros((1, 1)), np.ones((1, len(data.starts))))
    return _fit(data, _choose_bases(data, start), REFINING_ROUNDS)


def _search(
    coarse: _Observations, fine: _Observations, count: int, shapes: Sequence[FloatArray]
) -> _Hypotheses:
    """Hypotheses with so many classes: screen many starts on merged values, refine the best."""
    excesses, start_shapes = [], []
    for shape in shapes:
        starts = _start_excesses(fine, count, shape)
        excesses.append(starts)
        start_shapes.append(np.broadcast_to(shape, (len(starts), len(shape))))

    excess = np.concatenate(excesses).T.copy()
    screened = _start(fine, excess, np.concatenate(start_shapes))
    screened = _fit(coarse, _choose_bases(coarse, screened), SCREENING_ROUNDS)

    most_likely = np.argsort(-screened.likelihood, kind="stable")[:REFINED]
    return _fit(fine, _choose_bases(fine, screened.pick(most_likely)), REFINING_ROUNDS)


def _start_excesses(data: _Observations, count: int, shape: FloatArray) -> FloatArray:
    """Where classes may lie above the first: (n_starts, count)."""
    equal_steps = np.expm1(np.log1p(START_STEPS)[:, None] * np.arange(count))
    largest_runs = np.argsort(-data.ranks, kind="stable")[:START_RUNS]

    by_clusters = []
    for clusterings in data.clusterings:
        centres = clusterings[count - 1].centres
        for run in largest_runs:
            if shape[run] > 0 and np.isfinite(centres[run, 0]):
                by_clusters.append(np.expm1(centres[run] - centres[run, 0]) / shape[run])

    starts = np.concatenate([equal_steps, np.array(by_clusters).reshape(-1, count)])
    distinct = np.unique(np.round(starts / data.floor), axis=0, return_index=True)[1]
    return starts[distinct]


def _choose_bases(data: _Observations, start: _Hypotheses) -> _Hypotheses:
    """Choose the base of each run so that its classes lie where its values are."""
    offsets = start.offsets()
    tolerance = np.maximum(start.spread, 0.01)[:, None, None]
    chosen_bases = start.base.copy()
    ends = [*data.starts[1:].tolist(), len(data.y)]

    for run, (centres, first, end) in enumerate(zip(data.centres, data.starts, ends, strict=True)):
        # Each class at each centre of a cluster gives one base to try: (s, n_bases).
        run_offsets = offsets[:, :, run]  # (K, s)
        bases = (centres[:, None] - run_offsets.T[:, None, :]).reshape(run_offsets.shape[1], -1)

        # Distance of every value to its nearest class: (s, n_bases, n).
        above = data.y[first:end] - bases[:, :, None]
        misfit = abs(above - run_offsets[0][:, None, None])
        for offset in run_offsets[1:]:
            np.minimum(misfit, abs(above - offset[:, None, None]), out=misfit)

        squares = np.minimum((misfit / tolerance) ** 2 / 2, MAX_BASE_MISFIT)
        score = squares @ data.weight[first:end]
        lowest = score.argmin(axis=1)[:, None]
        chosen_bases[:, run] = np.take_along_axis(bases, lowest, 1)[:, 0]

    return replace(start, base=chosen_bases)


def _expect(data: _Observations, hypotheses: _Hypotheses) -> tuple[FloatArray, FloatArray]:
    """The responsibilities of classes for values, (K, s, n), and the log-likelihood, (s,)."""
    spread = hypotheses.spread[:, None]
    centres = (hypotheses.base + hypotheses.offsets())[:, :, data.run]

    # In place: these arrays are the largest, and most of the time goes into them.
    density = (data.y - centres) / spread
    density *= -0.5 * density
    log_share = np.log(hypotheses.share * ((1 - OUTLIER_SHARE) / spread))
    density += log_share[:, :, data.run] - HALF_LOG_2PI

    highest = np.maximum(density.max(axis=0), OUTLIER_DENSITY)
    density -= highest
    np.exp(density, out=density)
    total = density.sum(axis=0) + np.exp(OUTLIER_DENSITY - highest)
    likelihood = (np.log(total) + highest) @ data.weight
    likelihood -= data.within / (2 * hypotheses.spread**2)
    density /= total
    return density, likelihood


def _maximise(
    data: _Observations, hypotheses: _Hypotheses, responsibility: FloatArray
) -> _Hypotheses:
    """The parameters with the largest likelihood, given the responsibilities (K, s, n)."""
    weight = responsibility * data.weight
    count = np.add.reduceat(weight, data.starts, axis=2)  # (K, s, n_runs)
    total = np.add.reduceat(weight * data.y, data.starts, axis=2)
    present = count.sum(axis=0)
    share = (count + PSEUDO_COUNT / len(count)) / (present + PSEUDO_COUNT)

    # Of a run whose ranks are nearly all outliers the base stays.
    offsets = hypotheses.offsets()
    base = (total - count * offsets).sum(axis=0) / np.maximum(present, 1e-9)
    base = np.where(present > 0.5, base, hypotheses.base)

    # One Gauss-Newton step of the excesses, relative to the first class.
    slope = hypotheses.shape / (1 + hypotheses.excess[:, :, None] * hypotheses.shape)
    residual = total - count * (base + offsets)
    step = (slope * residual).sum(axis=2) / ((count * slope**2).sum(axis=2) + 1e-9)
    excess = hypotheses.excess + step
    moved = replace(hypotheses, share=share, base=base, excess=np.maximum(excess - excess[0], 0.0))

    error = data.y - (base + moved.offsets())[:, :, data.run]
    squares = (weight * error**2).sum(axis=(0, 2)) + data.within
    square = squares / np.maximum(present.sum(axis=1), 1.0)
    return replace(moved, spread=np.sqrt(np.maximum(square, data.floor**2)))


def _fit(data: _Observations, hypotheses: _Hypotheses, rounds: int) -> _Hypotheses:
    """Expectation maximisation, until all hypotheses converge or the rounds are over."""
    for number in range(rounds):
        before = hypotheses.likelihood
        responsibility, likelihood = _expect(data, hypotheses)
        hypotheses = replace(hypotheses, likelihood=likelihood)
        if number and np.all(likelihood - before < CONVERGED):
            return hypotheses
        hypotheses = _maximise(data, hypotheses, responsibility)

    return replace(hypotheses, likelihood=_expect(data, hypotheses)[1])


def _criterion(data: _Observations, hypotheses: _Hypotheses) -> FloatArray:
    """Bayesian information criterion, (s,); infinite where neighbours cannot be distinguished."""
    count = hypotheses.share * data.ranks
    is_present = count > PRESENT
    price = (1 + CLASS_PRICE * (len(count) - 1)) * np.log(data.ranks.sum())
    price += 0.5 * (is_present.sum(axis=0) - 1) @ np.log(data.ranks)

    # Distance between neighbours, averaged over the runs that have both.
    order = np.argsort(hypotheses.excess, axis=0)[:, :, None]
    offsets = np.take_along_axis(hypotheses.offsets(), order, axis=0)
    count = np.take_along_axis(count * is_present, order, axis=0)
    both = np.minimum(count[1:], count[:-1])
    both_sum = both.sum(axis=2)
    distance = (both * np.diff(offsets, axis=0)).sum(axis=2) / np.maximum(both_sum, 1e-9)
    is_apart = (distance >= NEAREST * hypotheses.spread) | (both_sum == 0)

    return np.where(is_apart.all(axis=0), price - 2 * hypotheses.likelihood, np.inf)


def _assign_nearest(
    logs: Sequence[FloatArray], centres: Sequence[FloatArray], spread: float
) -> Mixture:
    """The separated cluster of each rank; there are no outliers."""
    labels, is_outlier = [], []
    for run_logs, run_centres in zip(logs, centres, strict=True):
        labels.append(abs(run_logs[:, None] - run_centres).argmin(axis=1))
        is_outlier.append(np.zeros(len(run_logs), dtype=bool))
    return Mixture(tuple(labels), tuple(is_outlier), spread)


def _assign_most_probable(logs: Sequence[FloatArray], best: _Hypotheses) -> Mixture:
    """The most probable class of each rank; outliers go to the likeliest class below them.

    Args:
        logs: per run one per rank.
        best: a single hypothesis.
    """
    order = np.argsort(best.excess[:, 0])
    centres = (best.base + best.offsets())[order, 0].T  # (n_runs, K)
    shares = best.share[order, 0].T
    spread = float(best.spread[0])

    labels, outliers = [], []
    for run, run_logs in enumerate(logs):
        error = run_logs[:, None] - centres[run]
        density = np.log(shares[run]) - (error / spread) ** 2 / 2 - np.log(spread) - HALF_LOG_2PI
        is_outlier = density.max(axis=1) < OUTLIER_DENSITY
        likeliest_below = np.where(error > 0, shares[run], -1.0).argmax(axis=1)
        labels.append(np.where(is_outlier, likeliest_below, density.argmax(axis=1)))
        outliers.append(is_outlier)

    # Number the classes that have ranks without gaps.
    dense = np.unique(np.concatenate(labels), return_inverse=True)[1].ravel()
    ends = np.cumsum([len(run_logs) for run_logs in logs])[:-1]
    return Mixture(tuple(np.split(dense, ends)), tuple(outliers), spread)
