"""Take over classes made by counts: label the ranks of call paths, and sort the classes by value.

Most call paths of a program share their classes with others, so labels and matchings are made once
for all of them, and the means of their classes are computed together.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from insitu.modeling.classes.cluster import class_means
from insitu.modeling.classes.match import Matching, class_names
from insitu.modeling.classes.matcher import PathClasses
from insitu.modeling.measurement import FloatArray, IntArray

Classes = Sequence[IntArray]  # per run group the class of each rank: (n_ranks,)


def partition_by_counts(
    values: Sequence[FloatArray], classes_of_row: Mapping[int, Classes]
) -> dict[int, PathClasses]:
    """The classes of these rows, sorted by the measured values.

    Args:
        values: (n_paths, n_ranks) per run group, NaN for ranks without a value.
        classes_of_row: the same number stands for the same class in all groups. Rows with the same
            object, and with values in the same ranks, are computed together.
    """
    families: dict[tuple[int, bytes], list[int]] = {}
    present = [np.packbits(np.isfinite(group_values), axis=1) for group_values in values]
    for row, classes in classes_of_row.items():
        where = b"".join(group_present[row].tobytes() for group_present in present)
        families.setdefault((id(classes), where), []).append(row)

    by_row: dict[int, PathClasses] = {}
    for rows in families.values():
        masked = []
        for group_values, group_classes in zip(values, classes_of_row[rows[0]], strict=True):
            masked.append(np.where(np.isfinite(group_values[rows[0]]), group_classes, -1))
        by_row |= _sort([group_values[rows] for group_values in values], _dense(masked), rows)
    return by_row


def _dense(classes: Classes) -> tuple[list[IntArray], list[IntArray], int]:
    """Labels of each group without gaps, the class of each label, and the number of classes.

    Args:
        classes: (n_ranks,) per group, -1 for ranks without a value.
    """
    labels: list[IntArray] = []
    present: list[IntArray] = []
    for group_classes in classes:
        has_value = group_classes >= 0
        used, inverse = np.unique(group_classes[has_value], return_inverse=True)
        group_labels = np.full(len(group_classes), -1)
        group_labels[has_value] = inverse.ravel()
        labels.append(group_labels)
        present.append(used)

    all_classes = np.unique(np.concatenate(present)) if present else np.zeros(0, dtype=np.intp)
    assigned = [np.searchsorted(all_classes, used) for used in present]
    return labels, assigned, max(len(all_classes), 1)


def _sort(
    values: Sequence[FloatArray],
    dense: tuple[list[IntArray], list[IntArray], int],
    rows: Sequence[int],
) -> dict[int, PathClasses]:
    """Number classes by their value relative to the mean of all ranks, smallest first."""
    labels, assigned, count = dense
    heights = np.full((len(rows), len(values), count), np.nan)
    for group, (group_labels, group_assigned) in enumerate(zip(labels, assigned, strict=True)):
        n_labels = len(group_assigned)
        if not n_labels:
            continue
        means = class_means(values[group], group_labels, n_labels)
        overall = class_means(values[group], np.zeros_like(group_labels), 1)
        with np.errstate(divide="ignore", invalid="ignore"):
            heights[:, group, group_assigned] = np.log(means / overall)

    is_known = np.isfinite(heights)
    known_sums = np.where(is_known, heights, 0.0).sum(axis=1)
    mean_heights = known_sums / np.maximum(is_known.sum(axis=1), 1)
    ranks = np.argsort(np.argsort(mean_heights, axis=1, kind="stable"), axis=1)

    names = class_names(count)
    matchings: dict[bytes, Matching] = {}
    by_row = {}
    for row, rank in zip(rows, ranks, strict=True):
        key = rank.tobytes()
        if key not in matchings:
            by_group = tuple(tuple(rank[group].tolist()) or None for group in assigned)
            matchings[key] = Matching(names, by_group, is_complete=True)
        by_row[row] = PathClasses(labels, matchings[key])
    return by_row
