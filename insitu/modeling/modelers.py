"""The table of modelers, and the call that makes models from arrays."""

from collections.abc import Sequence
from concurrent.futures import Executor
from dataclasses import replace
from importlib import import_module
from typing import cast

import numpy as np
from numpy.typing import ArrayLike

from insitu.errors import ModelingError
from insitu.modeling.base import Model, Modeler
from insitu.modeling.measurement import FloatArray
from insitu.modeling.series import reduce_repetitions

# Modules are imported when their modeler is first used: "evidence" takes a while to load.
MODELERS = {
    "evidence": "insitu.modeling.evidence.modeler:Evidence",
    "search": "insitu.modeling.search:Search",
    "refine": "insitu.modeling.refine:Refine",
    "segmented": "insitu.modeling.segmented:Segmented",
}
DEFAULT = "evidence"


def load_modeler(name: str = DEFAULT) -> Modeler:
    """Return the modeler of this name, with its default options.

    Raises:
        ModelingError: there is no such modeler.
    """
    if name not in MODELERS:
        raise ModelingError(f"no modeler is called '{name}'; there are {', '.join(MODELERS)}")
    module, _, member = MODELERS[name].partition(":")
    return cast(Modeler, getattr(import_module(module), member)())


def fit(
    points: "ArrayLike",
    values: "ArrayLike",
    *,
    parameters: Sequence[str] = ("p",),
    modeler: str | Modeler = DEFAULT,
    executor: Executor | None = None,
    known_variances: FloatArray | None = None,
    is_exact: bool = False,
) -> list[Model]:
    """Fit a model to every series, in the order of the series.

    Args:
        points: (n_points, n_parameters), or (n_points,) with one parameter. Equal points count as
            repetitions of one.
        values: (n_points,) of one series, (n_series, n_points), or (n_series, n_points,
            n_repetitions). NaN and infinite values count as not measured.
        parameters: their names, in the order of the columns of points.
        modeler: a name from MODELERS, or a modeler with options of its own.
        executor: computes the series of modeler "evidence" in parallel; an executor of
            `concurrent.futures` or one with the same interface. The models are the same as without,
            to the last bit.
        known_variances: (n_series, n_points, n_repetitions), relative variance of each value that
            is known, such as the sampling error of times. Modeler "evidence" gives less weight to
            such values; the others ignore it.
        is_exact: a repetition has the same value, as counts of a deterministic program do, so that
            no finding asks for one.

    Raises:
        ModelingError: the shapes do not fit, there is no such modeler, or it takes no executor.
    """
    names = tuple(parameters)
    coordinates = as_numbers(points, "points")
    if coordinates.ndim == 1 and len(names) == 1:
        coordinates = coordinates.reshape(-1, 1)
    if coordinates.ndim != 2 or coordinates.shape[1] != len(names):
        named = f"give an array of shape (n_points, {len(names)})"
        if coordinates.ndim == 2 and coordinates.shape[1] > len(names):
            named += f', or {coordinates.shape[1]} names, as in parameters=["p", "n"]'
        raise ModelingError(
            f"fit: points of shape {coordinates.shape} do not fit the parameters "
            f"{', '.join(names)}; {named}"
        )

    cube = as_numbers(values, "values")
    if cube.ndim == 1:
        cube = cube[None]
    if cube.ndim == 2:
        cube = cube[:, :, None]
    if cube.ndim != 3 or cube.shape[1] != len(coordinates):
        raise ModelingError(
            f"fit: values of shape {np.shape(values)} do not fit {len(coordinates)} points; give "
            "(n_series, n_points) or (n_series, n_points, n_repetitions)"
        )

    chosen = load_modeler(modeler) if isinstance(modeler, str) else modeler
    if executor is not None:
        chosen = _with_executor(chosen, executor)
    return chosen.fit(
        reduce_repetitions(
            names, coordinates, cube, known_variances=known_variances, is_exact=is_exact
        )
    )


def as_numbers(values: "ArrayLike", name: str) -> FloatArray:
    """Return an array of numbers.

    Raises:
        ModelingError: there is something else, such as text or a dictionary.
    """
    try:
        return np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ModelingError(
            f"{name} must be numbers, in lists of equal lengths: {error}"
        ) from error


def _with_executor(modeler: Modeler, executor: Executor) -> Modeler:
    from insitu.modeling.evidence.modeler import Evidence

    if not isinstance(modeler, Evidence):
        raise ModelingError(
            f"modeler '{modeler.name}' does not take an executor; omit it, or use '{DEFAULT}'"
        )
    return replace(modeler, executor=executor)
