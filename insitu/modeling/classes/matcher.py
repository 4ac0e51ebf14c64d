"""Matching the clusters of a call path across run groups, by value and by laws."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from insitu.entities import Finding
from insitu.modeling.classes.align import (
    MAX_CLASSES,
    RunClusters,
    align,
    follow_laws,
)
from insitu.modeling.classes.cluster import class_means
from insitu.modeling.classes.match import Matching, class_names, match_equal
from insitu.modeling.classes.run_groups import RunGroup
from insitu.modeling.measurement import FloatArray, IntArray

TIME_SPREAD = 0.01  # relative, smallest of times about their law


@dataclass(frozen=True, slots=True)
class OwnTimes:
    """What the times of one call path say where nothing else decided its classes.

    floor: least spread of ranks; smooth_criterion: of a description without groups, see `Mixture`.
    """

    floor: float
    smooth_criterion: float = np.inf


@dataclass(frozen=True, slots=True)
class PathClasses:
    """The behaviour classes of one call path: labels are (n_ranks,) per run group.

    own: present where these classes were found in the times of this call path only.
    """

    labels: Sequence[IntArray]
    matching: Matching
    findings: tuple[Finding, ...] = ()
    own: OwnTimes | None = None


class ClusterMatcher:
    """Matches the clusters of one call path after the other across run groups.

    It remembers alignments, as many call paths have clusters of the same sizes and proportions.
    """

    def __init__(self, groups: Sequence[RunGroup]) -> None:
        sizes = {group.size for group in groups}
        self.coordinates = [group.coordinate for group in groups]
        self.x = [float(group.size if len(sizes) > 1 else group.coordinate[0]) for group in groups]
        self._alignments: dict[tuple[object, ...], list[tuple[int, ...]]] = {}
        self._by_counts: dict[tuple[int, ...], Matching] = {}

    def match(
        self, labels: Sequence[IntArray], values: Sequence[FloatArray], spread: float = TIME_SPREAD
    ) -> Matching:
        """Match clusters of measured values, by laws where their number differs.

        Args:
            labels, values: (n_ranks,) per run group.
            spread: relative standard deviation of values about their law.
        """
        clusters = self._clusters(labels, values)
        return self._matching(labels, self._align(labels, clusters, spread))

    def match_one(self, labels: Sequence[IntArray]) -> Matching:
        """The matching of a call path that has at most one cluster in each run.

        Args:
            labels: (n_ranks,) per run group.
        """
        return self._matching(labels, None)

    def follows_laws(self, classes: PathClasses, values: Sequence[FloatArray]) -> bool:
        """Whether sizes and means of matched classes follow laws, as those of a domain do."""
        matching = classes.matching
        if not matching.is_complete:
            return False

        sizes, means, x = [], [], []
        for labels, assigned, group_values, group_x in zip(
            classes.labels, matching.assigned, values, self.x, strict=True
        ):
            if assigned:
                size, mean = np.zeros((2, len(matching.names)))
                size[list(assigned)] = _cluster_sizes(labels)
                mean[list(assigned)] = cluster_means(group_values, labels, len(assigned))
                sizes.append(size)
                means.append(mean)
                x.append(group_x)

        return follow_laws(np.array(sizes), np.array(means), np.array(x))

    def _clusters(
        self, labels: Sequence[IntArray], values: Sequence[FloatArray]
    ) -> list[RunClusters]:
        """The clusters per run group; empty where there are too many for laws to separate them."""
        if _max_clusters(labels) > MAX_CLASSES:
            return []

        clusters = []
        for x, group_labels, group_values in zip(self.x, labels, values, strict=True):
            count = _cluster_count(group_labels)
            means = cluster_means(group_values, group_labels, max(count, 1))[:count]
            clusters.append(RunClusters(x, means, _cluster_sizes(group_labels)))
        return clusters

    def _align(
        self, labels: Sequence[IntArray], clusters: Sequence[RunClusters], spread: float
    ) -> list[tuple[int, ...]] | None:
        """Align clusters by laws; None where every group has equally many of them."""
        counts = {_cluster_count(group_labels) for group_labels in labels} - {0}
        if len(counts) < 2 or not clusters:
            return None

        scale = next((group.values[-1] for group in clusters if group.values.size), 1.0) or 1.0
        key: list[object] = [spread]
        for group in clusters:
            proportions = np.round(group.values / scale, 4)
            key.append((group.x, group.sizes.tobytes(), proportions.tobytes()))

        if tuple(key) not in self._alignments:
            self._alignments[tuple(key)] = align(clusters, spread=spread)
        return self._alignments[tuple(key)]

    def _matching(
        self, labels: Sequence[IntArray], assigned: list[tuple[int, ...]] | None
    ) -> Matching:
        """The matching that an assignment means; without one, by equal numbers of clusters."""
        counts = tuple(_cluster_count(group_labels) for group_labels in labels)
        if assigned is None:
            if counts not in self._by_counts:
                self._by_counts[counts] = match_equal(counts, self.coordinates)
            return self._by_counts[counts]

        is_complete = all(
            classes or not count for classes, count in zip(assigned, counts, strict=True)
        )
        highest = max(label for classes in assigned for label in classes)
        return Matching(
            names=class_names(highest + 1),
            assigned=tuple(classes or None for classes in assigned),
            is_complete=is_complete,
        )


def one_class_of(values: Sequence[FloatArray], matcher: ClusterMatcher) -> PathClasses:
    """All ranks that have a value are one class."""
    labels = [np.where(np.isfinite(group_values), 0, -1) for group_values in values]
    return PathClasses(labels, matcher.match_one(labels))


def cluster_means(values: FloatArray, labels: IntArray, count: int) -> FloatArray:
    """Mean of each of so many clusters of one run: (count,)."""
    means: FloatArray = class_means(values[None], labels[None], count)[0]
    return means


def _cluster_sizes(labels: IntArray) -> FloatArray:
    """Ranks per cluster: (n_clusters,)."""
    sizes: FloatArray = np.bincount(labels[labels >= 0]).astype(np.float64)
    return sizes


def _cluster_count(labels: IntArray) -> int:
    return int(labels.max(initial=-1)) + 1


def _max_clusters(labels: Sequence[IntArray]) -> int:
    return max(map(_cluster_count, labels), default=0)
