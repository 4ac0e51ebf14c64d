"""The measured values of series, every repetition kept."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from insitu.entities import CallPath, RunKey
from insitu.modeling.base import ModelSet
from insitu.modeling.classes.match import ALL
from insitu.modeling.measurement import Experiment, FloatArray, IntArray, RunTable, SeriesKey

Parameters = tuple[tuple[str, float], ...]


@dataclass(frozen=True, slots=True)
class MeasuredSeries:
    """Series on shared coordinates: (n_points, n_parameters), ascending.

    values: (n_series, n_points, n_repetitions), the mean over the ranks of the class, NaN where
    not measured.
    """

    keys: tuple[SeriesKey, ...]
    coordinates: FloatArray
    values: FloatArray


def collect_values(
    experiment: Experiment, models: ModelSet, keys: Sequence[SeriesKey]
) -> MeasuredSeries:
    """Gather what was measured of some series, their classes as the models have them."""
    parts = _ranks_of_classes(models, set(keys))
    runs: dict[tuple[float, ...], list[int]] = defaultdict(list)
    for index, (run, _) in enumerate(experiment.runs):
        at = run.coordinate(models.parameters)
        if np.all(np.isfinite(at)):
            runs[at].append(index)
    places = sorted(runs)
    values = np.full((len(keys), len(places), max(map(len, runs.values()), default=1)), np.nan)
    rows = [{path: i for i, path in enumerate(t.callpaths)} for _, t in experiment.runs]
    for j, place in enumerate(places):
        for k, index in enumerate(runs[place]):
            run, table = experiment.runs[index]
            for i, key in enumerate(keys):
                values[i, j, k] = _mean(run, table, key, rows[index], parts)
    table_of_places = np.array(places, dtype=float).reshape(len(places), len(models.parameters))
    return MeasuredSeries(tuple(keys), table_of_places, values)


_Parts = dict[tuple[SeriesKey, Parameters], IntArray]


def _ranks_of_classes(models: ModelSet, keys: set[SeriesKey]) -> _Parts:
    wanted = {(key.callpath, key.metric) for key in keys}
    found: _Parts = {}
    for one in models.clusters:
        if (one.callpath, one.metric) in wanted:
            for label, name in enumerate(one.names):
                key = SeriesKey(one.callpath, one.metric, name)
                if key in keys:
                    found[key, one.run.parameters] = np.flatnonzero(one.labels == label)
    return found


def _mean(
    run: RunKey, table: RunTable, key: SeriesKey, rows: dict[CallPath, int], parts: _Parts
) -> float:
    row, values = rows.get(key.callpath), table.values.get(key.metric)
    if row is None or values is None:
        return float("nan")
    here = values[row]
    if key.behaviour != ALL:
        ranks = parts.get((key, run.parameters))
        if ranks is None:
            return float("nan")
        here = here[ranks[ranks < len(here)]]
    here = here[np.isfinite(here)]
    return float(here.mean()) if len(here) else float("nan")
