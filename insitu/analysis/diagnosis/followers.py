"""Parameters that follow the number of ranks, as the size of a problem that grows with it.

Where each number of ranks was measured with one value of another parameter, growth with both cannot
be told apart. A diagnosis asks what happens on more ranks, and judges models over p alone: they
describe what happens if the other parameters follow on.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from insitu.analysis.own_times import with_own_times
from insitu.entities import RANKS, TIME, TIME_EXCLUSIVE, number
from insitu.modeling.base import (
    ALL,
    CROWDED,
    FEW_RANKS,
    MAXIMUM,
    MEAN_LAW,
    ModelSet,
    SeriesModel,
)
from insitu.modeling.measurement import Experiment, FloatArray
from insitu.modeling.modelers import fit
from insitu.modeling.series_fitter import MIN_COORDINATES

MARKS = (CROWDED, FEW_RANKS, MEAN_LAW)  # what a series is, whatever its parameters are
TIMES = (TIME.name, TIME_EXCLUSIVE.name)
Followers = Mapping[str, Mapping[float, float]]  # values of parameters by the number of ranks


def prepare_times(
    experiment: Experiment, models: ModelSet
) -> tuple[Experiment, ModelSet, Followers]:
    """The runs with exclusive times, models of times that are over p if they can be, and why."""
    experiment, models = with_own_times(experiment, models)
    followers = find_followers(experiment)
    return experiment, model_over_ranks(experiment, models, followers), followers


def find_followers(experiment: Experiment) -> Followers:
    """The values of each parameter that follows p, by the number of ranks."""
    others = [name for name in experiment.parameters if name != RANKS]
    followers: dict[str, dict[float, float]] = {}
    for name in others:
        values: dict[float, float] = {}
        for key, _ in experiment.runs:
            p, value = key.coordinate((RANKS, name))
            if values.setdefault(p, value) != value:
                return {}
        if len(set(values.values())) > 1:
            followers[name] = values
    return followers if RANKS in experiment.parameters else {}


def model_over_ranks(experiment: Experiment, models: ModelSet, followers: Followers) -> ModelSet:
    """Models of times over p alone, where all other parameters follow it; see `find_followers`.

    Args:
        experiment: the runs, with exclusive times.
        models: over all parameters.
        followers: the parameters that follow p.
    """
    timed = [series for series in models.models if series.key.metric in TIMES]
    if not followers or not timed or RANKS not in models.parameters:
        return models

    p = np.unique([key.size for key, _ in experiment.runs]).astype(float)
    values = _collect(experiment, timed, p)
    is_enough = np.isfinite(values).any(axis=2).sum(axis=1) >= MIN_COORDINATES
    chosen = [series for series, is_judged in zip(timed, is_enough, strict=True) if is_judged]
    fitted = fit(p, values[is_enough]) if chosen else []
    over_ranks = []
    for series, model in zip(chosen, fitted, strict=True):
        marks = tuple(finding for finding in series.model.findings if finding.code in MARKS)
        over_ranks.append(replace(series, model=replace(model, findings=marks)))
    return replace(models, parameters=(RANKS,), models=over_ranks)


def describe_followers(followers: Followers) -> list[str]:
    """A note that growth with p includes that of other parameters; none without such."""
    if not followers:
        return []
    names = list(followers)
    largest = max(followers[names[0]])
    values = ", ".join(f"{name} = {number(followers[name][largest])}" for name in names)
    verb = "follows" if len(names) == 1 else "follow"
    return [
        f"{', '.join(names)} {verb} p in all runs ({values} at p = {number(largest)}): growth with"
        f" p is that of both together, and predictions assume that {', '.join(names)} {verb} on"
    ]


def _collect(experiment: Experiment, timed: Sequence[SeriesModel], p: FloatArray) -> FloatArray:
    """The values of each series, (n_series, n_scales, n_repetitions), NaN where there is none.

    Means and maxima over ranks come from the runs, those of classes from their models.
    """
    unused = experiment.unused_times()
    runs_at: dict[float, list[int]] = {scale: [] for scale in p.tolist()}
    for i, (key, _) in enumerate(experiment.runs):
        if key not in unused:
            runs_at[float(key.size)].append(i)

    rows = [{path: row for row, path in enumerate(table.callpaths)} for _, table in experiment.runs]
    n_repetitions = max(*map(len, runs_at.values()), 1)
    values = np.full((len(timed), len(p), n_repetitions), np.nan)
    for row, series in enumerate(timed):
        is_maximum = series.key.behaviour == MAXIMUM
        if series.key.behaviour != ALL and not is_maximum:
            along = series.model.parameters.index(RANKS)
            at = np.searchsorted(p, series.model.coordinates[:, along])
            values[row, at, 0] = series.model.values
            continue
        for column, scale in enumerate(p.tolist()):
            for repetition, i in enumerate(runs_at[scale]):
                _, table = experiment.runs[i]
                measured = table.values.get(series.key.metric)
                at_row = rows[i].get(series.key.callpath)
                if measured is None or at_row is None:
                    continue
                of_ranks = measured[at_row]
                if np.isfinite(of_ranks).any():
                    values[row, column, repetition] = (
                        np.nanmax(of_ranks) if is_maximum else np.nanmean(of_ranks)
                    )
    return values
