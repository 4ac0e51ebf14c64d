"""Classes of ranks whose values over several runs with equally many ranks are alike.

In a campaign over the number of ranks and other parameters, the ranks of all runs of one size are
the same ranks. The logarithms of a rank's values in these runs are its profile. Profiles of a class
scatter about the centre of the class in every run; no law relates the centres of different runs.
Partitions are compared by the Bayesian information criterion of the classification likelihood,
which also pays for the membership of every rank, so that splitting noise is never worth its price.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from insitu.modeling.classes.align import MAX_CLASSES, RunClusters, align, follow_laws
from insitu.modeling.classes.cluster import BoolArray
from insitu.modeling.measurement import FloatArray, IntArray

MAX_CLUSTERS = MAX_CLASSES  # of one size; laws match no more
EXTRA_SPLITS = 4  # clusters beyond the maximum before the nearest are merged again
LLOYD_ROUNDS = 10  # of k-means, at most
SPREAD_STEPS = 12  # first spreads that are tried, between the floor and the spread of all ranks
SPREAD_ROUNDS = 4  # of spread and number of clusters in turn, at most
MAX_SQUARE = 12.0  # squared standard deviations that one measurement counts, at most
MARGIN = 8.0  # of the criterion over a single class: odds of about 50
SEPARATION = 9.0  # squared standard deviations between classes, without the run that shows most
SIGNIFICANCE = 0.001  # below which ranks of a cluster differ by more than their noise
MIN_VALUES = 16  # of all runs together, below which free centres explain anything


@dataclass(frozen=True, slots=True)
class Profiles:
    """The profiles of the ranks of all runs of one size.

    size: number of ranks; logs: (n_ranks, n_runs), NaN where a rank has no value; keys: of each
    run, equal for runs of different sizes with the same other parameters.
    """

    size: int
    logs: FloatArray
    keys: tuple[tuple[float, ...], ...]


@dataclass(frozen=True, slots=True)
class ProfilePartition:
    """The classes that profiles show.

    classes: per size the class of each rank, the same number for the same class in all sizes; None
    where all ranks are alike, or differ in no lawful way; rejected: how many groups of ranks that
    follow no law differ in the run with most of them, 0 where there are none.
    """

    classes: list[IntArray] | None
    rejected: int = 0


def partition_profiles(
    profiles: Sequence[Profiles], candidates: Sequence[Sequence[IntArray]], *, floor: float
) -> ProfilePartition:
    """Partition the ranks of every size, and match the classes of different sizes.

    Args:
        profiles: one per size.
        candidates: partitions of likely domains: per size a code for each rank; ranks of equal code
            are of one class, in all sizes alike. They pay for their choice, and not per rank.
        floor: least relative spread of ranks.
    """
    tables = [_Table.of(profile) for profile in profiles]
    if sum(table.n_values for table in tables) < MIN_VALUES:
        return ProfilePartition(None)

    one_class = [np.zeros(profile.size, dtype=np.intp) for profile in profiles]
    spread = _spread(tables, one_class, floor)
    best, labels = _criterion(tables, one_class, spread) - MARGIN, None

    price = 2 * float(np.log(len(candidates) + 1))
    for candidate in candidates:
        spread = _spread(tables, candidate, floor)
        criterion = _criterion(tables, candidate, spread) + price
        if criterion < best:
            best, labels = criterion, list(candidate)

    clusters, spread = _cluster(tables, floor)
    memberships = sum(_membership_price(group_labels) for group_labels in clusters)
    if _criterion(tables, clusters, spread) + memberships >= best:
        return ProfilePartition(labels)

    matched = _match(profiles, tables, clusters, spread)
    if _are_compact(tables, clusters) and _follow_laws(profiles, matched):
        return ProfilePartition(matched)
    return ProfilePartition(labels, max(len(np.unique(group)) for group in clusters))


@dataclass(frozen=True, slots=True)
class _Table:
    """Profiles about the median rank of each run: (n_ranks, n_runs), 0 where not measured."""

    logs: FloatArray
    is_known: BoolArray

    @classmethod
    def of(cls, profiles: Profiles) -> "_Table":
        is_known = np.isfinite(profiles.logs)
        logs = np.zeros(profiles.logs.shape)
        for run in np.flatnonzero(is_known.any(axis=0)).tolist():
            known = is_known[:, run]
            logs[known, run] = profiles.logs[known, run] - np.median(profiles.logs[known, run])
        return cls(logs, is_known)

    @property
    def n_values(self) -> int:
        return int(self.is_known.sum())

    def centres(self, labels: IntArray) -> FloatArray:
        """Mean profile of each cluster: (n_clusters, n_runs)."""
        count = int(labels.max()) + 1
        indicator = (labels[:, None] == np.arange(count)).astype(np.float64)
        number = np.maximum(indicator.T @ self.is_known, 1.0)
        centres: FloatArray = indicator.T @ self.logs / number
        return centres

    def squares(self, labels: IntArray) -> FloatArray:
        """Squared distances of values from their centre; (n_ranks, n_runs)."""
        dense = np.unique(labels, return_inverse=True)[1].ravel()
        residuals: FloatArray = (self.logs - self.centres(dense)[dense]) * self.is_known
        return residuals**2


def _cluster(tables: Sequence[_Table], floor: float) -> tuple[list[IntArray], float]:
    """The best clusters of each size, and the spread that all sizes share."""
    choices = [_clusterings(table) for table in tables]
    one_class = [table_choices[0] for table_choices in choices]
    widest = _spread(tables, one_class, floor)

    best, chosen, chosen_spread = np.inf, one_class, widest
    for first_spread in np.geomspace(floor, widest, SPREAD_STEPS).tolist():
        spread = first_spread
        for _ in range(SPREAD_ROUNDS):
            labels = [
                _select(table, table_choices, spread)
                for table, table_choices in zip(tables, choices, strict=True)
            ]
            before, spread = spread, _spread(tables, labels, floor)
            if abs(spread - before) <= 0.01 * before:
                break

        criterion = _criterion(tables, labels, spread)
        criterion += sum(_membership_price(group_labels) for group_labels in labels)
        if criterion < best:
            best, chosen, chosen_spread = criterion, labels, spread
    return chosen, chosen_spread


def _select(table: _Table, choices: Sequence[IntArray], spread: float) -> IntArray:
    """The clusters of one size with the best criterion whose distance shows in several runs."""
    best, labels = np.inf, choices[0]
    for choice in choices:
        criterion = _criterion([table], [choice], spread) + _membership_price(choice)
        if criterion < best and _are_separated(table, choice, spread):
            best, labels = criterion, choice
    return labels


def _are_separated(table: _Table, labels: IntArray, spread: float) -> bool:
    """Whether all clusters differ even without the run in which they differ most.

    A disturbance of some ranks in a single run makes no classes.
    """
    centres = table.centres(labels)
    if centres.shape[1] < 2:
        return True

    distances = ((centres[:, None] - centres[None]) / spread) ** 2
    rest = distances.sum(axis=2) - distances.max(axis=2)
    np.fill_diagonal(rest, np.inf)
    return bool(np.all(rest >= SEPARATION))


def _are_compact(tables: Sequence[_Table], labels: Sequence[IntArray]) -> bool:
    """Whether ranks of a cluster differ at random in every run, and not each in a way of its own.

    An F test compares the scatter of the mean of each rank over the runs with that of its values
    about this mean. Ranks that differ gradually form no classes.
    """
    between = within = between_freedom = within_freedom = 0.0
    for table, group_labels in zip(tables, labels, strict=True):
        n_runs = table.logs.shape[1]
        if n_runs < 2 or not table.is_known.all():
            continue
        residuals = table.logs - table.centres(group_labels)[group_labels]
        means = residuals.mean(axis=1)
        n_free = len(means) - int(group_labels.max()) - 1
        between += n_runs * float((means**2).sum())
        within += float(((residuals - means[:, None]) ** 2).sum())
        between_freedom += n_free
        within_freedom += n_free * (n_runs - 1)
    if not between_freedom or not within:
        return True

    from scipy.special import fdtrc  # slow to load, and not needed while a run is collected

    ratio = between / between_freedom / (within / within_freedom)
    return bool(fdtrc(between_freedom, within_freedom, ratio) > SIGNIFICANCE)


def _follow_laws(profiles: Sequence[Profiles], classes: Sequence[IntArray]) -> bool:
    """Whether sizes and values of the classes are near laws of the number of ranks."""
    common = set.intersection(*(set(profile.keys) for profile in profiles))
    if not common:
        return True

    n_classes = 1 + max(int(labels.max()) for labels in classes)
    sizes, values = np.zeros((2, len(profiles), n_classes))
    for row, (profile, labels) in enumerate(zip(profiles, classes, strict=True)):
        columns = [column for column, key in enumerate(profile.keys) if key in common]
        means = profile.logs[:, columns].mean(axis=1)
        sizes[row] = np.bincount(labels, minlength=n_classes)
        sums = np.bincount(labels, weights=np.nan_to_num(means), minlength=n_classes)
        values[row] = np.exp(sums / np.maximum(sizes[row], 1.0))

    x = np.array([profile.size for profile in profiles], dtype=np.float64)
    return follow_laws(sizes, values, x)


def _criterion(tables: Sequence[_Table], labels: Sequence[IntArray], spread: float) -> float:
    """Bayesian information criterion, without a price for the membership of ranks."""
    total = 0.0
    for table, group_labels in zip(tables, labels, strict=True):
        squares = np.minimum(table.squares(group_labels) / spread**2, MAX_SQUARE)
        n_centres = len(np.unique(group_labels)) * table.logs.shape[1]
        total += float(squares.sum()) + n_centres * float(np.log(max(table.n_values, 2)))
        total += 2 * table.n_values * float(np.log(spread))
    return total


def _membership_price(labels: IntArray) -> float:
    """Twice the entropy of the partition, in nats: what it takes to name each rank's class."""
    counts = np.bincount(labels)
    counts = counts[counts > 0]
    return float(-2 * counts @ np.log(counts / counts.sum()))


