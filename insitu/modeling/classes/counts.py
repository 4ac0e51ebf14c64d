"""What nearly noise-free counts say about which ranks behave alike."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from insitu.entities import CallPath
from insitu.modeling.classes.align import MOST_CLASSES
from insitu.modeling.classes.cluster import THRESHOLD, cluster
from insitu.modeling.classes.run_groups import RunGroup, mean_over_runs, values_by_run
from insitu.modeling.measurement import Experiment, FloatArray, IntArray

APART = 0.005  # relative distance that parts counts: they repeat to a fraction of that
DISTINCT = 1e-9  # parts whole numbers


@dataclass(frozen=True, slots=True)
class CountLabels:
    """Which ranks of each place do the same work, as counts tell.

    codes: (n_ranks,) per place, equal for ranks alike, ascending in an order that is the same at
    all places; values: (n_ranks,) per place, the sum of the counts behind each.
    """

    codes: tuple[IntArray, ...]
    values: tuple[FloatArray, ...]

    @property
    def parts(self) -> bool:
        """Whether it tells ranks apart anywhere."""
        return any(code.size > 0 and code.min() < code.max() for code in self.codes)


def label_counts(values: FloatArray) -> IntArray:
    """Cluster counts (n_rows, n_ranks): what differs by half a percent is different work.

    Where that leaves too many clusters to be behaviour classes, the distance of the paper decides.
    """
    labels = cluster(values, APART)
    many = labels.max(axis=1, initial=-1) >= MOST_CLASSES
    labels[many] = cluster(values[many], THRESHOLD)
    return labels


def find_count_labels(
    experiment: Experiment, paths: Sequence[CallPath], places: Sequence[RunGroup]
) -> tuple[dict[CallPath, CountLabels], dict[CallPath, CountLabels]]:
    """Per call path what its own counts tell; and the same, or else what those below it tell.

    Where the counts of a call path part ranks, those below it are not asked: a rank with a wall at
    the top and one with a wall at the left call `boundary` once each, and are alike, though they
    call different functions in it. Call paths that nothing is known of are left out.
    """
    own = _own(experiment, paths, places)
    below = dict(own)
    known = set(paths)
    for path in sorted(paths, key=lambda one: (-len(one.frames), one)):
        parent = path.parent
        while parent is not None and parent not in known:
            parent = parent.parent
        if parent is None or parent in own or path not in below:
            continue
        joined = _joined(below[parent], below[path]) if parent in below else below[path]
        if joined is not None:
            below[parent] = joined
    return own, below


def _own(
    experiment: Experiment, paths: Sequence[CallPath], places: Sequence[RunGroup]
) -> dict[CallPath, CountLabels]:
    found: dict[CallPath, CountLabels] = {}
    for name, metric in sorted(experiment.metrics().items()):
        if not metric.is_deterministic:
            continue
        tables = values_by_run(experiment, name, paths)
        means = [mean_over_runs([tables[run] for run in place.runs]) for place in places]
        labels = [label_counts(mean) for mean in means]
        ranges = np.array([_range(one) for one in labels]).reshape(len(places), 2, len(paths))
        lowest, highest = ranges[:, 0], ranges[:, 1]
        telling = (lowest < highest).any(axis=0) & (highest < MOST_CLASSES).all(axis=0)
        for row in np.flatnonzero(telling).tolist():
            new = CountLabels(
                tuple(one[row] + 1 for one in labels),
                tuple(np.nan_to_num(one[row]) for one in means),
            )
            path = paths[row]
            joined = _joined(found[path], new) if path in found else new
            if joined is not None:
                found[path] = joined
    return found


def _range(labels: IntArray) -> tuple[IntArray, IntArray]:
    return labels.min(axis=1, initial=MOST_CLASSES), labels.max(axis=1, initial=-1)


def _joined(one: CountLabels, two: CountLabels) -> CountLabels | None:
    """Ranks are alike if both say so; None if that leaves too many classes."""
    codes = []
    for left, right in zip(one.codes, two.codes, strict=True):
        both = left * (MOST_CLASSES + 1) + right
        code = np.unique(both, return_inverse=True)[1].ravel()
        if code.size and code.max() >= MOST_CLASSES:
            return None
        codes.append(code)
    values = [left + right for left, right in zip(one.values, two.values, strict=True)]
    return CountLabels(tuple(codes), tuple(values))
