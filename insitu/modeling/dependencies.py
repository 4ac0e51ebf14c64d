"""Models of series of which it is known on what they depend [DET §3.3].

Exact counts tell which parameters the work of a call path depends on, and which of them multiply.
Its time is then modelled over these parameters alone, over which runs of a small design are enough
although parameters move together there that no call path shares.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from insitu.entities import TIME, CallPath, Metric
from insitu.modeling.base import Model
from insitu.modeling.evidence.modeler import Evidence
from insitu.modeling.measurement import Points
from insitu.modeling.modelers import DEFAULT, modeler
from insitu.modeling.pmnf import Function
from insitu.modeling.spread import Spread

Products = Sequence[Sequence[str]]  # the parameters that may be multiplied, for each product
EXCLUSIVE = "time_exclusive"


def told_of(
    metric: Metric, paths: Sequence[CallPath], known: Mapping[CallPath, Products]
) -> dict[CallPath, Products]:
    """What the times of call paths may depend on; empty for other metrics than times.

    An inclusive time depends on what any call path below depends on, and is free where one of these
    is not known, as of what waits for other ranks.

    Args:
        metric: what is modelled.
        paths: all that were measured.
        known: what the work of call paths depends on.
    """
    if metric.unit != TIME.unit or not known:
        return {}
    if metric.name == EXCLUSIVE:
        return dict(known)
    below: dict[CallPath, list[CallPath]] = defaultdict(list)
    for path in paths:
        for end in range(1, len(path.frames) + 1):
            below[CallPath(path.frames[:end])].append(path)
    return {
        path: list(dict.fromkeys(tuple(one) for part in of for one in known[part]))
        for path, of in below.items()
        if all(part in known for part in of)
    }


def fit_told(points: Points, told: Mapping[CallPath, Products], name: str) -> list[Model]:
    """Model every series over the parameters on which it depends; all of them where not known.

    Args:
        points: with the keys of the series.
        told: of call paths; where it names no parameter the series is free, since times vary with
            more than work.
        name: of the modeler; the default one is told of products, too.

    Raises:
        ModelingError: as the modeler does.
    """
    groups: dict[tuple[str, ...], list[int]] = defaultdict(list)
    for row, key in enumerate(points.keys):
        named = {one for product in told.get(key.callpath, ()) for one in product}
        groups[tuple(n for n in points.parameters if n in named) or points.parameters].append(row)
    found: dict[int, Model] = {}
    for own, rows in groups.items():
        columns = [points.parameters.index(one) for one in own]
        made = _fit(
            Points(
                own,
                points.coordinates[:, columns],
                points.values[rows],
                [points.keys[row] for row in rows],
            ),
            told,
            name,
        )
        for row, model in zip(rows, made, strict=True):
            found[row] = model if own == points.parameters else lifted(model, points, row)
    return [found[row] for row in range(len(points.values))]


def _fit(points: Points, told: Mapping[CallPath, Products], name: str) -> list[Model]:
    if name != DEFAULT:
        return modeler(name).fit(points)
    return Evidence(dependencies={path: of for path, of in told.items() if of}).fit(points)


def lifted(model: Model, points: Points, row: int) -> Model:
    """A model over some of the parameters as one over all of them.

    Where it changes at a value of another parameter than the first, only what holds at the largest
    values is kept.
    """
    names = points.parameters
    columns = [names.index(one) for one in model.parameters]
    segments, spreads, changes = model.segments, model.spreads, model.change_points
    probabilities = model.change_probabilities
    if columns[0] != 0 and len(segments) > 1:
        segments = (segments[-1]._replace(lower=-np.inf),)
        spreads, changes, probabilities = spreads[-1:], (), ()
    used = np.isfinite(points.values[row]).any(axis=1)
    coordinates, back = np.unique(points.coordinates[used], axis=0, return_inverse=True)
    means = np.nanmedian(points.values[row][used], axis=1)
    values = np.array([np.mean(means[back.ravel() == i]) for i in range(len(coordinates))])
    return replace(
        model,
        parameters=names,
        segments=tuple(
            one._replace(function=Function(names, one.function.constant, one.function.terms))
            for one in segments
        ),
        spreads=tuple(_wide(one, columns, len(names)) for one in spreads),
        change_points=changes,
        change_probabilities=probabilities,
        coordinates=coordinates,
        values=values,
    )


def _wide(spread: Spread, columns: Sequence[int], count: int) -> Spread:
    exponents = np.zeros((*spread.exponents.shape[:2], count, 3))
    exponents[:, :, columns] = spread.exponents
    return replace(spread, exponents=exponents)