def _spread(tables: Sequence[_Table], labels: Sequence[IntArray], floor: float) -> float:
    """Relative standard deviation of ranks within their class, without outliers."""
    pairs = list(zip(tables, labels, strict=True))
    squares = np.concatenate([table.squares(group)[table.is_known] for table, group in pairs])
    n_centres = sum(len(np.unique(group)) * table.logs.shape[1] for table, group in pairs)
    freedom = max(len(squares) - n_centres, 1) / max(len(squares), 1)

    spread = float(np.sqrt(squares.mean() / freedom))
    for _ in range(SPREAD_ROUNDS):
        clipped = np.minimum(squares, MAX_SQUARE * spread**2)
        spread = float(np.sqrt(clipped.mean() / freedom))
    return max(spread, floor)


def _clusterings(table: _Table) -> list[IntArray]:
    """Good clusterings into 1, 2, … clusters: by splitting, then by merging the nearest."""
    limit = min(MAX_CLUSTERS + EXTRA_SPLITS, len(table.logs))
    labels = np.zeros(len(table.logs), dtype=np.intp)
    by_count: dict[int, tuple[float, IntArray]] = {}
    _remember(by_count, table, labels)

    while int(labels.max()) + 1 < limit:
        split = _split_widest(table, labels)
        if split is None:
            break
        labels = _lloyd(table, split)
        _remember(by_count, table, labels)

    while int(labels.max()) > 1:
        labels = _lloyd(table, _merge_nearest(table, labels))
        _remember(by_count, table, labels)
    return [by_count[count][1] for count in sorted(by_count) if count <= MAX_CLUSTERS]


