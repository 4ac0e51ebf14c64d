"""Classes of equal counts, matched across runs: first by equal values, then by laws.

A rank's class is the vector of its counts. Counts with the same values at the largest runs name a
class in every run. The other counts grow with the parameters; they divide these classes further
where they divide them into equally many classes in all runs.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from insitu.modeling.classes.align import MAX_CLASSES, RunClusters, align
from insitu.modeling.classes.run_groups import RunGroup
from insitu.modeling.measurement import FloatArray, IntArray

COUNT_SPREAD = 0.002  # relative, of counts about their law
MIN_CLASS_RANKS = 2  # mean ranks per class of the largest run; counts that separate more are uneven
MAX_EXACT_CLASSES = 128  # of a run; more, and more than a share of its ranks, are uneven
MAX_CLASSES_SHARE = 1 / 8

CountValues = Sequence[FloatArray]  # one count: (n_ranks,) per run group


@dataclass(frozen=True, slots=True)
class MatchedClasses:
    """Classes of ranks that are the same in all run groups.

    labels: (n_ranks,) per group, the number of its class, the same in all groups; coarse: the same
    with at most MAX_CLASSES classes, for measurements that cannot tell many classes apart.
    """

    labels: tuple[IntArray, ...]
    coarse: tuple[IntArray, ...]

    @property
    def count(self) -> int:
        """The number of classes in all groups together."""
        return 1 + max((int(labels.max(initial=0)) for labels in self.labels), default=0)


def match_classes(rows: Sequence[CountValues], groups: Sequence[RunGroup]) -> MatchedClasses:
    """Find the classes that counts make together.

    Args:
        rows: the counts.
        groups: of runs, with the ranks of each row's arrays.
    """
    labels = _match_exact(rows, groups)
    if _n_classes(labels) <= MAX_CLASSES:
        return MatchedClasses(labels, labels)

    # Too many for noisy measurements: take the count that makes the most classes of the allowed.
    coarse = tuple(np.zeros_like(group_labels) for group_labels in labels)
    for row in rows:
        by_row = _match_exact([row], groups)
        if _n_classes(coarse) < _n_classes(by_row) <= MAX_CLASSES:
            coarse = by_row
    return MatchedClasses(labels, coarse)


def _match_exact(rows: Sequence[CountValues], groups: Sequence[RunGroup]) -> tuple[IntArray, ...]:
    """The class of each rank: (n_ranks,) per group."""
    pairs = comparable_pairs(groups)
    common = [_count_common_values(row, pairs) for row in rows]

    # A count with a single common value is constant where it was compared, and says little alone.
    has_invariant = any(count >= 2 for count in common)
    is_invariant = [has_invariant and count >= 1 for count in common]
    invariant = [row for row, chosen in zip(rows, is_invariant, strict=True) if chosen]
    growing = [row for row, chosen in zip(rows, is_invariant, strict=True) if not chosen]

    if invariant:
        labels = _join_equal_values(invariant, groups)
        return _refine(labels, growing, groups)

    labels = _match_by_laws(growing, groups)
    if _n_classes(labels) == 1 and len(growing) > 1:
        candidates = [_match_by_laws([row], groups) for row in growing]
        labels = max(candidates, key=_n_classes)
    return labels


def comparable_pairs(groups: Sequence[RunGroup]) -> list[tuple[int, int]]:
    """Along each parameter the two largest groups, all else as equal as possible.

    Values that are the same in these groups are taken to be the same in all.
    """
    if not groups:
        return []
    order = range(len(groups))
    largest = max(order, key=lambda index: (groups[index].size, groups[index].coordinate))

    pairs = []
    for axis, value in enumerate(groups[largest].coordinate):
        others = [index for index in order if groups[index].coordinate[axis] != value]
        if others:

            def likeness(index: int, axis: int = axis) -> tuple[int, float]:
                both = zip(groups[index].coordinate, groups[largest].coordinate, strict=True)
                n_equal = sum(a == b for a, b in both)
                return n_equal, groups[index].coordinate[axis]

            pairs.append((max(others, key=likeness), largest))
    return pairs


def _count_common_values(row: CountValues, pairs: Sequence[tuple[int, int]]) -> int:
    """How many distinct values compared groups share; 0 unless one has no others than the other."""
    counts = []
    for smaller, larger in pairs:
        first, second = set(row[smaller].tolist()), set(row[larger].tolist())
        common = first & second
        counts.append(len(common) if len(common) == min(len(first), len(second)) else 0)
    return min(counts, default=0)


def _join_equal_values(
    rows: Sequence[CountValues], groups: Sequence[RunGroup]
) -> tuple[IntArray, ...]:
    """Ranks with equal values of all counts, in whichever run, are one class."""
    ends = np.cumsum([group.size for group in groups])[:-1]
    labels = np.zeros(sum(group.size for group in groups), dtype=np.intp)
    for row in rows:
        codes = np.unique(np.concatenate(row), return_inverse=True)[1].ravel()
        joined = _join(labels, codes)
        if _is_even(np.split(joined, ends), groups):
            labels = joined
    return tuple(np.split(labels, ends))


def _refine(
    labels: tuple[IntArray, ...], rows: Sequence[CountValues], groups: Sequence[RunGroup]
) -> tuple[IntArray, ...]:
    """Divide classes by counts that grow, where they make equally many classes in all groups.

    Where the numbers differ, it is unknown which class is which, so the class stays whole.
    """
    refined = tuple(group_labels.copy() for group_labels in labels)
    for row in rows:
        for label in range(_n_classes(refined)):
            members = [group_labels == label for group_labels in refined]
            codes = [_dense(values[chosen]) for values, chosen in zip(row, members, strict=True)]
            counts = {int(code.max()) + 1 for code in codes if len(code)}
            if len(counts) != 1 or counts == {1}:
                continue

            first_new = _n_classes(refined)
            for group_labels, chosen, code in zip(refined, members, codes, strict=True):
                group_labels[chosen] = np.where(code == 0, label, first_new + code - 1)
    return refined if _is_even(refined, groups) else labels


def _match_by_laws(rows: Sequence[CountValues], groups: Sequence[RunGroup]) -> tuple[IntArray, ...]:
    """Match by order where all groups have equally many classes, else by laws of value and size.

    All ranks are one class where neither gives every group its classes, or where classes have
    hardly more than a rank: counts of an irregular problem differ in every rank.
    """
    one_class = tuple(np.zeros(group.size, dtype=np.intp) for group in groups)

    labels = []
    for index in range(len(groups)):
        group_labels = np.zeros(groups[index].size, dtype=np.intp)
        for row in rows:
            group_labels = _join(group_labels, _dense(row[index]))
        labels.append(group_labels)
    largest = max(range(len(groups)), key=lambda index: groups[index].size)
    n_largest = int(labels[largest].max(initial=0)) + 1
    is_uneven = n_largest > 2 and n_largest * MIN_CLASS_RANKS > groups[largest].size
    if is_uneven or not _is_even(labels, groups):
        return one_class

    # Groups in which the call path does not exist have one class, of ranks without any count.
    is_present = [any(row[index].any() for row in rows) for index in range(len(groups))]
    present = [index for index in range(len(groups)) if is_present[index]]
    counts = {int(labels[index].max()) + 1 for index in present}
    if len(counts) == 1:
        return tuple(labels)
    if max(counts, default=1) > MAX_CLASSES:
        return one_class

    assigned = _align([labels[index] for index in present], rows, present, groups)
    if assigned is None:
        return one_class
    for index, classes in zip(present, assigned, strict=True):
        labels[index] = np.array(classes, dtype=np.intp)[labels[index]]
    return tuple(labels)


def _align(
    labels: Sequence[IntArray],
    rows: Sequence[CountValues],
    present: Sequence[int],
    groups: Sequence[RunGroup],
) -> list[tuple[int, ...]] | None:
    """The class of each cluster per present group, by laws; None where some cannot be matched."""
    sizes = {groups[index].size for index in present}
    runs = []
    for index, group_labels in zip(present, labels, strict=True):
        total = np.sum([row[index] for row in rows], axis=0)
        ranks = np.bincount(group_labels).astype(np.float64)
        values = np.bincount(group_labels, weights=total) / ranks
        group = groups[index]
        x = float(group.size if len(sizes) > 1 else group.coordinate[0])
        runs.append(RunClusters(x, values, ranks))

    assigned = align(runs, spread=COUNT_SPREAD)
    return assigned if all(assigned) else None


def _is_even(labels: Sequence[IntArray], groups: Sequence[RunGroup]) -> bool:
    """Whether no group has too many classes."""
    for group_labels, group in zip(labels, groups, strict=True):
        limit = max(MAX_EXACT_CLASSES, MAX_CLASSES_SHARE * group.size)
        if group_labels.max(initial=0) >= limit and len(np.unique(group_labels)) > limit:
            return False
    return True


def _join(first: IntArray, second: IntArray) -> IntArray:
    """Ranks are alike if they are alike in both; (n,) labels from 0 without gaps."""
    return _dense(first * (int(second.max(initial=0)) + 1) + second)


def _dense(values: FloatArray | IntArray) -> IntArray:
    """Labels from 0, ascending by value and without gaps."""
    # np.unique takes three times as long for the few ranks of most runs.
    order = np.argsort(values, kind="stable")
    ascending = values[order]
    labels = np.zeros(len(values), dtype=np.intp)
    labels[order[1:]] = np.cumsum(ascending[1:] != ascending[:-1])
    return labels


def _n_classes(labels: Sequence[IntArray]) -> int:
    return 1 + max((int(group_labels.max(initial=0)) for group_labels in labels), default=0)
