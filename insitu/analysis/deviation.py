"""Where a complete run differs from the forecast of earlier runs."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace

import numpy as np

from insitu.analysis.callpaths import last_frames
from insitu.analysis.cost import metric_order
from insitu.analysis.forecast import (
    Forecast,
    Judgement,
    LivePath,
    PathMetric,
    compare_with_forecast,
    make_forecast,
)
from insitu.entities import TIME, TIME_EXCLUSIVE, VISITS, Finding, RunKey
from insitu.modeling.base import ModelSet
from insitu.modeling.measurement import FloatArray, RunTable
from insitu.units import quantity

OFF_FORECAST = "off-forecast"
NAMED_PATHS = 3  # call paths that the finding names, those with the largest deviations
WIDTH = 48  # characters of a call path


def find_deviations_from_models(
    models: ModelSet, table: RunTable, run: RunKey, *, is_crowded: bool = False
) -> tuple[Finding, ...]:
    """Report values of a complete run that its models do not expect; see `find_deviations`.

    Args:
        models: of other runs.
        table: the values of the run.
        run: its parameters.
        is_crowded: whether its ranks shared cores. Its times, which include waiting for a core,
            are not judged then.
    """
    means = _means_by_metric(table)
    measured = {}
    for name, values in means.items():
        for path, mean in zip(map(str, table.callpaths), values.tolist(), strict=True):
            measured[path, name] = mean
    if is_crowded:
        judged = tuple(series for series in models.models if not series.metric.is_wall_time)
        models = replace(models, models=judged)
    forecast = make_forecast(models, run, measured=measured)
    return _find_deviations(forecast, table, run, means)


def find_deviations(forecast: Forecast, table: RunTable, run: RunKey) -> tuple[Finding, ...]:
    """Report values of a run outside of the bounds of its forecast, as one finding.

    Args:
        forecast: of this run, by models that were made without it.
        table: its values; the mean over the ranks that have one is judged.
        run: its parameters.

    Returns:
        Nothing where all values are within their bounds.
    """
    return _find_deviations(forecast, table, run, _means_by_metric(table))


def _find_deviations(
    forecast: Forecast, table: RunTable, run: RunKey, means: Mapping[str, FloatArray]
) -> tuple[Finding, ...]:
    paths = _mean_paths(forecast, table, means)
    comparison = compare_with_forecast(forecast, paths, size=table.size, has_ended=True)
    judgements = comparison.judgements
    outside = {key: judgement for key, judgement in judgements.items() if judgement.verdict}
    if not outside:
        return ()

    values: dict[PathMetric, float] = {}
    for path in paths:
        for metric, value in path.values().items():
            values[path.callpath, metric] = value
    reported = _first_metrics(outside)
    reported.sort(key=lambda key: (-_ratio(values[key], outside[key]), key))

    units = {metric.name: metric.unit for metric in table.metrics}
    named = []
    for key in reported[:NAMED_PATHS]:
        callpath, metric = key
        named.append(
            f"{last_frames(callpath, WIDTH)} {metric} {quantity(values[key], units[metric])} "
            f"({outside[key].verdict} than {_bounds(outside[key], units[metric])})"
        )

    rest = len(reported) - len(named)
    more = f"; and {rest} more call path{'s' * (rest != 1)}" if rest else ""
    text = (
        f"run {run}: {len(outside)} of {len(judgements)} values differ from the forecast of "
        f"earlier runs: {'; '.join(named)}{more}"
    )
    return (Finding(OFF_FORECAST, text),)


def _first_metrics(keys: Iterable[PathMetric]) -> list[PathMetric]:
    """Per call path the metric that comes first in lists of several."""
    first: dict[str, str] = {}
    for path, metric in keys:
        first[path] = min(first.get(path, metric), metric, key=metric_order)
    return list(first.items())


def _mean_paths(
    forecast: Forecast, table: RunTable, means: Mapping[str, FloatArray]
) -> list[LivePath]:
    """Means over ranks of the call paths that have a forecast."""
    predicted = {path for path, _ in forecast.values}
    paths = []
    for row, path in enumerate(map(str, table.callpaths)):
        if path in predicted:
            others = {name: float(values[row]) for name, values in means.items()}
            live_path = LivePath(
                callpath=path,
                visits=others.pop(VISITS.name, math.nan),
                seconds=others.pop(TIME.name, math.nan),
                exclusive_s=others.pop(TIME_EXCLUSIVE.name, math.nan),
                ranks=math.inf,
                more=others,
            )
            paths.append(live_path)

    return paths


def _means_by_metric(table: RunTable) -> dict[str, FloatArray]:
    """Mean over the ranks that have a value: (n_call_paths,) by metric, NaN where there is none."""
    means: dict[str, FloatArray] = {}
    for name, values in table.values.items():
        counts = np.count_nonzero(~np.isnan(values), axis=1)
        sums = np.nansum(values, axis=1)
        means[name] = np.where(counts > 0, sums / np.maximum(counts, 1), np.nan)
    return means


def _ratio(value: float, judgement: Judgement) -> float:
    """Ratio of value and prediction, at least 1: as far above counts as much as below."""
    expected = judgement.expected.value
    if value * expected <= 0:
        return math.inf
    return max(value / expected, expected / value)


def _bounds(judgement: Judgement, unit: str) -> str:
    low = quantity(judgement.expected.low, unit)
    high = quantity(judgement.expected.high, unit)
    return low if low == high else f"{low} … {high}"
