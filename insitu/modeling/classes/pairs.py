"""Pairs of series of two campaigns of a program that are about the same ranks."""

from collections import defaultdict
from collections.abc import Mapping, Sequence

import numpy as np

from insitu.entities import CallPath
from insitu.modeling.base import Clusters, ModelSet
from insitu.modeling.classes.naming import is_letter
from insitu.modeling.measurement import SeriesKey

_Series = tuple[CallPath, str]  # call path and metric
_ByRun = Mapping[tuple[object, ...], Clusters]  # by the parameters and number of ranks of a run


def pair_series(before: ModelSet, after: ModelSet) -> dict[SeriesKey, SeriesKey]:
    """Return the series of `after` that is about the same ranks, for each of `before` that has one.

    A name such as `rank 0` or `corner` says which ranks a class has. Letters do not: a campaign
    gives them in the order in which it meets sets of ranks, so that one more function changes
    those of all others. Classes with letters are pairs if they have the same ranks in all common
    runs: one rank more or less, as noise decides, is another mean.
    """
    later = {series.key for series in after.models}
    pairs: dict[SeriesKey, SeriesKey] = {}
    with_letters: dict[_Series, list[SeriesKey]] = defaultdict(list)
    for series in before.models:
        key = series.key
        if is_letter(key.behaviour):
            with_letters[key.callpath, key.metric].append(key)
        elif key in later:
            pairs[key] = key

    clusters = [_clusters_by_series(models, with_letters) for models in (before, after)]
    taken = set(pairs)
    for where, keys in with_letters.items():
        names = _same_ranks(clusters[0].get(where, {}), clusters[1].get(where, {}))
        for key in keys:
            found = SeriesKey(*where, names.get(key.behaviour, ""))
            if found in later and found not in taken:
                pairs[key] = found
    return pairs


def _clusters_by_series(
    models: ModelSet, wanted: Mapping[_Series, Sequence[SeriesKey]]
) -> dict[_Series, dict[tuple[object, ...], Clusters]]:
    """The classes of call paths and metrics in each run."""
    clusters: dict[_Series, dict[tuple[object, ...], Clusters]] = defaultdict(dict)
    for entry in models.clusters:
        where = (entry.callpath, entry.metric)
        if where in wanted:
            clusters[where][entry.run.parameters, len(entry.labels)] = entry
    return clusters


def _same_ranks(before: _ByRun, after: _ByRun) -> dict[str, str]:
    """The class of `after` that has the ranks of a class of `before`, by its name."""
    common: dict[tuple[str, str], int] = defaultdict(int)
    sizes: list[dict[str, int]] = [defaultdict(int), defaultdict(int)]
    for run in before.keys() & after.keys():
        old, new = before[run], after[run]
        for of_campaign, entry in zip(sizes, (old, new), strict=True):
            for label, name in enumerate(entry.names):
                of_campaign[name] += int(np.count_nonzero(entry.labels == label))
        for label, name in enumerate(old.names):
            now = new.labels[old.labels == label]
            for index, count in enumerate(np.bincount(now[now >= 0]).tolist()):
                common[name, new.names[index]] += count

    return {
        name: other
        for (name, other), count in common.items()
        if count == sizes[0][name] == sizes[1][other]
    }
