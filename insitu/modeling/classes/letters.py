"""Letters of behaviour classes that mean the same ranks in all call paths and metrics.

Classes that are no known kind of ranks are named by letters, series by series. Here, each letter
becomes that of a set of ranks: the same set has the same letter everywhere, other sets have others.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import cache

import numpy as np

from insitu.entities import CallPath, RunKey
from insitu.modeling.base import Clusters
from insitu.modeling.classes.match import is_class_name
from insitu.modeling.classes.naming import is_letter, letter

SeriesName = tuple[str, CallPath]  # metric and call path
RankSet = Mapping[RunKey, bytes]  # the ranks of a class in each run, packed bits
Renaming = Mapping[str, str]


class LetterRegistry:
    """The letter of each set of ranks.

    A call path that some runs do not have is compared in those that it has.
    """

    def __init__(self, reserved: Collection[str]) -> None:
        self._reserved = set(reserved)
        self._sets: list[tuple[str, dict[RunKey, bytes]]] = []
        self._by_ranks: dict[tuple[RunKey, bytes], list[int]] = defaultdict(list)
        self._n_letters = 0

    def letter_of(self, ranks: RankSet) -> str:
        """Return the letter of a set of ranks, a new one if none has these."""
        for run, members in ranks.items():
            for index in self._by_ranks.get((run, members), ()):
                name, known = self._sets[index]
                if all(known.get(other, same) == same for other, same in ranks.items()):
                    self._add_runs(index, ranks)
                    return name

        name = self._next_letter()
        self._sets.append((name, {}))
        self._add_runs(len(self._sets) - 1, ranks)
        return name

    def _add_runs(self, index: int, ranks: RankSet) -> None:
        known = self._sets[index][1]
        for run, members in ranks.items():
            if run not in known:
                known[run] = members
                if any(members):  # no class is recognised by a run that it does not exist in
                    self._by_ranks[run, members].append(index)

    def _next_letter(self) -> str:
        while True:
            name = letter(self._n_letters)
            self._n_letters += 1
            if name not in self._reserved:
                return name


def share_letters(
    clusters: Sequence[Clusters], reserved: Collection[str] = ()
) -> dict[SeriesName, Renaming]:
    """Find new letters for the classes of all series, so that a letter means the same ranks.

    The partition that most series have gets the first letters, if it begins in the same run. Where
    a metric lacks values of some ranks, and the others are divided as in another metric of the call
    path, classes have the names that they have there.

    Args:
        clusters: of all series in all runs.
        reserved: names that the user gave to classes.

    Returns:
        By series the new letter of each of its letters; series without letters are left out.
    """
    by_series: dict[SeriesName, list[Clusters]] = defaultdict(list)
    for entry in clusters:
        by_series[entry.metric, entry.callpath].append(entry)

    @cache  # the classes of most series have the names of those of others
    def letters_of(names_by_run: tuple[tuple[str, ...], ...]) -> list[str]:
        names = {name for names in names_by_run for name in names}
        letters = [name for name in names if is_letter(name) and name not in reserved]
        return sorted(letters, key=lambda name: (len(name), name))

    describe = _describe_ranks()
    partitions: dict[SeriesName, dict[str, dict[RunKey, bytes]]] = {}
    for series, entries in by_series.items():
        letters = letters_of(tuple(entry.names for entry in entries))
        if letters:
            partitions[series] = {name: describe(entries, name) for name in letters}

    identities = {series: _identify(partition) for series, partition in partitions.items()}
    frequency = Counter(identities.values())
    order = sorted(partitions, key=lambda series: (-frequency[identities[series]], series))
    registry = LetterRegistry(reserved)
    renamings: dict[SeriesName, Renaming] = {}
    incomplete = _find_incomplete(by_series)
    for series in order:
        if series not in incomplete:
            renamings[series] = _new_letters(partitions[series], registry, {})

    complete_of_path: dict[CallPath, list[SeriesName]] = {
        series[1]: [] for series in order if series in incomplete
    }
    for series in by_series:
        if series not in incomplete and series[1] in complete_of_path:
            complete_of_path[series[1]].append(series)
    for series in order:
        if series in incomplete:
            known: Renaming = {}
            for other in sorted(complete_of_path[series[1]]):
                known = known or _compare_names(
                    by_series[series], by_series[other], renamings.get(other, {})
                )
            renamings[series] = _new_letters(partitions[series], registry, known)
    return renamings


def _new_letters(
    partition: Mapping[str, RankSet], registry: LetterRegistry, known: Renaming
) -> Renaming:
    """The names of classes: those that are known, letters of the registry otherwise."""
    names = {}
    for name, ranks in partition.items():
        names[name] = known[name] if name in known else registry.letter_of(ranks)
    return names


def rename_clusters(
    clusters: Iterable[Clusters], renamings: Mapping[SeriesName, Renaming]
) -> list[Clusters]:
    """The clusters with the letters that `share_letters` found."""
    renamed = []
    for entry in clusters:
        letters = renamings.get((entry.metric, entry.callpath))
        if letters:
            names = tuple(letters.get(name, name) for name in entry.names)
            renamed.append(Clusters(entry.callpath, entry.metric, entry.run, entry.labels, names))
        else:
            renamed.append(entry)
    return renamed


def _find_incomplete(by_series: Mapping[SeriesName, Sequence[Clusters]]) -> set[SeriesName]:
    """The series with classes in a run in which some ranks have no value."""
    has_classes = cache(lambda names: any(map(is_class_name, names)))
    incomplete = set()
    for series, entries in by_series.items():
        for entry in entries:
            if has_classes(entry.names) and (entry.labels < 0).any():
                incomplete.add(series)
                break
    return incomplete


def _compare_names(
    entries: Sequence[Clusters], others: Sequence[Clusters], letters: Renaming
) -> Renaming:
    """The names that clusters of more ranks have for these; empty if they divide otherwise."""
    complete = {entry.run: entry for entry in others}
    pairs = set()
    for entry in entries:
        other = complete.get(entry.run)
        is_known = entry.labels >= 0
        if other is None or (other.labels[is_known] < 0).any():
            return {}
        both = np.stack([entry.labels[is_known], other.labels[is_known]])
        for label, at in np.unique(both, axis=1).T.tolist():
            pairs.add((entry.names[label], other.names[at]))

    names = dict(pairs)
    is_same = len(names) == len(pairs) == len(set(names.values()))
    if not is_same or not all(map(is_class_name, names.values())):
        return {}
    return {name: letters.get(known, known) for name, known in names.items()}


def _identify(partition: Mapping[str, RankSet]) -> frozenset[frozenset[tuple[RunKey, bytes]]]:
    return frozenset(frozenset(ranks.items()) for ranks in partition.values())


def _describe_ranks() -> Callable[[Sequence[Clusters], str], dict[RunKey, bytes]]:
    """A function that returns the ranks of a class in each run; equal labels are packed once."""
    packed: dict[tuple[int, int], bytes] = {}

    def describe(entries: Sequence[Clusters], name: str) -> dict[RunKey, bytes]:
        ranks = {}
        for entry in entries:
            if not any(is_class_name(other) for other in entry.names):
                continue
            label = entry.names.index(name) if name in entry.names else len(entry.names)
            key = (id(entry.labels), label)
            if key not in packed:
                packed[key] = np.packbits(entry.labels == label).tobytes()
            ranks[entry.run] = packed[key]
        return ranks

    return describe
