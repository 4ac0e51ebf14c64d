"""Where models predict nothing: the horizon of a series, and claims without evidence.

Everything that prints a number at a scale that was not measured calls `unclear_at` first, so that
all views and commands agree.
"""

from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike

from insitu.entities import number
from insitu.modeling.base import Model
from insitu.modeling.doubt import FEW_VALUES, parameters_with_few_values
from insitu.modeling.joint_parameters import find_joint_change

HORIZON_FACTOR = 10.0  # between the bounds of a prediction; more is no prediction
MAX_DOUBLINGS = 20  # beyond the largest coordinate, that a horizon is searched in
DOUBLINGS_AT_ONCE = 7  # most horizons are nearer, and bounds far out take longest to compute


@lru_cache(maxsize=4096)  # of models; a slider predicts the same ones repeatedly
def horizon(model: Model) -> float:
    """Return up to which value of its parameter the model of one parameter predicts.

    From there on, the 95 % bounds of a prediction are more than HORIZON_FACTOR apart. The result is
    a doubling of the largest coordinate; infinite where bounds stay closer as far as they were
    computed, or are unknown.
    """
    if len(model.parameters) != 1 or not len(model.coordinates) or not model.spreads:
        return float("inf")
    largest = float(model.coordinates.max())
    for start in range(0, MAX_DOUBLINGS + 1, DOUBLINGS_AT_ONCE):
        doublings = np.arange(start, min(start + DOUBLINGS_AT_ONCE, MAX_DOUBLINGS + 1))
        low, high = model.interval(largest * 2.0 ** doublings[:, None]).T
        is_unclear = _are_far_apart(low, high)
        if is_unclear.any():
            first = start + int(np.argmax(is_unclear))
            return largest * 2.0 ** max(first - 1, 0)
    return float("inf")


def unclear_at(model: Model, point: ArrayLike, bounds: tuple[float, float] | None = None) -> str:
    """Return `unclear beyond p=256` where a model predicts nothing at a point; "" elsewhere.

    Before a change of behaviour along one of several parameters it is `unclear below p=16`.

    Args:
        point: (n_parameters,), or a number with one parameter.
        bounds: of the 95 % interval there, computed if they are not known.
    """
    reason = unclear_without_evidence(model, point)
    if reason:
        return reason

    at = np.reshape(np.asarray(point, dtype=float), (1, -1))
    for name, lowest in model.domain.items():
        if at[0, model.parameters.index(name)] < lowest:
            return f"unclear below {name}={number(lowest)}"
    low, high = bounds or model.interval(at)[0].tolist()
    if not _are_far_apart(np.array([low]), np.array([high]))[0]:
        return ""
    if len(model.parameters) > 1:
        return "unclear so far beyond the runs" if _is_beyond(model, at) else ""
    return unclear_before(model, at[0, 0])


def unclear_before(model: Model, scale: float) -> str:
    """Return `unclear beyond p=256` if the horizon of a model is below a scale; "" elsewhere."""
    limit = horizon(model)
    return f"unclear beyond {model.parameters[0]}={number(limit)}" if limit < scale else ""


def unclear_without_evidence(model: Model, point: ArrayLike) -> str:
    """Return `unclear: …` beyond the runs of a model that shows no growth; "" elsewhere.

    Or where parameters do not change together that changed together in all runs.
    """
    joint = find_joint_change(model, np.ravel(np.asarray(point, dtype=float)).tolist())
    if joint is not None:
        return f"unclear: {joint}"
    reason = model.doubt
    if not reason:
        return ""
    at = np.reshape(np.asarray(point, dtype=float), (1, -1))
    few = parameters_with_few_values(model.findings)
    if few and not model.doubt_without(FEW_VALUES):
        columns = [model.parameters.index(name) for name in few]
        is_measured = [bool((model.coordinates[:, i] == at[0, i]).any()) for i in columns]
        return "" if all(is_measured) else f"unclear: {reason}"
    return f"unclear: {reason}" if _is_beyond(model, at) else ""


def _is_beyond(model: Model, at: np.ndarray) -> bool:
    """Whether a point (1, n_parameters) lies beyond the largest measured values."""
    return bool(len(model.coordinates) and (at[0] > model.coordinates.max(axis=0)).any())


def _are_far_apart(low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Whether bounds are no prediction; also where the lower one is zero and the upper is not."""
    with np.errstate(over="ignore"):
        return np.asarray(high > HORIZON_FACTOR * low)  # NaN is not