def _remember(by_count: dict[int, tuple[float, IntArray]], table: _Table, labels: IntArray) -> None:
    count, squares = int(labels.max()) + 1, float(table.squares(labels).sum())
    if count not in by_count or squares < by_count[count][0]:
        by_count[count] = (squares, labels)


def _split_widest(table: _Table, labels: IntArray) -> IntArray | None:
    """Split the cluster that gains most, along its main axis; None where all are points."""
    best_gain, best = 0.0, None
    for label in range(int(labels.max()) + 1):
        members = np.flatnonzero(labels == label)
        logs = table.logs[members]
        logs = logs - logs.mean(axis=0)
        if len(members) < 2 or not logs.any():
            continue

        # The direction of the largest scatter; the best cut of the ranks in its order.
        axis = np.linalg.eigh(logs.T @ logs)[1][:, -1]
        order = np.argsort(logs @ axis, kind="stable")
        below = np.cumsum(logs[order], axis=0)[:-1]
        number = np.arange(1, len(members))
        gains = (below**2).sum(axis=1) * len(members) / (number * (len(members) - number))

        cut = int(np.argmax(gains))
        if gains[cut] > best_gain:
            best_gain, best = float(gains[cut]), members[order[cut + 1 :]]
    if best is None:
        return None

    split = labels.copy()
    split[best] = labels.max() + 1
    return split


