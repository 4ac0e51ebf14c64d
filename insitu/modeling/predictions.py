"""Predictions of many models or spreads at one coordinate, computed together.

The median of the functions of a model is found in rounds of small arrays, so a single one takes
most of a millisecond. Here all models with as many terms and parameters share the rounds.
"""

from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from insitu.modeling.base import Model
from insitu.modeling.grid_trend import GridTrend, points_of
from insitu.modeling.intervals import BoundedValues, find_intervals
from insitu.modeling.local_laws import LocalLaws, blend_with_laws
from insitu.modeling.measurement import FloatArray
from insitu.modeling.pmnf import powers
from insitu.modeling.spread import Spread
from insitu.modeling.student import median_of_mixtures


def predict_at(models: Sequence[Model], at: Sequence[float]) -> FloatArray:
    """Return the predictions of models of the same parameters: (n_models,).

    They are those of `Model.predict`, to within the tolerance of a median, MEDIAN_TOLERANCE.

    Args:
        models: n_models of them.
        at: the coordinate, (n_parameters,).
    """
    point = np.array(at, dtype=np.float64)
    predicted = np.empty(len(models))

    # Tails and adjustments are rare; models of other modelers have no spreads.
    rows, spreads = [], []
    for row, model in enumerate(models):
        spread = model.spread_at(point)
        if spread is None or not _is_plain(spread):
            predicted[row] = model.predict(point[None])[0]
        else:
            rows.append(row)
            spreads.append(spread)

    medians = np.empty(len(spreads))
    for members in _group_by_shape(spreads):
        group = [spreads[i] for i in members]
        medians[members] = _blend(group, point, _predict(group, point).median)
    has_no_negative = [bool((models[row].values >= 0).all()) for row in rows]
    predicted[rows] = np.where(has_no_negative, np.maximum(medians, 0.0), medians)
    return predicted


def predict_all(
    models: Sequence[Model], points: Sequence[FloatArray], level: float
) -> list[BoundedValues]:
    """Return what models predict, each at its own points, with bounds.

    The values are those of `Model.predict`, the bounds those of `Model.interval`.

    Args:
        models: of any parameters. points: (n, n_parameters) for each of them.
        level: 0.95 for 95 %.
    """
    # Equal series share a model.
    keys = [(id(model), at.tobytes()) for model, at in zip(models, points, strict=True)]
    distinct = dict(zip(keys, zip(models, points, strict=True), strict=True))
    values = {key: model.formula_at(at) for key, (model, at) in distinct.items()}
    bounds = {key: np.full((len(at), 2), np.nan) for key, (_, at) in distinct.items()}
    places, tasks = [], []
    for key, (model, at) in distinct.items():
        for rows, task in model.spread_points(at):
            places.append((key, rows))
            tasks.append(task)

    for (key, rows), found in zip(places, find_intervals(tasks, level), strict=True):
        has_no_negative = (distinct[key][0].values >= 0).all()
        values[key][rows] = np.maximum(found.values, 0.0) if has_no_negative else found.values
        bounds[key][rows] = found.bounds
    found_of = {
        key: BoundedValues(values[key], model.limit_bounds(at, bounds[key]))
        for key, (model, at) in distinct.items()
    }
    return [found_of[key] for key in keys]


