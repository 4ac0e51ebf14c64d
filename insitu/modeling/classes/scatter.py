"""How much ranks scatter: what repetitions show, and whether ranks differ by more than that."""

from collections.abc import Sequence
from math import lgamma, log

import numpy as np

from insitu.modeling.classes.cluster import BoolArray
from insitu.modeling.classes.run_groups import RunGroup
from insitu.modeling.measurement import FloatArray, IntArray

NORMAL = 1.4826  # standard deviation over median absolute deviation, of a normal variable
MEDIAN_FACTOR = 1.1  # times the spread of a mean over repetitions: a median scatters more
SIGNIFICANCE = 0.001  # of all tests: below it a difference between ranks is not noise
LOG_MAX_FALSE = log(0.01)  # probability that a partition of unrepeated values is noise
UNIFORM_RANGE = 0.02  # relative range of ranks that count as equal
MIN_FLOOR = 1e-3  # relative spread below which times do not separate ranks
UNKNOWN_FLOOR = 0.02  # relative spread of what was not repeated, at least
PRIOR_DEGREES = 8  # degrees of freedom that UNKNOWN_FLOOR counts as
OUTLIER_DEVIATIONS = 3.0  # times the spread, beyond which a measurement is clipped
SINGLE_RANKS = 2  # at either end, that are each compared with all others
MIN_RUNS = 4  # of one size, to separate noise from ranks that differ
NOISE_SAMPLES, MAX_NOISE_RANKS = 2000, 64  # simulated call paths, and ranks in each


