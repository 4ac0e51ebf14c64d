"""Models of series whose dependencies on parameters are known [DET §3.3].

Exact counts show which parameters the work of a call path depends on, and which of them multiply.
Its time is then modelled over these parameters alone. For this, the runs of a small design are
enough, although other parameters vary together in it.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from insitu.entities import TIME, TIME_EXCLUSIVE, CallPath, Metric
from insitu.modeling.base import Model, Segment
from insitu.modeling.evidence.modeler import Evidence
from insitu.modeling.measurement import FloatArray, SeriesKey
from insitu.modeling.modelers import DEFAULT, load_modeler
from insitu.modeling.pmnf import Function
from insitu.modeling.series import Series, reduce_repetitions
from insitu.modeling.spread import Spread

Products = Sequence[Sequence[str]]  # each product has the parameters that may be multiplied


def dependencies_of_metric(
    metric: Metric, paths: Sequence[CallPath], known: Mapping[CallPath, Products]
) -> dict[CallPath, Products]:
    """Return what the times of call paths may depend on; empty for other metrics.

    An inclusive time depends on whatever any call path below depends on. It is not restricted if
    one of these is not known, for example because it waits for other ranks.

    Args:
        metric: what is modelled.
        paths: all call paths that were measured.
        known: what the work of call paths depends on.
    """
    if metric.unit != TIME.unit or not known:
        return {}
    if metric.name == TIME_EXCLUSIVE.name:
        return dict(known)

    descendants: dict[CallPath, list[CallPath]] = defaultdict(list)  # including the path itself
    for path in paths:
        for end in range(1, len(path.frames) + 1):
            descendants[CallPath(path.frames[:end])].append(path)

    dependencies: dict[CallPath, Products] = {}
    for path, below in descendants.items():
        if all(descendant in known for descendant in below):
            products: dict[tuple[str, ...], None] = {}  # an ordered set
            for descendant in below:
                products |= dict.fromkeys(map(tuple, known[descendant]))
            dependencies[path] = list(products)
    return dependencies


def fit_with_dependencies(
    parameters: tuple[str, ...],
    coordinates: FloatArray,
    values: FloatArray,
    keys: Sequence[SeriesKey],
    *,
    dependencies: Mapping[CallPath, Products],
    modeler: str,
    known_variances: FloatArray | None = None,
    is_exact: bool = False,
) -> list[Model]:
    """Model every series over the parameters on which it depends, or over all if not known.

    A call path whose dependencies have no parameter is modelled over all of them, since times vary
    with more than the work.

    Args:
        parameters: names of the columns of coordinates.
        coordinates: (n_points, n_parameters).
        values: (n_series, n_points, n_repetitions), NaN where nothing was measured.
        keys: one per series.
        dependencies: of call paths.
        modeler: its name; the default one also uses which parameters multiply.
        known_variances, is_exact: see `modelers.fit`.

    Raises:
        ModelingError: as the modeler does.
    """
    groups: dict[tuple[str, ...], list[int]] = defaultdict(list)
    for row, key in enumerate(keys):
        names: set[str] = set()
        for product in dependencies.get(key.callpath, ()):
            names.update(product)
        own = tuple(name for name in parameters if name in names)
        groups[own or parameters].append(row)

    models: dict[int, Model] = {}
    for own, rows in groups.items():
        columns = [parameters.index(name) for name in own]
        series = reduce_repetitions(
            own,
            coordinates[:, columns],
            values[rows],
            [keys[row] for row in rows],
            known_variances=None if known_variances is None else known_variances[rows],
            is_exact=is_exact,
        )
        for row, fitted in zip(rows, _fit(series, dependencies, modeler), strict=True):
            models[row] = fitted
            if own != parameters:
                extended = extend_parameters(fitted, parameters, coordinates, values[row])
                models[row] = replace(extended, depends_on=own)
    return [models[row] for row in range(len(values))]


def _fit(series: Series, dependencies: Mapping[CallPath, Products], modeler: str) -> list[Model]:
    if modeler != DEFAULT:
        return load_modeler(modeler).fit(series)
    products = {path: known for path, known in dependencies.items() if known}
    return Evidence(dependencies=products).fit(series)


def extend_parameters(
    model: Model, parameters: tuple[str, ...], coordinates: FloatArray, values: FloatArray
) -> Model:
    """Return a model over some of the parameters as a model over all of them.

    The segments of a model are intervals of the first parameter. If the model changes with another
    one, only the segment at its largest values is kept.

    Args:
        parameters: all names. coordinates: (n_points, n_parameters).
        values: (n_points, n_repetitions) of the series.
    """
    columns = [parameters.index(name) for name in model.parameters]
    segments, spreads, changes = model.segments, model.spreads, model.change_points
    probabilities = model.change_probabilities
    if columns[0] != 0 and len(segments) > 1:
        segments = (segments[-1]._replace(lower=-np.inf),)
        spreads, changes, probabilities = spreads[-1:], (), ()

    is_measured = np.isfinite(values).any(axis=1)
    distinct, index = np.unique(coordinates[is_measured], axis=0, return_inverse=True)
    medians = np.nanmedian(values[is_measured], axis=1)
    means = [np.mean(medians[index.ravel() == i]) for i in range(len(distinct))]

    return replace(
        model,
        parameters=parameters,
        segments=tuple([_extend_segment(segment, parameters) for segment in segments]),
        spreads=tuple([_extend_spread(spread, columns, len(parameters)) for spread in spreads]),
        change_points=changes,
        change_probabilities=probabilities,
        coordinates=distinct,
        values=np.array(means),
    )


def _extend_segment(segment: Segment, parameters: tuple[str, ...]) -> Segment:
    function = segment.function
    return segment._replace(function=Function(parameters, function.constant, function.terms))


def _extend_spread(spread: Spread, columns: Sequence[int], n_parameters: int) -> Spread:
    exponents = np.zeros((*spread.exponents.shape[:2], n_parameters, 3))
    exponents[:, :, columns] = spread.exponents
    return replace(spread, exponents=exponents)
