"""The table of modelers, and the one call that makes models from arrays."""

from collections.abc import Sequence
from concurrent.futures import Executor
from dataclasses import replace
from importlib import import_module
from typing import cast

import numpy as np
from numpy.typing import ArrayLike

from insitu.errors import ModelingError
from insitu.modeling.base import Model, Modeler
from insitu.modeling.measurement import Points

MODELERS = {
    "evidence": "insitu.modeling.evidence.modeler:Evidence",
    "search": "insitu.modeling.search:Search",
    "refine": "insitu.modeling.refine:Refine",
    "segmented": "insitu.modeling.segmented:Segmented",
}
DEFAULT = "evidence"


def modeler(name: str = DEFAULT) -> Modeler:
    """The modeler of this name, with its default options.

    Raises:
        ModelingError: if there is none.
    """
    if name not in MODELERS:
        raise ModelingError(f"no modeler is called '{name}'; there are {', '.join(MODELERS)}")
    module, _, member = MODELERS[name].partition(":")
    return cast(Modeler, getattr(import_module(module), member)())


def fit(
    points: ArrayLike,
    values: ArrayLike,
    *,
    parameters: Sequence[str] = ("p",),
    modeler: str | Modeler = DEFAULT,
    executor: Executor | None = None,
) -> list[Model]:
    """Model every series; the models come in the order of the series.

    Args:
        points: (n_points, n_parameters), or (n_points,) with one parameter.
        values: (n_series, n_points) or (n_series, n_points, n_repetitions); NaN is not measured.
            Infinite values count as not measured, equal points as repetitions of one.
        parameters: their names, in the order of the columns of points.
        modeler: a name from MODELERS, or a modeler with options of its own.
        executor: of `concurrent.futures` or alike, to do the work of modeler "evidence"; the models
            are the same as without, to the last bit.

    Raises:
        ModelingError: if the shapes do not fit, there is no such modeler, or it takes no executor.
    """
    names = tuple(parameters)
    coordinates = np.asarray(points, dtype=np.float64)
    if coordinates.ndim == 1 and len(names) == 1:
        coordinates = coordinates.reshape(-1, 1)
    table = np.asarray(values, dtype=np.float64)
    if table.ndim == 2:
        table = table[:, :, None]
    if coordinates.ndim != 2 or coordinates.shape[1] != len(names):
        raise ModelingError(
            f"fit: points of shape {coordinates.shape} do not fit the parameters "
            f"{', '.join(names)}; give an array of shape (n_points, {len(names)})"
        )
    if table.ndim != 3 or table.shape[1] != len(coordinates):
        raise ModelingError(
            f"fit: values of shape {np.shape(values)} do not fit {len(coordinates)} points; give "
            "(n_series, n_points) or (n_series, n_points, n_repetitions)"
        )
    chosen = _named(modeler) if isinstance(modeler, str) else modeler
    if executor is not None:
        chosen = _spread(chosen, executor)
    return chosen.fit(Points(names, coordinates, table))


def _spread(chosen: Modeler, executor: Executor) -> Modeler:
    from insitu.modeling.evidence.modeler import Evidence

    if not isinstance(chosen, Evidence):
        raise ModelingError(
            f"modeler '{chosen.name}' works alone: leave the executor out, or take '{DEFAULT}'"
        )
    return replace(chosen, executor=executor)


_named = modeler
