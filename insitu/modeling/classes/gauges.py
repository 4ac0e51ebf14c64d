"""Behaviour classes of gauges, such as memory: by relative distance, where they mean something.

How much memory a rank has when it is sampled, or leaves in caches, is partly an accident of the
allocator. Classes are kept if their sizes and values follow laws of the number of ranks, and if
they are ranks that counts separate as well, the walls of a usual domain, or regular over the ranks.
So must be the ranks without a value: an allocator may grow a heap in a few ranks by accident.
"""

from collections.abc import Sequence

import numpy as np

from insitu.modeling.classes.behaviour import MetricValues, medians_of_groups
from insitu.modeling.classes.candidates import Candidate
from insitu.modeling.classes.cluster import BoolArray, cluster
from insitu.modeling.classes.counts import CountEvidence
from insitu.modeling.classes.matcher import ClusterMatcher, PathClasses, one_class_of
from insitu.modeling.classes.patterns import MAX_CUTS, MAX_END, MAX_MODULUS, MAX_SHIFT
from insitu.modeling.classes.scatter import is_order_random
from insitu.modeling.measurement import IntArray

MIN_SEVERAL = 2  # runs with several classes that classes of a gauge need


def partition_gauges(
    measured: MetricValues,
    counts: CountEvidence,
    candidates: Sequence[Candidate],
    matcher: ClusterMatcher,
) -> dict[int, PathClasses]:
    """The classes of each call path, by row.

    Args:
        measured: the values of a gauge.
        counts: the classes that counts make.
        candidates: partitions that usual domains lead to.
        matcher: of the same runs.
    """
    medians = medians_of_groups(measured)
    clusters = [cluster(group_medians) for group_medians in medians]
    has_classes = _have_several(clusters)
    has_classes &= ~is_order_random(measured.tables, measured.groups, candidates)
    for group_medians in medians:
        has_classes &= np.all((group_medians > 0) | np.isnan(group_medians), axis=1)

    by_path = {}
    for row, path in enumerate(measured.paths):
        values = [group_medians[row] for group_medians in medians]
        if has_classes[row]:
            labels = [group_labels[row] for group_labels in clusters]
            classes = PathClasses(labels, matcher.match(labels, values))
            known: list[Sequence[IntArray]] = list(candidates)
            for matched in (counts.own.get(path), counts.below.get(path)):
                if matched is not None:
                    known += [matched.labels, matched.coarse]
            if matcher.follows_laws(classes, values) and are_explained(classes, known):
                by_path[row] = classes
                continue
        by_path[row] = one_class_of(values, matcher)
    return by_path


def _have_several(clusters: Sequence[IntArray]) -> BoolArray:
    """Rows with several clusters in some runs, the largest among them: (n_rows,).

    Args:
        clusters: (n_rows, n_ranks) labels per run group.
    """
    several = np.array([labels.max(axis=1) > 0 for labels in clusters])
    sizes = np.array([labels.shape[1] for labels in clusters])
    has_largest = several[sizes == sizes.max()].any(axis=0)
    is_enough: BoolArray = (several.sum(axis=0) >= MIN_SEVERAL) & has_largest
    return is_enough


def are_explained(classes: PathClasses, known: Sequence[Sequence[IntArray]]) -> bool:
    """Whether classes are one of the known partitions, or regular over the ranks.

    Only runs with several classes are compared; there must be one. The ranks without a value count
    as a class.

    Args:
        classes: of one call path.
        known: partitions, (n_ranks,) labels per run group.
    """
    several = [group for group, labels in enumerate(classes.labels) if labels.max() > 0]
    class_of_rank = []
    for group in several:
        assigned = classes.matching.assigned[group] or ()
        labels = classes.labels[group]
        class_of_rank.append(np.where(labels < 0, -1, np.array([*assigned, -1])[labels]))
    if any(_are_equal(class_of_rank, [partition[g] for g in several]) for partition in known):
        return True
    return (
        _are_residues(class_of_rank)
        or _are_ranges(class_of_rank)
        or _is_end(class_of_rank)
        or _is_end([labels[::-1] for labels in class_of_rank])
    )


def _are_equal(first: Sequence[IntArray], second: Sequence[IntArray]) -> bool:
    """Whether two partitions put the same ranks together in every run."""
    for labels, other in zip(first, second, strict=True):
        pairs = np.unique(np.stack([labels, other]), axis=1)
        n_first, n_second = (len(np.unique(row)) for row in pairs)
        if pairs.shape[1] != n_first or pairs.shape[1] != n_second:
            return False
    return True


def _are_residues(classes: Sequence[IntArray]) -> bool:
    """Whether rank modulo some number decides the class of a rank in every run."""
    rank = np.concatenate([np.arange(len(labels)) for labels in classes])
    label = np.concatenate(classes)
    largest = max(len(labels) for labels in classes)
    for modulus in range(2, min(MAX_MODULUS, largest // 2) + 1):
        pairs = np.unique(np.stack([rank % modulus, label]), axis=1)
        if pairs.shape[1] == len(np.unique(pairs[0])):
            return True
    return False


def _are_ranges(classes: Sequence[IntArray]) -> bool:
    """Whether classes are a few ranges that end at the same fractions of p in every run."""
    firsts = [np.flatnonzero(np.diff(labels)) + 1 for labels in classes]
    largest = max(range(len(classes)), key=lambda group: len(classes[group]))
    cuts = firsts[largest] / len(classes[largest])
    if len(cuts) > MAX_CUTS:
        return False

    for labels, first in zip(classes, firsts, strict=True):
        if len(first) != len(cuts) or np.any(abs(first - cuts * len(labels)) > MAX_SHIFT):
            return False
    return True


def _is_end(classes: Sequence[IntArray]) -> bool:
    """Whether the first few ranks, equally many in every run, are a class beside the rest."""
    counts = set()
    for labels in classes:
        changes = np.flatnonzero(np.diff(labels)) + 1
        counts.add(int(changes[0]) if len(changes) == 1 else 0)
    return len(counts) == 1 and 0 < min(counts) <= MAX_END