def row_medians(values: FloatArray) -> FloatArray:
    """Median along the last axis without NaN, (…, n) to (…,); NaN where there is no value."""
    ascending = np.sort(values, axis=-1)  # NaN last
    count = np.isfinite(values).sum(axis=-1)
    if values.shape[-1] == 0:
        return np.full(values.shape[:-1], np.nan)

    low = np.maximum(count - 1, 0) // 2
    high = np.minimum(count // 2, values.shape[-1] - 1)
    middle = np.take_along_axis(ascending, np.stack([low, high], axis=-1), axis=-1)
    medians: FloatArray = middle.mean(axis=-1)
    return medians


def repetition_spread(tables: Sequence[FloatArray], groups: Sequence[RunGroup]) -> FloatArray:
    """Relative standard deviation of a rank's median over repetitions: (n_paths,).

    It is a lower bound of how much ranks scatter: imbalance that is the same in all repetitions
    comes on top.

    Args:
        tables: per run (n_paths, n_ranks).
        groups: which runs repeat each other.

    Returns:
        NaN where nothing was repeated.
    """
    deviations, repetitions = [], []
    for group in groups:
        number = len(group.runs)
        if number > 1:
            with np.errstate(divide="ignore", invalid="ignore"):
                logs = np.log(np.stack([tables[run] for run in group.runs], axis=-1))
            logs = np.where(np.isfinite(logs), logs, np.nan)
            scale = np.sqrt(number / (number - 1))
            deviation = abs(logs - row_medians(logs)[:, :, None]) * scale
            deviations.append(deviation.reshape(len(logs), -1))
            repetitions.append(number)

    if not deviations:
        return np.full(len(tables[0]) if tables else 0, np.nan)
    median_deviation = row_medians(np.concatenate(deviations, axis=1))
    spread: FloatArray = NORMAL * median_deviation * MEDIAN_FACTOR / np.sqrt(np.mean(repetitions))
    return spread


def least_spread(spread: float) -> float:
    """The least relative spread of ranks, from that of repetitions, NaN where there are none."""
    return UNKNOWN_FLOOR if np.isnan(spread) else max(spread, MIN_FLOOR)


def is_order_random(
    tables: Sequence[FloatArray],
    groups: Sequence[RunGroup],
    candidates: Sequence[Sequence[IntArray]] = (),
) -> BoolArray:
    """Whether the order of ranks is a different one in every repetition: (n_paths,).

    Friedman's test: if ranks are alike, the scatter of their rank sums over R repetitions, times
    12 / (R·n·(n+1)), is chi-squared with n - 1 degrees of freedom for each group with n ranks. It
    does not see a rank or two among many others that are alike. So the ranks of each class of each
    candidate, and each of the first and last two ranks, must be no higher and no lower than the
    others, either: by Wilcoxon's test, the mean of the standardised rank sums of all groups is
    normal. False where nothing was repeated.

    Args:
        tables: per run (n_paths, n_ranks).
        groups: which runs repeat each other.
        candidates: partitions, per group a code (n_ranks,), the same for the same class.
    """
    n_paths = len(tables[0]) if tables else 0
    statistic, degrees = np.zeros(n_paths), np.zeros(n_paths)
    from_first = [np.minimum(np.arange(group.size), SINGLE_RANKS) for group in groups]
    from_last = [codes[::-1] for codes in from_first]
    members = _distinct_classes([*candidates, from_first, from_last])
    height, n_heights = np.zeros((2, n_paths, len(members)))
    for index, group in enumerate(groups):
        number, n_ranks = len(group.runs), group.size
        if number > 1 and n_ranks > 1:
            values = np.stack([tables[run] for run in group.runs])
            rank_sums = _average_ranks(values).sum(axis=0)
            deviation = rank_sums - rank_sums.mean(axis=1, keepdims=True)
            scatter = (deviation**2).sum(axis=1)
            is_known = np.isfinite(values).all(axis=(0, 2))
            statistic += np.where(is_known, 12 * scatter / (number * n_ranks * (n_ranks + 1)), 0.0)
            degrees += np.where(is_known, n_ranks - 1, 0)

            for column, by_group in enumerate(members):
                is_member = by_group[index]
                n_members = np.count_nonzero(is_member)
                variance = number * n_members * (n_ranks - n_members) * (n_ranks + 1) / 12
                if variance:
                    standardised = deviation[:, is_member].sum(axis=1) / np.sqrt(variance)
                    height[:, column] += np.where(is_known, standardised, 0.0)
                    n_heights[:, column] += is_known

    if not degrees.any():
        return np.zeros(n_paths, dtype=bool)
    from scipy.special import chdtrc, ndtr  # slow to load, not needed while a run is collected

    probability = chdtrc(np.maximum(degrees, 1), statistic)
    is_random: BoolArray = (degrees > 0) & (probability > SIGNIFICANCE)
    highest = (abs(height) / np.sqrt(np.maximum(n_heights, 1))).max(axis=1)
    is_random &= 2 * len(members) * ndtr(-highest) > SIGNIFICANCE
    return is_random


def _distinct_classes(candidates: Sequence[Sequence[IntArray]]) -> list[list[BoolArray]]:
    """The classes of candidate partitions, each once: per group which ranks are members."""
    classes: dict[bytes, list[BoolArray]] = {}
    for candidate in candidates:
        for code in np.unique(np.concatenate(candidate)).tolist():
            members = [codes == code for codes in candidate]
            rest = b"".join((~is_member).tobytes() for is_member in members)
            if rest not in classes:
                classes.setdefault(b"".join(is_member.tobytes() for is_member in members), members)
    return list(classes.values())


def _average_ranks(values: FloatArray) -> FloatArray:
    """The position of each value along the last axis in ascending order; ties share theirs."""
    first = values.argsort(axis=-1, kind="stable").argsort(axis=-1)
    last = values[..., ::-1].argsort(axis=-1, kind="stable").argsort(axis=-1)[..., ::-1]
    ranks: FloatArray = (first + last) / 2
    return ranks


def are_surely_uniform(logs: Sequence[FloatArray]) -> BoolArray:
    """Whether the ranks of a call path lie within 2 % of each other in every run: (n_paths,).

    Args:
        logs: per run group (n_paths, n_ranks), logarithms of values, NaN where there is none.
    """
    ranges = []
    for group_logs in logs:
        is_present = np.isfinite(group_logs)
        high = np.where(is_present, group_logs, -np.inf).max(axis=1, initial=-np.inf)
        low = np.where(is_present, group_logs, np.inf).min(axis=1, initial=np.inf)
        ranges.append(high - low)
    uniform: BoolArray = np.max(ranges, axis=0) <= UNIFORM_RANGE
    return uniform


def are_ranks_alike(logs: Sequence[FloatArray]) -> BoolArray:
    """Whether no rank differs from the others in all runs with equally many ranks: (n_paths,).

    Values that were not repeated are compared between runs at other coordinates: if ranks are
    alike, their means over these runs scatter as the rest does. All ranks together are compared by
    an F test, the rank furthest from the others by a t test (corrected for the number of ranks),
    after single slow measurements were clipped. Ranks that form two groups in most runs are not
    alike, even when they are other ranks in each run.

    Args:
        logs: per run (n_paths, n_ranks), logarithms of values, NaN where there is none.

    Returns:
        False where a value is missing, or a number of ranks was measured less than four times.
    """
    sizes = [run_logs.shape[1] for run_logs in logs]
    by_size = []
    for size in sorted({*sizes} - {0, 1}):
        by_size.append(np.stack([run_logs for run_logs in logs if run_logs.shape[1] == size]))

    n_paths = len(logs[0]) if logs else 0
    is_grouped = np.zeros(n_paths, dtype=bool)
    if not n_paths or not by_size or any(len(values) < MIN_RUNS for values in by_size):
        return is_grouped

    between, within, furthest = np.zeros((3, n_paths))
    for values in by_size:
        n_runs, _, n_ranks = values.shape
        clipped = _clip_outliers(values)
        effect = clipped.mean(axis=0)
        between += n_runs * (effect**2).sum(axis=1)
        within += ((clipped - effect) ** 2).sum(axis=(0, 2))
        largest_effect = n_runs * n_ranks / (n_ranks - 1) * (effect**2).max(axis=1)
        furthest = np.maximum(furthest, largest_effect)
        is_grouped |= _form_groups(values)

    from scipy.special import fdtrc, stdtr  # slow to load, and not needed while a run is collected

    total_ranks = sum(values.shape[2] for values in by_size)
    between_degrees = total_ranks - len(by_size)
    n_free = sum((values.shape[2] - 1) * (len(values) - 1) for values in by_size)
    within_degrees = n_free + PRIOR_DEGREES

    # Where there is more evidence than the prior, this must not hide that noise is larger.
    variance = (within + PRIOR_DEGREES * UNKNOWN_FLOOR**2) / within_degrees
    if n_free > PRIOR_DEGREES:
        variance = np.maximum(variance, within / n_free)

    f_probability = fdtrc(between_degrees, within_degrees, between / between_degrees / variance)
    t_probability = 2 * total_ranks * stdtr(within_degrees, -np.sqrt(furthest / variance))
    is_alike: BoolArray = (
        (f_probability > SIGNIFICANCE) & (t_probability > SIGNIFICANCE) & ~is_grouped
    )
    return is_alike


def may_be_noise(
    logs: Sequence[FloatArray], labels: Sequence[IntArray], log_choices: float = np.inf
) -> bool:
    """Whether noise of an unknown size makes such classes in values that were not repeated.

    F tests compare the scatter between classes with that within them: with a mean of each class in
    each run, and with classes that keep their ratio. The smaller probability counts as often as
    there are choices (the union bound): as many as a search compared, or about as many as ranks
    can be divided into so many classes.

    Args:
        logs: per run one per rank, finite.
        labels: per run the class of each rank.
        log_choices: logarithm of the number of partitions that were compared; infinite for any.
    """
    run = np.repeat(np.arange(len(logs)), [len(run_logs) for run_logs in logs])
    y, label = np.concatenate(logs), np.concatenate(labels)
    n_classes = int(label.max(initial=0)) + 1
    cell = np.unique(run * n_classes + label, return_inverse=True)[1].ravel()
    n_cells = int(cell.max(initial=0)) + 1
    n_runs = len(np.unique(run))
    if n_cells == n_runs:
        return False

    centred = y - _means_of(y, run)
    total = float(centred @ centred)
    indicator = np.eye(n_classes)[label]
    indicator -= np.stack([_means_of(column, run) for column in indicator.T], axis=1)
    effects, _, rank, _ = np.linalg.lstsq(indicator, centred, rcond=1e-9)
    by_ratio = centred - indicator @ effects
    by_run = y - _means_of(y, cell)

    probability = 1.0
    for residual, n_effects in ((by_run, n_cells - n_runs), (by_ratio, int(rank))):
        within, freedom = float(residual @ residual), len(y) - n_runs - n_effects
        if n_effects and freedom > 0:
            from scipy.special import fdtrc  # takes 0.2 s to import, and two ranks do not need it

            within = max(within, 1e-12 * total)
            ratio = (total - within) / n_effects / (within / freedom)
            probability = min(probability, float(fdtrc(n_effects, freedom, ratio)))

    n_used = len(np.unique(label))
    log_divisions = len(y) * log(n_used) - lgamma(n_used + 1)
    return float(np.log(max(probability, 1e-300))) + min(log_choices, log_divisions) > LOG_MAX_FALSE


def _means_of(values: FloatArray, group: IntArray) -> FloatArray:
    """The mean of the group of each value, (n,)."""
    means: FloatArray = np.bincount(group, values) / np.maximum(np.bincount(group), 1)
    return means[group]


def _clip_outliers(values: FloatArray) -> FloatArray:
    """Deviations from the mean of each run, with outliers clipped: (n_runs, n_paths, n_ranks)."""
    deviation = values - np.median(values, axis=2, keepdims=True)
    typical = np.median(deviation, axis=0)
    residual = deviation - typical

    spread = NORMAL * np.median(abs(residual), axis=(0, 2))
    limit = OUTLIER_DEVIATIONS * np.maximum(spread, UNKNOWN_FLOOR)[:, None]
    clipped = typical + np.clip(residual, -limit, limit)
    centred: FloatArray = clipped - clipped.mean(axis=2, keepdims=True)
    return centred


def _form_groups(values: FloatArray) -> BoolArray:
    """Whether two groups explain the ranks better than they explain noise: (n_paths,).

    The share of the squares that the best two groups of a run leave, its median over runs, is
    compared with that of simulated normal noise. False for two ranks.

    Args:
        values: (n_runs, n_paths, n_ranks).
    """
    n_runs, n_paths, n_ranks = values.shape
    if n_ranks < 3:
        return np.zeros(n_paths, dtype=bool)

    shape = (n_runs, NOISE_SAMPLES, min(n_ranks, MAX_NOISE_RANKS))
    noise = np.random.default_rng(0).standard_normal(shape)
    threshold = np.quantile(_unexplained_share(noise), SIGNIFICANCE)
    is_grouped: BoolArray = _unexplained_share(values) < threshold
    return is_grouped


def _unexplained_share(values: FloatArray) -> FloatArray:
    """The share of the squares that the best two groups leave, median over runs: (n_paths,)."""
    n_ranks = values.shape[2]
    ascending = np.sort(values - values.mean(axis=2, keepdims=True), axis=2)

    # Squares between two groups, for each number of ranks in the lower one.
    below = np.cumsum(ascending, axis=2)[:, :, :-1]
    number = np.arange(1, n_ranks)
    between = (below**2 * n_ranks / (number * (n_ranks - number))).max(axis=2)
    total = (ascending**2).sum(axis=2)
    share: FloatArray = np.median(1 - between / np.maximum(total, 1e-300), axis=0)
    return share
