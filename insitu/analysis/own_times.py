"""Exclusive times with models, and inclusive times, where only the others were measured."""

from dataclasses import replace

import numpy as np

from insitu.entities import TIME, TIME_EXCLUSIVE, CallPath
from insitu.modeling.base import ModelSet, SeriesModel
from insitu.modeling.measurement import Experiment, FloatArray, SeriesKey
from insitu.modeling.modelers import fit
from insitu.modeling.own_times import add_own_times, add_whole_times
from insitu.modeling.series_fitter import MIN_COORDINATES

LEAST_SHARE = 0.01  # of its time, that a function takes itself: less is noise of its callees


def with_own_times(experiment: Experiment, models: ModelSet) -> tuple[Experiment, ModelSet]:
    """Return both with exclusive times, if no run has any; else as they are. See `add_own_times`.

    The model of a call path without others below it is that of its time. Experiments that have only
    exclusive times get inclusive ones, without models.
    """
    experiment = add_whole_times(experiment)
    timed = add_own_times(experiment)
    if timed is experiment:
        return experiment, models

    callers = {path.parent for path in experiment.callpaths() if path.parent is not None}
    own = [
        _own(series)
        for series in models.models
        if series.key.metric == TIME.name and series.key.callpath not in callers
    ]
    inner = [path for path in experiment.callpaths() if path in callers]
    return timed, replace(models, models=[*models.models, *own, *_fit_inner(timed, inner)])


def _own(series: SeriesModel) -> SeriesModel:
    key = replace(series.key, metric=TIME_EXCLUSIVE.name)
    return SeriesModel(key, TIME_EXCLUSIVE, series.model)


def _fit_inner(experiment: Experiment, paths: list[CallPath]) -> list[SeriesModel]:
    """Models of the mean own time of call paths with others below them, where it is relevant."""
    coordinates = experiment.coordinates()
    if not paths or len(coordinates) < MIN_COORDINATES:
        return []

    index = {coordinate: i for i, coordinate in enumerate(coordinates)}
    repetitions = [0] * len(coordinates)
    columns = []
    for key, _ in experiment.runs:
        at = index[key.coordinate(experiment.parameters)]
        columns.append((at, repetitions[at]))
        repetitions[at] += 1

    own, whole = np.full((2, len(paths), len(coordinates), max(repetitions)), np.nan)
    for (at, repetition), (_, table) in zip(columns, experiment.runs, strict=True):
        rows = {path: row for row, path in enumerate(table.callpaths)}
        for i, path in enumerate(paths):
            if path in rows and TIME_EXCLUSIVE.name in table.values:
                own[i, at, repetition] = _mean(table.values[TIME_EXCLUSIVE.name][rows[path]])
                whole[i, at, repetition] = _mean(table.values[TIME.name][rows[path]])

    is_complete = np.isfinite(own).any(axis=2).all(axis=1)
    is_relevant = np.nansum(own, axis=(1, 2)) >= LEAST_SHARE * np.nansum(whole, axis=(1, 2))
    chosen = np.flatnonzero(is_complete & is_relevant)
    if not chosen.size:
        return []
    fitted = fit(np.array(coordinates), own[chosen], parameters=experiment.parameters)
    return [
        SeriesModel(SeriesKey(paths[i], TIME_EXCLUSIVE.name), TIME_EXCLUSIVE, model)
        for i, model in zip(chosen, fitted, strict=True)
    ]


def _mean(values: FloatArray) -> float:
    """The mean over the ranks that have a value; NaN if none has."""
    known = values[np.isfinite(values)]
    return float(known.mean()) if known.size else float("nan")