def predict_by_functions(
    spreads: Sequence[Spread], at: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return the medians of the functions of spreads of the same parameters, and what they claim.

    The second is the standard deviation of a measurement around the median: (s,) each.

    Args:
        spreads: s of them, without tails and adjustments. at: the coordinate, (n_parameters,).
    """
    medians, deviations = np.empty(len(spreads)), np.empty(len(spreads))
    for members in _group_by_shape(spreads):
        predicted = _predict([spreads[i] for i in members], at)
        squares = (predicted.centre - predicted.median) ** 2 + predicted.scale**2
        medians[members] = predicted.median
        deviations[members] = np.sqrt((predicted.weights * squares).sum(axis=0))
    return medians, deviations


def _group_by_shape(spreads: Sequence[Spread]) -> list[list[int]]:
    """The indices of spreads whose functions have as many terms and parameters, together."""
    groups: dict[tuple[int, ...], list[int]] = defaultdict(list)
    for i, spread in enumerate(spreads):
        groups[spread.exponents.shape[1:3]].append(i)
    return list(groups.values())


def _is_plain(spread: Spread) -> bool:
    """Whether the median is that of the functions alone."""
    is_adjusted = spread.adjustments is not None or spread.quotient is not None
    return not (spread.tails is not None or is_adjusted)


class _Predicted(NamedTuple):
    """What k functions of s spreads predict, and its standard deviation: (k, s) each.

    weights: (k, s), zero behind the functions of a spread. median: (s,).
    """

    centre: FloatArray
    scale: FloatArray
    weights: FloatArray
    median: FloatArray


@np.errstate(over="ignore", invalid="ignore")  # far out, some functions are infinite
def _predict(spreads: Sequence[Spread], point: FloatArray) -> _Predicted:
    """What spreads predict whose functions have as many terms and parameters."""
    n_functions = max(len(spread.weights) for spread in spreads)
    exponents = _pad([spread.exponents for spread in spreads], n_functions)
    coefficients = _pad([spread.coefficients for spread in spreads], n_functions)
    covariances = _pad([spread.covariances for spread in spreads], n_functions)
    weights = _pad([spread.weights for spread in spreads], n_functions).T
    sigma = np.array([spread.sigma for spread in spreads])
    degrees = np.array([spread.degrees for spread in spreads])

    design = np.ones(coefficients.shape)
    design[:, :, 1:] = powers(point, exponents).prod(axis=3)
    centre = np.einsum("skc,skc->ks", coefficients, design)
    variance = np.einsum("skc,skcd,skd->ks", design, covariances, design)
    scale = np.sqrt(np.maximum(variance, 0) + (sigma * centre) ** 2)
    # Where the first function leads, it is the centre.
    medians = centre[0].copy()
    rest = np.flatnonzero([not spread.is_led for spread in spreads])
    if len(rest):
        medians[rest] = median_of_mixtures(
            centre[:, rest], scale[:, rest], weights[:, rest], degrees[rest]
        )
    return _Predicted(centre, scale, weights, medians)


def _pad(arrays: Sequence[FloatArray], length: int) -> FloatArray:
    """Stack arrays whose first dimension is shorter than `length`, with zeros behind them."""
    padded = np.zeros((len(arrays), length, *arrays[0].shape[1:]))
    for row, array in zip(padded, arrays, strict=True):
        row[: len(array)] = array
    return padded


def _blend(spreads: Sequence[Spread], point: FloatArray, medians: FloatArray) -> FloatArray:
    """The medians (s,), averaged with the local laws or the trend of the spreads that have one."""
    blended = medians.copy()
    of_laws = [(row, s.local) for row, s in enumerate(spreads) if isinstance(s.local, LocalLaws)]
    if of_laws:
        n_laws = max(len(law.weights) for _, law in of_laws)
        weights = _pad([law.weights_at(point[:1])[:, 0] for _, law in of_laws], n_laws)
        logs = _pad([law.log_values(point[:1])[:, 0] for _, law in of_laws], n_laws)
        rows = [row for row, _ in of_laws]
        blended[rows] = blend_with_laws(weights.T, logs.T, medians[rows])[0]

    # Trends need the functions at a few more points, mostly the same for all.
    of_starts: dict[bytes, list[int]] = defaultdict(list)
    trends = {row: s.local for row, s in enumerate(spreads) if isinstance(s.local, GridTrend)}
    for row, trend in trends.items():
        of_starts[trend.starts.tobytes()].append(row)
    for rows in of_starts.values():
        members = [spreads[row] for row in rows]
        others = points_of(point[None], trends[rows[0]].starts)[:, 0]
        predicted = np.stack([_predict(members, other).median for other in others])
        for i, row in enumerate(rows):
            of_row = medians[row : row + 1]
            means, _, _ = trends[row].blend_from(point[None], of_row, predicted[:, i : i + 1])
            blended[row] = means[0]
    return blended