def _merge_nearest(table: _Table, labels: IntArray) -> IntArray:
    """Merge the two clusters whose union costs least [J. H. Ward, JASA 58 (1963)]."""
    centres = table.centres(labels)
    counts = np.bincount(labels).astype(np.float64)
    distances = ((centres[:, None] - centres[None]) ** 2).sum(axis=2)
    costs = distances * counts[:, None] * counts / (counts[:, None] + counts)
    np.fill_diagonal(costs, np.inf)

    first, second = np.unravel_index(int(np.argmin(costs)), costs.shape)
    merged = np.where(labels == second, first, labels)
    dense: IntArray = np.unique(merged, return_inverse=True)[1].ravel()
    return dense


def _lloyd(table: _Table, labels: IntArray) -> IntArray:
    """Assign ranks to the nearest centre until nothing changes [S. P. Lloyd, IEEE IT-28 (1982)]."""
    for _ in range(LLOYD_ROUNDS):
        centres = table.centres(labels)
        # |x - c|² without |x|², and only over known values; unknown ones are 0.
        distances = table.is_known @ (centres**2).T - 2 * table.logs @ centres.T
        nearest = np.unique(distances.argmin(axis=1), return_inverse=True)[1].ravel()
        if np.array_equal(nearest, labels):
            break
        labels = nearest
    return labels


def _match(
    profiles: Sequence[Profiles],
    tables: Sequence[_Table],
    clusters: Sequence[IntArray],
    spread: float,
) -> list[IntArray]:
    """Number the clusters of all sizes so that equal numbers are the same class."""
    keys = sorted({key for profile in profiles for key in profile.keys})

    runs, ordered = [], []
    for profile, table, labels in zip(profiles, tables, clusters, strict=True):
        centres = table.centres(labels)
        ascending = np.argsort(centres.mean(axis=1), kind="stable")
        ordered.append(np.argsort(ascending)[labels])

        values = np.full((len(keys), len(centres)), np.nan)
        for column, key in enumerate(profile.keys):
            known = table.is_known[:, column]
            if known.any():
                middle = np.median(profile.logs[known, column])
                values[keys.index(key)] = np.exp(middle + centres[ascending, column])
        sizes = np.bincount(ordered[-1]).astype(np.float64)
        runs.append(RunClusters(float(profile.size), values, sizes))

    # Clusters that are far from every class become classes of their own.
    matched = []
    next_class = max(len(run.sizes) for run in runs)
    for labels, assigned in zip(ordered, align(runs, spread=spread), strict=True):
        classes = np.array(assigned, dtype=np.intp)
        if not assigned:
            classes = next_class + np.arange(int(labels.max()) + 1)
            next_class += len(classes)
        matched.append(classes[labels])
    return matched
