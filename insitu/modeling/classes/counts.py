"""Count-based labels: which ranks do the same work, by counts that repeat nearly without noise."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from insitu.entities import CallPath
from insitu.modeling.classes.align import MAX_CLASSES
from insitu.modeling.classes.cluster import THRESHOLD, cluster
from insitu.modeling.classes.run_groups import RunGroup, mean_over_runs, values_by_run
from insitu.modeling.measurement import Experiment, FloatArray, IntArray

COUNT_DISTANCE = 0.005  # relative, between clusters of counts: they repeat to a fraction of it
DISTINCT = 1e-9  # relative distance that separates any two whole numbers


@dataclass(frozen=True, slots=True)
class CountLabels:
    """Which ranks of each run group do the same work.

    codes: (n_ranks,) per group, equal for ranks that do the same, and ascending in an order that is
    the same in all groups; values: (n_ranks,) per group, the sum of the counts behind each code.
    """

    codes: tuple[IntArray, ...]
    values: tuple[FloatArray, ...]

    @property
    def separates(self) -> bool:
        """Whether the ranks of any group have different codes."""
        return any(code.size > 0 and code.min() < code.max() for code in self.codes)


def label_counts(values: FloatArray) -> IntArray:
    """Cluster counts, (n_rows, n_ranks): a difference of half a percent is different work.

    Where that leaves too many clusters to be behaviour classes, the distance of the paper decides.
    """
    labels = cluster(values, COUNT_DISTANCE)
    has_many = labels.max(axis=1, initial=-1) >= MAX_CLASSES
    labels[has_many] = cluster(values[has_many], THRESHOLD)
    return labels


def find_count_labels(
    experiment: Experiment, paths: Sequence[CallPath], groups: Sequence[RunGroup]
) -> tuple[dict[CallPath, CountLabels], dict[CallPath, CountLabels]]:
    """Label ranks by the counts of each call path, and by those of all call paths below it.

    Where the counts of a call path separate its ranks, those below it are not used: a rank at the
    top of a domain and one at its left call `boundary` once each and are alike, though they call
    different functions in it.

    Returns:
        Labels from the own counts of call paths; the same, or else labels from the counts below.
        Call paths without any labels are left out.
    """
    own = _label_own_counts(experiment, paths, groups)
    below = dict(own)
    known = set(paths)

    # From the leaves up, so that the labels of a call path are final before its parent takes them.
    for path in sorted(paths, key=lambda path: (-len(path.frames), path)):
        parent = path.parent
        while parent is not None and parent not in known:
            parent = parent.parent
        if parent is None or parent in own or path not in below:
            continue

        combined: CountLabels | None = below[path]
        if parent in below:
            combined = _combine(below[parent], below[path])
        if combined is not None:
            below[parent] = combined

    return own, below


def _label_own_counts(
    experiment: Experiment, paths: Sequence[CallPath], groups: Sequence[RunGroup]
) -> dict[CallPath, CountLabels]:
    """Labels from all deterministic metrics of each call path."""
    by_path: dict[CallPath, CountLabels] = {}
    for name, metric in sorted(experiment.metrics().items()):
        if not metric.is_deterministic:
            continue

        tables = values_by_run(experiment, name, paths)
        means = [mean_over_runs([tables[run] for run in group.runs]) for group in groups]
        labels = [label_counts(group_means) for group_means in means]

        for row in _separated_rows(labels, len(paths)):
            path = paths[row]
            new = CountLabels(
                codes=tuple(group_labels[row] + 1 for group_labels in labels),
                values=tuple(np.nan_to_num(group_means[row]) for group_means in means),
            )
            combined = _combine(by_path[path], new) if path in by_path else new
            if combined is not None:
                by_path[path] = combined
    return by_path


def _separated_rows(labels: Sequence[IntArray], n_paths: int) -> list[int]:
    """Call paths with several clusters in some group, and in no group too many."""
    is_separated = np.zeros(n_paths, dtype=bool)
    has_few = np.ones(n_paths, dtype=bool)
    for group_labels in labels:
        lowest = group_labels.min(axis=1, initial=MAX_CLASSES)
        highest = group_labels.max(axis=1, initial=-1)
        is_separated |= lowest < highest
        has_few &= highest < MAX_CLASSES
    return np.flatnonzero(is_separated & has_few).tolist()


def _combine(first: CountLabels, second: CountLabels) -> CountLabels | None:
    """Ranks are alike if they are alike in both; None if that leaves too many classes."""
    codes = []
    for first_codes, second_codes in zip(first.codes, second.codes, strict=True):
        pairs = first_codes * (MAX_CLASSES + 1) + second_codes
        code = np.unique(pairs, return_inverse=True)[1].ravel()
        if code.size and code.max() >= MAX_CLASSES:
            return None
        codes.append(code)

    values = []
    for first_values, second_values in zip(first.values, second.values, strict=True):
        values.append(first_values + second_values)
    return CountLabels(tuple(codes), tuple(values))
