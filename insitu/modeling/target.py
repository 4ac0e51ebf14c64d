"""Coordinates that views look ahead to: the default target, and lines along one parameter.

Parameters that changed together in all runs, as the size of a problem with the number of ranks, go
on doing so.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from insitu.entities import RANKS
from insitu.modeling.measurement import FloatArray

# Far enough to show which growth matters on the next machine, and no farther than most machines go.
# Exact laws hold that far; predictions that do not are marked as unclear.
TARGET_FACTOR = 64.0  # times the largest measured value
MAX_TARGET_RANKS = 65_536.0
MIN_PAIRS = 3  # of values of two parameters that changed together


def default_target(
    parameters: Sequence[str],
    largest: Sequence[float],
    chosen: Mapping[str, float],
    measured: FloatArray | None = None,
) -> tuple[float, ...]:
    """Return the coordinate to look ahead to.

    The number of ranks, or the first parameter without it, is TARGET_FACTOR times the largest
    measured value; a number of ranks is at most MAX_TARGET_RANKS. The others keep their largest
    measured values, but those that followed it in all runs follow on.

    Args:
        parameters: names of the parameters; at least one.
        largest: the largest measured value of each.
        chosen: values that campaign.toml or the user names; other names are ignored.
        measured: the measured coordinates, (n, n_parameters), by which parameters follow.
    """
    main = RANKS if RANKS in parameters else parameters[0]

    target = []
    for name, value in zip(parameters, largest, strict=True):
        if name in chosen:
            target.append(chosen[name])
        elif name == main:
            farthest = MAX_TARGET_RANKS if name == RANKS else TARGET_FACTOR * value
            target.append(max(min(TARGET_FACTOR * value, farthest), value))
        else:
            target.append(value)

    along = list(parameters).index(main)
    if measured is not None:
        for i, pairs in following_columns(measured, along).items():
            if parameters[i] not in chosen:
                target[i] = follow(pairs, target[along])
    return tuple(map(float, target))


def points_along(point: FloatArray, along: int, at: FloatArray, measured: FloatArray) -> FloatArray:
    """A point at some values of one parameter, with others that changed with it in all runs.

    Args:
        point: (n_parameters,), the values of parameters that did not.
        along: column of the parameter.
        at: its values, (n_values,).
        measured: the measured coordinates, (n, n_parameters).

    Returns:
        (n_values, n_parameters).
    """
    points = np.tile(np.asarray(point, dtype=float), (len(at), 1))
    points[:, along] = at
    for i, pairs in following_columns(measured, along).items():
        points[:, i] = [follow(pairs, value) for value in points[:, along].tolist()]
    return points


def with_followers(
    values: Mapping[str, float], parameters: Sequence[str], measured: FloatArray
) -> dict[str, float]:
    """Values by parameter, with those of parameters that changed with one of them in all runs.

    Args:
        values: of some parameters; other names are kept.
        parameters: of the models.
        measured: the measured coordinates, (n, n_parameters).
    """
    complete = dict(values)
    for along, name in enumerate(parameters):
        if values.get(name, 0.0) > 0:
            for i, pairs in following_columns(measured, along).items():
                complete.setdefault(parameters[i], follow(pairs, values[name]))
    return complete


def following_columns(measured: FloatArray, along: int) -> dict[int, FloatArray]:
    """The parameters that changed with one in all runs: the pairs of values by column.

    Args:
        measured: the measured coordinates, (n, n_parameters).
        along: column of the parameter.
    """
    followers = {}
    for i in range(measured.shape[1]):
        pairs = None if i == along else joint_values(measured[:, [along, i]])
        if pairs is not None:
            followers[i] = pairs
    return followers


def held_columns(measured: FloatArray, along: int) -> list[int]:
    """The parameters that have values of their own along another one: they did not change with it.

    Args:
        measured: the measured coordinates, (n, n_parameters).
        along: column of the other one.
    """
    following = following_columns(measured, along)
    return [i for i in range(measured.shape[1]) if i != along and i not in following]


def joint_values(columns: FloatArray) -> FloatArray | None:
    """The pairs of values of two parameters that changed together, (n_pairs, 2), ascending.

    None where a value of one was measured with several values of the other, where the other one
    moves up and down as the first one grows, or where values are not positive.

    Args:
        columns: their values at all coordinates, (n, 2).
    """
    pairs = np.unique(columns, axis=0)
    counts = [len(np.unique(pairs[:, column])) for column in (0, 1)]
    if not MIN_PAIRS <= len(pairs) == counts[0] == counts[1] or not pairs.min() > 0:
        return None
    steps = np.diff(pairs[:, 1])
    return np.asarray(pairs) if (steps > 0).all() or (steps < 0).all() else None


def follow(pairs: FloatArray, value: float) -> float:
    """The value of the second parameter that goes with one of the first: n = 10 p.

    Args:
        pairs: of values that were measured together, see `joint_values`.
        value: of the first parameter.
    """
    x, y = np.log(pairs).T
    at = np.log(value)
    partner = np.interp(at, x, y)
    if not x[0] <= at <= x[-1]:
        slope, offset = np.polyfit(x, y, 1)
        partner = slope * at + offset
    return float(f"{np.exp(partner):.6g}")  # without the noise of rounding
