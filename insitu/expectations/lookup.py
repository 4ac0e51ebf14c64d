"""Finds the series that an entry is about, and names what there is where it finds none."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace
from difflib import get_close_matches
from functools import cached_property

from insitu.entities import ARROW, CallPath
from insitu.errors import UsageError
from insitu.expectations.entries import Entry
from insitu.modeling.base import ALL, ModelSet, SeriesModel
from insitu.text import list_some

LISTED_NAMES = 6  # in an error


class SeriesLookup:
    """The series of models by call path: a file may have an entry for each of hundreds."""

    def __init__(self, models: ModelSet) -> None:
        """Arrange the series of models, whose order stays as it is."""
        self.models = models
        self._of_path: dict[CallPath, list[SeriesModel]] = defaultdict(list)
        for series in models.models:
            self._of_path[series.key.callpath].append(series)
        self._paths = {str(path): path for path in self._of_path}

    @cached_property
    def _classified(self) -> set[tuple[CallPath, str]]:
        return classified_series(self.models)

    def find(self, entry: Entry) -> list[SeriesModel]:
        """Return the series that an entry is about.

        Raises:
            UsageError: there is none.
        """
        if entry.is_exact:
            paths = [self._paths[entry.callpath]] if entry.callpath in self._paths else []
        else:
            paths = [path for path in self._of_path if entry.is_about(path)]
        of_callpath = [series for path in paths for series in self._of_path[path]]
        of_metric = [series for series in of_callpath if series.key.metric == entry.metric]
        if entry.behaviour:
            named = (entry.behaviour, f"{entry.behaviour} only")
            of_class = [
                series
                for series in of_metric
                if series.key.behaviour == entry.behaviour or series.class_text in named
            ]
        else:  # the mean over all ranks says no more than the classes if each of them has a model
            of_class = [
                series
                for series in of_metric
                if series.key.behaviour != ALL
                or (series.key.callpath, series.key.metric) not in self._classified
            ]
        if of_class:
            return of_class

        if not of_callpath:
            functions = {path.name for path in self._of_path}
            raise UsageError(describe_missing(entry, "call path", entry.callpath, functions))
        if of_metric:
            behaviours = {series.class_text for series in of_metric}
            raise UsageError(describe_missing(entry, "class", entry.behaviour, behaviours))
        metrics = {series.key.metric for series in of_callpath}
        kind = f"metric of {entry.callpath} named"
        missing = describe_missing(entry, kind, entry.metric, metrics)
        raise UsageError(f"{missing}{self._hint_at_calls(entry, paths)}")

    def _hint_at_calls(self, entry: Entry, paths: Iterable[CallPath]) -> str:
        """The calls of these functions that have the metric: messages are those of MPI calls."""
        names = {
            f"{path.name}->{call.name}": None
            for path in paths
            for call, members in self._of_path.items()
            if call.parent == path
            and any(
                series.key.metric == entry.metric and series.model.values.any()
                for series in members
            )
        }
        return f"; its calls have it: {list_some(list(names), LISTED_NAMES)}" if names else ""

    def find_reference(self, entry: Entry) -> list[CallPath]:
        """Return the call paths of the reference of an entry.

        Raises:
            UsageError: there is none.
        """
        reference = replace(entry, callpath=entry.reference, behaviour="", is_exact=False)
        return list(dict.fromkeys(series.key.callpath for series in self.find(reference)))


def describe_missing(entry: Entry, kind: str, name: str, existing: set[str]) -> str:
    """Say that nothing of this kind and name has a model, and what has."""
    if not existing:
        listed = "the campaign has no models"
    else:
        similar = get_close_matches(name.rpartition(ARROW)[2], sorted(existing), n=1)
        listed = f"did you mean {similar[0]}? There are " if similar else "there are "
        listed += list_some(sorted(existing), LISTED_NAMES)
    return f"{describe_line(entry)}no {kind} '{name}' has a model; {listed}"


def describe_line(entry: Entry) -> str:
    """Return where an entry stands in its file, "" without a file."""
    return f"[[expect]] in line {entry.line}: " if entry.line else ""


def classified_series(models: ModelSet) -> set[tuple[CallPath, str]]:
    """Return the call paths and metrics whose classes have a model each, in every run."""
    modelled = {(series.key.callpath, series.key.metric): set[str]() for series in models.models}
    for series in models.models:
        modelled[series.key.callpath, series.key.metric].add(series.key.behaviour)

    several: set[tuple[CallPath, str]] = set()
    incomplete: set[tuple[CallPath, str]] = set()
    for clusters in models.clusters:
        key = (clusters.callpath, clusters.metric)
        if len(clusters.names) > 1:
            several.add(key)
        if not modelled.get(key, set()) >= set(clusters.names):
            incomplete.add(key)
    return several - incomplete
