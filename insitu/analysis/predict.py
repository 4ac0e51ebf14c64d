"""Points at which models predict: parsed, and compared with what was measured."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from insitu.analysis.callpaths import name_with_caller
from insitu.analysis.node_boundary import NodeBoundary
from insitu.analysis.summary import DOUBTFUL_FACTOR
from insitu.entities import RANKS, number, parse_assignment
from insitu.errors import UsageError
from insitu.modeling.base import SeriesModel
from insitu.modeling.measurement import FloatArray
from insitu.modeling.target import with_followers
from insitu.units import percent

MIN_DIFFERENCE = 0.10  # of a prediction from its formula that a note mentions

Point = str | Mapping[str, float]
NO_CONSTANTS: Mapping[str, float] = {}


def coordinate_of(
    point: Point,
    parameters: Sequence[str],
    constants: Mapping[str, float] = NO_CONSTANTS,
    *,
    measured: FloatArray | None = None,
) -> list[float]:
    """Return a point as a coordinate: one value per parameter, in their order.

    Args:
        point: `"p=1024,n=256"`, or a mapping from parameter to value.
        parameters: the parameters of the models.
        constants: parameters that had the same value in all runs, which a point may name as well.
        measured: the measured coordinates, (n, n_parameters): a parameter that changed with another
            one in all runs follows it, unless the point names it.

    Raises:
        UsageError: the text is not NAME=VALUE, or a parameter is unknown, missing, given twice or
            not positive, or a constant has another value.
    """
    text = point if isinstance(point, str) else format_point(point.items())
    values = _parse_point(point, parameters) if isinstance(point, str) else dict(point)
    available = ", ".join(parameters)

    for name, value in values.items():
        if name in constants and name not in parameters and value != constants[name]:
            raise UsageError(
                f"--at {text}: {name} was {number(constants[name])} in all runs, so no model knows"
                f" what {name}={number(value)} changes; measure it with two other values"
            )
        if name not in parameters and name not in constants:
            raise UsageError(
                f"--at {text}: the models have no parameter '{name}'; they are over {available}"
            )

    if measured is not None:
        values = with_followers(values, parameters, measured)
    missing = [name for name in parameters if name not in values]
    if missing:
        example = ",".join(f"{name}=VALUE" for name in missing)
        raise UsageError(f"--at {text}: the models are over {available}; add {example}")
    if min(values.values()) <= 0:
        raise UsageError(f"--at {text}: models are defined only for values above 0")

    return [values[name] for name in parameters]


def _parse_point(text: str, parameters: Sequence[str]) -> dict[str, float]:
    values: dict[str, float] = {}
    for assignment in text.split(","):
        try:
            name, value = parse_assignment(assignment)
        except ValueError as error:
            available = ", ".join(parameters)
            raise UsageError(f"--at {text}: {error}; the models are over {available}") from error
        if name in values:
            raise UsageError(f"--at {text}: '{name}' is given twice")
        values[name] = value
    return values


def format_point(values: Iterable[tuple[str, float]]) -> str:
    """Return `p=16, n=256` for pairs of parameter and value."""
    return ", ".join(f"{name}={number(value)}" for name, value in values)


def extrapolation_notes(
    coordinates: Iterable[Sequence[float]], series: Sequence[SeriesModel]
) -> list[str]:
    """Return a note for each parameter value too far beyond the measurements to be trusted.

    Args:
        coordinates: where the models predict, each (n_parameters,).
        series: the models, all over the same parameters; at least one.
    """
    parameters = series[0].model.parameters
    largest = np.max([entry.model.coordinates.max(axis=0) for entry in series], axis=0)

    notes = []
    for coordinate in coordinates:
        for name, value, limit in zip(parameters, coordinate, largest, strict=True):
            if value > DOUBTFUL_FACTOR * limit:
                notes.append(
                    f"{name}={number(value)} is {value / limit:.3g} times the largest measured"
                    f" value; beyond {DOUBTFUL_FACTOR:g} times, trust the bounds, not the value"
                )
    return notes


def formula_notes(
    predicted: Iterable[tuple[SeriesModel, Sequence[Mapping[str, Any]]]],
) -> list[str]:
    """Return a note for each point at which predictions differ from their formulas.

    A prediction is the centre of what all competing functions predict; the formula is one of them.
    Points at which nothing is predicted do not count.

    Args:
        predicted: each model with its predictions as `insitu.formats.table.predictions` returns
            them, all at the same points.
    """
    values: dict[str, int] = Counter()
    differing: dict[str, list[tuple[float, SeriesModel]]] = defaultdict(list)
    for series, points in predicted:
        for point in points:
            value, formula = point["value"], point["formula"]
            if value is None or point["unclear"]:
                continue
            at = format_point(point["at"].items())
            values[at] += 1
            if formula and formula > 0 and abs(value / formula - 1) > MIN_DIFFERENCE:
                differing[at].append((abs(value / formula - 1), series))

    notes = []
    for at, differences in differing.items():
        largest, series = max(differences, key=lambda item: item[0])
        notes.append(
            f"at {at}, {len(differences)} of {values[at]} predictions differ from the formula by"
            f" more than {percent(MIN_DIFFERENCE)}, {series.key.metric} of"
            f" {name_with_caller(series.key.callpath)} most, by {percent(largest)}: other functions"
            " fit as well"
        )
    return notes


def crowding_notes(series: Sequence[SeriesModel]) -> list[str]:
    """Return a note if times of ranks that shared cores are predicted.

    Args:
        series: the models.
    """
    crowding = {entry.crowding for entry in series if entry.crowding}
    if not crowding:
        return []
    worst = max(crowding, key=lambda text: int(text.split()[0]))
    return [
        f"(crowded): measured with up to {worst}; these times contain waiting for a core;"
        " measure with a core of its own for each rank to predict times"
    ]


def node_notes(
    coordinates: Iterable[Sequence[float]],
    series: Sequence[SeriesModel],
    boundary: NodeBoundary | None,
) -> list[str]:
    """Return a note if times are predicted for several nodes, and the runs have no law of these.

    Times of ranks that shared cores have a note of their own.

    Args:
        coordinates: where the models predict, each (n_parameters,).
        series: the models, all over the same parameters; at least one.
        boundary: which runs used more than one node; None if this is not known.
    """
    parameters = series[0].model.parameters
    is_timed = any(entry.metric.is_wall_time and not entry.crowding for entry in series)
    if boundary is None or RANKS not in parameters or not is_timed:
        return []
    target = max(coordinate[parameters.index(RANKS)] for coordinate in coordinates)
    if not boundary.is_open(target):
        return []
    return [
        f"{boundary.reason(target)}: predicted times leave out what messages between nodes cost;"
        " measure on several nodes to predict them"
    ]
